// SPDX-License-Identifier: GPL-2.0
/*
 * Zero-RTT bandwidth acquisition (draft sections 2.3 and 3).
 *
 * A flow starts with a window of IW. Packets before the first ACK are sent as Not-ECT: a switch
 * with a queue above K drops them, which protects flows in their stable stage. The packet that
 * completes IW and the last packet of a message stay ECN-capable: they show the receiver which
 * packets are missing. TCP sets ECT for a whole connection, so LOCAL_OUT clears it in these
 * packets.
 */
#include <linux/skbuff.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>
#include <hpcc/compat.h>
#include <hpcc/wire/record.h>

#include "conn.h"

/* TCP cannot have more than 2^30 bytes in flight. */
static const u32 ldcp_IW_max = 1 << 30;
static const u32 ldcp_IW_min_segs = 2;

/* Flows with windows below this many segments request prompt ACKs. */
static const u32 ldcp_prompt_cwnd = 4;

/* Set IW: as configured, or B_host * T. */
void ldcp_start_init(struct sock *sk, struct ldcp_ca *ca)
{
	const struct ldcp_sysctls *sysctls = &ldcp_pernet(sock_net(sk))->sysctls;
	u32 segs = READ_ONCE(sysctls->iw_segs);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = tp->mss_cache;
	u64 B_host, bdp;

	if (!segs) {
		B_host = hpcc_host_rate(sk, READ_ONCE(sysctls->host_mbps));
		bdp = mul_u64_u32_div(B_host, hpcc_base_rtt_ns(sk, READ_ONCE(sysctls->base_rtt_ns)),
				      NSEC_PER_SEC);
		segs = div_u64(min_t(u64, bdp, ldcp_IW_max), mss);
	}
	segs = min3(segs, ldcp_IW_max / mss, LDCP_IW_MAX_SEGS);
	segs = max(segs, ldcp_IW_min_segs);
	/* Whole segments: otherwise the packet that completes IW would wait for an ACK. */
	ca->IW = segs * mss;
	ca->start_seq = tp->snd_una;
	ca->cw_q24 = (u64)segs << LDCP_CW_BITS;
	ca->stage = LDCP_START;
	/* One packet after a gap shows a loss, because a queue does not reorder packets. RACK would
	 * wait longer.
	 */
	tp->reordering = 1;
	hpcc_open_window(sk, ca->IW);
}

/* Undo the assumption of ldcp_start_init(). */
void ldcp_start_allow_reordering(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->reordering == 1)
		tp->reordering = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_reordering);
}

/* Change to the stable stage. @cw_q24: its window, segments. @why: counter to increment. */
static void ldcp_start_end(struct sock *sk, struct ldcp_ca *ca, u64 cw_q24, enum ldcp_counter why)
{
	ca->cw_q24 = max_t(u64, cw_q24, LDCP_ONE_Q24);
	ca->stage = LDCP_STABLE;
	ldcp_start_allow_reordering(sk);
	ldcp_count(sk, why, 1);
}

/* A loss ends the start phase: the window becomes the number of segments that arrived in order. */
void ldcp_start_lost(struct sock *sk, struct ldcp_ca *ca)
{
	u64 bytes_q24 = (u64)(tcp_sk(sk)->snd_una - ca->start_seq) << LDCP_CW_BITS;

	ldcp_start_end(sk, ca, div_u64(bytes_q24, tcp_sk(sk)->mss_cache), LDCP_C_START_LOST);
}

/* An upper limit for cw: if the handshake waited for neighbour resolution, IW is too large. */
static u64 ldcp_start_used_q24(const struct sock *sk, const struct ldcp_ca *ca)
{
	u64 used = max(tcp_sk(sk)->max_packets_out, 1U);

	return min(ca->cw_q24, used << LDCP_CW_BITS);
}

/* End the start phase if an ACK completes it without loss. @ca: its state, in LDCP_START. @marked:
 * segments that this ACK reports as marked: the law of the stable stage must react.
 */
void ldcp_start_ack(struct sock *sk, struct ldcp_ca *ca, u32 marked)
{
	/* Without packets in flight, all Not-ECT packets are acknowledged. TCP may save its
	 * reordering metric if the connection closes in state Disorder.
	 */
	if (!tcp_sk(sk)->packets_out)
		ldcp_start_allow_reordering(sk);
	if (tcp_sk(sk)->snd_una - ca->start_seq >= ca->IW)
		ldcp_start_end(sk, ca, ca->cw_q24, LDCP_C_START_FULL);
	else if (marked)
		ldcp_start_end(sk, ca, ldcp_start_used_q24(sk, ca), LDCP_C_START_MARKED);
}

/* Whether a packet has first-RTT data: TCP's reordering is 1, and only the SYN is acknowledged. */
static bool ldcp_is_first_rtt(const struct tcp_sock *tp, const struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	u32 seq = ntohl(th->seq);
	u32 len = skb->len - skb_transport_offset(skb) - __tcp_hdrlen(th);
	u32 end = seq + len + th->fin;
	u32 snd_una = hpcc_peek(tp->snd_una);
	u32 mss = hpcc_peek(tp->mss_cache);
	bool last;

	if (!len || hpcc_peek(tp->reordering) != 1 ||
	    hpcc_peek(tp->bytes_acked) > 1 || before(seq, hpcc_peek(tp->snd_nxt)))
		return false;
	/* sendmsg() may send before it has copied all data: only PSH or FIN ends a message. */
	last = (th->psh || th->fin) && end == hpcc_peek(tp->write_seq);
	/* The peer's window may be smaller than IW: in a SYN it is at most 64 KB. */
	last |= snd_una + hpcc_peek(tp->snd_wnd) - end < mss;
	return ldcp_is_low_priority(end - snd_una, hpcc_peek(tp->snd_cwnd) * mss, last);
}

/* Clear ECT, if it is set. The header is not shared: TCP has just created it. */
static bool ldcp_clear_ect(struct sk_buff *skb, u8 family)
{
	if (family == NFPROTO_IPV4) {
		if (INET_ECN_is_not_ect(ip_hdr(skb)->tos))
			return false;
		ipv4_change_dsfield(ip_hdr(skb), (u8)~INET_ECN_MASK, 0);
	} else {
		if (INET_ECN_is_not_ect(ipv6_get_dsfield(ipv6_hdr(skb))))
			return false;
		ipv6_change_dsfield(ipv6_hdr(skb), (u8)~INET_ECN_MASK, 0);
	}
	return true;
}

static bool ldcp_is_signed(const struct tcphdr *th)
{
	u32 pos = 0;

	return hpcc_opt_next_of((const u8 *)(th + 1), __tcp_hdrlen(th) - sizeof(*th), &pos,
				HPCC_TCPOPT_MD5, HPCC_TCPOPT_AO) != -ENOENT;
}

/* A receiver delays the ACK of a single packet by up to 40 ms, unless the sender reports a small
 * window with CWR. With AccECN PSH is set, and the ACK leaves when the application reads the
 * segment. ldcp_prompt_cwnd is above one: with two segments in flight, the first ACK may set cwnd
 * to one.
 */
static void ldcp_ask_prompt_ack(struct sk_buff *skb, const struct tcp_sock *tp)
{
	struct tcphdr *th = tcp_hdr(skb);

	if (hpcc_peek(tp->snd_cwnd) >= ldcp_prompt_cwnd || th->syn || skb_is_gso(skb) ||
	    skb->ip_summed != CHECKSUM_PARTIAL ||
	    skb->len <= skb_transport_offset(skb) + __tcp_hdrlen(th) ||
	    before(ntohl(th->seq), hpcc_peek(tp->snd_nxt)) || ldcp_is_signed(th))
		return;
	if (tcp_ecn_mode_rfc3168(tp))
		th->cwr = 1;
	else
		th->psh = 1;
}

/* Whether the packet is as TCP created it, without changes by a tunnel or IPsec. */
static bool ldcp_is_tcp(const struct sk_buff *skb, u8 family)
{
	return (family == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr) ==
	       IPPROTO_TCP;
}

/* Netfilter hook of outgoing packets. A packet with IPv6 extension headers stays ECN-capable, which
 * is safe. Return: always NF_ACCEPT.
 */
unsigned int ldcp_local_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct sock *sk = skb->sk;

	/* Do not read icsk_ca_priv: a qdisc on a VRF device sends segments through here without the
	 * socket lock, and setsockopt(TCP_CONGESTION) may replace icsk_ca_priv.
	 */
	if (!sk || !sk_fullsock(sk) || sk->sk_protocol != IPPROTO_TCP ||
	    sk->sk_type != SOCK_STREAM || !ldcp_is_tcp(skb, state->pf) ||
	    READ_ONCE(inet_csk(sk)->icsk_ca_ops) != &ldcp_ops)
		return NF_ACCEPT;
	ldcp_ask_prompt_ack(skb, tcp_sk(sk));
	if (ldcp_is_first_rtt(tcp_sk(sk), skb) && ldcp_clear_ect(skb, state->pf))
		ldcp_count(sk, LDCP_C_LOW_PRIORITY, 1);
	return NF_ACCEPT;
}
