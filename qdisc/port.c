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
 * Limits, histogram and counters stay with each queue.
 */
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "hpcc.h"

/* Under RTNL. */
static LIST_HEAD(hpcc_shared_ports);

static bool hpcc_port_is(const struct hpcc_port *port, struct Qdisc *sch,
			 const struct hpcc_config *cfg)
{
	return port->dev == qdisc_dev(sch) && port->node == cfg->node &&
	       port->id == cfg->port;
}

static struct hpcc_port *hpcc_port_new(struct Qdisc *sch,
				       const struct hpcc_config *cfg)
{
	struct hpcc_port *port = kzalloc(sizeof(*port), GFP_KERNEL);

	if (!port)
		return ERR_PTR(-ENOMEM);
	port->dev = qdisc_dev(sch);
	port->node = cfg->node;
	port->id = cfg->port;
	list_add_tail(&port->list, &hpcc_shared_ports);
	return port;
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
	struct hpcc_port *port;

	ASSERT_RTNL();
	if (sch->parent == TC_H_ROOT || cfg->rate)
		return NULL;
	list_for_each_entry(port, &hpcc_shared_ports, list) {
		if (hpcc_port_is(port, sch, cfg))
			goto found;
	}
	port = hpcc_port_new(sch, cfg);
	if (IS_ERR(port))
		return port;
found:
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
	list_del(&port->list);
	kfree(port);
}

/**
 * hpcc_port_move() - have a queue belong to another port
 * @q: the queue, locked
 * @port: from hpcc_port_get(), no error
 *
 * What waits goes along. The counter of time jumps, which a flow takes for
 * another path or ignores, as for a link that has come up anew.
 *
 * Return: the port it belonged to, to be put.
 */
struct hpcc_port *hpcc_port_move(struct hpcc_sched *q, struct hpcc_port *port)
{
	struct hpcc_port *old = q->shared;
	u32 bytes = q->waiting_bytes;

	hpcc_waiting_add(q, -(s64)bytes);
	q->shared = port;
	hpcc_waiting_add(q, bytes);
	return old;
}
