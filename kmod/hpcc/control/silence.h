/* SPDX-License-Identifier: GPL-2.0 */
/* Detection that usable telemetry has stopped (silence.c). */
#ifndef _HPCC_CONTROL_SILENCE_H
#define _HPCC_CONTROL_SILENCE_H

#include <net/tcp.h>

#include "flow/flow.h"

struct hpcc_ack;

/**
 * enum hpcc_records - what the records of an ACK show about telemetry
 * @HPCC_RECORDS_USABLE: a link was measured, a record was skipped because it came too soon, or the
 *	receiver sent W
 * @HPCC_RECORDS_UNDECIDED: the first record of a link arrived, so the next one may measure the link
 * @HPCC_RECORDS_UNUSABLE: no record arrived, or none is usable
 * @HPCC_RECORDS_SILENCE: the same, and usable telemetry has stopped
 */
enum hpcc_records {
	HPCC_RECORDS_USABLE,
	HPCC_RECORDS_UNDECIDED,
	HPCC_RECORDS_UNUSABLE,
	HPCC_RECORDS_SILENCE,
};

/* Telemetry has stopped if more than this many requests and ACKs brought no usable record. */
#define HPCC_SILENT_ACKS	8

/**
 * hpcc_count_silent() - count an ACK of new data without a usable record
 * @tp: socket
 * @flow: its flow
 *
 * Return: whether there were enough ACKs and requests for silence. hpcc_judge_records() also checks
 * the time that they took.
 */
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

/**
 * hpcc_silence_end() - telemetry arrived, or another carrier is tried
 * @flow: a flow
 */
static inline void hpcc_silence_end(struct hpcc_flow *flow)
{
	flow->silent_acks = 0;
}

/**
 * hpcc_silence_reset() - a link was measured, or W starts to control the window
 * @flow: a flow
 */
static inline void hpcc_silence_reset(struct hpcc_flow *flow)
{
	flow->silent_acks = 0;
	flow->new_links = 0;
}

enum hpcc_records hpcc_judge_records(const struct tcp_sock *tp, struct hpcc_flow *flow,
				     const struct rate_sample *rs, const struct hpcc_ack *ack);

#endif /* _HPCC_CONTROL_SILENCE_H */
