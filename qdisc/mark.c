// SPDX-License-Identifier: GPL-2.0
/*
 * LDCP's part of a switch: mark ECN-capable packets by the queue that they
 * find, and drop the others early (hpcc/ldcp.h has the curve).
 *
 *	ECT(0), ECT(1), CE	CE with probability p(q), dropped at the limit
 *	Not-ECT			dropped where q >= K
 *	no IP			no ECN field: the limit only
 *
 * with q the bytes waiting in front of the packet, at this moment and not as
 * an average. That is known on arrival, so it is decided then: a mark made on
 * departure would tell of the queue behind the packet.
 */
#include <linux/if_vlan.h>
#include <linux/math64.h>
#include <linux/random.h>
#include <net/inet_ecn.h>

#include "sched.h"

/* ---- thresholds ---- */

/* What is derived from B: the time that the link needs for a queue of K_min,
 * K_max and K. Slow links get the packets instead: a queue of less would be
 * the ordinary one behind a burst.
 */
static const u32 hpcc_kmin_ns = 1000;
static const u32 hpcc_kmax_ns = 5000;
static const u32 hpcc_knonect_ns = 8000;

static const u32 hpcc_kmin_packets = 4;
static const u32 hpcc_kmax_packets = 16;
static const u32 hpcc_knonect_packets = 24;

/* B is at most 1.25 * 10^12: in 8 us that is under 2^54. */
static u32 hpcc_derive(const struct hpcc_config *cfg, u64 b, u32 mtu,
		       u32 time_ns, u32 packets)
{
	u64 bytes = max_t(u64, div_u64(b * time_ns, NSEC_PER_SEC),
			  (u64)packets * (mtu + cfg->overhead));

	return min_t(u64, bytes, cfg->limit);
}

/**
 * hpcc_kmax_derived() - K_max where none is configured
 * @cfg: configuration
 * @b: B in bytes/s
 * @mtu: largest packet, link header included
 */
u32 hpcc_kmax_derived(const struct hpcc_config *cfg, u64 b, u32 mtu)
{
	return hpcc_derive(cfg, b, mtu, hpcc_kmax_ns, hpcc_kmax_packets);
}

/**
 * hpcc_marks_init() - the thresholds in force
 * @marks: result
 * @cfg: configuration
 * @b: B in bytes/s
 * @mtu: largest packet, link header included
 *
 * A configured threshold is kept whatever becomes of B; derived ones give way.
 */
void hpcc_marks_init(struct hpcc_marks *marks, const struct hpcc_config *cfg,
		     u64 b, u32 mtu)
{
	u32 kmin, kmax;

	kmax = cfg->kmax ?: max(hpcc_kmax_derived(cfg, b, mtu), cfg->kmin);
	kmin = cfg->kmin ?: min(kmax, hpcc_derive(cfg, b, mtu, hpcc_kmin_ns,
						  hpcc_kmin_packets));
	ldcp_curve_init(&marks->curve, kmin, kmax, cfg->pmax_ppm);
	marks->knonect = cfg->knonect ?: hpcc_derive(cfg, b, mtu,
						     hpcc_knonect_ns,
						     hpcc_knonect_packets);
}

/* ---- packets ---- */

/* Behind more VLAN tags than this no IP is looked for, as in hpcc/stamp.h. */
static const u32 hpcc_vlan_tags_max = 4;

/* What a packet's ECN field says, besides INET_ECN_*. */
enum {
	HPCC_ECN_NO_IP		= INET_ECN_MASK + 1,
	HPCC_ECN_MALFORMED,
};

/**
 * struct hpcc_ip - the IP header of a packet
 * @at: its offset
 * @proto: EtherType
 */
struct hpcc_ip {
	int	at;
	__be16	proto;
};

/* Behind an Ethernet header and VLAN tags. Tags that a device keeps beside the
 * packet are not in the way.
 */
static bool hpcc_find_ip_eth(const struct sk_buff *skb, struct hpcc_ip *ip)
{
	const __be16 *type;
	__be16 buf;
	u32 tags;

	ip->at = ETH_HLEN;
	for (tags = 0; tags <= hpcc_vlan_tags_max; tags++) {
		type = skb_header_pointer(skb, ip->at - sizeof(buf),
					  sizeof(buf), &buf);
		if (!type)
			return false;
		ip->proto = *type;
		if (!eth_type_vlan(ip->proto))
			return true;
		ip->at += VLAN_HLEN;
	}
	return true;
}

/* Returns whether the headers in front of it are whole. */
static bool hpcc_find_ip(const struct sk_buff *skb, struct hpcc_ip *ip)
{
	if (hpcc_is_ethernet(skb->dev))
		return hpcc_find_ip_eth(skb, ip);
	ip->at = skb_network_offset(skb);
	ip->proto = skb->protocol;
	return ip->at >= 0;
}

static int hpcc_ecn_ipv4(const struct sk_buff *skb, int at)
{
	const struct iphdr *iph;
	struct iphdr buf;

	iph = skb_header_pointer(skb, at, sizeof(buf), &buf);
	if (!iph || iph->version != 4 || iph->ihl < 5)
		return HPCC_ECN_MALFORMED;
	return iph->tos & INET_ECN_MASK;
}

static int hpcc_ecn_ipv6(const struct sk_buff *skb, int at)
{
	const struct ipv6hdr *iph;
	struct ipv6hdr buf;

	iph = skb_header_pointer(skb, at, sizeof(buf), &buf);
	if (!iph || iph->version != 6)
		return HPCC_ECN_MALFORMED;
	return ipv6_get_dsfield(iph) & INET_ECN_MASK;
}

/* The ECN field of a packet. Nothing of the packet is changed, nor moved. */
static int hpcc_ecn(const struct sk_buff *skb, struct hpcc_ip *ip)
{
	if (!hpcc_find_ip(skb, ip))
		return HPCC_ECN_MALFORMED;
	switch (ip->proto) {
	case htons(ETH_P_IP):
		return hpcc_ecn_ipv4(skb, ip->at);
	case htons(ETH_P_IPV6):
		return hpcc_ecn_ipv6(skb, ip->at);
	default:
		return HPCC_ECN_NO_IP;
	}
}

static bool hpcc_ecn_is_capable(int ecn)
{
	return ecn != INET_ECN_NOT_ECT && ecn <= INET_ECN_CE;
}

/* Others may hold a clone of the packet, TCP for one: the header is copied if
 * it is not ours alone. IPv4's checksum follows by the difference, so that one
 * that was wrong stays wrong.
 */
static bool hpcc_set_ce(struct sk_buff *skb, const struct hpcc_ip *ip)
{
	bool is_ipv4 = ip->proto == htons(ETH_P_IP);
	u32 hlen = is_ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	void *header;

	if (skb_ensure_writable(skb, ip->at + hlen))
		return false;
	header = skb->data + ip->at;
	return is_ipv4 ? IP_ECN_set_ce(header) : IP6_ECN_set_ce(skb, header);
}

/* Most packets find a queue below K_min and need no random number. */
static bool hpcc_chance(u64 p)
{
	return p && (p == LDCP_P_ONE || get_random_u32() < p);
}

/* What becomes of a packet that the limit has room for. */
static enum hpcc_verdict hpcc_judge(const struct hpcc_sched *q, int ecn)
{
	u32 qlen = hpcc_backlog(q);

	switch (ecn) {
	case INET_ECN_NOT_ECT:
		return qlen < q->marks.knonect ? HPCC_ADMIT : HPCC_DROP_KNONECT;
	case INET_ECN_ECT_0:
	case INET_ECN_ECT_1:
		return hpcc_chance(ldcp_mark_p(&q->marks.curve, qlen)) ?
			HPCC_MARK : HPCC_ADMIT;
	case HPCC_ECN_MALFORMED:
		return HPCC_MARK_FAILED;
	default:
		return HPCC_ADMIT;
	}
}

static enum hpcc_verdict hpcc_try_mark(const struct hpcc_sched *q,
				       struct sk_buff *skb, int ecn,
				       const struct hpcc_ip *ip)
{
	enum hpcc_verdict verdict = hpcc_judge(q, ecn);

	if (verdict == HPCC_MARK && !hpcc_set_ce(skb, ip))
		return HPCC_MARK_FAILED;
	return verdict;
}

/**
 * hpcc_mark() - decide on a packet that arrives, mark and count it
 * @q: the port; @skb is not in @q->waiting_bytes yet
 * @skb: the packet
 * @fits: whether the limit has room for it
 *
 * Return: whether it may enter the queue.
 */
bool hpcc_mark(struct hpcc_sched *q, struct sk_buff *skb, bool fits)
{
	struct hpcc_ip ip;
	int ecn = hpcc_ecn(skb, &ip);

	if (!fits) {
		q->stats.drop_limit++;
		q->stats.drop_limit_ect += hpcc_ecn_is_capable(ecn);
		return false;
	}
	switch (hpcc_try_mark(q, skb, ecn, &ip)) {
	case HPCC_DROP_KNONECT:
		q->stats.drop_knonect++;
		return false;
	case HPCC_MARK_FAILED:
		q->stats.mark_failed++;
		return true;
	case HPCC_MARK:
		q->stats.marked++;
		if (hpcc_backlog(q) >= q->marks.curve.K_max)
			q->stats.marked_kmax++;
		return true;
	case HPCC_ADMIT:
		break;
	}
	return true;
}
