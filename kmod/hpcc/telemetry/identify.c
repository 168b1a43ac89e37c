// SPDX-License-Identifier: GPL-2.0
/*
 * Who the links of a path are, while somebody wants to know.
 *
 * The law needs no names: a record has a tag that tells one link from another. Names come in
 * the answers to IDENTIFY, each of which takes the place of a FORWARD. So IDENTIFY is sent, and
 * the answers are kept, only for HPCC_PATHS_ASK_S seconds after somebody with rights in the
 * connection's network namespace asked by netlink:
 *
 *	the first request		each flow, and each that is born from then on, gets a
 *					struct hpcc_path
 *	telemetry begins, path changes	all its links are asked (hpcc_path_ask())
 *	path gets longer or shorter	those without a name are asked (hpcc_path_resize())
 *	nobody has asked for so long	it is freed
 *
 * hpcc_net.path_lock orders requests and their end. hpcc_flow.path is written under
 * hpcc_flow.lock, and read under RCU. A flow without one, for want of memory, has a path that
 * nobody knows.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <hpcc/compat.h>

#include "netns/net.h"
#include "telemetry/identify.h"

/* IDENTIFY for each option's worth of hops: twice, as one may be lost. Then, for
 * each hop that did not answer, some more; a switch may not know the answer.
 */
static const u8 hpcc_identify_tries = 2;
static const u8 hpcc_identify_again = 64;

/* ---- One flow ---------------------------------------------------------- */

/* Ask the links of a path of @hops hops, and forget those from @known on. */
static void hpcc_path_set(const struct hpcc_flow *flow, struct hpcc_path *path,
			  u32 known, u32 hops)
{
	u32 i;

	for (i = known; i < HPCC_HOPS_MAX; i++)
		WRITE_ONCE(path->identity[i], 0);
	WRITE_ONCE(path->left, hpcc_identify_tries * DIV_ROUND_UP(hops, flow->slots));
	WRITE_ONCE(path->again, hops ? hpcc_identify_again : 0);
}

/* Ask all links, and forget what they said. */
static void hpcc_path_begin(const struct hpcc_flow *flow, struct hpcc_path *path)
{
	hpcc_path_set(flow, path, 0, READ_ONCE(flow->hops));
}

/* Give @flow a path, if it has none and somebody still asks. */
static void hpcc_path_attach(struct hpcc_net *hn, struct hpcc_flow *flow, gfp_t gfp)
{
	struct hpcc_path *path;

	path = kzalloc(sizeof(*path), gfp | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!path)
		return;
	spin_lock_bh(&flow->lock);
	if (READ_ONCE(hn->identify_active) && !rcu_access_pointer(flow->path)) {
		rcu_assign_pointer(flow->path, path);
		/* If telemetry begins now, hpcc_path_ask() may not have seen it. */
		hpcc_path_begin(flow, path);
		WRITE_ONCE(flow->identify_active, true);
		path = NULL;
	}
	spin_unlock_bh(&flow->lock);
	kfree(path);
}

static void hpcc_path_detach(struct hpcc_net *hn, struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	spin_lock_bh(&flow->lock);
	WRITE_ONCE(flow->identify_active, false);
	path = rcu_replace_pointer(flow->path, NULL,
				   lockdep_is_held(&flow->lock));
	spin_unlock_bh(&flow->lock);
	if (path)
		kfree_rcu(path, rcu);
}

/**
 * hpcc_path_flow_added() - a flow is in its namespace's array from now on
 * @net: network namespace
 * @flow: the flow
 *
 * Context: does not sleep.
 */
void hpcc_path_flow_added(struct net *net, struct hpcc_flow *flow)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	/* Either this sees the request, or the request sees the flow: hpcc_paths_ask(). */
	smp_mb();
	if (READ_ONCE(hn->identify_active))
		hpcc_path_attach(hn, flow, GFP_ATOMIC);
}

/**
 * hpcc_path_ask() - ask who the links are, if somebody wants to know
 * @flow: a flow, whose telemetry begins or whose path has changed
 */
void hpcc_path_ask(struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	rcu_read_lock();
	path = rcu_dereference(flow->path);
	if (path)
		hpcc_path_begin(flow, path);
	rcu_read_unlock();
}

/**
 * hpcc_path_resize() - a path got longer or shorter
 * @flow: its flow
 * @hops: hops of the path now
 *
 * Forget the links behind its end, and ask for those that are new.
 *
 * Context: LOCAL_IN.
 */
void hpcc_path_resize(struct hpcc_flow *flow, u32 hops)
{
	struct hpcc_path *path = rcu_dereference(flow->path);

	if (path)
		hpcc_path_set(flow, path, hops, hops);
}

/**
 * hpcc_path_in() - take in what the links of a path said of themselves
 * @flow: a flow
 * @opt: head of the option
 * @records: its records, all of which fit (hpcc_opt_misfits())
 *
 * Context: LOCAL_IN.
 */
void hpcc_path_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		  const u8 *records)
{
	struct hpcc_path *path = rcu_dereference(flow->path);
	const u8 *end = records + opt->nr * HPCC_RECORD_LEN;

	if (!path)
		return;
	for (; records < end; records += HPCC_RECORD_LEN)
		WRITE_ONCE(path->identity[hpcc_slot_hop(records) - 1], get_unaligned_be64(records));
}

/* ---- All flows of a namespace ------------------------------------------ */

/* For how many seconds one request has links asked. */
#define HPCC_PATHS_ASK_S	10

static void hpcc_paths_each(struct hpcc_net *hn,
			    void (*call)(struct hpcc_net *hn, struct hpcc_flow *flow))
{
	struct hpcc_flow *flow;
	unsigned long id = 0;

	smp_mb();	/* hpcc_path_flow_added() */
	do {
		rcu_read_lock();
		flow = hpcc_flow_from(hn, &id);
		if (flow)
			call(hn, flow);
		rcu_read_unlock();
		id++;
		cond_resched();
	} while (flow);
}

static void hpcc_path_attach_now(struct hpcc_net *hn, struct hpcc_flow *flow)
{
	if (!rcu_access_pointer(flow->path))
		hpcc_path_attach(hn, flow, GFP_NOWAIT);
}

/**
 * hpcc_paths_ask() - ask who the links of all paths are, for HPCC_PATHS_ASK_S seconds from now on
 * @net: network namespace
 *
 * Context: sleeps.
 */
void hpcc_paths_ask(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	mutex_lock(&hn->path_lock);
	hn->path_until = jiffies + HPCC_PATHS_ASK_S * HZ;
	WRITE_ONCE(hn->identify_active, true);
	hpcc_paths_each(hn, hpcc_path_attach_now);
	queue_delayed_work(system_dfl_wq, &hn->path_end, HPCC_PATHS_ASK_S * HZ);
	mutex_unlock(&hn->path_lock);
}

/* HPCC_PATHS_ASK_S after a request: stop asking, or wait for the end of a later request. It goes
 * through all flows, so it runs where it does not keep other work of a CPU waiting.
 */
static void hpcc_paths_end(struct work_struct *work)
{
	struct hpcc_net *hn = container_of(to_delayed_work(work), struct hpcc_net, path_end);

	mutex_lock(&hn->path_lock);
	if (time_before(jiffies, hn->path_until)) {
		queue_delayed_work(system_dfl_wq, &hn->path_end, hn->path_until - jiffies);
	} else {
		WRITE_ONCE(hn->identify_active, false);
		hpcc_paths_each(hn, hpcc_path_detach);
	}
	mutex_unlock(&hn->path_lock);
}

/**
 * hpcc_paths_init() - nobody asks yet
 * @hn: state of a network namespace
 */
void hpcc_paths_init(struct hpcc_net *hn)
{
	mutex_init(&hn->path_lock);
	INIT_DELAYED_WORK(&hn->path_end, hpcc_paths_end);
}

/**
 * hpcc_paths_exit() - nobody can ask any more
 * @hn: state of a network namespace
 *
 * Context: sleeps.
 */
void hpcc_paths_exit(struct hpcc_net *hn)
{
	cancel_delayed_work_sync(&hn->path_end);
}
