/* SPDX-License-Identifier: GPL-2.0 */
/* Registrations of a module after it is loaded (setup.c). */
#ifndef _HPCC_COMMON_SETUP_H
#define _HPCC_COMMON_SETUP_H

#include <linux/completion.h>
#include <linux/workqueue.h>

/* Registrations of a module after it is loaded. */
struct hpcc_setup {
	const char		*name;		/* of the module, for the kernel log */
	int			(*up)(void);	/* registers all, or nothing and returns an error */
	void			(*down)(void);	/* undoes @up */
	struct delayed_work	work;		/* calls @up, each second until it succeeds */
	struct completion	done;		/* @up has succeeded */
	bool			is_up;		/* as @done, but read without a lock */
	bool			has_failed;	/* @up has failed before; @work only */
};

extern struct workqueue_struct *hpcc_setup_wq;

void hpcc_setup_begin(struct hpcc_setup *setup);
void hpcc_setup_wait(struct hpcc_setup *setup);
void hpcc_setup_end(struct hpcc_setup *setup);

/* Whether a module has registered everything. If so, the caller sees everything that up() wrote. */
static inline bool hpcc_setup_is_up(const struct hpcc_setup *setup)
{
	/* Pairs with hpcc_setup_work(). */
	return smp_load_acquire(&setup->is_up);
}

#endif /* _HPCC_COMMON_SETUP_H */
