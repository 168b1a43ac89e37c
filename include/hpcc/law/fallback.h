/* SPDX-License-Identifier: GPL-2.0 */
/*
 * When a connection leaves telemetry for the classic response, and when it
 * returns.
 *
 * Loss. HPCC++ does not react to loss, since links tell their load. A link that
 * does not stamp tells nothing but its drops. So, for each round trip in which
 * no stamping link was busy:
 *
 *	excess = max(0, excess + lost - delivered / 32)
 *
 * and beyond 8 packets the bottleneck is a link that nobody sees. A link that
 * drops because of its load is busy: in d(t) of the sender's clock it sends for
 * 7/8 d(t) or more, or U exceeds 9/8, and the window law follows it; that ends the
 * excess. But no more than four windows of W_init can be lost before the law has
 * followed: beyond that sum, less 1/32 of what is delivered, a busy link explains nothing. The
 * sender's clock and not the link's: packets that wait at a slow link behind a
 * fast one have passed the fast one in a burst, close together.
 *
 * The caller does not count packets that were only late: those that are acknowledged
 * although they were not sent again, and those that the receiver got twice (DSACK). TCP
 * learns of both a round trip later or more. If half of the excess turns out to
 * have been late, the path reorders packets, or a machine stood still, and
 * hpcc_fallback_late() ends the fallback.
 *
 * 1/32 is above what links lose for other reasons (up to 1 %) and below what a
 * window loses that does not fit. A window law that keeps a link at 0.95 may
 * overload one that is slower than that and not slower than 7/8, by 8 % at most.
 *
 * Return. Each fallback for loss doubles, and each other one keeps, the round trips that the
 * classic response runs before telemetry is used again. The number is halved after
 * max(64, the number itself) round trips without a fallback. After a return W begins
 * with classic's window and grows as in slow start (hpcc_algo_slow()), so that a try loses
 * about what slow start loses. If the try fails, classic goes on with no more than it had.
 *
 * No skb, no socket, no clock, no lock. Time is in the unit of the algorithm's
 * links; numbers of packets are modulo 2^32.
 */
#ifndef _HPCC_LAW_FALLBACK_H
#define _HPCC_LAW_FALLBACK_H

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <hpcc/law/algo.h>

#define HPCC_LOSS_SHIFT		5
#define HPCC_LOSS_EXCESS	(8LL << HPCC_LOSS_SHIFT)

/* A link with telemetry that is overloaded like this drops by itself, even if its queue
 * drains and it rests before the round trip ends. An idle link in front of one
 * that nobody sees does not get there.
 */
#define HPCC_LOSS_U_Q24		(HPCC_ONE_Q24 + (HPCC_ONE_Q24 >> 3))

/* After an RTO TCP marks everything in flight as lost, even if ACKs were only late; if it
 * undoes that, what was in flight may look lost once more; and where the MSS fell it
 * becomes more packets. So until all of it is acknowledged, so many packets count as lost at
 * most, and one more for each further RTO.
 */
#define HPCC_LOSS_RTO		4

/* Windows of losses that busy links explain. */
#define HPCC_LOSS_WINDOWS	4

/* Round trips of the classic response: at least 1 after telemetry stopped, since a
 * return to a silent path loses nothing; at least 64 after loss, since a return may
 * lose a window of packets; and the largest number.
 */
#define HPCC_HOLD_SILENCE	1
#define HPCC_HOLD_LOSS		64
#define HPCC_HOLD_MAX		BIT(16)
/* Round trips of telemetry that halve it. */
#define HPCC_HOLD_GOOD		64

/**
 * struct hpcc_fallback - what decides on fallback and return
 * @next: the round trip ends with a packet that was sent when so many had been
 *	delivered
 * @overloaded: U has exceeded HPCC_LOSS_U_Q24 in this one
 * @busy: a link was busy in the round trip before
 * @rto: what was in flight at an RTO is not acknowledged yet
 * @round_start: when the round trip began, sender's clock; struct hpcc_link has what each link had
 *	sent by then
 * @total: packets lost beyond 1/32, whether explained or not, in units of
 *	2^-HPCC_LOSS_SHIFT
 * @excess: packets lost beyond 1/32, in units of 2^-HPCC_LOSS_SHIFT; in classic that of the
 *	fallback, 0 if loss was not the reason
 * @window: W_init in packets, as the caller says
 * @lost: packets lost when it began, or at the fallback
 * @delivered: packets delivered when it began
 * @hold: round trips that classic runs
 * @hold_before: @hold before the last fallback
 * @rounds: round trips since the fallback, or since the return or the last
 *	halving
 * @prev_delivered: packets delivered in the round trip before
 * @rto_left: packets that may still count as lost, if @rto
 * @rto_seq: @rto ends when this is acknowledged
 *
 * Each ACK needs the first 8 bytes; the others are for the end of a round trip.
 */
struct hpcc_fallback {
	u32	next;
	bool	overloaded;
	bool	busy;
	bool	rto;
	u64	round_start;
	s64	total;
	s64	excess;
	u32	window;
	u32	lost;
	u32	delivered;
	u32	hold;
	u32	hold_before;
	u32	rounds;
	u32	prev_delivered;
	u32	rto_left;
	u32	rto_seq;
};

/* A round trip begins. */
static inline void hpcc_fallback_begin(struct hpcc_fallback *f,
				       struct hpcc_algo *a, u64 now,
				       u32 delivered, u32 lost)
{
	u32 i;

	/* Also of links behind the path's end: it may get longer again. */
	for (i = 0; i < a->nr; i++) {
		a->L[i].began_tx = a->L[i].tx;
		a->L[i].began_valid = i < a->end && a->L[i].valid;
	}
	f->round_start = now;
	f->next = delivered;
	f->delivered = delivered;
	f->lost = lost;
}

/**
 * hpcc_fallback_start() - telemetry is used from now on
 * @f: connection
 * @a: its algorithm; of L, what belongs to the round trip is updated
 * @now: sender's clock
 * @delivered: packets delivered so far
 * @lost: packets lost so far
 */
static inline void hpcc_fallback_start(struct hpcc_fallback *f,
				       struct hpcc_algo *a, u64 now,
				       u32 delivered, u32 lost)
{
	f->total = 0;
	f->excess = 0;
	f->prev_delivered = 0;
	f->rto = false;
	f->rounds = 0;
	f->busy = false;
	f->overloaded = false;
	hpcc_fallback_begin(f, a, now, delivered, lost);
}

/* Whether a link that stamps was busy since the round trip began. Counters that
 * began anew look as if the link had sent far more than it can.
 */
static inline bool hpcc_fallback_busy(const struct hpcc_fallback *f,
				      const struct hpcc_algo *a, u64 now)
{
	u64 span = now - f->round_start;
	u64 most = HPCC_TX_EXCESS * span;
	u32 i;

	for (i = 0; i < a->end; i++) {
		const struct hpcc_link *l = &a->L[i];
		u64 dtx = l->tx - l->began_tx;

		if (l->began_valid && l->valid &&
		    dtx >= span - (span >> 3) && dtx <= most)
			return true;
	}
	return false;
}

/* The sum of losses that busy links explain. */
static inline s64 hpcc_fallback_most(const struct hpcc_fallback *f)
{
	return max_t(s64, (s64)f->window * (HPCC_LOSS_WINDOWS << HPCC_LOSS_SHIFT),
		     HPCC_LOSS_EXCESS);
}

/**
 * hpcc_fallback_ends() - whether a round trip ends with an ACK
 * @f: connection, which uses telemetry
 * @a: its algorithm, which has taken in the ACK's records
 * @prior_delivered: as for hpcc_fallback_ack(), which need not be called for ACKs that end
 *	none
 */
static inline bool hpcc_fallback_ends(struct hpcc_fallback *f,
				      const struct hpcc_algo *a,
				      u32 prior_delivered)
{
	f->overloaded |= a->U_q24 > HPCC_LOSS_U_Q24;
	return (s32)(prior_delivered - f->next) >= 0;
}

/**
 * hpcc_fallback_ack() - take in an ACK, and whether loss speaks against telemetry
 * @f: connection, which uses telemetry
 * @a: its algorithm, which has taken in the ACK's records; L as hpcc_fallback_start()
 * @now: sender's clock
 * @prior_delivered: packets delivered when the newest packet was sent that the
 *	ACK tells of
 * @delivered: packets delivered so far
 * @lost: packets lost so far
 * @snd_una: what is acknowledged
 *
 * SACK blocks can leave no room for records. A round trip without records is judged by
 * the one before it.
 *
 * Return: whether a link that does not stamp is the bottleneck.
 */
static inline bool hpcc_fallback_ack(struct hpcc_fallback *f,
				     struct hpcc_algo *a, u64 now,
				     u32 prior_delivered, u32 delivered,
				     u32 lost, u32 snd_una)
{
	s64 excess;
	bool busy;

	if (!hpcc_fallback_ends(f, a, prior_delivered))
		return false;
	busy = f->overloaded || hpcc_fallback_busy(f, a, now);
	f->overloaded = false;
	excess = (s32)(lost - f->lost);
	if (f->rto) {
		excess = min_t(s64, excess, f->rto_left);
		f->rto_left -= max_t(s64, excess, 0);
		f->rto = (s32)(snd_una - f->rto_seq) < 0;
	}
	excess = excess * (1 << HPCC_LOSS_SHIFT) - (delivered - f->delivered);
	f->total = max_t(s64, f->total + excess, 0);
	f->excess = max_t(s64, f->excess + excess, 0);
	if (f->total > hpcc_fallback_most(f))
		f->excess = f->total;
	else if (busy || f->busy)
		f->excess = 0;
	f->busy = busy;
	if (f->excess > HPCC_LOSS_EXCESS)
		return true;
	if (++f->rounds >= max_t(u32, f->hold, HPCC_HOLD_GOOD)) {
		f->hold /= 2;
		f->rounds = 0;
	}
	f->prev_delivered = delivered - f->delivered;
	hpcc_fallback_begin(f, a, now, delivered, lost);
	return false;
}

/**
 * hpcc_fallback_rto() - a retransmission timer fired
 * @f: connection, which uses telemetry
 * @snd_nxt: end of what was sent
 */
static inline void hpcc_fallback_rto(struct hpcc_fallback *f, u32 snd_nxt)
{
	f->rto_left = f->rto ? f->rto_left + 1 : HPCC_LOSS_RTO;
	f->rto_seq = snd_nxt;
	f->rto = true;
}

/**
 * hpcc_fallback_undo() - nothing was lost in this round trip
 * @f: connection, which uses telemetry
 * @lost: packets lost so far
 */
static inline void hpcc_fallback_undo(struct hpcc_fallback *f, u32 lost)
{
	f->lost = lost;
}

/**
 * hpcc_fallback_got() - packets that got through in a round trip
 * @f: connection, which is about to leave telemetry
 * @delivered: packets delivered so far
 *
 * Return: those of the last two round trips in which more did; after an RTO few were sent
 * in one of them.
 */
static inline u32 hpcc_fallback_got(const struct hpcc_fallback *f, u32 delivered)
{
	return max(delivered - f->delivered, f->prev_delivered);
}

/**
 * hpcc_fallback_leave() - the classic response begins
 * @f: connection
 * @least: round trips that it runs at least: HPCC_HOLD_SILENCE or HPCC_HOLD_LOSS
 * @lost: packets lost so far
 */
static inline void hpcc_fallback_leave(struct hpcc_fallback *f, u32 least,
				       u32 lost)
{
	f->hold_before = f->hold;
	f->lost = lost;
	if (least == HPCC_HOLD_SILENCE)
		f->excess = 0;
	f->hold = clamp_t(u32, least == HPCC_HOLD_SILENCE ? f->hold : 2 * f->hold,
			  least, HPCC_HOLD_MAX);
	f->rounds = 0;
}

/**
 * hpcc_fallback_cost() - round trips of classic that make up for losses
 * @f: connection, which is about to leave telemetry
 * @lost: packets lost so far
 * @window: packets that classic begins with, not 0
 *
 * What is lost before a hidden link shows is to be a small part, some 1/8, of what is
 * delivered until the next try.
 *
 * Return: HPCC_HOLD_LOSS or more.
 */
static inline u32 hpcc_fallback_cost(const struct hpcc_fallback *f, u32 lost,
				     u32 window)
{
	u32 cost = max_t(s32, lost - f->lost, 0);

	return clamp_t(u32, min_t(u32, cost, HPCC_HOLD_MAX) * 8 / window,
		       HPCC_HOLD_LOSS, HPCC_HOLD_MAX);
}

/**
 * hpcc_fallback_late() - end a fallback if half of its losses were only late
 * @f: connection, which runs classic
 * @lost: packets lost so far
 *
 * Then classic has run for long enough, and @hold is what it was before the fallback.
 *
 * Return: whether it ended the fallback.
 */
static inline bool hpcc_fallback_late(struct hpcc_fallback *f, u32 lost)
{
	s64 late = (s64)(s32)(f->lost - lost) * (1 << HPCC_LOSS_SHIFT);

	if (!f->excess || 2 * late < f->excess)
		return false;
	f->excess = 0;
	f->hold = f->hold_before;
	f->rounds = f->hold;
	return true;
}

/**
 * hpcc_fallback_hold() - round trips of classic for a socket that leaves and comes back
 * @f: connection
 * @lost: packets lost so far
 *
 * A socket that leaves while losses are not explained counts as one that fell back.
 */
static inline u32 hpcc_fallback_hold(const struct hpcc_fallback *f, u32 lost)
{
	if (f->excess || (s32)(lost - f->lost) > 0)
		return max_t(u32, f->hold, HPCC_HOLD_LOSS);
	return f->hold;
}

/**
 * hpcc_fallback_round() - a round trip of classic has passed
 * @f: connection
 */
static inline void hpcc_fallback_round(struct hpcc_fallback *f)
{
	f->rounds += f->rounds < f->hold;
}

/**
 * hpcc_fallback_over() - whether classic has run for long enough
 * @f: connection
 */
static inline bool hpcc_fallback_over(const struct hpcc_fallback *f)
{
	return f->rounds >= f->hold;
}

#endif /* _HPCC_LAW_FALLBACK_H */
