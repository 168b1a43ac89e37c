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
 *	flow ID FROM TO SADDR DADDR PORT BYTES START CC
 *	interval|from|until|deadline NS	until 0: when the first flow ends
 *	verify 0|1
 * Each port's egress has an hpcc qdisc with the handle 10:.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../../include/uapi/linux/hpcc.h"

#define NSEC_PER_SEC	1000000000ULL

/* A receiver is woken when this much is there; half a window at most. */
#define LOWAT_BYTES	(2U << 20)
#define RCVBUF_BYTES	(64 << 20)
#define SNDBUF_BYTES	(8 << 20)
#define CHUNK_BYTES	(1U << 18)

/* Beyond that, every second sample is dropped and the interval doubled. */
#define SAMPLES_MAX	1024

/* Time from the last handshake to time zero: its packets have drained. */
#define SETTLE_NS	1000000ULL

#define HPCC_HANDLE	0x00100000U

/* The pattern's period; prime, so that no segment size divides it. */
#define PATTERN_BYTES	1048573U

struct netns {
	char		name[32];
	char		path[128];
	int		netlink;	/* -1 until the first port needs it */
	unsigned int	nr_ports;
};

struct port {
	unsigned int	id;
	unsigned int	ns;
	char		ifname[IFNAMSIZ];
	int		ifindex;
	bool		series;
};

struct flow {
	unsigned int	id;
	unsigned int	from;
	unsigned int	to;
	struct sockaddr_storage	saddr;
	struct sockaddr_storage	daddr;
	uint64_t	bytes;
	uint64_t	start_ns;
	char		cc[16];
	int		tx;
	int		rx;
	uint64_t	sent;
	uint64_t	received;
	int		lowat;
	uint64_t	done_ns;
	bool		started;
	bool		writing;	/* EPOLLOUT is asked for */
	bool		done;		/* the receiver has all bytes */
	bool		closed;
	struct tcp_info	info;		/* the sender's, at its end */
};

struct sample {
	uint64_t	t_ns;
	uint64_t	*values;	/* queue and tx of each series port, then flows */
};

static struct netns *netns;
static struct port *ports;
static struct flow *flows;
static unsigned int nr_netns, nr_ports, nr_flows, nr_series;
static struct sample samples[SAMPLES_MAX];
static unsigned int nr_samples;
static struct tc_hpcc_xstats *at_from, *at_until, *at_end;
static uint64_t interval_ns, from_ns, until_ns, deadline_ns;
static uint64_t from_taken_ns, until_taken_ns;
static bool have_from, have_until;
static bool verify;
static unsigned char *pattern;
static uint64_t zero_ns;		/* CLOCK_MONOTONIC at time zero */
static unsigned int nr_open, nr_undone;
static uint64_t bytes_wanted, bytes_done;
static int epoll_fd, timer_fd;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "hpcc-traffic: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* ---- the plan ------------------------------------------------------------ */

static void *grown(void *array, unsigned int nr, size_t size)
{
	array = reallocarray(array, nr + 1, size);
	if (!array)
		die("out of memory");
	memset((char *)array + nr * size, 0, size);
	return array;
}

static unsigned int netns_index(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_netns; i++)
		if (!strcmp(netns[i].name, name))
			return i;
	die("plan: no namespace %s", name);
}

static void enter(unsigned int ns)
{
	static int current = -1;
	int fd;

	if (current == (int)ns)
		return;
	fd = open(netns[ns].path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("namespace %s: %s", netns[ns].path, strerror(errno));
	close(fd);
	current = ns;
}

static void write_sysctl(const char *ns, const char *path, const char *value)
{
	char file[256];
	int fd;

	enter(netns_index(ns));
	snprintf(file, sizeof(file), "/proc/sys/%s", path);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("%s in %s: cannot set %s: %s", file, ns, value, strerror(errno));
	close(fd);
}

static void set_address(struct sockaddr_storage *ss, const char *text, unsigned int port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
	} else {
		die("plan: bad address %s", text);
	}
}

static void parse_netns(const char *line)
{
	struct netns *ns;

	netns = grown(netns, nr_netns, sizeof(*netns));
	ns = &netns[nr_netns++];
	ns->netlink = -1;
	if (sscanf(line, "ns %31s %127s", ns->name, ns->path) != 2)
		die("plan: %s", line);
}

static void parse_port(const char *line)
{
	struct port *p;
	int series;
	char ns[32];

	ports = grown(ports, nr_ports, sizeof(*ports));
	p = &ports[nr_ports++];
	if (sscanf(line, "port %u %31s %15s %d", &p->id, ns, p->ifname, &series) != 4)
		die("plan: %s", line);
	p->ns = netns_index(ns);
	p->series = series;
	nr_series += p->series;
	netns[p->ns].nr_ports++;
}

static void parse_flow(const char *line)
{
	char from[32], to[32], saddr[64], daddr[64];
	unsigned int port;
	struct flow *f;

	flows = grown(flows, nr_flows, sizeof(*flows));
	f = &flows[nr_flows++];
	if (sscanf(line, "flow %u %31s %31s %63s %63s %u %" SCNu64 " %" SCNu64 " %15s",
		   &f->id, from, to, saddr, daddr, &port, &f->bytes, &f->start_ns,
		   f->cc) != 9)
		die("plan: %s", line);
	f->from = netns_index(from);
	f->to = netns_index(to);
	set_address(&f->saddr, saddr, port);
	set_address(&f->daddr, daddr, port);
	f->tx = -1;
	f->rx = -1;
	bytes_wanted += f->bytes;
}

static void parse_number(const char *line)
{
	char key[32];
	uint64_t n;

	if (sscanf(line, "%31s %" SCNu64, key, &n) != 2)
		die("plan: %s", line);
	if (!strcmp(key, "interval"))
		interval_ns = n;
	else if (!strcmp(key, "from"))
		from_ns = n;
	else if (!strcmp(key, "until"))
		until_ns = n;
	else if (!strcmp(key, "deadline"))
		deadline_ns = n;
	else if (!strcmp(key, "verify"))
		verify = n;
	else
		die("plan: %s", line);
}

/* A device that was brought up drops packets until the kernel has noticed its
 * carrier, which may take it a second.
 */
static void wait_running(const char *ns, const char *ifname)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t give_up_ns = now_ns() + 10 * NSEC_PER_SEC;
	struct ifreq req = {};
	int fd;

	enter(netns_index(ns));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	strcpy(req.ifr_name, ifname);
	while (!ioctl(fd, SIOCGIFFLAGS, &req)) {
		if (req.ifr_flags & IFF_RUNNING) {
			close(fd);
			return;
		}
		if (now_ns() > give_up_ns)
			break;
		nanosleep(&pause, NULL);
	}
	die("%s of %s does not come up", ifname, ns);
}

static void read_plan(const char *path, bool prepare)
{
	char line[512], ns[32], ifname[IFNAMSIZ], sysctl[128], value[128];
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "ns ", 3)) {
			parse_netns(line);
		} else if (!strncmp(line, "sysctl ", 7)) {
			if (sscanf(line, "sysctl %31s %127s %127[^\n]", ns, sysctl, value) != 3)
				die("plan: %s", line);
			if (prepare)
				write_sysctl(ns, sysctl, value);
		} else if (!strncmp(line, "wait ", 5)) {
			if (sscanf(line, "wait %31s %15s", ns, ifname) != 2)
				die("plan: %s", line);
			if (!prepare)
				wait_running(ns, ifname);
		} else if (!strncmp(line, "port ", 5)) {
			parse_port(line);
		} else if (!strncmp(line, "flow ", 5)) {
			parse_flow(line);
		} else if (line[0]) {
			parse_number(line);
		}
	}
	fclose(file);
}

/* ---- the ports' counters --------------------------------------------------- */

static void open_ports(void)
{
	struct timeval patience = { .tv_sec = 5 };
	int size = 1 << 20;
	unsigned int i;

	for (i = 0; i < nr_ports; i++) {
		struct netns *ns = &netns[ports[i].ns];

		enter(ports[i].ns);
		ports[i].ifindex = if_nametoindex(ports[i].ifname);
		if (!ports[i].ifindex)
			die("%s has no interface %s", ns->name, ports[i].ifname);
		if (ns->netlink >= 0)
			continue;
		ns->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (ns->netlink < 0)
			die("netlink: %s", strerror(errno));
		setsockopt(ns->netlink, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
		setsockopt(ns->netlink, SOL_SOCKET, SO_RCVTIMEO, &patience,
			   sizeof(patience));
	}
}

struct qdisc_request {
	struct nlmsghdr	nh;
	struct tcmsg	tc;
};

/* One datagram with a request for each port, numbered like the port. Without
 * ECHO the kernel would tell all that listen, but not us.
 */
static unsigned int ask_ports(unsigned int ns, bool series_only)
{
	struct qdisc_request req[netns[ns].nr_ports];
	unsigned int i, n = 0;

	memset(req, 0, sizeof(req));
	for (i = 0; i < nr_ports; i++) {
		if (ports[i].ns != ns || (series_only && !ports[i].series))
			continue;
		req[n].nh.nlmsg_len = sizeof(req[n]);
		req[n].nh.nlmsg_type = RTM_GETQDISC;
		req[n].nh.nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO;
		req[n].nh.nlmsg_seq = i;
		req[n].tc.tcm_family = AF_UNSPEC;
		req[n].tc.tcm_ifindex = ports[i].ifindex;
		req[n].tc.tcm_handle = HPCC_HANDLE;
		n++;
	}
	if (n && send(netns[ns].netlink, req, n * sizeof(*req), 0) < 0)
		die("netlink: %s", strerror(errno));
	return n;
}

static const struct rtattr *find_attr(const struct rtattr *rta, int len, int type)
{
	for (; RTA_OK(rta, len); rta = RTA_NEXT(rta, len))
		if ((rta->rta_type & NLA_TYPE_MASK) == type)
			return rta;
	return NULL;
}

/* Copies no more than both sides know of the statistics. */
static void take_reading(const struct nlmsghdr *nh, struct tc_hpcc_xstats *readings)
{
	const struct tcmsg *tc = NLMSG_DATA(nh);
	const struct rtattr *stats, *app = NULL;
	unsigned int i = nh->nlmsg_seq;
	size_t size = sizeof(*readings);

	if (i >= nr_ports)
		die("netlink: unexpected sequence number");
	if (nh->nlmsg_type == NLMSG_ERROR)
		die("no qdisc 10: on %s of %s", ports[i].ifname, netns[ports[i].ns].name);
	stats = find_attr(TCA_RTA(tc), TCA_PAYLOAD(nh), TCA_STATS2);
	if (stats)
		app = find_attr(RTA_DATA(stats), RTA_PAYLOAD(stats), TCA_STATS_APP);
	if (!app)
		die("no statistics of %s in %s", ports[i].ifname, netns[ports[i].ns].name);
	if (RTA_PAYLOAD(app) < size)
		size = RTA_PAYLOAD(app);
	memcpy(&readings[i], RTA_DATA(app), size);
}

#define REPLIES		16
#define REPLY_BYTES	8192

static void read_ports(struct tc_hpcc_xstats *readings, bool series_only)
{
	static char buf[REPLIES][REPLY_BYTES] __attribute__((aligned(8)));
	unsigned int ns, wanted, i;

	for (ns = 0; ns < nr_netns; ns++) {
		if (!netns[ns].nr_ports)
			continue;
		wanted = ask_ports(ns, series_only);
		while (wanted) {
			struct iovec iov[REPLIES];
			struct mmsghdr msg[REPLIES] = {};
			int got;

			for (i = 0; i < REPLIES; i++) {
				iov[i] = (struct iovec){ buf[i], REPLY_BYTES };
				msg[i].msg_hdr.msg_iov = &iov[i];
				msg[i].msg_hdr.msg_iovlen = 1;
			}
			got = recvmmsg(netns[ns].netlink, msg,
				       wanted < REPLIES ? wanted : REPLIES,
				       MSG_WAITFORONE, NULL);
			if (got <= 0)
				die("netlink: %s", strerror(errno));
			for (i = 0; i < (unsigned int)got; i++)
				take_reading((void *)buf[i], readings);
			wanted -= got;
		}
	}
}

/* ---- connections ------------------------------------------------------------ */

static int flow_socket(const struct flow *f, unsigned int ns)
{
	int rcvbuf = RCVBUF_BYTES, sndbuf = SNDBUF_BYTES, one = 1, fd;

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
		die("flow %u: connect: %s", f->id, strerror(errno));
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

static void progress(uint64_t n)
{
	uint64_t before = bytes_done * 20 / bytes_wanted;

	bytes_done += n;
	if (bytes_done * 20 / bytes_wanted != before)
		fprintf(stderr, "progress %" PRIu64 "\n", bytes_done * 100 / bytes_wanted);
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
	progress(f->received - before);
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

/* The peer closed: everything was acknowledged, the counters are final. */
static void finish(struct flow *f)
{
	socklen_t len = sizeof(f->info);

	if (getsockopt(f->tx, IPPROTO_TCP, TCP_INFO, &f->info, &len))
		die("flow %u: TCP_INFO: %s", f->id, strerror(errno));
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
	while (nr_open) {
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
			while (next_sample <= t_ns)
				next_sample += interval_ns;
		}
		if (tick)
			arm_timer(next_sample);
	}
}

/* ---- the result --------------------------------------------------------------- */

static void put_reading(FILE *out, const char *when, uint64_t t_ns, const struct port *p,
			const struct tc_hpcc_xstats *r)
{
	unsigned int b;
	bool comma = false;

	fprintf(out, "{\"kind\":\"port\",\"when\":\"%s\",\"t_ns\":%" PRIu64 ",\"id\":%u,"
		"\"tx_bytes\":%llu,\"tx_packets\":%llu,\"stamped\":%llu,\"drops\":%llu,"
		"\"marks\":%llu,\"queue_max\":%u,\"resyncs\":%llu,\"hist\":{", when, t_ns,
		p->id, r->tx_bytes, r->tx_packets, r->stamped, r->drop_limit + r->drop_gso,
		r->marked, r->qlen_max_bytes, r->resyncs);
	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		if (!r->hist[b])
			continue;
		fprintf(out, "%s\"%u\":%llu", comma ? "," : "", b, r->hist[b]);
		comma = true;
	}
	fprintf(out, "}}\n");
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
		const struct flow *f = &flows[i];

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
	unsigned int i;

	make_pattern();
	at_from = calloc(nr_ports, sizeof(*at_from));
	at_until = calloc(nr_ports, sizeof(*at_until));
	at_end = calloc(nr_ports, sizeof(*at_end));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!at_from || !at_until || !at_end || epoll_fd < 0 || timer_fd < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &tick))
		die("set-up: %s", strerror(errno));
	open_ports();
	for (i = 0; i < nr_flows; i++)
		connect_flow(i);
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
