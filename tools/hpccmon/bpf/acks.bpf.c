// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: copy each record of the tracepoint hpcc:hpcc_ack into a ring, and count the
 * records that do not fit. The program does not wake the reader, because the reader polls.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "acks.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} ring SEC(".maps");

__u64 lost;

SEC("tp/hpcc/hpcc_ack")
int take_ack(void *ctx)
{
	const __u32 *record = (const __u32 *)(ctx + ACK_HEAD);
	struct ack_entry *entry = bpf_ringbuf_reserve(&ring, sizeof(*entry), 0);
	int i;

	if (!entry) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	entry->ns = bpf_ktime_get_ns();
#pragma unroll
	for (i = 0; i < ACK_WORDS; i++)
		entry->word[i] = record[i];
	entry->pad = 0;
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 0;
}

char _license[] SEC("license") = "GPL";
