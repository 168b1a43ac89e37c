// SPDX-License-Identifier: GPL-2.0
/*
 * State of a path at a receiver of traces and stacks, and conversion of their hops to load records.
 */
#include <linux/export.h>
#include <linux/slab.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/carrier/int.h>
#include <hpcc/carrier/ioam.h>

#include "carrier/carrier.h"
#include "telemetry/mailbox.h"

/* State of a receiver for a path with traces or stacks. */
struct hpcc_trace_rx {
	spinlock_t lock;	/* covers the other members */
	u64 seen_ns;		/* arrival time of the last valid trace */
	int hops;		/* nodes of that trace, or of a later, longer, invalid trace */
	u8 id;			/* enum hpcc_carrier of the trace or stack that filled @link */
	/* By hop - 1. From index @hops on bps is 0: no history. */
	struct hpcc_trace_link link[HPCC_IOAM_NODES_MAX];
};

static_assert(HPCC_IOAM_NODES_MAX >= HPCC_INT_NODES_MAX);
static_assert(HPCC_IOAM_NODES_MAX >= HPCC_IFA_NODES_MAX);

/* State of a receiver for a path, allocated at the first call; NULL if there is no memory. The
 * caller has a reference to the socket.
 */
static struct hpcc_trace_rx *hpcc_trace_rx(struct hpcc_flow *flow, const struct net *net)
{
	struct hpcc_trace_rx *rx = rcu_dereference(flow->carrier_private.trace_rx);

	if (likely(rx))
		return rx;
	rx = hpcc_flow_zalloc(flow->sk, sizeof(*rx));
	if (!rx) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return NULL;
	}
	spin_lock_init(&rx->lock);
	return hpcc_publish_once(&flow->carrier_private.trace_rx, rx);
}

/* The links from hop @from + 1 on start anew. */
static void hpcc_trace_restart(struct hpcc_trace_rx *rx, int from)
{
	int hop;

	for (hop = from; hop < rx->hops; hop++)
		rx->link[hop].bps = 0;
}

/* Make load records of the hops of a trace. Return: 0, or the error of hop() for the first hop
 * without a record.
 */
static int hpcc_trace_records(struct hpcc_trace_rx *rx, struct hpcc_trace *t, u8 *records)
{
	struct hpcc_record r;
	int nr, err;

	t->now_ns = ktime_get_ns();
	t->age_ns = t->now_ns - rx->seen_ns;
	if (rx->id != t->ops->id)
		hpcc_trace_restart(rx, 0);
	rx->id = t->ops->id;
	for (nr = 1; nr <= t->hops; nr++) {
		err = t->ops->hop(t, nr, &rx->link[nr - 1], &r);
		if (err) {
			rx->hops = max(rx->hops, nr);
			return err;
		}
		hpcc_record_encode(records + (nr - 1) * HPCC_RECORD_LEN, &r);
	}
	/* The age of links beyond the end of this trace is not tracked. */
	hpcc_trace_restart(rx, t->hops);
	rx->hops = t->hops;
	rx->seen_ns = t->now_ns;
	return 0;
}

/**
 * hpcc_trace_in() - make load records of the hops of a trace or a stack
 * @flow: a flow
 * @in: the segment
 * @opt: head of the segment's FORWARD
 * @t: the trace; @ops, @p, @head, @hops and @before are set
 * @records: result, with room for HPCC_IOAM_NODES_MAX records
 *
 * If one hop is unknown, there are no records at all: it may be the loaded hop. A trace without
 * hops counts as received, but gives no information.
 * Context: LOCAL_IN.
 * Return: whether there are records.
 */
bool hpcc_trace_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		   const struct hpcc_opt *opt, struct hpcc_trace *t, u8 *records)
{
	struct hpcc_trace_rx *rx;
	int err = -EINVAL;

	t->net = in->state->net;
	t->scale = opt->scale;
	if (t->hops > 0 && t->before + t->hops <= HPCC_HOPS_MAX) {
		rx = hpcc_trace_rx(flow, t->net);
		if (!rx)
			return false;
		spin_lock_bh(&rx->lock);
		err = hpcc_trace_records(rx, t, records);
		spin_unlock_bh(&rx->lock);
	}
	hpcc_count_rcu(t->net, !err || !t->hops ? t->ops->received :
			       err == -ENOENT ? t->ops->unknown_link : t->ops->ignored);
	return !err;
}
EXPORT_SYMBOL_GPL(hpcc_trace_in);

/**
 * hpcc_stack_pull() - store the records of a stack until they can be echoed
 * @flow: a flow
 * @in: the segment, with a stack
 * @opt: head of the segment's FORWARD
 * @t: the stack, as for hpcc_trace_in()
 * Context: LOCAL_IN.
 */
void hpcc_stack_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, struct hpcc_trace *t)
{
	u8 records[HPCC_IOAM_NODES_MAX * HPCC_RECORD_LEN];
	struct hpcc_opt all = *opt;

	hpcc_prompt_in(flow, opt);
	if (!hpcc_trace_in(flow, in, opt, t, records))
		return;
	all.hops = t->hops;
	all.nr = t->hops;
	hpcc_forward_in(flow, &all, records, NULL, 0);
}
EXPORT_SYMBOL_GPL(hpcc_stack_pull);
