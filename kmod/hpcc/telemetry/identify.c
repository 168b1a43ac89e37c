// SPDX-License-Identifier: GPL-2.0
/*
 * Names of the links of a path (switch_ID, port_ID, B), while they are requested.
 *
 * The window law needs no names: the tag in a record distinguishes links. Answers to IDENTIFY bring
 * names, and each IDENTIFY takes the place of a FORWARD. So flows send IDENTIFY and keep the
 * answers only for HPCC_PATHS_ASK_S seconds after a netlink request from a process with
 * CAP_NET_ADMIN in the network namespace:
 *
 *	first netlink request		allocate a struct hpcc_path for each flow, also for new ones
 *	telemetry begins, path changes	request the names of all links (hpcc_path_ask())
 *	path gets longer or shorter	request the missing names (hpcc_path_resize())
 *	no more netlink requests	free each struct hpcc_path
 *
 * hpcc_net.path_lock serializes netlink requests and their end. hpcc_flow.path is written under
 * hpcc_flow.lock, and read under RCU. If its allocation fails, the flow's links have no names.
 */
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <hpcc/compat.h>

#include "telemetry/identify.h"

/* Send IDENTIFY twice for each range of hops that one option covers, because one may be lost. Then
 * send a limited number for the links without an answer: some switches do not support IDENTIFY.
 */
static const u8 hpcc_identify_tries = 2;
static const u8 hpcc_identify_again = 64;

/* Clear the names from hop @known + 1 on, and request those of a path of @hops hops. */
static void hpcc_path_set(const struct hpcc_flow *flow, struct hpcc_path *path, u32 known, u32 hops)
{
	u32 i;

	for (i = known; i < HPCC_HOPS_MAX; i++)
		WRITE_ONCE(path->identity[i], 0);
	WRITE_ONCE(path->left, hpcc_identify_tries * DIV_ROUND_UP(hops, flow->slots));
	WRITE_ONCE(path->again, hops ? hpcc_identify_again : 0);
}

static void hpcc_path_begin(const struct hpcc_flow *flow, struct hpcc_path *path)
{
	hpcc_path_set(flow, path, 0, READ_ONCE(flow->hops));
}

/* Allocate the path of @flow, unless it exists or names are no longer requested. */
static void __cold hpcc_path_attach(struct hpcc_net *hn, struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	if (rcu_access_pointer(flow->path))
		return;
	path = kzalloc(sizeof(*path), GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!path)
		return;
	spin_lock_bh(&flow->lock);
	if (READ_ONCE(hn->identify_active) && !rcu_access_pointer(flow->path)) {
		rcu_assign_pointer(flow->path, path);
		/* If telemetry begins now, hpcc_path_ask() may have missed this path. */
		hpcc_path_begin(flow, path);
		WRITE_ONCE(flow->identify_active, true);
		path = NULL;
	}
	spin_unlock_bh(&flow->lock);
	kfree(path);
}

static void __cold hpcc_path_detach(struct hpcc_net *hn, struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	spin_lock_bh(&flow->lock);
	WRITE_ONCE(flow->identify_active, false);
	path = rcu_replace_pointer(flow->path, NULL, lockdep_is_held(&flow->lock));
	spin_unlock_bh(&flow->lock);
	if (path)
		kfree_rcu(path, rcu);
}

/* A flow was added to its namespace's array. Context: does not sleep. */
void hpcc_path_flow_added(struct net *net, struct hpcc_flow *flow)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	/* Either this CPU sees the request, or hpcc_paths_ask() sees the flow. */
	smp_mb();
	if (READ_ONCE(hn->identify_active))
		hpcc_path_attach(hn, flow);
}

/* Request the names of all links, if netlink requests them. @flow: a flow whose telemetry begins or
 * whose path has changed.
 */
void __cold hpcc_path_ask(struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	rcu_read_lock();
	path = rcu_dereference(flow->path);
	if (path)
		hpcc_path_begin(flow, path);
	rcu_read_unlock();
}

/* Clear the names after the new end of a path, and request the missing ones. Context: LOCAL_IN. */
void __cold hpcc_path_resize(struct hpcc_flow *flow, u32 hops)
{
	struct hpcc_path *path = rcu_dereference(flow->path);

	if (path)
		hpcc_path_set(flow, path, hops, hops);
}

/* Store the names in an answer to IDENTIFY. @records: its records, all of which fit
 * (hpcc_opt_misfits()). Context: LOCAL_IN.
 */
void __cold hpcc_path_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records)
{
	struct hpcc_path *path = rcu_dereference(flow->path);
	const u8 *end = records + opt->nr * HPCC_RECORD_LEN;

	if (!path)
		return;
	for (; records < end; records += HPCC_RECORD_LEN)
		WRITE_ONCE(path->identity[hpcc_slot_hop(records) - 1], get_unaligned_be64(records));
}

/* A netlink request applies for this many seconds. */
#define HPCC_PATHS_ASK_S	10

static noinline void __cold
hpcc_paths_each(struct hpcc_net *hn, void (*call)(struct hpcc_net *hn, struct hpcc_flow *flow))
{
	struct hpcc_flow *flow;
	unsigned long id = 0;

	smp_mb();	/* pairs with hpcc_path_flow_added() */
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

/**
 * hpcc_paths_ask() - request the names of all links, for HPCC_PATHS_ASK_S seconds
 * @net: network namespace
 * Context: sleeps.
 */
void __cold hpcc_paths_ask(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	mutex_lock(&hn->path_lock);
	hn->path_until = jiffies + HPCC_PATHS_ASK_S * HZ;
	WRITE_ONCE(hn->identify_active, true);
	hpcc_paths_each(hn, hpcc_path_attach);
	queue_delayed_work(system_dfl_wq, &hn->path_end, HPCC_PATHS_ASK_S * HZ);
	mutex_unlock(&hn->path_lock);
}
EXPORT_SYMBOL_GPL(hpcc_paths_ask);

/* HPCC_PATHS_ASK_S after a request: end it, or reschedule if there was a later request. The work
 * visits all flows. So it runs on an unbound workqueue, where it delays no other work of its CPU.
 */
static void __cold hpcc_paths_end(struct work_struct *work)
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

/* Prepare a namespace for requests for names. */
void __cold hpcc_paths_init(struct hpcc_net *hn)
{
	mutex_init(&hn->path_lock);
	INIT_DELAYED_WORK(&hn->path_end, hpcc_paths_end);
}
