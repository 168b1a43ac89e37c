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
 * cache line. Only a record, and a decision to mark, needs the sum.
 *
 * Limits, histogram and counters stay with each queue.
 */
#include <linux/percpu.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "sched.h"

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

static struct hpcc_port *hpcc_port_new(const struct hpcc_port_key *key)
{
	struct hpcc_port *port = kzalloc(sizeof(*port), GFP_KERNEL);
	int err = -ENOMEM;

	if (!port)
		return ERR_PTR(err);
	port->key = *key;
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
	kfree_rcu(port, rcu);
}

/**
 * hpcc_port_add_waiting() - count what comes to wait, or does no more
 * @port: the port
 * @bytes: how much; negative where it does no more
 */
void hpcc_port_add_waiting(struct hpcc_port *port, s64 bytes)
{
	this_cpu_add(port->cpu->waiting_bytes, bytes);
}

/**
 * hpcc_port_add_busy() - count what the link spends on a packet
 * @port: the port
 * @ns: how long; each queue carries the fraction over to its next packet
 */
void hpcc_port_add_busy(struct hpcc_port *port, u64 ns)
{
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

	for_each_possible_cpu(cpu) {
		const struct hpcc_port_cpu *c = per_cpu_ptr(port->cpu, cpu);

		busy_ns += READ_ONCE(c->busy_ns);
		bytes += READ_ONCE(c->waiting_bytes);
	}
	return (struct hpcc_load){
		.busy_ns = busy_ns,
		.waiting_bytes = clamp_t(s64, bytes, 0, U32_MAX),
	};
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
	u32 bytes = q->waiting_bytes;

	if (port == old)
		return old;
	hpcc_waiting_add(q, -(s64)bytes);
	q->shared = port;
	q->util = (struct hpcc_util){};
	hpcc_waiting_add(q, bytes);
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
