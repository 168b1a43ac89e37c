// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations that must not block a module's init.
 *
 * "ip route ... congctl hpcc" holds RTNL while it waits for modprobe. register_pernet_subsys()
 * takes pernet_ops_rwsem, and genl_register_family() takes cb_lock. The creation and the removal of
 * a network namespace hold the first while they wait for RTNL; a generic netlink request holds the
 * second. So init never waits for these locks without a limit: it registers the congestion control,
 * and a work item does the rest. Until then new connections run the classic response.
 *
 * A script that calls modprobe expects /proc/sys/net to be complete when modprobe returns. So init
 * waits for the work item
 *
 *	until it is done, a minute at most, if RTNL is free at some moment after the congestion
 *		control is registered: a process that takes RTNL later finds the congestion
 *		control, and does not wait for this module;
 *	a second at most, if RTNL is held all the time: the holder may be the one that waits.
 *
 * The queue is ordered, so hpcc_common is ready before the modules that need it.
 */
#include <linux/export.h>
#include <linux/printk.h>
#include <linux/rtnetlink.h>

#include "setup.h"

#define HPCC_SETUP_RETRY	HZ

/* Number of times that init checks RTNL, and the wait between two checks. */
#define HPCC_SETUP_LOOKS	100
#define HPCC_SETUP_LOOK		msecs_to_jiffies(10)

#define HPCC_SETUP_LONGEST	(60 * HZ)

struct workqueue_struct *hpcc_setup_wq;

static void hpcc_setup_work(struct work_struct *work)
{
	struct hpcc_setup *setup = container_of(to_delayed_work(work), struct hpcc_setup, work);
	int err = setup->up();

	if (!err) {
		/* Pairs with hpcc_setup_is_up(): all writes of up() are visible before. */
		smp_store_release(&setup->is_up, true);
		complete_all(&setup->done);
		return;
	}
	if (!setup->has_failed)
		pr_err("%s: not ready: error %d; trying again each second\n", setup->name, err);
	setup->has_failed = true;
	queue_delayed_work(hpcc_setup_wq, &setup->work, HPCC_SETUP_RETRY);
}

/**
 * hpcc_setup_begin() - start a module's registrations in the background
 * @setup: the module's
 * Context: a module's init; does not sleep.
 */
void hpcc_setup_begin(struct hpcc_setup *setup)
{
	init_completion(&setup->done);
	INIT_DELAYED_WORK(&setup->work, hpcc_setup_work);
	queue_delayed_work(hpcc_setup_wq, &setup->work, 0);
}
EXPORT_SYMBOL_GPL(hpcc_setup_begin);

/**
 * hpcc_setup_wait() - wait for the registrations as long as this is safe
 * @setup: the module's, whose congestion control is registered
 * Context: a module's init; sleeps. A signal that kills the caller ends the wait.
 */
void hpcc_setup_wait(struct hpcc_setup *setup)
{
	u32 i;

	for (i = 0; i < HPCC_SETUP_LOOKS; i++) {
		if (wait_for_completion_killable_timeout(&setup->done, HPCC_SETUP_LOOK))
			return;
		if (rtnl_trylock()) {
			rtnl_unlock();
			wait_for_completion_killable_timeout(&setup->done, HPCC_SETUP_LONGEST);
			return;
		}
	}
}
EXPORT_SYMBOL_GPL(hpcc_setup_wait);

/**
 * hpcc_setup_end() - undo a module's registrations
 * @setup: the module's; no longer in use
 * Context: a module's exit. May wait for all locks: a request to load a module that is being
 * removed fails, and does not wait.
 */
void hpcc_setup_end(struct hpcc_setup *setup)
{
	cancel_delayed_work_sync(&setup->work);
	if (setup->is_up)
		setup->down();
}
EXPORT_SYMBOL_GPL(hpcc_setup_end);
