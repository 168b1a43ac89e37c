// SPDX-License-Identifier: GPL-2.0
/*
 * Handshakes: which connections agree to telemetry.
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
#include <net/ipv6.h>
#include <net/tcp.h>
#include <hpcc/compat.h>
#include <hpcc/wire/record.h>

#include "control/cc.h"
#include "flow/flow.h"
#include "hook/handshake.h"
#include "netns/links.h"
#include "netns/policy.h"

/* A SYN that was lost this often may have been lost for its option. */
#define HPCC_SYN_TRIES		2

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
 * @key: keyed hash of connection and IRS; 0: free; read without the lock by hpcc_note_seen()
 * @stamp: low half of jiffies when it was written
 * @prior_hold: 0 for a new connection; for one that leaves hpcc, 1 + the round trips that its next
 *	classic response is to run at least (hpcc_fallback.hold)
 * @other: the option's kind is HPCC_OPT_KIND_OTHER, not HPCC_OPT_KIND_DEFAULT
 * @caps: HPCC_CAP_* of the peer; 0: not known yet
 * @done: both ends carried the option; else only the peer's SYN did
 */
struct hpcc_note {
	u64	key;
	u32	stamp;
	u32	prior_hold : 21;
	u32	other : 1;
	u32	caps : 9;
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

/* Note that a peer's SYN carried the option. A copy of a SYN that was answered changes
 * nothing. LOCAL_IN only.
 */
static void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple,
			     u32 irs, struct hpcc_note said, const struct sock *payer)
{
	struct hpcc_note_ref ref;

	if (!hpcc_note_ref(hpcc_pernet(net), tuple, irs, payer, &ref))
		return;
	spin_lock_bh(ref.lock);
	if (!hpcc_note_find(&ref))
		hpcc_note_write(&ref, said);
	spin_unlock_bh(ref.lock);
}

/* What a peer's SYN carried; no capabilities: it did not carry the option. The same after
 * hpcc_agree_done(): SYN-ACKs are retransmitted.
 */
static struct hpcc_note hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
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

/* Note that SYN and SYN-ACK carry the option. @payer: see hpcc_note_ref(); only the hooks may have
 * one.
 */
static void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple,
			    u32 irs, struct hpcc_note said, const struct sock *payer)
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

/* Take a connection's note away if the checksum of @in is right. @in: the segment that asks for
 * that; NULL: none does. Return: the note; all 0 if there is none, or it stays.
 */
static struct hpcc_note hpcc_agree_take(const struct net *net,
					const struct hpcc_tuple *tuple, u32 irs,
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

static void hpcc_arrival_tuple(const struct hpcc_arrival *in,
			       struct hpcc_tuple *tuple)
{
	memset(tuple, 0, sizeof(*tuple));
	if (in->state->pf == NFPROTO_IPV4) {
		const struct iphdr *iph = ip_hdr(in->skb);

		ipv6_addr_set_v4mapped(iph->daddr, &tuple->laddr);
		ipv6_addr_set_v4mapped(iph->saddr, &tuple->raddr);
	} else {
		tuple->laddr = ipv6_hdr(in->skb)->daddr;
		tuple->raddr = ipv6_hdr(in->skb)->saddr;
	}
	tuple->lport = in->th->dest;
	tuple->rport = in->th->source;
}

/* ---- SYN and SYN-ACK that leave -------------------------------------------- */

#define HPCC_SYN_OPT_PADDED	ALIGN(HPCC_SYN_OPT_LEN, 4)

static u8 hpcc_note_kind(struct hpcc_note said)
{
	return said.other ? HPCC_OPT_KIND_OTHER : HPCC_OPT_KIND_DEFAULT;
}

/* A note of the kind that is configured now. */
static struct hpcc_note hpcc_note_now(const struct hpcc_sysctls *sysctls)
{
	return (struct hpcc_note){
		.other = READ_ONCE(sysctls->option_kind) == HPCC_OPT_KIND_OTHER,
	};
}

/* Whether our option of a SYN or SYN-ACK is there already. */
static bool hpcc_syn_written(const struct hpcc_segment *seg,
			     const struct hpcc_sysctls *sysctls, u8 kind)
{
	return hpcc_syn_opt_find(seg->skb->data + seg->thoff +
				 sizeof(struct tcphdr),
				 seg->thlen - sizeof(struct tcphdr), kind,
				 READ_ONCE(sysctls->option_exid)) >= 0;
}

/* Other experiments may have options of our kind in a SYN. */
static bool hpcc_syn_write(struct hpcc_segment *seg, struct net *net,
			   const struct sock *sk, u8 kind)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_peer_policy policy = hpcc_peer_policy_of(sk);
	u8 *p;

	if (hpcc_segment_presence(seg, HPCC_TCPOPT_EOL) == HPCC_INCOMPATIBLE ||
	    hpcc_segment_room(seg, sk) < HPCC_SYN_OPT_PADDED) {
		hpcc_segment_no_room(seg, HPCC_C_SYN_NO_ROOM);
		return false;
	}
	p = hpcc_segment_open(seg, HPCC_SYN_OPT_PADDED);
	if (!p) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return false;
	}
	hpcc_syn_opt_encode(p, kind, READ_ONCE(sysctls->option_exid),
			    HPCC_CAP_TELEMETRY | HPCC_CAP_QUIET |
			    (READ_ONCE(sysctls->probes) || hpcc_carrier_is_probed(policy.carrier) ?
			     HPCC_CAP_PROBES : 0) |
			    (policy.where ? HPCC_CAP_WINDOW : 0) |
			    (hpcc_links_known(net) ? HPCC_CAP_IOAM | HPCC_CAP_INT |
						     HPCC_CAP_IFA : 0) |
			    (policy.carrier == HPCC_CARRIER_CSIG ? HPCC_CAP_CSIG : 0) |
			    (READ_ONCE(sysctls->n_flows) ? 0 : HPCC_CAP_REPORT));
	memset(p + HPCC_SYN_OPT_LEN, HPCC_TCPOPT_NOP,
	       HPCC_SYN_OPT_PADDED - HPCC_SYN_OPT_LEN);
	hpcc_segment_close(seg, HPCC_SYN_OPT_PADDED);
	hpcc_count(net, HPCC_C_SYN_SENT);
	return true;
}

/**
 * hpcc_syn_out() - offer the option in our SYN
 * @seg: the SYN
 * @sk: its socket
 *
 * A SYN with data (TCP Fast Open) stays as it is.
 *
 * Context: LOCAL_OUT.
 */
void hpcc_syn_out(struct hpcc_segment *seg, struct sock *sk)
{
	struct net *net = sock_net(sk);
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_note said = hpcc_note_now(sysctls);
	struct hpcc_tuple tuple;
	u32 isn = ntohl(hpcc_segment_th(seg)->seq);

	if (hpcc_syn_written(seg, sysctls, hpcc_note_kind(said)))
		return;
	hpcc_tuple_of_sock(sk, &tuple);
	if (hpcc_peek(inet_csk(sk)->icsk_retransmits) < HPCC_SYN_TRIES &&
	    seg->skb->len == seg->thoff + seg->thlen &&
	    hpcc_syn_write(seg, net, sk, hpcc_note_kind(said)))
		hpcc_agree_done(net, &tuple, isn, said, sk);
	else
		hpcc_agree_take(net, &tuple, isn, NULL);
}

/* The congestion control that the route of a SYN-ACK names. On the first pass of a VRF that
 * has a qdisc the route is that of the VRF device, so look the real one up. The hook
 * cannot wait for the second pass: the qdisc may orphan the segment (netem does).
 */
static u32 hpcc_synack_route_cc(const struct hpcc_segment *seg,
				const struct request_sock *req,
				const struct hpcc_tuple *tuple)
{
	const struct inet_request_sock *ireq = inet_rsk(req);
	const struct dst_entry *dst = skb_dst(seg->skb);

	if (likely(!netif_is_l3_master(dst->dev)))
		return dst_metric(dst, RTAX_CC_ALGO);
	return hpcc_route_cc(seg->state->net, seg->state->pf, tuple,
			     ireq->ir_iif, ireq->ir_mark,
			     READ_ONCE(req->rsk_listener));
}

/**
 * hpcc_synack_out() - answer a SYN that carried the option
 * @seg: the SYN-ACK
 * @sk: its request
 *
 * Context: LOCAL_OUT.
 */
void hpcc_synack_out(struct hpcc_segment *seg, struct sock *sk)
{
	u32 irs = ntohl(hpcc_segment_th(seg)->ack_seq) - 1;
	const struct request_sock *req = inet_reqsk(sk);
	struct net *net = sock_net(sk);
	struct hpcc_tuple tuple;
	struct hpcc_note said;

	if (!skb_dst(seg->skb))
		return;
	hpcc_tuple_of_sock(sk, &tuple);
	said = hpcc_agree_offered(net, &tuple, irs);
	if (said.caps &&
	    !hpcc_syn_written(seg, &hpcc_pernet(net)->sysctls, hpcc_note_kind(said)) &&
	    hpcc_child_runs_hpcc(READ_ONCE(req->rsk_listener),
				 hpcc_synack_route_cc(seg, req, &tuple)) &&
	    hpcc_syn_write(seg, net, sk, hpcc_note_kind(said)))
		hpcc_agree_done(net, &tuple, irs, said, NULL);
}

/* ---- SYN and SYN-ACK that arrive ------------------------------------------- */

/* Whether a SYN-ACK answers the SYN of one of our sockets, as TCP will ask. A SYN with
 * data (TCP Fast Open) does not carry the option.
 */
static bool hpcc_synack_ok(const struct hpcc_arrival *in)
{
	struct sock *sk;
	bool ok = false;
	bool put;

	sk = hpcc_arrival_sock(in, &put);
	if (!sk)
		return false;
	if (sk->sk_protocol == IPPROTO_TCP && hpcc_is_ours(sk) &&
	    READ_ONCE(sk->sk_state) == TCP_SYN_SENT)
		ok = ntohl(in->th->ack_seq) == hpcc_peek(tcp_sk(sk)->snd_una) + 1;
	if (put)
		sock_put(sk);
	return ok;
}

/**
 * hpcc_syn_in() - take in a SYN or SYN-ACK
 * @in: the segment
 *
 * A SYN may be anybody's. What it notes is about a connection that begins with its
 * sequence number, and about no other. One that is sent again without the option
 * takes the offer back. A SYN-ACK answers by the kind of our SYN, whatever is configured now.
 *
 * Context: LOCAL_IN.
 */
void hpcc_syn_in(const struct hpcc_arrival *in)
{
	struct net *net = in->state->net;
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_note said = hpcc_note_now(sysctls), offer;
	const struct sock *payer = NULL;
	struct hpcc_tuple tuple;
	u32 irs = ntohl(in->th->seq);
	u16 exid = READ_ONCE(sysctls->option_exid);
	int caps;

	caps = hpcc_syn_opt_find(in->opts, in->optlen, hpcc_note_kind(said), exid);
	if (caps == -ENOENT && in->th->ack) {
		said.other ^= 1;
		caps = hpcc_syn_opt_find(in->opts, in->optlen, hpcc_note_kind(said), exid);
	}
	if (caps != -ENOENT &&
	    (caps < 0 || !(caps & HPCC_CAP_TELEMETRY) ||
	     !hpcc_arrival_intact(in))) {
		hpcc_count(net, HPCC_C_SYN_INVALID);
		return;
	}
	hpcc_arrival_tuple(in, &tuple);
	said.caps = max(caps, 0);
	if (!in->th->ack && caps >= 0) {
		if (!rcu_access_pointer(hpcc_pernet(net)->agreements))
			payer = hpcc_syn_acceptable(in->skb, in->state, in->th, &tuple);
		hpcc_agree_offer(net, &tuple, irs, said, payer);
	} else if (!in->th->ack) {
		hpcc_agree_take(net, &tuple, irs, in);
	} else if (caps >= 0) {
		offer = (struct hpcc_note){};
		if (hpcc_synack_ok(in))
			offer = hpcc_agree_take(net, &tuple, ntohl(in->th->ack_seq) - 1, NULL);
		if (offer.done && offer.other == said.other)
			hpcc_agree_done(net, &tuple, irs, said, NULL);
		else
			hpcc_count(net, HPCC_C_WINDOW_IGNORED);
	}
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
 * hpcc_handshake_init() - when the module is loaded
 */
void __init hpcc_handshake_init(void)
{
	BUILD_BUG_ON(sizeof(struct hpcc_note) != 16);
	get_random_bytes(&hpcc_notes_key, sizeof(hpcc_notes_key));
}
