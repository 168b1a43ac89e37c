// SPDX-License-Identifier: GPL-2.0
/*
 * One bug of each class that a debug kernel must detect. If a kernel reports these bugs, and
 * nothing for the other modules, the other modules have no such bugs.
 *
 * The parameter bug=NAME triggers that bug when the module is loaded. Load it only in a guest.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

static char *bug = "";
module_param(bug, charp, 0400);
MODULE_PARM_DESC(bug, "bounds, freed, locks, sleep, leak, timer, shift or race");

static void bug_bounds(void)
{
	char *p = kmalloc(24, GFP_KERNEL);
	int beyond = 24;

	OPTIMIZER_HIDE_VAR(beyond);
	if (p)
		WRITE_ONCE(p[beyond], 1);
	kfree(p);
}

static void bug_freed(void)
{
	char *p = kmalloc(24, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	if (p)
		WRITE_ONCE(p[0], 1);
}

static DEFINE_SPINLOCK(one);
static DEFINE_SPINLOCK(other);

static void bug_locks(void)
{
	spin_lock(&one);
	spin_lock(&other);
	spin_unlock(&other);
	spin_unlock(&one);
	spin_lock(&other);
	spin_lock(&one);
	spin_unlock(&one);
	spin_unlock(&other);
}

static void bug_sleep(void)
{
	spin_lock(&one);
	msleep(20);
	spin_unlock(&one);
}

/* Leak several objects: the detector misses one if any other value looks like a pointer to it. */
static void bug_leak(void)
{
	char *p;
	int i;

	for (i = 0; i < 20; i++) {
		p = kmalloc(1000 + i, GFP_KERNEL);
		if (p)
			WRITE_ONCE(p[0], i);
	}
}

static void bug_timer_fn(struct timer_list *timer)
{
}

static void bug_timer(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, bug_timer_fn, 0);
	mod_timer(timer, jiffies + 100 * HZ);
	kfree(timer);
}

static void bug_shift(void)
{
	int by = 40;
	int value = 1;

	OPTIMIZER_HIDE_VAR(by);
	WRITE_ONCE(value, value << by);
}

static unsigned long raced;

static int bug_race_fn(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		barrier();
		cond_resched();
	}
	return 0;
}

/* One CPU increments @raced while another CPU reads it, without READ_ONCE() and WRITE_ONCE(). */
static void bug_race(void)
{
	struct task_struct *task = kthread_run(bug_race_fn, NULL, "hpcc_bugs");
	unsigned long end = jiffies + 5 * HZ;
	unsigned long sum = 0;

	if (IS_ERR(task))
		return;
	while (time_before(jiffies, end)) {
		sum += raced;
		barrier();
		cond_resched();
	}
	kthread_stop(task);
	WRITE_ONCE(raced, sum);
}

static const struct {
	const char *name;
	void (*make)(void);
} bugs[] = {
	{ "bounds", bug_bounds },
	{ "freed", bug_freed },
	{ "locks", bug_locks },
	{ "sleep", bug_sleep },
	{ "leak", bug_leak },
	{ "timer", bug_timer },
	{ "shift", bug_shift },
	{ "race", bug_race },
};

static int __init hpcc_bugs_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(bugs); i++) {
		if (!strcmp(bug, bugs[i].name)) {
			bugs[i].make();
			return 0;
		}
	}
	return -EINVAL;
}

static void __exit hpcc_bugs_exit(void)
{
}

module_init(hpcc_bugs_init);
module_exit(hpcc_bugs_exit);

MODULE_DESCRIPTION("Bugs that a debug kernel must detect");
MODULE_LICENSE("GPL");
