// SPDX-License-Identifier: GPL-2.0
/*
 * Direct responses (draft-miao-iccrg-hpccplus section 6.3): if a packet with a request meets a long
 * queue, the port informs its sender immediately, before the record waits in that queue and returns
 * as an echo.
 *
 * Under the qdisc's lock the port stores the packet's headers and a record in a ring. A tasklet
 * creates the response (hpcc/wire/respond.h) and passes it to the stack as if the packet's
 * destination had sent it and the egress device had received it. So bridges, VLANs and routes
 * deliver it. A response is not a request, so it triggers no response.
 *
 * The port marks the packet as answered for the next ports. A frame that a bridge flooded gets no
 * response: many ports would respond, and most of them do not lead to its destination. Turns are in
 * a table by flow hash, budgets in a table by sender hash: senders with equal hashes share a
 * budget.
 */
#include <linux/device/driver.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <hpcc/wire/respond.h>

#include "stamp/snapshot.h"

/* If 1000 flows get responses in one period, one flow in 250 finds no free entry. */
#define HPCC_RESPOND_SETS	1024

#define HPCC_RESPOND_SENDERS	1024

/* Maximum responses that wait for the tasklet, which runs after the packets of a softirq. */
#define HPCC_RESPOND_RING	256

struct hpcc_pending_response {
	struct hpcc_trigger	trigger;
	__be16			vlan_proto;	/* of the VLAN tag in the skb; 0: no tag */
	u16			vlan_tci;
};

/* Responses of a qdisc, under its lock; the tasklet writes tail, sent and failed. senders has, by
 * hash of a sender, the time at which its budget is full again; turns is by hash of a flow.
 */
struct hpcc_responder {
	struct net_device		*dev;
	struct tasklet_struct		tasklet;
	siphash_key_t			key;	/* of the hashes */
	u64				full_ns;	/* when the port's budget is full again */
	u64				senders[HPCC_RESPOND_SENDERS];
	struct hpcc_turn		turns[HPCC_RESPOND_SETS][HPCC_TURN_WAYS];
	u32				head;	/* number of responses put into the ring */
	u32				tail;	/* number of responses taken out of it */
	u64				sent;
	u64				failed;	/* no memory, or refused by the stack */
	struct hpcc_pending_response	ring[HPCC_RESPOND_RING];
};

/*
 * A bridge learns the source address of a response. The data's destination would be wrong, because
 * the bridge may have flooded the frame. With the port's own address the bridge would detect a
 * loop. So the source is the port's address with the local-administration bit inverted; no host
 * uses it.
 */
static void hpcc_response_source(u8 *frame, const struct net_device *dev)
{
	memcpy(frame + ETH_ALEN, dev->dev_addr, ETH_ALEN);
	frame[ETH_ALEN] ^= 2;
}

static struct sk_buff *hpcc_response_make(const struct hpcc_responder *r,
					  const struct hpcc_pending_response *due)
{
	u32 len = hpcc_response_len(&due->trigger);
	struct sk_buff *skb = netdev_alloc_skb_ip_align(r->dev, len);

	if (!skb)
		return NULL;
	hpcc_response_write(skb_put(skb, len), &due->trigger);
	if (due->trigger.link_len) {
		hpcc_response_source(skb->data, r->dev);
		skb->protocol = eth_type_trans(skb, r->dev);
	} else {
		skb_reset_mac_header(skb);
		skb_reset_network_header(skb);
		skb->protocol = due->trigger.version == 4 ? htons(ETH_P_IP) : htons(ETH_P_IPV6);
	}
	if (due->vlan_proto)
		__vlan_hwaccel_put_tag(skb, due->vlan_proto, due->vlan_tci);
	return skb;
}

/* The device exists as long as its qdisc, and the qdisc as long as the tasklet. */
static void hpcc_responses_send(struct tasklet_struct *tasklet)
{
	struct hpcc_responder *r = container_of(tasklet, struct hpcc_responder, tasklet);
	struct sk_buff *skb;
	u32 head, at;

	/* Pairs with the release in hpcc_respond(): entries before the head are complete. */
	head = smp_load_acquire(&r->head);
	for (at = r->tail; at != head; at++) {
		skb = hpcc_response_make(r, &r->ring[at % HPCC_RESPOND_RING]);
		/* Free the entry after it was read. */
		smp_store_release(&r->tail, at + 1);
		if (skb && netif_rx(skb) == NET_RX_SUCCESS)
			WRITE_ONCE(r->sent, r->sent + 1);
		else
			WRITE_ONCE(r->failed, r->failed + 1);
	}
}

/* Whether a bridge forwards a packet to @port because of an address entry. An untagged packet
 * belongs to the VLAN of the bridge itself.
 */
static bool hpcc_bridge_knows(const struct net_device *bridge, const struct net_device *port,
			      const struct sk_buff *skb)
{
	struct net_device_path_ctx ctx = { .dev = bridge };
	struct net_device_path path = {};

	if (!bridge->netdev_ops->ndo_fill_forward_path)
		return false;
	ether_addr_copy(ctx.daddr, skb->data);
	if (skb_vlan_tag_present(skb)) {
		ctx.num_vlans = 1;
		ctx.vlan[0].id = skb_vlan_tag_get_id(skb);
		ctx.vlan[0].proto = skb->vlan_proto;
	}
	return !bridge->netdev_ops->ndo_fill_forward_path(&ctx, &path) && ctx.dev == port;
}

/* Whether a bridge flooded a packet. The bridge port may be a master of our device. */
static bool hpcc_is_flooded(struct net_device *dev, const struct sk_buff *skb)
{
	struct net_device *master;
	bool flooded = false;

	rcu_read_lock();
	while ((master = netdev_master_upper_dev_get_rcu(dev)) && !netif_is_bridge_master(master))
		dev = master;
	if (master)
		flooded = !hpcc_bridge_knows(master, dev, skb);
	rcu_read_unlock();
	return flooded;
}

/* Use the turn and the budgets, if both allow it. The last check is slow: it looks up an address.
 */
static bool hpcc_may_respond(struct hpcc_sched *q, const struct sk_buff *skb,
			     const struct hpcc_trigger *trigger, u64 now)
{
	struct hpcc_responder *r = q->part[HPCC_PART_RESPOND];
	u32 every_ns = q->cfg.every_ns;
	u64 flow = siphash(trigger, HPCC_TRIGGER_FLOW_LEN, &r->key);
	u64 sender = siphash(trigger, hpcc_trigger_sender_len(trigger), &r->key);
	u64 *sender_ns = &r->senders[sender % HPCC_RESPOND_SENDERS];
	u32 seq = get_unaligned_be32(trigger->seq);
	enum hpcc_turn_kind kind;
	struct hpcc_turn *turn;
	u64 of_port, of_sender;

	kind = hpcc_turn_find(r->turns[flow % HPCC_RESPOND_SETS], flow >> 32, seq, now, every_ns,
			      &turn);
	of_port = kind == HPCC_TURN_HELD ? 0 :
		  hpcc_budget_after(&hpcc_port_budget, r->full_ns, now, every_ns, kind);
	of_sender = !of_port ? 0 :
		    hpcc_budget_after(&hpcc_sender_budget, *sender_ns, now, every_ns, kind);
	if (!of_sender) {
		q->stats.responses_held++;
		return false;
	}
	if (hpcc_is_flooded(r->dev, skb))
		return false;
	r->full_ns = of_port;
	*sender_ns = of_sender;
	*turn = (struct hpcc_turn){ .ns = now, .key = flow >> 32, .seq = seq };
	return true;
}

static int hpcc_mark_answered(struct sk_buff *skb, const struct hpcc_opt_location *place)
{
	int err = skb_ensure_writable(skb, place->end);

	if (!err)
		hpcc_answered_write(skb->data, place, !hpcc_check_is_partial(skb, place->tcp));
	return err;
}

/* The packet may still be dropped. A GSO packet gets one response for all its segments. */
static void hpcc_respond(struct hpcc_sched *q, struct sk_buff *skb, struct hpcc_headers headers)
{
	struct hpcc_responder *r = q->part[HPCC_PART_RESPOND];
	struct hpcc_opt_location place = hpcc_hint_location(headers.hint);
	struct hpcc_stamp stamp;
	struct hpcc_pending_response *due;
	u64 now;

	if (hpcc_backlog(q) <= q->cfg.respond)
		return;
	/* Pairs with the release of the tail: a free entry was read. */
	if (r->head - smp_load_acquire(&r->tail) == HPCC_RESPOND_RING) {
		q->stats.responses_lost++;
		return;
	}
	due = &r->ring[r->head % HPCC_RESPOND_RING];
	place.version = headers.version;
	place.ip = headers.ip;
	if (!hpcc_trigger_read(skb->data, &place, q->cfg.kind, hpcc_is_ethernet(r->dev),
			       &due->trigger))
		return;
	if (skb_vlan_tag_present(skb))
		due->trigger.vlans[0] = skb_vlan_tag_get_id(skb);
	now = ktime_get_ns();
	if (!hpcc_may_respond(q, skb, &due->trigger, now))
		return;
	if (hpcc_mark_answered(skb, &place)) {
		q->stats.responses_lost++;
		return;
	}
	stamp = hpcc_snapshot(q, hpcc_load(q, NULL, now), now);
	stamp.quiet = false;
	hpcc_trigger_stamp(&due->trigger, &stamp);
	due->vlan_proto = skb_vlan_tag_present(skb) ? skb->vlan_proto : 0;
	due->vlan_tci = skb->vlan_tci;
	/* The tasklet sees complete entries before the head. */
	smp_store_release(&r->head, r->head + 1);
	tasklet_schedule(&r->tasklet);
}

/* Qdisc_ops::enqueue only of ports that respond, so other ports do not check each packet. */
static int hpcc_respond_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct hpcc_headers headers = hpcc_arrival(q, skb);

	if (hpcc_hint_is_option(headers.hint))
		hpcc_respond(q, skb, headers);
	return hpcc_enqueue(skb, sch, to_free);
}

static void hpcc_responder_recount(const void *state, struct tc_hpcc_xstats *stats)
{
	const struct hpcc_responder *r = state;

	stats->responses = READ_ONCE(r->sent);
	stats->responses_failed = READ_ONCE(r->failed);
}

static void *hpcc_responder_create(struct net_device *dev)
{
	struct hpcc_responder *r = kvzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	if (!r)
		return NULL;
	r->dev = dev;
	get_random_bytes(&r->key, sizeof(r->key));
	tasklet_setup(&r->tasklet, hpcc_responses_send);
	return r;
}

static void hpcc_responder_destroy(void *state)
{
	struct hpcc_responder *r = state;

	tasklet_kill(&r->tasklet);
	kvfree(r);
}

static const struct hpcc_part_ops hpcc_responder_ops = {
	.owner		= THIS_MODULE,
	.part		= HPCC_PART_RESPOND,
	.create		= hpcc_responder_create,
	.destroy	= hpcc_responder_destroy,
	.enqueue	= hpcc_respond_enqueue,
	.recount	= hpcc_responder_recount,
};

module_driver(hpcc_responder_ops, hpcc_part_register, hpcc_part_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Direct responses for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
