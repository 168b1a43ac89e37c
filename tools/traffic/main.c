// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-traffic: the flows, programs and measurements of one scenario of hpcc-lab.
 *
 *	hpcc-traffic run PLAN OUT	run the flows, write JSON lines to OUT
 *
 * One thread serves all namespaces, because a socket stays in the namespace in which it was
 * created. In User Mode Linux a system call costs 50 to 100 us of real time, but no virtual time.
 * So there are few calls per flow and per megabyte: senders keep a large buffer filled, receivers
 * wait for a large SO_RCVLOWAT and then discard the data, and one message reads all ports of a
 * switch. A failed call costs 1 us of virtual time, in which nothing else runs: 32 packets at 400
 * Gb/s. So we never repeat a call until it fails with EAGAIN.
 *
 * A flow writes its first bytes at its start time. It completes when the receiver has all bytes.
 *
 * Flows that make no connection before time zero are read as the run goes, and a flow's result is
 * written when it has ended, so memory is needed only for flows that are active.
 *
 * The plan has one item per line. Times are in ns after time zero:
 *	ns NAME PATH [ADDRESS]			only hosts have an address
 *	port ID NS INTERFACE SERIES CLASSES	SERIES 1: measure the port over time; CLASSES:
 *						number of its classes, or 0
 *	flow ID FROM TO BYTES START CC CONNECT	BYTES 0: endless; CONNECT: before (time
 *						zero), start, pool, or the ID of a flow
 *						whose connection this flow uses in the
 *						reverse direction; CC: NAME or NAME/DSCP
 *	rpc ID FROM TO REQUEST RESPONSE COUNT UNTIL THINK START CC
 *						COUNT, UNTIL 0: no limit
 *	collective ID START STEPS		its edges follow
 *	edge FROM TO BYTES COUNT FREE CC [EDGE...]
 *						COUNT messages of BYTES in each step; the
 *						first FREE are sent when the step begins,
 *						message m when message m - FREE has arrived
 *						on each EDGE, counted from 0 in the collective
 *	run NS START STOP FILE COMMAND...	by sh; START "before": before time zero, which
 *						it may read from its input, 8 bytes in ns since
 *						1970; STOP 0: wait until the command ends;
 *						"end": SIGTERM after everything else;
 *						FILE "-": write to our output, and fail
 *						if the command fails
 *	interval|from|until|deadline NS	until 0: when the first flow ends;
 *					endless flows last until then
 *	verify|series_flows 0|1		series_flows: also measure flows over time
 *	pool N				connections for each pair of hosts
 * The egress of each port has an hpcc qdisc with the handle 10:. The hpcc qdiscs of its classes
 * have the handles 21:, 22: and so on. The ports of a namespace are on consecutive lines, and flows
 * are numbered from 0. Flows are last: first those with "before" or an ID, in the order of their
 * IDs, then the others, in the order of their starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

#include "traffic.h"

/* Maximum number of open files for namespaces, listeners and programs. Each connection needs two
 * more.
 */
#define FILES_MORE	4096
/* Maximum number of connections that are made after time zero and exist at once. */
#define STREAMED_MAX	250000

/* Time from the last handshake to time zero, in which its packets leave the queues. For each
 * program that starts before time zero it is longer by as much: failed system calls take time.
 */
#define SETTLE_NS	1000000ULL

/* Timers are precise if a timer of 1 us takes less than this. On a busy host some take longer. */
#define PRECISE_NS	500000ULL
#define TIMER_TRIES	20

/* Time between SIGTERM and SIGKILL. */
#define STOP_NS		NSEC_PER_SEC

struct netns *netns;
struct port *ports;
struct flow *flows;
struct rpc *rpcs;
struct edge *edges;
struct collective *collectives;
struct program *programs;
struct cc ccs[CC_MAX];
unsigned int nr_netns, nr_ports, nr_flows, nr_rpcs, nr_programs, nr_ccs;
unsigned int nr_edges, nr_collectives, nr_streamed, nr_large;
unsigned int nr_endless, nr_series, pool_size;
uint64_t interval_ns, from_ns, until_ns, deadline_ns;
uint64_t bytes_wanted;
bool verify, series_flows;
unsigned int nr_undone, nr_ended;
static struct flow **by_start;
static unsigned int nr_begun;
static struct flow *ahead;		/* next flow that is not in flows[] */
static uint64_t zero_ns;		/* CLOCK_MONOTONIC at time zero */
static uint64_t next_sample_ns;
static int epoll_fd, timer_fd;
static bool lasts;			/* run until until_ns, because everything is endless */

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

/* An array of zeros. */
void *zeroed(size_t nr, size_t size)
{
	void *array = calloc(nr, size);

	if (!array)
		die("out of memory");
	return array;
}

/* Make room for one more element, which is 0. The size doubles. */
void *grown(void *array, unsigned int nr, size_t size)
{
	if (!(nr & (nr - 1)))
		array = reallocarray(array, nr ? 2 * nr : 1, size);
	if (!array)
		die("out of memory");
	memset((char *)array + nr * size, 0, size);
	return array;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

uint64_t zero_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec - (now_ns() - zero_ns);
}

uint64_t virtual_ns(void)
{
	uint64_t now = now_ns();

	return now > zero_ns ? now - zero_ns : 0;
}

void watch(int fd, int op, uint32_t events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	if (epoll_ctl(epoll_fd, op, fd, &ev))
		die("epoll: %s", strerror(errno));
}

/* Print progress in steps of 5 %: by bytes, or by time if a flow is endless or no flow exists. */
void progress(uint64_t done, uint64_t wanted)
{
	static uint64_t before;
	uint64_t step = wanted ? done * 20 / wanted : 0;

	if (step > before && step <= 20)
		fprintf(stderr, "progress %" PRIu64 "\n", 5 * step);
	before = step;
}

void flow_done(struct flow *f)
{
	if (f->rpc) {
		rpc_advance(f, virtual_ns());
		return;
	}
	f->done = true;
	f->done_ns = virtual_ns();
	nr_undone--;
	nr_ended++;
	release(f);
}

/* Whether a flow, RPC or program that ends by itself is still running. */
static bool pending(void)
{
	return nr_undone > nr_endless || nr_running;
}

static bool over(void)
{
	return !pending() && !nr_closing &&
	       (!lasts || (have_until && next_sample_ns > until_ns));
}

/* A time in the past expires immediately. */
static void arm_timer(uint64_t next)
{
	struct itimerspec its = {};

	next += zero_ns;
	its.it_value.tv_sec = next / NSEC_PER_SEC;
	its.it_value.tv_nsec = next % NSEC_PER_SEC;
	if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &its, NULL))
		die("timerfd: %s", strerror(errno));
}

static uint64_t next_flow_ns(void)
{
	uint64_t next = nr_begun < nr_flows ? by_start[nr_begun]->start_ns : NEVER;

	return ahead ? least(next, ahead->start_ns) : next;
}

static uint64_t next_ns(void)
{
	uint64_t next = least(deadline_ns, next_reading_ns());

	if (pending() || lasts)
		next = least(next, next_sample_ns);
	next = least(next, least(next_flow_ns(), next_collective_ns()));
	return least(next, least(next_rpc_ns(), next_program_ns()));
}

static void start_due(uint64_t t_ns)
{
	uint64_t next_ns;

	start_programs(t_ns);
	while ((next_ns = next_flow_ns()) <= t_ns) {
		if (nr_begun < nr_flows && by_start[nr_begun]->start_ns == next_ns) {
			begin_flow(by_start[nr_begun++]);
		} else {
			begin_flow(ahead);
			ahead = next_flow();
		}
	}
	start_rpcs(t_ns);
	start_collectives(t_ns);
}

static void serve_end(uint64_t tag, uint32_t events)
{
	struct conn *c = conn_of(tag / 2);
	struct end *e, *other;

	/* An earlier event closed this file. */
	if (!c || c->end[tag % 2].fd < 0)
		return;
	e = &c->end[tag % 2];
	other = &c->end[!(tag % 2)];
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		peer_closed(c, tag % 2);
		return;
	}
	/* Before a connection is open, only end 0 waits for this event, which tells that it is. */
	if (events & EPOLLOUT) {
		c->open = true;
		if (e->out)
			fill(e->out);
	}
	if ((events & EPOLLIN) && other->out)
		receive(other->out);
}

/* Return: whether the timer expired. */
static bool serve(const struct epoll_event *ev)
{
	uint64_t tag = ev->data.u64 & ((1ULL << TAG_SHIFT) - 1);

	switch (ev->data.u64 >> TAG_SHIFT) {
	case TAG_END:
		serve_end(tag, ev->events);
		break;
	case TAG_LISTENER:
		accept_one(tag);
		break;
	case TAG_PROGRAM:
		program_ended(tag);
		break;
	default:
		return true;
	}
	return false;
}

static bool wait_and_serve(void)
{
	struct epoll_event ev[64];
	bool tick = false;
	int i, n;

	n = epoll_wait(epoll_fd, ev, 64, -1);
	if (n < 0 && errno != EINTR)
		die("epoll: %s", strerror(errno));
	for (i = 0; i < n; i++)
		tick |= serve(&ev[i]);
	return tick;
}

/* Until the first tick after boot, timers have the resolution of the tick. After handshakes the
 * first tick has already passed.
 */
static void wait_for_timers(void)
{
	const struct timespec moment = { .tv_nsec = 1000 };
	unsigned int tries;
	uint64_t begin;

	if (nr_rpcs || nr_edges)
		return;
	for (tries = 0; tries < nr_flows; tries++)
		if (flows[tries].connect == BEFORE)
			return;
	for (tries = 0; tries < TIMER_TRIES; tries++) {
		begin = now_ns();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
		if (now_ns() - begin < PRECISE_NS)
			return;
	}
}

static void run(void)
{
	bool tick, ends;
	uint64_t t_ns;

	wait_for_timers();
	zero_ns = now_ns() + SETTLE_NS * (1 + nr_early);
	announce_zero();
	lasts = nr_endless || !pending();
	arm_timer(next_ns());
	while (!over()) {
		tick = wait_and_serve();
		ends = !pending() && !lasts;
		/* Reading the clock costs a system call and 1 ns of virtual time, so with streamed
		 * flows we read it only at ticks and at the end of the window.
		 */
		if (nr_streamed && !tick && !window_ends(ends))
			continue;
		t_ns = virtual_ns();
		if (t_ns >= deadline_ns)
			break;
		if (tick)
			start_due(t_ns);
		measure(t_ns, !pending() && !lasts);
		if (tick && t_ns >= next_sample_ns) {
			take_sample(next_sample_ns);
			if (nr_endless || !bytes_wanted)
				progress(t_ns, until_ns);
			next_sample_ns = (t_ns / interval_ns + 1) * interval_ns;
		}
		if (tick)
			arm_timer(next_ns());
	}
}

/* Stop servers after everything else has ended, and then kill programs that still run. */
static void stop_all(void)
{
	const uint64_t patience_ns = virtual_ns() + STOP_NS;

	stop_programs(SIGTERM);
	arm_timer(patience_ns);
	while (programs_left() && virtual_ns() < patience_ns)
		wait_and_serve();
	stop_programs(SIGKILL);
	while (programs_left())
		wait_and_serve();
}

static int compare_starts(const void *a, const void *b)
{
	const struct flow *f = *(struct flow **)a, *g = *(struct flow **)b;

	if (f->start_ns != g->start_ns)
		return f->start_ns < g->start_ns ? -1 : 1;
	return f < g ? -1 : 1;
}

static void sort_flows(void)
{
	unsigned int i;

	by_start = zeroed(nr_flows + 1, sizeof(struct flow *));
	for (i = 0; i < nr_flows; i++)
		by_start[i] = &flows[i];
	qsort(by_start, nr_flows, sizeof(struct flow *), compare_starts);
}

/* A pool has its own connections, but at most as many as flows. */
static void allow_files(void)
{
	const unsigned int later = nr_streamed < STREAMED_MAX ? nr_streamed : STREAMED_MAX;
	const rlim_t wanted = 2 * (nr_flows + nr_rpcs + nr_edges + later) + FILES_MORE;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		die("RLIMIT_NOFILE: %s", strerror(errno));
	files.rlim_cur = wanted;
	if (files.rlim_max < wanted)
		files.rlim_max = wanted;
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("%ju open files: %s", (uintmax_t)wanted, strerror(errno));
}

static void traffic(const char *out)
{
	struct epoll_event tick = { .events = EPOLLIN | EPOLLET,
				    .data.u64 = TAG_TICK << TAG_SHIFT };
	unsigned int i;

	make_pattern();
	sort_flows();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	allow_files();
	if (epoll_fd < 0 || timer_fd < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &tick))
		die("set-up: %s", strerror(errno));
	open_measurement(out);
	nr_undone = nr_flows + nr_streamed + nr_rpcs + nr_collectives;
	for (i = 0; i < nr_programs; i++)
		nr_running += !programs[i].server;
	start_early_programs();
	open_connections();
	ahead = next_flow();
	read_hosts();
	run();
	stop_all();
	put_flow(ahead);
	write_result();
}

int main(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[1], "run")) {
		fprintf(stderr, "usage: hpcc-traffic run PLAN OUT\n");
		return 1;
	}
	read_plan(argv[2]);
	if (nr_flows + nr_streamed + nr_rpcs + nr_collectives + nr_programs == 0 || !interval_ns ||
	    !deadline_ns)
		die("plan: nothing to run, no interval or no deadline");
	traffic(argv[3]);
	return 0;
}
