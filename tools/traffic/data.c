// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: the bytes of flows. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "traffic.h"

/* The kernel wakes a receiver when this many bytes (at most half a window) are available. */
#define LOWAT_BYTES	(2U << 20)
/* Fewer bytes are one packet, which wakes the receiver once anyway. */
#define LOWAT_LEAST	1400
#define CHUNK_BYTES	(1U << 18)

/* The period of the pattern is prime, so no segment size divides it. */
#define PATTERN_BYTES	1048573U

static unsigned char *pattern;
static uint64_t bytes_done;

/* The array has twice the period, so a chunk may start at any offset. */
void make_pattern(void)
{
	uint64_t x = 1;
	unsigned int i;

	pattern = zeroed(PATTERN_BYTES + CHUNK_BYTES, 1);
	for (i = 0; i < PATTERN_BYTES + CHUNK_BYTES; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		pattern[i] = i < PATTERN_BYTES ? x >> 56 : pattern[i - PATTERN_BYTES];
	}
}

static unsigned int sender_of(const struct flow *f)
{
	return f->conn->end[1].out == f;
}

/* A mark above the number of remaining bytes would never wake the receiver. */
void set_lowat(struct flow *f)
{
	struct end *e = &f->conn->end[!sender_of(f)];
	uint64_t left = f->edge ? message_left(f) : f->bytes - f->received;
	int lowat = left < LOWAT_BYTES ? left : LOWAT_BYTES;

	if (lowat <= LOWAT_LEAST)
		lowat = 1;
	if (e->fd < 0 || lowat == (e->lowat ?: 1))
		return;
	if (setsockopt(e->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die("SO_RCVLOWAT: %s", strerror(errno));
	e->lowat = lowat;
}

void fill(struct flow *f)
{
	unsigned int end = sender_of(f);
	struct end *e = &f->conn->end[end];
	bool full = false;
	ssize_t n;

	if (e->fd < 0)
		return;
	while (f->sent < f->bytes && !full) {
		size_t size = f->bytes - f->sent;

		if (size > CHUNK_BYTES)
			size = CHUNK_BYTES;
		n = send(e->fd, pattern + f->sent % PATTERN_BYTES, size,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			die("flow %u: send: %s", f->id, strerror(errno));
		full = n < (ssize_t)size;
		if (n > 0)
			f->sent += n;
	}
	if (full || !(e->events & EPOLLET))
		ask(f->conn, end, (e->events & ~(EPOLLOUT | EPOLLET)) | (full ? EPOLLOUT : 0));
}

void begin_flow(struct flow *f)
{
	if (!f->conn)
		make_connection(f);
	if (f->conn->open)
		fill(f);
}

static ssize_t drain(struct flow *f, int fd)
{
	static unsigned char buf[CHUNK_BYTES];
	ssize_t n;

	if (!verify)
		return recv(fd, NULL, INT32_MAX, MSG_TRUNC | MSG_DONTWAIT);
	n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n > 0 && memcmp(buf, pattern + f->received % PATTERN_BYTES, n))
		die("flow %u: data differ between bytes %" PRIu64 " and %" PRIu64, f->id,
		    f->received, f->received + n);
	return n;
}

void receive(struct flow *f)
{
	ssize_t n = drain(f, f->conn->end[!sender_of(f)].fd);

	if (n < 0 && errno != EAGAIN)
		die("flow %u: recv: %s", f->id, strerror(errno));
	if (n > 0)
		f->received += n;
	if (f->received > f->bytes || !n)
		die("flow %u: %" PRIu64 " of %" PRIu64 " bytes", f->id, f->received,
		    f->bytes);
	if (n > 0 && !f->endless && !f->rpc)
		bytes_done += n;
	if (!nr_endless && bytes_wanted)
		progress(bytes_done, bytes_wanted);
	if (f->edge)
		edge_received(f, virtual_ns());
	else if (f->received == f->bytes)
		flow_done(f);
	else
		set_lowat(f);
}
