/* SPDX-License-Identifier: GPL-2.0 */
/* Names of the links of a connection's path (identify.c). */
#ifndef _HPCC_TELEMETRY_IDENTIFY_H
#define _HPCC_TELEMETRY_IDENTIFY_H

#include "flow/flow.h"

/* Names of the links of a path. The hooks and ack.c use READ_ONCE() and WRITE_ONCE(), no lock. */
struct hpcc_path {
	u32 turn;	/* counts requests, both FORWARD and IDENTIFY */
	u8 left;	/* IDENTIFY segments still to send for all links */
	u8 again;	/* IDENTIFY segments to send after these, while a link has not answered */
	u64 identity[HPCC_HOPS_MAX];	/* identity records by hop - 1 */
	struct rcu_head rcu;
};

/* Whether each segment must carry a request, because IDENTIFY was not sent for all links yet.
 * Context: RCU read side.
 */
static inline bool hpcc_identify_due(const struct hpcc_flow *flow)
{
	const struct hpcc_path *path;

	if (likely(!READ_ONCE(flow->identify_active)))
		return false;
	path = rcu_dereference(flow->path);
	return path && READ_ONCE(path->left);
}

void hpcc_path_flow_added(struct net *net, struct hpcc_flow *flow);
void hpcc_path_ask(struct hpcc_flow *flow);
void hpcc_path_resize(struct hpcc_flow *flow, u32 hops);
void hpcc_path_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records);
void hpcc_paths_ask(struct net *net);
void hpcc_paths_init(struct hpcc_net *hn);

#endif /* _HPCC_TELEMETRY_IDENTIFY_H */
