/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rules by which a connection changes from telemetry to the classic response, and returns.
 *
 * Loss. HPCC++ does not react to loss, because links report their load. A link that does not stamp
 * shows its load only by its drops. So, for each round trip in which no stamping link was busy:
 *
 *	excess = max(0, excess + lost - delivered / 32)
 *
 * If excess is above 8 packets, the bottleneck is a link without telemetry. A stamping link that
 * drops packets because of overload is busy: during d(t) of the sender's clock it sends for at
 * least 7/8 d(t), or U is above 9/8. The window law then reduces W, and excess is set to 0. But at
 * most four windows of W_init are lost before W is reduced. So if the sum of lost - delivered / 32
 * over the round trips is larger, the losses are not attributed to a busy link. d(t) is measured by
 * the sender's clock and not by the link's clock: if a slow link follows a fast link, packets pass
 * the fast link in bursts.
 *
 * The caller does not count late packets as lost. There are two kinds of late packets: the ACK
 * arrived without a retransmission, or the receiver got the packet twice (DSACK). TCP detects both
 * at least a round trip later. If late packets were at least half of the excess, the path reorders
 * packets, or a machine was stopped, and hpcc_fallback_late() ends the fallback.
 *
 * 1/32 is above the loss rate of links for other reasons (up to 1 %), and below the loss rate of a
 * window that is too large for the path. A window law that keeps one link at 0.95 of its rate may
 * overload another link, whose rate is 7/8 to 0.95 of the first link's rate, by 8 % at most.
 *
 * Return. The classic response runs for a number of round trips before telemetry is used again.
 * Each fallback for loss doubles this number; other fallbacks keep it. It is halved after max(64,
 * the number itself) round trips without a fallback. After a return W starts with the classic
 * window and grows as in slow start (hpcc_algo_slow()), so a failed try loses about as many packets
 * as slow start does. After a failed try the classic window is at most as large as before.
 *
 * No skb, no socket, no clock, no lock. Time is in the unit of the algorithm's links; packet
 * counters are modulo 2^32.
 */
#ifndef _HPCC_LAW_FALLBACK_H
#define _HPCC_LAW_FALLBACK_H

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <hpcc/law/algo.h>

#define HPCC_LOSS_SHIFT		5
#define HPCC_LOSS_EXCESS	(8LL << HPCC_LOSS_SHIFT)

/* Above this U a link with telemetry itself drops packets, even if it is idle again before the
 * round trip ends. If the bottleneck has no telemetry, an idle link in front of it does not reach
 * this U.
 */
#define HPCC_LOSS_U_Q24		(HPCC_ONE_Q24 + (HPCC_ONE_Q24 >> 3))

/* After an RTO TCP marks all packets in flight as lost, even if ACKs were only late. TCP may undo
 * this and mark the packets again, and a smaller MSS splits them into more packets. So until all of
 * these packets are acknowledged, at most this many packets count as lost, and one more for each
 * further RTO.
 */
#define HPCC_LOSS_RTO		4

/* At most this many windows of losses are attributed to busy links. */
#define HPCC_LOSS_WINDOWS	4

/* Round trips of the classic response: at least 1 after telemetry stopped, because a return to a
 * silent path loses no packets; at least 64 after loss, because a return may lose a window of
 * packets; and the maximum.
 */
#define HPCC_HOLD_SILENCE	1
#define HPCC_HOLD_LOSS		64
#define HPCC_HOLD_MAX		BIT(16)
/* The hold is halved after this many round trips of telemetry. */
#define HPCC_HOLD_GOOD		64

/**
 * struct hpcc_fallback - state for fallback and return
 * @next: the round trip ends with the ACK of a packet that was sent when this many packets had been
 *	delivered
 * @overloaded: U has exceeded HPCC_LOSS_U_Q24 in this round trip
 * @busy: a link was busy in the previous round trip
 * @rto: data that were in flight at an RTO are not acknowledged yet
 * @round_start: start of the round trip, sender's clock; began_tx in struct hpcc_link is the tx of
 *	each link at that time
 * @total: packets lost beyond 1/32, including those attributed to busy links, in units of
 *	2^-HPCC_LOSS_SHIFT
 * @excess: packets lost beyond 1/32, in units of 2^-HPCC_LOSS_SHIFT; in classic the value at the
 *	fallback, 0 if loss was not the reason
 * @window: W_init in packets, set by the caller
 * @lost: packets lost at the start of the round trip, or at the fallback
 * @delivered: packets delivered at the start of the round trip
 * @hold: number of round trips that classic runs
 * @hold_before: @hold before the last fallback
 * @rounds: round trips since the fallback, or since the return or the last halving
 * @prev_delivered: packets delivered in the previous round trip
 * @rto_left: if @rto: number of packets that may still count as lost
 * @rto_seq: @rto ends when this is acknowledged
 *
 * Each ACK uses only the first 8 bytes; the other members are used at the end of a round trip.
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

	/* Include links beyond the end of the path: the path may become longer again. */
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
 * @a: its algorithm; began_tx and began_valid of L are updated
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

/* Whether a link that stamps has been busy in this round trip. @most excludes counters that
 * restarted: they look as if the link had sent far more than it can.
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

/* The maximum of the losses that are attributed to busy links. */
static inline s64 hpcc_fallback_most(const struct hpcc_fallback *f)
{
	return max_t(s64, (s64)f->window * (HPCC_LOSS_WINDOWS << HPCC_LOSS_SHIFT),
		     HPCC_LOSS_EXCESS);
}

/**
 * hpcc_fallback_ends() - whether an ACK ends the round trip
 * @f: connection that uses telemetry
 * @a: its algorithm, after the ACK's records were processed
 * @prior_delivered: as for hpcc_fallback_ack()
 *
 * Return: true if so. For all other ACKs the caller need not call hpcc_fallback_ack().
 */
static inline bool hpcc_fallback_ends(struct hpcc_fallback *f,
				      const struct hpcc_algo *a,
				      u32 prior_delivered)
{
	f->overloaded |= a->U_q24 > HPCC_LOSS_U_Q24;
	return (s32)(prior_delivered - f->next) >= 0;
}

/**
 * hpcc_fallback_ack() - process an ACK and decide on a fallback for loss
 * @f: connection that uses telemetry
 * @a: its algorithm, after the ACK's records were processed; L is updated as in
 *	hpcc_fallback_start()
 * @now: sender's clock
 * @prior_delivered: packets delivered at the time when the newest packet covered by this ACK was
 *	sent
 * @delivered: packets delivered so far
 * @lost: packets lost so far
 * @snd_una: first byte that is not acknowledged
 *
 * SACK blocks can leave no room for records. So a round trip also counts as busy if the previous
 * one was.
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
 * @f: connection that uses telemetry
 * @snd_nxt: next byte to be sent
 */
static inline void hpcc_fallback_rto(struct hpcc_fallback *f, u32 snd_nxt)
{
	f->rto_left = f->rto ? f->rto_left + 1 : HPCC_LOSS_RTO;
	f->rto_seq = snd_nxt;
	f->rto = true;
}

/**
 * hpcc_fallback_undo() - nothing was lost in this round trip
 * @f: connection that uses telemetry
 * @lost: packets lost so far
 */
static inline void hpcc_fallback_undo(struct hpcc_fallback *f, u32 lost)
{
	f->lost = lost;
}

/**
 * hpcc_fallback_got() - number of packets delivered in a round trip
 * @f: connection that is about to leave telemetry
 * @delivered: packets delivered so far
 *
 * Return: packets, the larger number of the last two round trips; after an RTO one of them had few
 * packets.
 */
static inline u32 hpcc_fallback_got(const struct hpcc_fallback *f, u32 delivered)
{
	return max(delivered - f->delivered, f->prev_delivered);
}

/**
 * hpcc_fallback_leave() - the classic response begins
 * @f: connection
 * @least: minimum number of round trips: HPCC_HOLD_SILENCE or HPCC_HOLD_LOSS
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
 * hpcc_fallback_cost() - round trips of classic that compensate for losses
 * @f: connection that is about to leave telemetry
 * @lost: packets lost so far
 * @window: packets that classic begins with, not 0
 *
 * The packets lost before the fallback are then about 1/8 of the packets delivered until the next
 * try.
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
 * hpcc_fallback_late() - end a fallback if at least half of its losses were late packets
 * @f: connection that runs classic
 * @lost: packets lost so far
 *
 * If it ends the fallback, hpcc_fallback_over() becomes true, and @hold has its value from before
 * the fallback.
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
 * hpcc_fallback_hold() - round trips of classic for a socket that leaves hpcc and returns
 * @f: connection
 * @lost: packets lost so far
 *
 * A socket that leaves after losses without a busy link counts as one that fell back.
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
 * hpcc_fallback_over() - whether classic has run for @hold round trips
 * @f: connection
 */
static inline bool hpcc_fallback_over(const struct hpcc_fallback *f)
{
	return f->rounds >= f->hold;
}

#endif /* _HPCC_LAW_FALLBACK_H */
