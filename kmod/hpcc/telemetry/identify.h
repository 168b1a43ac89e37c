/* SPDX-License-Identifier: GPL-2.0 */
/* Which links the path of a connection has (identify.c). */
#ifndef _HPCC_TELEMETRY_IDENTIFY_H
#define _HPCC_TELEMETRY_IDENTIFY_H

#include <hpcc/wire/record.h>

#include "flow/flow.h"

/**
 * struct hpcc_path - what the links of a path said of themselves, and what is left to ask
 *
 * With READ_ONCE() and WRITE_ONCE() and no lock, as all that the hooks share:
 *
 * @turn: counts requests, for IDENTIFY among them
 * @left: IDENTIFY segments still to be sent, whatever is known
 * @again: and after these, as long as a link has not answered
 * @identity: links by hop - 1, identity records
 *
 * @rcu: frees it
 */
struct hpcc_path {
	u32 turn;
	u8 left;
	u8 again;
	u64 identity[HPCC_HOPS_MAX];
	struct rcu_head rcu;
};

/**
 * hpcc_identify_due() - whether each segment is to ask, so that the links' names come soon
 * @flow: a flow
 *
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
void hpcc_path_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		  const u8 *records);
void hpcc_paths_ask(struct net *net);
void hpcc_paths_init(struct hpcc_net *hn);
void hpcc_paths_exit(struct hpcc_net *hn);

#endif /* _HPCC_TELEMETRY_IDENTIFY_H */
