// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry on a packet that departs: find the option, write our record.
 *
 * What bytes mean and which slot is ours is decided in hpcc/stamp.h; here they
 * are made readable, then writable. A packet that is not stamped leaves as it
 * came, except that data of it may have been pulled into its linear part.
 *
 * Whoever sends through a port may ask it for records. Senders use differences,
 * so ts and tx have an offset that nobody knows: they tell neither this host's
 * clock nor what the port has sent before one looked. All queues of a port have
 * the same one, and a qdisc that takes another's place goes on with it, as ts
 * must not jump.
 */
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <hpcc/stamp.h>

#include "sched.h"

static siphash_key_t hpcc_offset_key __read_mostly;

/**
 * hpcc_offset_init_key() - draw the secret that offsets come from
 */
void hpcc_offset_init_key(void)
{
	get_random_bytes(&hpcc_offset_key, sizeof(hpcc_offset_key));
}

/**
 * hpcc_offset_of() - what a port adds to its records
 * @sch: the qdisc
 * @cfg: its configuration, which may not be in force yet
 *
 * Return: the offsets of this device's port of this name.
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
	};
}

static int hpcc_walk(const struct sk_buff *skb, u8 kind,
		     struct hpcc_place *place)
{
	struct hpcc_frame frame = {
		.p = skb->data,
		.have = skb_headlen(skb),
		.len = skb->len,
	};

	if (hpcc_is_ethernet(skb->dev))
		return hpcc_walk_eth(&frame, kind, place);
	if (skb_network_offset(skb) < 0)
		return HPCC_UNSTAMPED_MALFORMED;
	return hpcc_walk_ip(&frame, skb_network_offset(skb),
			    ntohs(skb->protocol), kind, place);
}

/* The walk asks for more at most once per header, each time for more than
 * before.
 */
static int hpcc_find(struct sk_buff *skb, u8 kind, struct hpcc_place *place)
{
	int ret;

	while ((ret = hpcc_walk(skb, kind, place)) == HPCC_WALK_MORE) {
		if (!pskb_may_pull(skb, place->need))
			return HPCC_UNSTAMPED_NO_MEMORY;
	}
	return ret;
}

/**
 * hpcc_stamp_spot() - where the segments of a GSO packet have their option
 * @q: the port
 * @skb: the first of them; the headers of the others are as long
 *
 * Return: the place; empty where there is none, or it has to be looked for.
 */
struct hpcc_spot hpcc_stamp_spot(const struct hpcc_sched *q,
				 struct sk_buff *skb)
{
	struct hpcc_place place;

	/* What the fields of struct hpcc_spot take. */
	BUILD_BUG_ON(HPCC_WALK_MAX_BYTES > 1 << 10);
	if (!q->cfg.stamp ||
	    hpcc_find(skb, q->cfg.kind, &place) != HPCC_WALK_FOUND)
		return (struct hpcc_spot){};
	return (struct hpcc_spot){
		.tcp = place.tcp,
		.opt = place.opt - place.tcp,
		.len = place.len,
		.end = place.end - place.tcp,
	};
}

static int hpcc_place(const struct hpcc_sched *q, struct sk_buff *skb,
		      struct hpcc_place *place)
{
	struct hpcc_spot spot = hpcc_skb_cb(skb)->spot;

	if (!spot.len)
		return hpcc_find(skb, q->cfg.kind, place);
	place->tcp = spot.tcp;
	place->opt = spot.tcp + spot.opt;
	place->len = spot.len;
	place->end = spot.tcp + spot.end;
	return HPCC_WALK_FOUND;
}

/* Is the TCP checksum yet to be computed, over what we write as well? */
static bool hpcc_check_is_partial(const struct sk_buff *skb, u32 tcp)
{
	return skb->ip_summed == CHECKSUM_PARTIAL &&
	       skb_checksum_start_offset(skb) == (int)tcp &&
	       skb->csum_offset == offsetof(struct tcphdr, check);
}

static int hpcc_try_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns,
			  u64 tx_ns)
{
	struct hpcc_stamp stamp;
	struct hpcc_place place;
	int ret;

	if (!q->cfg.stamp)
		return HPCC_UNSTAMPED_OFF;
	ret = hpcc_place(q, skb, &place);
	if (ret != HPCC_WALK_FOUND)
		return ret;
	if (skb_ensure_writable(skb, place.end))
		return HPCC_UNSTAMPED_NO_MEMORY;
	stamp = (struct hpcc_stamp){
		.node = q->cfg.node,
		.port = q->cfg.port,
		.bps = q->b * 8,
		.ts_ns = ts_ns + q->offset.ts_ns,
		.tx_ns = tx_ns + q->offset.tx_ns,
		.qlen_ns = hpcc_link_time(q->byte_time, hpcc_backlog(q)).ns,
	};
	return hpcc_stamp_packet(skb->data, &place, &stamp,
				 !hpcc_check_is_partial(skb, place.tcp));
}

/**
 * hpcc_stamp() - write telemetry on a packet and count what became of it
 * @q: the port; the packet is not in @q->waiting any more
 * @skb: the packet
 * @ts_ns: when its first bit leaves
 * @tx_ns: time that the link has spent on all packets before
 */
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns,
		u64 tx_ns)
{
	int ret = hpcc_try_stamp(q, skb, ts_ns, tx_ns);

	if (ret == HPCC_STAMP_WRITTEN)
		q->stats.stamped++;
	else
		q->stats.unstamped[ret]++;
}
