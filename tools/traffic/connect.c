// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-traffic: connections. Before time zero we create a listener for each host, congestion
 * control and DSCP. Accepted sockets inherit its options.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "traffic.h"

#define RCVBUF_BYTES	(64 << 20)

/* Send buffer of a large flow, and limit of all these buffers together, to save memory. */
#define SNDBUF_BYTES	(8 << 20)
#define SNDBUF_TOTAL	(512U << 20)

#define BACKLOG		4096

unsigned int nr_closing;
static struct conn **pools;		/* free connections, by hosts and congestion control */

/* A connection by its tag, NULL if it has been closed. */
struct conn *conn_of(uint64_t tag)
{
	return netns[tag >> NUMBER_BITS].conns[tag & ((1U << NUMBER_BITS) - 1)];
}

static struct conn **pool_of(const struct flow *f)
{
	return &pools[(f->from * nr_netns + f->to) * nr_ccs + f->cc];
}

static socklen_t with_port(struct sockaddr_storage *ss, unsigned int ns, unsigned int port)
{
	*ss = netns[ns].addr;
	if (ss->ss_family == AF_INET) {
		((struct sockaddr_in *)ss)->sin_port = htons(port);
		return sizeof(struct sockaddr_in);
	}
	((struct sockaddr_in6 *)ss)->sin6_port = htons(port);
	return sizeof(struct sockaddr_in6);
}

static int new_socket(unsigned int ns, unsigned int cc, int flags)
{
	bool v6 = netns[ns].addr.ss_family == AF_INET6;
	int fd, tos = ccs[cc].tos;

	enter(ns);
	fd = socket(netns[ns].addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_TCP);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ccs[cc].name, strlen(ccs[cc].name)))
		die("congestion control %s: %s", ccs[cc].name, strerror(errno));
	if (ccs[cc].tos && (v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos)) :
				 setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos))))
		die("DSCP %d: %s", tos >> 2, strerror(errno));
	return fd;
}

static void set_option(int fd, int option, int value)
{
	if (setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value)))
		die("setsockopt: %s", strerror(errno));
}

/* Index of the listener for a connection, and offset of its port from DPORT_BASE. */
static unsigned int slot_of(const struct conn *c)
{
	return c->cc * ROUNDS + c->number / SPORTS;
}

static void open_listener(unsigned int ns, unsigned int slot)
{
	struct timeval patience = { .tv_sec = 10 };
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	if (netns[ns].listener[slot] >= 0)
		return;
	fd = new_socket(ns, slot / ROUNDS, 0);
	set_option(fd, SO_REUSEADDR, 1);
	set_option(fd, SO_RCVBUFFORCE, RCVBUF_BYTES);
	len = with_port(&ss, ns, DPORT_BASE + slot);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    bind(fd, (void *)&ss, len) || listen(fd, BACKLOG))
		die("%s: port %u: %s", netns[ns].name, DPORT_BASE + slot, strerror(errno));
	netns[ns].listener[slot] = fd;
}

static unsigned int free_number(struct netns *from)
{
	unsigned int tries, number;

	for (tries = 0; tries < NUMBERS; tries++) {
		number = from->next_number++ % NUMBERS;
		if (number < from->nr_conns && from->conns[number])
			continue;
		if (number == from->nr_conns)
			from->conns = grown(from->conns, from->nr_conns++, sizeof(*from->conns));
		return number;
	}
	die("%s has %d connections at once, more are not possible", from->name, NUMBERS);
}

static struct conn *new_conn(const struct flow *f)
{
	struct netns *from = &netns[f->from];
	struct conn *c = zeroed(1, sizeof(*c));

	*c = (struct conn){ .number = free_number(from), .from = f->from, .to = f->to,
			    .cc = f->cc, .end = { { .fd = -1 }, { .fd = -1 } } };
	from->conns[c->number] = c;
	return c;
}

/* Bind end 0 of a new connection to the next port of its host. */
static socklen_t bind_conn(struct conn *c, const struct flow *f, int flags,
			   struct sockaddr_storage *peer)
{
	unsigned int port = SPORT_BASE + c->number % SPORTS;
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	open_listener(c->to, slot_of(c));
	fd = new_socket(c->from, c->cc, flags);
	/* For two connections with one port, both sockets need the option. */
	if (netns[c->from].nr_sent > SPORTS)
		set_option(fd, SO_REUSEADDR, 1);
	if ((f->edge ? f->edge->bytes : f->bytes) > LARGE_BYTES &&
	    SNDBUF_TOTAL / nr_large > LARGE_BYTES)
		set_option(fd, SO_SNDBUFFORCE, SNDBUF_TOTAL / nr_large < SNDBUF_BYTES ?
			   SNDBUF_TOTAL / nr_large : SNDBUF_BYTES);
	len = with_port(&ss, c->from, port);
	if (bind(fd, (void *)&ss, len))
		die("%s: port %u: %s", netns[c->from].name, port, strerror(errno));
	c->end[0].fd = fd;
	return with_port(peer, c->to, DPORT_BASE + slot_of(c));
}

void ask(struct conn *c, unsigned int end, uint32_t events)
{
	struct end *e = &c->end[end];

	if (e->fd >= 0 && e->events != events)
		watch(e->fd, e->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, events,
		      TAG_END << TAG_SHIFT |
		      (((uint64_t)c->from << NUMBER_BITS | c->number) << 1 | end));
	e->events = events;
}

/* Connect before time zero, and wait for the handshake. */
static struct conn *connect_now(const struct flow *f)
{
	struct timeval patience = { .tv_sec = 10 };
	struct conn *c = new_conn(f);
	struct sockaddr_storage peer;
	socklen_t len = bind_conn(c, f, 0, &peer);
	int listener = netns[c->to].listener[slot_of(c)];

	setsockopt(c->end[0].fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(c->end[0].fd, (void *)&peer, len))
		die("%s to %s: connect: %s", netns[c->from].name, netns[c->to].name,
		    errno == EINPROGRESS ? "no reply within 10 s" : strerror(errno));
	c->end[1].fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (c->end[1].fd < 0)
		die("%s: accept: %s", netns[c->to].name, strerror(errno));
	c->open = true;
	ask(c, 0, EPOLLRDHUP);
	ask(c, 1, EPOLLIN);
	return c;
}

/* Add a flow to a connection. Bytes flow both ways if two flows share the connection. */
static void carry(struct conn *c, struct flow *f, unsigned int end)
{
	f->conn = c;
	c->end[end].out = f;
	c->nr_undone++;
	if (end) {
		ask(c, 0, EPOLLIN | EPOLLRDHUP);
		ask(c, 1, EPOLLIN | EPOLLRDHUP);
	}
}

static void connect_before(struct flow *f)
{
	carry(connect_now(f), f, 0);
	set_lowat(f);
}

static void fill_pool(struct flow *f, unsigned int *made)
{
	struct conn **pool = pool_of(f), *c;

	if (made[pool - pools] == pool_size)
		return;
	made[pool - pools]++;
	c = connect_now(f);
	c->pooled = true;
	c->next_free = *pool;
	*pool = c;
}

/* From here on accept connections. All connections that start before time zero exist already. */
static void watch_listeners(void)
{
	unsigned int ns, slot;

	for (ns = 0; ns < nr_netns; ns++)
		for (slot = 0; slot < CC_MAX * ROUNDS; slot++)
			if (netns[ns].listener[slot] >= 0)
				watch(netns[ns].listener[slot], EPOLL_CTL_ADD, EPOLLIN,
				      TAG_LISTENER << TAG_SHIFT |
				      (ns * CC_MAX * ROUNDS + slot));
}

/* A flow whose connection is made after time zero needs a listener, and connections of its pool. */
static void prepare(struct flow *f, unsigned int *made)
{
	if (f->connect == POOL)
		fill_pool(f, made);
	open_listener(f->to, f->cc * ROUNDS);
}

void open_connections(void)
{
	unsigned int i, *made, later = nr_streamed;
	struct flow *streamed;

	pools = zeroed((size_t)nr_netns * nr_netns * nr_ccs + 1, sizeof(struct conn *));
	made = zeroed((size_t)nr_netns * nr_netns * nr_ccs + 1, sizeof(*made));
	for (i = 0; i < nr_edges; i++)
		nr_large += edges[i].bytes > LARGE_BYTES;
	for (i = 0; i < nr_flows; i++) {
		struct flow *f = &flows[i];

		if (f->connect == BEFORE)
			connect_before(f);
		else if (f->connect == SHARED)
			carry(flows[f->shared].conn, f, 1);
		else if (++later)
			prepare(f, made);
	}
	for (rewind_flows(); (streamed = next_flow()); free(streamed))
		prepare(streamed, made);
	rewind_flows();
	for (i = 0; i < nr_rpcs; i++) {
		connect_before(&rpcs[i].request);
		carry(rpcs[i].request.conn, &rpcs[i].response, 1);
	}
	for (i = 0; i < nr_edges; i++)
		connect_before(&edges[i].flow);
	free(made);
	if (later)
		watch_listeners();
}

/* Connect after time zero, without waiting for the handshake. */
static void connect_later(struct flow *f)
{
	struct conn *c = new_conn(f);
	unsigned int slot = slot_of(c);
	bool late = netns[c->to].listener[slot] < 0;
	struct sockaddr_storage peer;
	socklen_t len = bind_conn(c, f, SOCK_NONBLOCK, &peer);

	if (late)
		watch(netns[c->to].listener[slot], EPOLL_CTL_ADD, EPOLLIN,
		      TAG_LISTENER << TAG_SHIFT | (c->to * CC_MAX * ROUNDS + slot));
	if (connect(c->end[0].fd, (void *)&peer, len) && errno != EINPROGRESS)
		die("%s to %s: connect: %s", netns[c->from].name, netns[c->to].name,
		    strerror(errno));
	c->pooled = f->connect == POOL;
	carry(c, f, 0);
	/* With EPOLLET, fill() need not call epoll_ctl() if all bytes fit into the send buffer. */
	ask(c, 0, EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

void make_connection(struct flow *f)
{
	struct conn **pool = pool_of(f), *c = *pool;

	if (f->connect != POOL || !c) {
		connect_later(f);
		return;
	}
	*pool = c->next_free;
	carry(c, f, 0);
	read_info(f);
	set_lowat(f);
}

static bool has_address(const struct netns *ns, const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *a6 = (const void *)&ns->addr, *b6 = (const void *)ss;
	const struct sockaddr_in *a = (const void *)&ns->addr, *b = (const void *)ss;

	return ns->addr.ss_family == ss->ss_family &&
	       (ss->ss_family == AF_INET ? a->sin_addr.s_addr == b->sin_addr.s_addr :
					   IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr));
}

void accept_one(unsigned int tag)
{
	unsigned int ns = tag / (CC_MAX * ROUNDS), slot = tag % (CC_MAX * ROUNDS), port, number;
	struct sockaddr_storage ss;
	struct netns *host = netns;
	socklen_t len = sizeof(ss);
	struct conn *c;
	int fd;

	fd = accept4(netns[ns].listener[slot], (void *)&ss, &len, SOCK_CLOEXEC);
	if (fd < 0)
		die("%s: accept: %s", netns[ns].name, strerror(errno));
	while (host < netns + nr_netns && !has_address(host, &ss))
		host++;
	port = ntohs(ss.ss_family == AF_INET ? ((struct sockaddr_in *)&ss)->sin_port :
					       ((struct sockaddr_in6 *)&ss)->sin6_port);
	number = port - SPORT_BASE + slot % ROUNDS * SPORTS;
	c = host < netns + nr_netns && number < host->nr_conns ? host->conns[number] : NULL;
	if (!c)
		die("%s: accepted an unknown connection", netns[ns].name);
	c->end[1].fd = fd;
	c->end[1].events = 0;
	ask(c, 1, EPOLLIN);
	if (c->end[0].out)
		set_lowat(c->end[0].out);
}

/* Read TCP_INFO of the flow's sender. For a flow in a pool it is also read at the start. */
void read_info(struct flow *f)
{
	struct end *e = &f->conn->end[f->conn->end[1].out == f];
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (e->fd < 0)
		return;
	if (getsockopt(e->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		die("flow %u: TCP_INFO: %s", f->id, strerror(errno));
	f->retrans = info.tcpi_total_retrans - f->retrans;
}

static void shut(struct conn *c, unsigned int end)
{
	close(c->end[end].fd);
	c->end[end].fd = -1;
}

/* The receiver has all bytes of a flow. If it is the last flow of the connection, the receiver
 * closes first. When the other end receives the FIN, all its data are acknowledged and its counters
 * are final, so it closes too.
 */
void release(struct flow *f)
{
	struct conn *c = f->conn;
	unsigned int receiver = c->end[0].out == f;

	if (c->pooled) {
		struct conn **pool = pool_of(f);

		read_info(f);
		c->nr_undone = 0;
		c->end[0].out = NULL;
		c->next_free = *pool;
		*pool = c;
		put_flow(f);
		return;
	}
	if (--c->nr_undone)
		return;
	if (c->end[receiver].out && !f->rpc)
		read_info(c->end[receiver].out);
	shut(c, receiver);
	nr_closing++;
}

/* Without a path TCP gives up some time after its last segment. The flow then stays unfinished. */
static bool gave_up(struct conn *c, unsigned int end)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(c->end[end].fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error == ETIMEDOUT || (error == ECONNRESET && c->end[!end].fd < 0);
}

void peer_closed(struct conn *c, unsigned int end)
{
	if (c->nr_undone && gave_up(c, end)) {
		shut(c, end);
		return;
	}
	if (c->nr_undone || c->pooled)
		die("%s to %s: the connection was closed early", netns[c->from].name,
		    netns[c->to].name);
	if (c->end[end].out && !c->end[end].out->rpc)
		read_info(c->end[end].out);
	shut(c, end);
	nr_closing--;
	for (end = 0; end < 2; end++)
		put_flow(c->end[end].out);
	netns[c->from].conns[c->number] = NULL;
	free(c);
}

/* The flows whose connections are still open. */
void put_open_flows(void)
{
	unsigned int i, number, end;

	for (i = 0; i < nr_netns; i++)
		for (number = 0; number < netns[i].nr_conns; number++)
			for (end = 0; netns[i].conns[number] && end < 2; end++) {
				struct flow *f = netns[i].conns[number]->end[end].out;

				if (f && !f->rpc && !f->edge)
					read_info(f);
				put_flow(f);
			}
}
