/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Generic netlink family "hpcc": the connections that run hpcc in a network namespace, and its
 * tables of links, routes and keys. Documentation/netlink/specs/hpcc.yaml describes it for the
 * kernel's ynl.
 */
#ifndef _UAPI_LINUX_HPCC_NETLINK_H
#define _UAPI_LINUX_HPCC_NETLINK_H

#define HPCC_FAMILY_NAME	"hpcc"
#define HPCC_FAMILY_VERSION	1

/* Multicast group of HPCC_CMD_FLOW_NTF. */
#define HPCC_MCGRP_EVENTS	"events"

enum {
	HPCC_CMD_UNSPEC,
	HPCC_CMD_FLOW_GET,	/* state of one flow, or a dump; tuple and cookie select flows */
	HPCC_CMD_FLOW_NTF,	/* event of a flow, HPCC_A_FLOW_EVENT */
	HPCC_CMD_COUNTERS_GET,	/* dump the counters of the namespace */
	HPCC_CMD_LINK_GET,	/* dump the table of links, HPCC_A_TABLE_* */
	HPCC_CMD_LINK_SET,	/* add or change all links of a request, or none; CAP_NET_ADMIN */
	HPCC_CMD_LINK_DEL,	/* delete all links of a request, or none, by node and port */
	HPCC_CMD_ROUTE_GET,	/* routes: as the three commands for links */
	HPCC_CMD_ROUTE_SET,
	HPCC_CMD_ROUTE_DEL,	/* only HPCC_A_ROUTE_PREFIX and HPCC_A_ROUTE_LEN */
	HPCC_CMD_KEY_GET,	/* keys: as the three commands for routes; never returns a key */
	HPCC_CMD_KEY_SET,
	HPCC_CMD_KEY_DEL,
	__HPCC_CMD_MAX,
};

#define HPCC_CMD_MAX	(__HPCC_CMD_MAX - 1)

/* HPCC_A_FLOW_EVENT */
enum hpcc_event {
	HPCC_EVENT_FALLBACK,	/* the flow falls back to the classic response */
	HPCC_EVENT_RETURN,	/* the flow returns to telemetry */
	HPCC_EVENT_PATH,	/* the flow finds another link at a hop */
	HPCC_EVENT_MUTED,	/* the flow omits the option, because the path may drop it */
};

/* HPCC_A_FLOW_MODE */
enum hpcc_flow_mode {
	HPCC_FLOW_TELEMETRY,	/* the window is W */
	HPCC_FLOW_IGNORING,	/* the window is W; the last records were not usable */
	HPCC_FLOW_CLASSIC,	/* Reno's response, until a record arrives */
	HPCC_FLOW_DOUBTING,	/* Reno's response, until a link is measured */
};

/* HPCC_A_FLOW_WHY: reason of the flow's last fallback */
enum hpcc_flow_why {
	HPCC_WHY_NONE,		/* the flow never fell back */
	HPCC_WHY_SILENCE,	/* telemetry stopped */
	HPCC_WHY_UNSEEN_LOSS,	/* no link with telemetry explains the losses */
	HPCC_WHY_MUTED,		/* an RTO fired, and no telemetry arrived since the last RTO */
	HPCC_WHY_UNTRUSTED,	/* telemetry stopped: tags of feedback are wrong or missing */
};

enum {
	HPCC_A_FLOW_UNSPEC,
	HPCC_A_FLOW_PAD,
	HPCC_A_FLOW_LADDR,	/* binary, 4 or 16 bytes */
	HPCC_A_FLOW_RADDR,	/* binary, 4 or 16 bytes */
	HPCC_A_FLOW_LPORT,	/* u16 */
	HPCC_A_FLOW_RPORT,	/* u16 */
	HPCC_A_FLOW_COOKIE,	/* u64, SO_COOKIE */
	HPCC_A_FLOW_IFINDEX,	/* u32, SO_BINDTOIFINDEX; absent if the socket is not bound */
	HPCC_A_FLOW_IDENTIFY,	/* flag: request the identities of links, for 10 s; CAP_NET_ADMIN */
	HPCC_A_FLOW_EVENT,	/* u32, enum hpcc_event */
	HPCC_A_FLOW_MODE,	/* u32, enum hpcc_flow_mode */
	HPCC_A_FLOW_WHY,	/* u32, enum hpcc_flow_why */
	HPCC_A_FLOW_W,		/* u64, bytes */
	HPCC_A_FLOW_WC,		/* u64, bytes */
	HPCC_A_FLOW_W_INIT,	/* u64, bytes */
	HPCC_A_FLOW_U,		/* u64, 2^-24 */
	HPCC_A_FLOW_ETA,	/* u32, 2^-24 */
	HPCC_A_FLOW_R,		/* u64, W/T, bytes/s */
	HPCC_A_FLOW_T,		/* u64, ns */
	HPCC_A_FLOW_INC_STAGE,	/* u32 */
	HPCC_A_FLOW_N,		/* u32, N that the receiver measured; absent if configured */
	HPCC_A_FLOW_SAMPLE,	/* u32, ns between requests; 0: each segment has a request */
	HPCC_A_FLOW_RECEIVER,	/* flag: the receiver computes W */
	HPCC_A_FLOW_PROBES,	/* flag: probes carry requests */
	HPCC_A_FLOW_HOPS,	/* u32, hops of the path */
	HPCC_A_FLOW_HOP,	/* nest of HPCC_A_HOP_*, one for each known hop */
	HPCC_A_FLOW_BUSY,	/* flag: a process owned the socket, so hops have no load */
	HPCC_A_FLOW_MISSED,	/* u32, events suppressed by the limit since the last sent event */
	HPCC_A_FLOW_RECEIVED,	/* u32, received options with telemetry */
	HPCC_A_FLOW_MALFORMED,	/* u32, ignored options */
	HPCC_A_FLOW_BAD_HOP,	/* u32, ignored records: hop not on the path */
	HPCC_A_FLOW_TS_BACK,	/* u32, ignored records: ts did not advance */
	HPCC_A_FLOW_TX_EXCESS,	/* u32, ignored records: tx grew faster than ts */
	HPCC_A_FLOW_W_MIN,	/* u64, minimum of W, bytes */
	HPCC_A_FLOW_MAX_STAGE,	/* u32, maxStage */
	HPCC_A_FLOW_MUTED,	/* flag: the flow omits the option; the path may drop it */
	HPCC_A_FLOW_SIGNED,	/* flag: both ends sign feedback */
	HPCC_A_FLOW_UNSIGNED,	/* u32, ignored feedback: no tag */
	HPCC_A_FLOW_WRONG_TAG,	/* u32, ignored feedback: wrong tag */
	HPCC_A_FLOW_REPLAYED,	/* u32, ignored feedback: not newer */
	HPCC_A_FLOW_POWERTCP,	/* flag: PowerTCP computes W, not HPCC++ */
	__HPCC_A_FLOW_MAX,
};

#define HPCC_A_FLOW_MAX	(__HPCC_A_FLOW_MAX - 1)

enum {
	HPCC_A_HOP_UNSPEC,
	HPCC_A_HOP_PAD,
	HPCC_A_HOP_HOP,		/* u32, number of the hop, from 1 */
	HPCC_A_HOP_U,		/* u64, u' of the last record, or u' of a quiet hop, 2^-24 */
	HPCC_A_HOP_QLEN,	/* u64, queue in the last record, ns */
	HPCC_A_HOP_AGE,		/* u64, age of the last record, us */
	HPCC_A_HOP_QUIET,	/* flag: the hop's queue is too short for records */
	HPCC_A_HOP_NODE,	/* u32, switch_ID; present while IDENTIFY is active */
	HPCC_A_HOP_PORT,	/* u32, port_ID; present while IDENTIFY is active */
	HPCC_A_HOP_RATE,	/* u64, B, bit/s; present while IDENTIFY is active */
	HPCC_A_HOP_HELD,	/* u64, us for which this hop has had the largest u' */
	__HPCC_A_HOP_MAX,
};

#define HPCC_A_HOP_MAX	(__HPCC_A_HOP_MAX - 1)

enum {
	HPCC_A_COUNTER_UNSPEC,
	HPCC_A_COUNTER_PAD,
	HPCC_A_COUNTER_NAME,	/* string, as in /proc/net/hpcc */
	HPCC_A_COUNTER_VALUE,	/* u64 */
	__HPCC_A_COUNTER_MAX,
};

#define HPCC_A_COUNTER_MAX	(__HPCC_A_COUNTER_MAX - 1)

enum {
	HPCC_A_TABLE_UNSPEC,
	HPCC_A_TABLE_REPLACE,	/* flag: the entries of this request replace the table */
	HPCC_A_TABLE_LINK,	/* nest of HPCC_A_LINK_*, one for each link */
	HPCC_A_TABLE_ROUTE,	/* nest of HPCC_A_ROUTE_*, one for each route */
	HPCC_A_TABLE_KEY,	/* nest of HPCC_A_KEY_*, one for each prefix */
	__HPCC_A_TABLE_MAX,
};

#define HPCC_A_TABLE_MAX	(__HPCC_A_TABLE_MAX - 1)

enum {
	HPCC_A_LINK_UNSPEC,
	HPCC_A_LINK_PAD,
	HPCC_A_LINK_NODE,	/* u32, switch_ID, 0 to 0xfffffe */
	HPCC_A_LINK_PORT,	/* u32, port_ID, 0 to 0xfffe */
	HPCC_A_LINK_RATE,	/* u64, B, bit/s */
	HPCC_A_LINK_UNIT,	/* u32, bytes in a unit of queue depth; default 1 */
	__HPCC_A_LINK_MAX,
};

#define HPCC_A_LINK_MAX		(__HPCC_A_LINK_MAX - 1)

enum {
	HPCC_A_ROUTE_UNSPEC,
	HPCC_A_ROUTE_PREFIX,	/* binary, 4 or 16 bytes */
	HPCC_A_ROUTE_LEN,	/* u32, bits of the prefix */
	/* u32, as the parameter of the same name in net.hpcc; if absent, that parameter applies */
	HPCC_A_ROUTE_WHERE,
	HPCC_A_ROUTE_CARRIER,
	HPCC_A_ROUTE_BASE_RTT_NS,
	HPCC_A_ROUTE_ETA_PERMILLE,
	HPCC_A_ROUTE_N_FLOWS,
	HPCC_A_ROUTE_SAMPLE,
	__HPCC_A_ROUTE_MAX,
};

#define HPCC_A_ROUTE_MAX	(__HPCC_A_ROUTE_MAX - 1)

enum {
	HPCC_A_KEY_UNSPEC,
	HPCC_A_KEY_PREFIX,	/* binary, 4 or 16 bytes */
	HPCC_A_KEY_LEN,		/* u32, bits of the prefix */
	HPCC_A_KEY_SEND,	/* binary, 16 bytes: signs and verifies; only in HPCC_CMD_KEY_SET */
	HPCC_A_KEY_ACCEPT,	/* binary, 16 bytes: only verifies; only in HPCC_CMD_KEY_SET */
	HPCC_A_KEY_REQUIRE,	/* flag: connections with peers that do not sign run classic */
	HPCC_A_KEY_HAS_ACCEPT,	/* flag, in answers: there is an HPCC_A_KEY_ACCEPT */
	__HPCC_A_KEY_MAX,
};

#define HPCC_A_KEY_MAX		(__HPCC_A_KEY_MAX - 1)

#endif /* _UAPI_LINUX_HPCC_NETLINK_H */
