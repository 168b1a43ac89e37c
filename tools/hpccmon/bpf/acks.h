/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon record: format of the records in the ring of the BPF program. */
#ifndef HPCCMON_BPF_ACKS_H
#define HPCCMON_BPF_ACKS_H

/* All tracepoints start with 8 bytes that BPF programs must not read. Then a record of
 * hpcc:hpcc_ack has this many 32-bit words, which the tracepoint's format file describes.
 */
#define ACK_HEAD	8
#define ACK_WORDS	17

struct ack_entry {
	__u64	ns;		/* CLOCK_MONOTONIC */
	__u32	word[ACK_WORDS];
	__u32	pad;
};

#endif /* HPCCMON_BPF_ACKS_H */
