/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the parts of hpccmon share; the main comment is in main.c. */
#ifndef HPCCMON_H
#define HPCCMON_H

#include <json-c/json.h>
#include <linux/hpcc.h>
#include <linux/hpcc_netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define EXIT_NOTHING	1	/* nothing found, or an error */
#define EXIT_USAGE	2

/* Maximum length of an end as text: [address]:port. */
#define ENDPOINT_MAX	64

/* One end of a connection, or a pattern for ends. */
struct endpoint {
	struct in6_addr	addr;	/* IPv4 in its mapped form */
	uint16_t	port;
	bool		any_addr;
	bool		any_port;
};

/* Mode of flows that "hpccmon observe" records; the other modes are enum hpcc_flow_mode. */
#define FLOW_OBSERVED	(HPCC_FLOW_DOUBTING + 1)
#define NR_FLOW_MODES	(FLOW_OBSERVED + 1)

/* State of a hop at the sender. */
struct hop {
	uint32_t	nr;		/* from 1 on */
	double		u;		/* u' of the last record */
	uint64_t	qlen_ns;	/* queue in the last record */
	uint64_t	age_us;		/* age of the last record */
	uint64_t	held_us;	/* time as the bottleneck; 0: a short time or none */
	bool		known;		/* u, qlen_ns and age_us are known */
	bool		quiet;		/* the queue is too short for records */
	bool		named;		/* node, port and bps are known */
	uint32_t	node;		/* switch_ID */
	uint32_t	port;		/* port_ID */
	uint64_t	bps;		/* B, bit/s */
};

/* A message about a flow (linux/hpcc_netlink.h). */
struct flow {
	struct endpoint	local;			/* our end */
	struct endpoint	peer;
	uint64_t	cookie;			/* SO_COOKIE */
	uint32_t	ifindex;		/* the socket is bound to this interface; 0: none */
	uint32_t	event;			/* enum hpcc_event of an event */
	uint32_t	mode;			/* enum hpcc_flow_mode, or FLOW_OBSERVED */
	uint32_t	fell_back;		/* enum hpcc_flow_why */
	uint64_t	W;			/* bytes, as Wc, W_init and W_min */
	uint64_t	Wc;
	uint64_t	W_init;
	uint64_t	W_min;
	double		U;			/* 1 is a full link */
	double		eta;			/* in the unit of U */
	uint64_t	R;			/* bytes/s */
	uint64_t	T_ns;
	uint32_t	inc_stage;
	uint32_t	max_stage;
	uint32_t	N;			/* flows at the bottleneck; 0: W_ai is configured */
	uint32_t	sample_ns;		/* time between requests; 0: in each segment */
	bool		receiver;		/* the receiver computes W */
	bool		probes;			/* probes carry requests */
	bool		muted;			/* no options: the path may drop them */
	bool		busy;			/* the socket was in use: no hops */
	uint32_t	missed;			/* earlier events that were not reported */
	uint32_t	received;		/* options with telemetry */
	uint32_t	malformed;		/* ignored options */
	uint32_t	bad_hop;		/* ignored records: their hop is not on the path */
	uint32_t	ts_back;		/* ignored records: ts did not increase */
	uint32_t	tx_excess;		/* ignored records: tx grew faster than ts */
	bool		is_signed;		/* both ends sign feedback */
	bool		powertcp;		/* PowerTCP computes W */
	char		cc[16];			/* congestion control of an observed flow */
	uint32_t	untagged;		/* ignored feedback: no tag */
	uint32_t	wrong_tag;		/* ignored feedback: wrong tag */
	uint32_t	replayed;		/* ignored feedback: not newer */
	uint32_t	nr_hops;		/* hops of the path */
	struct hop	hop[HPCC_HOPS_MAX];	/* hops that the message describes */
};

/* A number in struct flow or in struct hop: bool, uint16_t, uint32_t, uint64_t or double. */
enum kind { UNKNOWN, FLAG, NUMBER16, NUMBER32, NUMBER64, SHARE };

struct member {
	uint16_t	offset;
	uint16_t	kind;		/* enum kind */
};

#define FLOW(name, kind)	((struct member){ offsetof(struct flow, name), kind })
#define HOP(name, kind)		((struct member){ offsetof(struct hop, name), kind })

/* Ignored telemetry of a flow: the reason, as in JSON and in metrics, the same in words, and the
 * number of options or records.
 */
struct ignored {
	const char	*reason;
	const char	*words;
	struct member	nr;
};

#define NR_IGNORED	7
extern const struct ignored ignored[NR_IGNORED];

/* Selected flows. */
struct filter {
	struct endpoint	local;	/* our end, or any end if either is set */
	struct endpoint	peer;
	uint64_t	cookie;	/* 0: any */
	bool		either;	/* local may also match the peer */
	bool		names;	/* request the names of links */
	char		text[2 * ENDPOINT_MAX + 8];	/* text from the command line */
};

/* The type of an option's value: bool, const char *, double or uint32_t. */
enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_WHOLE };

/* An option of a command. */
struct option_spec {
	const char		*name;
	char			letter;
	enum option_kind	kind;
	void			*to;		/* place of the value */
	double			min;		/* of a number */
	double			max;
	uint32_t		without;	/* an OPTION_WHOLE without a value; 0: an error */
};

struct monitor;
struct nlmsghdr;

typedef void (*flow_fn)(const struct flow *flow, void *data);
typedef void (*counter_fn)(const char *name, uint64_t value, void *data);
typedef void (*message_fn)(struct monitor *mon, const struct nlmsghdr *nlh, void *data);

/* main.c */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *allocated(void *memory);
void end_output(void);
bool interrupted(void);
void catch_interrupts(void);
void catch_signal(int signal);
void restore_by(void (*function)(void));

/* filter.c */
void addr_map(struct in6_addr *addr, const void *v4);
bool endpoint_read(struct endpoint *endpoint, const char *word);
void filter_parse(struct filter *filter, int nr, char **args);
bool filter_matches(const struct filter *filter, const struct flow *flow);
const char *endpoint_text(const struct endpoint *endpoint, char text[ENDPOINT_MAX]);
const char *addr_text(const struct endpoint *endpoint, char text[ENDPOINT_MAX]);

/* netlink.c */
struct monitor *monitor_new(void);
struct monitor *monitor_open(void);
struct monitor *monitor_open_flows(void);
void monitor_close(struct monitor *mon);
int monitor_fd(const struct monitor *mon);
int monitor_dump(struct monitor *mon, const struct filter *filter, flow_fn fn, void *data,
		 const char **why);
int monitor_counters(struct monitor *mon, counter_fn fn, void *data, const char **why);
void monitor_flows(struct monitor *mon, const struct filter *filter, flow_fn fn, void *data);
void monitor_ask(struct monitor *mon, struct nlmsghdr *nlh, message_fn fn, void *data);
void monitor_listen(struct monitor *mon);
uint64_t monitor_lost(struct monitor *mon);
bool monitor_recv(struct monitor *mon, flow_fn fn, void *data, uint64_t *lost);

/* flow.c */
void flow_parse(struct flow *flow, const struct nlmsghdr *nlh);
double member_value(const void *base, struct member member);
bool flow_is_classic(const struct flow *flow);
const char *mode_text(uint32_t mode);
const char *fell_back_text(uint32_t why);
const char *event_text(uint32_t event);

/* why.c */
const struct hop *flow_holder(const struct flow *flow);
bool flow_is_measured(const struct flow *flow);
bool flow_is_idle(const struct flow *flow);
const char *why_text(const struct flow *flow, char *text, size_t size);

/* units.c */
double seconds(clockid_t clock);
const char *bytes_text(double bytes, char text[16]);
const char *rate_text(double bps, char text[16]);
const char *time_text(double ns, char text[16]);

/* json.c */
struct json_object *flow_json(const struct flow *flow);
struct json_object *event_json(const struct flow *flow);
void json_line(struct json_object *object);

/* show.c */
void show_hops(const struct flow *flow);

/* path.c */
bool identify_request(struct monitor *mon, struct filter *filter, const char **why);

/* options.c */
double option_number(const struct option_spec *option, const char *text);
void take_options(int argc, char **argv, const struct option_spec *options);

/* replace.c */
char *file_beside(const char *name, int *fd);
void file_replace(const char *new, int fd, const char *name);

/* The commands. */
int cmd_events(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_flow(int argc, char **argv);
int cmd_observe(int argc, char **argv);
int cmd_path(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_table(int argc, char **argv);
int cmd_top(int argc, char **argv);

#endif /* HPCCMON_H */
