// SPDX-License-Identifier: GPL-2.0
/*
 * LOCAL_IN: read our options from incoming segments.
 *
 * Rules for this hook:
 *
 *	context	It runs before TCP, under RCU and without the socket lock: in softirq, or in a
 *		process that gives an NFQUEUE verdict. It finds the flow in the hash table of
 *		flow.c, and never follows icsk_ca_priv (flow.h).
 *	input	The sender chose every byte. TCP has checked nothing yet. The IP layer has checked
 *		its own header and reassembled IPv4 fragments. IPv6 extension headers after the
 *		hop-by-hop options are not processed yet: the hook passes a packet on unread if it
 *		has a fragment header, an authentication header, or a routing header with segments
 *		left.
 *	change	The hook changes a packet only if it belongs to a connection that agreed, its
 *		checksum is right, its sequence and ACK numbers are acceptable, and its header is
 *		not shared (sniffers hold clones).
 *	headers	The network header stays at skb->data, and the transport header keeps its offset
 *		from there. In IPv6 the transport header is the first extension header, where
 *		ip6_protocol_deliver_rcu() continues. So the hook reads a packet with an extension
 *		header, but does not change it.
 *
 * The hook accepts an option only if the segment's checksum is right, the connection agreed, and
 * TCP would accept the sequence number, the ACK number and the TTL. So an attacker who cannot see
 * the connection has to guess both numbers, as for data (RFC 5961). Documentation/protocol.rst has
 * a table of these checks. The hook counts and ignores any other option, and passes the segment on.
 *
 * The hook removes our options from the segment: with options TCP would leave its fast path for
 * each segment, and could not merge segments in its backlog.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "carrier/carrier.h"
#include "control/switch_response.h"
#include "hook/hook.h"

/* If a TCP header follows more bytes of IPv6 headers than this, the hook ignores it. */
#define HPCC_EXTHDRS_MAX	512

/* Offset of the TCP header, or -1. Skip no header that affects destination or authentication. */
static int hpcc_arrival_ipv6(const struct sk_buff *skb)
{
	u8 next = ipv6_hdr(skb)->nexthdr;
	int off = sizeof(struct ipv6hdr);

	while (next != IPPROTO_TCP) {
		const struct ipv6_rt_hdr *h;
		struct ipv6_rt_hdr buf;

		if (next != NEXTHDR_DEST && next != NEXTHDR_ROUTING &&
		    !(next == NEXTHDR_HOP && off == sizeof(struct ipv6hdr)))
			return -1;
		h = skb_header_pointer(skb, off, sizeof(buf), &buf);
		if (!h || (next == NEXTHDR_ROUTING && h->segments_left))
			return -1;
		next = h->nexthdr;
		off += (h->hdrlen + 1) * 8;
		if (off > HPCC_EXTHDRS_MAX)
			return -1;
	}
	return off;
}

/* Whether a packet is IPv4 with only timestamps in the usual place of TCP options, if it is TCP. */
static bool hpcc_is_usual(const struct sk_buff *skb, u8 pf)
{
	const struct iphdr *iph = (const struct iphdr *)skb->data;
	const struct tcphdr *th = (const struct tcphdr *)(iph + 1);

	return pf == NFPROTO_IPV4 &&
	       skb_headlen(skb) >= sizeof(*iph) + sizeof(*th) + HPCC_TCPOPTS_USUAL_LEN &&
	       iph->ihl == sizeof(*iph) / 4 && !th->syn &&
	       th->doff == (sizeof(*th) + HPCC_TCPOPTS_USUAL_LEN) / 4 &&
	       hpcc_opts_usual((const u8 *)(th + 1), HPCC_TCPOPTS_USUAL_LEN);
}

/* Pull TCP header and options into the linear part, as TCP will. False: skip the packet. */
static bool hpcc_arrival_parse(struct hpcc_arrival *in)
{
	struct tcphdr *th;

	if (in->state->pf == NFPROTO_IPV4) {
		const struct iphdr *iph = ip_hdr(in->skb);

		if (iph->protocol != IPPROTO_TCP || ip_is_fragment(iph))
			return false;
		in->thoff = ip_hdrlen(in->skb);
	} else {
		int off = hpcc_arrival_ipv6(in->skb);

		if (off < 0)
			return false;
		in->thoff = off;
	}
	if (!pskb_may_pull(in->skb, in->thoff + sizeof(*th)))
		return false;
	th = (struct tcphdr *)(in->skb->data + in->thoff);
	if (th->doff < sizeof(*th) / 4)
		return false;
	in->optlen = __tcp_hdrlen(th) - sizeof(*th);
	/* A SYN without the option may withdraw an offer. */
	if (!in->optlen && !th->syn)
		return false;
	if (!pskb_may_pull(in->skb, in->thoff + __tcp_hdrlen(th)))
		return false;
	in->th = (struct tcphdr *)(in->skb->data + in->thoff);
	in->opts = (u8 *)(in->th + 1);
	return true;
}

static bool hpcc_seq_ok(const struct tcp_sock *tp, const struct hpcc_arrival *in)
{
	u32 seq = ntohl(in->th->seq);
	u32 end = seq + in->skb->len - in->thoff - __tcp_hdrlen(in->th);
	u32 rcv_wup = hpcc_peek(tp->rcv_wup);

	return !before(end, rcv_wup) && !after(seq, rcv_wup + hpcc_peek(tp->rcv_wnd));
}

static bool hpcc_numbers_ok(const struct hpcc_flow *flow, const struct tcp_sock *tp,
			    const struct hpcc_arrival *in)
{
	if (hpcc_has_no_tcp_flags(in->th))
		return hpcc_response_ok(flow, tp, in);
	return hpcc_seq_ok(tp, in) && hpcc_ack_ok(flow, tp, in);
}

/* Update the TCP checksum before @n option bytes are removed. @len: TCP length before. */
static void hpcc_strip_checksum(const struct sk_buff *skb, struct tcphdr *th, const u8 *opts, u32 n,
				u32 len)
{
	bool partial = skb->ip_summed == CHECKSUM_PARTIAL;
	__wsum sum = csum_unfold(partial ? th->check : ~th->check);

	sum = csum_sub(sum, (__force __wsum)htons(len));
	sum = csum_add(sum, (__force __wsum)htons(len - n));
	if (!partial) {
		sum = csum_sub(sum, csum_partial(opts, n, 0));
		sum = csum_sub(sum, (__force __wsum)htons(n << 10));
	}
	th->check = partial ? ~csum_fold(sum) : csum_fold(sum);
}

/* Remove the options from @at on from a segment whose checksum is right: move all bytes in front of
 * them. Segments with IPv6 extension headers stay unchanged, because the code that walks them keeps
 * its own offsets. A segment of a virtual machine whose checksum starts elsewhere also stays
 * unchanged.
 */
static void hpcc_strip(const struct hpcc_arrival *in, u32 at)
{
	struct sk_buff *skb = in->skb;
	u32 head = in->thoff + sizeof(struct tcphdr) + at;
	u32 n = in->optlen - at;

	if (!n || (at | n) & 3 || skb_header_cloned(skb) ||
	    skb->len > IP_MAX_MTU || skb_transport_offset(skb) != in->thoff ||
	    (in->state->pf == NFPROTO_IPV6 && in->thoff != sizeof(struct ipv6hdr)) ||
	    (skb->ip_summed == CHECKSUM_PARTIAL && skb_checksum_start_offset(skb) != in->thoff))
		return;
	DEBUG_NET_WARN_ON_ONCE(skb_shared(skb) || skb_network_offset(skb));
	hpcc_strip_checksum(skb, in->th, in->opts + at, n, skb->len - in->thoff);
	in->th->doff -= n / 4;
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		skb->csum_start += n;
	} else {
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		skb->csum_level = 0;
	}
	memmove(skb->data + n, skb->data, head);
	__skb_pull(skb, n);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, in->thoff);
	hpcc_set_ip_length(skb, in->state->pf);
}

static noinline void hpcc_unagreed_in(const struct hpcc_arrival *in)
{
	const struct net *net = in->state->net;
	u8 kind = READ_ONCE(hpcc_pernet(net)->sysctls.option_kind);
	u32 pos = 0;

	if (hpcc_opt_next(in->opts, in->optlen, &pos, kind) >= 0)
		hpcc_count(net, HPCC_C_UNAGREED_IGNORED);
}

/* Let a carrier use a segment whose sequence number is not acceptable. Return: whether consumed. */
static noinline bool __cold hpcc_outside_in(struct sock *sk, struct hpcc_flow *flow,
					    struct hpcc_arrival *in, int at, u32 pos)
{
	const struct hpcc_carrier_ops *ops;
	struct hpcc_opt opt;
	int ret = -ENOENT;
	int i;

	if (at >= 0 && in->opts[at] == flow->kind &&
	    !hpcc_opt_decode(in->opts + at, pos - at, &opt) &&
	    hpcc_ack_ok(flow, tcp_sk(sk), in) && hpcc_ttl_ok(sk, in))
		for (i = HPCC_CARRIER_MAX; i > HPCC_CARRIER_TCP && ret == -ENOENT; i--) {
			ops = hpcc_carrier_at(i);
			if (ops->outside_in)
				ret = ops->outside_in(sk, flow, in, &opt, at, pos);
		}
	if (ret == -ENOENT)
		hpcc_count(in->state->net, HPCC_C_WINDOW_IGNORED);
	return ret > 0;
}

/* TCP checks the IPsec policies only later. */
static bool hpcc_policy_ok(struct sock *sk, const struct hpcc_arrival *in)
{
	return in->state->pf == NFPROTO_IPV4 ? xfrm4_policy_check(sk, XFRM_POLICY_IN, in->skb) :
					       xfrm6_policy_check(sk, XFRM_POLICY_IN, in->skb);
}

/* Return: whether the segment was consumed. */
static bool hpcc_segment_in(struct hpcc_arrival *in)
{
	struct net *net = in->state->net;
	struct hpcc_flow *flow;
	struct sock *sk;
	bool taken = false;
	u32 pos = 0;
	bool put;
	int at;

	/* A flow keeps its agreed option kind if the sysctl changes. */
	at = hpcc_opt_next_of(in->opts, in->optlen, &pos, HPCC_OPT_KIND_DEFAULT,
			      HPCC_OPT_KIND_OTHER);
	if (at == -ENOENT)
		return false;
	sk = hpcc_arrival_sock(in, &put);
	if (!sk)
		return hpcc_has_no_tcp_flags(in->th) && hpcc_response_stray(in, at, pos);
	flow = hpcc_flow_find(sk);
	if (!flow)
		hpcc_unagreed_in(in);
	else if (!hpcc_arrival_intact(in))
		hpcc_count(net, HPCC_C_CHECKSUM_IGNORED);
	else if (!hpcc_policy_ok(sk, in))
		hpcc_count(net, HPCC_C_POLICY_IGNORED);
	else if (!hpcc_numbers_ok(flow, tcp_sk(sk), in) || !hpcc_ttl_ok(sk, in))
		taken = hpcc_outside_in(sk, flow, in, at, pos);
	else if (hpcc_has_no_tcp_flags(in->th))
		hpcc_response_in(sk, flow, in, at, pos);
	else
		hpcc_strip(in, hpcc_options_in(flow, in, at, pos));
	if (put)
		sock_put(sk);
	return taken;
}

/* noinline: most packets do not need its stack frame. Return: whether the packet was consumed. */
static noinline bool hpcc_packet_in(struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct hpcc_arrival in;

	in.skb = skb;
	in.state = state;
	in.carrier = NULL;
	if (!hpcc_arrival_parse(&in) || in.th->rst)
		return false;
	if (!in.th->syn)
		return hpcc_segment_in(&in);
	hpcc_syn_in(&in);
	return false;
}

/* Netfilter hook of incoming packets. Context: RCU read side; softirq, or a process that gave an
 * NFQUEUE verdict. Return: NF_ACCEPT; NF_STOLEN for a probe or a stray response that must not reach
 * TCP.
 */
unsigned int hpcc_local_in(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	u8 carrier;

	if (hpcc_is_usual(skb, state->pf))
		return NF_ACCEPT;
	carrier = hpcc_carrier_of_packet(skb, state->pf);
	if (unlikely(carrier))
		return hpcc_carrier_packet_in(carrier, skb, state) ? NF_STOLEN : NF_ACCEPT;
	if (!hpcc_packet_in(skb, state))
		return NF_ACCEPT;
	consume_skb(skb);
	return NF_STOLEN;
}
