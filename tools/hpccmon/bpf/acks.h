/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon record: what the BPF program writes into the ring. */
#ifndef HPCCMON_BPF_ACKS_H
#define HPCCMON_BPF_ACKS_H

/* A record of hpcc:hpcc_ack has so many 32-bit words behind those 8 bytes that all tracepoints have
 * and that no program may read. Which of them is what, its format tells.
 */
#define ACK_HEAD	8
#define ACK_WORDS	17

struct ack_entry {
	__u64	ns;		/* CLOCK_MONOTONIC */
	__u32	word[ACK_WORDS];
	__u32	pad;
};

#endif /* HPCCMON_BPF_ACKS_H */
