// SPDX-License-Identifier: GPL-2.0
/*
 * LDCP at a switch: a packet meets a queue of q bytes at arrival (not averaged; hpcc/law/ldcp.h).
 *
 *	ECT(0), ECT(1), CE	CE with probability p(q), dropped at the limit
 *	Not-ECT			dropped if q >= K
 *	no IP			no ECN field: the limit only
 *
 * A mark made on departure would report the queue after the packet.
 */
#include <linux/math64.h>
#include <linux/random.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>

#include "core/tracepoints.h"

/* Default thresholds: times that the link needs for a queue of K_min, K_max and K. Slow links use a
 * number of packets, because an ordinary burst already forms such a queue.
 */
static const u32 hpcc_kmin_ns = 1000;
static const u32 hpcc_kmax_ns = 5000;
static const u32 hpcc_knonect_ns = 8000;

static const u32 hpcc_kmin_packets = 4;
static const u32 hpcc_kmax_packets = 16;
static const u32 hpcc_knonect_packets = 24;

/* B is at most 1.25 * 10^12 bytes/s, so B * 8000 ns is below 2^54. */
static u32 hpcc_derive(const struct hpcc_config *cfg, u64 b, u32 mtu, u32 time_ns, u32 packets)
{
	u64 bytes = max_t(u64, div_u64(b * time_ns, NSEC_PER_SEC),
			  (u64)packets * (mtu + cfg->overhead));

	return min_t(u64, bytes, cfg->limit);
}

/* Default K_max. @b: B in bytes/s. @mtu: maximum packet length, including link header. */
u32 hpcc_kmax_derived(const struct hpcc_config *cfg, u64 b, u32 mtu)
{
	return hpcc_derive(cfg, b, mtu, hpcc_kmax_ns, hpcc_kmax_packets);
}

/* Compute the effective thresholds; only derived thresholds follow B. @b, @mtu: as above. */
void hpcc_marks_init(struct hpcc_marks *marks, const struct hpcc_config *cfg, u64 b, u32 mtu)
{
	u32 kmin, kmax;

	kmax = cfg->kmax ?: max(hpcc_kmax_derived(cfg, b, mtu), cfg->kmin);
	kmin = cfg->kmin ?: min(kmax, hpcc_derive(cfg, b, mtu, hpcc_kmin_ns, hpcc_kmin_packets));
	ldcp_curve_init(&marks->curve, kmin, kmax, cfg->pmax_ppm);
	marks->knonect = cfg->knonect ?: hpcc_derive(cfg, b, mtu, hpcc_knonect_ns,
						     hpcc_knonect_packets);
}

/* Results of hpcc_ecn() besides INET_ECN_*. */
enum {
	HPCC_ECN_NO_IP		= INET_ECN_MASK + 1,
	HPCC_ECN_MALFORMED,
};

static u32 hpcc_ip_hlen(struct hpcc_headers headers)
{
	return headers.version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

/* The ECN field, or HPCC_ECN_*. The header of a GSO segment may not be in the linear part. */
static int hpcc_ecn(const struct sk_buff *skb, struct hpcc_headers headers)
{
	struct ipv6hdr buf;
	const void *ip;

	if (!headers.version)
		return headers.hint == HPCC_UNSTAMPED_NOT_TCP ||
		       headers.hint == HPCC_UNSTAMPED_ENCRYPTED ? HPCC_ECN_NO_IP :
								  HPCC_ECN_MALFORMED;
	ip = skb_header_pointer(skb, headers.ip, hpcc_ip_hlen(headers), &buf);
	if (!ip)
		return HPCC_ECN_MALFORMED;
	return INET_ECN_MASK & (headers.version == 4 ? ipv4_get_dsfield(ip) : ipv6_get_dsfield(ip));
}

static bool hpcc_ecn_is_capable(int ecn)
{
	return ecn != INET_ECN_NOT_ECT && ecn <= INET_ECN_CE;
}

/* Unshares the header. A wrong IPv4 checksum stays wrong, because the update is incremental. */
static bool hpcc_set_ce(struct sk_buff *skb, struct hpcc_headers headers)
{
	void *ip;

	if (skb_ensure_writable(skb, headers.ip + hpcc_ip_hlen(headers)))
		return false;
	ip = skb->data + headers.ip;
	return headers.version == 4 ? IP_ECN_set_ce(ip) : IP6_ECN_set_ce(skb, ip);
}

/* Most packets meet a queue below K_min and need no random number. */
static bool hpcc_chance(u64 p)
{
	return p && (p == LDCP_P_ONE || get_random_u32() < p);
}

static enum hpcc_verdict hpcc_judge(const struct hpcc_sched *q, int ecn, u32 qlen)
{
	switch (ecn) {
	case INET_ECN_NOT_ECT:
		return qlen < q->marks.knonect ? HPCC_ADMIT : HPCC_DROP_KNONECT;
	case INET_ECN_ECT_0:
	case INET_ECN_ECT_1:
		return hpcc_chance(ldcp_mark_p(&q->marks.curve, qlen)) ? HPCC_MARK : HPCC_ADMIT;
	case HPCC_ECN_MALFORMED:
		return HPCC_MARK_FAILED;
	default:
		return HPCC_ADMIT;
	}
}

static enum hpcc_verdict hpcc_try_mark(const struct hpcc_sched *q, struct sk_buff *skb, int ecn,
				       u32 qlen, struct hpcc_headers headers)
{
	enum hpcc_verdict verdict = hpcc_judge(q, ecn, qlen);

	if (verdict == HPCC_MARK && !hpcc_set_ce(skb, headers))
		return HPCC_MARK_FAILED;
	return verdict;
}

/* Decide on an arriving packet, mark and count it. @q->backlog_bytes does not include it yet.
 * @fits: whether it fits the limit.
 * Return: whether it may enter the queue.
 */
bool hpcc_mark(struct hpcc_sched *q, struct sk_buff *skb, bool fits, struct hpcc_headers headers)
{
	int ecn = hpcc_ecn(skb, headers);
	u32 qlen = hpcc_backlog(q);
	enum hpcc_verdict verdict;

	verdict = fits ? hpcc_try_mark(q, skb, ecn, qlen, headers) : HPCC_DROP_LIMIT;
	if (likely(verdict == HPCC_ADMIT))
		return true;
	trace_hpcc_mark(q, skb, qlen, verdict);
	switch (verdict) {
	case HPCC_DROP_LIMIT:
		q->stats.drop_limit++;
		q->stats.drop_limit_ect += hpcc_ecn_is_capable(ecn);
		return false;
	case HPCC_DROP_KNONECT:
		q->stats.drop_knonect++;
		return false;
	case HPCC_MARK_FAILED:
		q->stats.mark_failed++;
		return true;
	default:
		q->stats.marked++;
		if (qlen >= q->marks.curve.K_max)
			q->stats.marked_kmax++;
		return true;
	}
}
