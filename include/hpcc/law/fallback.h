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
 * drops packets because of overload is busy: it sends for at least 7/8 of the round trip, or U is
 * above 9/8. The window law then reduces W, and excess is set to 0. At most four windows of W_init
 * are lost before W is reduced. If the sum of lost - delivered / 32 is larger, the losses are not
 * attributed to a busy link. The sender's clock measures the round trip: if a slow link follows a
 * fast link, packets pass the fast link in bursts, and its own clock would show a busy link.
 *
 * The caller does not count late packets as lost: packets that were acknowledged without a
 * retransmission, or that the receiver got twice (DSACK). TCP detects both at least a round trip
 * later. If late packets were at least half of the excess, the path reorders packets, or a machine
 * was stopped, and hpcc_fallback_late() ends the fallback.
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
 * The functions use no skb, socket, clock or lock. Time is in the unit of the algorithm's links;
 * packet counters are modulo 2^32.
 */
#ifndef _HPCC_LAW_FALLBACK_H
#define _HPCC_LAW_FALLBACK_H

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <hpcc/law/algo.h>

#define HPCC_LOSS_SHIFT		5
#define HPCC_LOSS_EXCESS	(8LL << HPCC_LOSS_SHIFT)

/* Above this U a link with telemetry itself drops packets, even if it is idle at the end of the
 * round trip. An idle link in front of a bottleneck without telemetry does not reach this U.
 */
#define HPCC_LOSS_U_Q24		(HPCC_ONE_Q24 + (HPCC_ONE_Q24 >> 3))

/* After an RTO TCP marks all packets in flight as lost, even if ACKs were only late. TCP may undo
 * this, mark the packets again, and split them for a smaller MSS. So until these packets are
 * acknowledged, at most this many packets count as lost, and one more for each further RTO.
 */
#define HPCC_LOSS_RTO		4

/* At most this many windows of losses are attributed to busy links. */
#define HPCC_LOSS_WINDOWS	4

/* Round trips of the classic response: minimum after telemetry stopped (a return to a silent path
 * loses no packets), minimum after loss (a return may lose a window of packets), and maximum.
 */
#define HPCC_HOLD_SILENCE	1
#define HPCC_HOLD_LOSS		64
#define HPCC_HOLD_MAX		BIT(16)
/* Minimum number of round trips with telemetry after which the hold (the number of round trips of
 * the classic response) is halved.
 */
#define HPCC_HOLD_GOOD		64

/* State for fallback and return. Each ACK uses only the first 8 bytes. Losses beyond 1/32 are in
 * units of 2^-HPCC_LOSS_SHIFT packets.
 */
struct hpcc_fallback {
	u32	next;		/* an ACK of a packet sent at this delivered ends the RTT */
	bool	overloaded;	/* U exceeded HPCC_LOSS_U_Q24 in this round trip */
	bool	busy;		/* a link was busy in the previous round trip */
	bool	rto;		/* data in flight at an RTO are not acknowledged yet */
	u64	round_start;	/* sender's clock; began_tx of each link is its tx at this time */
	s64	total;		/* losses beyond 1/32, those of busy links included */
	/* Losses beyond 1/32 that are not attributed to a busy link. In classic: the value at the
	 * fallback; 0 if the fallback had another reason.
	 */
	s64	excess;
	u32	window;		/* W_init in packets, set by the caller */
	u32	lost;		/* packets lost at the start of the round trip or at the fallback */
	u32	delivered;	/* packets delivered at the start of the round trip */
	u32	hold;		/* round trips that classic runs */
	u32	hold_before;	/* hold before the last fallback */
	u32	rounds;		/* round trips since the fallback, the return or the last halving */
	u32	prev_delivered;	/* packets delivered in the previous round trip */
	u32	rto_left;	/* if rto: packets that may still count as lost */
	u32	rto_seq;	/* rto ends when this is acknowledged */
};

static inline void hpcc_fallback_begin(struct hpcc_fallback *f, struct hpcc_algo *a, u64 now,
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

/* Use telemetry from now on. */
static inline void hpcc_fallback_start(struct hpcc_fallback *f, struct hpcc_algo *a, u64 now,
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

/* Whether a stamping link has been busy in this round trip. @most excludes counters that restarted:
 * they look as if the link had sent far more than it can.
 */
static inline bool hpcc_fallback_busy(const struct hpcc_fallback *f, const struct hpcc_algo *a,
				      u64 now)
{
	u64 span = now - f->round_start;
	u64 most = HPCC_TX_EXCESS * span;
	u32 i;

	for (i = 0; i < a->end; i++) {
		const struct hpcc_link *l = &a->L[i];
		u64 dtx = l->tx - l->began_tx;

		if (l->began_valid && l->valid && dtx >= span - (span >> 3) && dtx <= most)
			return true;
	}
	return false;
}

/* Whether more losses occurred than busy links explain. */
static inline bool hpcc_fallback_beyond(const struct hpcc_fallback *f)
{
	return f->total > max_t(s64, (s64)f->window * (HPCC_LOSS_WINDOWS << HPCC_LOSS_SHIFT),
				HPCC_LOSS_EXCESS);
}

/* Whether an ACK ends the round trip. Call hpcc_fallback_ack(), which describes the arguments, only
 * for such an ACK.
 */
static inline bool hpcc_fallback_ends(struct hpcc_fallback *f, const struct hpcc_algo *a,
				      u32 prior_delivered)
{
	f->overloaded |= a->U_q24 > HPCC_LOSS_U_Q24;
	return (s32)(prior_delivered - f->next) >= 0;
}

/**
 * hpcc_fallback_ack() - process an ACK and decide on a fallback for loss
 * @f: connection that uses telemetry
 * @a: its algorithm, after the ACK's records were processed; began_tx and began_valid are updated
 * @now: sender's clock
 * @prior_delivered: packets delivered when the newest packet covered by this ACK was sent
 * @delivered: packets delivered so far
 * @lost: packets lost so far
 * @snd_una: first byte that is not acknowledged
 *
 * SACK blocks can leave no room for records, so a round trip also counts as busy if the previous
 * round trip was busy.
 * Return: whether a link that does not stamp is the bottleneck.
 */
static inline bool hpcc_fallback_ack(struct hpcc_fallback *f, struct hpcc_algo *a, u64 now,
				     u32 prior_delivered, u32 delivered, u32 lost, u32 snd_una)
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
	if (hpcc_fallback_beyond(f))
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

static inline void hpcc_fallback_rto(struct hpcc_fallback *f, u32 snd_nxt)
{
	f->rto_left = f->rto ? f->rto_left + 1 : HPCC_LOSS_RTO;
	f->rto_seq = snd_nxt;
	f->rto = true;
}

/* TCP found that no packet was lost: count the losses of this round trip from 0. */
static inline void hpcc_fallback_undo(struct hpcc_fallback *f, u32 lost)
{
	f->lost = lost;
}

/* Packets delivered in a round trip: the maximum of the last two, because after an RTO one of them
 * had few packets.
 */
static inline u32 hpcc_fallback_got(const struct hpcc_fallback *f, u32 delivered)
{
	return max(delivered - f->delivered, f->prev_delivered);
}

/* The classic response begins. @least: HPCC_HOLD_SILENCE or HPCC_HOLD_LOSS round trips. */
static inline void hpcc_fallback_leave(struct hpcc_fallback *f, u32 least, u32 lost)
{
	f->hold_before = f->hold;
	f->lost = lost;
	if (least == HPCC_HOLD_SILENCE)
		f->excess = 0;
	f->hold = clamp_t(u32, least == HPCC_HOLD_SILENCE ? f->hold : 2 * f->hold,
			  least, HPCC_HOLD_MAX);
	f->rounds = 0;
}

/* Round trips of classic, HPCC_HOLD_LOSS or more, in which about 8 packets are delivered for each
 * packet lost before the fallback. @window: packets that classic begins with, not 0.
 */
static inline u32 hpcc_fallback_cost(const struct hpcc_fallback *f, u32 lost, u32 window)
{
	u32 cost = max_t(s32, lost - f->lost, 0);

	return clamp_t(u32, min_t(u32, cost, HPCC_HOLD_MAX) * 8 / window,
		       HPCC_HOLD_LOSS, HPCC_HOLD_MAX);
}

/* End a fallback if at least half of its losses were late packets: hpcc_fallback_over() becomes
 * true, and the hold gets its value from before the fallback. Returns whether the fallback ended.
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

/* Round trips of classic for a socket that leaves hpcc and returns. If the socket leaves after
 * losses that no busy link explains, this number is that of a fallback.
 */
static inline u32 hpcc_fallback_hold(const struct hpcc_fallback *f, u32 lost)
{
	if (f->excess || (s32)(lost - f->lost) > 0)
		return max_t(u32, f->hold, HPCC_HOLD_LOSS);
	return f->hold;
}

/* Count a round trip of classic that has passed. */
static inline void hpcc_fallback_round(struct hpcc_fallback *f)
{
	f->rounds += f->rounds < f->hold;
}

/* Whether classic has run for as many round trips as the hold. */
static inline bool hpcc_fallback_over(const struct hpcc_fallback *f)
{
	return f->rounds >= f->hold;
}

#endif /* _HPCC_LAW_FALLBACK_H */
