/* SPDX-License-Identifier: GPL-2.0 */
/* Congestion control: callbacks (ack.c, classic.c), begin and end of a flow (lifetime.c). */
#ifndef _HPCC_CONTROL_CC_H
#define _HPCC_CONTROL_CC_H

#include <net/tcp.h>

#include "common/peek.h"
#include "flow/flow.h"

/* Content of icsk_ca_priv; socket lock. */
struct hpcc_ca {
	struct hpcc_flow *flow;	/* flow state; NULL if the connection did not agree */
};

extern struct tcp_congestion_ops hpcc_ops;
extern struct tcp_congestion_ops hpcc_classic_ops;
extern struct tcp_congestion_ops hpcc_no_ecn_ops;
extern struct tcp_congestion_ops hpcc_classic_no_ecn_ops;

void hpcc_cc_init(size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info));
void hpcc_run(struct sock *sk, bool classic, bool agreed);

/* The flow of a socket, under its lock; NULL if the connection did not agree. */
static inline struct hpcc_flow *hpcc_flow_of(const struct sock *sk)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	return ca->flow;
}

/* Whether a full TCP socket runs hpcc, in any of its modes. */
static inline bool hpcc_is_ours(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops = READ_ONCE(inet_csk(sk)->icsk_ca_ops);

	return ops == &hpcc_ops || ops == &hpcc_classic_ops ||
	       ops == &hpcc_no_ecn_ops || ops == &hpcc_classic_no_ecn_ops;
}

/* Result of the records of an ACK. */
struct hpcc_ack {
	u64 before_q16;	/* W before the ACK */
	u32 n;		/* number of records processed */
	u32 bits;	/* enum hpcc_ack_bits */
	bool informed;	/* records arrived; all of them may be copies of older records */
};

void hpcc_begin(struct sock *sk);
void hpcc_release(struct sock *sk);
void hpcc_flow_free_parts(struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_CC_H */
