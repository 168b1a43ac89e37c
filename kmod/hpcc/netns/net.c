// SPDX-License-Identifier: GPL-2.0
/* Counters of a network namespace. */
#include <linux/export.h>

#include "netns/net.h"

unsigned int hpcc_net_id __read_mostly;
EXPORT_SYMBOL_GPL(hpcc_net_id);

const char * const hpcc_counter_names[] = {
#define COUNTER(id, name, meaning)	#name
#include "netns/hpcc_counters.h"
	NULL
};
EXPORT_SYMBOL_GPL(hpcc_counter_names);

/**
 * hpcc_count_add() - add to a counter
 * @net: network namespace
 * @what: the counter
 * @n: number to add
 */
void hpcc_count_add(const struct net *net, enum hpcc_counter what, u32 n)
{
	rcu_read_lock();
	hpcc_counter_add(&hpcc_pernet_rcu(net)->ns, what, n);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(hpcc_count_add);
