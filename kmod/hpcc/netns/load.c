// SPDX-License-Identifier: GPL-2.0
/*
 * Carriers other than the TCP option are modules. The kernel loads one when the administrator
 * configures it: by net.hpcc.carrier, by a route, or by the table of links.
 */
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/kmod.h>
#include <linux/module.h>

#include "netns/net.h"

static const struct {
	const char *name;
	bool needs_links;
} hpcc_carrier_modules[] = {
	[HPCC_CARRIER_IOAM]	= { "ioam", true },
	[HPCC_CARRIER_INT]	= { "int", true },
	[HPCC_CARRIER_IFA]	= { "ifa", true },
	[HPCC_CARRIER_CSIG]	= { "csig" },
};

unsigned long hpcc_carriers_loaded __read_mostly = BIT(HPCC_CARRIER_TCP);

/**
 * hpcc_carrier_load() - load the module of a carrier, unless it is loaded
 * @carrier: enum hpcc_carrier
 *
 * Only CAP_NET_ADMIN in the initial user namespace loads it, as with congestion controls. The
 * reference makes rmmod tcp_hpcc fail while modprobe runs. Otherwise rmmod would wait for this
 * request, the request for modprobe, and modprobe for rmmod.
 *
 * Context: sleeps; the caller holds no lock that the init of a module takes.
 * Return: 0; -ENOENT if the carrier is not loaded.
 */
int hpcc_carrier_load(unsigned int carrier)
{
	if (!test_bit(carrier, &hpcc_carriers_loaded) && capable(CAP_NET_ADMIN) &&
	    try_module_get(THIS_MODULE)) {
		request_module("hpcc_%s", hpcc_carrier_modules[carrier].name);
		module_put(THIS_MODULE);
	}
	return test_bit(carrier, &hpcc_carriers_loaded) ? 0 : -ENOENT;
}

/**
 * hpcc_carriers_load_links() - load the modules of all carriers that need the table of links
 *
 * Context: as hpcc_carrier_load().
 * Return: 0; -ENOENT if none is loaded.
 */
int hpcc_carriers_load_links(void)
{
	int err = -ENOENT;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hpcc_carrier_modules); i++)
		if (hpcc_carrier_modules[i].needs_links && !hpcc_carrier_load(i))
			err = 0;
	return err;
}
