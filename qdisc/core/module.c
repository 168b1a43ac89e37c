// SPDX-License-Identifier: GPL-2.0
/* Modules that a port needs for a part of its configuration: carriers, and enum hpcc_part. */
#include <linux/capability.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <net/netlink.h>

#include "core/sched.h"

/* Protects hpcc_module.owner. A task that holds it takes no other lock. */
static DEFINE_MUTEX(hpcc_modules_lock);

static struct hpcc_module hpcc_part_modules[HPCC_PARTS] = {
	[HPCC_PART_RESPOND] = {
		.name = "respond", .missing = "respond: module sch_hpcc_respond not loaded",
	},
	[HPCC_PART_BORDER] = {
		.name = "border", .missing = "quantize, strip: module sch_hpcc_border not loaded",
	},
	[HPCC_PART_CLASS] = {
		.name = "class", .missing = "class: module sch_hpcc_class not loaded",
	},
};

const struct hpcc_part_ops *hpcc_parts[HPCC_PARTS] __read_mostly;
EXPORT_SYMBOL_GPL(hpcc_parts);

/* Store that a module was loaded, or (@owner NULL) is being removed. The module's init calls this.
 * It must not take RTNL: hpcc_module_get() may hold RTNL and wait for init.
 */
void hpcc_module_set(struct hpcc_module *m, struct module *owner)
{
	mutex_lock(&hpcc_modules_lock);
	m->owner = owner;
	mutex_unlock(&hpcc_modules_lock);
}

/* Report an error in an attribute. @message: constant. Return: @err. */
int hpcc_reject(struct netlink_ext_ack *extack, const struct nlattr *attr, int err,
		const char *message)
{
	NL_SET_BAD_ATTR(extack, attr);
	if (extack)
		extack->_msg = message;
	return err;
}
EXPORT_SYMBOL_GPL(hpcc_reject);

static bool hpcc_module_hold(const struct hpcc_module *m)
{
	bool got;

	mutex_lock(&hpcc_modules_lock);
	got = m->owner && try_module_get(m->owner);
	mutex_unlock(&hpcc_modules_lock);
	return got;
}

/* Hold a module; load it if it is missing. @attr: the attribute that needs it. RTNL stays locked
 * while modprobe runs. This is safe: init of these modules takes only hpcc_modules_lock.
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
	return hpcc_reject(extack, attr, -ENOENT, m->missing);
}

/* Let ports use a part. Return: 0, for module_driver(). */
int hpcc_part_register(const struct hpcc_part_ops *ops)
{
	hpcc_parts[ops->part] = ops;
	hpcc_module_set(&hpcc_part_modules[ops->part], ops->owner);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_part_register);

/* The module of a part is being removed; no port has the part. */
void hpcc_part_unregister(const struct hpcc_part_ops *ops)
{
	hpcc_module_set(&hpcc_part_modules[ops->part], NULL);
	hpcc_parts[ops->part] = NULL;
}
EXPORT_SYMBOL_GPL(hpcc_part_unregister);

/* Create the state of a part of a port, if the new configuration needs the part. It is not active
 * yet. @attr: the attribute that needs the part. The port then holds the module until
 * hpcc_part_put(). A part with an enqueue or dequeue function stays until the port is destroyed,
 * even if it is off: another CPU may still run the function. Under RTNL.
 * Return: 0, -ENOENT if the module cannot be loaded, or -ENOMEM.
 */
int hpcc_part_get(struct Qdisc *sch, enum hpcc_part part, bool needed, const struct nlattr *attr,
		  struct netlink_ext_ack *extack)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	int err;

	if (!needed || q->part[part])
		return 0;
	err = hpcc_module_get(&hpcc_part_modules[part], attr, extack);
	if (err)
		return err;
	q->part[part] = hpcc_parts[part]->create(qdisc_dev(sch));
	if (q->part[part])
		return 0;
	module_put(hpcc_part_modules[part].owner);
	return -ENOMEM;
}

/* Destroy a part of a port, if the port has it, after the last packet that uses it; may sleep. */
void hpcc_part_put(struct hpcc_sched *q, enum hpcc_part part)
{
	if (!q->part[part])
		return;
	hpcc_parts[part]->destroy(q->part[part]);
	q->part[part] = NULL;
	module_put(hpcc_part_modules[part].owner);
}
