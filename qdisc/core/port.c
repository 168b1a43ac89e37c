// SPDX-License-Identifier: GPL-2.0
/*
 * State that the queues of one port share.
 *
 * Below mq, each transmit queue of a device has a qdisc with its own lock and CPU, but all send to
 * one link. A record describes the link: tx is the time spent on the packets of all queues, and
 * qlen is the time needed for the packets that wait in all queues. With records of one queue the
 * link would look idle to a flow.
 *
 * Queues of a device with the same node and port that do not shape are one port. A root qdisc is
 * alone on its device, and a qdisc with a rate has its own link: neither uses this file.
 *
 * The CPU that handles a packet counts it, so CPUs write to no shared cache line. A record uses the
 * sum over all CPUs. Per-packet decisions such as marking use a sum of the waiting bytes that is at
 * most a microsecond old; one CPU computes it for all. Limits, histogram and counters stay with
 * each queue.
 */
#include <linux/percpu.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "core/sched.h"

/* The ports of all network namespaces, under RTNL. In a hash table the many ports of one user do
 * not slow the lookups of others.
 */
static struct rhashtable hpcc_shared_ports;

static const struct rhashtable_params hpcc_port_params = {
	.head_offset		= offsetof(struct hpcc_port, hash),
	.key_offset		= offsetof(struct hpcc_port, key),
	.key_len		= sizeof(struct hpcc_port_key),
	.automatic_shrinking	= true,
};

/* Maximum age of a sum that decisions use: eight full packets at 100 Gb/s. */
#define HPCC_PORT_SUM_NS	NSEC_PER_USEC

static struct hpcc_port *hpcc_port_new(const struct hpcc_port_key *key)
{
	struct hpcc_port *port = kzalloc(sizeof(*port), GFP_KERNEL);
	int err = -ENOMEM;

	if (!port)
		return ERR_PTR(err);
	port->key = *key;
	if (!zalloc_cpumask_var(&port->used, GFP_KERNEL))
		goto no_mask;
	port->cpu = alloc_percpu(struct hpcc_port_cpu);
	if (!port->cpu)
		goto no_counters;
	err = rhashtable_insert_fast(&hpcc_shared_ports, &port->hash, hpcc_port_params);
	if (err)
		goto no_entry;
	return port;

no_entry:
	free_percpu(port->cpu);
no_counters:
	free_cpumask_var(port->used);
no_mask:
	kfree(port);
	return ERR_PTR(err);
}

/* Return the port that a queue belongs to, with a reference; NULL: the queue is a port by itself;
 * or an error. @cfg: configuration of the queue, possibly not active yet.
 */
struct hpcc_port *hpcc_port_get(struct Qdisc *sch, const struct hpcc_config *cfg)
{
	struct hpcc_port_key key = {
		.dev = qdisc_dev(sch), .node = cfg->node, .id = cfg->port,
	};
	struct hpcc_port *port;

	ASSERT_RTNL();
	if (sch->parent == TC_H_ROOT || cfg->rate)
		return NULL;
	port = rhashtable_lookup_fast(&hpcc_shared_ports, &key, hpcc_port_params);
	if (!port)
		port = hpcc_port_new(&key);
	if (!IS_ERR(port))
		port->queues++;
	return port;
}

/* Release a reference to a port, or NULL. */
void hpcc_port_put(struct hpcc_port *port)
{
	ASSERT_RTNL();
	if (!port || --port->queues)
		return;
	rhashtable_remove_fast(&hpcc_shared_ports, &port->hash, hpcc_port_params);
	/* No queue is left that could access the counters. */
	free_percpu(port->cpu);
	free_cpumask_var(port->used);
	kfree_rcu(port, rcu);
}

/* Record that this CPU uses the counters. The qdisc's lock keeps the caller on this CPU. */
static void hpcc_port_used(struct hpcc_port *port)
{
	if (likely(this_cpu_read(port->cpu->used)))
		return;
	cpumask_set_cpu(smp_processor_id(), port->used);
	this_cpu_write(port->cpu->used, true);
}

/* Add bytes to the backlog; negative: remove bytes. */
void hpcc_port_add_backlog(struct hpcc_port *port, s64 bytes)
{
	hpcc_port_used(port);
	this_cpu_add(port->cpu->backlog_bytes, bytes);
}

/* Add the time that the link spends on a packet; each queue adds the fraction to its next packet.
 */
void hpcc_port_add_busy(struct hpcc_port *port, u64 ns)
{
	hpcc_port_used(port);
	this_cpu_add(port->cpu->busy_ns, ns);
}

/* Load of the link by all queues of a port. The counters are not read at one instant: a packet that
 * moves in between may be counted twice or not at all. The time spent never decreases from one load
 * to the next.
 */
struct hpcc_load hpcc_port_load(const struct hpcc_port *port)
{
	u64 busy_ns = 0;
	s64 bytes = 0;
	int cpu;

	for_each_cpu(cpu, port->used) {
		const struct hpcc_port_cpu *c = per_cpu_ptr(port->cpu, cpu);

		busy_ns += READ_ONCE(c->busy_ns);
		bytes += READ_ONCE(c->backlog_bytes);
	}
	return (struct hpcc_load){
		.busy_ns = busy_ns,
		.backlog_bytes = clamp_t(s64, bytes, 0, U32_MAX),
	};
}
EXPORT_SYMBOL_GPL(hpcc_port_load);

/* Bytes that waited at @at_ns. While a CPU computes a new sum, others use the old (up to 2 us). */
static u32 hpcc_port_sum(struct hpcc_port *port, u64 *at_ns)
{
	u64 now = ktime_get_ns();
	bool ours;
	s64 age;
	u32 sum;

	/* Pairs with the release below: the sum is of this time, or newer. */
	*at_ns = smp_load_acquire(&port->sum_ns);
	age = now - *at_ns;
	if (age < HPCC_PORT_SUM_NS)
		return READ_ONCE(port->sum_bytes);
	ours = !test_and_set_bit_lock(0, &port->summing);
	if (!ours && age < 2 * HPCC_PORT_SUM_NS)
		return READ_ONCE(port->sum_bytes);
	sum = hpcc_port_load(port).backlog_bytes;
	if (ours) {
		WRITE_ONCE(port->sum_bytes, sum);
		/* A CPU that reads this time also reads this sum, or a newer one. */
		smp_store_release(&port->sum_ns, now);
		clear_bit_unlock(0, &port->summing);
	}
	*at_ns = now;
	return sum;
}

/* Bytes that wait for the link, for per-packet decisions on a locked queue of a port of several
 * queues: the bytes of a class, or of the port. The latter include packets of this CPU immediately,
 * and packets of other CPUs after HPCC_PORT_SUM_NS, or twice that time while a CPU computes a new
 * sum.
 */
u32 hpcc_shared_backlog(const struct hpcc_sched *q)
{
	struct hpcc_port_cpu *here;
	u64 at_ns;
	u32 sum;

	if (q->cfg.class && q->cfg.qlen != HPCC_QLEN_PORT)
		return q->backlog_bytes;
	here = this_cpu_ptr(q->shared->cpu);
	sum = hpcc_port_sum(q->shared, &at_ns);
	if (at_ns != here->sum_ns) {
		here->sum_ns = at_ns;
		here->sum_backlog_bytes = here->backlog_bytes;
	}
	return clamp_t(s64, sum + here->backlog_bytes - here->sum_backlog_bytes, 0, U32_MAX);
}
EXPORT_SYMBOL_GPL(hpcc_shared_backlog);

/* Move a locked queue and its backlog to another port, from hpcc_port_get(). tx jumps: a flow then
 * detects a path change or ignores the record, as after a restart of a link.
 * Return: the old port, which the caller must put; this is @port if the port did not change.
 */
struct hpcc_port *hpcc_port_move(struct hpcc_sched *q, struct hpcc_port *port)
{
	struct hpcc_port *old = q->shared;

	if (port == old)
		return old;
	if (old)
		hpcc_port_add_backlog(old, -(s64)q->backlog_bytes);
	q->shared = port;
	if (port)
		hpcc_port_add_backlog(port, q->backlog_bytes);
	return old;
}

/* Create the table of ports. Return: 0 or a negative error. */
int __init hpcc_ports_init(void)
{
	return rhashtable_init(&hpcc_shared_ports, &hpcc_port_params);
}

/* Destroy the table after all qdiscs. */
void hpcc_ports_exit(void)
{
	rhashtable_destroy(&hpcc_shared_ports);
}
