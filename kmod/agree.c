// SPDX-License-Identifier: GPL-2.0
/*
 * Which connections agreed to telemetry.
 *
 * The handshake is over before congestion control gets a place to keep
 * anything: a listener's child does not exist yet when its SYN arrives, and
 * init() of an active socket runs when the SYN-ACK is already gone. So the
 * hooks leave notes here, and hpcc's init() collects them.
 *
 * The table has a fixed size and forgets the oldest note of a set when it is
 * full: a flood of SYNs can cost a connection its telemetry, never memory.
 * Notes are found by a keyed 64-bit hash of the connection, so that one
 * connection does not agree in the name of another.
 */
#include <linux/ipv6.h>
#include <linux/siphash.h>

#include "hpcc.h"

#define HPCC_AGREE_SETS		1024
#define HPCC_AGREE_WAYS		4
/* A handshake that takes longer has failed: six SYN retransmissions take 127 s. */
#define HPCC_AGREE_LIFETIME	(180 * HZ)

struct hpcc_note {
	u64 key;		/* 0: free */
	unsigned long stamp;	/* jiffies */
	u32 seq;		/* of the peer's SYN */
	enum hpcc_agreement state;
};

/**
 * struct hpcc_note_set - where a connection's note may be
 * @lock: covers @way
 * @way: notes
 */
struct hpcc_note_set {
	spinlock_t lock;	/* covers @way */
	struct hpcc_note way[HPCC_AGREE_WAYS];
};

static struct hpcc_note_set hpcc_notes[HPCC_AGREE_SETS] = {
	[0 ... HPCC_AGREE_SETS - 1] = {
		.lock = __SPIN_LOCK_UNLOCKED(hpcc_notes.lock),
	},
};

static siphash_key_t hpcc_notes_key __read_mostly;

static u64 hpcc_note_key(const struct net *net, const struct hpcc_tuple *t)
{
	struct {
		struct hpcc_tuple tuple;
		u32 pad;
		u64 net;
	} __aligned(SIPHASH_ALIGNMENT) in = {
		.tuple = *t,
		.net = net->net_cookie,
	};

	return siphash(&in, sizeof(in), &hpcc_notes_key) | 1;
}

static struct hpcc_note_set *hpcc_note_set(u64 key)
{
	return &hpcc_notes[key >> 32 & (HPCC_AGREE_SETS - 1)];
}

/* The note of @key, or NULL. */
static struct hpcc_note *hpcc_note_find(struct hpcc_note_set *set, u64 key)
{
	struct hpcc_note *way = set->way;
	int i;

	lockdep_assert_held(&set->lock);
	for (i = 0; i < HPCC_AGREE_WAYS; i++) {
		if (way[i].key == key)
			return time_before(jiffies, way[i].stamp +
						    HPCC_AGREE_LIFETIME) ?
			       &way[i] : NULL;
	}
	return NULL;
}

/* A place for the note of @key: its own, a free one, or the oldest. */
static struct hpcc_note *hpcc_note_place(struct hpcc_note_set *set, u64 key)
{
	struct hpcc_note *way = set->way;
	struct hpcc_note *place = way;
	int i;

	lockdep_assert_held(&set->lock);
	for (i = 0; i < HPCC_AGREE_WAYS; i++) {
		if (way[i].key == key)
			return &way[i];
		if (place->key && (!way[i].key ||
				   time_before(way[i].stamp, place->stamp)))
			place = &way[i];
	}
	return place;
}

/**
 * hpcc_agree_set() - note how far a connection has come
 * @net: its network namespace
 * @tuple: the connection
 * @state: what to note; HPCC_AGREE_NONE removes the note
 *
 * Context: any.
 */
void hpcc_agree_set(const struct net *net, const struct hpcc_tuple *tuple,
		    enum hpcc_agreement state)
{
	u64 key = hpcc_note_key(net, tuple);
	struct hpcc_note_set *set = hpcc_note_set(key);
	struct hpcc_note *note;

	spin_lock_bh(&set->lock);
	note = state == HPCC_AGREE_NONE ? hpcc_note_find(set, key) :
					  hpcc_note_place(set, key);
	if (note) {
		note->key = state == HPCC_AGREE_NONE ? 0 : key;
		note->stamp = jiffies;
		note->state = state;
	}
	spin_unlock_bh(&set->lock);
}

/**
 * hpcc_agree_offer() - note that the peer's SYN carried the option
 * @net: network namespace
 * @tuple: the connection
 * @seq: sequence number of the SYN
 *
 * A copy of a SYN that was answered changes nothing: TCP does not answer each
 * of them, so that nobody might come back to the note.
 *
 * Context: any.
 */
void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple,
		      u32 seq)
{
	u64 key = hpcc_note_key(net, tuple);
	struct hpcc_note_set *set = hpcc_note_set(key);
	struct hpcc_note *note;

	spin_lock_bh(&set->lock);
	note = hpcc_note_find(set, key);
	if (!note || note->state != HPCC_AGREE_DONE || note->seq != seq) {
		note = hpcc_note_place(set, key);
		note->key = key;
		note->stamp = jiffies;
		note->seq = seq;
		note->state = HPCC_AGREE_OFFERED;
	}
	spin_unlock_bh(&set->lock);
}

/**
 * hpcc_agree_advance() - note that the second half of the handshake was seen
 * @net: network namespace
 * @tuple: the connection
 * @from: what the first half must have noted
 *
 * Context: any.
 * Return: whether both halves carry the option. True again where it is asked
 * again: SYN-ACKs are retransmitted.
 */
bool hpcc_agree_advance(const struct net *net, const struct hpcc_tuple *tuple,
			enum hpcc_agreement from)
{
	u64 key = hpcc_note_key(net, tuple);
	struct hpcc_note_set *set = hpcc_note_set(key);
	struct hpcc_note *note;
	bool agreed = false;

	spin_lock_bh(&set->lock);
	note = hpcc_note_find(set, key);
	if (note && (note->state == from || note->state == HPCC_AGREE_DONE)) {
		note->state = HPCC_AGREE_DONE;
		agreed = true;
	}
	spin_unlock_bh(&set->lock);
	return agreed;
}

/**
 * hpcc_agree_take() - ask whether a connection agreed, and remove its note
 * @net: network namespace
 * @tuple: the connection
 *
 * Context: any.
 */
bool hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple)
{
	u64 key = hpcc_note_key(net, tuple);
	struct hpcc_note_set *set = hpcc_note_set(key);
	struct hpcc_note *note;
	bool agreed = false;

	spin_lock_bh(&set->lock);
	note = hpcc_note_find(set, key);
	if (note) {
		agreed = note->state == HPCC_AGREE_DONE;
		note->key = 0;
	}
	spin_unlock_bh(&set->lock);
	return agreed;
}

/**
 * hpcc_tuple_of_sock() - the connection of a socket
 * @sk: full or request socket
 * @tuple: result
 */
void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple)
{
	memset(tuple, 0, sizeof(*tuple));
	hpcc_sock_addrs(sk, &tuple->laddr, &tuple->raddr);
	tuple->lport = htons(sk->sk_num);
	tuple->rport = sk->sk_dport;
}

/**
 * hpcc_agree_init() - prepare the table
 */
void hpcc_agree_init(void)
{
	get_random_bytes(&hpcc_notes_key, sizeof(hpcc_notes_key));
}
