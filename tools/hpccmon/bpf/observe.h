/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon observe: state of a flow, which the BPF program writes and the other commands read. */
#ifndef HPCCMON_BPF_OBSERVE_H
#define HPCCMON_BPF_OBSERVE_H

#include <linux/hpcc.h>
#include <linux/types.h>

/* Names of the program, and of its map from the cookie of a socket to struct observed_flow. */
#define OBSERVE_PROGRAM	"hpcc_observe"
#define OBSERVED_MAP	"hpcc_observed"

/* After this time a request is due, however few bytes were sent. */
#define OBSERVE_SLOW_NS	200000000ULL

/* Half the period of ts and tx in records. The records of a hop must be closer to each other. */
#define OBSERVED_HALF	(1ULL << 19)
/* A unit of time is chosen for which they are 2^16 to 2^17 units apart, unless that is less than
 * 16 T. The unit stays while they are this many units apart.
 */
#define OBSERVE_T_SHIFT		4
#define OBSERVE_APART_MIN	(1U << 14)
#define OBSERVE_APART_MAX	(1U << 18)

/* Records are numbers of this host, as for hpcc_record_unpack(). Times are of CLOCK_MONOTONIC. */
struct observed_hop {
	__u64	record[2];	/* the last two load records that can be compared, newest first */
				/* 0: none, or the hop was quiet before record[0] */
	__u64	ns;		/* arrival of record[0] */
	__u64	last;		/* the newest load record; 0: none */
	__u64	last_ns;	/* its arrival */
	__u64	apart_ns;	/* time between it and the one before; 0: none */
	__u64	name;		/* identity record; 0: none */
	__u8	scale;		/* the unit of record[] is 2^scale ns */
	__u8	last_scale;
};

/* Written in the order of the members; the kernel's socket lock covers all members. */
struct observed_flow {
	__u64	netns;		/* SO_NETNS_COOKIE */
	__u32	laddr[4];	/* IPv4 in its mapped form, network byte order */
	__u32	raddr[4];
	__u16	lport;
	__u16	rport;
	char	cc[16];		/* congestion control */
	__u32	T_us;		/* minimum RTT */
	__u32	rtt_us;		/* smoothed RTT */
	__u64	W;		/* congestion window, bytes */
	__u32	received;	/* echoes */
	__u32	malformed;	/* ignored options */

	/* Sender: this end requests load. */
	__u64	request_ns;	/* time of the last option in a data segment, or of the handshake */
	__u64	gap_ns;		/* time between the last two, at most OBSERVE_SLOW_NS */
	__u32	request_seq;	/* SND.NXT at that time */
	__u32	spent;		/* bytes that the last option cost */
	__u32	requests;	/* number of requests */
	__u32	quiet;		/* bit mask of hops whose last report is "quiet": bit h - 1 */
	__u64	quiet_ns;	/* time of the last such report */
	__u8	scale;		/* the unit in requests is 2^scale ns */
	__u8	hops;		/* hops of the path */
	__u8	next[2];	/* hops before the next FORWARD and the next IDENTIFY begins */
	__u8	armed;		/* records that the MSS has room for, until the next segment */
	__u8	due;		/* a request is due, since the last RTT began */
	__u64	apart_ns[2];	/* times between the last 3 records of a hop, in order of length */
	__u32	scales;		/* bit mask of the scales of requests */

	/* Receiver: this end echoes. */
	__u8	echo_scale;
	__u8	echo_hops;
	__u8	echo_names;	/* identities wait, not load */
	__u8	echo_turn;	/* hop at which the next echo begins */
	__u8	peer_quiet;	/* the peer decodes quiet hops */
	__u16	fresh;		/* bit mask of hops with a record that waits: bit of hop h is h */
	__u16	still;		/* bit mask of hops with a quiet mark that waits: h - 1 */

	/* The option of the segment that is being sent, and of the one that is being read. */
	__u8	type;		/* enum hpcc_opt_type; 0: no option */
	__u8	slots;
	__u8	echoed;		/* the last data segment with an option had an echo */
	__u8	full;		/* the segment has no room but for what was armed */
	__u32	head;		/* of out: its first 4 bytes; they precede the records */
	__u64	out[HPCC_OPT_RECORDS_MAX];
	struct {
		__u8	length;
		__u8	type;
		__u8	scale;
		__u8	hops;
		__u8	phase;
	} got;
	__u8	at[2];		/* offsets of the options that are being read; 0: none */
	__u16	walk;		/* offset of the option that is being examined */
	__u64	in[HPCC_OPT_RECORDS_MAX];
	__u64	echo[HPCC_HOPS_MAX + 1];	/* by hop, from 1, as the next member */
	struct observed_hop hop[HPCC_HOPS_MAX + 1];
};

#endif /* HPCCMON_BPF_OBSERVE_H */
