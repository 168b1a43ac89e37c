/* SPDX-License-Identifier: GPL-2.0 */
/* Congestion control: callbacks (cc.c), W and R (window.c). */
#ifndef _HPCC_HPCC_CC_H
#define _HPCC_HPCC_CC_H

#include <net/tcp.h>

#include "../common/peek.h"
#include "flow.h"

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

/**
 * hpcc_is_telemetry() - whether a socket runs hpcc, and not classic
 * @sk: full TCP socket
 */
static inline bool hpcc_is_telemetry(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops =
		hpcc_peek(inet_csk(sk)->icsk_ca_ops);

	return ops == &hpcc_ops || ops == &hpcc_no_ecn_ops;
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

u16 hpcc_room(const struct hpcc_flow *flow);
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes);
void hpcc_reserve_again(struct sock *sk, struct hpcc_flow *flow);
u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow);
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow);
void hpcc_apply(struct sock *sk, struct hpcc_flow *flow,
		const struct rate_sample *rs);

#endif /* _HPCC_HPCC_CC_H */
