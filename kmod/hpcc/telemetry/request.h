/* SPDX-License-Identifier: GPL-2.0 */
/* When to send a request (probe.c, local_out.c). */
#ifndef _HPCC_TELEMETRY_REQUEST_H
#define _HPCC_TELEMETRY_REQUEST_H

#include "common/peek.h"
#include "telemetry/identify.h"

/* Whether a request is due. Context: RCU read side. */
static inline bool hpcc_request_due(const struct hpcc_flow *flow, const struct tcp_sock *tp)
{
	return READ_ONCE(flow->searching) || hpcc_identify_due(flow) ||
	       hpcc_peek(tp->snd_cwnd) < 2 ||
	       hpcc_peek(tp->tcp_clock_cache) - READ_ONCE(flow->last_request_ns) >=
	       READ_ONCE(flow->sample_ns);
}

/* Count a request that leaves at @now_ns, after @requests requests. */
static inline void hpcc_request_count(struct hpcc_flow *flow, u64 now_ns, u32 requests)
{
	WRITE_ONCE(flow->last_request_ns, now_ns);
	WRITE_ONCE(flow->requests, requests + 1);
}

/* Count parameters that leave in place of a request. */
static inline void hpcc_request_params(struct hpcc_flow *flow)
{
	WRITE_ONCE(flow->requests, READ_ONCE(flow->requests) + 1);
}

#endif /* _HPCC_TELEMETRY_REQUEST_H */
