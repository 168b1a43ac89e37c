/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether the telemetry of a connection can be true: what a link says next to
 * what it said before, and next to the sender's own clock.
 *
 * Links are believed, and a receiver that rewrites their records can slow its
 * sender down to W_min. Three things no link does, of whatever kind:
 *
 *   idle		have a queue and not send. A queue of q takes q to send, so
 *			in d(ts) a link with one sends min(q, d(ts)) at least.
 *   unseen		hold packets without their being late. What waits for q is
 *			later than what does not.
 *   too fast		send more than B. What tx has beyond that waits behind the
 *			stamp, in a ring: "ahead", and is late as well.
 *
 * Per round trip, of the link that W follows:
 *
 *	idle:		sum d(tx) < sum 7/8 min(d(ts), q)
 *			and min q > 2 (max RTT - min RTT) + T/8
 *	too fast:	min ahead > 2 max RTT
 *	unseen:		min (q + ahead) > 2 max RTT
 *
 * The RTTs are those of this round and of the next one, in which what waits
 * behind a packet arrives. Idle takes two witnesses, since a link that is slower
 * than its B, or paused, has a queue that shows. Unseen compares with the
 * whole RTT, as there may have been a queue for as long as the connection
 * exists. In a port of several queues it may wait in another one: so unseen
 * weighs a quarter of the others.
 *
 * A receiver that tells of a link that is full, with a queue within the RTT,
 * tells nothing that can be told from the truth.
 *
 * No skb, no socket, no clock, no lock. Time is in the caller's unit; sums are
 * below 2^60 units, as ts is.
 */
#ifndef _HPCC_TRUST_H
#define _HPCC_TRUST_H

#include <linux/minmax.h>
#include <linux/types.h>
#include <hpcc/algo.h>

/* How much a round adds to the score; one that can be true takes 1 off. */
#define HPCC_TRUST_PROOF	4
#define HPCC_TRUST_HINT		1

/* The score at which telemetry is not believed any more: 8 round trips that
 * prove it wrong. One alone may be what a late timer or a route that changed
 * makes of the truth; those that do not come in a row never add up.
 */
#define HPCC_TRUST_LOST		32

/* Round trips in a row that can be true until it is believed again, doubled each
 * time it was lost: the time without is then soon more than that with lies.
 */
#define HPCC_TRUST_BACK		64
#define HPCC_TRUST_DOUBLINGS	10

/**
 * struct hpcc_trust_round - what was said in a round trip
 * @idle: sum of 7/8 min(d(ts), q) - d(tx): what a link with such queues did not
 *	send
 * @q_min: shortest queue; U64_MAX: nothing was said
 * @ahead_min: least of what was sent too fast
 * @wait_min: least sum of both
 * @rtt_max: largest RTT; 0: none was measured
 */
struct hpcc_trust_round {
	s64	idle;
	u64	q_min;
	u64	ahead_min;
	u64	wait_min;
	u64	rtt_max;
};

/**
 * struct hpcc_trust - a connection's trust in its telemetry
 * @ts: of the last record
 * @tx: of the last record
 * @qlen: of the last record
 * @ahead: what was sent beyond 9/8 of B, and has not left since at that rate. A
 *	clock or an overhead that is not quite right is no lie.
 * @now: this round
 * @before: the one before, which is judged when this one ends
 * @end_seq: the round ends when this is acknowledged
 * @good: rounds in a row that can be true, while @lost
 * @score: how much spoke against it
 * @losses: how often trust was lost
 * @at: the link that is watched, hop - 1
 * @tag: of the last record
 * @valid: there is a last record
 * @lost: telemetry is not believed
 */
struct hpcc_trust {
	u64	ts;
	u64	tx;
	u64	qlen;
	u64	ahead;
	struct hpcc_trust_round now;
	struct hpcc_trust_round before;
	u32	end_seq;
	u32	good;
	u8	score;
	u8	losses;
	u8	at;
	u8	tag;
	bool	valid;
	bool	lost;
};

static inline void hpcc_trust_round_init(struct hpcc_trust_round *r)
{
	*r = (struct hpcc_trust_round) {
		.q_min = ~0ULL,
		.ahead_min = ~0ULL,
		.wait_min = ~0ULL,
	};
}

/**
 * hpcc_trust_forget() - begin anew with what is compared; the score stays
 * @t: connection
 */
static inline void hpcc_trust_forget(struct hpcc_trust *t)
{
	t->valid = false;
	t->ahead = 0;
	hpcc_trust_round_init(&t->now);
	hpcc_trust_round_init(&t->before);
}

/**
 * hpcc_trust_init() - trust of a new connection
 * @t: result
 * @snd_nxt: next byte to be sent, modulo 2^32
 */
static inline void hpcc_trust_init(struct hpcc_trust *t, u32 snd_nxt)
{
	*t = (struct hpcc_trust) { .end_seq = snd_nxt };
	hpcc_trust_forget(t);
}

/**
 * hpcc_trust_restart() - look again, after a time without
 * @t: connection
 * @snd_nxt: next byte to be sent, modulo 2^32
 */
static inline void hpcc_trust_restart(struct hpcc_trust *t, u32 snd_nxt)
{
	t->end_seq = snd_nxt;
	hpcc_trust_forget(t);
}

/* Take in what a link did since the record before. */
static inline void hpcc_trust_interval(struct hpcc_trust *t, u64 dts, u64 dtx)
{
	u64 owed = min(dts, t->qlen);
	u64 may = dts + (dts >> 3);

	t->ahead = t->ahead + dtx > may ? t->ahead + dtx - may : 0;
	t->now.idle += (s64)(owed - (owed >> 3) - dtx);
}

/**
 * hpcc_trust_ack() - take in what an ACK tells
 * @t: connection
 * @a: its algorithm, which has taken in the ACK's records
 * @rtt: RTT that it measured, time units; 0: none
 */
static inline void hpcc_trust_ack(struct hpcc_trust *t,
				  const struct hpcc_algo *a, u64 rtt)
{
	const struct hpcc_link *l = &a->L[t->at];
	struct hpcc_trust_round *r = &t->now;

	r->rtt_max = max(r->rtt_max, rtt);
	if (!l->valid || (t->valid && l->ts == t->ts))
		return;
	/* Without u' this one has nothing to do with the one before. */
	if (t->valid && l->tag == t->tag && l->u_q24)
		hpcc_trust_interval(t, l->ts - t->ts, l->tx - t->tx);
	else
		t->ahead = 0;
	r->q_min = min(r->q_min, l->qlen);
	r->ahead_min = min(r->ahead_min, t->ahead);
	r->wait_min = min(r->wait_min, t->ahead + l->qlen);
	t->ts = l->ts;
	t->tx = l->tx;
	t->qlen = l->qlen;
	t->tag = l->tag;
	t->valid = true;
}

/**
 * hpcc_trust_weigh() - what speaks against the round before this one
 * @t: connection
 * @T: base RTT, time units
 * @min_rtt: the smallest RTT measured, time units
 *
 * Return: HPCC_TRUST_PROOF, HPCC_TRUST_HINT, 0 for nothing; below 0 where
 * nothing can be said.
 */
static inline int hpcc_trust_weigh(const struct hpcc_trust *t, u64 T,
				   u64 min_rtt)
{
	const struct hpcc_trust_round *r = &t->before;
	u64 rtt = max(r->rtt_max, t->now.rtt_max);
	u64 late = rtt > min_rtt ? rtt - min_rtt : 0;

	if (r->q_min == ~0ULL || !t->now.rtt_max)
		return -1;
	if (r->ahead_min > 2 * rtt)
		return HPCC_TRUST_PROOF;
	if (r->idle > 0 && r->q_min > 2 * late + (T >> 3))
		return HPCC_TRUST_PROOF;
	return r->wait_min > 2 * rtt ? HPCC_TRUST_HINT : 0;
}

/* Watch the link that W follows; not another one for each little difference. */
static inline void hpcc_trust_watch(struct hpcc_trust *t,
				    const struct hpcc_algo *a)
{
	u64 most_q24 = 2 * a->L[t->at].u_q24;
	u32 at = t->at;
	u32 i;

	for (i = 0; i < a->end; i++) {
		if (a->L[i].valid && a->L[i].u_q24 > most_q24) {
			most_q24 = a->L[i].u_q24;
			at = i;
		}
	}
	if (at == t->at)
		return;
	t->at = at;
	hpcc_trust_forget(t);
}

/* Rounds of truth that are asked for. */
static inline u32 hpcc_trust_back(const struct hpcc_trust *t)
{
	return HPCC_TRUST_BACK <<
	       min_t(u32, t->losses - 1, HPCC_TRUST_DOUBLINGS);
}

/* Score a round. Return: whether trust was lost, or came back. */
static inline bool hpcc_trust_score(struct hpcc_trust *t, int weight,
				    bool backlog)
{
	if (weight < 0)
		return false;
	if (t->lost) {
		t->good = weight ? 0 : t->good + 1;
		if (t->good < hpcc_trust_back(t))
			return false;
		t->lost = false;
		return true;
	}
	if (!weight)
		t->score -= !!t->score;
	else if (backlog)
		t->score += weight;
	if (t->score < HPCC_TRUST_LOST)
		return false;
	t->score = 0;
	t->good = 0;
	t->losses += t->losses <= HPCC_TRUST_DOUBLINGS;
	t->lost = true;
	return true;
}

/**
 * hpcc_trust_round() - judge, where a round trip ends with an ACK
 * @t: connection
 * @a: its algorithm
 * @T: base RTT, time units
 * @min_rtt: the smallest RTT measured, time units
 * @ack_seq: cumulative acknowledgment, modulo 2^32
 * @snd_nxt: next byte to be sent, modulo 2^32
 * @backlog: there is more to send: one that has nothing to send loses nothing by
 *	lies, and may send in step with others, whose bursts it then heads
 *
 * Return: whether @t->lost has changed.
 */
static inline bool hpcc_trust_round(struct hpcc_trust *t,
				    const struct hpcc_algo *a, u64 T,
				    u64 min_rtt, u32 ack_seq, u32 snd_nxt,
				    bool backlog)
{
	bool changed;

	if ((s32)(ack_seq - t->end_seq) <= 0)
		return false;
	t->end_seq = snd_nxt;
	changed = hpcc_trust_score(t, hpcc_trust_weigh(t, T, min_rtt), backlog);
	t->before = t->now;
	hpcc_trust_round_init(&t->now);
	if (changed)
		hpcc_trust_forget(t);
	else
		hpcc_trust_watch(t, a);
	return changed;
}

/**
 * hpcc_trust_doubtful() - whether something speaks against the telemetry now
 * @t: connection
 */
static inline bool hpcc_trust_doubtful(const struct hpcc_trust *t)
{
	return t->score >= HPCC_TRUST_PROOF;
}

#endif /* _HPCC_TRUST_H */
