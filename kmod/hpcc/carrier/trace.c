// SPDX-License-Identifier: GPL-2.0
/*
 * What a receiver of IOAM traces, INT stacks and IFA stacks keeps of a path, and how the records of
 * a stack reach the echo.
 */
#include <linux/slab.h>
#include <net/tcp.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/carrier/int.h>
#include <hpcc/carrier/ioam.h>

#include "carrier/carrier.h"
#include "telemetry/mailbox.h"

/**
 * hpcc_trace_rx() - state of a receiver for a path
 * @flow: a flow
 * @net: its network namespace
 *
 * Context: RCU read side, with a reference to the socket.
 * Return: the state, allocated at the first call; NULL if there is no memory.
 */
struct hpcc_trace_rx *hpcc_trace_rx(struct hpcc_flow *flow, const struct net *net)
{
	struct hpcc_trace_rx *rx = rcu_dereference(flow->trace_rx);
	struct hpcc_trace_rx *old;

	if (likely(rx))
		return rx;
	rx = hpcc_flow_zalloc(flow->sk, sizeof(*rx));
	if (!rx) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return NULL;
	}
	spin_lock_init(&rx->lock);
	old = unrcu_pointer(cmpxchg(&flow->trace_rx, NULL, RCU_INITIALIZER(rx)));
	if (!old)
		return rx;
	kfree(rx);
	return old;
}

/**
 * hpcc_trace_begin() - prepare for the records of a trace
 * @rx: state of the path, locked
 * @carrier: carrier of the trace
 *
 * If the carrier has changed, all links start anew.
 */
void hpcc_trace_begin(struct hpcc_trace_rx *rx, enum hpcc_carrier carrier)
{
	int hop;

	if (rx->carrier == carrier)
		return;
	rx->carrier = carrier;
	for (hop = 0; hop < rx->hops; hop++)
		rx->link[hop].bps = 0;
}

/**
 * hpcc_trace_end() - finish a trace that was taken in
 * @rx: state of the path, locked
 * @hops: number of nodes in the trace
 * @now_ns: arrival time of the trace
 */
void hpcc_trace_end(struct hpcc_trace_rx *rx, int hops, u64 now_ns)
{
	int hop;

	/* The age of links beyond the end of this trace is not tracked: they start anew. */
	for (hop = hops; hop < rx->hops; hop++)
		rx->link[hop].bps = 0;
	rx->hops = hops;
	rx->seen_ns = now_ns;
}

/**
 * hpcc_hops_in() - store the records of an INT or IFA stack until they can be echoed
 * @flow: a flow
 * @in: the segment, with a stack of its carrier
 * @opt: head of its FORWARD
 *
 * Store all hops or none: if some hops are unknown, one of them may be the loaded one.
 *
 * Context: LOCAL_IN.
 */
void hpcc_hops_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		  const struct hpcc_opt *opt)
{
	const struct net *net = in->state->net;
	struct hpcc_trace_rx *rx = hpcc_trace_rx(flow, net);
	u8 records[HPCC_IOAM_NODES_MAX * HPCC_RECORD_LEN];
	struct hpcc_opt all = *opt;
	enum hpcc_counter why;
	int hops;

	BUILD_BUG_ON(sizeof(records) < HPCC_INT_NODES_MAX * HPCC_RECORD_LEN);
	BUILD_BUG_ON(sizeof(records) < HPCC_IFA_NODES_MAX * HPCC_RECORD_LEN);
	if (!rx)
		return;
	hpcc_prompt_in(flow, opt);
	spin_lock_bh(&rx->lock);
	hops = in->carrier == HPCC_CARRIER_INT ? hpcc_int_records(rx, in, opt, records, &why) :
						 hpcc_ifa_records(rx, in, opt, records, &why);
	spin_unlock_bh(&rx->lock);
	hpcc_count_rcu(net, why);
	if (hops <= 0)
		return;
	all.hops = hops;
	all.nr = hops;
	hpcc_forward_in(flow, &all, records, NULL, 0);
}
