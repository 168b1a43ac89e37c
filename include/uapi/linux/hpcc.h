/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * HPCC++ for Linux: all formats that other programs may depend on.
 *
 * 1. The telemetry option that tcp_hpcc puts into TCP segments and sch_hpcc fills in
 *    (Documentation/protocol.rst shows each bit).
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
 * Other segments, if both ends have agreed:
 *
 *	byte 0    kind
 *	byte 1    length		HPCC_OPT_HEAD_LEN + n * HPCC_RECORD_LEN
 *	byte 2    type << 5 | scale	enum hpcc_opt_type; units of 2^scale ns
 *	byte 3    hops << 4 | flags	switches passed (15: 15 or more)
 *	then      n records, big endian, 64 bits each; all zero: free slot
 *
 * Load record (FORWARD, ANSWERED, ECHO, RESPONSE), from the most significant bit:
 *	hop:4  tag:8  ts:20  tx:20  qlen:12
 * The first hop is 1. ts and tx count units of 2^scale ns, start at a secret value of the port, and
 * wrap. tx is txBytes, and qlen is the queue; both are the time that the link needs to send these
 * bytes. qlen is a floating-point number: 4 bits of exponent, 8 bits of mantissa.
 *
 * Quiet hops (ECHO): hops that were counted, but wrote no record:
 *	0:4  map:15  ignored:45
 * Hop h is bit h - 1 of the map; bit 0 is the least significant one.
 *
 * Signal record (FORWARD, in place of its only load record). A port of a switch creates a tag from
 * this record, and the receiver fills in the record from the tag:
 *	15:4  4:4  zero:39  popped:1  signal:16
 *
 * Report record (REPORT); scale, hops and flags of the option are zero. The first 4 bits are enum
 * hpcc_report:
 *	2:4  zero:44  N:16		N is 1 .. HPCC_REPORT_N_MAX
 *	1:4  id:4  zero:8  seq:16  W:32	W in units of W_init / HPCC_WINDOW_ONE, at most W_init
 *	4:4  zero:44  signal:16		the CSIG tag behind TPID: T:3 R:1 S:5 LM:7
 * Parameters always have both of these records, with the same id; T = 0 ends the computation of W:
 *	3:4  id:4  maxStage:8  settle:7  per_rtt:1  eta:10  T:30
 *	3:4  id:4  alone:1  W_min:11  W:16  W_ai:28
 * eta is in units of 1/1000. The unit of W_min is W_init / 2^14, that of W is W_init / 2^16, and
 * that of W_ai is W_init / 2^28. The field W of this record contains W - 1.
 *
 * Identity record (IDENTIFY, IDENTIFY_ECHO):
 *	hop:4  switch_ID:20  port_ID:16  B exponent:2  B mantissa:22
 * with B = mantissa x 10^(3 + 3 x exponent) bit/s.
 *
 * Signed feedback: if both ends announced HPCC_CAP_SIGNED, the last ECHO, IDENTIFY_ECHO or REPORT
 * of a segment ends with a tag of HPCC_TAG_LEN bytes, which its length includes, and has a count in
 * its flags.
 */
#define HPCC_OPT_KIND_DEFAULT	253
#define HPCC_OPT_EXID_DEFAULT	0x4843	/* "HC", not registered */
#define HPCC_OPT_VERSION	1

#define HPCC_SYN_OPT_LEN	6
#define HPCC_OPT_HEAD_LEN	4
#define HPCC_RECORD_LEN		8
#define HPCC_OPT_RECORDS_MAX	4	/* maximum in 40 bytes of options */
#define HPCC_TAG_LEN		4
#define HPCC_KEY_LEN		16	/* of a key that signs feedback */
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
#define HPCC_CAP_SIGNED		0x200	/* has a key for the peer: signs feedback */

/* Content of a telemetry option. */
enum hpcc_opt_type {
	HPCC_OPT_FORWARD	= 1,	/* load records that the switches on the path fill in */
	HPCC_OPT_ECHO		= 2,	/* load records that the receiver returns to the sender */
	HPCC_OPT_IDENTIFY	= 3,	/* like FORWARD, with identity records */
	HPCC_OPT_IDENTIFY_ECHO	= 4,	/* like ECHO, with identity records */
	HPCC_OPT_REPORT		= 5,	/* values of the receiver, or parameters of the sender */
	HPCC_OPT_ANSWERED	= 6,	/* like FORWARD, but a RESPONSE was sent: send none */
	HPCC_OPT_RESPONSE	= 7,	/* load record from a switch, in a segment without flags */
};

/* Kind of a report record; other kinds are ignored. */
enum hpcc_report {
	HPCC_REPORT_WINDOW	= 1,	/* W, computed by the receiver */
	HPCC_REPORT_FLOWS	= 2,	/* N, number of flows that share the receiver's link */
	HPCC_REPORT_PARAMETERS	= 3,	/* the sender's parameters for the computation of W */
	HPCC_REPORT_SIGNAL	= 4,	/* signal of a CSIG tag */
};

#define HPCC_REPORT_N_MAX	0xfffe
#define HPCC_WINDOW_ONE		0x40000000U

/*
 * Flags of the head's last byte.
 *
 * PHASE: an option with space for n records addresses only the hops after the first PHASE x n. So
 * several requests read a path that has more hops than an option has records.
 *
 * PROMPT (FORWARD, ANSWERED, IDENTIFY): the sender's window is small; acknowledge immediately.
 */
#define HPCC_OPT_F_PHASE	0x07
#define HPCC_OPT_F_PROMPT	0x08

/* ---- 2. Qdisc "hpcc" ------------------------------------------------------ */

enum {
	TCA_HPCC_UNSPEC,
	TCA_HPCC_RATE64,	/* u64, shaping rate, bytes/s; 0: no shaping */
	TCA_HPCC_BANDWIDTH64,	/* u64, B without shaping, bytes/s; 0: speed of the device */
	TCA_HPCC_LIMIT,		/* u32, maximum backlog, bytes, overhead included */
	TCA_HPCC_NODE,		/* u32, switch_ID, 0 .. HPCC_NODE_MAX */
	TCA_HPCC_PORT,		/* u32, port_ID, 0 .. HPCC_PORT_MAX */
	TCA_HPCC_OVERHEAD,	/* u32, bytes that the link adds to each packet, 0 .. 256 */
	TCA_HPCC_DELAY,		/* u32, propagation delay after the queue, ns, 0 .. 1 s */
	TCA_HPCC_KIND,		/* u8, TCP option kind, 253 or 254 */
	TCA_HPCC_STAMP,		/* u8, HPCC_STAMP_*; 0: shape and count only */
	TCA_HPCC_SPLIT,		/* u8, 0: keep GSO packets whole, 1: split-gso of tc-hpcc(8) */
	TCA_HPCC_PAD,
	TCA_HPCC_MARKING,	/* u8, enum hpcc_marking */
	TCA_HPCC_KMIN,		/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_KMAX,		/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_PMAX,		/* u32, millionths, 0 .. HPCC_PMAX_MAX */
	TCA_HPCC_KNONECT,	/* u32, bytes of queue; 0: derived from B */
	TCA_HPCC_STATS,		/* u8, 1: fill in hist and qlen_max_bytes */
	TCA_HPCC_ABOVE,		/* u32, bytes; load is written if the queue is longer; 0: always */
	TCA_HPCC_IDENTIFY,	/* u8, 1: answer IDENTIFY with node, port and B */
	TCA_HPCC_RESPOND,	/* u32, bytes; responses are sent if the queue is longer; 0: none */
	TCA_HPCC_EVERY,		/* u32, minimum time between two responses to a flow, ns */
	TCA_HPCC_INT_DSCP,	/* u8, DSCP of packets with INT-MD, 1 .. HPCC_INT_DSCP_MAX */
	TCA_HPCC_INT_WINDOW,	/* u32, interval of utilization in INT and CSIG, ns */
	TCA_HPCC_CSIG_TPID,	/* u32, EtherType of CSIG tags, HPCC_CSIG_TPID_MIN .. 0xffff */
	TCA_HPCC_CSIG_ABW,	/* u32, unit of buckets of ABW/C, 1/10000, 1 .. HPCC_CSIG_ABW_MAX */
	TCA_HPCC_CSIG_TIME,	/* u32, unit of buckets of times, ns, 1 .. HPCC_CSIG_TIME_MAX_NS */
	TCA_HPCC_CLASS64,	/* u64, rate that the parent guarantees, bytes/s; 0: no class */
	TCA_HPCC_QLEN,		/* u8, enum hpcc_qlen; needs TCA_HPCC_CLASS64 */
	TCA_HPCC_QUANTIZE,	/* u8, steps of u' in records that leave; 0: records unchanged */
	TCA_HPCC_STRIP,		/* u8, HPCC_STAMP_*, carriers to remove: IOAM, INT, IFA, CSIG */
	TCA_HPCC_INNER,		/* u8, 1: fill in the TCP option of packets in tunnels, too */
	__TCA_HPCC_MAX,
};

#define TCA_HPCC_MAX		(__TCA_HPCC_MAX - 1)

#define HPCC_STAMP_TCP		0x1	/* fills in the TCP option */
#define HPCC_STAMP_IOAM		0x2	/* fills in IOAM traces of HPCC_IOAM_NAMESPACE */
#define HPCC_STAMP_INT		0x4	/* pushes INT metadata */
#define HPCC_STAMP_IFA		0x8	/* pushes IFA metadata */
#define HPCC_STAMP_CSIG		0x10	/* writes CSIG tags */
#define HPCC_STAMP_CSIG_PUSH	0x20	/* pushes a CSIG tag if a segment requests one */

#define HPCC_STRIP_ALL \
	(HPCC_STAMP_IOAM | HPCC_STAMP_INT | HPCC_STAMP_IFA | HPCC_STAMP_CSIG)

#define HPCC_IOAM_NAMESPACE	0	/* RFC 9197's default */

#define HPCC_RATE_MIN		125ULL			/* 1 kbit/s */
#define HPCC_RATE_MAX		1250000000000ULL	/* 10 Tbit/s */
#define HPCC_NODE_MAX		0xfffff
#define HPCC_PORT_MAX		0xffff
#define HPCC_OVERHEAD_MAX	256
#define HPCC_DELAY_MAX_NS	1000000000U
#define HPCC_PMAX_MAX		1000000U
#define HPCC_INT_DSCP_DEFAULT	0x17	/* from the example in the specification */
#define HPCC_INT_DSCP_MAX	63
#define HPCC_CSIG_TPID_DEFAULT	0x88b5	/* IEEE 802: local experiments */
#define HPCC_CSIG_TPID_MIN	0x0600	/* smaller values are lengths */
#define HPCC_CSIG_ABW_DEFAULT	50
#define HPCC_CSIG_ABW_MAX	1000
#define HPCC_CSIG_TIME_DEFAULT	64
#define HPCC_CSIG_TIME_MAX_NS	1000000
#define HPCC_CLASSES_MAX	255	/* of one port */
#define HPCC_QUANTIZE_MIN	4	/* u' is rounded up to multiples of 1/4 */
#define HPCC_QUANTIZE_MAX	16
#define HPCC_TUNNELS_MAX	4	/* around a TCP segment */
#define HPCC_EVERY_MIN_NS	1000U
#define HPCC_EVERY_MAX_NS	1000000000U

/* How a port treats a packet, depending on the queue at its arrival.
 *
 * A dump contains the effective thresholds. If marking is off, a dump contains no thresholds. A
 * change to HPCC_MARKING_OFF deletes the configured thresholds.
 */
enum hpcc_marking {
	HPCC_MARKING_OFF,
	/* Mark an ECN-capable packet CE with a probability that rises from 0 at kmin to pmax at
	 * kmax, and is 1 from kmax on; drop a Not-ECT packet from knonect on.
	 */
	HPCC_MARKING_LDCP,
};

/* qlen in the records of a class (TCA_HPCC_CLASS64). */
enum hpcc_qlen {
	HPCC_QLEN_CLASS,	/* time that the class needs for its own queue */
	HPCC_QLEN_PORT,		/* time that the link needs for the queues of the whole port */
	HPCC_QLEN_SOJOURN,	/* time that the packet waited, less the class's longest wait */
};

/*
 * Queue length histogram: length of the queue after the departure of each packet, in bytes. Bucket
 * b < 8 counts lengths of [64 b, 64 b + 63]. Above that, each power of two has 8 buckets: bucket
 * 8 o + m, o >= 1, begins at (8 + m) << (o - 1) times 64. The last bucket also counts all longer
 * queues.
 *
 * A kernel with 4 KB pages has 3776 bytes for a notification, which contains two dumps if one qdisc
 * replaces another. A dump with all options takes about 1760 bytes; it contains the statistics only
 * once, in TCA_STATS_APP of TCA_STATS2.
 */
#define HPCC_HIST_UNIT		64
#define HPCC_HIST_SUB		8
#define HPCC_HIST_BUCKETS	144	/* up to 64 MB */

/* Reason why a packet left without our record. */
enum hpcc_unstamped {
	HPCC_UNSTAMPED_OFF,		/* stamping is off; for an IDENTIFY: identify is off */
	HPCC_UNSTAMPED_NOT_TCP,		/* not TCP over IPv4 or IPv6 */
	HPCC_UNSTAMPED_FRAGMENT,	/* an IP fragment */
	HPCC_UNSTAMPED_NO_OPTION,	/* TCP without a telemetry option to fill in */
	HPCC_UNSTAMPED_MALFORMED,	/* truncated, or lengths that contradict each other */
	HPCC_UNSTAMPED_FULL,		/* no slot is free, or 15 hops were passed */
	HPCC_UNSTAMPED_PHASE,		/* the option addresses later hops only */
	HPCC_UNSTAMPED_NO_MEMORY,	/* the header could not be made writable */
	/* Only with TCA_HPCC_INNER: */
	HPCC_UNSTAMPED_ENCRYPTED,	/* ESP or MACsec */
	HPCC_UNSTAMPED_NESTED,		/* in more than HPCC_TUNNELS_MAX tunnels */
	__HPCC_UNSTAMPED_MAX,
};

/*
 * Statistics of one port: attributes in TCA_STATS_APP. Later versions add members and counters only
 * at the end of an attribute. A reader ignores unknown members, and takes missing members as 0.
 */
enum {
	TCA_HPCC_XSTATS_UNSPEC,
	TCA_HPCC_XSTATS_PORT,		/* struct tc_hpcc_xstats */
	TCA_HPCC_XSTATS_UNSTAMPED,	/* u64 for each value of enum hpcc_unstamped */
	TCA_HPCC_XSTATS_HIST,		/* u64 for each bucket up to the last one that is not 0 */
	__TCA_HPCC_XSTATS_MAX,
};

#define TCA_HPCC_XSTATS_MAX	(__TCA_HPCC_XSTATS_MAX - 1)

/* Counters of one port (TCA_HPCC_XSTATS_PORT). Lengths include the overhead of the link. */
struct tc_hpcc_xstats {
	__u64	tx_bytes;	/* bytes sent since the qdisc was created */
	__u64	tx_packets;	/* packets sent, 1 for a GSO packet that was not split */
	__u64	stamped;	/* packets into which the port wrote its record */
	__u64	quiet;		/* packets counted without a record: queue up to TCA_HPCC_ABOVE */
	__u64	drop_limit;	/* packets dropped because the backlog was at its limit */
	__u64	drop_gso;	/* packets dropped because splitting them failed */
	__u64	marked;		/* packets that the port marked CE */
	__u64	resyncs;	/* packets that started so late that the virtual clock lost time */
	__u64	bandwidth;	/* B in telemetry, bytes/s */
	__u32	qlen_bytes;	/* queue now, without packets that TCA_HPCC_DELAY delays */
	__u32	qlen_max_bytes;	/* largest queue after the departure of a packet */
	__u64	marked_kmax;	/* part of marked: packets that met a queue of kmax or more */
	__u64	mark_failed;	/* sent without a mark: IP header inconsistent or not writable */
	__u64	drop_limit_ect;	/* part of drop_limit, if marking is on: ECN-capable packets */
	__u64	drop_knonect;	/* Not-ECT packets dropped at a queue of knonect or more */
	__u32	port_queues;	/* queues of the device that belong to this port, with this one */
	__u32	port_qlen_bytes;	/* bytes that wait in all of these queues */
	__u64	responses;	/* direct responses sent */
	/* Not sent, because the flow's last response was too recent, or the budget of the port or
	 * of the flow's sender was used up.
	 */
	__u64	responses_held;
	__u64	responses_lost;	/* not sent: too many waited, or the packet was not writable */
	__u64	responses_failed;	/* not sent: no memory, or the stack refused them */
	__u64	quantized;	/* packets whose telemetry options TCA_HPCC_QUANTIZE changed */
	__u64	stripped;	/* carriers that TCA_HPCC_STRIP removed from packets */
	/* Packets that left with telemetry that a border should have changed: it is malformed or
	 * signed, or there was no memory.
	 */
	__u64	border_failed;
};

#endif /* _UAPI_LINUX_HPCC_H */
