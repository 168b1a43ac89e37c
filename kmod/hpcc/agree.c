// SPDX-License-Identifier: GPL-2.0
/*
 * Which connections agreed to telemetry.
 *
 * A handshake is over before congestion control has a place to keep anything: a
 * listener's child does not exist when its SYN arrives, and init() of an active
 * socket runs after LOCAL_IN has seen the SYN-ACK. So the hooks leave a note, and
 * hpcc's init() collects it.
 *
 * A note belongs to addresses, ports and the peer's initial sequence number (IRS).
 * The hooks read the IRS from SYN and SYN-ACK; init() and release() compute it from
 * the socket. A note with our own initial sequence number says that our SYN carried
 * the option; the SYN-ACK that acknowledges it takes it. So
 *
 *	- a forged SYN cannot change what a connection has agreed upon: its note is
 *	  another one unless it guesses 32 bits, as TCP itself asks for;
 *	- a later connection between the same ports inherits nothing;
 *	- connections with the same addresses in two VRFs do not meet.
 *
 * Each network namespace has a table of its own, of a fixed size. The first SYN with our
 * option allocates it: one that leaves, or one that arrives for a listener whose child would
 * run hpcc. A full set of the table forgets its oldest note: a flood of SYNs, from
 * some 1,000 within a handshake's time on, may cost connections of this namespace
 * their telemetry, as it costs them TCP options where it makes TCP send SYN
 * cookies; it costs no memory.
 */
#include <linux/siphash.h>
#include <linux/slab.h>
#include <hpcc/compat.h>

#include "agree.h"

/* 4,000 notes, as many as TCP's own queue of SYNs has by default (somaxconn). A set fills a
 * cache line of 64 bytes, where the table takes 64 KB with its locks.
 */
#define HPCC_AGREE_SETS		1000
#define HPCC_AGREE_WAYS		4
#define HPCC_AGREE_LOCKS	16
/* A handshake that takes longer has failed: six SYN retransmissions take 127 s. */
#define HPCC_AGREE_LIFETIME	(180 * HZ)

/**
 * struct hpcc_note - one handshake
 * @key: keyed hash of connection and IRS; 0: free
 * @stamp: low half of jiffies when it was written
 * @past: as for hpcc_agree_done()
 * @done: both ends carried the option; else only the peer's SYN did
 */
struct hpcc_note {
	u64	key;
	u32	stamp;
	u32	past : 31;
	u32	done : 1;
};

/* Each lock has a cache line of its own. */
struct hpcc_agree_lock {
	spinlock_t lock;	/* covers some sets */
} ____cacheline_aligned_in_smp;

/**
 * struct hpcc_agreements - the notes of a network namespace
 * @locks: each covers every HPCC_AGREE_LOCKS-th set
 * @set: notes
 */
struct hpcc_agreements {
	struct hpcc_agree_lock	locks[HPCC_AGREE_LOCKS];
	struct hpcc_note	set[HPCC_AGREE_SETS][HPCC_AGREE_WAYS];
};

static siphash_key_t hpcc_notes_key __read_mostly;

/**
 * struct hpcc_note_ref - where a connection's note may be
 * @lock: of the set
 * @way: the set
 * @key: of the connection
 */
struct hpcc_note_ref {
	spinlock_t		*lock;	/* covers @way */
	struct hpcc_note	*way;
	u64			key;
};

static u64 hpcc_note_key(const struct hpcc_tuple *t, u32 irs)
{
	struct {
		struct hpcc_tuple tuple;
		u32 irs;
	} __aligned(SIPHASH_ALIGNMENT) in = {
		.tuple = *t,
		.irs = irs,
	};

	/* The hash would include padding, whose value is not defined. */
	static_assert(sizeof(in) == 2 * sizeof(struct in6_addr) +
				    2 * sizeof(__be16) + sizeof(u32));
	return siphash(&in, sizeof(in), &hpcc_notes_key) | 1;
}

static struct hpcc_agreements *hpcc_agree_alloc(struct hpcc_net *hn)
{
	struct hpcc_agreements *new, *old;
	u32 i;

	/* Large, so it may fail while memory is fragmented; the next SYN tries. */
	new = kzalloc(sizeof(*new), GFP_ATOMIC | __GFP_NOWARN);
	if (!new)
		return NULL;
	for (i = 0; i < HPCC_AGREE_LOCKS; i++)
		spin_lock_init(&new->locks[i].lock);
	old = unrcu_pointer(cmpxchg(&hn->agreements, NULL, RCU_INITIALIZER(new)));
	if (old)
		kfree(new);
	return old ?: new;
}

/* Where a connection's note may be. False: the namespace has no table. */
static bool hpcc_note_ref(struct hpcc_net *hn, const struct hpcc_tuple *tuple,
			  u32 irs, bool alloc, struct hpcc_note_ref *ref)
{
	struct hpcc_agreements *table = rcu_dereference(hn->agreements);
	u32 set;

	if (!table && alloc)
		table = hpcc_agree_alloc(hn);
	if (!table)
		return false;
	ref->key = hpcc_note_key(tuple, irs);
	set = reciprocal_scale(ref->key >> 32, HPCC_AGREE_SETS);
	ref->way = table->set[set];
	ref->lock = &table->locks[set % HPCC_AGREE_LOCKS].lock;
	return true;
}

static u32 hpcc_note_age(const struct hpcc_note *note)
{
	return (u32)jiffies - note->stamp;
}

/* The note, or NULL. */
static struct hpcc_note *hpcc_note_find(const struct hpcc_note_ref *ref)
{
	u32 i;

	lockdep_assert_held(ref->lock);
	for (i = 0; i < HPCC_AGREE_WAYS; i++) {
		struct hpcc_note *note = &ref->way[i];

		if (note->key == ref->key)
			return hpcc_note_age(note) < HPCC_AGREE_LIFETIME ?
			       note : NULL;
	}
	return NULL;
}

/* Write the note in its own place, a free one, or that of the oldest. */
static void hpcc_note_write(const struct hpcc_note_ref *ref, bool done, u32 past)
{
	/* Of notes of one jiffy, whichever the key says. */
	struct hpcc_note *place = &ref->way[ref->key >> 8 & (HPCC_AGREE_WAYS - 1)];
	u32 i;

	lockdep_assert_held(ref->lock);
	for (i = 0; i < HPCC_AGREE_WAYS; i++) {
		struct hpcc_note *note = &ref->way[i];

		if (note->key == ref->key) {
			place = note;
			break;
		}
		if (place->key && (!note->key ||
				   hpcc_note_age(note) > hpcc_note_age(place)))
			place = note;
	}
	*place = (struct hpcc_note) {
		.key = ref->key,
		.stamp = (u32)jiffies,
		.past = past,
		.done = done,
	};
}

/**
 * hpcc_agree_offer() - note that a peer's SYN carried the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: sequence number of the SYN
 *
 * A copy of a SYN that was answered changes nothing.
 *
 * Context: LOCAL_IN (RCU read side).
 */
void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple,
		      u32 irs)
{
	struct hpcc_note_ref ref;

	if (!hpcc_note_ref(hpcc_pernet(net), tuple, irs, true, &ref))
		return;
	spin_lock_bh(ref.lock);
	if (!hpcc_note_find(&ref))
		hpcc_note_write(&ref, false, 0);
	spin_unlock_bh(ref.lock);
}

/**
 * hpcc_agree_offered() - whether a peer's SYN carried the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: sequence number of the SYN
 *
 * Context: RCU read side.
 * Return: true also after hpcc_agree_done(): SYN-ACKs are retransmitted.
 */
bool hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
			u32 irs)
{
	struct hpcc_note_ref ref;
	bool offered;

	if (!hpcc_note_ref(hpcc_pernet(net), tuple, irs, false, &ref))
		return false;
	spin_lock_bh(ref.lock);
	offered = hpcc_note_find(&ref);
	spin_unlock_bh(ref.lock);
	return offered;
}

/**
 * hpcc_agree_done() - note that SYN and SYN-ACK carry the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: the peer's initial sequence number
 * @past: 0 for a new connection; for one that leaves hpcc, 1 + the round trips that its
 *	next classic response is to run at least (hpcc_fallback.hold)
 * @alloc: make the table if there is none; only the hooks may ask for that
 *
 * Context: any.
 */
void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 past, bool alloc)
{
	struct hpcc_note_ref ref;

	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, alloc, &ref)) {
		spin_lock_bh(ref.lock);
		hpcc_note_write(&ref, true, past);
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
}

/**
 * hpcc_agree_take() - ask whether a connection agreed, and remove its note
 * @net: network namespace
 * @tuple: the connection
 * @irs: the peer's initial sequence number
 * @past: set to the note's, if there is a note; may be NULL
 *
 * Context: any.
 * Return: true if both ends carried the option; then there was a note.
 */
bool hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 *past)
{
	struct hpcc_note_ref ref;
	struct hpcc_note *note;
	bool agreed = false;

	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, false, &ref)) {
		spin_lock_bh(ref.lock);
		note = hpcc_note_find(&ref);
		if (note) {
			agreed = note->done;
			if (past)
				*past = note->past;
			note->key = 0;
		}
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
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
 * hpcc_agree_init() - when the module is loaded
 */
void hpcc_agree_init(void)
{
	BUILD_BUG_ON(sizeof(struct hpcc_note) != 16);
	get_random_bytes(&hpcc_notes_key, sizeof(hpcc_notes_key));
}
