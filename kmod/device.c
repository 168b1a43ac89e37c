// SPDX-License-Identifier: GPL-2.0
/*
 * What a connection knows of its host and path without asking anybody: B, the
 * speed of the device that it leaves by, and T, its minimum RTT.
 *
 * ethtool wants RTNL, and init() may run in a softirq. So a notifier, which
 * holds RTNL, writes the speeds down, and init() reads them.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <net/netns/generic.h>

#include "common.h"

static unsigned int hpcc_device_net_id __read_mostly;

/* Largest speed a device may claim: 10 Tbit/s. More is taken for nonsense. */
#define HPCC_MBPS_MAX	10000000

/* Speeds in Mbit/s as xarray values, by ifindex; written under RTNL, read under
 * RCU.
 */
static struct xarray *hpcc_speeds(const struct net *net)
{
	return net_generic(net, hpcc_device_net_id);
}

static void hpcc_device_note(struct net_device *dev)
{
	struct xarray *speeds = hpcc_speeds(dev_net(dev));
	struct ethtool_link_ksettings cmd;
	u32 mbps = 0;

	if (!netif_get_link_ksettings(dev, &cmd) &&
	    cmd.base.speed != (u32)SPEED_UNKNOWN &&
	    cmd.base.speed <= HPCC_MBPS_MAX)
		mbps = cmd.base.speed;
	if (mbps)
		/* Without memory the device counts as one that does not tell. */
		xa_store(speeds, dev->ifindex, xa_mk_value(mbps), GFP_KERNEL);
	else
		xa_erase(speeds, dev->ifindex);
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
		xa_erase(hpcc_speeds(dev_net(dev)), dev->ifindex);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block hpcc_device_notifier = {
	.notifier_call = hpcc_device_event,
};

static u32 hpcc_device_mbps(const struct net *net, int ifindex)
{
	void *entry = xa_load(hpcc_speeds(net), ifindex);

	return entry ? xa_to_value(entry) : HPCC_DEFAULT_MBPS;
}

/**
 * hpcc_host_rate() - B of the host
 * @sk: connected socket, under its lock
 * @mbps: as configured, Mbit/s; 0 takes the speed of the device that the
 *	socket's route leaves by, or HPCC_DEFAULT_MBPS where that does not tell
 *
 * Return: bytes/s.
 */
u64 hpcc_host_rate(const struct sock *sk, u32 mbps)
{
	const struct dst_entry *dst;

	if (!mbps) {
		rcu_read_lock();
		dst = __sk_dst_get((struct sock *)sk);
		mbps = dst ? hpcc_device_mbps(sock_net(sk), dst->dev->ifindex) :
			     HPCC_DEFAULT_MBPS;
		rcu_read_unlock();
	}
	return (u64)mbps * (1000000 / BITS_PER_BYTE);
}
EXPORT_SYMBOL_GPL(hpcc_host_rate);

/**
 * hpcc_base_rtt_ns() - T
 * @sk: socket, under its lock
 * @configured_ns: as configured; 0 takes the connection's minimum RTT
 *
 * Return: ns.
 */
u32 hpcc_base_rtt_ns(const struct sock *sk, u32 configured_ns)
{
	u32 rtt_us = tcp_min_rtt(tcp_sk(sk));

	if (configured_ns)
		return configured_ns;
	if (rtt_us == ~0U || !rtt_us)
		return HPCC_T_DEFAULT_NS;
	return clamp_t(u64, (u64)rtt_us * NSEC_PER_USEC, HPCC_T_MIN_NS,
		       HPCC_T_MAX_NS);
}
EXPORT_SYMBOL_GPL(hpcc_base_rtt_ns);

static int __net_init hpcc_device_net_init(struct net *net)
{
	xa_init(hpcc_speeds(net));
	return 0;
}

static void __net_exit hpcc_device_net_exit(struct net *net)
{
	xa_destroy(hpcc_speeds(net));
}

static struct pernet_operations hpcc_device_net_ops = {
	.init	= hpcc_device_net_init,
	.exit	= hpcc_device_net_exit,
	.id	= &hpcc_device_net_id,
	.size	= sizeof(struct xarray),
};

/**
 * hpcc_device_init() - start to follow devices, those that exist included
 *
 * Return: 0 or a negative error.
 */
int __init hpcc_device_init(void)
{
	int err;

	err = register_pernet_subsys(&hpcc_device_net_ops);
	if (err)
		return err;
	err = register_netdevice_notifier(&hpcc_device_notifier);
	if (err)
		unregister_pernet_subsys(&hpcc_device_net_ops);
	return err;
}

/**
 * hpcc_device_exit() - stop following devices
 */
void hpcc_device_exit(void)
{
	unregister_netdevice_notifier(&hpcc_device_notifier);
	unregister_pernet_subsys(&hpcc_device_net_ops);
}
