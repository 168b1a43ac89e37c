// SPDX-License-Identifier: GPL-2.0
/*
 * Direct responses (draft-miao-iccrg-hpccplus section 6.3): a packet that asks for load and finds
 * a long queue has its sender told at once, not when its record has waited in that queue and
 * come back as an echo.
 *
 * Under the qdisc's lock a packet's headers and a record are noted in a ring. A tasklet makes the
 * response (hpcc/wire/respond.h) and hands it to the stack as if it had come in by the device
 * that the packet leaves by, from where the packet goes to. So it goes back as all that
 * comes from there does: by the bridge and its VLANs, by routes, or to the host itself. It is
 * no request, so that no response answers it.
 *
 * A packet that was answered tells the next ports so. A frame that a bridge flooded gets no
 * response: as many ports would respond, and its destination is not behind most of them. A table by
 * a hash of flows has their turns, another one by a hash of senders their budgets: senders whose
 * hashes are equal share one.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <hpcc/wire/respond.h>

#include "stamp/snapshot.h"

/* Of 1000 flows that get a response in a period, one in 250 finds all its places taken. */
#define HPCC_RESPOND_SETS	1024

#define HPCC_RESPOND_SENDERS	1024

/* Responses that wait for the tasklet, which runs when the packets of a softirq are through. */
#define HPCC_RESPOND_RING	256

/**
 * struct hpcc_pending_response - a response to be made
 * @trigger: the packet that it answers
 * @vlan_proto: of its VLAN tag beside the headers; 0: none
 * @vlan_tci: the tag
 */
struct hpcc_pending_response {
	struct hpcc_trigger	trigger;
	__be16			vlan_proto;
	u16			vlan_tci;
};

/**
 * struct hpcc_responder - responses of a qdisc
 * @dev: the device that packets leave by
 * @tasklet: makes responses
 * @key: of the hashes
 * @full_ns: when the port's budget is whole again
 * @senders: when theirs are, by hash
 * @turns: of flows, by hash
 * @head: responses that were put into the ring; written under the qdisc's lock
 * @tail: those that were taken out of it; written by the tasklet, as the next two are
 * @sent: responses sent
 * @failed: those that there was no memory for, or the stack refused
 * @ring: what waits
 *
 * Under the qdisc's lock where nothing else is said.
 */
struct hpcc_responder {
	struct net_device		*dev;
	struct tasklet_struct		tasklet;
	siphash_key_t			key;
	u64				full_ns;
	u64				senders[HPCC_RESPOND_SENDERS];
	struct hpcc_turn		turns[HPCC_RESPOND_SETS][HPCC_TURN_WAYS];
	u32				head;
	u32				tail;
	u64				sent;
	u64				failed;
	struct hpcc_pending_response	ring[HPCC_RESPOND_RING];
};

/*
 * A bridge learns from what comes in by a port. The data's destination need not be behind this
 * port, as bridges flood, and a port's own address in a packet is a loop to them: the source
 * is the port's address with the bit for local administration turned, which no host answers to.
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

/* The device is there as long as its qdisc, and the qdisc as long as the tasklet. */
static void hpcc_responses_send(struct tasklet_struct *tasklet)
{
	struct hpcc_responder *r = container_of(tasklet, struct hpcc_responder, tasklet);
	struct sk_buff *skb;
	u32 head, at;

	/* Whoever sees the head of hpcc_respond() sees what is in front of it. */
	head = smp_load_acquire(&r->head);
	for (at = r->tail; at != head; at++) {
		skb = hpcc_response_make(r, &r->ring[at % HPCC_RESPOND_RING]);
		/* The place is free when it has been read. */
		smp_store_release(&r->tail, at + 1);
		if (skb && netif_rx(skb) == NET_RX_SUCCESS)
			WRITE_ONCE(r->sent, r->sent + 1);
		else
			WRITE_ONCE(r->failed, r->failed + 1);
	}
}

/* Is it a flow's turn, and do the budgets last? Then both are spent. */
static bool hpcc_may_respond(struct hpcc_responder *r, const struct hpcc_trigger *trigger,
			     u32 every_ns, u64 now)
{
	u64 flow = siphash(trigger, HPCC_TRIGGER_FLOW_LEN, &r->key);
	u64 sender = siphash(trigger, hpcc_trigger_sender_len(trigger), &r->key);
	u64 *sender_ns = &r->senders[sender % HPCC_RESPOND_SENDERS];
	u32 seq = get_unaligned_be32(trigger->seq);
	enum hpcc_turn_kind kind;
	struct hpcc_turn *turn;
	u64 of_port, of_sender;

	kind = hpcc_turn_find(r->turns[flow % HPCC_RESPOND_SETS], flow >> 32, seq, now, every_ns,
			      &turn);
	if (kind == HPCC_TURN_HELD)
		return false;
	of_port = hpcc_budget_after(&hpcc_port_budget, r->full_ns, now, every_ns, kind);
	of_sender = hpcc_budget_after(&hpcc_sender_budget, *sender_ns, now, every_ns, kind);
	if (!of_port || !of_sender)
		return false;
	r->full_ns = of_port;
	*sender_ns = of_sender;
	*turn = (struct hpcc_turn){ .ns = now, .key = flow >> 32, .seq = seq };
	return true;
}

/* Does a bridge have a frame leave by one of its ports because of the frame's destination? Of what
 * is without a tag it is assumed to be of the VLAN of the bridge itself.
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

/* Did a bridge flood a packet? Its port may be a master of ours. */
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

/* Have a packet tell the next ports that it was answered. */
static int hpcc_mark_answered(struct sk_buff *skb, const struct hpcc_opt_location *place)
{
	int err = skb_ensure_writable(skb, place->end);

	if (!err)
		hpcc_answered_write(skb->data, place, !hpcc_check_is_partial(skb, place->tcp));
	return err;
}

/**
 * hpcc_respond() - a packet with a request arrives: respond if the queue is long
 * @q: the port, locked, which responds
 * @skb: the packet, not in the queue yet, and perhaps never to be
 * @headers: of it, just parsed
 *
 * A GSO packet gets one for all its segments.
 */
void hpcc_respond(struct hpcc_sched *q, struct sk_buff *skb, struct hpcc_headers headers)
{
	struct hpcc_responder *r = q->responder;
	struct hpcc_opt_location place = hpcc_hint_location(headers.hint);
	struct hpcc_stamp stamp;
	struct hpcc_pending_response *due;
	u64 now;

	if (hpcc_backlog(q) <= q->cfg.respond)
		return;
	/* A place that is free has been read. */
	if (r->head - smp_load_acquire(&r->tail) == HPCC_RESPOND_RING) {
		q->stats.responses_lost++;
		return;
	}
	due = &r->ring[r->head % HPCC_RESPOND_RING];
	place.version = headers.version;
	place.ip = headers.ip;
	if (!hpcc_trigger_read(skb->data, &place, q->cfg.kind, hpcc_is_ethernet(r->dev),
			       &due->trigger) || hpcc_is_flooded(r->dev, skb))
		return;
	if (skb_vlan_tag_present(skb))
		due->trigger.vlans[0] = skb_vlan_tag_get_id(skb);
	now = ktime_get_ns();
	if (!hpcc_may_respond(r, &due->trigger, q->cfg.every_ns, now)) {
		q->stats.responses_held++;
		return;
	}
	if (hpcc_mark_answered(skb, &place)) {
		q->stats.responses_lost++;
		return;
	}
	stamp = hpcc_snapshot(q, hpcc_load(q), now);
	stamp.quiet = false;
	hpcc_trigger_stamp(&due->trigger, &stamp);
	due->vlan_proto = skb_vlan_tag_present(skb) ? skb->vlan_proto : 0;
	due->vlan_tci = skb->vlan_tci;
	/* The tasklet sees what is in front of the head. */
	smp_store_release(&r->head, r->head + 1);
	tasklet_schedule(&r->tasklet);
}

/**
 * hpcc_respond_recount() - fill in the statistics that the tasklet counts
 * @q: the port, locked
 * @stats: where to
 */
void hpcc_respond_recount(const struct hpcc_sched *q, struct tc_hpcc_xstats *stats)
{
	const struct hpcc_responder *r = q->responder;

	if (!r)
		return;
	stats->responses = READ_ONCE(r->sent);
	stats->responses_failed = READ_ONCE(r->failed);
}

/**
 * hpcc_respond_init() - have what responses need
 * @sch: the qdisc
 *
 * Context: RTNL. It stays until the qdisc goes.
 * Return: 0 or -ENOMEM.
 */
int hpcc_respond_init(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct hpcc_responder *r;

	if (q->responder)
		return 0;
	r = kvzalloc(sizeof(*r), GFP_KERNEL);
	if (!r)
		return -ENOMEM;
	r->dev = qdisc_dev(sch);
	get_random_bytes(&r->key, sizeof(r->key));
	tasklet_setup(&r->tasklet, hpcc_responses_send);
	q->responder = r;
	return 0;
}

/**
 * hpcc_respond_destroy() - no packet arrives any more
 * @q: the port
 *
 * Context: may sleep.
 */
void hpcc_respond_destroy(struct hpcc_sched *q)
{
	if (!q->responder)
		return;
	tasklet_kill(&q->responder->tasklet);
	kvfree(q->responder);
}
