// SPDX-License-Identifier: GPL-2.0
/*
 * B and T of a connection: B is the speed of its egress device, T is its minimum RTT.
 *
 * ethtool needs RTNL, and init() may run in a softirq. So a notifier, which holds RTNL, stores the
 * speeds, and init() reads them.
 *
 * Loading must not wait for RTNL (setup.c). Each namespace has its own notifier: the registration
 * of one notifier for all of them would wait for RTNL and hold pernet_ops_rwsem, which the setup of
 * tcp_hpcc needs next. In existing namespaces a work item registers the notifier.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/netns/generic.h>
#include <hpcc/compat.h>
#include <hpcc/stacked.h>

#include "device.h"

static unsigned int hpcc_device_net_id __read_mostly;
/* True while existing namespaces are set up, or cleaned up when the module is unloaded. A namespace
 * created at this time may also use its work item.
 */
static bool hpcc_device_changing;

/* 10 Tbit/s. A larger value is ignored. */
#define HPCC_MBPS_MAX	10000000

/* Mark of a stacked device whose speed may have changed. */
#define HPCC_DEVICE_STALE	XA_MARK_1

/* Devices of a namespace. @registered is written by @work or before publication. */
struct hpcc_devices {
	struct xarray		speeds;		/* Mbit/s or 0, by ifindex; written under RTNL */
	struct notifier_block	notifier;	/* writes @speeds */
	struct work_struct	work;		/* registers @notifier if init must not */
	struct work_struct	stacked;	/* updates the speeds of stacked devices */
	struct net		*net;		/* exists longer than this structure */
	bool			registered;	/* of @notifier; read after @work ended */
};

static struct xarray *hpcc_speeds(const struct net *net)
{
	struct hpcc_devices *devices = net_generic(net, hpcc_device_net_id);

	return &devices->speeds;
}

static void hpcc_device_note(struct net_device *dev)
{
	struct xarray *speeds = hpcc_speeds(dev_net(dev));
	struct ethtool_link_ksettings cmd;
	u32 mbps = 0;

	if (!netif_get_link_ksettings(dev, &cmd) && cmd.base.speed != (u32)SPEED_UNKNOWN &&
	    cmd.base.speed <= HPCC_MBPS_MAX)
		mbps = cmd.base.speed;
	/* If this allocation fails, the speed of the device counts as unknown. */
	xa_store(speeds, dev->ifindex, xa_mk_value(mbps), GFP_KERNEL);
}

static void hpcc_stacked_work(struct work_struct *work)
{
	struct hpcc_devices *devices = container_of(work, struct hpcc_devices, stacked);
	struct net_device *dev;
	unsigned long index;
	void *entry;

	rtnl_lock();
	xa_for_each_marked(&devices->speeds, index, entry, HPCC_DEVICE_STALE) {
		xa_clear_mark(&devices->speeds, index, HPCC_DEVICE_STALE);
		dev = __dev_get_by_index(devices->net, index);
		if (dev)
			hpcc_device_note(dev);
	}
	rtnl_unlock();
}

/* The device may be in another namespace than the device below it, whose notifier this is. */
static int hpcc_stacked_changed(struct net_device *dev, struct netdev_nested_priv *unused)
{
	struct hpcc_devices *devices;

	if (READ_ONCE(hpcc_device_changing))
		return 1;
	devices = net_generic(dev_net(dev), hpcc_device_net_id);
	xa_set_mark(&devices->speeds, dev->ifindex, HPCC_DEVICE_STALE);
	schedule_work(&devices->stacked);
	return 0;
}

static int hpcc_device_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);

	hpcc_each_stacked(event, ptr, hpcc_stacked_changed);
	switch (event) {
	case NETDEV_UP:
	case NETDEV_CHANGE:
		if (hpcc_is_stacked(dev))
			break;
		fallthrough;
	case NETDEV_REGISTER:
		hpcc_device_note(dev);
		break;
	case NETDEV_UNREGISTER:
		xa_erase(hpcc_speeds(dev_net(dev)), dev->ifindex);
		break;
	}
	return NOTIFY_DONE;
}

static u32 hpcc_device_mbps(const struct net *net, int ifindex)
{
	void *entry;

	if (!hpcc_setup_is_up(&hpcc_device_setup))
		return HPCC_DEFAULT_MBPS;
	entry = xa_load(hpcc_speeds(net), ifindex);
	return entry && xa_to_value(entry) ? xa_to_value(entry) : HPCC_DEFAULT_MBPS;
}

/**
 * hpcc_host_rate() - B of the host
 * @sk: connected socket, under its lock
 * @mbps: configured value, Mbit/s; 0: the speed of the egress device of the socket's route, or
 *	HPCC_DEFAULT_MBPS if it is unknown
 * Return: bytes/s.
 */
u64 hpcc_host_rate(const struct sock *sk, u32 mbps)
{
	const struct dst_entry *dst;

	if (!mbps) {
		rcu_read_lock();
		dst = __sk_dst_get((struct sock *)sk);
		mbps = dst ? hpcc_device_mbps(sock_net(sk), dst->dev->ifindex) : HPCC_DEFAULT_MBPS;
		rcu_read_unlock();
	}
	return (u64)mbps * (1000000 / BITS_PER_BYTE);
}
EXPORT_SYMBOL_GPL(hpcc_host_rate);

/**
 * hpcc_base_rtt_ns() - T
 * @sk: socket, under its lock
 * @configured_ns: configured value; 0: the minimum RTT of the connection
 * Return: ns.
 */
u32 hpcc_base_rtt_ns(const struct sock *sk, u32 configured_ns)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = tcp_min_rtt(tp);

	if (configured_ns)
		return configured_ns;
	/* For an RTT below 1 us TCP sets the minimum RTT to a jiffy, but not srtt_us (us / 8). */
	if (tp->srtt_us && tp->srtt_us < 8)
		return HPCC_T_MIN_NS;
	if (rtt_us == ~0U || !rtt_us)
		return HPCC_T_DEFAULT_NS;
	return clamp_t(u64, (u64)rtt_us * NSEC_PER_USEC, HPCC_T_MIN_NS, HPCC_T_MAX_NS);
}
EXPORT_SYMBOL_GPL(hpcc_base_rtt_ns);

/**
 * hpcc_starts_at_line_rate() - whether B * T may be sent before the first ACK
 * @sk: socket, under its lock, at the end of its handshake
 * @configured_ns: configured T, which is trusted; 0: the minimum RTT of the connection
 * @longest_ns: maximum T from a handshake, because the peer controls its duration
 */
bool hpcc_starts_at_line_rate(const struct sock *sk, u32 configured_ns, u32 longest_ns)
{
	return configured_ns || hpcc_base_rtt_ns(sk, 0) <= longest_ns;
}
EXPORT_SYMBOL_GPL(hpcc_starts_at_line_rate);

/* Register the notifier. It is also called for existing devices. */
static int hpcc_device_register(struct hpcc_devices *devices)
{
	int err = register_netdevice_notifier_net(devices->net, &devices->notifier);

	devices->registered = !err;
	return err;
}

/* If an allocation fails, the speeds of all devices of the namespace count as unknown. */
static void hpcc_device_work(struct work_struct *work)
{
	hpcc_device_register(container_of(work, struct hpcc_devices, work));
}

static int __net_init hpcc_device_net_init(struct net *net)
{
	struct hpcc_devices *devices = net_generic(net, hpcc_device_net_id);

	xa_init(&devices->speeds);
	devices->notifier.notifier_call = hpcc_device_event;
	INIT_WORK(&devices->work, hpcc_device_work);
	INIT_WORK(&devices->stacked, hpcc_stacked_work);
	devices->net = net;
	if (!READ_ONCE(hpcc_device_changing))
		return hpcc_device_register(devices);
	schedule_work(&devices->work);
	return 0;
}

static void __net_exit hpcc_device_net_exit(struct net *net)
{
	struct hpcc_devices *devices = net_generic(net, hpcc_device_net_id);

	cancel_work_sync(&devices->work);
	if (devices->registered)
		unregister_netdevice_notifier_net(net, &devices->notifier);
	/* Notifiers of other namespaces do not start it again, because they hold RTNL. */
	cancel_work_sync(&devices->stacked);
	xa_destroy(&devices->speeds);
}

static struct pernet_operations hpcc_device_net_ops = {
	.init	= hpcc_device_net_init,
	.exit	= hpcc_device_net_exit,
	.id	= &hpcc_device_net_id,
	.size	= sizeof(struct hpcc_devices),
};

static int hpcc_device_up(void)
{
	int err;

	WRITE_ONCE(hpcc_device_changing, true);
	err = register_pernet_subsys(&hpcc_device_net_ops);
	WRITE_ONCE(hpcc_device_changing, false);
	return err;
}

static void hpcc_device_down(void)
{
	WRITE_ONCE(hpcc_device_changing, true);
	unregister_pernet_subsys(&hpcc_device_net_ops);
}

/* Tracks device speeds; existing devices follow when RTNL is free. */
struct hpcc_setup hpcc_device_setup = {
	.name	= "hpcc_common",
	.up	= hpcc_device_up,
	.down	= hpcc_device_down,
};
