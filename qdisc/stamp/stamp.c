// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry on a departing packet: write our record into the option that headers.c found on
 * arrival.
 *
 * hpcc/wire/stamp.h interprets the bytes and selects the slot; this file makes them writable. A
 * packet without a record is sent unchanged, but some of its data may have been pulled into its
 * linear part.
 *
 * Every sender through a port can request records. Senders use only differences, so a secret offset
 * is added to ts and tx: they reveal neither this host's clock nor the bytes that the port sent
 * before. All queues of a port have the same offset, and a new qdisc of the port uses it too,
 * because ts must not jump. The tag of an anonymous port is secret too: with a plain hash of the
 * name, an attacker could test a list of names.
 */
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <hpcc/carrier/ioam.h>
#include "stamp/snapshot.h"

#define CREATE_TRACE_POINTS
#include "core/tracepoints.h"

static siphash_key_t hpcc_offset_key __read_mostly;

/**
 * hpcc_offset_init_key() - create the random key that offsets are derived from
 */
void hpcc_offset_init_key(void)
{
	get_random_bytes(&hpcc_offset_key, sizeof(hpcc_offset_key));
}

/**
 * hpcc_offset_of() - offsets that a port adds to its records
 * @sch: the qdisc
 * @cfg: its configuration, possibly not active yet
 *
 * Return: the offsets for this device, node and port.
 */
struct hpcc_offset hpcc_offset_of(struct Qdisc *sch,
				  const struct hpcc_config *cfg)
{
	const struct net_device *dev = qdisc_dev(sch);
	u64 netns = dev_net(dev)->net_cookie;
	u64 name = (u64)cfg->node << 32 | cfg->port;

	return (struct hpcc_offset){
		.ts_ns = siphash_4u64(netns, dev->ifindex, name, 0,
				      &hpcc_offset_key),
		.tx_ns = siphash_4u64(netns, dev->ifindex, name, 1,
				      &hpcc_offset_key),
		.alias = siphash_4u64(netns, dev->ifindex, name, 2,
				      &hpcc_offset_key),
	};
}

static int hpcc_try_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	struct hpcc_opt_location place = hpcc_hint_location(hpcc_skb_cb(skb)->hint);
	struct hpcc_stamp stamp;
	const u8 *opt;

	if (skb_ensure_writable(skb, place.end))
		return HPCC_UNSTAMPED_NO_MEMORY;
	opt = skb->data + place.opt;
	if (opt[0] != q->cfg.kind || opt[1] != place.len)
		return HPCC_UNSTAMPED_NO_OPTION;
	stamp = hpcc_snapshot(q, hpcc_load(q), ts_ns);
	return hpcc_stamp_packet(skb->data, &place, &stamp,
				 !hpcc_check_is_partial(skb, place.tcp));
}

/* 2^93 / 10^9 */
static const u64 hpcc_per_ns = 9903520314283042199ULL;

/**
 * hpcc_tx_bytes() - tx_bytes of IOAM and IFA: the time that a link has spent, in bytes at B
 * @bytes_per_s: B
 * @tx_ns: the time
 *
 * The value jumps if B changes, as if the link changed.
 *
 * Return: bytes modulo 2^32, never all ones, which mean "not available".
 */
u32 hpcc_tx_bytes(u64 bytes_per_s, u64 tx_ns)
{
	/* Q53: B is below 2^41 bytes/s, 2^11 bytes/ns. */
	u64 bytes_per_ns = mul_u64_u64_shr(bytes_per_s, hpcc_per_ns, 40);

	return min_t(u32, mul_u64_u64_shr(tx_ns, bytes_per_ns, 53), HPCC_IOAM_U32_NONE - 1);
}

/* An anonymous port has no node to write: it sets the overflow flag, because a node is missing. */
static int hpcc_lack_node(struct sk_buff *skb, u32 at)
{
	if (!hpcc_ioam_is_ours(skb->data + at))
		return HPCC_UNSTAMPED_OFF;
	skb_forward_csum(skb);
	hpcc_ioam_overflow(skb->data + at);
	return HPCC_UNSTAMPED_OFF;
}

/* Write our node into an IOAM trace. */
static int hpcc_try_ioam(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 at = FIELD_GET(HPCC_HINT_TCP, hint);
	u32 len = FIELD_GET(HPCC_HINT_END, hint) * 4;
	u32 hop = at - FIELD_GET(HPCC_HINT_OPT, hint) * 4;
	u32 ip = hop - sizeof(struct ipv6hdr);
	struct hpcc_load load = hpcc_load(q);
	struct hpcc_ioam_node node;
	u64 fraction;

	if (skb_ensure_writable(skb, at + len))
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (!q->cfg.identify)
		return hpcc_lack_node(skb, at);
	/* Only the checksum of the whole packet covers a trace; ifb may return the packet with that
	 * checksum.
	 */
	skb_forward_csum(skb);
	div64_u64_rem(ts_ns + q->offset.ts_ns, NSEC_PER_SEC, &fraction);
	node = (struct hpcc_ioam_node){
		.hop_lim = skb->data[ip + offsetof(struct ipv6hdr, hop_limit)],
		.node = q->cfg.node,
		.port = q->cfg.port,
		.ts_ns = fraction,
		.qlen_bytes = min(load.backlog_bytes, HPCC_IOAM_U32_NONE - 1),
		.tx_bytes = hpcc_tx_bytes(q->b, load.busy_ns + q->offset.tx_ns),
	};
	return hpcc_ioam_write(skb->data + at, len, &node) ?: HPCC_STAMP_WRITTEN;
}

/**
 * hpcc_stamp() - write telemetry on a packet and count the result
 * @q: the port, with stamp; the packet is not in its backlog, and not yet in its time spent
 * @skb: the packet, with an option, a trace, a stack or a tag to write to
 * @ts_ns: departure time of its first bit
 */
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 found = FIELD_GET(HPCC_HINT_LEN, hpcc_skb_cb(skb)->hint);
	int ret;

	if (likely(!(found & 3)))
		ret = hpcc_try_stamp(q, skb, ts_ns);
	else if (found == HPCC_HINT_INT)
		ret = hpcc_try_int(q, skb, ts_ns);
	else if (found == HPCC_HINT_IFA)
		ret = hpcc_try_ifa(q, skb, ts_ns);
	else if (found == HPCC_HINT_CSIG)
		ret = hpcc_try_csig(q, skb, FIELD_GET(HPCC_HINT_TCP, hpcc_skb_cb(skb)->hint),
				    ts_ns);
	else if (found == HPCC_HINT_CSIG_PUSH)
		ret = hpcc_try_push(q, skb, ts_ns);
	else
		ret = hpcc_try_ioam(q, skb, ts_ns);
	trace_hpcc_stamp(q, skb, ts_ns, ret);

	if (ret == HPCC_STAMP_WRITTEN)
		q->stats.stamped++;
	else if (ret == HPCC_STAMP_QUIET)
		q->stats.quiet++;
	else
		q->unstamped[ret]++;
}
