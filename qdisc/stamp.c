// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry on a packet that departs: write our record into the option that
 * headers.c found when the packet came.
 *
 * What bytes mean and which slot is ours is decided in hpcc/stamp.h; here they are
 * made writable. A packet that is not stamped leaves as it came, except that data of
 * it may have been pulled into its linear part.
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

/* The option that was found on arrival, if it still is one of its length. */
static bool hpcc_place(const struct sk_buff *skb, struct hpcc_note note,
		       u8 kind, struct hpcc_place *place)
{
	const u8 *opt = skb->data + note.tcp + note.opt;

	place->tcp = note.tcp;
	place->opt = note.tcp + note.opt;
	place->len = note.len;
	place->end = note.tcp + note.end;
	return opt[0] == kind && opt[1] == note.len;
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
	struct hpcc_note note = hpcc_skb_cb(skb)->note;
	struct hpcc_stamp stamp;
	struct hpcc_place place;

	if (!q->cfg.stamp)
		return HPCC_UNSTAMPED_OFF;
	if (!note.len)
		return note.unstamped;
	if (skb_ensure_writable(skb, note.tcp + note.end))
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (!hpcc_place(skb, note, q->cfg.kind, &place))
		return HPCC_UNSTAMPED_NO_OPTION;
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
