/* SPDX-License-Identifier: GPL-2.0 */
/* Probes: requests in packets without data (probe.c). */
#ifndef _HPCC_CONTROL_PROBE_H
#define _HPCC_CONTROL_PROBE_H

#include "telemetry/mailbox.h"

void hpcc_carrier_stop(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probes_set(struct sock *sk, struct hpcc_flow *flow, bool probes);
void hpcc_probe_send(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probe_answer(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probe_arrived(struct sock *sk, struct hpcc_flow *flow);

/* Answer a probe, and a request for a prompt ACK. The option puts such a segment on TCP's slow
 * path, which calls in_ack_event() before it decides on a delayed ACK.
 */
static inline void hpcc_answer_ack(struct sock *sk, struct hpcc_flow *flow)
{
	/* The ACK that this call sends clears icsk_ack.pending. */
	if (READ_ONCE(flow->answer))
		hpcc_probe_answer(sk, flow);
	if (hpcc_prompt_take(flow))
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

#endif /* _HPCC_CONTROL_PROBE_H */
