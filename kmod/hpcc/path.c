// SPDX-License-Identifier: GPL-2.0
/*
 * Who the links of a path are, while somebody wants to know.
 *
 * The law needs no names: a record has a tag that tells one link from another. Names come in
 * the answers to IDENTIFY, each of which takes the place of a FORWARD. So IDENTIFY is sent, and
 * the answers are kept, only while /proc/net/hpcc_paths is open in the connection's network
 * namespace:
 *
 *	open of the first reader	each flow, and each that is born from then on, gets a
 *					struct hpcc_path
 *	telemetry begins, path changes	all its links are asked (hpcc_path_ask())
 *	path gets longer or shorter	those without a name are asked (hpcc_path_resize())
 *	release of the last reader	it is freed
 *
 * hpcc_net.path_lock orders readers. hpcc_flow.path is written under hpcc_flow.lock, and
 * read under RCU. A flow without one, for want of memory, has a path that nobody knows.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include "net.h"
#include "path.h"

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
static void hpcc_path_give(struct hpcc_net *hn, struct hpcc_flow *flow, gfp_t gfp)
{
	struct hpcc_path *path;

	path = kzalloc(sizeof(*path), gfp | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!path)
		return;
	spin_lock_bh(&flow->lock);
	if (READ_ONCE(hn->path_readers) && !rcu_access_pointer(flow->path)) {
		rcu_assign_pointer(flow->path, path);
		/* If telemetry begins now, hpcc_path_ask() may not have seen it. */
		hpcc_path_begin(flow, path);
		WRITE_ONCE(flow->asking, true);
		path = NULL;
	}
	spin_unlock_bh(&flow->lock);
	kfree(path);
}

static void hpcc_path_take(struct hpcc_flow *flow)
{
	struct hpcc_path *path;

	spin_lock_bh(&flow->lock);
	WRITE_ONCE(flow->asking, false);
	path = rcu_replace_pointer(flow->path, NULL,
				   lockdep_is_held(&flow->lock));
	spin_unlock_bh(&flow->lock);
	if (path)
		kfree_rcu(path, rcu);
}

/**
 * hpcc_path_born() - a flow is in its namespace's array from now on
 * @net: network namespace
 * @flow: the flow
 *
 * Context: does not sleep.
 */
void hpcc_path_born(struct net *net, struct hpcc_flow *flow)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	/* Either this sees a reader, or the reader sees the flow: hpcc_paths_open(). */
	smp_mb();
	if (READ_ONCE(hn->path_readers))
		hpcc_path_give(hn, flow, GFP_ATOMIC);
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
 * @records: its records
 *
 * Context: LOCAL_IN.
 * Return: how many records were no records of a hop of this path.
 */
u32 hpcc_path_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		 const u8 *records)
{
	struct hpcc_path *path = rcu_dereference(flow->path);
	const u8 *end = records + opt->nr * HPCC_RECORD_LEN;
	u32 bad = 0;
	u8 hop;

	for (; records < end; records += HPCC_RECORD_LEN) {
		hop = hpcc_slot_hop(records);
		if (!hop || hop > opt->hops)
			bad++;
		else if (path)
			WRITE_ONCE(path->identity[hop - 1],
				   get_unaligned_be64(records));
	}
	return bad;
}

/**
 * hpcc_path_waits() - whether answers are to be expected
 * @flow: a flow
 *
 * Context: RCU read side.
 * Return: true while a link that is asked has not answered.
 */
bool hpcc_path_waits(const struct hpcc_flow *flow)
{
	const struct hpcc_path *path = rcu_dereference(flow->path);
	u32 hops = READ_ONCE(flow->hops);
	u32 i;

	if (!path || !(READ_ONCE(path->left) || READ_ONCE(path->again)))
		return false;
	for (i = 0; i < hops; i++)
		if (!READ_ONCE(path->identity[i]))
			return true;
	return false;
}

/* ---- All flows of a namespace ------------------------------------------ */

/**
 * hpcc_paths_open() - a reader begins
 * @net: network namespace
 *
 * Context: sleeps.
 */
void hpcc_paths_open(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_flow *flow;
	unsigned long id = 0;

	mutex_lock(&hn->path_lock);
	WRITE_ONCE(hn->path_readers, hn->path_readers + 1);
	smp_mb();	/* hpcc_path_born() */
	do {
		rcu_read_lock();
		flow = hpcc_flow_from(net, &id);
		if (flow && !rcu_access_pointer(flow->path))
			hpcc_path_give(hn, flow, GFP_NOWAIT);
		rcu_read_unlock();
		id++;
		cond_resched();
	} while (flow);
	mutex_unlock(&hn->path_lock);
}

/**
 * hpcc_paths_release() - a reader ends
 * @net: network namespace
 *
 * Context: sleeps.
 */
void hpcc_paths_release(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_flow *flow = NULL;
	unsigned long id = 0;

	mutex_lock(&hn->path_lock);
	WRITE_ONCE(hn->path_readers, hn->path_readers - 1);
	smp_mb();	/* hpcc_path_born() */
	do {
		if (hn->path_readers)
			break;
		rcu_read_lock();
		flow = hpcc_flow_from(net, &id);
		if (flow)
			hpcc_path_take(flow);
		rcu_read_unlock();
		id++;
		cond_resched();
	} while (flow);
	mutex_unlock(&hn->path_lock);
}

/**
 * hpcc_paths_wait() - whether answers are to be expected
 * @net: network namespace
 *
 * Context: sleeps.
 * Return: true while a link of one of its flows has not answered.
 */
bool hpcc_paths_wait(const struct net *net)
{
	struct hpcc_flow *flow;
	unsigned long id = 0;
	bool waits = false;

	do {
		rcu_read_lock();
		flow = hpcc_flow_from(net, &id);
		if (flow)
			waits = hpcc_path_waits(flow);
		rcu_read_unlock();
		id++;
		cond_resched();
	} while (flow && !waits);
	return waits;
}
