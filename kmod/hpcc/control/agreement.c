// SPDX-License-Identifier: GPL-2.0
/*
 * Notes on handshakes: which connections agreed to telemetry.
 *
 * A handshake is over before congestion control has a place to keep anything: a
 * listener's child does not exist when its SYN arrives, and init() of an active
 * socket runs after LOCAL_IN has seen the SYN-ACK. So the hooks (handshake.c) leave a note, and
 * hpcc's init() collects it. release() leaves one as well, for setsockopt().
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
#include <net/ipv6.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "control/agreement.h"
#include "flow/flow.h"
#include "netns/net.h"

/* 4,000 notes, as many as TCP's own queue of SYNs has by default (somaxconn). A set fills a
 * cache line of 64 bytes, where the table takes 64 KB with its locks.
 */
#define HPCC_AGREE_SETS		1000
#define HPCC_AGREE_WAYS		4
#define HPCC_AGREE_LOCKS	16
/* A handshake that takes longer has failed: six SYN retransmissions take 127 s. */
#define HPCC_AGREE_LIFETIME	(180 * HZ)

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

/* @payer: socket whose cgroup is charged. A tenant may have many namespaces, each with a table. */
static struct hpcc_agreements *hpcc_agree_alloc(struct hpcc_net *hn, const struct sock *payer)
{
	struct hpcc_agreements *new, *old;
	u32 i;

	/* Large, so it may fail while memory is fragmented; the next SYN tries. */
	new = hpcc_flow_zalloc(payer, sizeof(*new));
	if (!new)
		return NULL;
	for (i = 0; i < HPCC_AGREE_LOCKS; i++)
		spin_lock_init(&new->locks[i].lock);
	old = unrcu_pointer(cmpxchg(&hn->agreements, NULL, RCU_INITIALIZER(new)));
	if (old)
		kfree(new);
	return old ?: new;
}

/* Where a connection's note may be. @payer: makes the table if there is none. False: the namespace
 * has no table.
 */
static bool hpcc_note_ref(struct hpcc_net *hn, const struct hpcc_tuple *tuple, u32 irs,
			  const struct sock *payer, struct hpcc_note_ref *ref)
{
	struct hpcc_agreements *table = rcu_dereference(hn->agreements);
	u32 set;

	if (!table && payer)
		table = hpcc_agree_alloc(hn, payer);
	if (!table)
		return false;
	ref->key = hpcc_note_key(tuple, irs);
	set = reciprocal_scale(ref->key >> 32, HPCC_AGREE_SETS);
	ref->way = table->set[set];
	ref->lock = &table->locks[set % HPCC_AGREE_LOCKS].lock;
	return true;
}

/* Whether there seems to be a note. Most SYNs do not carry the option, and have none: a flood of
 * them takes no lock, and writes to no cache line that CPUs share. The caller that gets true looks
 * again under the lock.
 */
static bool hpcc_note_seen(const struct hpcc_note_ref *ref)
{
	u32 i;

	for (i = 0; i < HPCC_AGREE_WAYS; i++)
		if (READ_ONCE(ref->way[i].key) == ref->key)
			return true;
	return false;
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

/* Write a note, of which all but key and stamp are given, in its own place, a free one, or that of
 * the oldest.
 */
static void hpcc_note_write(const struct hpcc_note_ref *ref, struct hpcc_note said)
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
	WRITE_ONCE(place->key, ref->key);
	place->stamp = (u32)jiffies;
	place->prior_hold = said.prior_hold;
	place->other = said.other;
	place->caps = said.caps;
	place->done = said.done;
}

/**
 * hpcc_agree_offer() - note that a peer's SYN carried the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 * @said: the note
 * @payer: socket whose cgroup pays for the table
 *
 * A copy of a SYN that was answered changes nothing.
 *
 * Context: LOCAL_IN.
 */
void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
		      struct hpcc_note said, const struct sock *payer)
{
	struct hpcc_note_ref ref;

	if (!hpcc_note_ref(hpcc_pernet(net), tuple, irs, payer, &ref))
		return;
	spin_lock_bh(ref.lock);
	if (!hpcc_note_find(&ref))
		hpcc_note_write(&ref, said);
	spin_unlock_bh(ref.lock);
}

/**
 * hpcc_agree_offered() - what a peer's SYN carried
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 *
 * Return: the note, without capabilities if the SYN did not carry the option; the same after
 * hpcc_agree_done(), as SYN-ACKs are retransmitted.
 */
struct hpcc_note hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
				    u32 irs)
{
	struct hpcc_note said = {};
	struct hpcc_note_ref ref;
	struct hpcc_note *note;

	if (!hpcc_note_ref(hpcc_pernet(net), tuple, irs, NULL, &ref) ||
	    !hpcc_note_seen(&ref))
		return said;
	spin_lock_bh(ref.lock);
	note = hpcc_note_find(&ref);
	if (note)
		said = *note;
	spin_unlock_bh(ref.lock);
	return said;
}

/**
 * hpcc_agree_done() - note that SYN and SYN-ACK carry the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 * @said: the note
 * @payer: socket whose cgroup pays for the table if there is none; only the hooks may have one
 */
void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
		     struct hpcc_note said, const struct sock *payer)
{
	struct hpcc_note_ref ref;

	said.done = true;
	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, payer, &ref)) {
		spin_lock_bh(ref.lock);
		hpcc_note_write(&ref, said);
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
}

/**
 * hpcc_agree_take() - take a connection's note away, if the checksum of a segment is right
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 * @in: the segment that asks for that; NULL: none does
 *
 * Return: the note; all 0 if there is none, or it stays.
 */
struct hpcc_note hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
				 const struct hpcc_arrival *in)
{
	struct hpcc_note said = {};
	struct hpcc_note_ref ref;
	struct hpcc_note *note;

	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, NULL, &ref) &&
	    hpcc_note_seen(&ref) && (!in || hpcc_arrival_intact(in))) {
		spin_lock_bh(ref.lock);
		note = hpcc_note_find(&ref);
		if (note) {
			said = *note;
			WRITE_ONCE(note->key, 0);
		}
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
	return said;
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

/* ---- Sockets ---------------------------------------------------------------- */

/* The peer's initial sequence number. TCP does not keep it, but counts all that it has
 * received since, a FIN included.
 */
static u32 hpcc_irs(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->rcv_nxt - 1 - (u32)tp->bytes_received;
}

/**
 * hpcc_agreed() - whether a connection agreed; forgets it
 * @sk: connected socket, under its lock
 * @prior_hold: set to 0 for a new connection; for one that left hpcc before, to what
 *	hpcc_agreement_save() was given
 * @kind: set to the option's kind
 *
 * Return: HPCC_CAP_* of the peer if both ends carried the option, else 0.
 */
u16 hpcc_agreed(const struct sock *sk, u32 *prior_hold, u8 *kind)
{
	struct hpcc_tuple tuple;
	struct hpcc_note note;

	hpcc_tuple_of_sock(sk, &tuple);
	note = hpcc_agree_take(sock_net(sk), &tuple, hpcc_irs(sk), NULL);
	*prior_hold = note.prior_hold;
	*kind = hpcc_note_kind(note);
	return note.done ? note.caps : 0;
}

/**
 * hpcc_agreement_save() - remember that a connection that leaves hpcc agreed
 * @sk: connected socket, under its lock
 * @prior_hold: 1 + the round trips that its next classic response is to run at least
 *	(hpcc_fallback.hold); 0: it never ran
 * @caps: HPCC_CAP_* of the peer
 * @kind: the option's kind
 */
void hpcc_agreement_save(const struct sock *sk, u32 prior_hold, u16 caps, u8 kind)
{
	struct hpcc_note said = {
		.prior_hold = prior_hold,
		.other = kind == HPCC_OPT_KIND_OTHER,
		.caps = caps,
	};
	struct hpcc_tuple tuple;

	hpcc_tuple_of_sock(sk, &tuple);
	hpcc_agree_done(sock_net(sk), &tuple, hpcc_irs(sk), said, NULL);
}

/**
 * hpcc_agreement_init() - when the module is loaded
 */
void __init hpcc_agreement_init(void)
{
	BUILD_BUG_ON(sizeof(struct hpcc_note) != 16);
	get_random_bytes(&hpcc_notes_key, sizeof(hpcc_notes_key));
}
