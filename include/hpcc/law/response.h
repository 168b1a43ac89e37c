/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reaction of a sender to a direct response of a switch (draft-miao-iccrg-hpccplus section 6.3):
 *
 *	u' = 1 + qlen/T
 *	U  = u', W = min(W, Wc / (U/eta))	if u' is larger than U
 *
 * The port that responds has a queue, so it sends without a pause. Wc is kept until the round trip
 * ends, and is then synchronised to W: the ACKs of this round trip use the same Wc, so the same
 * congestion does not reduce W twice. No link is measured: L is unchanged. The functions use no
 * skb, socket, clock or lock.
 */
#ifndef _HPCC_LAW_RESPONSE_H
#define _HPCC_LAW_RESPONSE_H

#include <hpcc/law/algo.h>
#include <hpcc/wire/record.h>

/* A response is one word, so that one CPU can write it while another CPU reads it. Fields from the
 * most significant bit on:
 *	seq:32  known:1  pending:1  zero:13  scale:5  qlen:12
 */
#define HPCC_RESPONSE_KNOWN	BIT_ULL(31)
#define HPCC_RESPONSE_PENDING	BIT_ULL(30)

/* The word of a response that is not processed yet. @seq: sequence number of the data that
 * triggered it. @scale: of the RESPONSE option. @record: its load record, as a number.
 */
static inline u64 hpcc_response_pack(u32 seq, u8 scale, u64 record)
{
	return (u64)seq << 32 | HPCC_RESPONSE_KNOWN | HPCC_RESPONSE_PENDING |
	       (u64)(scale & 0x1f) << HPCC_QLEN_BITS | (record & ((1U << HPCC_QLEN_BITS) - 1));
}

static inline u32 hpcc_response_seq(u64 word)
{
	return word >> 32;
}

/* The time that the link needs for the queue. */
static inline u64 hpcc_response_qlen_ns(u64 word)
{
	return (u64)hpcc_qlen_decode(word) << (word >> HPCC_QLEN_BITS & 0x1f);
}

/* Whether the data that triggered a response are in flight. @word: 0: there was no response. */
static inline bool hpcc_response_holds(u64 word, u32 snd_una, u32 snd_nxt)
{
	return word && hpcc_response_seq(word) - snd_una < snd_nxt - snd_una;
}

/* Whether @word, triggered by data in flight, adds information to the last response (0: none):
 * later data triggered it, it reports a longer queue, or the data of the last response are
 * acknowledged.
 */
static inline bool hpcc_response_is_new(u64 last, u64 word, u32 snd_una, u32 snd_nxt)
{
	u32 then = hpcc_response_seq(last) - snd_una;

	return !last || then > snd_nxt - snd_una || hpcc_response_seq(word) - snd_una > then ||
	       hpcc_response_qlen_ns(word) > hpcc_response_qlen_ns(last);
}

/* React to a response: U rises and W falls, or both are unchanged. @seq: sequence number of the
 * data that triggered the response. @qlen: the queue that these data met, time units. @receiver:
 * the receiver computes W: U is from the last response or audit, and does not include later
 * reports. A response to data that were sent before Wc was last synchronised is ignored: W has
 * already reacted to the queue of these data.
 * Return: whether U changed.
 */
static inline bool hpcc_algo_respond(struct hpcc_algo *a, const struct hpcc_params *p, u32 seq,
				     u64 qlen, bool receiver)
{
	u64 u_q24 = hpcc_link_u(p, qlen, 1, 1);

	if ((!receiver && u_q24 <= a->U_q24) || (a->started && (s32)(seq - a->last_update_seq) < 0))
		return false;
	a->U_q24 = u_q24;
	a->U_low = 0;
	a->moved = true;
	a->W_q16 = min(a->W_q16, hpcc_clamp_wind(p, hpcc_scale_wind(a, p)));
	return true;
}

/* Set W to the value that the receiver computed, bytes, Q16. @word: the last response; 0: there was
 * none. While the data that triggered a response are in flight, W does not grow: the receiver may
 * not have their records yet. If W falls, later responses to data in flight are ignored.
 * @snd_una, @snd_nxt: of the connection.
 */
static inline void hpcc_algo_follow_receiver(struct hpcc_algo *a, u64 W_q16, u64 word, u32 snd_una,
					     u32 snd_nxt)
{
	a->started = true;
	if (W_q16 < a->Wc_q16)
		a->last_update_seq = snd_nxt;
	else if (a->last_update_seq - snd_una > snd_nxt - snd_una)
		a->last_update_seq = snd_una;
	a->Wc_q16 = W_q16;
	a->W_q16 = hpcc_response_holds(word, snd_una, snd_nxt) ? min(a->W_q16, W_q16) : W_q16;
}

#endif /* _HPCC_LAW_RESPONSE_H */
