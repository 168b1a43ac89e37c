/* SPDX-License-Identifier: GPL-2.0 */
/* Congestion control: callbacks (ack.c), modes (classic.c), what carries requests (probe.c), W
 * and R (window.c).
 */
#ifndef _HPCC_CONTROL_CC_H
#define _HPCC_CONTROL_CC_H

#include <net/tcp.h>

#include "common/peek.h"
#include "flow/flow.h"

/**
 * struct hpcc_ca - what lives in icsk_ca_priv; socket lock
 * @flow: flow state; NULL where the connection did not agree
 */
struct hpcc_ca {
	struct hpcc_flow *flow;
};

extern struct tcp_congestion_ops hpcc_ops;
extern struct tcp_congestion_ops hpcc_classic_ops;
extern struct tcp_congestion_ops hpcc_no_ecn_ops;
extern struct tcp_congestion_ops hpcc_classic_no_ecn_ops;

void hpcc_cc_init(void);
void hpcc_run(struct sock *sk, bool classic, bool agreed);

/**
 * hpcc_flow_of() - the flow of a socket that runs hpcc or classic
 * @sk: the socket, under its lock
 *
 * Return: the flow; NULL where the connection did not agree.
 */
static inline struct hpcc_flow *hpcc_flow_of(const struct sock *sk)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	return ca->flow;
}

/**
 * hpcc_is_ours() - whether a socket runs hpcc, in any of its modes
 * @sk: full TCP socket
 */
static inline bool hpcc_is_ours(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops =
		READ_ONCE(inet_csk(sk)->icsk_ca_ops);

	return ops == &hpcc_ops || ops == &hpcc_classic_ops ||
	       ops == &hpcc_no_ecn_ops || ops == &hpcc_classic_no_ecn_ops;
}

/**
 * hpcc_peek_rate() - R = W/T
 * @flow: a flow
 *
 * Context: without the socket lock W and T may be of two neighbouring ACKs.
 * Return: bytes/s.
 */
static inline u64 hpcc_peek_rate(const struct hpcc_flow *flow)
{
	const struct hpcc_params params = { .inv_T_q63 = hpcc_peek(flow->params.inv_T_q63) };
	const struct hpcc_algo algo = { .W_q16 = hpcc_peek(flow->algo.W_q16) };

	return hpcc_pacing_rate(&algo, &params, NSEC_PER_SEC);
}

/**
 * struct hpcc_ack - what an ACK's records told
 * @before_q16: W before it
 * @n: records that were taken in
 * @bits: enum hpcc_ack_bits
 * @informed: there were records, perhaps all of them copies of older ones
 */
struct hpcc_ack {
	u64 before_q16;
	u32 n;
	u32 bits;
	bool informed;
};

/* Telemetry has stopped after more requests and ACKs than this without a record of use. */
#define HPCC_SILENT_ACKS	8

/**
 * hpcc_count_silent() - count an ACK of new data that brings no record of use
 * @tp: socket
 * @flow: its flow
 *
 * Return: whether there were enough ACKs and requests for silence; hpcc_silent() asks how long
 * they took.
 */
static inline bool hpcc_count_silent(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!flow->silent_acks) {
		flow->silent_since_us = tp->tcp_mstamp;
		flow->silent_requests = READ_ONCE(flow->requests);
	}
	if (flow->silent_acks <= HPCC_SILENT_ACKS)
		flow->silent_acks++;
	return flow->silent_acks > HPCC_SILENT_ACKS &&
	       READ_ONCE(flow->requests) - flow->silent_requests > HPCC_SILENT_ACKS;
}

/* Where hops do not tell, losses are judged after so many T. */
#define HPCC_AUDIT_AGE_T	128

/**
 * hpcc_loss_ends() - whether a round trip in which losses are judged ends with an ACK
 * @tp: socket
 * @flow: its flow
 * @rs: what the ACK told
 */
static inline bool hpcc_loss_ends(const struct tcp_sock *tp, struct hpcc_flow *flow,
				  const struct rate_sample *rs)
{
	if (!rs->prior_mstamp ||
	    !hpcc_fallback_ends(&flow->fallback, &flow->algo, rs->prior_delivered))
		return false;
	return likely(!flow->rx_window_active) ||
	       !((BIT(READ_ONCE(flow->hops)) - 1) & ~flow->audit_seen) ||
	       tp->tcp_mstamp * NSEC_PER_USEC - flow->fallback.round_start >
	       flow->params.T * HPCC_AUDIT_AGE_T;
}

bool hpcc_measure_only(struct sock *sk, struct hpcc_flow *flow);
void hpcc_in_ack_event(struct sock *sk, u32 flags);
void hpcc_release(struct sock *sk);

void hpcc_enter_telemetry(struct sock *sk, struct hpcc_flow *flow);
void hpcc_begin_classic(struct sock *sk, struct hpcc_flow *flow, u32 hold);
u32 hpcc_classic_hold(const struct tcp_sock *tp, const struct hpcc_flow *flow);
bool hpcc_silent(struct sock *sk, struct hpcc_flow *flow,
		 const struct rate_sample *rs, const struct hpcc_ack *ack);
bool hpcc_unseen_loss(struct sock *sk, struct hpcc_flow *flow,
		      const struct rate_sample *rs);
void hpcc_count_dsack(const struct tcp_sock *tp, struct hpcc_flow *flow);
void hpcc_rto(struct sock *sk, struct hpcc_flow *flow);
void hpcc_loss_undone(const struct tcp_sock *tp, struct hpcc_flow *flow);

bool hpcc_carrier_is_probed(u8 carrier);
u8 hpcc_carrier_for(const struct sock *sk, u16 caps);
size_t hpcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);

#endif /* _HPCC_CONTROL_CC_H */
