// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that agreed: their state, and how LOCAL_IN finds it.
 *
 * A flow is born in init() and dies in release(), both under the socket lock.
 * LOCAL_IN holds no lock and no reference; it looks the socket's address up
 * under RCU, and the flow is freed a grace period after it left the table.
 */
#include <linux/hash.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "hpcc.h"

#define HPCC_FLOW_HASH_BITS	12

struct hpcc_flow_bucket {
	spinlock_t lock;	/* covers changes of the list */
	struct hlist_head head;
};

static struct hpcc_flow_bucket hpcc_flows[1 << HPCC_FLOW_HASH_BITS] = {
	[0 ... (1 << HPCC_FLOW_HASH_BITS) - 1] = {
		.lock = __SPIN_LOCK_UNLOCKED(hpcc_flows.lock),
	},
};

/* Twelve of them fit where kmalloc() would put eight. */
static struct kmem_cache *hpcc_flow_cache;

static struct hpcc_flow_bucket *hpcc_flow_bucket(const struct sock *sk)
{
	return &hpcc_flows[hash_ptr(sk, HPCC_FLOW_HASH_BITS)];
}

/**
 * hpcc_flow_init() - when the module is loaded
 *
 * Return: 0, or -ENOMEM.
 */
int __init hpcc_flow_init(void)
{
	hpcc_flow_cache = KMEM_CACHE(hpcc_flow, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	return hpcc_flow_cache ? 0 : -ENOMEM;
}

/**
 * hpcc_flow_exit() - when it goes, and no socket has a flow any more
 */
void hpcc_flow_exit(void)
{
	/* Flows that wait for a grace period. */
	rcu_barrier();
	kmem_cache_destroy(hpcc_flow_cache);
}

/**
 * hpcc_flow_create() - make the state of a connection that agreed
 * @sk: its socket
 *
 * Context: socket lock; does not sleep.
 * Return: the flow, to be found by hpcc_flow_find() from now on, or NULL for
 * want of memory.
 */
struct hpcc_flow *hpcc_flow_create(struct sock *sk)
{
	struct hpcc_flow_bucket *bucket = hpcc_flow_bucket(sk);
	const struct hpcc_sysctls *sysctls =
		&hpcc_pernet(sock_net(sk))->sysctls;
	struct hpcc_flow *flow;

	flow = kmem_cache_zalloc(hpcc_flow_cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!flow)
		return NULL;
	flow->sk = sk;
	flow->kind = READ_ONCE(sysctls->option_kind);
	flow->slots = READ_ONCE(sysctls->slots);
	hpcc_burst_init(sk, &flow->burst, READ_ONCE(sysctls->burst_segs),
			READ_ONCE(sysctls->burst_shift));
	spin_lock_init(&flow->lock);

	spin_lock_bh(&bucket->lock);
	hlist_add_head_rcu(&flow->node, &bucket->head);
	spin_unlock_bh(&bucket->lock);
	return flow;
}

/* kfree_rcu() would leave work behind that rcu_barrier() does not wait for. */
static void hpcc_flow_free(struct rcu_head *rcu)
{
	kmem_cache_free(hpcc_flow_cache,
			container_of(rcu, struct hpcc_flow, rcu));
}

/**
 * hpcc_flow_destroy() - take a flow out of the table and free it
 * @flow: the flow; may be NULL
 *
 * Context: socket lock; does not sleep.
 */
void hpcc_flow_destroy(struct hpcc_flow *flow)
{
	struct hpcc_flow_bucket *bucket;

	if (!flow)
		return;
	bucket = hpcc_flow_bucket(flow->sk);
	spin_lock_bh(&bucket->lock);
	hlist_del_rcu(&flow->node);
	spin_unlock_bh(&bucket->lock);
	call_rcu(&flow->rcu, hpcc_flow_free);
}

/**
 * hpcc_flow_find() - the flow of a socket
 * @sk: full TCP socket
 *
 * Context: RCU read side; the flow is good until its end.
 * Return: the flow, or NULL where the socket runs something else or its
 * connection did not agree.
 */
struct hpcc_flow *hpcc_flow_find(const struct sock *sk)
{
	struct hpcc_flow *flow;

	hlist_for_each_entry_rcu(flow, &hpcc_flow_bucket(sk)->head, node) {
		if (flow->sk == sk)
			return flow;
	}
	return NULL;
}

/**
 * hpcc_flow_each() - visit the flows of a network namespace
 * @net: the namespace
 * @fn: called for each; must not sleep. The socket cannot go away during the
 *	call, since release() waits for the bucket's lock.
 * @arg: for @fn
 */
void hpcc_flow_each(const struct net *net,
		    void (*fn)(const struct sock *sk, struct hpcc_flow *flow,
			       void *arg), void *arg)
{
	struct hpcc_flow_bucket *bucket;
	struct hpcc_flow *flow;

	for (bucket = hpcc_flows;
	     bucket < hpcc_flows + ARRAY_SIZE(hpcc_flows); bucket++) {
		if (hlist_empty(&bucket->head))
			continue;
		spin_lock_bh(&bucket->lock);
		hlist_for_each_entry(flow, &bucket->head, node) {
			if (net_eq(sock_net(flow->sk), net))
				fn(flow->sk, flow, arg);
		}
		spin_unlock_bh(&bucket->lock);
	}
}
