// SPDX-License-Identifier: GPL-2.0
/* Counters of a network namespace, outside the fast path. */
#include <linux/export.h>

#include "netns/net.h"

/**
 * hpcc_count_add() - add to a counter
 * @net: network namespace
 * @what: the counter
 * @n: number to add
 */
void hpcc_count_add(const struct net *net, enum hpcc_counter what, u32 n)
{
	rcu_read_lock();
	hpcc_counters_add(&hpcc_pernet_rcu(net)->counters, what, n);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(hpcc_count_add);
