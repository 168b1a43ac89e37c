// SPDX-License-Identifier: GPL-2.0
/*
 * Notes on handshakes: the connections whose ends agreed to telemetry.
 *
 * A handshake ends before congestion control can store any state. A listener's child does not exist
 * when its SYN arrives, and init() of an active socket runs after LOCAL_IN has processed the
 * SYN-ACK. So the hooks (syn.c) write a note, and init() takes it. release() also writes a note,
 * for a socket that setsockopt() changes to hpcc again.
 *
 * The key of a note has the addresses, the ports and the peer's initial sequence number (IRS). So a
 * forged SYN must guess 32 bits, and a later connection between the same ports, or one with equal
 * addresses in another VRF, has another key. The key of our own SYN's note has our initial sequence
 * number. When the SYN-ACK arrives that acknowledges this number, LOCAL_IN takes the note.
 *
 * The first SYN with our option allocates a namespace's table of fixed size: an outgoing SYN, or a
 * SYN for a listener whose child would run hpcc. During a flood of about 1,000 SYNs or more per
 * handshake time, new notes replace old ones, and new connections may not get telemetry.
 */
#include <linux/export.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <hpcc/compat.h>

#include "control/agreement.h"

/* About the default length of TCP's SYN queue. A set fills a cache line, and the table 64 KB. */
#define HPCC_AGREE_SETS		1000
#define HPCC_AGREE_WAYS		4
#define HPCC_AGREE_LOCKS	16
/* Handshakes that take longer have failed: six SYN retransmissions take 127 s. */
#define HPCC_AGREE_LIFETIME	(180 * HZ)

struct hpcc_agree_lock {
	spinlock_t lock;	/* covers every HPCC_AGREE_LOCKS-th set */
} ____cacheline_aligned_in_smp;

struct hpcc_agreements {
	struct rcu_head		rcu;
	struct hpcc_agree_lock	locks[HPCC_AGREE_LOCKS];
	struct hpcc_note	set[HPCC_AGREE_SETS][HPCC_AGREE_WAYS];
};

static siphash_key_t hpcc_notes_key __read_mostly;

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

	/* The hash would include padding, which has undefined content. */
	static_assert(sizeof(in) == 2 * sizeof(struct in6_addr) + 2 * sizeof(__be16) + sizeof(u32));
	return siphash(&in, sizeof(in), &hpcc_notes_key) | 1;
}

/* @payer: socket whose cgroup is charged. A tenant may have many namespaces with one table each. */
static struct hpcc_agreements *hpcc_agree_alloc(struct hpcc_net *hn, const struct sock *payer)
{
	struct hpcc_agreements *new;
	u32 i;

	/* This large allocation may fail if memory is fragmented; the next SYN tries again. */
	new = hpcc_flow_zalloc(payer, sizeof(*new));
	if (!new)
		return NULL;
	for (i = 0; i < HPCC_AGREE_LOCKS; i++)
		spin_lock_init(&new->locks[i].lock);
	return hpcc_publish_once(&hn->agreements, new);
}

/* Find the set of a connection's note. @payer: socket whose cgroup is charged for a new table;
 * NULL: allocate no table.
 */
static bool __cold hpcc_note_ref(struct hpcc_net *hn, const struct hpcc_tuple *tuple, u32 irs,
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

/* The place of the connection's note, or NULL. Without the lock, because a flood of SYNs must not
 * take locks, the result may be outdated: the caller searches again under the lock.
 */
static struct hpcc_note *hpcc_note_place(const struct hpcc_note_ref *ref)
{
	u32 i;

	for (i = 0; i < HPCC_AGREE_WAYS; i++)
		if (READ_ONCE(ref->way[i].key) == ref->key)
			return &ref->way[i];
	return NULL;
}

static u32 hpcc_note_age(const struct hpcc_note *note)
{
	return (u32)jiffies - note->stamp;
}

static struct hpcc_note *hpcc_note_find(const struct hpcc_note_ref *ref)
{
	struct hpcc_note *note = hpcc_note_place(ref);

	lockdep_assert_held(ref->lock);
	return note && hpcc_note_age(note) < HPCC_AGREE_LIFETIME ? note : NULL;
}

/* Replace a note with the same key, a free note, or the oldest note. */
static void __cold hpcc_note_write(const struct hpcc_note_ref *ref, struct hpcc_note note)
{
	/* Among notes of the same jiffy, bits of the key select one. */
	struct hpcc_note *place = &ref->way[ref->key >> 8 & (HPCC_AGREE_WAYS - 1)];
	u32 i;

	lockdep_assert_held(ref->lock);
	for (i = 0; i < HPCC_AGREE_WAYS; i++) {
		struct hpcc_note *old = &ref->way[i];

		if (old->key == ref->key) {
			place = old;
			break;
		}
		if (place->key && (!old->key || hpcc_note_age(old) > hpcc_note_age(place)))
			place = old;
	}
	WRITE_ONCE(place->key, ref->key);
	place->stamp = (u32)jiffies;
	place->prior_hold = note.prior_hold;
	place->other = note.other;
	place->caps = note.caps;
	place->done = note.done;
}

/**
 * hpcc_agree_write() - record that a handshake carries the option
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 * @note: the note. If only the SYN carried the option (@done is 0), an existing note stays: the SYN
 *	is a copy
 * @payer: socket whose cgroup is charged if the table must be allocated; NULL except in the hooks
 */
void __cold hpcc_agree_write(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
			     struct hpcc_note note, const struct sock *payer)
{
	struct hpcc_note_ref ref;

	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, payer, &ref)) {
		spin_lock_bh(ref.lock);
		if (note.done || !hpcc_note_find(&ref))
			hpcc_note_write(&ref, note);
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
}

/**
 * hpcc_agree_read() - return a connection's note
 * @net: network namespace
 * @tuple: the connection
 * @irs: initial sequence number of the peer
 * @in: segment that needs the note, or NULL; if its checksum is wrong, it gets no note
 * @take: remove the note. The note of a peer's SYN stays for retransmissions of the SYN-ACK
 * Return: the note; all 0 if there is none.
 */
struct hpcc_note __cold hpcc_agree_read(const struct net *net, const struct hpcc_tuple *tuple,
					u32 irs, const struct hpcc_arrival *in, bool take)
{
	struct hpcc_note note = {};
	struct hpcc_note_ref ref;
	struct hpcc_note *found;

	rcu_read_lock();
	if (hpcc_note_ref(hpcc_pernet(net), tuple, irs, NULL, &ref) &&
	    hpcc_note_place(&ref) && (!in || hpcc_arrival_intact(in))) {
		spin_lock_bh(ref.lock);
		found = hpcc_note_find(&ref);
		if (found)
			note = *found;
		if (found && take)
			WRITE_ONCE(found->key, 0);
		spin_unlock_bh(ref.lock);
	}
	rcu_read_unlock();
	return note;
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
EXPORT_SYMBOL_GPL(hpcc_tuple_of_sock);

/* The peer's IRS: bytes_received counts all bytes after the SYN, including a FIN. */
static u32 hpcc_irs(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->rcv_nxt - 1 - (u32)tp->bytes_received;
}

/* Take a connection's note. Context: socket lock. Return: the note; its capabilities are 0 unless
 * both ends carried the option, and its prior_hold is 0 if the connection is new.
 */
struct hpcc_note __cold hpcc_agreed(const struct sock *sk)
{
	struct hpcc_tuple tuple;
	struct hpcc_note note;

	hpcc_tuple_of_sock(sk, &tuple);
	note = hpcc_agree_read(sock_net(sk), &tuple, hpcc_irs(sk), NULL, true);
	if (!note.done)
		note.caps = 0;
	return note;
}

/* Save the agreement of a connection that leaves hpcc, for hpcc_agreed(). @sk: connected socket,
 * under its lock.
 */
void __cold hpcc_agreement_save(const struct sock *sk, struct hpcc_note note)
{
	struct hpcc_tuple tuple;

	note.done = true;
	hpcc_tuple_of_sock(sk, &tuple);
	hpcc_agree_write(sock_net(sk), &tuple, hpcc_irs(sk), note, NULL);
}

/* Choose the hash key when the module is loaded. */
void __init hpcc_agreement_init(void)
{
	BUILD_BUG_ON(sizeof(struct hpcc_note) != 16);
	/* hpcc_note.prior_hold has 19 bits. */
	BUILD_BUG_ON(HPCC_HOLD_MAX + 1 >= BIT(19));
	get_random_bytes(&hpcc_notes_key, sizeof(hpcc_notes_key));
}

/* Free the table of a namespace that exits. Kernel sockets may still read it. */
void __cold hpcc_agreement_exit(struct hpcc_net *hn)
{
	struct hpcc_agreements *table = rcu_replace_pointer(hn->agreements, NULL, true);

	if (table)
		kfree_rcu(table, rcu);
}
