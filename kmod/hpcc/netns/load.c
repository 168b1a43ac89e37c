// SPDX-License-Identifier: GPL-2.0
/*
 * Carriers other than the TCP option, receiver mode and signed feedback are modules. The kernel
 * loads one when the administrator configures it: by net.hpcc.carrier or net.hpcc.where, by a
 * route, by a key, or by the table of links. Any user's netlink request loads hpcc_netlink
 * (observe/netlink.c).
 */
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/netlink.h>

#include "netns/net.h"

static const struct {
	const char *name, *missing;
	bool needs_links;
} hpcc_modules[] = {
	[HPCC_CARRIER_IOAM]	= { "hpcc_ioam", "the module hpcc_ioam is not loaded", true },
	[HPCC_CARRIER_INT]	= { "hpcc_int", "the module hpcc_int is not loaded", true },
	[HPCC_CARRIER_IFA]	= { "hpcc_ifa", "the module hpcc_ifa is not loaded", true },
	[HPCC_CARRIER_CSIG]	= { "hpcc_csig", "the module hpcc_csig is not loaded" },
	[HPCC_MODULE_RECEIVER]	= { "hpcc_receiver", "the module hpcc_receiver is not loaded" },
	[HPCC_MODULE_INTEGRITY]	= { "hpcc_integrity", "the module hpcc_integrity is not loaded" },
};

/* main.c sets up() and down(). */
struct hpcc_setup hpcc_setup = { .name = "tcp_hpcc" };
EXPORT_SYMBOL_GPL(hpcc_setup);

unsigned long hpcc_modules_loaded __read_mostly = BIT(HPCC_CARRIER_TCP);
EXPORT_SYMBOL_GPL(hpcc_modules_loaded);

/**
 * hpcc_module_request() - load a module
 * @name: its name
 *
 * The reference makes rmmod tcp_hpcc fail while modprobe runs. Otherwise rmmod would wait for the
 * caller's request, the request for modprobe, and modprobe for rmmod.
 *
 * Context: sleeps; the caller holds no lock that the init of a module takes.
 */
void hpcc_module_request(const char *name)
{
	if (!try_module_get(THIS_MODULE))
		return;
	request_module("%s", name);
	module_put(THIS_MODULE);
}

/**
 * hpcc_module_load() - load the module of a carrier or of a mode, unless it is loaded
 * @id: enum hpcc_carrier, or HPCC_MODULE_*
 *
 * The caller needs CAP_NET_ADMIN in the initial user namespace, as for loading a congestion
 * control.
 *
 * Context: as hpcc_module_request().
 * Return: 0; -ENOENT if the module is not loaded.
 */
int __cold hpcc_module_load(unsigned int id)
{
	if (!test_bit(id, &hpcc_modules_loaded) && capable(CAP_NET_ADMIN))
		hpcc_module_request(hpcc_modules[id].name);
	return test_bit(id, &hpcc_modules_loaded) ? 0 : -ENOENT;
}

/**
 * hpcc_module_need() - as hpcc_module_load(), for a netlink request
 * @id: as for hpcc_module_load()
 * @attr: attribute that needs the module
 * @extack: for the error message, which names the module
 *
 * Context, return: as hpcc_module_load().
 */
int __cold hpcc_module_need(unsigned int id, const struct nlattr *attr,
			    struct netlink_ext_ack *extack)
{
	int err = hpcc_module_load(id);

	if (err && extack) {
		NL_SET_BAD_ATTR(extack, attr);
		extack->_msg = hpcc_modules[id].missing;
	}
	return err;
}
EXPORT_SYMBOL_GPL(hpcc_module_need);

/**
 * hpcc_where_load() - as hpcc_module_load(), for receiver mode if it is configured
 * @where: net.hpcc.where
 */
int hpcc_where_load(unsigned int where)
{
	return where ? hpcc_module_load(HPCC_MODULE_RECEIVER) : 0;
}

/**
 * hpcc_carriers_load_links() - load the modules of all carriers that need the table of links
 *
 * Context: as hpcc_module_load().
 * Return: 0; -ENOENT if no such module is loaded afterwards.
 */
int __cold hpcc_carriers_load_links(void)
{
	int err = -ENOENT;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hpcc_modules); i++)
		if (hpcc_modules[i].needs_links && !hpcc_module_load(i))
			err = 0;
	return err;
}
EXPORT_SYMBOL_GPL(hpcc_carriers_load_links);
