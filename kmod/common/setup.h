/* SPDX-License-Identifier: GPL-2.0 */
/* Registrations of a module after it is loaded (setup.c). */
#ifndef _HPCC_COMMON_SETUP_H
#define _HPCC_COMMON_SETUP_H

#include <linux/completion.h>
#include <linux/workqueue.h>

/**
 * struct hpcc_setup - registrations of a module after it is loaded
 * @name: of the module, for the kernel log
 * @up: registers everything, or nothing on error. Returns 0 or a negative error
 * @down: undoes @up
 * @work: calls @up, and again after a second if it failed
 * @done: @up has succeeded
 * @is_up: @up has succeeded, for readers that do not wait; written by @work, read without a lock
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
 * Return: true if so; then all writes of @up are visible.
 */
static inline bool hpcc_setup_is_up(const struct hpcc_setup *setup)
{
	/* Pairs with hpcc_setup_work(). */
	return smp_load_acquire(&setup->is_up);
}

#endif /* _HPCC_COMMON_SETUP_H */
