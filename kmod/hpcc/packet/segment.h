/* SPDX-License-Identifier: GPL-2.0 */
/* Outgoing segments in the netfilter hooks (local_out.c, segment.c). */
#ifndef _HPCC_PACKET_SEGMENT_H
#define _HPCC_PACKET_SEGMENT_H

#include <linux/skbuff.h>
#include <linux/tcp.h>

#include "netns/net.h"

#define HPCC_TCP_HEADER_MAX	60

/* An outgoing segment under inspection. */
struct hpcc_segment {
	struct sk_buff *skb;			/* data at the IP header */
	const struct nf_hook_state *state;	/* of the hook call */
	u32 thoff;				/* offset of the TCP header */
	u32 thlen;				/* length of the TCP header */
};

static inline struct tcphdr *hpcc_segment_th(const struct hpcc_segment *seg)
{
	return (struct tcphdr *)(seg->skb->data + seg->thoff);
}

/* Sequence number after the segment's data. */
static inline u32 hpcc_segment_end(const struct hpcc_segment *seg)
{
	return ntohl(hpcc_segment_th(seg)->seq) + seg->skb->len - seg->thoff - seg->thlen;
}

/* Whether a segment has no data. */
static inline bool hpcc_is_pure(const struct hpcc_segment *seg)
{
	return seg->skb->len == seg->thoff + seg->thlen;
}

/* RFC 4727 has two experimental kinds: HPCC_OPT_KIND_DEFAULT and this one. */
#define HPCC_OPT_KIND_OTHER	254

/* Whether a segment's options allow ours. */
enum hpcc_presence {
	HPCC_ABSENT,		/* our option may be added */
	HPCC_PRESENT,		/* an option of our kind is present */
	HPCC_INCOMPATIBLE,	/* MD5, AO or MPTCP is present, or the options are malformed */
	HPCC_DUPLICATE,		/* a DSACK reports data that the segment acknowledges (mute.c) */
};

enum hpcc_presence hpcc_segment_presence(const struct hpcc_segment *seg, u8 kind);
u32 hpcc_segment_space(const struct hpcc_segment *seg, const struct sock *sk);
u32 hpcc_segment_room(const struct hpcc_segment *seg, const struct sock *sk);
bool hpcc_segment_is_again(const struct hpcc_segment *seg);
void hpcc_segment_no_room(const struct hpcc_segment *seg, enum hpcc_counter what);
void hpcc_segment_checksum(const struct hpcc_segment *seg, u32 n);
bool hpcc_segment_cut(struct hpcc_segment *seg, u32 at, u32 n);
bool hpcc_segment_put(struct hpcc_segment *seg, const u8 *options, u32 len, u32 behind);
void hpcc_set_ip_length(struct sk_buff *skb, u8 family);

#endif /* _HPCC_PACKET_SEGMENT_H */
