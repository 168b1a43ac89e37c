// SPDX-License-Identifier: GPL-2.0
/*
 * The border of a domain (draft-miao-iccrg-hpccplus section 9.1): a packet that leaves the port
 * does not show the rate, the load or the names of links. This code quantizes the TCP option: load
 * records become records of virtual links (hpcc/wire/border.h), and identities and the number of
 * flows are removed. Modules of carriers remove their bytes.
 *
 * A packet changes when the device fetches it, after the port has written its own record. Links are
 * in a table of constant size. The key contains the source of the packet, so a host that writes
 * false records changes only the records of its own packets.
 */
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <hpcc/wire/border.h>

#include "stamp/stamp_ops.h"

#define HPCC_BORDER_SETS	1024
#define HPCC_BORDER_WAYS	4

struct hpcc_border {
	siphash_key_t		key;
	u64			start_ns;	/* secret start of the clock */
	struct hpcc_border_link	links[HPCC_BORDER_SETS][HPCC_BORDER_WAYS];
	u8			turn[HPCC_BORDER_SETS];	/* number of replaced links */
};

/* Replace a load record. A new link replaces the oldest one of its set. The tag is the same for all
 * scales, so a sender that changes its scale does not detect another path. After a replacement in
 * the set new links have other tags: their tx cannot be compared with tx before the replacement.
 * @host: hash of the source.
 */
static void hpcc_border_load(struct hpcc_sched *q, u8 *p, const struct hpcc_opt *opt, u64 host,
			     u64 now_ns)
{
	struct hpcc_border *b = q->part[HPCC_PART_BORDER];
	struct hpcc_border_link *set, *l, *oldest;
	u64 key, now = (now_ns + b->start_ns) >> opt->scale;
	bool twin = false;
	struct hpcc_record r;
	u32 at, random;
	u8 type, tag;

	BUILD_BUG_ON(HPCC_SCALE_MAX > 31);
	hpcc_record_decode(p, &r);
	/* The receiver echoes both types alike. */
	type = opt->type == HPCC_OPT_ANSWERED ? HPCC_OPT_FORWARD : opt->type;
	key = siphash_3u64(host, get_unaligned_be16(p) >> 4, type, &b->key) & ~31ULL;
	at = (key >> 5) % HPCC_BORDER_SETS;
	tag = (key >> 56) + b->turn[at];
	key |= opt->scale;
	set = b->links[at];
	oldest = set;
	for (l = set; l < set + HPCC_BORDER_WAYS; l++) {
		if (l->key == key && hpcc_border_fits(l, &r, max(now, l->from)))
			break;
		twin |= l->key == key;
		if (l->seen_ns < oldest->seen_ns)
			oldest = l;
	}
	if (l == set + HPCC_BORDER_WAYS) {
		l = oldest;
		random = get_random_u32();
		b->turn[at] += !!l->key;
		l->key = key;
		hpcc_border_begin(l, &r, now, random, twin ? random : tag, q->cfg.quantize);
	}
	l->seen_ns = now_ns;
	hpcc_border_update(l, &r, max(now, l->from), q->cfg.quantize);
	hpcc_record_encode(p, &r);
}

/* Change an option. Return: false if it is malformed or signed, and so unchanged. */
static bool hpcc_border_option(struct hpcc_sched *q, u8 *p, u32 len, u64 host, u64 now_ns)
{
	u8 *slot, *end = p + len;
	struct hpcc_opt opt;

	if (hpcc_opt_decode(p, len, &opt))
		return false;
	if (hpcc_border_removes(&opt, p)) {
		memset(p, HPCC_TCPOPT_NOP, len);
		return true;
	}
	for (slot = p + HPCC_OPT_HEAD_LEN; slot < end; slot += HPCC_RECORD_LEN) {
		if (opt.type == HPCC_OPT_IDENTIFY)
			memset(slot, 0, HPCC_RECORD_LEN);
		else if (opt.type == HPCC_OPT_RESPONSE)
			hpcc_border_response(slot, q->cfg.quantize);
		else if (opt.type != HPCC_OPT_REPORT && hpcc_slot_hop(slot) &&
			 hpcc_slot_hop(slot) <= opt.hops)
			hpcc_border_load(q, slot, &opt, host, now_ns);
	}
	return true;
}

/* Find the TCP header. Return: the length of its options; 0: no options, or a SYN. */
static u32 hpcc_border_opts(struct hpcc_sched *q, struct sk_buff *skb,
			    struct hpcc_opt_location *place)
{
	struct hpcc_frame f;
	const u8 *tcp;
	u32 hlen;
	int ret;

	do {
		f = (struct hpcc_frame){
			.p = skb->data,
			.have = skb_headlen(skb),
			.len = skb->len,
			.proto = HPCC_PROTO_ETHERNET,
		};
		if (!hpcc_is_ethernet(skb->dev)) {
			f.network = max(skb_network_offset(skb), 0);
			f.proto = ntohs(skb->protocol);
		}
		place->tcp = 0;
		ret = hpcc_walk(&f, q->cfg.kind, place);
	} while (ret == HPCC_WALK_MORE && pskb_may_pull(skb, place->need));
	if (place->tcp && place->tcp + sizeof(struct tcphdr) <= skb_headlen(skb)) {
		tcp = skb->data + place->tcp;
		hlen = (tcp[HPCC_TCP_DOFF] >> 4) * 4;
		/* If the walk rejected the header, end is the end of the packet. */
		if (hlen >= sizeof(struct tcphdr) && place->tcp + hlen == place->end &&
		    place->end <= skb_headlen(skb))
			return tcp[HPCC_TCP_FLAGS] & HPCC_TCP_SYN ? 0 :
								    hlen - sizeof(struct tcphdr);
	}
	q->stats.border_failed += ret == HPCC_WALK_MORE || ret == HPCC_UNSTAMPED_MALFORMED;
	return 0;
}

static void hpcc_border_quantize(struct hpcc_sched *q, struct sk_buff *skb)
{
	const struct hpcc_border *b = q->part[HPCC_PART_BORDER];
	u64 host, now_ns = q->cfg.rate ? hpcc_skb_cb(skb)->time_ns : ktime_get_ns();
	struct hpcc_opt_location place;
	u32 len = hpcc_border_opts(q, skb, &place), pos = 0;
	u32 opts = place.tcp + sizeof(struct tcphdr);
	int at = len ? hpcc_opt_next(skb->data + opts, len, &pos, q->cfg.kind) : -ENOENT;
	bool done = true;
	__wsum before;
	u8 *p;

	if (at == -ENOENT)
		return;
	if (at < 0 || skb_ensure_writable(skb, place.end)) {
		q->stats.border_failed++;
		return;
	}
	p = skb->data;
	host = place.version == 4 ? siphash(p + place.ip + 12, 4, &b->key) :
				    siphash(p + place.ip + 8, 16, &b->key);
	before = hpcc_opts_sum(p, &place);
	do {
		done &= hpcc_border_option(q, p + opts + at, pos - at, host, now_ns);
		at = hpcc_opt_next(p + opts, len, &pos, q->cfg.kind);
	} while (at >= 0);
	if (!hpcc_check_is_partial(skb, place.tcp))
		hpcc_opts_fix_check(p, &place, before);
	skb_forward_csum(skb);
	done &= at == -ENOENT;
	q->stats.quantized += done;
	q->stats.border_failed += !done;
}

/* Remove carriers from a packet. */
static void hpcc_border_strip(struct hpcc_sched *q, struct sk_buff *skb)
{
	const struct hpcc_stamp_carrier *c;
	struct hpcc_config cfg = q->cfg;
	u32 hint;
	int err;

	cfg.walk = HPCC_WALK_IP_ONLY;
	for (cfg.stamp = cfg.strip; cfg.stamp; cfg.stamp &= ~c->stamp_bit) {
		hint = hpcc_parse_any(skb, &cfg).hint;
		if (hint == HPCC_UNSTAMPED_MALFORMED || hint == HPCC_UNSTAMPED_NO_MEMORY)
			q->stats.border_failed++;
		if (!(hint & HPCC_HINT_FOUND))
			return;
		c = &hpcc_stamp_carriers[FIELD_GET(HPCC_HINT_CARRIER, hint)];
		err = c->ops->strip(skb, hint);
		q->stats.stripped += !err;
		q->stats.border_failed += err && err != -ENOENT;
	}
}

static struct sk_buff *hpcc_border_dequeue(struct Qdisc *sch)
{
	struct sk_buff *skb = hpcc_dequeue(sch);
	struct hpcc_sched *q = qdisc_priv(sch);

	if (skb && q->cfg.strip)
		hpcc_border_strip(q, skb);
	if (skb && q->cfg.quantize)
		hpcc_border_quantize(q, skb);
	return skb;
}

static void *hpcc_border_create(struct net_device *dev)
{
	struct hpcc_border *b = kvzalloc(sizeof(*b), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	if (!b)
		return NULL;
	get_random_bytes(&b->key, sizeof(b->key));
	b->start_ns = get_random_u32() | 1ULL << 40;
	return b;
}

static void hpcc_border_destroy(void *state)
{
	kvfree(state);
}

static const struct hpcc_part_ops hpcc_border_ops = {
	.owner		= THIS_MODULE,
	.part		= HPCC_PART_BORDER,
	.create		= hpcc_border_create,
	.destroy	= hpcc_border_destroy,
	.dequeue	= hpcc_border_dequeue,
};

module_driver(hpcc_border_ops, hpcc_part_register, hpcc_part_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Border of a domain for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
