/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the parts of hpcc-traffic share; the main comment is in main.c. */
#ifndef HPCC_TRAFFIC_H
#define HPCC_TRAFFIC_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../include/uapi/linux/hpcc.h"

#define NSEC_PER_SEC	1000000000ULL
#define NEVER		UINT64_MAX

/* Maximum number of pairs of a congestion control and a DSCP in a run. Each has its own listener on
 * each host.
 */
#define CC_MAX		64

/* Connections from a host have numbers, and source ports from SPORT_BASE on, below the range that
 * Linux uses. After the last source port, connections use the next listener of the peer, so that
 * the four-tuple stays unique. After the last number, numbers of closed connections are used again.
 */
#define SPORT_BASE	10000
#ifndef SPORTS		/* for tests */
#define SPORTS		22768
#define ROUNDS		8
#endif
#define NUMBERS		(SPORTS * ROUNDS)
#define NUMBER_BITS	18
#define DPORT_BASE	5001

/* A flow with more bytes has a large send buffer, so that few system calls fill it. Other flows
 * have the default buffer of Linux, which is 1 MB here and grows with the congestion window.
 */
#define LARGE_BYTES	(1U << 20)

/* Maximum number of classes of a port. */
#define CLASSES_MAX	8

struct netns {
	char		name[32];
	char		path[128];
	int		fd;		/* -1 until the namespace is entered */
	struct sockaddr_storage	addr;	/* address of a host */
	int		netlink;	/* netlink socket, -1 before the first use */
	unsigned int	first_port;	/* the ports of a namespace are consecutive */
	unsigned int	nr_ports;
	bool		host;		/* connections begin or end here */
	uint64_t	timeouts;	/* RTOs before time zero */
	struct conn	**conns;	/* connections from this host, by number; NULL: closed */
	unsigned int	nr_conns;
	unsigned int	next_number;
	unsigned int	nr_sent;	/* flows of the plan that this host sends */
	int		listener[CC_MAX * ROUNDS];	/* -1 before the first use */
};

struct port {
	unsigned int	id;
	unsigned int	ns;
	char		ifname[IFNAMSIZ];
	int		ifindex;
	bool		series;
	unsigned int	classes;	/* qdiscs of classes below the qdisc of the port */
	bool		marking;
	uint32_t	kmin;		/* effective thresholds, bytes */
	uint32_t	kmax;
	uint32_t	knonect;
	uint32_t	pmax_ppm;
};

enum connect {
	BEFORE,		/* time zero */
	START,		/* start time of the flow */
	POOL,		/* a connection of a pool, see below */
	SHARED,		/* other direction of another flow's connection */
};

/* A flow: bytes in one direction of a connection. Each message of an RPC is a flow too. */
struct flow {
	unsigned int	id;
	unsigned int	from;
	unsigned int	to;
	unsigned int	cc;
	enum connect	connect;
	unsigned int	shared;		/* SHARED: index of the other flow */
	struct rpc	*rpc;
	struct edge	*edge;
	struct conn	*conn;
	uint64_t	bytes;
	bool		endless;
	uint64_t	start_ns;
	uint64_t	sent;
	uint64_t	received;
	bool		done;		/* the receiver has all bytes */
	bool		streamed;	/* not in flows[]; freed when its result has been written */
	bool		written;
	uint64_t	done_ns;
	uint64_t	window[2];	/* endless: bytes at start and end of the window */
	uint32_t	retrans;	/* in a pool: since this flow began */
};

/* One end of a connection. End 0 connects, and the listener accepts end 1. */
struct end {
	int		fd;
	uint32_t	events;		/* events requested from epoll */
	int		lowat;
	struct flow	*out;		/* flow that it sends */
};

struct conn {
	unsigned int	number;		/* in its host */
	unsigned int	from;
	unsigned int	to;
	unsigned int	cc;
	unsigned int	nr_undone;	/* number of flows not done yet */
	bool		pooled;
	bool		open;		/* end 0 is connected */
	struct end	end[2];
	struct conn	*next_free;	/* next free connection in its pool */
};

/* Requests and responses over one connection, in turn. */
struct rpc {
	unsigned int	id;
	struct flow	request;
	struct flow	response;
	uint64_t	request_bytes;
	uint64_t	response_bytes;
	uint64_t	count;		/* 0: no limit */
	uint64_t	until_ns;	/* 0: no limit; no request is sent after this time */
	uint64_t	think_ns;	/* time from a response to the next request */
	uint64_t	next_ns;	/* when the next request is due, or NEVER */
	uint64_t	*latency_ns;
	uint64_t	nr_calls;
	bool		done;
};

/* The messages from one host to another in a collective; see collective.c. */
struct edge {
	struct flow	flow;		/* bytes: those that may be sent so far */
	unsigned int	collective;
	uint64_t	bytes;		/* of each message */
	unsigned int	count;		/* messages of a step */
	unsigned int	free;		/* messages that are sent when a step begins */
	unsigned int	*after;		/* edges, counted from the first of the collective */
	unsigned int	nr_after;
	uint64_t	arrived;	/* messages, of all steps */
};

struct collective {
	unsigned int	id;
	unsigned int	first;		/* its edges are consecutive */
	unsigned int	nr_edges;
	unsigned int	steps;
	uint64_t	begun_ns;	/* when the current step began, or the first one will */
	bool		begun;
	uint64_t	left;		/* messages of the step that have not arrived */
	uint64_t	*step_ns;
	unsigned int	nr_steps;	/* steps that have ended */
};

struct program {
	unsigned int	ns;
	bool		early;		/* it runs before time zero */
	uint64_t	start_ns;
	uint64_t	stop_ns;	/* SIGTERM at this time; NEVER: it ends by itself */
	bool		server;		/* the run does not wait for its end */
	char		*out;		/* file; "-": our output, must not fail */
	char		*command;
	int		pid;		/* 0 while it does not run */
	int		pidfd;
	bool		started;
	bool		signalled;
	bool		ended;
	uint64_t	started_ns;
	uint64_t	ended_ns;
	int		status;
};

/* A congestion control, and the TOS field (IPv4) or traffic class (IPv6) of its packets. */
struct cc {
	char		text[20];	/* NAME or NAME/DSCP */
	char		name[16];
	int		tos;
};

struct reading {
	struct tc_hpcc_xstats	port;
	__u64			hist[HPCC_HIST_BUCKETS];
	__u64			drops;		/* also those of a child */
};

extern struct netns *netns;
extern struct port *ports;
extern struct flow *flows;
extern struct rpc *rpcs;
extern struct edge *edges;
extern struct collective *collectives;
extern struct program *programs;
extern struct cc ccs[CC_MAX];
extern unsigned int nr_netns, nr_ports, nr_flows, nr_rpcs, nr_programs, nr_ccs;
extern unsigned int nr_edges, nr_collectives, nr_streamed, nr_large;
extern unsigned int nr_endless, nr_series, pool_size;
extern uint64_t interval_ns, from_ns, until_ns, deadline_ns;
extern uint64_t bytes_wanted;
extern bool verify, series_flows;

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* main.c */
extern unsigned int nr_undone;		/* flows, RPCs and collectives, including endless flows */
extern unsigned int nr_ended;
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *zeroed(size_t nr, size_t size);
void *grown(void *array, unsigned int nr, size_t size);
uint64_t now_ns(void);
uint64_t zero_clock_ns(void);	/* time of day at time zero */
uint64_t virtual_ns(void);	/* ns since time zero; 0 before */
void progress(uint64_t done, uint64_t wanted);
void watch(int fd, int op, uint32_t events, uint64_t tag);
void flow_done(struct flow *f);

/* Data of epoll events: TAG_x, and an index in the lower bits. */
#define TAG_SHIFT	60
#define TAG_END		0ULL
#define TAG_LISTENER	1ULL
#define TAG_PROGRAM	2ULL
#define TAG_TICK	3ULL

/* plan.c */
void enter(unsigned int ns);
void read_plan(const char *path);
void rewind_flows(void);
struct flow *next_flow(void);

/* connect.c */
extern unsigned int nr_closing;
void open_connections(void);
void make_connection(struct flow *f);
void accept_one(unsigned int tag);
void release(struct flow *f);
void peer_closed(struct conn *c, unsigned int end);
void read_info(struct flow *f);
struct conn *conn_of(uint64_t tag);
void put_open_flows(void);
void ask(struct conn *c, unsigned int end, uint32_t events);

/* data.c */
void make_pattern(void);
void begin_flow(struct flow *f);
void fill(struct flow *f);
void receive(struct flow *f);
void set_lowat(struct flow *f);

/* rpc.c */
void start_rpcs(uint64_t t_ns);
uint64_t next_rpc_ns(void);
void rpc_advance(struct flow *f, uint64_t t_ns);
void put_rpcs(FILE *out);

/* collective.c */
void start_collectives(uint64_t t_ns);
uint64_t next_collective_ns(void);
uint64_t message_left(const struct flow *f);
void edge_received(struct flow *f, uint64_t t_ns);
void put_collectives(FILE *out);

/* program.c */
extern unsigned int nr_running;		/* programs that have not ended, without servers */
extern unsigned int nr_early;
void start_early_programs(void);
void announce_zero(void);
void start_programs(uint64_t t_ns);
void stop_programs(int signal);
uint64_t next_program_ns(void);
void program_ended(unsigned int index);
bool programs_left(void);
void put_programs(FILE *out);

/* measure.c */
extern bool have_until;
void open_measurement(const char *path);
bool window_ends(bool over);
void take_sample(uint64_t t_ns);
void measure(uint64_t t_ns, bool over);
uint64_t next_reading_ns(void);
void put_flow(struct flow *f);
void write_result(void);

/* counters.c */
void read_hosts(void);
void put_hosts(FILE *out);

/* ports.c */
void open_ports(void);
void read_ports(struct reading *readings, bool series_only);

#endif /* HPCC_TRAFFIC_H */
