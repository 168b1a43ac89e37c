// SPDX-License-Identifier: GPL-2.0
/* hpcc_common: code that tcp_hpcc and tcp_ldcp share; modprobe loads it with them. */
#include <linux/module.h>

#include "device.h"

static int __init hpcc_common_init(void)
{
	hpcc_setup_wq = alloc_ordered_workqueue("hpcc_setup", 0);
	if (!hpcc_setup_wq)
		return -ENOMEM;
	hpcc_setup_begin(&hpcc_device_setup);
	return 0;
}

static void __exit hpcc_common_exit(void)
{
	hpcc_setup_end(&hpcc_device_setup);
	destroy_workqueue(hpcc_setup_wq);
}

module_init(hpcc_common_init);
module_exit(hpcc_common_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Code that tcp_hpcc and tcp_ldcp share");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
