// SPDX-License-Identifier: GPL-2.0
/*
 * Send packets to the sockets of this namespace by a TUN device, and write a transcript: the data
 * that the sockets receive, and the packets that the host sends. Two hosts that process packets in
 * the same way write the same transcript, so it contains no random values and no times. It does not
 * contain our options either, because a host with the modules may add and remove them.
 *
 * In virtual time both hosts choose the same initial sequence numbers: the kernel adds the time of
 * day to a hash of addresses and ports, the key of this hash stays the same until the next boot,
 * and this program sets the clock before each packet. In real time the numbers in the transcript
 * are relative to the initial ones.
 *
 * A line of the transcript:
 *	b N		batch N begins
 *	r ...		the host sends a packet
 *	s NAME ...	a socket receives data, an error or a connection
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "packets.h"

#define BATCH_FRAMES	16
#define ACK_TURNS	3
#define ROUND_BATCHES	24	/* batches between two replacements of all sockets */
#define KINDS		5
#define STEP_NS		100000
#define ENDS		(2 * KINDS)
#define SOCKETS_MAX	(ENDS + 16)

/* Period of the timer wheel. Both hosts start in the same phase of it, so that their timers expire
 * at the same times.
 */
#define PERIOD_NS	655360000000LL

/* Time of day at which both hosts start. */
#define MORNING_S	2000000000
/* Unit in which initial sequence numbers count the time of day. */
#define ISN_STEP_NS	64

/* Maximum receive window, below the initial one, so that the window cannot grow. */
#define WINDOW_CLAMP	60000

struct sock {
	char name[16];
	int fd;
	uint8_t version;
	bool is_tcp;	/* a raw socket that receives TCP segments */
	bool is_listener;
};

static struct sock socks[SOCKETS_MAX];
static uint32_t nr_socks;
static int ends[ENDS];
static int tun, epoll, sniffer = -1;
static uint8_t buf[1 << 17];
static struct frame frame;
static uint64_t batch;
static int64_t clock_ns;	/* virtual time of the current step; 0 in real time */
static int64_t start_ns;

/* ---- The wire ---- */

static void drain(struct maker *m)
{
	ssize_t len;

	while ((len = read(tun, buf, sizeof(buf))) > 10)
		write_reply(m, buf + 10, len - 10);
	while (sniffer >= 0 && recv(sniffer, buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		;
}

/* Set the time of day from the current step. Each read of the virtual clock takes a nanosecond, so
 * otherwise the time of day would depend on the number of reads.
 */
static void set_time_of_day(void)
{
	int64_t ns = (clock_ns - start_ns) / ISN_STEP_NS * ISN_STEP_NS;
	struct timespec now = { MORNING_S + ns / 1000000000, ns % 1000000000 };

	if (clock_ns && clock_settime(CLOCK_REALTIME, &now))
		die("clock_settime");
}

static void put(struct frame *f, bool show)
{
	ssize_t done;

	set_time_of_day();
	/* The device refuses some frames. */
	done = write(tun, f, sizeof(f->vnet) + f->len);
	if (!show)
		return;
	printf("# %s %u flags %u gso %u/%u hdr %u start %u+%u ", done < 0 ? "refused" : "frame",
	       f->len, f->vnet.flags, f->vnet.gso_type, f->vnet.gso_size, f->vnet.hdr_len,
	       f->vnet.csum_start, f->vnet.csum_offset);
	for (uint32_t i = 0; i < f->len && i < 300; i++)
		printf("%02x", f->data[i]);
	printf("\n");
}

/* Wait, in virtual time. The wait ends at an absolute time. In virtual time a program takes no
 * time, except one nanosecond for each read of the clock, so the clocks of both hosts stay within
 * the same microsecond.
 */
static void wait_ns(int64_t ns)
{
	struct timespec until;

	if (!clock_ns)
		return;
	clock_ns += ns;
	until = (struct timespec){ clock_ns / 1000000000, clock_ns % 1000000000 };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Wait before the next batch; in virtual time until all timers of this batch have expired. */
static void settle(struct maker *m, const struct options *o)
{
	const struct timespec pause = { .tv_nsec = o->settle_ms * 1000000LL };

	wait_ns(pause.tv_nsec);
	if (!clock_ns)
		nanosleep(&pause, NULL);
	drain(m);
}

/* ---- Sockets ---- */

static int add_sock(const char *name, uint32_t nr, int fd, uint8_t version)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = nr_socks };
	struct sock *sock = &socks[nr_socks++];

	if (fd < 0 || nr_socks > SOCKETS_MAX || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die(name);
	memset(sock, 0, sizeof(*sock));
	snprintf(sock->name, sizeof(sock->name), "%s%u.%u", name, nr, version);
	sock->fd = fd;
	sock->version = version;
	return fd;
}

static int open_sock(uint8_t version, int type, int proto)
{
	int fd = socket(version == 4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK, proto);
	int one = 1, room = 1 << 24;

	if (fd < 0)
		die("socket");
	if (version == 6 && type != SOCK_RAW)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (type == SOCK_STREAM) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	} else {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	}
	return fd;
}

static void bind_to(int fd, uint8_t version, const uint8_t *addr, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	if (addr && version == 4)
		memcpy(&in.sin_addr, addr, 4);
	else if (addr)
		memcpy(&in6.sin6_addr, addr, 16);
	if (version == 4 ? bind(fd, (void *)&in, sizeof(in)) : bind(fd, (void *)&in6, sizeof(in6)))
		die("bind");
}

static void set_cc(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		die(name);
}

static int listen_on(uint8_t version, uint16_t port, const char *cc)
{
	int fd = add_sock("listener", port, open_sock(version, SOCK_STREAM, 0), version);

	set_cc(fd, cc);
	bind_to(fd, version, NULL, port);
	if (listen(fd, 4096))
		die("listen");
	socks[nr_socks - 1].is_listener = true;
	return fd;
}

/* Raw sockets receive TCP segments only in some rounds, and the sniffer runs only in other rounds:
 * both hold clones, and a segment with clones is a different test case from a segment without.
 */
static void open_raw(uint8_t version, bool tcp)
{
	add_sock("raw", 253, open_sock(version, SOCK_RAW, 253), version);
	if (!tcp)
		return;
	add_sock("raw", 6, open_sock(version, SOCK_RAW, 6), version);
	socks[nr_socks - 1].is_tcp = true;
}

static void open_udp(uint8_t version)
{
	static const uint16_t ports[] = { PORT_UDP, PORT_FILTERED };

	for (int i = 0; i < 2; i++)
		bind_to(add_sock("udp", ports[i], open_sock(version, SOCK_DGRAM, 0), version),
			version, NULL, ports[i]);
}

/* ---- Connections ---- */

static bool has_ended(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_state == TCP_CLOSE;
}

static uint32_t syn_options(uint8_t *p, const struct flow *flow, bool ours)
{
	static const uint8_t head[] = { 2, 4, 5, 180, 1, 3, 3, 3, 4, 2 };
	static const uint8_t option[] = { 253, 6, 0x48, 0x43, 0x10, 0x19, 1, 1 };
	uint32_t len = sizeof(head);

	memcpy(p, head, len);
	memset(p + len, 1, 2);
	len += 2;
	if (flow->has_ts)
		len += write_timestamps(p + len, flow, flow->tsval);
	if (ours) {
		memcpy(p + len, option, sizeof(option));
		len += sizeof(option);
	}
	return len;
}

static void say(struct maker *m, struct flow *flow, uint8_t flags, bool ours)
{
	uint8_t opts[40];
	uint32_t len = 0;

	if (flags & TCP_SYN)
		len = syn_options(opts, flow, ours);
	else if (flow->has_ts)
		len = write_timestamps(opts, flow, get32(flow->ts + 2));
	aim_segment(&frame, flow, flags, opts, len);
	put(&frame, false);
	drain(m);
}

/* Set two values that may differ between correct hosts. The first is the start of the TCP
 * timestamps: it is even, because an odd value selects timestamps in microseconds. TCP_REPAIR
 * clears SO_REUSEADDR, so it is set again. The second is the advertised window, which can depend on
 * the memory of segments. With this clamp it does not, because the receive buffer has space for a
 * whole batch.
 */
static void make_alike(int fd, struct flow *flow)
{
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP, value = flow->irs + 1000000, one = 1;
	int clamp = WINDOW_CLAMP;

	if (setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp)))
		die("TCP_WINDOW_CLAMP");
	if (!flow->has_ts)
		return;
	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, &value, sizeof(value)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		die("TCP_TIMESTAMP");
	put32(flow->ts + 6, value);
}

static int passive(struct maker *m, struct flow *flow, int listener, bool ours)
{
	int fd;

	say(m, flow, TCP_SYN, ours);
	if (!flow->isn)
		die("no SYN-ACK");
	flow->known = true;
	say(m, flow, TCP_ACK, false);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	if (fd < 0)
		die("accept");
	make_alike(fd, flow);
	return fd;
}

static int active(struct maker *m, struct flow *flow, const char *cc)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(flow->sport) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(flow->sport) };
	int fd = open_sock(flow->version, SOCK_STREAM, 0);

	set_cc(fd, cc);
	bind_to(fd, flow->version, flow->daddr, flow->dport);
	memcpy(&in.sin_addr, flow->saddr, 4);
	memcpy(&in6.sin6_addr, flow->saddr, 16);
	set_time_of_day();
	if (flow->version == 4)
		connect(fd, (void *)&in, sizeof(in));
	else
		connect(fd, (void *)&in6, sizeof(in6));
	drain(m);
	if (!flow->isn)
		die("no SYN");
	flow->known = true;
	flow->seq = flow->irs;
	say(m, flow, TCP_SYN | TCP_ACK, true);
	make_alike(fd, flow);
	return fd;
}

static void address(uint8_t *p, uint8_t version, uint32_t dev, uint32_t host)
{
	memset(p, 0, 16);
	if (version == 4) {
		p[0] = 10;
		p[1] = 9 - dev;
		p[3] = host;
	} else {
		p[0] = 0xfd;
		p[1] = 9 - dev;
		p[15] = host;
	}
}

/* Set up a connection. If its TCP header is parsed as an IPv6 extension header, the source port is
 * a protocol and a length.
 */
static void set_flow(struct flow *flow, uint32_t kind, uint8_t version, uint32_t round)
{
	static const uint8_t protocols[KINDS] = { 17, 58, 6, 17, 6 };

	memset(flow, 0, sizeof(*flow));
	flow->version = version;
	address(flow->daddr, version, round & 1, 1);
	address(flow->saddr, version, round & 1, 2 + round % 240);
	flow->sport = protocols[kind] << 8 | (32 + (round * KINDS + kind) % 64);
	flow->dport = kind == 3 ? PORT_OTHER : kind == 4 ? 0x1e50 + round % 64 : PORT_HPCC;
	flow->has_ts = kind != 1;
	flow->agreed = kind != 2 && kind != 3;
	flow->tsval = 1000;
	flow->seq = 0x10000000 * (kind + 1);
	flow->irs = flow->seq;
	flow->window = 20000;
}

static void begin_round(struct maker *m, const struct options *o, const int tuns[2], uint32_t round)
{
	tun = tuns[round & 1];
	epoll = epoll_create1(0);
	m->nr_flows = 0;
	m->nr_parts = 0;
	nr_socks = 0;
	address(m->daddr4, 4, round & 1, 1);
	address(m->daddr6, 6, round & 1, 1);
	address(m->saddr4, 4, round & 1, 250);
	address(m->saddr6, 6, round & 1, 250);
	m->port = PORT_HPCC;
	/* A round uses the sniffer, or raw sockets for TCP, or none of these sockets. */
	if (round % 4 == 2)
		sniffer = socket(AF_PACKET, SOCK_RAW, htons(3));
	for (uint8_t version = 4; version <= 6; version += 2) {
		int hpcc = listen_on(version, PORT_HPCC, o->cc);
		int other = listen_on(version, PORT_OTHER, "reno");

		listen_on(version, PORT_FILTERED, o->cc);
		open_udp(version);
		open_raw(version, round % 4 == 3);
		for (uint32_t kind = 0; kind < KINDS; kind++) {
			struct flow *flow = &m->flows[m->nr_flows];
			int *fd = &ends[m->nr_flows++];

			set_flow(flow, kind, version, round);
			flow->scale = o->scale;
			*fd = kind == 4 ? active(m, flow, o->cc) :
			      passive(m, flow, kind == 3 ? other : hpcc, kind != 2);
			add_sock("tcp", kind, *fd, version);
		}
	}
	settle(m, o);
}

/* Send a segment of data on a random connection if the peer has acknowledged all earlier data. */
static void write_some(struct maker *m, int flags)
{
	uint32_t i = below(&m->rng, m->nr_flows), len = 1 + below(&m->rng, 300);
	int queued = 0;

	if (!ioctl(ends[i], SIOCOUTQ, &queued) && !queued) {
		memset(buf, 'h', len);
		send(ends[i], buf, len, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
	}
}

/* The peer acknowledges all data before the host closes: in 6.12, unlike 6.1, a FIN waits for cwnd
 * (tcp_cwnd_test()), and hpcc and Reno have different values of cwnd. There are several turns,
 * because the sequence numbers of an ACK may depend on the answer to the previous ACK.
 */
static void acknowledge(struct maker *m, const struct options *o)
{
	int queued;

	for (int turn = 0; turn < ACK_TURNS; turn++) {
		for (uint32_t i = 0; i < m->nr_flows; i++)
			if (!has_ended(ends[i]) && !ioctl(ends[i], SIOCOUTQ, &queued) && queued)
				say(m, &m->flows[i], TCP_ACK, false);
		settle(m, o);
	}
}

static void end_round(struct maker *m, const struct options *o)
{
	acknowledge(m, o);
	/* Because of MSG_MORE this segment waits, and leaves with the FIN. */
	write_some(m, MSG_MORE);
	for (uint32_t i = 0; i < nr_socks; i++)
		close(socks[i].fd);
	close(epoll);
	if (sniffer >= 0)
		close(sniffer);
	sniffer = -1;
	settle(m, o);
}

/* ---- Data that sockets receive ---- */

static void read_tcp(struct maker *m, const struct sock *sock, const uint8_t *p, uint32_t len,
		     const struct sockaddr_in6 *from)
{
	if (sock->version == 4) {
		uint32_t at = (p[0] & 15) * 4;

		write_tcp(m, 4, p + 12, p + 16, p + at, len - at, false);
	} else {
		write_tcp(m, 6, from->sin6_addr.s6_addr, m->daddr6, p, len, false);
	}
}

static void read_sock(struct maker *m, struct sock *sock)
{
	struct sockaddr_in6 from = {};
	socklen_t size = sizeof(from);
	ssize_t len;

	if (sock->is_listener) {
		printf("s %s accepts\n", sock->name);
		close(accept(sock->fd, NULL, NULL));
		return;
	}
	len = recvfrom(sock->fd, buf, sizeof(buf), MSG_DONTWAIT, (void *)&from, &size);
	if (len < 0 && errno == EAGAIN)
		return;
	printf("s %s", sock->name);
	if (len < 0)
		printf(" error %d\n", errno);
	else if (sock->is_tcp)
		read_tcp(m, sock, buf, len, &from);
	else
		printf(" %zd %08x\n", len, hash(buf, len));
	if (len <= 0 && !strncmp(sock->name, "tcp", 3))
		epoll_ctl(epoll, EPOLL_CTL_DEL, sock->fd, NULL);
}

/* Read the sockets that are ready, in the order of socks[]. */
static void read_socks(struct maker *m)
{
	struct epoll_event events[SOCKETS_MAX];
	bool ready[SOCKETS_MAX];
	int nr;

	while ((nr = epoll_wait(epoll, events, SOCKETS_MAX, 0)) > 0) {
		memset(ready, 0, sizeof(ready));
		for (int i = 0; i < nr; i++)
			ready[events[i].data.u32] = true;
		for (uint32_t i = 0; i < nr_socks; i++)
			if (ready[i])
				read_sock(m, &socks[i]);
	}
}

/* ---- Batches ---- */

/* Probes have their own frame: aim_frame() may reuse bytes of the last frame that it made. */
static struct frame probe;

/* The peer has acknowledged all packets in flight, so the sequence numbers of a probe are known. */
static void send_probe(struct maker *m, const struct options *o)
{
	for (uint32_t i = 0; i < m->nr_flows; i++)
		m->flows[i].ended = has_ended(ends[i]);
	if (aim_carrier(m, &probe, strcmp(o->cc, "hpcc")))
		put(&probe, o->show == batch);
	wait_ns(STEP_NS);
	drain(m);
}

static void run_batch(struct maker *m, const struct options *o, uint32_t count)
{
	printf("b %" PRIu64 "\n", ++batch);
	for (uint32_t i = 0; i < m->nr_flows; i++)
		m->flows[i].tsval += 250;
	write_some(m, 0);
	for (uint32_t i = 0; i < count; i++) {
		if (i % 4 == 0) {
			wait_ns(STEP_NS);
			drain(m);
			if (o->carriers && !m->nr_parts)
				send_probe(m, o);
		}
		aim_frame(m, &frame);
		put(&frame, o->show == batch);
	}
	write_some(m, 0);
	settle(m, o);
	read_socks(m);
}

static void start_clock(struct maker *m, const struct options *o)
{
	struct timespec now;

	prctl(PR_SET_TIMERSLACK, 1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (o->settle_ms >= 100)
		clock_ns = ((now.tv_sec + 20) * 1000000000LL / PERIOD_NS + 1) * PERIOD_NS + 5500000;
	start_ns = clock_ns;
	m->same_isns = clock_ns;
}

int deliver_main(struct maker *m, const struct options *o)
{
	uint64_t done = 0;
	uint32_t round = 0;
	int tuns[2];

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	if (sscanf(o->tun, "%d,%d", &tuns[0], &tuns[1]) != 2)
		die("--tun FD,FD");
	m->quiet = true;
	tun = tuns[0];
	start_clock(m, o);
	settle(m, o);
	while (done < o->count) {
		if (batch % ROUND_BATCHES == 0) {
			if (batch)
				end_round(m, o);
			begin_round(m, o, tuns, round++);
		}
		run_batch(m, o, BATCH_FRAMES);
		done += BATCH_FRAMES;
	}
	end_round(m, o);
	fflush(stdout);
	return 0;
}
