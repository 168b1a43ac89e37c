// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-traffic: the flows and the measurements of one scenario of hpcc-lab.
 *
 *	hpcc-traffic prepare PLAN	write the namespaces' sysctls
 *	hpcc-traffic run PLAN OUT	run the flows, write JSON lines to OUT
 *
 * One thread serves every namespace, as each socket keeps the namespace it was
 * made in. A system call costs 100 us of real time in User Mode Linux and no
 * virtual time at all, so there are few of them per megabyte: senders keep a
 * large buffer filled, receivers wait under a large SO_RCVLOWAT and then
 * discard, one message asks for all ports of a switch. A call that fails does
 * cost virtual time, 1 us in which nothing else happens: 32 packets at
 * 400 Gb/s. So nothing is tried until EAGAIN.
 *
 * All connections are made before time zero; a flow's bytes are first written
 * at its start time. Its completion time ends when the receiver has them all.
 *
 * The plan, one item per line, times in ns after time zero:
 *	ns NAME PATH
 *	sysctl NS PATH VALUE...
 *	wait NS INTERFACE			until it is running
 *	port ID NS INTERFACE SERIES		SERIES 0 or 1: draw it over time
 *	flow ID FROM TO SADDR DADDR PORT BYTES START CC		BYTES 0: endless
 *	interval|from|until|deadline NS	until 0: when the first flow ends;
 *					endless flows last until then
 *	verify 0|1
 * Each port's egress has an hpcc qdisc with the handle 10:.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

/* A receiver is woken when this much is there; half a window at most. */
#define LOWAT_BYTES	(2U << 20)
#define RCVBUF_BYTES	(64 << 20)
#define SNDBUF_BYTES	(8 << 20)
/* They are kept full: of all flows together, so that memory suffices. */
#define SNDBUF_TOTAL	(512U << 20)
#define CHUNK_BYTES	(1U << 18)

/* Beyond that, every second sample is dropped and the interval doubled. */
#define SAMPLES_MAX	1024

/* Open files: 1,000 flows have two each. */
#define FILES_MAX	4096

/* Time from the last handshake to time zero: its packets have drained. */
#define SETTLE_NS	1000000ULL

/* The pattern's period; prime, so that no segment size divides it. */
#define PATTERN_BYTES	1048573U

struct sample {
	uint64_t	t_ns;
	uint64_t	*values;	/* queue and tx of each series port, then flows */
};

struct netns *netns;
struct port *ports;
struct flow *flows;
unsigned int nr_netns, nr_ports, nr_flows, nr_endless, nr_series;
static struct sample samples[SAMPLES_MAX];
static unsigned int nr_samples;
static struct tc_hpcc_xstats *at_from, *at_until, *at_end;
uint64_t interval_ns, from_ns, until_ns, deadline_ns;
static uint64_t from_taken_ns, until_taken_ns;
static bool have_from, have_until;
bool verify;
static unsigned char *pattern;
static uint64_t zero_ns;		/* CLOCK_MONOTONIC at time zero */
static unsigned int nr_open, nr_undone;
uint64_t bytes_wanted;
static uint64_t bytes_done;
static int epoll_fd, timer_fd;

void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "hpcc-traffic: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* ---- connections ------------------------------------------------------------ */

static int flow_socket(const struct flow *f, unsigned int ns)
{
	int rcvbuf = RCVBUF_BYTES, sndbuf = SNDBUF_TOTAL / nr_flows, one = 1, fd;

	if (sndbuf > SNDBUF_BYTES)
		sndbuf = SNDBUF_BYTES;
	enter(ns);
	fd = socket(f->saddr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, f->cc, strlen(f->cc)))
		die("congestion control %s: %s", f->cc, strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf)))
		die("setsockopt: %s", strerror(errno));
	return fd;
}

static void watch(int fd, int op, uint32_t events, unsigned int index, bool receiver)
{
	struct epoll_event ev = {
		.events = events,
		.data.u64 = 2 * (uint64_t)index + receiver,
	};

	if (epoll_ctl(epoll_fd, op, fd, &ev))
		die("epoll: %s", strerror(errno));
}

/* With a mark higher than what is still to come the receiver would sleep on. */
static void set_lowat(struct flow *f)
{
	uint64_t left = f->bytes - f->received;
	int lowat = left < LOWAT_BYTES ? left : LOWAT_BYTES;

	if (!lowat || lowat == f->lowat)
		return;
	if (setsockopt(f->rx, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die("SO_RCVLOWAT: %s", strerror(errno));
	f->lowat = lowat;
}

static void connect_flow(unsigned int index)
{
	struct flow *f = &flows[index];
	socklen_t len = f->saddr.ss_family == AF_INET ?
			sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	struct timeval patience = { .tv_sec = 10 };
	int listener;

	listener = flow_socket(f, f->to);
	if (bind(listener, (void *)&f->daddr, len) || listen(listener, 1))
		die("flow %u: listen: %s", f->id, strerror(errno));
	f->tx = flow_socket(f, f->from);
	if (bind(f->tx, (void *)&f->saddr, len))
		die("flow %u: bind: %s", f->id, strerror(errno));
	setsockopt(f->tx, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(f->tx, (void *)&f->daddr, len))
		die("flow %u: connect: %s", f->id,
		    errno == EINPROGRESS ? "no answer in 10 s" : strerror(errno));
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	f->rx = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (f->rx < 0)
		die("flow %u: accept: %s", f->id, strerror(errno));
	close(listener);
	fcntl(f->tx, F_SETFL, O_NONBLOCK);
	set_lowat(f);
	watch(f->rx, EPOLL_CTL_ADD, EPOLLIN, index, true);
	watch(f->tx, EPOLL_CTL_ADD, 0, index, false);
}

/* ---- data --------------------------------------------------------------------- */

/* Twice the period, so that a chunk may begin anywhere in it. */
static void make_pattern(void)
{
	uint64_t x = 1;
	unsigned int i;

	pattern = malloc(PATTERN_BYTES + CHUNK_BYTES);
	if (!pattern)
		die("out of memory");
	for (i = 0; i < PATTERN_BYTES + CHUNK_BYTES; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		pattern[i] = i < PATTERN_BYTES ? x >> 56 : pattern[i - PATTERN_BYTES];
	}
}

static void fill(unsigned int index)
{
	struct flow *f = &flows[index];
	bool full = false;
	ssize_t n;

	while (f->sent < f->bytes && !full) {
		size_t size = f->bytes - f->sent;

		if (size > CHUNK_BYTES)
			size = CHUNK_BYTES;
		n = send(f->tx, pattern + f->sent % PATTERN_BYTES, size, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			die("flow %u: send: %s", f->id, strerror(errno));
		full = n < (ssize_t)size;
		if (n > 0)
			f->sent += n;
	}
	if (full != f->writing)
		watch(f->tx, EPOLL_CTL_MOD, full ? EPOLLOUT : 0, index, false);
	f->writing = full;
	if (f->sent == f->bytes)
		shutdown(f->tx, SHUT_WR);
}

static ssize_t drain(struct flow *f)
{
	static unsigned char buf[CHUNK_BYTES];
	ssize_t n;

	if (!verify)
		return recv(f->rx, NULL, INT32_MAX, MSG_TRUNC | MSG_DONTWAIT);
	n = recv(f->rx, buf, sizeof(buf), MSG_DONTWAIT);
	if (n > 0 && memcmp(buf, pattern + f->received % PATTERN_BYTES, n))
		die("flow %u: data differ between bytes %" PRIu64 " and %" PRIu64, f->id,
		    f->received, f->received + n);
	return n;
}

/* In steps of 5 %, by what is the last to be complete: bytes, or time. */
static void progress(uint64_t done, uint64_t wanted)
{
	static uint64_t before;
	uint64_t step = wanted ? done * 20 / wanted : 0;

	if (step > before && step <= 20)
		fprintf(stderr, "progress %" PRIu64 "\n", 5 * step);
	before = step;
}

static void receive(struct flow *f)
{
	uint64_t before = f->received;
	ssize_t n;

	n = drain(f);
	if (n < 0 && errno != EAGAIN)
		die("flow %u: recv: %s", f->id, strerror(errno));
	if (n > 0)
		f->received += n;
	if (f->received > f->bytes || (!n && f->received < f->bytes))
		die("flow %u: %" PRIu64 " of %" PRIu64 " bytes", f->id, f->received,
		    f->bytes);
	if (!f->endless)
		bytes_done += f->received - before;
	if (!nr_endless)
		progress(bytes_done, bytes_wanted);
	if (f->received == f->bytes && !f->done) {
		f->done = true;
		f->done_ns = now_ns() - zero_ns;
		nr_undone--;
	}
	if (!n) {
		close(f->rx);
		f->rx = -1;
	} else if (!f->done) {
		set_lowat(f);
	}
}

static void read_info(struct flow *f)
{
	socklen_t len = sizeof(f->info);

	if (getsockopt(f->tx, IPPROTO_TCP, TCP_INFO, &f->info, &len))
		die("flow %u: TCP_INFO: %s", f->id, strerror(errno));
}

/* The peer closed: everything was acknowledged, the counters are final. */
static void finish(struct flow *f)
{
	read_info(f);
	close(f->tx);
	f->tx = -1;
	f->closed = true;
	nr_open--;
}

/* ---- measurement ------------------------------------------------------------ */

static void halve_samples(void)
{
	unsigned int i;

	for (i = 0; i < nr_samples; i++) {
		if (i & 1)
			free(samples[i].values);
		else
			samples[i / 2] = samples[i];
	}
	nr_samples = (nr_samples + 1) / 2;
	interval_ns *= 2;
}

static void take_sample(uint64_t t_ns)
{
	static struct tc_hpcc_xstats *readings;
	unsigned int i, n = 0;
	struct sample *s;

	if (!readings)
		readings = calloc(nr_ports, sizeof(*readings));
	if (nr_samples == SAMPLES_MAX)
		halve_samples();
	if (t_ns % interval_ns)
		return;
	s = &samples[nr_samples++];
	s->t_ns = t_ns;
	s->values = calloc(2 * nr_series + nr_flows, sizeof(*s->values));
	if (!s->values || !readings)
		die("out of memory");
	read_ports(readings, true);
	for (i = 0; i < nr_ports; i++) {
		if (!ports[i].series)
			continue;
		s->values[n++] = readings[i].qlen_bytes;
		s->values[n++] = readings[i].tx_bytes;
	}
	for (i = 0; i < nr_flows; i++) {
		int waiting = 0;

		if (flows[i].started && !flows[i].done)
			ioctl(flows[i].rx, FIONREAD, &waiting);
		s->values[n++] = flows[i].received + waiting;
	}
}

static void measure(uint64_t t_ns)
{
	if (!have_from && t_ns >= from_ns) {
		read_ports(at_from, false);
		from_taken_ns = t_ns;
		have_from = true;
	}
	if (have_from && !have_until &&
	    (until_ns ? t_ns >= until_ns || !nr_undone : nr_undone < nr_flows)) {
		read_ports(at_until, false);
		until_taken_ns = t_ns;
		have_until = true;
	}
}

/* ---- the run ------------------------------------------------------------------ */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void arm_timer(uint64_t next_sample)
{
	uint64_t next = deadline_ns;
	struct itimerspec its = {};
	unsigned int i;

	if (nr_undone)
		next = earlier(next, next_sample);
	if (!have_from)
		next = earlier(next, from_ns);
	else if (!have_until && until_ns)
		next = earlier(next, until_ns);
	for (i = 0; i < nr_flows; i++)
		if (!flows[i].started)
			next = earlier(next, flows[i].start_ns);
	/* An absolute time that has passed expires at once. */
	next += zero_ns;
	its.it_value.tv_sec = next / NSEC_PER_SEC;
	its.it_value.tv_nsec = next % NSEC_PER_SEC;
	if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &its, NULL))
		die("timerfd: %s", strerror(errno));
}

static void start_due(uint64_t t_ns)
{
	unsigned int i;

	for (i = 0; i < nr_flows; i++) {
		if (flows[i].started || flows[i].start_ns > t_ns)
			continue;
		flows[i].started = true;
		fill(i);
	}
}

static void serve(const struct epoll_event *ev)
{
	unsigned int index = ev->data.u64 / 2;
	struct flow *f = &flows[index];

	if (ev->data.u64 & 1)
		receive(f);
	else if (ev->events & (EPOLLHUP | EPOLLERR))
		finish(f);
	else if (f->started && f->sent < f->bytes)
		fill(index);
}

static void run(void)
{
	uint64_t next_sample = 0, t_ns;
	struct epoll_event ev[64];
	int i, n;

	zero_ns = now_ns() + SETTLE_NS;
	nr_open = nr_flows;
	nr_undone = nr_flows;
	arm_timer(next_sample);
	/* The last sample of the window may be due when its end is. */
	while (nr_open > nr_endless ||
	       (nr_endless && (!have_until || next_sample <= until_ns))) {
		bool tick = false;

		n = epoll_wait(epoll_fd, ev, 64, -1);
		if (n < 0)
			die("epoll: %s", strerror(errno));
		for (i = 0; i < n; i++) {
			if (ev[i].data.u64 == UINT64_MAX)
				tick = true;
			else
				serve(&ev[i]);
		}
		t_ns = now_ns();
		t_ns = t_ns > zero_ns ? t_ns - zero_ns : 0;
		if (t_ns >= deadline_ns)
			break;
		if (tick)
			start_due(t_ns);
		measure(t_ns);
		if (tick && t_ns >= next_sample) {
			take_sample(next_sample);
			if (nr_endless)
				progress(t_ns, until_ns);
			while (next_sample <= t_ns)
				next_sample += interval_ns;
		}
		if (tick)
			arm_timer(next_sample);
	}
}

/* ---- the result --------------------------------------------------------------- */

static void put_histogram(FILE *out, const struct tc_hpcc_xstats *r)
{
	const char *comma = "";
	unsigned int b;

	fprintf(out, "\"hist\":{");
	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		if (!r->hist[b])
			continue;
		fprintf(out, "%s\"%u\":%llu", comma, b, r->hist[b]);
		comma = ",";
	}
	fprintf(out, "}");
}

static void put_reading(FILE *out, const char *when, uint64_t t_ns, const struct port *p,
			const struct tc_hpcc_xstats *r)
{
	fprintf(out, "{\"kind\":\"port\",\"when\":\"%s\",\"t_ns\":%" PRIu64 ",\"id\":%u,"
		"\"tx_bytes\":%llu,\"tx_packets\":%llu,\"stamped\":%llu,\"drops\":%llu,"
		"\"drops_ect\":%llu,\"drops_knonect\":%llu,\"marks\":%llu,\"marks_kmax\":%llu,"
		"\"queue_max\":%u,\"resyncs\":%llu,", when, t_ns, p->id, r->tx_bytes,
		r->tx_packets, r->stamped, r->drop_limit + r->drop_gso + r->drop_knonect,
		r->drop_limit_ect, r->drop_knonect, r->marked, r->marked_kmax,
		r->qlen_max_bytes, r->resyncs);
	if (p->marking)
		fprintf(out, "\"kmin\":%u,\"kmax\":%u,\"knonect\":%u,\"pmax_ppm\":%u,",
			p->kmin, p->kmax, p->knonect, p->pmax_ppm);
	put_histogram(out, r);
	fprintf(out, "}\n");
}

static void put_ports(FILE *out, const char *when, uint64_t t_ns, const struct tc_hpcc_xstats *r)
{
	unsigned int i;

	for (i = 0; i < nr_ports; i++)
		put_reading(out, when, t_ns, &ports[i], &r[i]);
}

static void put_samples(FILE *out)
{
	unsigned int i, n;

	for (i = 0; i < nr_samples; i++) {
		fprintf(out, "{\"kind\":\"sample\",\"t_ns\":%" PRIu64 ",\"values\":[",
			samples[i].t_ns);
		for (n = 0; n < 2 * nr_series + nr_flows; n++)
			fprintf(out, "%s%" PRIu64, n ? "," : "", samples[i].values[n]);
		fprintf(out, "]}\n");
	}
}

static void put_flows(FILE *out)
{
	unsigned int i;

	for (i = 0; i < nr_flows; i++) {
		struct flow *f = &flows[i];

		if (!f->closed)
			read_info(f);
		fprintf(out, "{\"kind\":\"flow\",\"id\":%u,\"done\":%s,\"done_ns\":%" PRIu64
			",\"received\":%" PRIu64 ",\"retrans\":%u,\"min_rtt_us\":%u}\n", f->id,
			f->done ? "true" : "false", f->done_ns, f->received,
			f->info.tcpi_total_retrans, f->info.tcpi_min_rtt);
	}
}

static void write_result(const char *path)
{
	uint64_t end_ns = now_ns() - zero_ns;
	FILE *out = fopen(path, "w");

	if (!out)
		die("%s: %s", path, strerror(errno));
	setvbuf(out, NULL, _IOFBF, 1 << 20);
	read_ports(at_end, false);
	put_flows(out);
	put_hosts(out);
	if (have_from)
		put_ports(out, "from", from_taken_ns, at_from);
	if (have_until)
		put_ports(out, "until", until_taken_ns, at_until);
	put_ports(out, "end", end_ns, at_end);
	put_samples(out);
	if (fclose(out))
		die("%s: %s", path, strerror(errno));
}

static void traffic(const char *out)
{
	struct epoll_event tick = { .events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX };
	const struct rlimit files = { FILES_MAX, FILES_MAX };
	unsigned int i;

	make_pattern();
	at_from = calloc(nr_ports, sizeof(*at_from));
	at_until = calloc(nr_ports, sizeof(*at_until));
	at_end = calloc(nr_ports, sizeof(*at_end));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!at_from || !at_until || !at_end || epoll_fd < 0 || timer_fd < 0 ||
	    setrlimit(RLIMIT_NOFILE, &files) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &tick))
		die("set-up: %s", strerror(errno));
	open_ports();
	for (i = 0; i < nr_flows; i++)
		connect_flow(i);
	read_hosts();
	run();
	write_result(out);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "prepare")) {
		read_plan(argv[2], true);
		return 0;
	}
	if (argc != 4 || strcmp(argv[1], "run")) {
		fprintf(stderr, "usage: hpcc-traffic prepare PLAN | run PLAN OUT\n");
		return 1;
	}
	read_plan(argv[2], false);
	if (!nr_flows || !interval_ns || !deadline_ns)
		die("plan: no flow, interval or deadline");
	traffic(argv[3]);
	return 0;
}
