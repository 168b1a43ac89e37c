/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * HPCC++ for Linux: every byte that another program may depend on.
 *
 * 1. The telemetry option that tcp_hpcc puts into TCP segments and sch_hpcc
 *    fills in (Documentation/protocol.rst draws it to the bit).
 * 2. The netlink attributes and statistics of the qdisc "hpcc".
 */
#ifndef _UAPI_LINUX_HPCC_H
#define _UAPI_LINUX_HPCC_H

#include <linux/types.h>

/* ---- 1. TCP option ------------------------------------------------------
 *
 * SYN and SYN-ACK (RFC 6994 experimental option):
 *
 *	byte 0    kind			HPCC_OPT_KIND_DEFAULT unless configured
 *	byte 1    length		HPCC_SYN_OPT_LEN
 *	byte 2-3  ExID			big endian, HPCC_OPT_EXID_DEFAULT
 *	byte 4-5  version:4  capabilities:12	HPCC_OPT_VERSION, HPCC_CAP_*, the rest zero
 *
 * Every other segment of a connection that agreed:
 *
 *	byte 0    kind
 *	byte 1    length		HPCC_OPT_HEAD_LEN + n * HPCC_RECORD_LEN
 *	byte 2    type << 5 | scale	enum hpcc_opt_type; units of 2^scale ns
 *	byte 3    hops << 4 | flags	switches passed (15: 15 or more)
 *	then      n records, big endian, 64 bits each; all zero: free slot
 *
 * Load record (FORWARD, ANSWERED, ECHO, RESPONSE), from the most significant bit:
 *	hop:4  tag:8  ts:20  tx:20  qlen:12
 * ts and tx count units of 2^scale ns, from a secret of the port on, and wrap.
 * tx is txBytes, and qlen the queue, both expressed as the time the link needs to
 * send them; qlen is a float of 4 bits of exponent and 8 of mantissa. hop counts
 * from 1.
 *
 * Quiet hops (ECHO), those that were counted and wrote no record:
 *	0:4  map:15  ignored:45
 * with hop h in bit h - 1 of the map, counted from its least significant one.
 *
 * Signal record (FORWARD, in the place of its one load record), which a switch's port makes a tag
 * of, and the receiver fills in from it:
 *	15:4  4:4  zero:39  popped:1  signal:16
 *
 * Report record (REPORT), whose scale, hops and flags are zero; kind is enum hpcc_report:
 *	2:4  zero:44  N:16		N is 1 .. HPCC_REPORT_N_MAX
 *	1:4  id:4  zero:8  seq:16  W:32	W in units of W_init / HPCC_WINDOW_ONE, not above that
 *	4:4  zero:44  signal:16		the CSIG tag behind TPID: T:3 R:1 S:5 LM:7
 * and always both of these, with one id; T of 0 ns switches off:
 *	3:4  id:4  maxStage:8  settle:7  per_rtt:1  eta:10  T:30
 *	3:4  id:4  zero:1  W_min:11  W:16  W_ai:28
 * eta is in 1/1000; W_min, W and W_ai are in units of W_init / 2^14, 2^16 and 2^28, W less 1.
 *
 * Identity record (IDENTIFY, IDENTIFY_ECHO):
 *	hop:4  switch_ID:20  port_ID:16  B exponent:2  B mantissa:22
 * with B = mantissa x 10^(3 + 3 x exponent) bit/s.
 */
#define HPCC_OPT_KIND_DEFAULT	253
#define HPCC_OPT_EXID_DEFAULT	0x4843	/* "HC", not registered */
#define HPCC_OPT_VERSION	1

#define HPCC_SYN_OPT_LEN	6
#define HPCC_OPT_HEAD_LEN	4
#define HPCC_RECORD_LEN		8
#define HPCC_OPT_RECORDS_MAX	4	/* what 40 bytes of options can hold */
#define HPCC_HOPS_MAX		15

#define HPCC_CAP_TELEMETRY	0x01	/* echoes FORWARD and IDENTIFY */
#define HPCC_CAP_QUIET		0x02	/* understands quiet hops in an ECHO */
#define HPCC_CAP_PROBES		0x04	/* sends requests in probes, which need answers */
#define HPCC_CAP_REPORT		0x08	/* accepts N by REPORT */
#define HPCC_CAP_WINDOW		0x10	/* computes W at the request of a sender */
#define HPCC_CAP_IOAM		0x20	/* decodes IOAM, and has B of some links */
#define HPCC_CAP_INT		0x40	/* decodes INT-MD, and has B of some links */
#define HPCC_CAP_IFA		0x80	/* decodes IFA 2.0 */
#define HPCC_CAP_CSIG		0x100	/* pops CSIG tags, and reflects signals */

/**
 * enum hpcc_opt_type - what a telemetry option carries
 * @HPCC_OPT_FORWARD: load records, filled in by the switches on the way
 * @HPCC_OPT_ECHO: the load records a receiver got, on their way back
 * @HPCC_OPT_IDENTIFY: like FORWARD, with identity records
 * @HPCC_OPT_IDENTIFY_ECHO: like ECHO, with identity records
 * @HPCC_OPT_REPORT: what the receiver has worked out itself, or is to work W out with
 * @HPCC_OPT_ANSWERED: a FORWARD that a switch has sent a RESPONSE to, which is why no other one
 *	does; all else is as with FORWARD
 * @HPCC_OPT_RESPONSE: the load record of a switch, which sends it to the sender of a FORWARD in a
 *	segment without flags
 */
enum hpcc_opt_type {
	HPCC_OPT_FORWARD	= 1,
	HPCC_OPT_ECHO		= 2,
	HPCC_OPT_IDENTIFY	= 3,
	HPCC_OPT_IDENTIFY_ECHO	= 4,
	HPCC_OPT_REPORT		= 5,
	HPCC_OPT_ANSWERED	= 6,
	HPCC_OPT_RESPONSE	= 7,
};

/**
 * enum hpcc_report - kind of a report record; others are ignored
 * @HPCC_REPORT_WINDOW: W, which the receiver computed
 * @HPCC_REPORT_FLOWS: N, the flows that share the receiver's link
 * @HPCC_REPORT_PARAMETERS: what the sender wants W computed with
 * @HPCC_REPORT_SIGNAL: the signal of a CSIG tag
 */
enum hpcc_report {
	HPCC_REPORT_WINDOW	= 1,
	HPCC_REPORT_FLOWS	= 2,
	HPCC_REPORT_PARAMETERS	= 3,
	HPCC_REPORT_SIGNAL	= 4,
};

#define HPCC_REPORT_N_MAX	0xfffe
#define HPCC_WINDOW_ONE		0x40000000U

/*
 * Flags of the head's last byte.
 *
 * PHASE: an option with space for n records addresses only the hops after the first
 * PHASE x n. So the requests read a path with more hops than records part by part.
 *
 * PROMPT (FORWARD, ANSWERED, IDENTIFY): the sender's window is small; acknowledge at
 * once.
 */
#define HPCC_OPT_F_PHASE	0x07
#define HPCC_OPT_F_PROMPT	0x08

/* ---- 2. Qdisc "hpcc" ------------------------------------------------------ */

enum {
	TCA_HPCC_UNSPEC,
	TCA_HPCC_RATE64,	/* u64, bytes/s the port shapes to; 0: does not shape */
	TCA_HPCC_BANDWIDTH64,	/* u64, bytes/s of B when not shaping; 0: the device's */
	TCA_HPCC_LIMIT,		/* u32, bytes of backlog, overhead included */
	TCA_HPCC_NODE,		/* u32, switch_ID, 0 .. HPCC_NODE_MAX */
	TCA_HPCC_PORT,		/* u32, port_ID, 0 .. HPCC_PORT_MAX */
	TCA_HPCC_OVERHEAD,	/* u32, bytes the link adds to each packet, 0 .. 256 */
	TCA_HPCC_DELAY,		/* u32, ns of propagation behind the queue, 0 .. 1 s */
	TCA_HPCC_KIND,		/* u8, TCP option kind, 253 or 254 */
	TCA_HPCC_STAMP,		/* u8, HPCC_STAMP_*; 0: shape and count only */
	TCA_HPCC_SPLIT,		/* u8, 0: keep GSO packets whole, 1: split some */
	TCA_HPCC_PAD,
	TCA_HPCC_MARKING,	/* u8, enum hpcc_marking */
	TCA_HPCC_KMIN,		/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_KMAX,		/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_PMAX,		/* u32, millionths, 0 .. HPCC_PMAX_MAX */
	TCA_HPCC_KNONECT,	/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_STATS,		/* u8, 1: fill in hist and qlen_max_bytes */
	TCA_HPCC_ABOVE,		/* u32, bytes of queue, up to which no load is written; 0: always */
	TCA_HPCC_IDENTIFY,	/* u8, 1: answer IDENTIFY with node, port and B */
	TCA_HPCC_RESPOND,	/* u32, bytes of queue, above which responses are sent; 0: none */
	TCA_HPCC_EVERY,		/* u32, ns between two responses to a flow, at least */
	TCA_HPCC_INT_DSCP,	/* u8, marks packets with INT-MD, 1 .. HPCC_INT_DSCP_MAX */
	TCA_HPCC_INT_WINDOW,	/* u32, ns that INT's and CSIG's utilization is of */
	TCA_HPCC_CSIG_TPID,	/* u32, marks CSIG tags, HPCC_CSIG_TPID_MIN .. 0xffff */
	TCA_HPCC_CSIG_ABW,	/* u32, unit of buckets of ABW/C, 1/10000, 1 .. HPCC_CSIG_ABW_MAX */
	TCA_HPCC_CSIG_TIME,	/* u32, unit of buckets of times, ns, 1 .. HPCC_CSIG_TIME_MAX_NS */
	__TCA_HPCC_MAX,
};

#define TCA_HPCC_MAX		(__TCA_HPCC_MAX - 1)

#define HPCC_STAMP_TCP		0x1	/* fills in the TCP option */
#define HPCC_STAMP_IOAM		0x2	/* fills in IOAM traces of HPCC_IOAM_NAMESPACE */
#define HPCC_STAMP_INT		0x4	/* pushes INT metadata */
#define HPCC_STAMP_IFA		0x8	/* pushes IFA metadata */
#define HPCC_STAMP_CSIG		0x10	/* writes CSIG tags */
#define HPCC_STAMP_CSIG_PUSH	0x20	/* pushes CSIG tags, where a segment requests one */

#define HPCC_IOAM_NAMESPACE	0	/* RFC 9197's default */

#define HPCC_RATE_MIN		125ULL			/* 1 kbit/s */
#define HPCC_RATE_MAX		1250000000000ULL	/* 10 Tbit/s */
#define HPCC_NODE_MAX		0xfffff
#define HPCC_PORT_MAX		0xffff
#define HPCC_OVERHEAD_MAX	256
#define HPCC_DELAY_MAX_NS	1000000000U
#define HPCC_PMAX_MAX		1000000U
#define HPCC_INT_DSCP_DEFAULT	0x17	/* of the specification's example */
#define HPCC_INT_DSCP_MAX	63
#define HPCC_CSIG_TPID_DEFAULT	0x88b5	/* IEEE 802: local experiments */
#define HPCC_CSIG_TPID_MIN	0x0600	/* no length */
#define HPCC_CSIG_ABW_DEFAULT	50
#define HPCC_CSIG_ABW_MAX	1000
#define HPCC_CSIG_TIME_DEFAULT	64
#define HPCC_CSIG_TIME_MAX_NS	1000000
#define HPCC_EVERY_MIN_NS	1000U
#define HPCC_EVERY_MAX_NS	1000000000U

/**
 * enum hpcc_marking - what is done to packets by the queue they find
 * @HPCC_MARKING_OFF: nothing
 * @HPCC_MARKING_LDCP: ECN-capable ones are marked CE, with a probability that
 *	rises from 0 at kmin to pmax at kmax, and always from kmax on; those
 *	that are Not-ECT are dropped from knonect on
 *
 * A dump has the thresholds that are in force, and none with HPCC_MARKING_OFF.
 * A change to HPCC_MARKING_OFF forgets those that were configured.
 */
enum hpcc_marking {
	HPCC_MARKING_OFF,
	HPCC_MARKING_LDCP,
};

/*
 * Queue length histogram: what departing packets left behind them, in bytes.
 * Bucket b < 8 holds lengths of [64 b, 64 b + 63]; above that each octave has
 * 8 buckets: bucket 8 o + m, o >= 1, begins at (8 + m) << (o - 1) times 64.
 * The last one also holds whatever is longer.
 *
 * The size is bounded: a kernel of 4 KB pages has 3776 bytes for a notification,
 * which holds two dumps where one qdisc replaces another. One takes some 1720 with
 * all options; the statistics are there once, in TCA_STATS2's TCA_STATS_APP.
 */
#define HPCC_HIST_UNIT		64
#define HPCC_HIST_SUB		8
#define HPCC_HIST_BUCKETS	144	/* up to 64 MB */

/**
 * enum hpcc_unstamped - why a packet left without our record
 * @HPCC_UNSTAMPED_OFF: stamping is switched off, or, of an IDENTIFY, identify is
 * @HPCC_UNSTAMPED_NOT_TCP: neither TCP over IPv4 nor over IPv6
 * @HPCC_UNSTAMPED_FRAGMENT: an IP fragment
 * @HPCC_UNSTAMPED_NO_OPTION: TCP without a telemetry option to fill in
 * @HPCC_UNSTAMPED_MALFORMED: truncated, or lengths that contradict each other
 * @HPCC_UNSTAMPED_FULL: no slot is free, or 15 hops were passed
 * @HPCC_UNSTAMPED_PHASE: the option addresses later hops only
 * @HPCC_UNSTAMPED_NO_MEMORY: the header could not be made writable
 * @__HPCC_UNSTAMPED_MAX: number of reasons
 */
enum hpcc_unstamped {
	HPCC_UNSTAMPED_OFF,
	HPCC_UNSTAMPED_NOT_TCP,
	HPCC_UNSTAMPED_FRAGMENT,
	HPCC_UNSTAMPED_NO_OPTION,
	HPCC_UNSTAMPED_MALFORMED,
	HPCC_UNSTAMPED_FULL,
	HPCC_UNSTAMPED_PHASE,
	HPCC_UNSTAMPED_NO_MEMORY,
	__HPCC_UNSTAMPED_MAX,
};

/*
 * Statistics of one port: attributes in TCA_STATS_APP. Later versions add members and
 * counters at the end of each, and never in between. A reader takes what it knows of what
 * is there: what a shorter attribute lacks is 0.
 */
enum {
	TCA_HPCC_XSTATS_UNSPEC,
	TCA_HPCC_XSTATS_PORT,		/* struct tc_hpcc_xstats */
	TCA_HPCC_XSTATS_UNSTAMPED,	/* u64 for each enum hpcc_unstamped */
	TCA_HPCC_XSTATS_HIST,		/* u64 for each bucket up to the last one that is not 0 */
	__TCA_HPCC_XSTATS_MAX,
};

#define TCA_HPCC_XSTATS_MAX	(__TCA_HPCC_XSTATS_MAX - 1)

/**
 * struct tc_hpcc_xstats - counters of one port (TCA_HPCC_XSTATS_PORT)
 * @tx_bytes: bytes sent, link overhead included; since the qdisc was made
 * @tx_packets: packets sent; a GSO packet that was not split is one
 * @stamped: packets that got our record
 * @quiet: packets that counted us as a hop and got no record, as the queue was not above
 *	TCA_HPCC_ABOVE
 * @drop_limit: packets dropped because the backlog was at its limit
 * @drop_gso: packets dropped because splitting them failed
 * @marked: packets that we marked CE
 * @resyncs: times the virtual clock gave up lost time after a late timer
 * @bandwidth: B in bytes/s as telemetry states it
 * @qlen_bytes: queue now, link overhead included, without packets in flight
 *	on the emulated delay
 * @qlen_max_bytes: largest queue that a departing packet left
 * @marked_kmax: of those @marked, the ones that found a queue of kmax or more
 * @mark_failed: packets sent on unmarked because their IP header contradicts
 *	itself, is cut short, or could not be made writable
 * @drop_limit_ect: of @drop_limit, ECN-capable packets; counted while marking
 *	is on
 * @drop_knonect: Not-ECT packets dropped at a queue of knonect or more
 * @port_queues: queues of the device that are one port with this one, itself
 *	included
 * @port_qlen_bytes: what waits in all of them
 * @responses: direct responses sent
 * @responses_held: those that were not, as it was not the flow's turn, or the budget of the port or
 *	of the flow's sender was spent
 * @responses_lost: those that were not, as too many waited to be sent, or as the packet could not
 *	be made writable
 * @responses_failed: those that there was no memory for, or that the stack refused
 */
struct tc_hpcc_xstats {
	__u64	tx_bytes;
	__u64	tx_packets;
	__u64	stamped;
	__u64	quiet;
	__u64	drop_limit;
	__u64	drop_gso;
	__u64	marked;
	__u64	resyncs;
	__u64	bandwidth;
	__u32	qlen_bytes;
	__u32	qlen_max_bytes;
	__u64	marked_kmax;
	__u64	mark_failed;
	__u64	drop_limit_ect;
	__u64	drop_knonect;
	__u32	port_queues;
	__u32	port_qlen_bytes;
	__u64	responses;
	__u64	responses_held;
	__u64	responses_lost;
	__u64	responses_failed;
};

#endif /* _UAPI_LINUX_HPCC_H */
