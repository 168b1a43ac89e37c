// SPDX-License-Identifier: GPL-2.0
/*
 * State of connections with a telemetry agreement, and its lookup by the hooks.
 *
 * init() creates a flow and release() destroys it, both under the socket lock. The hooks hold no
 * lock and no reference: they look up the socket's address under RCU, and a flow is freed a grace
 * period after it left the hash table. Each network namespace also has an array of its own flows,
 * so that a dump of one namespace does not visit the flows of others.
 */
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>

#include "flow/charge.h"
#include "flow/flow.h"

/* Nobody chooses the addresses of sockets, so a multiplication is a sufficient hash. */
static u32 hpcc_flow_hash(const void *key, u32 len, u32 seed)
{
	return hash_64((uintptr_t)*(const struct sock * const *)key ^ seed, 32);
}

static int hpcc_flow_cmp(struct rhashtable_compare_arg *arg, const void *flow)
{
	return ((const struct hpcc_flow *)flow)->sk != *(const struct sock * const *)arg->key;
}

static const struct rhashtable_params hpcc_flow_params = {
	.hashfn			= hpcc_flow_hash,
	.obj_cmpfn		= hpcc_flow_cmp,
	.key_len		= sizeof_field(struct hpcc_flow, sk),
	.key_offset		= offsetof(struct hpcc_flow, sk),
	.head_offset		= offsetof(struct hpcc_flow, node),
	.automatic_shrinking	= true,
};

static struct rhashtable hpcc_flows;

/* kmalloc() would use 4 KB for each flow. */
static struct kmem_cache *hpcc_flow_cache;
static void (*hpcc_flow_free_parts)(struct hpcc_flow *flow) __read_mostly;
void (*hpcc_notify)(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event) __ro_after_init;

/* Default limit of flows: one per 64 KB of the machine's memory. A flow needs 1 to 4.5 KB, which
 * depends on its hops and on the peer's requests: in total 1/64 to 1/14 of the memory. For
 * comparison, TCP's hash table of connections has one bucket per 128 KB.
 */
#define HPCC_FLOW_SHIFT		16

/* The comment of struct hpcc_flow describes these cache lines. */
static void hpcc_flow_check(void)
{
#define HPCC_FLOW_LINE(member)	(offsetof(struct hpcc_flow, member) / 64)
#define HPCC_FLOW_LAST(member)	((offsetofend(struct hpcc_flow, member) - 1) / 64)
	BUILD_BUG_ON(HPCC_FLOW_LINE(algo) != 0);
	BUILD_BUG_ON(HPCC_FLOW_LAST(fallback.rto) != 0);
	BUILD_BUG_ON(HPCC_FLOW_LINE(fallback.round_start) != 1);
	BUILD_BUG_ON(HPCC_FLOW_LAST(fallback) != 1);
	BUILD_BUG_ON(HPCC_FLOW_LINE(params) != 2);
	BUILD_BUG_ON(HPCC_FLOW_LAST(ext_hdr_len) != 2);
	BUILD_BUG_ON(HPCC_FLOW_LINE(tlp) != 3);
	BUILD_BUG_ON(HPCC_FLOW_LAST(mail[0]) != 3);
	BUILD_BUG_ON(HPCC_FLOW_LINE(last_request_ns) != HPCC_FLOW_LAST(echo.records[0]));
	BUILD_BUG_ON(HPCC_FLOW_LINE(census) != HPCC_FLOW_LAST(census));
	/* A lock of a debug kernel is larger. */
	BUILD_BUG_ON(!IS_ENABLED(CONFIG_DEBUG_SPINLOCK) &&
		     sizeof(struct hpcc_flow) + sizeof(struct hpcc_link) > 1024);
#undef HPCC_FLOW_LAST
#undef HPCC_FLOW_LINE
}

/* Create the hash table and the cache of flows. @free_parts: frees the memory that a flow without
 * users points to; softirq. Return: 0 or a negative error.
 */
int hpcc_flow_init(void (*free_parts)(struct hpcc_flow *flow))
{
	int err;

	hpcc_flow_check();
	hpcc_flow_free_parts = free_parts;
	hpcc_flow_cache = KMEM_CACHE(hpcc_flow, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!hpcc_flow_cache)
		return -ENOMEM;
	err = rhashtable_init(&hpcc_flows, &hpcc_flow_params);
	if (err)
		kmem_cache_destroy(hpcc_flow_cache);
	return err;
}

/* Free the hash table and the cache, when no socket has a flow. */
void hpcc_flow_exit(void)
{
	/* Wait for hpcc_flow_free() of the last flows, and for hpcc_table_free(). */
	rcu_barrier();
	rhashtable_destroy(&hpcc_flows);
	kmem_cache_destroy(hpcc_flow_cache);
}

/* Not kfree_rcu(): rcu_barrier() does not wait for its work. */
static void hpcc_flow_free(struct rcu_head *rcu)
{
	struct hpcc_flow *flow = container_of(rcu, struct hpcc_flow, rcu);

	hpcc_flow_free_parts(flow);
	kmem_cache_free(hpcc_flow_cache, flow);
}

static u32 hpcc_max_flows_of(const struct net *net)
{
	return READ_ONCE(hpcc_pernet(net)->sysctls.max_flows) ?:
	       totalram_pages() >> (HPCC_FLOW_SHIFT - PAGE_SHIFT);
}

/* Count one more flow. Return: false if a limit is reached. The limit of the initial namespace
 * applies to each namespace: the root user of a namespace may be a tenant.
 */
static bool hpcc_flow_admit(const struct net *net)
{
	u32 max = min(hpcc_max_flows_of(net), hpcc_max_flows_of(&init_net));
	atomic_t *nr = &hpcc_pernet(net)->nr_flows;

	if (atomic_inc_return(nr) <= max)
		return true;
	atomic_dec(nr);
	return false;
}

/* Free a flow that is not in the hash table, after the last readers that found it there. */
static void hpcc_flow_forget(struct hpcc_flow *flow)
{
	xa_erase_bh(&hpcc_pernet(sock_net(flow->sk))->flows, flow->id);
	/* observe/requests.c may still use the flow: @dead prevents the use of @sk. */
	spin_lock_bh(&flow->lock);
	flow->dead = true;
	spin_unlock_bh(&flow->lock);
	call_rcu(&flow->rcu, hpcc_flow_free);
}

/**
 * hpcc_flow_zalloc() - allocate memory of a connection in addition to its flow
 * @sk: its socket
 * @size: bytes
 *
 * Context: socket lock, or RCU read side with a reference to @sk; does not sleep.
 * Return: zeroed memory, charged to the socket's cgroup, for kfree(); or NULL.
 */
void *hpcc_flow_zalloc(const struct sock *sk, size_t size)
{
	struct hpcc_charge charge = hpcc_charge_begin(sk);
	void *memory = kzalloc(size, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);

	hpcc_charge_end(charge);
	return memory;
}
EXPORT_SYMBOL_GPL(hpcc_flow_zalloc);

/**
 * hpcc_flow_alloc() - allocate the state of a connection with a telemetry agreement
 * @sk: its socket
 * @caps: HPCC_CAP_* of the peer
 * @kind: kind of the option that both ends sent
 * @why: if the function returns NULL: set to the counter of the reason
 * Context: socket lock, after hpcc_charge_begin(); does not sleep.
 * Return: the flow, for hpcc_flow_publish(); NULL if there are too many flows or no memory.
 */
struct hpcc_flow __cold *hpcc_flow_alloc(struct sock *sk, u16 caps, u8 kind,
					 enum hpcc_counter *why)
{
	struct hpcc_net *hn = hpcc_pernet(sock_net(sk));
	const struct hpcc_sysctls *sysctls = &hn->sysctls;
	struct hpcc_flow *flow;

	*why = HPCC_C_FLOW_LIMIT;
	if (!hpcc_flow_admit(sock_net(sk)))
		return NULL;
	*why = HPCC_C_NO_MEMORY;
	flow = kmem_cache_zalloc(hpcc_flow_cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!flow) {
		atomic_dec(&hn->nr_flows);
		return NULL;
	}
	flow->sk = sk;
	flow->kind = kind;
	flow->slots = READ_ONCE(sysctls->slots);
	flow->caps = caps;
	flow->snd_end = tcp_sk(sk)->snd_nxt;
	spin_lock_init(&flow->lock);
	return flow;
}

/* Let hpcc_flow_find() find a flow. @flow: from hpcc_flow_alloc(), complete. Context: as for
 * hpcc_flow_alloc(). Return: false if there is no memory: the function has freed @flow.
 */
bool __cold hpcc_flow_publish(struct hpcc_flow *flow)
{
	struct hpcc_net *hn = hpcc_pernet(sock_net(flow->sk));

	if (xa_alloc_bh(&hn->flows, &flow->id, flow, xa_limit_32b, GFP_ATOMIC | __GFP_NOWARN))
		hpcc_flow_free(&flow->rcu);
	else if (rhashtable_insert_fast(&hpcc_flows, &flow->node, hpcc_flow_params))
		hpcc_flow_forget(flow);
	else
		return true;
	atomic_dec(&hn->nr_flows);
	return false;
}

/* Remove a flow from the table and free it. Context: socket lock; does not sleep. */
void __cold hpcc_flow_destroy(struct hpcc_flow *flow)
{
	if (!flow)
		return;
	rhashtable_remove_fast(&hpcc_flows, &flow->node, hpcc_flow_params);
	atomic_dec(&hpcc_pernet(sock_net(flow->sk))->nr_flows);
	hpcc_flow_forget(flow);
}

/**
 * hpcc_flow_find() - find the flow of a socket
 * @sk: full TCP socket
 *
 * Context: RCU read side, during which the flow is valid.
 * Return: the flow; NULL if the socket does not run hpcc or its connection has no agreement.
 */
struct hpcc_flow *hpcc_flow_find(const struct sock *sk)
{
	return rhashtable_lookup(&hpcc_flows, &sk, hpcc_flow_params);
}
EXPORT_SYMBOL_GPL(hpcc_flow_find);
