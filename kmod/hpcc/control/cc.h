/* SPDX-License-Identifier: GPL-2.0 */
/* Congestion control: callbacks, and functions for other files of this room. */
#ifndef _HPCC_CONTROL_CC_H
#define _HPCC_CONTROL_CC_H

#include "common/peek.h"
#include "flow/flow.h"

/* Process the records in the mailbox, and update W. @bits: set to enum hpcc_ack_bits, if there were
 * samples. Socket lock. Return: the number of samples.
 */
typedef u32 hpcc_update_fn(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits);

/* A registered congestion control. Only its computation of W differs from hpcc. */
struct hpcc_law {
	/* Callbacks with telemetry, without ECN, classic, classic without ECN; [0] is registered */
	struct tcp_congestion_ops *cc[4];
	hpcc_update_fn *update;		/* NULL: hpcc, a direct call */
	u32 other_key;			/* in hpcc_law: key of the law in a module; 0: not loaded */
};

/* Content of icsk_ca_priv; socket lock. */
struct hpcc_ca {
	struct hpcc_flow *flow;	/* flow state; NULL if the connection did not agree */
	const struct hpcc_law *law;	/* NULL before init() */
	hpcc_update_fn *update;		/* that of @law */
};

extern struct hpcc_law hpcc_law;

extern struct tcp_congestion_ops hpcc_ops;

/* The flow of a socket, under its lock; NULL if the connection did not agree. */
static inline struct hpcc_flow *hpcc_flow_of(const struct sock *sk)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	return ca->flow;
}

void hpcc_begin(struct sock *sk, const struct hpcc_law *law);
void hpcc_release(struct sock *sk);

/* Whether callbacks are those of hpcc, with any law and in any mode. Context: socket lock or RCU
 * read side: a module that registered callbacks waits for RCU before it is removed.
 */
static inline bool hpcc_ops_are_ours(const struct tcp_congestion_ops *ops)
{
	return ops->release == hpcc_release;
}

/* Whether a full TCP socket runs hpcc, with any law and in any mode. Context: as above. */
static inline bool hpcc_is_ours(const struct sock *sk)
{
	return hpcc_ops_are_ours(READ_ONCE(inet_csk(sk)->icsk_ca_ops));
}

/* Result of the records of an ACK. */
struct hpcc_ack {
	u64 before_q16;	/* W before the ACK */
	u32 n;		/* number of records processed */
	u32 bits;	/* enum hpcc_ack_bits */
	bool informed;	/* records arrived; all of them may be copies of older records */
};

/* What the records of an ACK show about telemetry. */
enum hpcc_records {
	HPCC_RECORDS_USABLE,	/* a link was measured, a record came too soon, or W arrived */
	HPCC_RECORDS_UNDECIDED,	/* first record of a link: the next one may measure it */
	HPCC_RECORDS_UNUSABLE,	/* no record arrived, or none is usable */
	HPCC_RECORDS_SILENCE,	/* no usable record arrived, and usable telemetry has stopped */
};

void hpcc_flow_free_parts(struct hpcc_flow *flow);

/* Which congestion response a connection runs (classic.c). */
void hpcc_cc_init(void);
void hpcc_run(struct sock *sk, bool classic, bool agreed);
void hpcc_enter_telemetry(struct sock *sk, struct hpcc_flow *flow);
void hpcc_begin_classic(struct sock *sk, struct hpcc_flow *flow, u32 hold);
bool hpcc_follow_records(struct sock *sk, struct hpcc_flow *flow, enum hpcc_records usable,
			 const struct hpcc_ack *ack);
void hpcc_answer_loss(struct sock *sk, struct hpcc_flow *flow);
void hpcc_rto(struct sock *sk, struct hpcc_flow *flow);

/* Space for our options in each segment (reserve.c). */
u16 hpcc_option_reserve(const struct hpcc_flow *flow);
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes);
void hpcc_reserve_restore(struct sock *sk, struct hpcc_flow *flow);

/* N, the number of flows that a receiver counts (census.c). */
bool hpcc_report_due(struct hpcc_flow *flow, const struct tcp_sock *tp, const struct net *net);
int hpcc_report_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records);
u64 hpcc_set_N(struct hpcc_flow *flow, u64 W_ai_one_q16, u32 n_flows, u64 was_q16);
u64 hpcc_follow_N(struct hpcc_flow *flow, u32 now_us);
void hpcc_count_N(struct hpcc_flow *flow, const struct sock *sk, const struct hpcc_algo *a,
		  struct hpcc_params *p, u64 W_ai_one_q16);

#endif /* _HPCC_CONTROL_CC_H */
