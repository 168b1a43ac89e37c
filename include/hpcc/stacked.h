/* SPDX-License-Identifier: GPL-2.0 */
/* Devices on other devices: bond, team, VLAN, macvlan, ipvlan. */
#ifndef _HPCC_STACKED_H
#define _HPCC_STACKED_H

#include <linux/netdevice.h>

/* A stacked device computes its speed from the devices below, whose lock the kernel may hold when
 * it calls a notifier. So do not query the speed of a stacked device in a notifier, but later.
 */
static inline bool hpcc_is_stacked(const struct net_device *dev)
{
	return !list_empty(&dev->adj_list.lower);
}

/* Call fn() for the stacked devices whose speed may differ after an event: the device of the event,
 * and all devices above it. A bond reports some changes only at the device below. fn() must not
 * sleep. Under RTNL.
 */
static inline void hpcc_each_stacked(unsigned long event, void *info,
				     int (*fn)(struct net_device *dev, struct netdev_nested_priv *))
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct netdev_nested_priv unused = {};

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGELOWERSTATE:
		break;
	case NETDEV_CHANGEUPPER:
		/* The event's device may have left it. */
		dev = ((struct netdev_notifier_changeupper_info *)info)->upper_dev;
		break;
	default:
		return;
	}
	rcu_read_lock();
	if (event == NETDEV_CHANGEUPPER || hpcc_is_stacked(dev))
		fn(dev, &unused);
	netdev_walk_all_upper_dev_rcu(dev, fn, &unused);
	rcu_read_unlock();
}

#endif /* _HPCC_STACKED_H */
