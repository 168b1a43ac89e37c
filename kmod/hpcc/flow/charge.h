/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection's memory is charged to the memory cgroup of its socket. Most of this memory is
 * allocated in softirq, where __GFP_ACCOUNT alone charges no cgroup. sk_memcg is NULL until the
 * socket is accepted. But each socket has the cgroup of the task that created it, and a child has
 * the cgroup of its listener.
 */
#ifndef _HPCC_FLOW_CHARGE_H
#define _HPCC_FLOW_CHARGE_H

#include <linux/cgroup.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <net/sock.h>

/* Memory cgroups between hpcc_charge_begin() and hpcc_charge_end(). */
struct hpcc_charge {
	struct cgroup_subsys_state *css;	/* charged, with a reference; NULL: none */
	struct mem_cgroup *outer;		/* active before hpcc_charge_begin() */
};

/* Charge allocations with __GFP_ACCOUNT to the cgroup of a full socket, until hpcc_charge_end() in
 * the same context. If memory uses cgroup version 1, this charges the root cgroup, which is not
 * accounted: sockets refer to cgroups of version 2 only. Context: not hard interrupts.
 */
static inline struct hpcc_charge hpcc_charge_begin(const struct sock *sk)
{
	struct hpcc_charge charge = {};

#if defined(CONFIG_MEMCG) && defined(CONFIG_SOCK_CGROUP_DATA)
	if (mem_cgroup_disabled())
		return charge;
	charge.css = cgroup_get_e_css(sk->sk_cgrp_data.cgroup, &memory_cgrp_subsys);
	charge.outer = set_active_memcg(mem_cgroup_from_css(charge.css));
#endif
	return charge;
}

static inline void hpcc_charge_end(struct hpcc_charge charge)
{
	if (!charge.css)
		return;
	set_active_memcg(charge.outer);
	css_put(charge.css);
}

#endif /* _HPCC_FLOW_CHARGE_H */
