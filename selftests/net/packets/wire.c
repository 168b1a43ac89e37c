// SPDX-License-Identifier: GPL-2.0
/*
 * Send the same frames over two paths. Only one path has a port with our qdisc; otherwise the paths
 * are equal. Compare the arriving frames one by one. So the test does not depend on how a kernel
 * handles invalid frames.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/if_packet.h>

#include "packets.h"

/* The marker ends a batch: an IPv4 packet of an experimental protocol (RFC 3692) that contains 8
 * bytes and the number of the batch. Routers forward it.
 */
#define MARKER		"batch is"
#define MARKER_PROTO	253
#define MARKER_LEN	60

/* Maximum time to wait for a frame. */
#define PATIENCE_MS	5000

/* Maximum number of frames that arrive per batch: GSO packets are segmented. */
#define ARRIVALS_MAX	20000

struct arrival {
	uint32_t at, len;
	uint32_t partial;	/* see judge() */
};

/* One of the two paths. */
struct path {
	int tx, rx;
	struct arrival arrivals[ARRIVALS_MAX];
	uint32_t nr;
	uint8_t *bytes;
	uint32_t used, size;
	bool done;
};

static struct path paths[2];
static struct frame frames[BATCH];

/* Insert the VLAN tag that the device removed. Returns the frame's length. */
static uint32_t take_tag(uint8_t *p, uint32_t len, struct msghdr *msg, uint32_t *partial)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct tpacket_auxdata aux;

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID))
			continue;
		memmove(p + 16, p + 12, len - 12);
		put16(p + 12, aux.tp_vlan_tpid);
		put16(p + 14, aux.tp_vlan_tci);
		*partial += *partial ? 4 : 0;
		len += 4;
	}
	return len;
}

/* Whether a frame is a test frame. Hosts and routers also send other frames. */
static bool is_ours(const struct maker *m, const uint8_t *p, uint32_t len)
{
	if (m->bare)
		return true;
	return len >= 14 && (m->routed ? !memcmp(p, "\2\0\0\0\0\2", 6) : !memcmp(p, m->mac, 12));
}

static void take(struct maker *m, struct path *path, uint32_t len, uint32_t partial,
		 uint32_t number)
{
	uint8_t *p = path->bytes + path->used;
	const uint8_t *ip = p + (m->bare ? 0 : 14);

	if (len == MARKER_LEN && ip[9] == MARKER_PROTO && !memcmp(ip + 20, MARKER, 8)) {
		path->done |= get32(ip + 28) == number;
		return;
	}
	if (!is_ours(m, p, len))
		return;
	if (path->nr == ARRIVALS_MAX)
		die("more packets arrived than were sent");
	path->arrivals[path->nr++] = (struct arrival){ path->used, len, partial };
	path->used += (len + 15) & ~15U;
}

/* Receive a frame from a socket. Returns 0 for a frame that the device transmits. */
static ssize_t receive_socket(int fd, uint8_t *p, uint32_t *partial)
{
	char control[256];
	struct sockaddr_ll from;
	struct virtio_net_hdr vnet;
	struct iovec iov[2] = { { &vnet, sizeof(vnet) }, { p, 2 * FRAME_MAX } };
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from),
		.msg_iov = iov, .msg_iovlen = 2,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t len = recvmsg(fd, &msg, MSG_DONTWAIT);

	/* A vnet header cannot describe all GSO packets, for example GSO packets of UDP. */
	if (len < 0 && errno == EINVAL)
		return 0;
	len -= sizeof(vnet);
	if (len <= 0)
		return len;
	if (vnet.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
		*partial = vnet.csum_start + vnet.csum_offset;
	return from.sll_pkttype == PACKET_OUTGOING ? 0 : take_tag(p, len, &msg, partial);
}

/* Receive all frames that have arrived, into the rest of the buffer. */
static void receive(struct maker *m, struct path *path, uint32_t number)
{
	for (;;) {
		uint32_t partial = 0;
		ssize_t len;

		if (path->size - path->used < 2 * FRAME_MAX) {
			path->size = path->size * 2 + (1 << 20);
			path->bytes = realloc(path->bytes, path->size);
			if (!path->bytes)
				die("no memory");
		}
		/* A TUN device without offloads completes all checksums. */
		len = m->bare ? read(path->rx, path->bytes + path->used, 2 * FRAME_MAX) :
			receive_socket(path->rx, path->bytes + path->used, &partial);
		if (len < 0) {
			if (errno == EAGAIN)
				return;
			die("receiving a packet");
		}
		if (len)
			take(m, path, len, partial, number);
	}
}

/* Forget the frames of the last batch. */
static void reset(struct path *path)
{
	path->nr = 0;
	path->used = 0;
	path->done = false;
}

static void wait_for(struct maker *m, struct path *path, uint32_t number)
{
	struct pollfd pfd = { .fd = path->rx, .events = POLLIN };

	reset(path);
	for (;;) {
		receive(m, path, number);
		if (path->done)
			return;
		if (poll(&pfd, 1, PATIENCE_MS) < 1) {
			errno = 0;
			die(path == paths ? "the port lost the last packet of a batch" :
			    "the reference path lost the last packet of a batch");
		}
	}
}

/* Make the marker that follows a batch on both paths. */
static void make_marker(const struct maker *m, struct frame *f, uint32_t number)
{
	uint32_t at = m->bare ? 0 : 14;
	uint8_t *ip = f->data + at;

	memset(f, 0, sizeof(f->vnet));
	memset(f->data, 0, MARKER_LEN);
	if (!m->bare) {
		memcpy(f->data, m->mac, 12);
		put16(f->data + 12, 0x0800);
	}
	ip[0] = 0x45;
	put16(ip + 2, MARKER_LEN - at);
	ip[8] = 64;
	ip[9] = MARKER_PROTO;
	memcpy(ip + 12, m->saddr4, 4);
	memcpy(ip + 16, m->daddr4, 4);
	ip4_sum(ip);
	memcpy(ip + 20, MARKER, 8);
	put32(ip + 28, number);
	f->len = MARKER_LEN;
}

static void show(const char *what, const uint8_t *p, uint32_t len)
{
	printf("%s %u bytes ", what, len);
	for (uint32_t i = 0; i < len && i < 200; i++)
		printf("%02x", p[i]);
	printf("\n");
}

/* Returns 1 if a frame differs in a way that is not allowed, or if the numbers of frames differ;
 * otherwise 0.
 */
static uint32_t compare(const struct options *o, struct tally *tally, uint64_t done)
{
	struct path *dut = &paths[0], *other = &paths[1];

	for (uint32_t i = 0; i < dut->nr && i < other->nr; i++) {
		const struct arrival *a = &dut->arrivals[i], *b = &other->arrivals[i];
		const uint8_t *got = dut->bytes + a->at;
		const uint8_t *want = other->bytes + b->at;
		const char *why = a->len != b->len ? "wrong length" :
			judge(&o->rules, want, got, a->len, a->partial, tally);

		if (!why)
			continue;
		printf("frames from %" PRIu64 ": %s\n", done, why);
		show("want", want, b->len);
		show("got ", got, a->len);
		/* If a frame is missing, all later frames also differ: stop here. */
		return 1;
	}
	if (dut->nr == other->nr)
		return 0;
	printf("frames from %" PRIu64 ": %u arrived, %u on the reference path\n", done, dut->nr,
	       other->nr);
	return 1;
}

/* Open the devices "A,B". */
static void open_pair(const char *names, int protocol, int fds[2])
{
	char buf[64];
	char *second;

	snprintf(buf, sizeof(buf), "%s", names);
	second = strchr(buf, ',');
	if (!second)
		die("needs two devices");
	*second++ = 0;
	fds[0] = open_packet(buf, protocol);
	fds[1] = open_packet(second, protocol);
}

static void open_paths(const struct options *o)
{
	int ns = o->tun ? -1 : open(o->rx_ns, O_RDONLY);
	int tx[2], rx[2], one = 1;

	/* A socket stays in the network namespace in which it was opened. */
	open_pair(o->tx, 0, tx);
	if (o->tun) {
		if (sscanf(o->tun, "%d,%d", &rx[0], &rx[1]) != 2)
			die("--tun FD,FD");
	} else {
		if (ns < 0 || setns(ns, CLONE_NEWNET))
			die(o->rx_ns);
		open_pair(o->rx, 3, rx);
	}
	for (int i = 0; i < 2; i++) {
		paths[i].tx = tx[i];
		paths[i].rx = rx[i];
		if (setsockopt(tx[i], SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
		    (!o->tun && setsockopt(rx[i], SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one))) ||
		    (!o->tun && setsockopt(rx[i], SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one))))
			die("setsockopt");
	}
}

/* Use one CPU: several CPUs could reorder the frames. */
static void stay_here(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

/* Send markers until a marker and all frames before it have arrived: the port also drops markers.
 */
static uint64_t mark_end(struct maker *m, struct path *path, uint32_t number, uint64_t *dropped)
{
	struct pollfd pfd = { .fd = path->rx, .events = POLLIN };
	uint64_t sent = 0;

	make_marker(m, &frames[0], number);
	for (int i = 0; i < PATIENCE_MS && !path->done; i++) {
		sent += send_frames(path->tx, frames, 1, dropped);
		while (!path->done && poll(&pfd, 1, 5) > 0)
			receive(m, path, number);
	}
	if (!path->done)
		die("no packet leaves the port");
	return sent;
}

/* Send frames to a port that has no space for all frames. Compare only the port's counters. */
static int lossy_main(struct maker *m, const struct options *o)
{
	uint64_t done = 0, taken = 0, dropped = 0, arrived = 0;
	struct path *path = &paths[0];
	uint32_t number = 0;

	while (done < o->count) {
		uint32_t nr = make_frames(m, frames, o->count - done, BATCH);

		reset(path);
		taken += send_frames(path->tx, frames, nr, &dropped);
		taken += mark_end(m, path, ++number, &dropped);
		arrived += path->nr;
		done += nr;
	}
	printf("seed %" PRIu64 " frames %" PRIu64 " taken %" PRIu64 " dropped %" PRIu64
	       " arrived %" PRIu64 "\n", o->seed, done, taken, dropped, arrived);
	return 0;
}

int wire_main(struct maker *m, const struct options *o)
{
	struct tally tally = {};
	uint64_t done = 0, sent = 0;
	uint32_t number = 0, wrong = 0;

	stay_here();
	open_paths(o);
	if (o->lossy)
		return lossy_main(m, o);
	while (done < o->count && wrong < 5) {
		uint32_t nr = make_frames(m, frames, o->count - done, BATCH - 1);

		make_marker(m, &frames[nr], ++number);
		sent += send_frames(paths[0].tx, frames, nr + 1, NULL) - 1;
		send_frames(paths[1].tx, frames, nr + 1, NULL);
		wait_for(m, &paths[0], number);
		wait_for(m, &paths[1], number);
		wrong += compare(o, &tally, done);
		done += nr;
	}
	printf("seed %" PRIu64 " frames %" PRIu64 " taken %" PRIu64 " arrived %" PRIu64
	       " same %" PRIu64 " stamped %" PRIu64 " counted %" PRIu64 " marked %" PRIu64
	       " markers %u wrong %u\n", o->seed, done, sent, tally.arrived, tally.same,
	       tally.stamped, tally.counted, tally.marked, number, wrong);
	return wrong ? 1 : 0;
}
