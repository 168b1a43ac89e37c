// SPDX-License-Identifier: GPL-2.0
/*
 * Records on their way.
 *
 * From LOCAL_IN to the algorithm: the newest of each hop is taken out of the flow's
 * mailbox, and its counters are unwrapped next to the hop's last ones. Under the
 * socket lock.
 *
 * From LOCAL_IN to LOCAL_OUT: what waits is echoed. Under the flow's lock, as is what
 * LOCAL_IN puts into the mailbox.
 */
#include <net/tcp.h>

#include "mailbox.h"

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
 * counter may have wrapped since, so that a newer record looks older. We accept "older"
 * only if both segments were sent within the span.
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

/* ---- Echoes ---------------------------------------------------------------- */

/* Of the records in @from, the one of the first hop behind that of the last echo, in
 * a circle; -1: none left. Where not all fit, and newer ones come before the rest
 * has left, each hop has its turn.
 */
static int hpcc_pending_next(const struct hpcc_pending *from)
{
	u32 nearest = HPCC_HOPS_MAX + 1;
	int next = -1;
	int i;

	for (i = 0; i < HPCC_OPT_RECORDS_MAX; i++) {
		u8 hop = hpcc_slot_hop(from->record[i]);
		u32 ahead = (hop - from->last - 1) & HPCC_HOPS_MAX;

		if (hop && ahead < nearest) {
			next = i;
			nearest = ahead;
		}
	}
	return next;
}

/* Move up to @slots records of @from into an echo at @p. */
static u32 hpcc_pending_write(struct hpcc_pending *from, u8 *p, u8 kind,
			      u8 type, u32 slots)
{
	struct hpcc_opt opt = from->opt;
	u32 n = 0;

	while (n < slots && from->opt.nr) {
		int next = hpcc_pending_next(from);

		if (next < 0)
			break;
		from->last = hpcc_slot_hop(from->record[next]);
		memcpy(p + hpcc_opt_len(n), from->record[next],
		       HPCC_RECORD_LEN);
		memset(from->record[next], 0, HPCC_RECORD_LEN);
		WRITE_ONCE(from->opt.nr, from->opt.nr - 1);
		n++;
	}
	opt.type = type;
	opt.flags &= HPCC_OPT_F_PHASE;
	opt.nr = n;
	hpcc_opt_encode(p, kind, &opt);
	return hpcc_opt_len(n);
}

/**
 * hpcc_echo_write() - write an echo: identities first, then the phases in turn
 * @flow: a flow, its lock held
 * @p: where to write it
 * @room: bytes that it may take
 *
 * Return: its length, 0 where nothing waits or nothing fits.
 */
u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room)
{
	u32 slots;
	u32 phase;
	u32 len;

	if (room < hpcc_opt_len(1))
		return 0;
	slots = (room - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;

	lockdep_assert_held(&flow->lock);
	if (flow->pending_identity.opt.nr)
		return hpcc_pending_write(&flow->pending_identity, p,
					  flow->kind, HPCC_OPT_IDENTIFY_ECHO,
					  slots);
	if (!flow->pending_mask)
		return 0;
	phase = (flow->pending_next +
		 __ffs(ror8(flow->pending_mask, flow->pending_next))) %
		HPCC_PHASES;
	len = hpcc_pending_write(&flow->pending[phase], p, flow->kind,
				 HPCC_OPT_ECHO, slots);
	if (!flow->pending[phase].opt.nr)
		WRITE_ONCE(flow->pending_mask,
			   flow->pending_mask & ~BIT(phase));
	flow->pending_next = (phase + 1) % HPCC_PHASES;
	return len;
}

/* ---- Into the mailbox --------------------------------------------------------- */

/* Whether the mailbox holds a newer record of this hop: ACKs may be reordered. */
static bool hpcc_mail_has_newer(const struct hpcc_flow *flow,
				const struct hpcc_record *r, u8 scale)
{
	const struct hpcc_mail *mail = &flow->mail[r->hop - 1];

	return flow->mail_fresh & BIT(r->hop - 1) && mail->tag == r->tag &&
	       mail->scale == scale &&
	       hpcc_counter_extend(1U << HPCC_COUNTER_BITS | mail->ts, r->ts) <
	       (1U << HPCC_COUNTER_BITS | mail->ts);
}

/**
 * hpcc_echo_in() - put echoed load records into the mailbox
 * @flow: a flow
 * @opt: head of the option
 * @records: its records
 *
 * Context: LOCAL_IN.
 * Return: how many records were no records of a hop of this path.
 */
u32 hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		 const u8 *records)
{
	struct hpcc_record r;
	u16 seen = 0;
	u32 bad = 0;
	u32 i;

	spin_lock_bh(&flow->lock);
	for (i = 0; i < opt->nr; i++) {
		hpcc_record_decode(records + i * HPCC_RECORD_LEN, &r);
		if (!r.hop || r.hop > opt->hops || seen & BIT(r.hop - 1)) {
			bad++;
			continue;
		}
		seen |= BIT(r.hop - 1);
		if (hpcc_mail_has_newer(flow, &r, opt->scale))
			continue;
		flow->mail[r.hop - 1] = (struct hpcc_mail) {
			.ts = r.ts,
			.tx = r.tx,
			.qlen = r.qlen,
			.tag = r.tag,
			.scale = opt->scale,
		};
	}
	if (seen) {
		WRITE_ONCE(flow->mail_fresh, flow->mail_fresh | seen);
		WRITE_ONCE(flow->hops, opt->hops);
	}
	spin_unlock_bh(&flow->lock);
	return bad;
}

/**
 * hpcc_identity_in() - take in what the links of a path said of themselves
 * @flow: a flow
 * @opt: head of the option
 * @records: its records
 *
 * Context: LOCAL_IN.
 * Return: how many records were no records of a hop of this path.
 */
u32 hpcc_identity_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records)
{
	struct hpcc_identity id;
	u32 bad = 0;
	u32 i;

	spin_lock_bh(&flow->lock);
	for (i = 0; i < opt->nr; i++) {
		hpcc_identity_decode(records + i * HPCC_RECORD_LEN, &id);
		if (id.hop && id.hop <= opt->hops)
			flow->identity[id.hop - 1] = id;
		else
			bad++;
	}
	spin_unlock_bh(&flow->lock);
	return bad;
}
