// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon path: print the switches on the path to a host. The switches write their identity into
 * segments of a flow. An existing flow already has these data. Without a flow, --port makes hpccmon
 * open a connection and send single bytes until all hops have identified themselves: each segment
 * can address only a few hops.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hpccmon.h"

/* Each request gets records of some hops, in turn. This number of requests is enough for the
 * records and identities of HPCC_HOPS_MAX hops.
 */
#define BYTES_MAX	64
/* Time between two bytes, or between two reads of an existing flow. */
#define PAUSE_MS	20
/* Number of times that we look for the names of links of sending flows. */
#define NAMES_LOOKS	10
#define CONNECT_MS	5000

struct search {
	struct filter	filter;
	struct flow	flow;	/* the best flow so far */
	bool		found;
	unsigned int	sent;	/* number of bytes sent on our own connection */
};

static bool has_load(const struct hop *hop)
{
	return hop->known || hop->quiet;
}

static unsigned int known(const struct flow *flow)
{
	unsigned int i, count = 0;

	for (i = 0; i < flow->nr_hops; i++)
		count += has_load(&flow->hop[i]) + flow->hop[i].named;
	return count;
}

static bool is_whole(const struct flow *flow, bool names)
{
	unsigned int i;

	for (i = 0; i < flow->nr_hops; i++)
		if (!has_load(&flow->hop[i]) || (names && !flow->hop[i].named))
			return false;
	return flow->nr_hops;
}

static void pause_ms(int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

static void wait_for(const struct flow *flow, void *data)
{
	bool *waits = data;

	*waits |= flow->nr_hops && !flow_is_idle(flow) && !is_whole(flow, true);
}

/* Request the names of links, and wait for the answers; later dumps with @filter request names too.
 * A flow that does not send cannot request names, so we do not wait for idle flows.
 * Return: whether the kernel permits this; if not, @why is its message.
 */
bool identify_request(struct monitor *mon, struct filter *filter, const char **why)
{
	bool waits = true;
	int i;

	filter->names = true;
	for (i = 0; i < NAMES_LOOKS && waits && !interrupted(); i++) {
		waits = false;
		if (monitor_dump(mon, filter, wait_for, &waits, why)) {
			filter->names = false;
			return false;
		}
		if (waits)
			pause_ms(PAUSE_MS);
	}
	return true;
}

static uint64_t age_of(const struct flow *flow)
{
	const struct hop *hop = flow_holder(flow);

	return hop ? hop->age_us : UINT64_MAX;
}

/* Keep the flow with the most data, or of several such flows the flow with the newest record. */
static void keep_best(const struct flow *flow, void *data)
{
	struct search *search = data;
	int more = (int)known(flow) - (search->found ? (int)known(&search->flow) : -1);

	if (more > 0 || (!more && age_of(flow) < age_of(&search->flow))) {
		search->flow = *flow;
		search->found = true;
	}
}

static void look(struct monitor *mon, struct search *search)
{
	search->found = false;
	monitor_flows(mon, &search->filter, keep_best, search);
}

static int connected(int fd, const struct addrinfo *to)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int err = 0;

	if (!connect(fd, to->ai_addr, to->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (poll(&poll_fd, 1, CONNECT_MS) != 1)
		err = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
	return err;
}

static int socket_for(const struct addrinfo *to)
{
	int one = 1, fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "hpcc", 4))
		die("cannot use hpcc for a connection: %s%s", strerror(errno),
		    errno == EPERM ? "; see net.ipv4.tcp_allowed_congestion_control" : "");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int open_connection(const struct addrinfo *to, const char *host, const char *port,
			   struct filter *filter)
{
	bool names = filter->names;
	socklen_t size = sizeof(filter->cookie);
	int err, fd = socket_for(to);

	err = connected(fd, to);
	if (err)
		die("%s, port %s: %s", host, port, strerror(err));
	filter_parse(filter, 0, NULL);
	filter->names = names;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &filter->cookie, &size))
		die("SO_COOKIE: %s", strerror(errno));
	return fd;
}

static void probe(struct monitor *mon, struct search *search, int fd)
{
	while (search->sent < BYTES_MAX && !interrupted()) {
		if (send(fd, "", 1, MSG_NOSIGNAL) == 1)
			search->sent++;
		else if (errno != EAGAIN)
			die("connection: %s", strerror(errno));
		pause_ms(PAUSE_MS);
		look(mon, search);
		if (!search->found)
			die("the peer does not agree to hpcc: it needs tcp_hpcc, and a "
			    "listener that uses it");
		if (is_whole(&search->flow, search->filter.names))
			break;
	}
}

static struct addrinfo *resolved(const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *to;
	int err = getaddrinfo(host, port, &hints, &to);

	if (err)
		die("%s%s%s: %s", host, port ? ", port " : "", port ?: "", gai_strerror(err));
	return to;
}

static void want_host(struct filter *filter, const struct addrinfo *to)
{
	filter_parse(filter, 0, NULL);
	filter->peer.any_addr = false;
	if (to->ai_family == AF_INET)
		addr_map(&filter->peer.addr,
			 &((const struct sockaddr_in *)(const void *)to->ai_addr)->sin_addr);
	else
		filter->peer.addr =
			((const struct sockaddr_in6 *)(const void *)to->ai_addr)->sin6_addr;
}

static void show_path(const struct search *search, const char *host, bool json)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX], T[16];
	const struct flow *flow = &search->flow;
	struct json_object *object;

	if (json) {
		object = flow_json(flow);
		json_object_object_add(object, "sent", json_object_new_int(search->sent));
		json_line(object);
		return;
	}
	printf("path to %s, by %s %s -> %s", host,
	       search->sent ? "a connection of our own," : "the flow",
	       endpoint_text(&flow->local, local), endpoint_text(&flow->peer, peer));
	printf(": %u hop%s, T %s\n", flow->nr_hops, flow->nr_hops == 1 ? "" : "s",
	       time_text(flow->T_ns, T));
	show_hops(flow);
}

/* A sending flow gets the names of links after some segments. */
static void watch(struct monitor *mon, struct search *search)
{
	int i;

	for (i = 0; i < 20 && !interrupted(); i++) {
		look(mon, search);
		if (!search->found || is_whole(&search->flow, search->filter.names))
			break;
		pause_ms(PAUSE_MS);
	}
}

static int find_path(const char *host, const char *port, bool json)
{
	struct addrinfo *to = resolved(host, port);
	struct monitor *mon = monitor_open_flows();
	struct search search = {};
	const char *why;
	int fd = -1;

	want_host(&search.filter, to);
	if (!identify_request(mon, &search.filter, &why))
		fprintf(stderr, "without names of links: %s\n", why);
	look(mon, &search);
	if (search.found)
		watch(mon, &search);
	if (port && (!search.found || !is_whole(&search.flow, search.filter.names))) {
		fd = open_connection(to, host, port, &search.filter);
		probe(mon, &search, fd);
	}
	freeaddrinfo(to);
	monitor_close(mon);
	if (fd >= 0)
		close(fd);
	if (!search.found)
		die("no flow to %s runs hpcc or is observed here; --port opens a connection",
		    host);
	if (!search.flow.nr_hops)
		die("no switch on the path to %s answered", host);
	show_path(&search, host, json);
	return 0;
}

int cmd_path(int argc, char **argv)
{
	const char *port = NULL;
	bool json = false;
	const struct option_spec number = { .name = "port", .kind = OPTION_WHOLE, .min = 1,
					    .max = UINT16_MAX };
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &json },
		{ "port", 'p', OPTION_TEXT, .to = &port },
		{ }
	};

	take_options(argc, argv, options);
	/* Other ports are names of services, which getaddrinfo() knows. */
	if (port && !port[strspn(port, "+-0123456789")])
		option_number(&number, port);
	if (argc - optind != 1)
		usage("write one host, a name or an address");
	catch_interrupts();
	return find_path(argv[optind], port, json);
}
