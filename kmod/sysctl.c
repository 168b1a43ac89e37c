// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters: net/hpcc/ of each network namespace.
 *
 * A connection reads them when it is established, and again when its T changes.
 * A value outside its range is refused with EINVAL and a line in the kernel log
 * that names the range; the old value stays.
 */
#include <linux/slab.h>
#include <linux/sysctl.h>

#include "hpcc.h"

/**
 * struct hpcc_knob - one parameter
 * @name: file name
 * @offset: of its value in struct hpcc_sysctls
 * @init: default
 * @min: smallest value allowed
 * @max: largest value allowed
 * @zero: 0 is allowed as well, and means "automatic"
 */
struct hpcc_knob {
	const char *name;
	size_t offset;
	unsigned int init;
	unsigned int min;
	unsigned int max;
	bool zero;
};

#define HPCC_KNOB(field) .offset = offsetof(struct hpcc_sysctls, field)

static const struct hpcc_knob hpcc_knobs[] = {
	/* draft-miao section 5: 95 % */
	{ "eta_permille", HPCC_KNOB(eta_permille), 950, 1, 1000 },
	/* draft-miao section 5: 5; the authors' simulator runs with 0 */
	{ "max_stage", HPCC_KNOB(max_stage), 5, 0, 255 },
	/* The HPCC paper sizes W_AI for 100 flows. */
	{ "n_flows", HPCC_KNOB(n_flows), 100, 1, 1000000 },
	{ "w_ai", HPCC_KNOB(w_ai_bytes), 0, 1, 1 << 30, true },
	/* 1 us to 1 s, the range the algorithm is tested over */
	{ "base_rtt_ns", HPCC_KNOB(base_rtt_ns), 0, 1000, 1000000000, true },
	/* up to 1 Tbit/s */
	{ "host_mbps", HPCC_KNOB(host_mbps), 0, 1, 1000000, true },
	/* Longer bursts queue in the sender's own NIC and count as RTT. */
	{ "burst", HPCC_KNOB(burst_segs), 4, 1, 64 },
	/* Three records fit beside timestamps. */
	{ "slots", HPCC_KNOB(slots), 3, 1, 3 },
	/* RFC 4727: the two experimental kinds */
	{ "option_kind", HPCC_KNOB(option_kind), HPCC_OPT_KIND_DEFAULT,
	  253, 254 },
	{ "option_exid", HPCC_KNOB(option_exid), HPCC_OPT_EXID_DEFAULT,
	  0, 0xffff },
};

static int hpcc_sysctl_handle(HPCC_CTL_TABLE_CONST struct ctl_table *table,
			      int write, void *buffer, size_t *lenp,
			      loff_t *ppos)
{
	const struct hpcc_knob *knob = table->extra1;
	unsigned int value = READ_ONCE(*(unsigned int *)table->data);
	struct ctl_table shadow = {
		.procname = table->procname,
		.data = &value,
		.maxlen = sizeof(value),
		.mode = table->mode,
	};
	int err;

	err = proc_douintvec(&shadow, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	if ((value < knob->min || value > knob->max) &&
	    !(knob->zero && !value)) {
		pr_notice_ratelimited("hpcc: %s = %u refused, allowed: %s%u to %u\n",
				      knob->name, value,
				      knob->zero ? "0 (automatic), " : "",
				      knob->min, knob->max);
		return -EINVAL;
	}
	WRITE_ONCE(*(unsigned int *)table->data, value);
	return 0;
}

/**
 * hpcc_sysctl_register() - set the defaults and show the parameters
 * @net: network namespace
 *
 * Return: 0 or a negative error.
 */
int hpcc_sysctl_register(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);
	struct ctl_table *table;
	int i;

	table = kcalloc(ARRAY_SIZE(hpcc_knobs) + HPCC_SYSCTL_SENTINEL,
			sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(hpcc_knobs); i++) {
		void *data = (void *)&hn->sysctls + hpcc_knobs[i].offset;

		*(unsigned int *)data = hpcc_knobs[i].init;
		table[i].procname = hpcc_knobs[i].name;
		table[i].data = data;
		table[i].maxlen = sizeof(unsigned int);
		table[i].mode = 0644;
		table[i].proc_handler = hpcc_sysctl_handle;
		table[i].extra1 = (void *)&hpcc_knobs[i];
	}
	hn->sysctl_header = hpcc_register_net_sysctl(net, "net/hpcc", table,
						     ARRAY_SIZE(hpcc_knobs));
	if (!hn->sysctl_header) {
		kfree(table);
		return -ENOMEM;
	}
	hn->sysctl_table = table;
	return 0;
}

/**
 * hpcc_sysctl_unregister() - take the parameters back
 * @net: network namespace
 */
void hpcc_sysctl_unregister(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);

	unregister_net_sysctl_table(hn->sysctl_header);
	kfree(hn->sysctl_table);
}
