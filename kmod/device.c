// SPDX-License-Identifier: GPL-2.0
/*
 * B of the host: the speed of the device that a connection leaves by.
 *
 * ethtool wants RTNL, and init() may run in a softirq. So a notifier, which
 * holds RTNL, writes the speeds down, and init() reads them.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>

#include "hpcc.h"

/* Largest speed a device may claim: 10 Tbit/s. More is taken for nonsense. */
#define HPCC_MBPS_MAX	10000000

static void hpcc_device_note(struct net_device *dev)
{
	struct hpcc_net *hn = hpcc_pernet(dev_net(dev));
	struct ethtool_link_ksettings cmd;
	u32 mbps = 0;

	if (!netif_get_link_ksettings(dev, &cmd) &&
	    cmd.base.speed != (u32)SPEED_UNKNOWN &&
	    cmd.base.speed <= HPCC_MBPS_MAX)
		mbps = cmd.base.speed;
	if (mbps)
		/* Without memory the device counts as one that does not tell. */
		xa_store(&hn->speeds, dev->ifindex, xa_mk_value(mbps),
			 GFP_KERNEL);
	else
		xa_erase(&hn->speeds, dev->ifindex);
}

static int hpcc_device_event(struct notifier_block *nb, unsigned long event,
			     void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);

	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_UP:
	case NETDEV_CHANGE:
		hpcc_device_note(dev);
		break;
	case NETDEV_UNREGISTER:
		xa_erase(&hpcc_pernet(dev_net(dev))->speeds, dev->ifindex);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block hpcc_device_notifier = {
	.notifier_call = hpcc_device_event,
};

/**
 * hpcc_device_mbps() - speed of a device
 * @net: its network namespace
 * @ifindex: its index
 *
 * Context: any.
 * Return: Mbit/s; HPCC_DEFAULT_MBPS where the device does not tell.
 */
u32 hpcc_device_mbps(const struct net *net, int ifindex)
{
	void *entry = xa_load(&hpcc_pernet(net)->speeds, ifindex);

	return entry ? xa_to_value(entry) : HPCC_DEFAULT_MBPS;
}

/**
 * hpcc_device_init() - start to follow devices, those that exist included
 *
 * Return: 0 or a negative error.
 */
int hpcc_device_init(void)
{
	return register_netdevice_notifier(&hpcc_device_notifier);
}

/**
 * hpcc_device_exit() - stop following devices
 */
void hpcc_device_exit(void)
{
	unregister_netdevice_notifier(&hpcc_device_notifier);
}
