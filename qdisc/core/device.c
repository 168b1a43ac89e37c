// SPDX-License-Identifier: GPL-2.0
/* B of a port: the speed of its device. */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <hpcc/compat.h>

#include "core/sched.h"

static const u32 hpcc_mbps_fallback = SPEED_10000;

/* Bytes/s. Under RTNL. */
static u64 hpcc_device_bandwidth(struct net_device *dev)
{
	struct ethtool_link_ksettings settings;
	u32 mbps = hpcc_mbps_fallback;

	/* Any program may set the speed of its TAP device; SPEED_UNKNOWN is larger, too. */
	if (!netif_get_link_ksettings(dev, &settings) && settings.base.speed &&
	    settings.base.speed <= HPCC_RATE_MAX / (1000000 / 8))
		mbps = settings.base.speed;
	return mbps * (1000000ULL / 8);
}

/* B of a port, bytes/s. Under RTNL. */
u64 hpcc_bandwidth(struct net_device *dev, const struct hpcc_config *cfg)
{
	return cfg->rate ?: cfg->bandwidth ?: hpcc_device_bandwidth(dev);
}

/* Warn if B is a sum of unequal speeds: a flow may use only one device below. Under RTNL. */
void hpcc_warn_unequal(struct net_device *dev, const struct hpcc_config *cfg,
		       struct netlink_ext_ack *extack)
{
	u32 least = U32_MAX, most = 0, mbps;
	struct ethtool_link_ksettings settings;
	struct net_device *lower;
	struct list_head *iter;
	u64 sum = 0;

	if (cfg->rate || cfg->bandwidth || !netif_is_lag_master(dev))
		return;
	netdev_for_each_lower_dev(dev, lower, iter) {
		if (__ethtool_get_link_ksettings(lower, &settings) || !settings.base.speed)
			continue;
		mbps = settings.base.speed;
		sum += mbps * (1000000ULL / 8);
		least = min(least, mbps);
		most = max(most, mbps);
	}
	if (least < most && sum == hpcc_device_bandwidth(dev))
		NL_SET_ERR_MSG(extack,
			       "B is the sum of links with different speeds: put hpcc on each of these links, or set bandwidth");
}
