/* SPDX-License-Identifier: GPL-2.0 */
/* What a module registers after it is loaded (setup.c). */
#ifndef _HPCC_COMMON_SETUP_H
#define _HPCC_COMMON_SETUP_H

#include <linux/completion.h>
#include <linux/workqueue.h>

/**
 * struct hpcc_setup - what a module registers after it is loaded
 * @name: of the module, for the kernel log
 * @up: registers; all of it, or nothing. Returns 0 or a negative error
 * @down: takes it back
 * @work: calls @up, again after a second where it failed
 * @done: @up has succeeded
 * @is_up: the same, for those who do not wait; written by @work, read without a lock
 * @has_failed: @up has failed before; @work only
 */
struct hpcc_setup {
	const char		*name;
	int			(*up)(void);
	void			(*down)(void);
	struct delayed_work	work;
	struct completion	done;
	bool			is_up;
	bool			has_failed;
};

int hpcc_setup_init(void);
void hpcc_setup_exit(void);
void hpcc_setup_begin(struct hpcc_setup *setup);
void hpcc_setup_wait(struct hpcc_setup *setup);
void hpcc_setup_end(struct hpcc_setup *setup);

/**
 * hpcc_setup_is_up() - whether a module has registered everything
 * @setup: the module's
 *
 * Context: any.
 * Return: true if so; what @up wrote is then visible.
 */
static inline bool hpcc_setup_is_up(const struct hpcc_setup *setup)
{
	/* Pairs with hpcc_setup_work(). */
	return smp_load_acquire(&setup->is_up);
}

#endif /* _HPCC_COMMON_SETUP_H */
