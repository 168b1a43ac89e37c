/* SPDX-License-Identifier: GPL-2.0 */
/* Signed feedback: its module hpcc_integrity (integrity.c), and its use (integrity_ops.c). */
#ifndef _HPCC_CONTROL_INTEGRITY_OPS_H
#define _HPCC_CONTROL_INTEGRITY_OPS_H

#include <linux/module.h>
#include <hpcc/wire/sign.h>

#include "flow/flow.h"
#include "packet/arrival.h"
#include "packet/segment.h"

/* Result of @caps, beside HPCC_CAP_SIGNED: the peer must sign, too. */
#define HPCC_KEY_REQUIRED	0x8000

/* Signed feedback. Context: RCU read side. */
struct hpcc_integrity_ops {
	struct module *owner;

	/* HPCC_CAP_SIGNED if there is a key for the peer of a full or request socket, and
	 * HPCC_KEY_REQUIRED; else 0.
	 */
	u16 (*caps)(const struct sock *sk);
	/* Allocate the state of a new flow, which holds the module. @fresh: the connection never
	 * ran hpcc before. Return: NULL if there is no key or no memory. Socket lock.
	 */
	struct hpcc_integrity *(*begin)(const struct sock *sk, bool active, bool fresh);
	/* In LOCAL_OUT: the moment of a segment. Return: false if it cannot carry feedback now. */
	bool (*moment)(struct hpcc_flow *flow, const struct hpcc_segment *seg,
		       struct hpcc_moment *m);
	/* In LOCAL_OUT: sign @len bytes of feedback. Writes HPCC_TAG_LEN more bytes. */
	void (*sign)(struct hpcc_flow *flow, const struct hpcc_moment *m, u8 *p, u32 len);
	/* In LOCAL_IN: judge an option that hpcc_opt_decode() rejects, the first feedback of a
	 * segment, or a second option of one direction. @seen: bit mask of enum hpcc_seen. Sets
	 * @opt. Return: @seen after this option; -EINVAL if it is malformed.
	 */
	int (*in)(struct hpcc_flow *flow, const struct hpcc_arrival *in, u32 at, u32 pos,
		  struct hpcc_opt *opt, u32 seen);
	void (*free)(struct hpcc_integrity *integrity);
};

/* NULL while the module is not loaded. Constant while a flow holds the module. */
extern const struct hpcc_integrity_ops __rcu *hpcc_integrity;

/* The functions for a flow; NULL if it has no state, and so can neither sign nor verify. */
static inline const struct hpcc_integrity_ops *hpcc_integrity_of(const struct hpcc_flow *flow)
{
	return flow->integrity ? rcu_dereference_raw(hpcc_integrity) : NULL;
}

/* Count feedback that was ignored, and why. Context: LOCAL_IN. */
static inline void hpcc_untrusted(struct hpcc_flow *flow, const struct net *net,
				  enum hpcc_ignored why)
{
	hpcc_count(net, HPCC_C_UNSIGNED_IGNORED + why - HPCC_IGNORED_UNSIGNED);
	hpcc_ignored_count(flow, why, 1);
}

u16 hpcc_key_caps(const struct sock *sk);
void hpcc_integrity_get(const struct sock *sk, struct hpcc_flow *flow, bool fresh);
void hpcc_integrity_put(struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_INTEGRITY_OPS_H */
