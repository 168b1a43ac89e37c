/* SPDX-License-Identifier: GPL-2.0 */
/* Probes: requests in packets without data (probe.c). */
#ifndef _HPCC_CONTROL_PROBE_H
#define _HPCC_CONTROL_PROBE_H

#include <net/tcp.h>

#include "flow/flow.h"

/**
 * hpcc_answer_later() - run hpcc_probe_answer() with the next segment that TCP processes
 * @flow: a flow
 *
 * Context: LOCAL_IN, LOCAL_OUT.
 */
static inline void hpcc_answer_later(struct hpcc_flow *flow)
{
	/* If hpcc_probe_answer() sees this flag, it also sees the records. */
	smp_store_release(&flow->answer, true);
}

void hpcc_carrier_stop(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probes_set(struct sock *sk, struct hpcc_flow *flow, bool probes);
void hpcc_probe_send(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probe_answer(struct sock *sk, struct hpcc_flow *flow);
void hpcc_probe_arrived(struct sock *sk, struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_PROBE_H */
