// SPDX-License-Identifier: GPL-2.0
/* Outgoing segments in LOCAL_OUT: the room for options, and how to add options. */
#include <linux/export.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/dst.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <hpcc/compat.h>
#include <hpcc/wire/record.h>

#include "common/peek.h"
#include "packet/segment.h"

/* Offset of the length in a hop-by-hop header whose first option is a jumbo payload. */
#define HPCC_JUMBO_LENGTH	4

#define HPCC_TCPOPT_MPTCP	30

/* Whether a SACK option of @len bytes reports a duplicate of data that the segment acknowledges,
 * at most one window back. TCP also reports older duplicates, but any host may have sent them.
 */
static bool hpcc_is_dsack(const struct hpcc_segment *seg, const u8 *opt, u32 len)
{
	u32 ack_seq = ntohl(hpcc_segment_th(seg)->ack_seq);
	u32 window = hpcc_peek(tcp_sk(seg->skb->sk)->window_clamp);

	return len >= TCPOLEN_SACK_BASE + TCPOLEN_SACK_PERBLOCK &&
	       !after(get_unaligned_be32(opt + TCPOLEN_SACK_BASE + sizeof(u32)), ack_seq) &&
	       ack_seq - get_unaligned_be32(opt + TCPOLEN_SACK_BASE) <= window;
}

/* Whether the options of a segment allow our option. @kind: TCP option kind that must be absent;
 * HPCC_TCPOPT_EOL: none.
 */
enum hpcc_presence hpcc_segment_presence(const struct hpcc_segment *seg, u8 kind)
{
	const u8 *opts = seg->skb->data + seg->thoff + sizeof(struct tcphdr);
	u32 len = seg->thlen - sizeof(struct tcphdr);
	u32 end = hpcc_opts_usual(opts, len), at;
	int err;

	while (!(err = hpcc_opt_step(opts, len, &at, &end))) {
		if (opts[at] == kind)
			return HPCC_PRESENT;
		if (opts[at] == HPCC_TCPOPT_MD5 || opts[at] == HPCC_TCPOPT_AO ||
		    opts[at] == HPCC_TCPOPT_MPTCP)
			return HPCC_INCOMPATIBLE;
		if (opts[at] == TCPOPT_SACK && hpcc_is_dsack(seg, opts + at, end - at))
			return HPCC_DUPLICATE;
	}
	return err == -ENOENT ? HPCC_ABSENT : HPCC_INCOMPATIBLE;
}

/* Whether the IP header states the packet's length. This field is 0 in a super-packet above 64 KB:
 * TCP creates such packets with BIG TCP, and also from two segments if the MTU is near 64 KB.
 */
static bool hpcc_length_stated(const struct sk_buff *skb, u8 family)
{
	return family == NFPROTO_IPV4 ? ip_hdr(skb)->tot_len : ipv6_hdr(skb)->payload_len;
}

/* How many bytes fit into a segment's headers. The length fields of the headers and the MTU limit
 * this number. On its first pass through LOCAL_OUT a segment of a VRF has the VRF device as its
 * route; the socket has the real route.
 */
u32 hpcc_segment_space(const struct hpcc_segment *seg, const struct sock *sk)
{
	const struct sk_buff *skb = seg->skb;
	const struct dst_entry *dst = skb_dst(skb);
	const struct dst_entry *route = NULL;
	u32 room = IP_MAX_MTU;
	u32 limit, wire;

	if (!dst)
		return 0;
	if (hpcc_length_stated(skb, seg->state->pf)) {
		if (skb->len > IP_MAX_MTU)
			return 0;
		room = IP_MAX_MTU - skb->len;
	} else if (!skb_is_gso(skb)) {
		return 0;
	}
	wire = skb_is_gso(skb) ? seg->thoff + seg->thlen + skb_shinfo(skb)->gso_size : skb->len;
	limit = dst_mtu(dst);
	if (sk_fullsock(sk))
		route = rcu_dereference(sk->sk_dst_cache);
	if (route && route != dst)
		limit = min(limit, dst_mtu(route));
	if (wire >= limit)
		return 0;
	return min(room, limit - wire);
}

/* How many option bytes fit, a multiple of 4. */
u32 hpcc_segment_room(const struct hpcc_segment *seg, const struct sock *sk)
{
	return min(HPCC_TCP_HEADER_MAX - seg->thlen, hpcc_segment_space(seg, sk)) & ~3U;
}

/* Whether a segment passes LOCAL_OUT a second time. On the second pass of a VRF, output device and
 * route device are the same slave of the VRF. They are also the same for link-local destinations,
 * but such segments pass LOCAL_OUT only once.
 */
bool hpcc_segment_is_again(const struct hpcc_segment *seg)
{
	const struct net_device *out = seg->state->out;
	const struct sk_buff *skb = seg->skb;
	const struct dst_entry *dst = skb_dst(skb);

	return hpcc_skb_has_passed_ipvs(skb) ||
	       (dst && out == dst->dev && netif_is_l3_slave(out) &&
		!(seg->state->pf == NFPROTO_IPV6 && rt6_need_strict(&ipv6_hdr(skb)->daddr)));
}

/* Count a segment that has no room for our option, on its first pass through LOCAL_OUT. */
void hpcc_segment_no_room(const struct hpcc_segment *seg, enum hpcc_counter what)
{
	if (!hpcc_segment_is_again(seg))
		hpcc_count(seg->state->net, what);
}

/**
 * hpcc_segment_checksum() - update the checksum of a segment that grew
 * @seg: the segment
 * @n: number of bytes added
 *
 * th->check is the sum over the pseudo header, in which only the length changes.
 */
void hpcc_segment_checksum(const struct hpcc_segment *seg, u32 n)
{
	struct tcphdr *th = hpcc_segment_th(seg);
	u32 old_len = seg->skb->len - n - seg->thoff;
	__wsum sum = csum_unfold(th->check);

	sum = csum_sub(sum, (__force __wsum)htonl(old_len));
	sum = csum_add(sum, (__force __wsum)htonl(old_len + n));
	th->check = ~csum_fold(sum);
}
EXPORT_SYMBOL_GPL(hpcc_segment_checksum);

/* Update the jumbo payload option of an IPv6 packet if it is the first option after the IPv6
 * header: kernels before 7.0 put it in front of all other headers of a super-packet. Hop-by-hop
 * options of the socket (IPV6_HOPOPTS) do not change.
 */
static void hpcc_set_jumbo_length(struct sk_buff *skb)
{
	u8 *hop = skb->data + sizeof(struct ipv6hdr);

	if (ipv6_hdr(skb)->nexthdr == NEXTHDR_HOP &&
	    hop[sizeof(struct ipv6_opt_hdr)] == IPV6_TLV_JUMBO)
		put_unaligned_be32(skb->len - sizeof(struct ipv6hdr), hop + HPCC_JUMBO_LENGTH);
}

/**
 * hpcc_set_ip_length() - write the packet's new length into the IP header
 * @skb: the packet, data at its IP header
 * @family: NFPROTO_IPV4 or NFPROTO_IPV6
 *
 * Updates the IPv4 checksum. An IP header without a length stays without a length.
 */
void hpcc_set_ip_length(struct sk_buff *skb, u8 family)
{
	if (!hpcc_length_stated(skb, family)) {
		if (family == NFPROTO_IPV6)
			hpcc_set_jumbo_length(skb);
	} else if (family == NFPROTO_IPV4) {
		struct iphdr *iph = ip_hdr(skb);
		__be16 old = iph->tot_len;

		iph->tot_len = htons(skb->len);
		csum_replace2(&iph->check, old, iph->tot_len);
	} else {
		ipv6_hdr(skb)->payload_len = htons(skb->len - sizeof(struct ipv6hdr));
	}
}
EXPORT_SYMBOL_GPL(hpcc_set_ip_length);

/* Move the headers of a segment, up to offset @head, by @n bytes: towards the front if @n is
 * positive.
 */
static void hpcc_segment_move(struct hpcc_segment *seg, u32 head, s32 n)
{
	struct sk_buff *skb = seg->skb;
	u8 *old = skb->data;

	if (n >= 0)
		skb_push(skb, n);
	else
		skb_pull(skb, -n);
	memmove(skb->data, old, head);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, seg->thoff);
	skb->csum_start -= n;
	hpcc_set_ip_length(skb, seg->state->pf);
}

/* The TCP header of a segment has grown by @n bytes, a multiple of 4, which may be negative. */
static void hpcc_segment_grown(struct hpcc_segment *seg, s32 n)
{
	hpcc_segment_th(seg)->doff += n / 4;
	hpcc_segment_checksum(seg, n);
	seg->thlen += n;
}

/* Remove @n bytes of options at the offset @at of the options, both multiples of 4. Return: false
 * if there is no memory.
 */
bool hpcc_segment_cut(struct hpcc_segment *seg, u32 at, u32 n)
{
	if (skb_cow_head(seg->skb, 0))
		return false;
	hpcc_segment_move(seg, seg->thoff + sizeof(struct tcphdr) + at, -n);
	hpcc_segment_grown(seg, -n);
	return true;
}

/**
 * hpcc_segment_put() - append options to the existing ones, and make room after the TCP header
 * @seg: the segment
 * @options: option bytes
 * @len: length of @options, a multiple of 4, at most hpcc_segment_room()
 * @behind: bytes after the TCP header, a multiple of 4; the checksum does not include them yet
 * Return: false if there is no memory.
 */
bool hpcc_segment_put(struct hpcc_segment *seg, const u8 *options, u32 len, u32 behind)
{
	u32 head = seg->thoff + seg->thlen;
	struct sk_buff *skb = seg->skb;
	u32 n = len + behind;

	if (skb_cow_head(skb, n))
		return false;
	hpcc_segment_move(seg, head, n);
	memcpy(skb->data + head, options, len);
	hpcc_segment_grown(seg, len);
	return true;
}
EXPORT_SYMBOL_GPL(hpcc_segment_put);
