// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry on a departing packet: write our record into the option that headers.c found on
 * arrival. hpcc/wire/stamp.h interprets the bytes and selects the slot; this file makes them
 * writable.
 *
 * Every sender through a port can request records. Senders use only differences, so a secret offset
 * is added to ts and tx: they reveal neither this host's clock nor the bytes that the port sent
 * before. All queues of a port have the same offset, and a new qdisc of the port uses it too,
 * because ts must not jump. The tag of an anonymous port is secret too: an attacker could test a
 * list of names against a plain hash.
 */
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include "stamp/snapshot.h"
#include "stamp/stamp_ops.h"

#define CREATE_TRACE_POINTS
#include "core/tracepoints.h"

static siphash_key_t hpcc_offset_key __read_mostly;

/* Create the random key that offsets are derived from. */
void hpcc_offset_init_key(void)
{
	get_random_bytes(&hpcc_offset_key, sizeof(hpcc_offset_key));
}

/* Offsets that a device, node, port and class add to their records. @cfg: its configuration,
 * possibly not active yet. Classes of a port have different tags: hpcc_link_tag() multiplies their
 * numbers in the upper 8 bits by an odd constant.
 */
struct hpcc_offset hpcc_offset_of(struct Qdisc *sch, const struct hpcc_config *cfg)
{
	const struct net_device *dev = qdisc_dev(sch);
	u64 netns = dev_net(dev)->net_cookie;
	u64 name = (u64)cfg->node << 32 | cfg->port;

	return (struct hpcc_offset){
		.ts_ns = siphash_4u64(netns, dev->ifindex, name, 0, &hpcc_offset_key),
		.tx_ns = siphash_4u64(netns, dev->ifindex, name, 1 | cfg->number << 8,
				      &hpcc_offset_key),
		.alias = siphash_4u64(netns, dev->ifindex, name, 2, &hpcc_offset_key),
		.port = cfg->port | (u32)cfg->number << 24,
	};
}

/* 2^93 / 10^9 */
static const u64 hpcc_per_ns = 9903520314283042199ULL;

/* The time @tx_ns that a link has spent, in bytes at B. A change of B makes the result jump, as
 * between the records of two links.
 * Return: bytes modulo 2^32, never all ones, which mean "not available" in IOAM and IFA.
 */
u32 hpcc_tx_bytes(u64 bytes_per_s, u64 tx_ns)
{
	/* Q53: B is below 2^41 bytes/s, 2^11 bytes/ns. */
	u64 bytes_per_ns = mul_u64_u64_shr(bytes_per_s, hpcc_per_ns, 40);

	return min_t(u32, mul_u64_u64_shr(tx_ns, bytes_per_ns, 53), U32_MAX - 1);
}
EXPORT_SYMBOL_GPL(hpcc_tx_bytes);

/* Utilization of a link, with one division per window: that of the last complete window, or of the
 * longer time since the last call. @ts_ns: now.
 * Return: in units of 1 / HPCC_INT_UTIL_ONE.
 */
u32 hpcc_util_now(struct hpcc_sched *q, struct hpcc_load load, u64 ts_ns)
{
	struct hpcc_util *util = &hpcc_stamp_port(q)->util;
	u64 ns = ts_ns - util->from_ns;

	if (ns < q->cfg.util_window_ns)
		return util->last;
	if (util->from_ns)
		util->last = hpcc_int_util(load.busy_ns - util->busy_ns, ns);
	util->from_ns = ts_ns;
	util->busy_ns = load.busy_ns;
	return util->last;
}
EXPORT_SYMBOL_GPL(hpcc_util_now);

/* A port may stop stamping the carrier of a waiting packet; then its module may be gone. */
static noinline int hpcc_write_carrier(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns,
				       u32 row)
{
	const struct hpcc_stamp_carrier *c = &hpcc_stamp_carriers[row];

	return q->cfg.stamp & c->stamp_bit ? c->ops->write(q, skb, ts_ns) : HPCC_UNSTAMPED_OFF;
}

/* Write telemetry on a packet of a port with stamp, and count the result. The packet's hint has
 * HPCC_HINT_FOUND. Neither the backlog of the port nor its time spent includes the packet. @ts_ns:
 * departure time of its first bit.
 */
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 row = FIELD_GET(HPCC_HINT_CARRIER, hpcc_skb_cb(skb)->hint);
	int ret = likely(!row) ? hpcc_stamp_option_of(q, skb, ts_ns) :
				 hpcc_write_carrier(q, skb, ts_ns, row);

	trace_hpcc_stamp(q, skb, ts_ns, ret);

	if (ret == HPCC_STAMP_WRITTEN)
		q->stats.stamped++;
	else if (ret == HPCC_STAMP_QUIET)
		q->stats.quiet++;
	else
		q->unstamped[ret]++;
}
