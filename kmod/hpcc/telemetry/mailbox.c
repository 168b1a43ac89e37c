// SPDX-License-Identifier: GPL-2.0
/*
 * Records on their way between the hooks, TCP and the algorithm.
 *
 *	LOCAL_IN, a peer's echo		-> hpcc_flow.mail, one word per hop
 *	hpcc_flow.mail, socket lock	-> the algorithm
 *	LOCAL_IN, a peer's request	-> hpcc_flow.echo, one word per hop
 *	hpcc_flow.echo, LOCAL_OUT	-> our echo
 *	hpcc_flow.echo, socket lock	-> the algorithm that computes the peer's W (receiver.c)
 *
 * A load record has 8 bytes on the wire, so it moves as one word and needs no lock. Writers store
 * the newest record; readers take it with xchg(). 0 is an empty word.
 *
 * In the mailbox the index of a word is its hop. So the 4 bits of the hop hold the scale of the
 * unit: scale modulo 15, plus 1. All scales in hpcc_flow.scales differ modulo 15.
 *
 * A quiet mark is a word whose first 4 bits are 0. The newest record or quiet mark of a hop
 * replaces the older one. An echo has one record with the map of all quiet hops
 * (uapi/linux/hpcc.h); until then each quiet mark is stored as a map with its own hop only.
 *
 * Words for an echo are stored unchanged. All of them have the same scale, in hpcc_flow.echo.head;
 * a request with another scale first clears the words. If two CPUs run LOCAL_IN for one flow at the
 * same time, words of two heads may mix: then one sample is wrong.
 */
#include <linux/export.h>
#include <linux/slab.h>

#include "telemetry/identify.h"
#include "telemetry/mailbox.h"

/* Counters wrap after 128 T, so an interval above half of that is ambiguous. */
static const u32 hpcc_base_age_T = 64;

/* On paths of several hops: number of records of a hop that may count in a T. */
#define HPCC_HOP_RECORDS	8

#define HPCC_WORD_HOP_SHIFT	60
#define HPCC_WORD_TAG_SHIFT	52
#define HPCC_WORD_TS_SHIFT	32
#define HPCC_WORD_HOP_MASK	(0xfULL << HPCC_WORD_HOP_SHIFT)
#define HPCC_WORD_MAP_SHIFT	45
/* A quiet mark in the mailbox. Records there contain a scale, so no record has this value. */
#define HPCC_WORD_QUIET		1ULL

/* Use another scale in requests from now on. Echoes of earlier scales are still accepted, except
 * for a scale that is equal to @scale modulo 15: this scale is removed, and the mailbox is cleared.
 * Context: socket lock.
 */
void hpcc_set_scale(struct hpcc_flow *flow, u8 scale)
{
	u32 scales = flow->scales | BIT(scale);
	u32 i;

	for (i = scale % HPCC_SCALE_CLASSES; i <= HPCC_SCALE_MAX; i += HPCC_SCALE_CLASSES)
		if (i != scale)
			scales &= ~BIT(i);
	if (flow->scales & ~scales)
		hpcc_mail_discard(flow);
	WRITE_ONCE(flow->scales, scales);
	WRITE_ONCE(flow->scale, scale);
}

/* The scale of a word in the mailbox; above HPCC_SCALE_MAX if T has changed since. */
static u32 hpcc_word_scale(const struct hpcc_flow *flow, u64 word)
{
	u32 scale = (word >> HPCC_WORD_HOP_SHIFT) - 1;

	while (scale <= HPCC_SCALE_MAX && !(flow->scales & BIT(scale)))
		scale += HPCC_SCALE_CLASSES;
	return scale;
}

/* Whether a record comes too soon after the hop's last record. In a short interval d(tx)/d(ts)
 * depends more on bursts of packets than on the load of the link, and the maximum over several
 * links would select the largest error.
 */
static bool hpcc_too_soon(const struct hpcc_intake *in, u64 dts_ns)
{
	return in->hops > 1 && dts_ns * HPCC_HOP_RECORDS < in->params->T;
}

/* Whether the hop's last record is too old as a baseline for @r, a record of the same link in units
 * of 2^@scale ns. If packets were delayed on the return path (for example, a virtual machine was
 * stopped), the counter may have wrapped since the last record, so that a newer record looks older.
 * So @r counts as older only if the segments of the two records were sent within span_ns.
 */
static bool hpcc_base_void(const struct hpcc_intake *in, u32 i,
			   const struct hpcc_record *r, u32 scale)
{
	const struct hpcc_link *link = &in->algo->L[i];
	u64 span_ns = in->params->T * hpcc_base_age_T;
	u64 age_us = in->now_us - link->seen_us;
	u64 last = link->ts >> scale;

	if (link->scale != scale || age_us * NSEC_PER_USEC > span_ns)
		return true;
	return hpcc_counter_extend(last, r->ts) < last &&
	       (age_us + link->rtt_us) * NSEC_PER_USEC > span_ns + (u64)in->rtt_us * NSEC_PER_USEC;
}

/* Turn a record into a sample: unwrap the counters relative to the hop's last counters, in units of
 * 2^@scale ns, then convert the result to ns. An ignored record does not change the last counters.
 * Return: false if the record is a copy of the last record (a TSO burst copies its header), or
 * comes too soon after it. A copy is rejected even if the baseline is old: endless repetition of
 * one record is not telemetry.
 */
static bool hpcc_sample(struct hpcc_intake *in, u32 i, const struct hpcc_record *r, u32 scale,
			struct hpcc_sample *s)
{
	struct hpcc_link *link = &in->algo->L[i];
	/* Large enough to subtract a wrap. */
	u64 ts = (1ULL << (2 * HPCC_COUNTER_BITS)) | r->ts;
	u64 tx = (1ULL << (2 * HPCC_COUNTER_BITS)) | r->tx;
	bool known = link->valid && link->tag == r->tag;
	u64 dts_ns, age_ns;

	if (known && link->scale == scale && !((link->ts >> scale ^ r->ts) & HPCC_COUNTER_MASK))
		return false;
	if (known && hpcc_base_void(in, i, r, scale)) {
		hpcc_algo_forget_hop(in->algo, i + 1);
		known = false;
	}
	/* The counters of another link are unrelated: the algorithm detects the new tag. */
	if (known) {
		ts = hpcc_counter_extend(link->ts >> scale, r->ts);
		tx = hpcc_counter_extend(link->tx >> scale, r->tx);
		dts_ns = (ts << scale) - link->ts;
		if (hpcc_too_soon(in, dts_ns)) {
			/* Such a record shows that telemetry arrives, unless the link's clock
			 * stands still.
			 */
			age_ns = (in->now_us - link->seen_us) * NSEC_PER_USEC;
			in->skipped |= age_ns <= in->params->T;
			return false;
		}
	}
	link->scale = scale;
	s->hop = i + 1;
	s->tag = r->tag;
	s->ts = ts << scale;
	s->tx = tx << scale;
	s->qlen = (u64)r->qlen << scale;
	return true;
}

/* Process a report that hop @i + 1 is quiet. */
static void hpcc_take_quiet(struct hpcc_intake *in, u32 i)
{
	struct hpcc_link *link = &in->algo->L[i];

	hpcc_measure_quiet(in->algo, in->params, i + 1,
			   (in->now_us - link->seen_us) * NSEC_PER_USEC, &in->measure);
	link->seen_us = in->now_us;
}

/* Process a record of hop @i + 1, in units of 2^@scale ns. Return: whether there was a sample. */
static bool hpcc_take_record(struct hpcc_intake *in, u32 i, u64 word, u32 scale)
{
	struct hpcc_sample s;
	struct hpcc_record r;

	hpcc_record_unpack(word, &r);
	if (!hpcc_sample(in, i, &r, scale, &s))
		return false;
	if (!(hpcc_measure_link(in->algo, in->params, &s, &in->measure) &
	      (HPCC_ACK_TS_BACK | HPCC_ACK_TX_EXCESS))) {
		in->algo->L[i].seen_us = in->now_us;
		in->algo->L[i].rtt_us = in->rtt_us;
	}
	return true;
}

/* Process the record of hop @i + 1 in the mailbox. Return: whether there was a sample. */
static bool hpcc_take_word(struct hpcc_flow *flow, struct hpcc_intake *in, u32 i)
{
	u64 word = xchg(&flow->mail[i], 0);
	u32 scale;

	if (word == HPCC_WORD_QUIET) {
		hpcc_take_quiet(in, i);
		return true;
	}
	scale = hpcc_word_scale(flow, word);
	return scale <= HPCC_SCALE_MAX && hpcc_take_record(in, i, word, scale);
}

/* Allocate a link for each of @hops hops. Links stay when the path gets shorter. */
static bool hpcc_links_for(struct sock *sk, struct hpcc_algo *a, u32 hops)
{
	struct hpcc_link *old = a->L;
	struct hpcc_link *L;

	/* kzalloc() keeps an object of 64 bytes within a cache line. */
	BUILD_BUG_ON(sizeof(*L) > 64);

	if (likely(hops <= a->nr))
		return true;
	L = hpcc_flow_zalloc(sk, array_size(hops, sizeof(*L)));
	if (!L) {
		hpcc_count(sock_net(sk), HPCC_C_NO_MEMORY);
		return false;
	}
	if (old)
		memcpy(L, old, a->nr * sizeof(*L));
	hpcc_algo_links(a, L, hops);
	kfree(old);
	return true;
}

/**
 * hpcc_mailbox_drain() - process the records in the mailbox (MeasureInflight)
 * @sk: socket, under its lock
 * @flow: its flow; @flow->skipped is set if records came too soon after others
 * @rtt_us: RTT of the ACK
 * @bits: set to enum hpcc_ack_bits, if there were samples
 *
 * If there is no memory for links, records stay in the mailbox. ack.c then counts the ACK as an ACK
 * without telemetry.
 * Return: the number of samples.
 */
u32 hpcc_mailbox_drain(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits)
{
	struct hpcc_intake in = {
		.algo = &flow->algo,
		.params = &flow->params,
		.now_us = tcp_sk(sk)->tcp_mstamp,
		.rtt_us = rtt_us,
		.measure.rtt = (u64)rtt_us * NSEC_PER_USEC,
		.measure.delivered = tcp_sk(sk)->delivered,
		.measure.mss = tcp_sk(sk)->mss_cache,
		.hops = READ_ONCE(flow->hops),
	};
	u32 n = 0;
	u32 i;

	flow->skipped = false;
	if (!hpcc_mail_pending(flow) || !hpcc_links_for(sk, &flow->algo, in.hops))
		return 0;
	hpcc_algo_trim(&flow->algo, in.hops);
	for (i = 0; i < in.hops; i++)
		if (READ_ONCE(flow->mail[i]))
			n += hpcc_take_word(flow, &in, i);
	flow->skipped = in.skipped;
	if (unlikely(flow->rx_window_active))
		flow->audit_seen |= in.measure.seen;
	if (n)
		*bits = hpcc_measure_end(&flow->algo, &flow->params, &in.measure);
	return n;
}
EXPORT_SYMBOL_GPL(hpcc_mailbox_drain);

/* Store a hop's record, unless the mailbox has a newer record: ACKs may be reordered. */
static void hpcc_mail_put(u64 *place, u64 word, u8 scale)
{
	u64 old = READ_ONCE(*place);
	u64 last = 1ULL << HPCC_COUNTER_BITS | (old >> HPCC_WORD_TS_SHIFT & HPCC_COUNTER_MASK);

	word &= ~HPCC_WORD_HOP_MASK;
	word |= (u64)(scale % HPCC_SCALE_CLASSES + 1) << HPCC_WORD_HOP_SHIFT;
	/* Times are comparable only with the same scale and link. */
	if (old && !((old ^ word) >> HPCC_WORD_TAG_SHIFT) &&
	    hpcc_counter_extend(last, word >> HPCC_WORD_TS_SHIFT) < last)
		return;
	WRITE_ONCE(*place, word);
}

/* Mark the hops of a map as quiet: store @word, shifted by @step for each hop. */
static void hpcc_put_map(u64 *place, u32 map, u64 word, u32 step)
{
	for (; map; map >>= 1, place++, word <<= step)
		if (map & 1)
			WRITE_ONCE(*place, word);
}

/**
 * hpcc_echo_in() - put echoed load records into the mailbox
 * @flow: a flow
 * @opt: head of the option, its scale one of @flow->scales
 * @records: its records, all of which fit (hpcc_opt_misfits())
 *
 * Context: LOCAL_IN.
 */
void hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records)
{
	u32 i, hop;
	u64 word;

	for (i = 0; i < opt->nr; i++) {
		word = get_unaligned_be64(records + i * HPCC_RECORD_LEN);
		hop = word >> HPCC_WORD_HOP_SHIFT;
		if (hop)
			hpcc_mail_put(&flow->mail[hop - 1], word, opt->scale);
		else
			hpcc_put_map(flow->mail, word >> HPCC_WORD_MAP_SHIFT, HPCC_WORD_QUIET, 0);
	}
	if (READ_ONCE(flow->hops) == opt->hops)
		return;
	/* The path got longer or shorter: drop the records of hops beyond its end. */
	hpcc_words_clear(flow->mail, opt->hops);
	WRITE_ONCE(flow->hops, opt->hops);
	hpcc_path_resize(flow, opt->hops);
}
EXPORT_SYMBOL_GPL(hpcc_echo_in);

/* The low 24 bits of echo.head describe all records in hpcc_flow.echo. The upper 8 bits count
 * changes: hpcc_echo_write() then also notices a head that changed and changed back.
 */
#define HPCC_HEAD_MASK	0xffffffU

static u32 hpcc_head_pack(const struct hpcc_opt *opt)
{
	return opt->type << 16 | opt->scale << 8 | opt->hops;
}

static void hpcc_head_unpack(u32 head, struct hpcc_opt *opt)
{
	opt->type = head >> 16;
	opt->scale = head >> 8;
	opt->hops = head;
}

/**
 * hpcc_forward_in() - store the records of a request until they can be echoed
 * @flow: a flow
 * @opt: head of the option, FORWARD or IDENTIFY
 * @records: its records, all of which fit (hpcc_opt_misfits())
 * @nodes: records of the nodes of a trace, which follow the hops that @opt counts
 * @nr: number of @nodes
 *
 * Identities replace load records, because identities are rare.
 * Context: LOCAL_IN.
 */
void hpcc_forward_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records, const u8 *nodes, u32 nr)
{
	u32 old = READ_ONCE(flow->echo.head);
	u32 head = hpcc_head_pack(opt) + nr;
	struct hpcc_opt waits;
	bool full = true;
	u32 written = 0;
	u32 i, hop;
	u64 word;

	hpcc_prompt_in(flow, opt);
	/* Echo identities to the peer, even if this end computes the peer's W. */
	if (unlikely(opt->type == HPCC_OPT_IDENTIFY))
		hpcc_echo_reserve(flow, false);
	if (unlikely((old ^ head) & HPCC_HEAD_MASK)) {
		hpcc_head_unpack(old, &waits);
		if (waits.type == HPCC_OPT_IDENTIFY &&
		    opt->type == HPCC_OPT_FORWARD && hpcc_echo_pending(flow))
			return;
		hpcc_words_clear(flow->echo.records, 0);
		/* If a reader sees the new head, it sees no older word. */
		smp_wmb();
		WRITE_ONCE(flow->echo.head, head | ((old | HPCC_HEAD_MASK) + 1));
		/* If hpcc_echo_write() sees one of the words below, it also sees their head. */
		smp_wmb();
	}
	for (i = 0; i < opt->nr; i++) {
		word = get_unaligned_be64(records + i * HPCC_RECORD_LEN);
		hop = word >> HPCC_WORD_HOP_SHIFT;
		if (!hop) {
			full = false;
			continue;
		}
		written |= BIT(hop - 1);
		WRITE_ONCE(flow->echo.records[hop - 1], word);
	}
	for (i = 0; i < nr; i++)
		WRITE_ONCE(flow->echo.records[opt->hops + i],
			   get_unaligned_be64(nodes + i * HPCC_RECORD_LEN));
	if (opt->type == HPCC_OPT_FORWARD && flow->caps & HPCC_CAP_QUIET)
		hpcc_put_map(flow->echo.records, hpcc_phase_quiet(opt, written, full),
			     1ULL << HPCC_WORD_MAP_SHIFT, 1);
}
EXPORT_SYMBOL_GPL(hpcc_forward_in);

/* Add all stored quiet marks to @map, the mark of one hop, except for hops in @written. */
static u64 hpcc_echo_map(struct hpcc_flow *flow, u64 map, u32 written)
{
	u64 *records = flow->echo.records;
	u64 word;
	int i;

	for (i = 0; i < HPCC_HOPS_MAX; i++) {
		word = READ_ONCE(records[i]);
		if (word && !(written & BIT(i)) && !(word & HPCC_WORD_HOP_MASK) &&
		    cmpxchg(&records[i], word, 0) == word)
			map |= word;
	}
	return map;
}

/* Write an echo. If not all records fit, the hops take turns, even if newer records arrive in
 * between. At the turn of a quiet hop the echo gets all quiet marks. @room: maximum length of the
 * echo, bytes. Context: LOCAL_OUT. Return: length of the echo; 0 if there are no records, or if no
 * record fits.
 */
u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room)
{
	u32 head = READ_ONCE(flow->echo.head);
	u32 at = READ_ONCE(flow->echo.next);
	struct hpcc_opt opt = {};
	u32 written = 0;
	u32 slots, i;
	u64 word;

	hpcc_head_unpack(head, &opt);
	if (room < hpcc_opt_len(1))
		return 0;
	slots = (room - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;
	for (i = 0; i < opt.hops && opt.nr < slots; i++, at++) {
		if (at >= opt.hops)
			at = 0;
		/* Another CPU may store a new record of a hop that this echo already has. */
		if (written & BIT(at) || !READ_ONCE(flow->echo.records[at]))
			continue;
		word = xchg(&flow->echo.records[at], 0);
		if (!word)
			continue;
		written |= BIT(at);
		if (!(word & HPCC_WORD_HOP_MASK)) {
			word = hpcc_echo_map(flow, word, written);
			written |= word >> HPCC_WORD_MAP_SHIFT;
		}
		put_unaligned_be64(word, p + hpcc_opt_len(opt.nr));
		opt.nr++;
	}
	/* If the head changed, the words may belong to the new head. */
	if (!opt.nr || READ_ONCE(flow->echo.head) != head)
		return 0;
	WRITE_ONCE(flow->echo.next, at);
	opt.type = opt.type == HPCC_OPT_IDENTIFY ? HPCC_OPT_IDENTIFY_ECHO : HPCC_OPT_ECHO;
	hpcc_opt_encode(p, flow->kind, &opt);
	return hpcc_opt_len(opt.nr);
}

/**
 * hpcc_report_write() - write a REPORT, and count it
 * @flow: a flow
 * @p: hpcc_opt_len(@nr) bytes
 * @records: records of the REPORT
 * @nr: number of @records
 * Context: LOCAL_OUT.
 * Return: length of the REPORT, bytes.
 */
u32 hpcc_report_write(const struct hpcc_flow *flow, u8 *p, const u64 *records, u8 nr)
{
	const struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = nr };
	u32 i;

	hpcc_count_rcu(sock_net(flow->sk), HPCC_C_REPORT_SENT);
	hpcc_opt_encode(p, flow->kind, &opt);
	for (i = 0; i < nr; i++)
		put_unaligned_be64(records[i], p + hpcc_opt_len(i));
	return hpcc_opt_len(nr);
}
EXPORT_SYMBOL_GPL(hpcc_report_write);

/**
 * hpcc_echo_drain() - process the load records of the peer's requests, for the peer's W
 * @sk: socket, under its lock
 * @flow: its flow
 * @in: state that processes the records; the function sets its hops
 * @leave: do not remove the records, so that LOCAL_OUT can echo them later
 * @bits: set to enum hpcc_ack_bits, if there were samples
 * Return: the number of samples.
 */
u32 hpcc_echo_drain(struct sock *sk, struct hpcc_flow *flow, struct hpcc_intake *in, bool leave,
		    u32 *bits)
{
	u32 head = READ_ONCE(flow->echo.head);
	struct hpcc_opt opt;
	u32 n = 0;
	u32 i;
	u64 word;

	hpcc_head_unpack(head, &opt);
	if (opt.type != HPCC_OPT_FORWARD || !hpcc_words_pending(flow->echo.records, opt.hops) ||
	    !hpcc_links_for(sk, in->algo, opt.hops))
		return 0;
	in->hops = opt.hops;
	hpcc_algo_trim(in->algo, opt.hops);
	for (i = 0; i < opt.hops; i++) {
		word = leave ? READ_ONCE(flow->echo.records[i]) : xchg(&flow->echo.records[i], 0);
		/* Pairs with hpcc_forward_in(). */
		smp_rmb();
		/* If the head changed, the words may belong to the new head. */
		if (!word || READ_ONCE(flow->echo.head) != head)
			continue;
		if (word & HPCC_WORD_HOP_MASK) {
			n += hpcc_take_record(in, i, word, opt.scale);
		} else {
			hpcc_take_quiet(in, i);
			n++;
		}
	}
	if (n)
		*bits = hpcc_measure_end(in->algo, in->params, &in->measure);
	return n;
}
EXPORT_SYMBOL_GPL(hpcc_echo_drain);
