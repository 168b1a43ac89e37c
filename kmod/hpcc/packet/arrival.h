/* SPDX-License-Identifier: GPL-2.0 */
/* Incoming segments in the netfilter hooks, and which of them TCP will accept. All functions run in
 * LOCAL_IN.
 */
#ifndef _HPCC_PACKET_ARRIVAL_H
#define _HPCC_PACKET_ARRIVAL_H

#include <linux/skbuff.h>
#include <net/ipv6.h>
#include <hpcc/compat.h>

#include "common/peek.h"
#include "flow/flow.h"

struct hpcc_carrier_ops;

/* Options of a segment that were seen: at most one of each of the first three types. */
enum hpcc_seen {
	HPCC_WAY_FORWARD,
	HPCC_WAY_ECHO,
	HPCC_WAY_REPORT,
	HPCC_SEEN_UNVERIFIED,	/* the tag of the feedback must be verified */
	HPCC_SEEN_REFUSED,	/* the tag is wrong, or not newer than earlier ones */
	HPCC_SEEN_USE,		/* integrity.c verified this option */
	HPCC_SEEN_KEEP,		/* do not remove the options */
};

/* hpcc_flow.unverified of a flow whose feedback is signed. */
#define HPCC_UNVERIFIED	(BIT(HPCC_WAY_ECHO) | BIT(HPCC_WAY_REPORT) | BIT(HPCC_SEEN_UNVERIFIED))

static inline enum hpcc_seen hpcc_opt_way(u8 type)
{
	switch (type) {
	case HPCC_OPT_ECHO:
	case HPCC_OPT_IDENTIFY_ECHO:
		return HPCC_WAY_ECHO;
	case HPCC_OPT_REPORT:
		return HPCC_WAY_REPORT;
	default:
		return HPCC_WAY_FORWARD;
	}
}

/* An incoming segment under inspection. */
struct hpcc_arrival {
	struct sk_buff *skb;			/* data at the IP header */
	const struct nf_hook_state *state;	/* of the hook call */
	struct tcphdr *th;
	u8 *opts;				/* TCP options */
	u32 optlen;
	u32 thoff;				/* offset of the TCP header */
	const struct hpcc_carrier_ops *carrier;	/* NULL: the segment has no @stack */
	const u8 *stack;			/* headers and telemetry of @carrier */
	u32 stack_len;
};

/* Whether a segment's checksum is right, or was never computed. */
static inline bool hpcc_arrival_intact(const struct hpcc_arrival *in)
{
	u8 ip_summed = in->skb->ip_summed;
	bool intact;

	/* nf_checksum() accepts these two cases as well. */
	if (ip_summed == CHECKSUM_PARTIAL || ip_summed == CHECKSUM_UNNECESSARY)
		return true;
	intact = !nf_checksum(in->skb, NF_INET_LOCAL_IN, in->thoff, IPPROTO_TCP, in->state->pf);
	/* nf_checksum() sets CHECKSUM_UNNECESSARY, which is right only for TCP. The code that walks
	 * extension headers may find another protocol, and needs the sum of the whole packet to
	 * check its checksum.
	 */
	if (ip_summed == CHECKSUM_COMPLETE && in->state->pf == NFPROTO_IPV6 &&
	    in->thoff != sizeof(struct ipv6hdr))
		in->skb->ip_summed = CHECKSUM_COMPLETE;
	return intact;
}

/* The socket that TCP will find for a segment: a full socket that does not listen, or NULL. @put is
 * set to true if the caller must drop a reference. The look-up uses the packet's incoming device,
 * as TCP does, so that no packet reaches a socket of another VRF.
 */
static inline struct sock *hpcc_arrival_sock(const struct hpcc_arrival *in, bool *put)
{
	struct sock *sk = in->skb->sk;

	*put = false;
	if (!sk) {
		sk = hpcc_lookup(in->state->net, in->state->pf, in->skb, in->th);
		if (!sk)
			return NULL;
		if (!sk_fullsock(sk)) {
			sock_gen_put(sk);
			return NULL;
		}
		*put = true;
	}
	return sk_fullsock(sk) ? sk : NULL;
}

/* Whether the ACK number of a segment is acceptable, by the rules of tcp_ack() and RFC 5961,
 * section 5. The lower limit is one window before snd_una, or the start of the connection if that
 * is later. TCP increases snd_nxt only after a segment has left. On a short path the segment's ACK
 * may arrive earlier. So numbers up to flow->snd_end, which LOCAL_OUT sets, are acceptable as well.
 */
static inline bool hpcc_ack_ok(const struct hpcc_flow *flow, const struct tcp_sock *tp,
			       const struct hpcc_arrival *in)
{
	u32 ack = ntohl(in->th->ack_seq);
	u32 old = min_t(u64, hpcc_peek(tp->max_window), hpcc_peek(tp->bytes_acked));

	return in->th->ack && !after(ack, hpcc_peek(tp->write_seq)) &&
	       (!after(ack, hpcc_peek(tp->snd_nxt)) || !after(ack, READ_ONCE(flow->snd_end))) &&
	       !before(ack, hpcc_peek(tp->snd_una) - old);
}

/* Whether the TTL of a packet is at least the socket's minimum (IP_MINTTL, IPV6_MINHOPCOUNT). */
static inline bool hpcc_ttl_ok(const struct sock *sk, const struct hpcc_arrival *in)
{
	if (in->state->pf == NFPROTO_IPV4)
		return ip_hdr(in->skb)->ttl >= READ_ONCE(inet_sk(sk)->min_ttl);
	return ipv6_hdr(in->skb)->hop_limit >= READ_ONCE(inet6_sk(sk)->min_hopcount);
}

#endif /* _HPCC_PACKET_ARRIVAL_H */
