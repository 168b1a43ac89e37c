/* SPDX-License-Identifier: GPL-2.0 */
/* Segments without our option, because the path may drop segments with it (mute.c). */
#ifndef _HPCC_CONTROL_MUTE_H
#define _HPCC_CONTROL_MUTE_H

#include "flow/flow.h"
#include "packet/segment.h"

bool hpcc_mute_rto(struct sock *sk, struct hpcc_flow *flow);
void hpcc_mute_ack(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_mute_out(const struct hpcc_segment *seg, const struct tcp_sock *tp,
		   struct hpcc_flow *flow, enum hpcc_presence presence, bool request);

/* Whether a pause began since the last call. Socket lock. */
static inline bool hpcc_mute_paused(struct hpcc_flow *flow)
{
	if (!READ_ONCE(flow->mute_past.paused))
		return false;
	WRITE_ONCE(flow->mute_past.paused, false);
	return true;
}

/* Whether hpcc_mute_out() must decide about a segment with the options @presence, or the flow signs
 * feedback. LOCAL_OUT.
 */
static inline bool hpcc_is_unusual(const struct hpcc_flow *flow, enum hpcc_presence presence)
{
	return READ_ONCE(flow->mute.unusual) || presence == HPCC_DUPLICATE;
}

/* The feedback of a new flow is signed. */
static inline void hpcc_mute_sign(struct hpcc_flow *flow)
{
	flow->mute.is_signed = true;
}

#endif /* _HPCC_CONTROL_MUTE_H */
