// SPDX-License-Identifier: GPL-2.0
/*
 * Silence: telemetry of use has stopped. ack.c asks with each ACK, and classic.c acts on the
 * answer.
 *
 * All of this is under the socket lock.
 */
#include <net/tcp.h>

#include "control/cc.h"
#include "control/classic.h"
#include "control/silence.h"

/* Telemetry has stopped after this many RTTs without a record of use, and HPCC_SILENT_ACKS. */
static const u32 hpcc_silent_rtts = 4;

/* The same without W from the receiver, which tells it once in 4 T where it does not change. */
static const u32 hpcc_silent_window_rtts = 8;

/**
 * hpcc_is_silent() - whether telemetry of use has stopped
 * @tp: socket that runs hpcc
 * @flow: its flow
 * @rs: what the ACK told
 * @ack: what its records told
 *
 * Where all records are ignored, or each is of another link than the one before, W would
 * stay as it is for as long as that goes on. The first record of a link measures nothing
 * either, but it is not silence, as the next one can be measured against it; unless there
 * are more of them than links before one is measured, though there were data to send. (Of
 * who sends now and then, each record may come too long after the last one.)
 */
bool hpcc_is_silent(const struct tcp_sock *tp, struct hpcc_flow *flow,
		    const struct rate_sample *rs, const struct hpcc_ack *ack)
{
	if (likely(!(ack->bits & HPCC_ACK_NO_SAMPLE)) || flow->skipped) {
		if (flow->mode != HPCC_MODE_TELEMETRY)
			hpcc_set_mode(flow, HPCC_MODE_TELEMETRY);
		hpcc_silence_reset(flow);
		return false;
	}
	if (ack->bits & HPCC_ACK_NEW && (rs->is_app_limited || tp->app_limited)) {
		hpcc_silence_end(flow);
		return false;
	}
	if (ack->bits & HPCC_ACK_NEW && flow->new_links < READ_ONCE(flow->hops)) {
		flow->new_links++;
		return false;
	}
	if (ack->n)
		hpcc_set_mode(flow, HPCC_MODE_STALE);
	if (!rs->acked_sacked)
		return false;
	return hpcc_count_silent(tp, flow) &&
	       tp->tcp_mstamp - flow->silent_since_us >
	       (flow->rx_window_active ? hpcc_silent_window_rtts : hpcc_silent_rtts) *
	       (u64)(tp->srtt_us >> 3);
}
