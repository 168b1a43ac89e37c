// SPDX-License-Identifier: GPL-2.0
/*
 * The options of an accepted segment: which of them are ours, and their effect.
 *
 * Only SYN and SYN-ACK state to which experiment an option of our kind belongs (ExID, RFC 6994). In
 * other segments an option is ours if an end of this version can write it, and if it is a request
 * or the answer to a request of this end. Any other option is counted and left in the segment.
 */
#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/integrity_ops.h"
#include "control/probe.h"
#include "control/receiver_ops.h"
#include "hook/hook.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"

/* Select the device for which census.c counts the flow. */
static void hpcc_note_device(struct hpcc_flow *flow, const struct net_device *dev)
{
	u8 device = dev->ifindex % HPCC_CENSUS_SLOTS;

	if (READ_ONCE(flow->device) != device)
		WRITE_ONCE(flow->device, device);
}

static noinline void __cold hpcc_malformed(struct hpcc_flow *flow, const struct net *net)
{
	hpcc_count(net, HPCC_C_MALFORMED_IGNORED);
	hpcc_ignored_count(flow, HPCC_IGNORED_MALFORMED, 1);
}

/* Whether an option has invalid records (hpcc_opt_misfits()). Such an option may belong to another
 * experiment.
 */
static bool hpcc_is_misfit(struct hpcc_flow *flow, const struct net *net,
			   const struct hpcc_opt *opt, const u8 *records)
{
	u32 bad = hpcc_opt_misfits(opt, records);

	if (likely(!bad))
		return false;
	hpcc_count_add(net, HPCC_C_BAD_HOP_IGNORED, bad);
	hpcc_ignored_count(flow, HPCC_IGNORED_BAD_HOP, bad);
	return true;
}

/* Return: 0, -ENOENT if this end did not request a REPORT, or -EINVAL. */
static int hpcc_report_of_any_in(struct hpcc_flow *flow, const struct net *net,
				 const struct hpcc_opt *opt, const u8 *records)
{
	const struct hpcc_receiver_ops *receiver;
	const struct hpcc_carrier_ops *carrier = hpcc_carrier_of(flow);
	bool receivers = hpcc_is_receivers(opt, records);

	if (!receivers && !READ_ONCE(flow->census.wants_N) && !carrier->report_in)
		return -ENOENT;
	if (opt->scale || opt->hops || opt->flags)
		return -EINVAL;
	if (unlikely(carrier->report_in) && carrier->report_in(flow, net, opt, records))
		return 0;
	if (receivers) {
		receiver = hpcc_receiver_of(flow);
		return receiver ? receiver->report_in(flow, net, opt, records) : -ENOENT;
	}
	return READ_ONCE(flow->census.wants_N) ? hpcc_report_in(flow, opt, records) : -ENOENT;
}

/* Return: false if the option is not ours, or malformed. */
static bool hpcc_any_report_in(struct hpcc_flow *flow, const struct net *net,
			       const struct hpcc_opt *opt, const u8 *records)
{
	int err = hpcc_report_of_any_in(flow, net, opt, records);

	if (err == -ENOENT) {
		hpcc_count_rcu(net, HPCC_C_UNAGREED_IGNORED);
	} else if (err) {
		hpcc_malformed(flow, net);
	} else {
		hpcc_count_rcu(net, HPCC_C_REPORT_RECEIVED);
		/* Two records are parameters for the peer's own data: they do not show that our
		 * options arrive.
		 */
		if (opt->nr == 1)
			hpcc_flow_count(&flow->received, 1);
	}
	return !err;
}

static bool hpcc_any_echo_in(struct hpcc_flow *flow, const struct net *net,
			     const struct hpcc_opt *opt, const u8 *records)
{
	if (!opt->nr || !(READ_ONCE(flow->scales) & BIT(opt->scale))) {
		hpcc_malformed(flow, net);
		return false;
	}
	if (unlikely(hpcc_is_misfit(flow, net, opt, records)))
		return false;
	if (opt->type == HPCC_OPT_ECHO)
		hpcc_echo_in(flow, opt, records);
	else
		hpcc_path_in(flow, opt, records);
	hpcc_count_rcu(net, HPCC_C_ECHO_RECEIVED);
	hpcc_flow_count(&flow->received, 1);
	return true;
}

static bool hpcc_request_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			    const struct hpcc_opt *opt, const u8 *records)
{
	const struct hpcc_carrier_ops *carrier = NULL;
	const struct net *net = in->state->net;

	if (unlikely(hpcc_may_be_carried(flow, in)))
		carrier = hpcc_carrier_of_request(flow, in, opt, records);
	if (unlikely(carrier) && carrier->reflects) {
		carrier->pull(flow, in, opt, records);
		return true;
	}
	if (unlikely(hpcc_is_misfit(flow, net, opt, records)))
		return false;
	if (unlikely(carrier))
		carrier->pull(flow, in, opt, records);
	else
		hpcc_forward_in(flow, opt, records, NULL, 0);
	hpcc_count_rcu(net, HPCC_C_FORWARD_RECEIVED);
	return true;
}

/* Return: whether the option is ours. */
static bool hpcc_option_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			   struct hpcc_opt *opt, const u8 *records)
{
	const struct net *net = in->state->net;

	switch (opt->type) {
	case HPCC_OPT_ANSWERED:
		/* Only switches distinguish ANSWERED from FORWARD. */
		opt->type = HPCC_OPT_FORWARD;
		fallthrough;
	case HPCC_OPT_FORWARD:
	case HPCC_OPT_IDENTIFY:
		return hpcc_request_in(flow, in, opt, records);
	case HPCC_OPT_ECHO:
	case HPCC_OPT_IDENTIFY_ECHO:
		return hpcc_any_echo_in(flow, net, opt, records);
	case HPCC_OPT_REPORT:
		return hpcc_any_report_in(flow, net, opt, records);
	default:
		hpcc_malformed(flow, net);
		return false;
	}
}

/* An option is malformed or repeats a direction, unless it is feedback whose tag is right. Return:
 * @seen after this option, with HPCC_SEEN_USE if @opt was set and the option counts.
 */
static noinline u32 hpcc_unusual_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, u32 at,
				    u32 pos, struct hpcc_opt *opt, u32 seen)
{
	const struct hpcc_integrity_ops *ops = hpcc_integrity_of(flow);
	int ret = ops ? ops->in(flow, in, at, pos, opt, seen) : -EINVAL;

	if (ret >= 0)
		return ret;
	hpcc_malformed(flow, in->state->net);
	return (seen & ~BIT(HPCC_SEEN_USE)) | BIT(HPCC_SEEN_KEEP);
}

/* Process our options of a segment: at most one of each direction. @at: result of
 * hpcc_opt_next_of(): offset of the first option of either kind, or -EINVAL. @pos: offset after
 * that option. Return: offset from which on all options are ours and may be removed; optlen: keep
 * all options.
 */
u32 hpcc_options_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, int at, u32 pos)
{
	const struct net *net = in->state->net;
	u32 tail = in->optlen;
	u32 end = ~0U;
	u32 seen = flow->unverified;

	for (; at >= 0; at = hpcc_opt_next(in->opts, in->optlen, &pos, flow->kind)) {
		struct hpcc_opt opt;
		u32 way;

		if (unlikely(in->opts[at] != flow->kind))
			continue;
		if (at != end)
			tail = at;
		end = pos;
		if (unlikely(hpcc_opt_decode(in->opts + at, pos - at, &opt) ||
			     seen & BIT(hpcc_opt_way(opt.type)))) {
			seen = hpcc_unusual_in(flow, in, at, pos, &opt, seen);
			if (!(seen & BIT(HPCC_SEEN_USE)))
				continue;
		}
		way = hpcc_opt_way(opt.type);
		if (!hpcc_option_in(flow, in, &opt, in->opts + at + HPCC_OPT_HEAD_LEN)) {
			seen |= BIT(HPCC_SEEN_KEEP);
			continue;
		}
		seen |= BIT(way);
		/* TCP's fast path does not check whether it must send an ACK immediately. */
		if (way == HPCC_WAY_FORWARD && opt.flags & HPCC_OPT_F_PROMPT)
			seen |= BIT(HPCC_SEEN_KEEP);
		if (way != HPCC_WAY_ECHO)
			hpcc_note_device(flow, in->state->in);
	}
	/* A request without data is a probe. */
	if (seen & BIT(HPCC_WAY_FORWARD) && flow->caps & HPCC_CAP_PROBES &&
	    in->skb->len == in->thoff + __tcp_hdrlen(in->th))
		hpcc_answer_later(flow);
	if (at == -EINVAL)
		hpcc_malformed(flow, net);
	return seen & BIT(HPCC_SEEN_KEEP) || end != in->optlen ? in->optlen : tail;
}

/* See hpcc_stack_in. */
void hpcc_unseen_in(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in, int at,
		    u32 pos)
{
	hpcc_options_in(flow, in, at, pos);
	hpcc_probe_arrived(sk, flow);
}
