/* SPDX-License-Identifier: GPL-2.0 */
/* Carriers of telemetry at a port: the TCP option, and those behind struct hpcc_stamp_ops. */
#ifndef _HPCC_QDISC_STAMP_STAMP_OPS_H
#define _HPCC_QDISC_STAMP_STAMP_OPS_H

#include <linux/device/driver.h>
#include <linux/module.h>
#include <hpcc/carrier/csig.h>
#include <hpcc/wire/stamp.h>

#include "core/load.h"

/* Bits of the hint of a carrier other than the TCP option. */
#define HPCC_HINT_AT		GENMASK(9, 0)	/* offset of the bytes to write, or of TCP */
#define HPCC_HINT_BACK		GENMASK(15, 10)	/* words from an outer header to HPCC_HINT_AT */
#define HPCC_HINT_SIZE		GENMASK(21, 16)	/* a length in the carrier's unit */

static inline u32 hpcc_hint_found(u32 at, u32 back, u32 size)
{
	return HPCC_HINT_FOUND | FIELD_PREP(HPCC_HINT_AT, at) | FIELD_PREP(HPCC_HINT_BACK, back) |
	       FIELD_PREP(HPCC_HINT_SIZE, size);
}

/* If a packet has several carriers, the hint of the last one in this order is used. */
enum hpcc_stamp_row {
	HPCC_ROW_OPTION,
	HPCC_ROW_CSIG_PUSH,
	HPCC_ROW_INNER,		/* the TCP option in tunnels */
	HPCC_ROW_IOAM,
	HPCC_ROW_IFA,
	HPCC_ROW_INT,
	HPCC_ROW_CSIG,
	HPCC_ROWS,
};

/* A carrier other than the TCP option. hint, write and strip run under the qdisc's lock, validate
 * under RTNL, commit under both.
 */
struct hpcc_stamp_ops {
	enum hpcc_stamp_row row;	/* index of the carrier */
	struct module *owner;
	const struct hpcc_stamp_ops *next;	/* another carrier of the same module, or NULL */

	/* Find the carrier in an arriving packet; may change @headers. Returns a hint without
	 * HPCC_HINT_CARRIER, which replaces the hint of @headers; 0: there is no such carrier.
	 */
	u32	(*hint)(struct sk_buff *skb, const struct hpcc_config *cfg,
			struct hpcc_headers *headers);
	/* Write to a departing packet; @ts_ns and return value as in hpcc_stamp_packet(). */
	int	(*write)(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);
	/* Remove the carrier from a departing packet, or overwrite it. Returns 0; -ENOENT: it is
	 * not there; or another error. NULL: another row has the same carrier.
	 */
	int	(*strip)(struct sk_buff *skb, u32 hint);
	/* Check the configuration of a port that stamps the carrier. Returns 0 or an error. NULL:
	 * all are valid.
	 */
	int	(*validate)(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			    struct netlink_ext_ack *extack);
	void	(*commit)(struct hpcc_sched *q);	/* new configuration; may be NULL */
};

/* Entry of sch_hpcc for one carrier. ops is NULL while the module of the carrier is not loaded. A
 * port that stamps the carrier holds the module, so its ops do not change.
 */
struct hpcc_stamp_carrier {
	const struct hpcc_stamp_ops	*ops;
	struct hpcc_module		module;
	u8				stamp_bit;	/* HPCC_STAMP_* */
};

extern struct hpcc_stamp_carrier hpcc_stamp_carriers[HPCC_ROWS];

int hpcc_stamp_register(const struct hpcc_stamp_ops *ops);
void hpcc_stamp_unregister(const struct hpcc_stamp_ops *ops);

/* Utilization of a link (stamp.c). */
struct hpcc_util {
	u64	from_ns;	/* start of the window; 0: no window yet */
	u64	busy_ns;	/* hpcc_load.busy_ns at from_ns */
	u32	last;		/* utilization in the last window, in 1 / HPCC_INT_UTIL_ONE */
};

/* Private data of the qdisc, under its lock; csig changes under RTNL as well. */
struct hpcc_stamp_port {
	struct hpcc_sched	sched;
	struct hpcc_util	util;
	struct hpcc_csig_units	csig;
};

/* The core finds the port by qdisc_priv(). */
static_assert(offsetof(struct hpcc_stamp_port, sched) == 0);

static inline struct hpcc_stamp_port *hpcc_stamp_port(struct hpcc_sched *q)
{
	return container_of(q, struct hpcc_stamp_port, sched);
}

/* carrier.c */
u32 hpcc_hint_need(struct sk_buff *skb, u32 need, u32 end);
int hpcc_validate_port(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
		       struct netlink_ext_ack *extack);

/* stamp.c */
u32 hpcc_tx_bytes(u64 bytes_per_s, u64 tx_ns);
u32 hpcc_util_now(struct hpcc_sched *q, struct hpcc_load load, u64 ts_ns);

#endif /* _HPCC_QDISC_STAMP_STAMP_OPS_H */
