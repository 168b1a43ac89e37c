/* SPDX-License-Identifier: GPL-2.0 */
/* Detection that usable telemetry has stopped (silence.c). */
#ifndef _HPCC_CONTROL_SILENCE_H
#define _HPCC_CONTROL_SILENCE_H

#include "control/cc.h"

/* Telemetry can have stopped only after more than this number of ACKs without a usable record,
 * while more than this number of requests left.
 */
#define HPCC_SILENT_ACKS	8

/* Count an ACK of new data without a usable record. Return: whether silence is possible now. */
static inline bool hpcc_count_silent(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!flow->silent_acks) {
		flow->silence.since_us = tp->tcp_mstamp;
		flow->silence.requests = READ_ONCE(flow->requests);
	}
	if (flow->silent_acks <= HPCC_SILENT_ACKS)
		flow->silent_acks++;
	return flow->silent_acks > HPCC_SILENT_ACKS &&
	       READ_ONCE(flow->requests) - flow->silence.requests > HPCC_SILENT_ACKS;
}

/* Telemetry arrived, or another carrier is tried. */
static inline void hpcc_silence_end(struct hpcc_flow *flow)
{
	flow->silent_acks = 0;
}

/* A link was measured, or W starts to control the window. */
static inline void hpcc_silence_reset(struct hpcc_flow *flow)
{
	flow->silent_acks = 0;
	flow->new_links = 0;
}

enum hpcc_records hpcc_judge_records(const struct tcp_sock *tp, struct hpcc_flow *flow,
				     const struct rate_sample *rs, const struct hpcc_ack *ack);

#endif /* _HPCC_CONTROL_SILENCE_H */
