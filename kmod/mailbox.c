// SPDX-License-Identifier: GPL-2.0
/*
 * Records on their way from LOCAL_IN to the algorithm: the newest of each hop is
 * taken out of the flow's mailbox, and its counters are unwrapped next to the
 * hop's last ones.
 *
 * Context: socket lock, all of this file.
 */
#include <net/tcp.h>

#include "hpcc.h"

/* Counters that wrap after 128 T tell nothing about an interval beyond half
 * of that.
 */
static const u32 hpcc_base_age_T = 64;

/* On paths of several hops, a link is measured over T/8 at least. */
static const u32 hpcc_interval_shift = 3;

/* Whether a record comes too soon after the hop's last one. Between neighbours
 * d(tx)/d(ts) tells how packets bunch, not how loaded a link is; and the
 * maximum over several links takes the worst of that noise for load.
 */
static bool hpcc_too_soon(const struct hpcc_flow *flow, u64 dts_ns)
{
	return READ_ONCE(flow->hops) > 1 &&
	       dts_ns < flow->T_ns >> hpcc_interval_shift;
}

/* Whether the hop's last record is too old to go on from, next to one of the same link
 * that came after @rtt_us.
 *
 * Where packets wait on their way back (a virtual machine that stands still), the
 * last record was old when it came, and what is stamped now may be so much newer
 * that it looks older. So that is believed only as long as the two segments were
 * sent within the same span.
 */
static bool hpcc_base_void(const struct hpcc_flow *flow, u64 now_us, u32 rtt_us,
			   u32 i, const struct hpcc_mail *mail)
{
	u64 last = flow->algo.L[i].ts >> mail->scale;
	const struct hpcc_base *base = &flow->base[i];
	u64 span_ns = (u64)flow->T_ns * hpcc_base_age_T;
	u64 age_us = now_us - base->seen_us;

	if (base->scale != mail->scale || age_us * NSEC_PER_USEC > span_ns)
		return true;
	return hpcc_counter_extend(last, mail->ts) < last &&
	       (age_us + flow->base_rtt_us[i]) * NSEC_PER_USEC >
	       span_ns + (u64)rtt_us * NSEC_PER_USEC;
}

/* Turn a record into a sample: unwrap the counters next to those that the
 * algorithm holds for the hop, in units, then convert to ns. What it ignored
 * leaves no trace here.
 *
 * Return: false where the record is a copy of the last one, as a TSO burst
 * makes of its header, or comes too soon after it. A copy stays one however old
 * the baseline is: who repeats the same record for ever tells nothing.
 */
static bool hpcc_sample(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 i,
			const struct hpcc_mail *mail, struct hpcc_sample *s)
{
	const struct hpcc_link *link = &flow->algo.L[i];
	/* High enough to count back from. */
	u64 ts = (1ULL << (2 * HPCC_COUNTER_BITS)) | mail->ts;
	u64 tx = (1ULL << (2 * HPCC_COUNTER_BITS)) | mail->tx;
	bool known = link->valid && link->tag == mail->tag;
	u64 dts_ns, age_ns;

	if (known && flow->base[i].scale == mail->scale &&
	    !((link->ts >> mail->scale ^ mail->ts) & HPCC_COUNTER_MASK))
		return false;
	if (known && hpcc_base_void(flow, now_us, rtt_us, i, mail)) {
		hpcc_algo_forget_hop(&flow->algo, i + 1);
		known = false;
	}
	/* Another link's counters have nothing to do with these: the algorithm
	 * sees the tag, and begins anew.
	 */
	if (known) {
		ts = hpcc_counter_extend(link->ts >> mail->scale, mail->ts);
		tx = hpcc_counter_extend(link->tx >> mail->scale, mail->tx);
		dts_ns = (ts << mail->scale) - link->ts;
		if (hpcc_too_soon(flow, dts_ns)) {
			/* Such a record is telemetry, unless its clock stands still. */
			age_ns = (now_us - flow->base[i].seen_us) * NSEC_PER_USEC;
			flow->skipped |= age_ns <= flow->T_ns;
			return false;
		}
	}
	flow->base[i].scale = mail->scale;
	s->hop = i + 1;
	s->tag = mail->tag;
	s->ts = ts << mail->scale;
	s->tx = tx << mail->scale;
	s->qlen = (u64)mail->qlen << mail->scale;
	return true;
}

/**
 * hpcc_note_seen() - note when records came, and how long after their segments
 * @flow: a flow, whose algorithm has taken them in; those that it ignored leave no
 *	trace
 * @now_us: tcp_mstamp
 * @rtt_us: RTT of the ACK
 * @n: number of samples in @flow->sample
 */
void hpcc_note_seen(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 n)
{
	const struct hpcc_sample *s;

	for (s = flow->sample; s < flow->sample + n; s++) {
		if (flow->algo.L[s->hop - 1].ts != s->ts)
			continue;
		flow->base[s->hop - 1].seen_us = now_us;
		flow->base_rtt_us[s->hop - 1] = rtt_us;
	}
}

/**
 * hpcc_take_mail() - empty the mailbox
 * @sk: socket
 * @flow: its flow
 * @rtt_us: RTT of the ACK
 *
 * Return: number of samples in @flow->sample; @flow->skipped tells whether there
 * were others.
 */
u32 hpcc_take_mail(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us)
{
	u64 now_us = tcp_sk(sk)->tcp_mstamp;
	unsigned long fresh;
	u32 n = 0;
	u32 i;

	flow->skipped = false;
	if (!READ_ONCE(flow->mail_fresh))
		return 0;
	spin_lock_bh(&flow->lock);
	fresh = flow->mail_fresh;
	WRITE_ONCE(flow->mail_fresh, 0);
	hpcc_algo_trim(&flow->algo, flow->hops);
	for_each_set_bit(i, &fresh, HPCC_HOPS_MAX)
		n += hpcc_sample(flow, now_us, rtt_us, i, &flow->mail[i],
				 &flow->sample[n]);
	spin_unlock_bh(&flow->lock);
	return n;
}

