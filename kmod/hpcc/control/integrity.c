// SPDX-License-Identifier: GPL-2.0
/*
 * Module hpcc_integrity: signed feedback. protocol.rst has the format, and the rules for keys.
 *
 * The order of tags is that of the ACK number as a 64-bit position, then TSval, then a count. A
 * position never wraps, so what arrived at an earlier position never counts again. What can end the
 * wait for newer feedback:
 *
 *	TSval of the peer jumps back	the next data that the peer acknowledges
 *	16 tags with the same numbers	the next millisecond, or as above without timestamps
 *	TSval grows by 2^31		as above: at one position, TSval never wraps
 *	keys differ			a request that changes the table: see hpcc_follow_keys()
 *
 * A socket that comes back by setsockopt() has lost the order, so it waits for new data as well.
 */
#include <linux/device/driver.h>
#include <linux/hpcc_netlink.h>
#include <linux/slab.h>
#include <hpcc/compat.h>

#include "common/peek.h"
#include "control/integrity_ops.h"
#include "netns/keys.h"
#include "netns/net.h"

/* Wrong tags of a flow within a second, after which its tags are no longer verified until this
 * second is over.
 */
#define HPCC_WRONG_TAGS		16

/* State of a flow. */
struct hpcc_integrity {
	spinlock_t lock;		/* covers @keys_id to @wrong_at */
	u32 keys_id;			/* number of the table from which the keys were derived */
	siphash_key_t send;
	siphash_key_t accept[2];
	bool two;			/* accept[1] is valid */
	bool keyed;			/* the keys are valid */
	bool begun;			/* @last is valid */
	struct hpcc_moment last;	/* newest feedback that was accepted */
	u32 first;			/* TSval of the oldest with the position of @last */
	struct hpcc_moment sent;	/* last feedback that was sent */
	u32 wrong;			/* number of wrong tags since @wrong_at */
	u32 wrong_at;			/* when the first one arrived, jiffies */
	u32 isn;			/* our initial sequence number; constant, as what follows */
	u32 irs;			/* initial sequence number of the peer */
	bool active;			/* we sent the SYN */
};

static const struct hpcc_table *hpcc_keys(const struct sock *sk)
{
	return rcu_dereference(hpcc_pernet_rcu(sock_net(sk))->tables[HPCC_TABLE_KEYS]);
}

/* The entry with the longest prefix of the peer of a full or request socket, or NULL. */
static const struct hpcc_key *hpcc_key_of(const struct hpcc_table *table, const struct sock *sk)
{
	struct in6_addr laddr, raddr;

	hpcc_sock_addrs(sk, &laddr, &raddr);
	return hpcc_table_match(table, sizeof(struct hpcc_key), &raddr);
}

static u16 hpcc_integrity_caps(const struct sock *sk)
{
	const struct hpcc_key *key = hpcc_key_of(hpcc_keys(sk), sk);

	return key ? HPCC_CAP_SIGNED | (key->required ? HPCC_KEY_REQUIRED : 0) : 0;
}

/* Derive the keys again if the table has changed. If no entry matches any more, the flow keeps its
 * keys: the peer still expects signed feedback.
 */
static void hpcc_follow_keys(struct hpcc_integrity *own, const struct sock *sk)
{
	const u32 out[] = { own->isn, own->irs }, in[] = { own->irs, own->isn };
	const struct hpcc_table *table = hpcc_keys(sk);
	const struct hpcc_key *key;

	if (likely(!table || table->id == own->keys_id))
		return;
	own->keys_id = table->id;
	own->wrong = 0;
	key = hpcc_key_of(table, sk);
	if (!key)
		return;
	own->send = hpcc_sign_key(&key->send, out, own->active);
	own->accept[0] = hpcc_sign_key(&key->send, in, !own->active);
	own->keyed = true;
	own->two = key->two;
	if (key->two)
		own->accept[1] = hpcc_sign_key(&key->accept, in, !own->active);
}

/* Bytes that the peer has acknowledged, without the SYN, from a sum of TCP that may include it. */
static u64 hpcc_acked(const struct hpcc_integrity *own, const struct tcp_sock *tp)
{
	return hpcc_peek(tp->bytes_acked) - own->active;
}

static struct hpcc_integrity *hpcc_integrity_begin(const struct sock *sk, bool active, bool fresh)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hpcc_integrity *own;

	if (!hpcc_integrity_caps(sk) || !try_module_get(THIS_MODULE))
		return NULL;
	own = hpcc_flow_zalloc(sk, sizeof(*own));
	if (!own)
		goto put;
	spin_lock_init(&own->lock);
	own->active = active;
	own->isn = tp->snd_una - (u32)hpcc_acked(own, tp) - 1;
	own->irs = tp->rcv_nxt - (u32)tp->bytes_received - 1;
	own->begun = !fresh;
	/* Of a connection that ran hpcc before: feedback of then must not count again, so no TSval
	 * of this position is newer.
	 */
	own->last = (struct hpcc_moment){
		.pos = hpcc_acked(own, tp),
		.tsval = S32_MAX,
		.count = HPCC_TAG_COUNTS - 1,
	};
	own->sent.pos = U64_MAX;
	hpcc_follow_keys(own, sk);
	/* The table may have lost the entry since hpcc_integrity_caps(). */
	if (own->keyed)
		return own;
	kfree(own);
put:
	module_put(THIS_MODULE);
	return NULL;
}

static bool hpcc_integrity_moment(struct hpcc_flow *flow, const struct hpcc_segment *seg,
				  struct hpcc_moment *m)
{
	const struct tcphdr *th = hpcc_segment_th(seg);
	struct hpcc_integrity *own = flow->integrity;
	u64 received = hpcc_peek(tcp_sk(flow->sk)->bytes_received);

	m->pos = received + (s32)(ntohl(th->ack_seq) - own->irs - 1 - (u32)received);
	m->tsval = hpcc_tsval((const u8 *)(th + 1), seg->thlen - sizeof(*th));
	m->count = 0;
	spin_lock_bh(&own->lock);
	if (m->pos == own->sent.pos && m->tsval == own->sent.tsval)
		m->count = own->sent.count + 1;
	spin_unlock_bh(&own->lock);
	return m->count < HPCC_TAG_COUNTS;
}

static void hpcc_integrity_sign(struct hpcc_flow *flow, const struct hpcc_moment *m, u8 *p, u32 len)
{
	struct hpcc_integrity *own = flow->integrity;
	struct hpcc_signed s;

	hpcc_signed_begin(&s, m);
	spin_lock_bh(&own->lock);
	hpcc_follow_keys(own, flow->sk);
	hpcc_signed_write(&s, p, len, m->count, &own->send);
	own->sent = *m;
	spin_unlock_bh(&own->lock);
}

/* The order of feedback with a good tag: positive if it is newer than all before, 0 for a copy. At
 * one position all TSval are at most 2^31 - 1 after the first one, so none repeats after a wrap.
 */
static int hpcc_integrity_order(struct hpcc_integrity *own, const struct hpcc_moment *m)
{
	bool same = own->begun && m->pos == own->last.pos;
	int order = own->begun ? hpcc_moment_cmp(m, &own->last) : 1;

	lockdep_assert_held(&own->lock);
	if (same && order > 0 && (s32)(m->tsval - own->first) < 0)
		return -1;
	if (order <= 0)
		return order;
	own->begun = true;
	own->last = *m;
	if (!same)
		own->first = m->tsval;
	return order;
}

/* Whether a tag is right. A forger's tries are limited, so it may not be verified. */
static bool hpcc_integrity_verify(struct hpcc_integrity *own, const struct hpcc_signed *s, u32 want)
{
	lockdep_assert_held(&own->lock);
	if (own->wrong && tcp_jiffies32 - own->wrong_at >= HZ)
		own->wrong = 0;
	if (own->wrong == HPCC_WRONG_TAGS)
		return false;
	if (hpcc_signed_tag(s, &own->accept[0]) == want ||
	    (own->two && hpcc_signed_tag(s, &own->accept[1]) == want))
		return true;
	if (!own->wrong++)
		own->wrong_at = tcp_jiffies32;
	return false;
}

/* Judge all feedback of a segment, from @at on. Return: 0 if it counts; or bits of hpcc_seen. */
static u32 hpcc_integrity_judge(struct hpcc_flow *flow, const struct hpcc_arrival *in, u32 at)
{
	struct hpcc_integrity *own = flow->integrity;
	u64 acked = hpcc_acked(own, tcp_sk(flow->sk));
	struct hpcc_moment m = {
		.pos = acked + (s32)(ntohl(in->th->ack_seq) - own->isn - 1 - (u32)acked),
		.tsval = hpcc_tsval(in->opts, in->optlen),
	};
	struct hpcc_signed s;
	int tag, order = 0;
	bool good = false;

	hpcc_signed_begin(&s, &m);
	tag = hpcc_signed_collect(&s, in->opts, in->optlen, at, flow->kind, &m.count);
	if (tag >= 0) {
		spin_lock_bh(&own->lock);
		hpcc_follow_keys(own, flow->sk);
		good = hpcc_integrity_verify(own, &s, get_unaligned_be32(in->opts + tag));
		if (good)
			order = hpcc_integrity_order(own, &m);
		spin_unlock_bh(&own->lock);
	}
	WRITE_ONCE(flow->untrusted_why, good ? HPCC_WHY_NONE : HPCC_WHY_UNTRUSTED);
	if (good && order >= 0)
		return order ? 0 : BIT(HPCC_SEEN_REFUSED);
	hpcc_untrusted(flow, in->state->net, tag < 0 ? HPCC_IGNORED_UNSIGNED :
		       good ? HPCC_IGNORED_REPLAYED : HPCC_IGNORED_WRONG_TAG);
	return BIT(HPCC_SEEN_REFUSED) | BIT(HPCC_SEEN_KEEP);
}

static void hpcc_integrity_free(struct hpcc_integrity *own)
{
	kfree_sensitive(own);
}

static int hpcc_integrity_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, u32 at, u32 pos,
			     struct hpcc_opt *opt, u32 seen)
{
	const u8 *p = in->opts + at;
	u32 len = pos - at;
	bool tagged = hpcc_opt_has_tag(len);

	if (!hpcc_opt_is_feedback(p, len) ||
	    hpcc_opt_decode(p, tagged ? len - HPCC_TAG_LEN : len, opt))
		return -EINVAL;
	if (seen & BIT(HPCC_SEEN_UNVERIFIED)) {
		seen &= ~BIT(HPCC_SEEN_UNVERIFIED);
		seen |= hpcc_integrity_judge(flow, in, at);
		if (!(seen & BIT(HPCC_SEEN_REFUSED)))
			seen &= ~HPCC_UNVERIFIED;
	}
	if (seen & BIT(HPCC_SEEN_REFUSED))
		return seen;
	if (seen & BIT(hpcc_opt_way(opt->type)))
		return -EINVAL;
	if (tagged)
		opt->flags = 0;
	return seen | BIT(HPCC_SEEN_USE);
}

static const struct hpcc_integrity_ops hpcc_integrity_functions = {
	.owner	= THIS_MODULE,
	.caps	= hpcc_integrity_caps,
	.begin	= hpcc_integrity_begin,
	.moment	= hpcc_integrity_moment,
	.sign	= hpcc_integrity_sign,
	.in	= hpcc_integrity_in,
	.free	= hpcc_integrity_free,
};

/* Last step of the module's init. Takes no lock: see common/setup.c. */
static int hpcc_integrity_register(const struct hpcc_integrity_ops *ops)
{
	rcu_assign_pointer(hpcc_integrity, ops);
	set_bit(HPCC_MODULE_INTEGRITY, &hpcc_modules_loaded);
	return 0;
}

/* The module's exit: no flow uses it. */
static void hpcc_integrity_unregister(const struct hpcc_integrity_ops *ops)
{
	clear_bit(HPCC_MODULE_INTEGRITY, &hpcc_modules_loaded);
	rcu_assign_pointer(hpcc_integrity, NULL);
	synchronize_rcu();
}

module_driver(hpcc_integrity_functions, hpcc_integrity_register, hpcc_integrity_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("HPCC++: signed feedback");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
