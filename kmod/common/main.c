// SPDX-License-Identifier: GPL-2.0
/* hpcc_common: code that tcp_hpcc and tcp_ldcp share; modprobe loads it with them. */
#include <linux/module.h>

#include "device.h"
#include "setup.h"

static int __init hpcc_common_init(void)
{
	int err = hpcc_setup_init();

	if (err)
		return err;
	hpcc_device_init();
	return 0;
}

static void __exit hpcc_common_exit(void)
{
	hpcc_device_exit();
	hpcc_setup_exit();
}

module_init(hpcc_common_init);
module_exit(hpcc_common_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Code that tcp_hpcc and tcp_ldcp share");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
