// SPDX-License-Identifier: GPL-2.0
/* Silence: usable telemetry has stopped. Socket lock for all functions. */
#include "control/cc.h"
#include "control/silence.h"

/* Minimum number of RTTs without a usable record, in addition to HPCC_SILENT_ACKS ACKs. */
static const u32 hpcc_silent_rtts = 4;

/* The same minimum if the receiver computes W: it reports an unchanged W only once per 4 T. */
static const u32 hpcc_silent_window_rtts = 8;

/* Whether usable telemetry arrives, or has stopped. The first record of a link measures nothing,
 * but the next record can be compared with it. So a first record is not silence. But if each record
 * is from another link than the previous one, W never changes: before a link is measured, there may
 * be only one first record per hop. This limit does not apply if the application limits the flow,
 * because long pauses make records too old.
 */
enum hpcc_records hpcc_judge_records(const struct tcp_sock *tp, struct hpcc_flow *flow,
				     const struct rate_sample *rs, const struct hpcc_ack *ack)
{
	if (likely(!(ack->bits & HPCC_ACK_NO_SAMPLE)) || flow->skipped) {
		hpcc_silence_reset(flow);
		return HPCC_RECORDS_USABLE;
	}
	if (ack->bits & HPCC_ACK_NEW && (rs->is_app_limited || tp->app_limited)) {
		hpcc_silence_end(flow);
		return HPCC_RECORDS_UNDECIDED;
	}
	if (ack->bits & HPCC_ACK_NEW && flow->new_links < READ_ONCE(flow->hops)) {
		flow->new_links++;
		return HPCC_RECORDS_UNDECIDED;
	}
	if (rs->acked_sacked && hpcc_count_silent(tp, flow) &&
	    tp->tcp_mstamp - flow->silence.since_us >
	    (flow->rx_window_active ? hpcc_silent_window_rtts : hpcc_silent_rtts) *
	    (u64)(tp->srtt_us >> 3))
		return HPCC_RECORDS_SILENCE;
	return HPCC_RECORDS_UNUSABLE;
}
