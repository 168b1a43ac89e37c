/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Generic netlink family "hpcc": the connections that run hpcc in a network namespace, and its
 * tables of links and routes.
 * Documentation/netlink/specs/hpcc.yaml describes it for the kernel's ynl.
 */
#ifndef _UAPI_LINUX_HPCC_NETLINK_H
#define _UAPI_LINUX_HPCC_NETLINK_H

#define HPCC_FAMILY_NAME	"hpcc"
#define HPCC_FAMILY_VERSION	1

/* Multicast group of HPCC_CMD_FLOW_NTF. */
#define HPCC_MCGRP_EVENTS	"events"

enum {
	HPCC_CMD_UNSPEC,
	HPCC_CMD_FLOW_GET,	/* of one flow, or a dump of all; the tuple and cookie select */
	HPCC_CMD_FLOW_NTF,	/* what happened to a flow, HPCC_A_FLOW_EVENT */
	HPCC_CMD_COUNTERS_GET,	/* counters of the namespace, a dump */
	HPCC_CMD_LINK_GET,	/* the table of links, a dump; HPCC_A_TABLE_* */
	HPCC_CMD_LINK_SET,	/* add or change links, all of a request or none; CAP_NET_ADMIN */
	HPCC_CMD_LINK_DEL,	/* delete links, the same; of HPCC_A_LINK_* node and port only */
	HPCC_CMD_ROUTE_GET,	/* the same of routes */
	HPCC_CMD_ROUTE_SET,
	HPCC_CMD_ROUTE_DEL,	/* of HPCC_A_ROUTE_* prefix and length only */
	__HPCC_CMD_MAX,
};

#define HPCC_CMD_MAX	(__HPCC_CMD_MAX - 1)

/* HPCC_A_FLOW_EVENT */
enum hpcc_event {
	HPCC_EVENT_FALLBACK,	/* to the classic response */
	HPCC_EVENT_RETURN,	/* back to telemetry */
	HPCC_EVENT_PATH,	/* another link at a hop */
	HPCC_EVENT_MUTED,	/* segments go without the option, as the path may drop them */
};

/* HPCC_A_FLOW_MODE */
enum hpcc_flow_mode {
	HPCC_FLOW_TELEMETRY,	/* W rules */
	HPCC_FLOW_IGNORING,	/* W rules; the last records were of no use */
	HPCC_FLOW_CLASSIC,	/* Reno rules, until a record comes */
	HPCC_FLOW_DOUBTING,	/* Reno rules, until a link is measured */
};

/* HPCC_A_FLOW_WHY: why the flow fell back last */
enum hpcc_flow_why {
	HPCC_WHY_NONE,		/* it never did */
	HPCC_WHY_SILENCE,	/* telemetry stopped */
	HPCC_WHY_UNSEEN_LOSS,	/* no link with telemetry explains its losses */
	HPCC_WHY_MUTED,		/* an RTO, and no telemetry since the last one */
};

enum {
	HPCC_A_FLOW_UNSPEC,
	HPCC_A_FLOW_PAD,
	HPCC_A_FLOW_LADDR,	/* binary, 4 or 16 bytes */
	HPCC_A_FLOW_RADDR,	/* binary, 4 or 16 bytes */
	HPCC_A_FLOW_LPORT,	/* u16 */
	HPCC_A_FLOW_RPORT,	/* u16 */
	HPCC_A_FLOW_COOKIE,	/* u64, SO_COOKIE */
	HPCC_A_FLOW_IFINDEX,	/* u32, SO_BINDTOIFINDEX; not there: not bound */
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
	HPCC_A_FLOW_N,		/* u32, as the receiver measured it; not there: configured */
	HPCC_A_FLOW_SAMPLE,	/* u32, ns from one request to the next; 0: in all segments */
	HPCC_A_FLOW_RECEIVER,	/* flag: the receiver computes W */
	HPCC_A_FLOW_PROBES,	/* flag: probes carry requests */
	HPCC_A_FLOW_HOPS,	/* u32, hops of the path */
	HPCC_A_FLOW_HOP,	/* nest of HPCC_A_HOP_*, one for each hop that is known */
	HPCC_A_FLOW_BUSY,	/* flag: a process owned the socket, hops have no load */
	HPCC_A_FLOW_MISSED,	/* u32, events suppressed by the rate limit since the last one */
	HPCC_A_FLOW_RECEIVED,	/* u32, received options with telemetry */
	HPCC_A_FLOW_MALFORMED,	/* u32, options that were ignored */
	HPCC_A_FLOW_BAD_HOP,	/* u32, records that were ignored: of no hop of the path */
	HPCC_A_FLOW_TS_BACK,	/* u32, the same: ts did not advance */
	HPCC_A_FLOW_TX_EXCESS,	/* u32, the same: tx grew faster than ts */
	HPCC_A_FLOW_W_MIN,	/* u64, the least W, bytes */
	HPCC_A_FLOW_MAX_STAGE,	/* u32, maxStage */
	HPCC_A_FLOW_MUTED,	/* flag: segments go without the option: the path may drop it */
	__HPCC_A_FLOW_MAX,
};

#define HPCC_A_FLOW_MAX	(__HPCC_A_FLOW_MAX - 1)

enum {
	HPCC_A_HOP_UNSPEC,
	HPCC_A_HOP_PAD,
	HPCC_A_HOP_HOP,		/* u32, 1 and up */
	HPCC_A_HOP_U,		/* u64, u' of its last record, or as a quiet one counts, 2^-24 */
	HPCC_A_HOP_QLEN,	/* u64, its queue in that, ns */
	HPCC_A_HOP_AGE,		/* u64, us since then */
	HPCC_A_HOP_QUIET,	/* flag: its queue is too short for records */
	HPCC_A_HOP_NODE,	/* u32, switch_ID; known while HPCC_A_FLOW_IDENTIFY counts */
	HPCC_A_HOP_PORT,	/* u32, port_ID, as that */
	HPCC_A_HOP_RATE,	/* u64, B, bit/s, as that */
	HPCC_A_HOP_HELD,	/* u64, us, how long its u' has been the largest one, if it is */
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
	HPCC_A_TABLE_REPLACE,	/* flag: the table has the entries of this request and no others */
	HPCC_A_TABLE_LINK,	/* nest of HPCC_A_LINK_*, one for each link */
	HPCC_A_TABLE_ROUTE,	/* nest of HPCC_A_ROUTE_*, one for each route */
	__HPCC_A_TABLE_MAX,
};

#define HPCC_A_TABLE_MAX	(__HPCC_A_TABLE_MAX - 1)

enum {
	HPCC_A_LINK_UNSPEC,
	HPCC_A_LINK_PAD,
	HPCC_A_LINK_NODE,	/* u32, switch_ID, 0 to 0xfffffe */
	HPCC_A_LINK_PORT,	/* u32, port_ID, 0 to 0xfffe */
	HPCC_A_LINK_RATE,	/* u64, B, bit/s */
	HPCC_A_LINK_UNIT,	/* u32, bytes of a unit of queue depth; default 1 */
	__HPCC_A_LINK_MAX,
};

#define HPCC_A_LINK_MAX		(__HPCC_A_LINK_MAX - 1)

enum {
	HPCC_A_ROUTE_UNSPEC,
	HPCC_A_ROUTE_PREFIX,	/* binary, 4 or 16 bytes */
	HPCC_A_ROUTE_LEN,	/* u32, bits of that */
	HPCC_A_ROUTE_WHERE,	/* u32, as net.hpcc.where; not there: the sysctl decides */
	HPCC_A_ROUTE_CARRIER,	/* u32, as net.hpcc.carrier; the same */
	__HPCC_A_ROUTE_MAX,
};

#define HPCC_A_ROUTE_MAX	(__HPCC_A_ROUTE_MAX - 1)

#endif /* _UAPI_LINUX_HPCC_NETLINK_H */
