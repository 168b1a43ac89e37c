// SPDX-License-Identifier: GPL-2.0
/* Modules that a port needs for a part of its configuration: carriers and responses (respond.c). */
#include <linux/capability.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <net/netlink.h>

#include "core/sched.h"

/* Protects hpcc_module.owner. A task that holds it takes no other lock. */
static DEFINE_MUTEX(hpcc_modules_lock);

static struct hpcc_module hpcc_respond_module = {
	.name = "respond", .missing = "respond: module sch_hpcc_respond not loaded",
};

static struct hpcc_module hpcc_border_module = {
	.name = "border", .missing = "quantize, strip: module sch_hpcc_border not loaded",
};

const struct hpcc_respond_ops *hpcc_respond_ops __read_mostly;

const struct hpcc_border_ops *hpcc_border_ops __read_mostly;

/**
 * hpcc_module_set() - store that a module was loaded, or is being removed
 * @m: data of sch_hpcc about the module
 * @owner: the module; NULL: it is being removed
 *
 * The module's init calls this. It must not take RTNL: hpcc_module_get() may hold RTNL and wait for
 * init.
 */
void hpcc_module_set(struct hpcc_module *m, struct module *owner)
{
	mutex_lock(&hpcc_modules_lock);
	m->owner = owner;
	mutex_unlock(&hpcc_modules_lock);
}

static bool hpcc_module_hold(const struct hpcc_module *m)
{
	bool got;

	mutex_lock(&hpcc_modules_lock);
	got = m->owner && try_module_get(m->owner);
	mutex_unlock(&hpcc_modules_lock);
	return got;
}

/**
 * hpcc_module_get() - hold a module; load it if it is missing
 * @m: the module
 * @attr: the attribute that needs it
 * @extack: error message
 *
 * RTNL stays locked while modprobe runs. This is safe: init of these modules takes only
 * hpcc_modules_lock.
 * Return: 0, or -ENOENT if the module cannot be loaded.
 */
int hpcc_module_get(const struct hpcc_module *m, const struct nlattr *attr,
		    struct netlink_ext_ack *extack)
{
	if (hpcc_module_hold(m))
		return 0;
	/* All users of RTNL wait for modprobe; a container's administrator must not cause this. */
	if (capable(CAP_NET_ADMIN))
		request_module("sch_hpcc_%s", m->name);
	if (hpcc_module_hold(m))
		return 0;
	NL_SET_BAD_ATTR(extack, attr);
	if (extack)
		extack->_msg = m->missing;
	return -ENOENT;
}

/**
 * hpcc_respond_register() - let ports respond
 * @ops: functions of sch_hpcc_respond
 * Return: 0, for module_driver().
 */
int hpcc_respond_register(const struct hpcc_respond_ops *ops)
{
	hpcc_respond_ops = ops;
	hpcc_module_set(&hpcc_respond_module, ops->owner);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_respond_register);

/**
 * hpcc_respond_unregister() - sch_hpcc_respond is being removed; no port has a responder
 * @ops: its functions
 */
void hpcc_respond_unregister(const struct hpcc_respond_ops *ops)
{
	hpcc_module_set(&hpcc_respond_module, NULL);
	hpcc_respond_ops = NULL;
}
EXPORT_SYMBOL_GPL(hpcc_respond_unregister);

/**
 * hpcc_responder_get() - create the responder of a port, if its configuration needs one
 * @sch: the qdisc
 * @cfg: configuration, not active yet
 * @attr: TCA_HPCC_RESPOND
 * @extack: error message
 *
 * The port then holds sch_hpcc_respond until it is destroyed, even without responses: another CPU
 * may still run its enqueue function, and its tasklet may be scheduled.
 * Context: RTNL.
 * Return: 0, -ENOENT if the module cannot be loaded, or -ENOMEM.
 */
int hpcc_responder_get(struct Qdisc *sch, const struct hpcc_config *cfg, const struct nlattr *attr,
		       struct netlink_ext_ack *extack)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	int err;

	if (!cfg->respond || q->responder)
		return 0;
	err = hpcc_module_get(&hpcc_respond_module, attr, extack);
	if (err)
		return err;
	q->responder = hpcc_respond_ops->create(qdisc_dev(sch));
	if (q->responder)
		return 0;
	module_put(hpcc_respond_module.owner);
	return -ENOMEM;
}

/**
 * hpcc_responder_put() - destroy the responder of a port after the last packet; may sleep
 * @q: the port
 */
void hpcc_responder_put(struct hpcc_sched *q)
{
	if (!q->responder)
		return;
	hpcc_respond_ops->destroy(q->responder);
	module_put(hpcc_respond_module.owner);
}

/* Let ports be borders, as hpcc_respond_register(). */
int hpcc_border_register(const struct hpcc_border_ops *ops)
{
	hpcc_border_ops = ops;
	hpcc_module_set(&hpcc_border_module, ops->owner);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_border_register);

/* No port has been a border, as hpcc_respond_unregister(). */
void hpcc_border_unregister(const struct hpcc_border_ops *ops)
{
	hpcc_module_set(&hpcc_border_module, NULL);
	hpcc_border_ops = NULL;
}
EXPORT_SYMBOL_GPL(hpcc_border_unregister);

/* Create the state of a border, if @cfg needs it. As a responder, it exists until the port is
 * destroyed. Return: 0, -ENOENT if the module cannot be loaded, or -ENOMEM.
 */
int hpcc_border_get(struct hpcc_sched *q, const struct hpcc_config *cfg, struct nlattr **tb,
		    struct netlink_ext_ack *extack)
{
	int err;

	if (!hpcc_is_border(cfg) || q->border)
		return 0;
	err = hpcc_module_get(&hpcc_border_module, tb[TCA_HPCC_QUANTIZE] ?: tb[TCA_HPCC_STRIP],
			      extack);
	if (err)
		return err;
	q->border = kvzalloc(hpcc_border_ops->size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (q->border)
		return 0;
	module_put(hpcc_border_module.owner);
	return -ENOMEM;
}

/* Free the state of a border after the last packet. */
void hpcc_border_put(struct hpcc_sched *q)
{
	if (!q->border)
		return;
	kvfree(q->border);
	module_put(hpcc_border_module.owner);
}
