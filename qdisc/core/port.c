// SPDX-License-Identifier: GPL-2.0
/*
 * What the queues of one port have in common.
 *
 * A device with several transmit queues has a qdisc for each below mq, each
 * with its own lock and on its own CPU, and one link behind all of them. What
 * a record says is about the link: how long it has been busy with the packets
 * of all queues (tx), and how long it will be with what waits in all of them
 * (qlen). A flow that saw its own queue only would take the link for idle.
 *
 * Queues of a device that have the same node and port, and do not shape, are
 * one port. A root qdisc is alone, and one with a rate has a link of its own:
 * these need nothing from here.
 *
 * A packet is counted on the CPU that handles it, so that CPUs write to no common
 * cache line. A record needs the sum of all CPUs that have handled packets of the port. Decisions
 * about each packet, marks above all, use a sum of the bytes that wait which is a microsecond
 * old at most, and which one CPU makes for all.
 *
 * Limits, histogram and counters stay with each queue.
 */
#include <linux/percpu.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "core/sched.h"

/* Of all devices, and so of all network namespaces: looking one up takes as long
 * however many ports others have. Under RTNL.
 */
static struct rhashtable hpcc_shared_ports;

static const struct rhashtable_params hpcc_port_params = {
	.head_offset		= offsetof(struct hpcc_port, hash),
	.key_offset		= offsetof(struct hpcc_port, key),
	.key_len		= sizeof(struct hpcc_port_key),
	.automatic_shrinking	= true,
};

/* Age of a sum that decisions use, at most: eight full packets of a link of 100 Gb/s. */
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
	err = rhashtable_insert_fast(&hpcc_shared_ports, &port->hash,
				     hpcc_port_params);
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

/**
 * hpcc_port_get() - the port that a queue belongs to
 * @sch: the queue
 * @cfg: its configuration, which may not be in force yet
 *
 * Return: the port, held for the queue; NULL: it is one by itself; or an error.
 */
struct hpcc_port *hpcc_port_get(struct Qdisc *sch,
				const struct hpcc_config *cfg)
{
	struct hpcc_port_key key = {
		.dev = qdisc_dev(sch), .node = cfg->node, .id = cfg->port,
	};
	struct hpcc_port *port;

	ASSERT_RTNL();
	if (sch->parent == TC_H_ROOT || cfg->rate)
		return NULL;
	port = rhashtable_lookup_fast(&hpcc_shared_ports, &key,
				      hpcc_port_params);
	if (!port)
		port = hpcc_port_new(&key);
	if (!IS_ERR(port))
		port->queues++;
	return port;
}

/**
 * hpcc_port_put() - let go of a port
 * @port: from hpcc_port_get(), no error
 */
void hpcc_port_put(struct hpcc_port *port)
{
	ASSERT_RTNL();
	if (!port || --port->queues)
		return;
	rhashtable_remove_fast(&hpcc_shared_ports, &port->hash,
			       hpcc_port_params);
	/* Who counts and who reads belongs to the port, so nobody does now. */
	free_percpu(port->cpu);
	free_cpumask_var(port->used);
	kfree_rcu(port, rcu);
}

/* This CPU has counted something of the port from now on. The caller holds the lock of a qdisc, and
 * stays on its CPU.
 */
static void hpcc_port_used(struct hpcc_port *port)
{
	if (likely(this_cpu_read(port->cpu->used)))
		return;
	cpumask_set_cpu(smp_processor_id(), port->used);
	this_cpu_write(port->cpu->used, true);
}

/**
 * hpcc_port_add_backlog() - count what comes to wait, or does no more
 * @port: the port
 * @bytes: how much; negative where it does no more
 */
void hpcc_port_add_backlog(struct hpcc_port *port, s64 bytes)
{
	hpcc_port_used(port);
	this_cpu_add(port->cpu->backlog_bytes, bytes);
}

/**
 * hpcc_port_add_busy() - count what the link spends on a packet
 * @port: the port
 * @ns: how long; each queue carries the fraction over to its next packet
 */
void hpcc_port_add_busy(struct hpcc_port *port, u64 ns)
{
	hpcc_port_used(port);
	this_cpu_add(port->cpu->busy_ns, ns);
}

/**
 * hpcc_port_load() - what all queues of a port have to do with the link
 * @port: the port
 *
 * The counters are not read in one instant: a packet that moves meanwhile may
 * count as waiting twice or not at all. Time spent is never less in a later load,
 * whoever asks.
 *
 * Return: the sums.
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

/* The bytes that waited at @at_ns, which is set. While one CPU makes a new sum others use the last
 * one, if that is not much older; else each makes its own.
 */
static u32 hpcc_port_sum(struct hpcc_port *port, u64 *at_ns)
{
	u64 now = ktime_get_ns();
	bool ours;
	s64 age;
	u32 sum;

	/* The sum is of this time, or newer. */
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
		/* A CPU that reads the time reads this sum, or a newer one. */
		smp_store_release(&port->sum_ns, now);
		clear_bit_unlock(0, &port->summing);
	}
	*at_ns = now;
	return sum;
}

/**
 * hpcc_port_backlog() - bytes that wait for the link, as a decision about each packet needs it
 * @port: a port, one of whose queues is locked
 *
 * Return: the bytes. Packets that this CPU handled count at once, those of other CPUs after
 * HPCC_PORT_SUM_NS, or twice that while a CPU makes a new sum.
 */
u32 hpcc_port_backlog(struct hpcc_port *port)
{
	struct hpcc_port_cpu *here = this_cpu_ptr(port->cpu);
	u64 at_ns;
	u32 sum = hpcc_port_sum(port, &at_ns);

	if (at_ns != here->sum_ns) {
		here->sum_ns = at_ns;
		here->sum_backlog_bytes = here->backlog_bytes;
	}
	return clamp_t(s64, sum + here->backlog_bytes - here->sum_backlog_bytes, 0, U32_MAX);
}

/**
 * hpcc_port_move() - have a queue belong to another port
 * @q: the queue, locked
 * @port: from hpcc_port_get(), no error
 *
 * What waits goes along. Where the port is another one the counter of time jumps, which a flow
 * takes for another path or ignores, as for a link that has come up anew.
 *
 * Return: the port it belonged to, to be put; @port itself where it already belonged to that.
 */
struct hpcc_port *hpcc_port_move(struct hpcc_sched *q, struct hpcc_port *port)
{
	struct hpcc_port *old = q->shared;
	u32 bytes = q->backlog_bytes;

	if (port == old)
		return old;
	hpcc_backlog_add(q, -(s64)bytes);
	q->shared = port;
	q->util = (struct hpcc_util){};
	hpcc_backlog_add(q, bytes);
	return old;
}

/**
 * hpcc_ports_init() - make room for ports
 *
 * Return: 0 or a negative error.
 */
int __init hpcc_ports_init(void)
{
	return rhashtable_init(&hpcc_shared_ports, &hpcc_port_params);
}

/**
 * hpcc_ports_exit() - all qdiscs are gone
 */
void hpcc_ports_exit(void)
{
	rhashtable_destroy(&hpcc_shared_ports);
}
