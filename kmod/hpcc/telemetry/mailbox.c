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
 * A load record is 8 bytes on the wire, so it moves as one word, which no lock has to
 * cover: who writes stores the newest one, who reads takes it out with xchg(). 0 is an empty
 * word.
 *
 * In the mailbox the word's place tells the hop, so that its 4 bits are free for the scale of
 * the unit: scale modulo 15, plus 1. hpcc_flow.scales never has two scales of one remainder.
 *
 * A quiet hop is a word, too, whose first 4 bits are 0, so a newer record takes its place as it
 * takes its. In an echo one record has the map of all of them (uapi/linux/hpcc.h), and each
 * waits as the map that has it alone.
 *
 * Words that wait for an echo are as they came. All of them have one scale, that of
 * hpcc_flow.echo_head; a request with another one empties them first. Two CPUs that run
 * LOCAL_IN for one flow at once may mix words of two heads: then one sample is wrong.
 */
#include <linux/slab.h>
#include <net/tcp.h>

#include "netns/net.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"

/* Counters that wrap after 128 T tell nothing about an interval beyond half
 * of that.
 */
static const u32 hpcc_base_age_T = 64;

#define HPCC_WORD_HOP_SHIFT	60
#define HPCC_WORD_TAG_SHIFT	52
#define HPCC_WORD_TS_SHIFT	32
#define HPCC_WORD_HOP_MASK	(0xfULL << HPCC_WORD_HOP_SHIFT)
#define HPCC_WORD_MAP_SHIFT	45
/* In the mailbox, where all records have a scale. */
#define HPCC_WORD_QUIET		1ULL

/* ---- From LOCAL_IN to the algorithm -------------------------------------- */

/**
 * hpcc_set_scale() - let requests have another scale from now on
 * @flow: a flow, under its socket's lock
 * @scale: the scale
 *
 * Echoes of the scales before it are accepted as well, but for one that the mailbox would
 * take for @scale: then what waits there is void.
 */
void hpcc_set_scale(struct hpcc_flow *flow, u8 scale)
{
	u32 scales = flow->scales | BIT(scale);
	u32 i;

	for (i = scale % HPCC_SCALE_CLASSES; i <= HPCC_SCALE_MAX;
	     i += HPCC_SCALE_CLASSES)
		if (i != scale)
			scales &= ~BIT(i);
	if (flow->scales & ~scales)
		for (i = 0; i < HPCC_HOPS_MAX; i++)
			WRITE_ONCE(flow->mail[i], 0);
	WRITE_ONCE(flow->scales, scales);
	WRITE_ONCE(flow->scale, scale);
}

/* The scale of a word in the mailbox; beyond HPCC_SCALE_MAX: T changed meanwhile. */
static u32 hpcc_word_scale(const struct hpcc_flow *flow, u64 word)
{
	u32 scale = (word >> HPCC_WORD_HOP_SHIFT) - 1;

	while (scale <= HPCC_SCALE_MAX && !(flow->scales & BIT(scale)))
		scale += HPCC_SCALE_CLASSES;
	return scale;
}

/* Whether a record comes too soon after the hop's last one. Between neighbours
 * d(tx)/d(ts) tells how packets bunch, not how loaded a link is; and the
 * maximum over several links takes the worst of that noise for load.
 */
static bool hpcc_too_soon(const struct hpcc_intake *in, u64 dts_ns)
{
	return in->hops > 1 && in->hop_records &&
	       dts_ns * in->hop_records < in->params->T;
}

/* Whether the hop's last record is too old to go on from, next to @r of the same link and
 * of 2^@scale ns.
 *
 * Where packets wait on their way back (a virtual machine that stands still), the
 * counter may have wrapped since, so that a newer record looks older. We accept "older"
 * only if both segments were sent within the span.
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
	       (age_us + link->rtt_us) * NSEC_PER_USEC >
	       span_ns + (u64)in->rtt_us * NSEC_PER_USEC;
}

/* Turn a record into a sample: unwrap the counters next to those that the
 * algorithm holds for the hop, in units, then convert to ns. What it ignored
 * leaves no trace here.
 *
 * Return: false where the record is a copy of the last one, as a TSO burst
 * makes of its header, or comes too soon after it. A copy stays one however old
 * the baseline is: who repeats the same record for ever tells nothing.
 */
static bool hpcc_sample(struct hpcc_intake *in, u32 i, const struct hpcc_record *r, u32 scale,
			struct hpcc_sample *s)
{
	struct hpcc_link *link = &in->algo->L[i];
	/* High enough to count back from. */
	u64 ts = (1ULL << (2 * HPCC_COUNTER_BITS)) | r->ts;
	u64 tx = (1ULL << (2 * HPCC_COUNTER_BITS)) | r->tx;
	bool known = link->valid && link->tag == r->tag;
	u64 dts_ns, age_ns;

	if (known && link->scale == scale &&
	    !((link->ts >> scale ^ r->ts) & HPCC_COUNTER_MASK))
		return false;
	if (known && hpcc_base_void(in, i, r, scale)) {
		hpcc_algo_forget_hop(in->algo, i + 1);
		known = false;
	}
	/* Another link's counters have nothing to do with these: the algorithm
	 * sees the tag, and begins anew.
	 */
	if (known) {
		ts = hpcc_counter_extend(link->ts >> scale, r->ts);
		tx = hpcc_counter_extend(link->tx >> scale, r->tx);
		dts_ns = (ts << scale) - link->ts;
		if (hpcc_too_soon(in, dts_ns)) {
			/* Such a record is telemetry, unless its clock stands still. */
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

/* Hop @i + 1 says that it is quiet. */
static void hpcc_take_quiet(struct hpcc_intake *in, u32 i)
{
	struct hpcc_link *link = &in->algo->L[i];

	hpcc_measure_quiet(in->algo, in->params, i + 1,
			   (in->now_us - link->seen_us) * NSEC_PER_USEC, &in->measure);
	link->seen_us = in->now_us;
}

/* Take in a record of hop @i + 1, in units of 2^@scale ns. Return: whether a sample was taken
 * in.
 */
static bool hpcc_take_record(struct hpcc_intake *in, u32 i, u64 word, u32 scale)
{
	struct hpcc_sample s;
	struct hpcc_record r;

	hpcc_record_unpack(word, &r);
	if (!hpcc_sample(in, i, &r, scale, &s))
		return false;
	/* What the algorithm ignores leaves no trace here. */
	if (!(hpcc_measure_link(in->algo, in->params, &s, &in->measure) &
	      (HPCC_ACK_TS_BACK | HPCC_ACK_TX_EXCESS))) {
		in->algo->L[i].seen_us = in->now_us;
		in->algo->L[i].rtt_us = in->rtt_us;
	}
	return true;
}

/* Take the record of hop @i + 1 out of the mailbox. Return: whether a sample of it was
 * taken in.
 */
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

/* Have a link for each of @hops. Links stay when the path gets shorter. */
static bool hpcc_links_for(struct sock *sk, struct hpcc_algo *a, u32 hops)
{
	struct hpcc_link *old = a->L;
	struct hpcc_link *L;

	/* kzalloc() keeps what is 64 bytes long within a cache line. */
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
 * hpcc_mailbox_drain() - take in the records that wait (MeasureInflight)
 * @sk: socket, under its lock
 * @flow: its flow; @flow->skipped is set to whether records came too soon after others
 * @rtt_us: RTT of the ACK
 * @bits: set to enum hpcc_ack_bits, if there were samples
 *
 * Where there is no memory for links, records wait. To ack.c that is silence.
 *
 * Return: how many samples there were.
 */
u32 hpcc_mailbox_drain(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits)
{
	struct hpcc_intake in = {
		.algo = &flow->algo,
		.params = &flow->params,
		.now_us = tcp_sk(sk)->tcp_mstamp,
		.rtt_us = rtt_us,
		.hops = READ_ONCE(flow->hops),
		.hop_records = flow->hop_records,
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

/* Store a hop's record, unless a newer one waits: ACKs may be reordered. */
static void hpcc_mail_put(u64 *place, u64 word, u8 scale)
{
	u64 old = READ_ONCE(*place);
	u64 last = 1ULL << HPCC_COUNTER_BITS |
		   (old >> HPCC_WORD_TS_SHIFT & HPCC_COUNTER_MASK);

	word &= ~HPCC_WORD_HOP_MASK;
	word |= (u64)(scale % HPCC_SCALE_CLASSES + 1) << HPCC_WORD_HOP_SHIFT;
	/* Of the same scale and link. */
	if (old && !((old ^ word) >> HPCC_WORD_TAG_SHIFT) &&
	    hpcc_counter_extend(last, word >> HPCC_WORD_TS_SHIFT) < last)
		return;
	WRITE_ONCE(*place, word);
}

/* Store that the hops of a map are quiet: @word, shifted by @step for each hop. */
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
void hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		  const u8 *records)
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
	/* The path got longer or shorter: records of hops behind its end are void. */
	for (i = opt->hops; i < HPCC_HOPS_MAX; i++)
		WRITE_ONCE(flow->mail[i], 0);
	WRITE_ONCE(flow->hops, opt->hops);
	hpcc_path_resize(flow, opt->hops);
}

/* ---- From LOCAL_IN to LOCAL_OUT -------------------------------------------- */

/* What the records that wait have in common, and how often that has changed, so that
 * hpcc_echo_write() sees when it changed and changed back.
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
 * hpcc_forward_in() - keep the records of a request until they can be echoed
 * @flow: a flow
 * @opt: head of the option, FORWARD or IDENTIFY
 * @records: its records, all of which fit (hpcc_opt_misfits())
 * @nodes: records of hops that do not count in @opt, as of one behind the last that does
 * @nr: how many
 *
 * Of each hop the newest record waits, or that it is quiet. Load records give way to
 * identities, which come seldom.
 *
 * Context: LOCAL_IN.
 */
void hpcc_forward_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records, const u8 *nodes, u32 nr)
{
	u32 old = READ_ONCE(flow->echo_head);
	u32 head = hpcc_head_pack(opt) + nr;
	struct hpcc_opt waits;
	bool full = true;
	u32 told = 0;
	u32 i, hop;
	u64 word;

	hpcc_prompt_in(flow, opt);
	/* Who the links are is for the peer, whoever computes W. */
	if (unlikely(opt->type == HPCC_OPT_IDENTIFY))
		hpcc_echo_reserve(flow, false);
	if (unlikely((old ^ head) & HPCC_HEAD_MASK)) {
		hpcc_head_unpack(old, &waits);
		if (waits.type == HPCC_OPT_IDENTIFY &&
		    opt->type == HPCC_OPT_FORWARD && hpcc_echo_pending(flow))
			return;
		for (i = 0; i < HPCC_HOPS_MAX; i++)
			WRITE_ONCE(flow->echo[i], 0);
		/* Who sees the head sees no word of before. */
		smp_wmb();
		WRITE_ONCE(flow->echo_head, head | ((old | HPCC_HEAD_MASK) + 1));
		/* hpcc_echo_write() that sees one of the words below sees their head. */
		smp_wmb();
	}
	for (i = 0; i < opt->nr; i++) {
		word = get_unaligned_be64(records + i * HPCC_RECORD_LEN);
		hop = word >> HPCC_WORD_HOP_SHIFT;
		if (!hop) {
			full = false;
			continue;
		}
		told |= BIT(hop - 1);
		WRITE_ONCE(flow->echo[hop - 1], word);
	}
	for (i = 0; i < nr; i++)
		WRITE_ONCE(flow->echo[opt->hops + i],
			   get_unaligned_be64(nodes + i * HPCC_RECORD_LEN));
	if (opt->type == HPCC_OPT_FORWARD && flow->caps & HPCC_CAP_QUIET)
		hpcc_put_map(flow->echo, hpcc_phase_quiet(opt, told, full),
			     1ULL << HPCC_WORD_MAP_SHIFT, 1);
}

/* Add all quiet hops that wait to a map of one of them, except hops in @told, which are in the
 * echo already.
 */
static u64 hpcc_echo_map(struct hpcc_flow *flow, u64 map, u32 told)
{
	u64 *place;
	u64 word;

	for (place = flow->echo; place < flow->echo + HPCC_HOPS_MAX; place++, told >>= 1) {
		word = READ_ONCE(*place);
		if (word && !(told & 1) && !(word & HPCC_WORD_HOP_MASK) &&
		    cmpxchg(place, word, 0) == word)
			map |= word;
	}
	return map;
}

/**
 * hpcc_echo_write() - write an echo
 * @flow: a flow
 * @p: where to write it
 * @room: bytes that it may take
 *
 * Where not all records fit, and newer ones come before the rest has left, each hop has its
 * turn. In that of a quiet one all quiet ones go.
 *
 * Context: LOCAL_OUT.
 * Return: its length, 0 where nothing waits or nothing fits.
 */
u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room)
{
	u32 head = READ_ONCE(flow->echo_head);
	u32 at = READ_ONCE(flow->echo_next);
	struct hpcc_opt opt = {};
	u32 told = 0;
	u32 slots, i;
	u64 word;

	hpcc_head_unpack(head, &opt);
	if (room < hpcc_opt_len(1))
		return 0;
	slots = (room - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;
	for (i = 0; i < opt.hops && opt.nr < slots; i++, at++) {
		if (at >= opt.hops)
			at = 0;
		/* Another CPU may store a record meanwhile, of a hop that is in this echo
		 * already.
		 */
		if (told & BIT(at) || !READ_ONCE(flow->echo[at]))
			continue;
		word = xchg(&flow->echo[at], 0);
		if (!word)
			continue;
		told |= BIT(at);
		if (!(word & HPCC_WORD_HOP_MASK)) {
			word = hpcc_echo_map(flow, word, told);
			told |= word >> HPCC_WORD_MAP_SHIFT;
		}
		put_unaligned_be64(word, p + hpcc_opt_len(opt.nr));
		opt.nr++;
	}
	/* With another head the words may be of that one. */
	if (!opt.nr || READ_ONCE(flow->echo_head) != head)
		return 0;
	WRITE_ONCE(flow->echo_next, at);
	opt.type = opt.type == HPCC_OPT_IDENTIFY ? HPCC_OPT_IDENTIFY_ECHO :
						   HPCC_OPT_ECHO;
	hpcc_opt_encode(p, flow->kind, &opt);
	return hpcc_opt_len(opt.nr);
}

/**
 * hpcc_echo_drain() - take in the load records that wait to be echoed, for the peer's W
 * @sk: socket, under its lock
 * @flow: its flow
 * @in: what they are for; its hops are set
 * @leave: they are to be echoed as well
 * @bits: set to enum hpcc_ack_bits, if there were samples
 *
 * Return: how many samples there were.
 */
u32 hpcc_echo_drain(struct sock *sk, struct hpcc_flow *flow, struct hpcc_intake *in, bool leave,
		    u32 *bits)
{
	u32 head = READ_ONCE(flow->echo_head);
	struct hpcc_opt opt;
	u32 n = 0;
	u32 i;
	u64 word;

	hpcc_head_unpack(head, &opt);
	if (opt.type != HPCC_OPT_FORWARD || !hpcc_words_pending(flow->echo, opt.hops) ||
	    !hpcc_links_for(sk, in->algo, opt.hops))
		return 0;
	in->hops = opt.hops;
	hpcc_algo_trim(in->algo, opt.hops);
	for (i = 0; i < opt.hops; i++) {
		word = leave ? READ_ONCE(flow->echo[i]) : xchg(&flow->echo[i], 0);
		/* hpcc_forward_in() */
		smp_rmb();
		/* With another head the words may be of that one. */
		if (!word || READ_ONCE(flow->echo_head) != head)
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
