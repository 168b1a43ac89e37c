/* SPDX-License-Identifier: GPL-2.0 */
/* Records on their way between the hooks and the algorithm (mailbox.c). */
#ifndef _HPCC_TELEMETRY_MAILBOX_H
#define _HPCC_TELEMETRY_MAILBOX_H

#include "flow/flow.h"

/* The mailbox distinguishes scales by scale modulo this. */
#define HPCC_SCALE_CLASSES	15

/**
 * struct hpcc_intake - state while records are processed
 * @algo: state of the window law, including the links
 * @params: parameters of @algo
 * @measure: result of the records so far
 * @now_us: tcp_mstamp
 * @rtt_us: RTT of the ACK that brought the records; 0 if data brought them
 * @hops: hops of the path
 * @skipped: a record was too soon after the previous one of its link
 */
struct hpcc_intake {
	struct hpcc_algo *algo;
	const struct hpcc_params *params;
	struct hpcc_measure measure;
	u64 now_us;
	u32 rtt_us;
	u8 hops;
	bool skipped;
};

/* Whether one of @n words is in use. */
static inline bool hpcc_words_pending(const u64 *word, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (READ_ONCE(word[i]))
			return true;
	return false;
}

/**
 * hpcc_mail_pending() - whether the mailbox has records for cong_control
 * @flow: a flow
 */
static inline bool hpcc_mail_pending(const struct hpcc_flow *flow)
{
	return hpcc_words_pending(flow->mail, READ_ONCE(flow->hops));
}

/**
 * hpcc_mail_discard() - empty the mailbox
 * @flow: a flow
 *
 * Context: socket lock. Records that arrive meanwhile may stay.
 */
static inline void hpcc_mail_discard(struct hpcc_flow *flow)
{
	u32 i;

	for (i = 0; i < HPCC_HOPS_MAX; i++)
		WRITE_ONCE(flow->mail[i], 0);
}

/**
 * hpcc_echo_hops() - number of hops of the newest request
 * @flow: a flow
 */
static inline u32 hpcc_echo_hops(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->echo.head) & 0xff;
}

/**
 * hpcc_echo_pending() - whether records are to be echoed
 * @flow: a flow
 */
static inline bool hpcc_echo_pending(const struct hpcc_flow *flow)
{
	return !READ_ONCE(flow->echo.reserved) &&
	       hpcc_words_pending(flow->echo.records, hpcc_echo_hops(flow));
}

/**
 * hpcc_echo_is_load() - whether the records to be echoed are load records
 * @flow: a flow
 */
static inline bool hpcc_echo_is_load(const struct hpcc_flow *flow)
{
	return (u8)(READ_ONCE(flow->echo.head) >> 16) == HPCC_OPT_FORWARD;
}

/**
 * hpcc_prompt_in() - note whether a request needs a prompt ACK
 * @flow: a flow
 * @opt: head of the request
 *
 * Context: LOCAL_IN.
 */
static inline void hpcc_prompt_in(struct hpcc_flow *flow, const struct hpcc_opt *opt)
{
	if (opt->flags & HPCC_OPT_F_PROMPT)
		WRITE_ONCE(flow->prompt, true);
}

/**
 * hpcc_answer_later() - answer the peer with the next segment that TCP processes
 * @flow: a flow
 *
 * Context: LOCAL_IN, LOCAL_OUT.
 */
static inline void hpcc_answer_later(struct hpcc_flow *flow)
{
	/* Pairs with hpcc_answer_begin(): the CPU that clears this flag sees the records. */
	smp_store_release(&flow->answer, true);
}

/**
 * hpcc_answer_begin() - hpcc_probe_answer() runs now
 * @flow: a flow
 */
static inline void hpcc_answer_begin(struct hpcc_flow *flow)
{
	/* Clear the flag before the records are read: a later probe sets it again. */
	smp_store_mb(flow->answer, false);
}

/**
 * hpcc_prompt_take() - whether a request since the last call needs a prompt ACK
 * @flow: a flow
 *
 * Context: socket lock.
 */
static inline bool hpcc_prompt_take(struct hpcc_flow *flow)
{
	if (!READ_ONCE(flow->prompt))
		return false;
	WRITE_ONCE(flow->prompt, false);
	return true;
}

/**
 * hpcc_echo_reserve() - keep the stored records for receiver.c, or let LOCAL_OUT echo them
 * @flow: a flow
 * @reserve: true: for receiver.c
 */
static inline void hpcc_echo_reserve(struct hpcc_flow *flow, bool reserve)
{
	WRITE_ONCE(flow->echo.reserved, reserve);
}

/**
 * hpcc_audit_begin() - start to collect the hops whose records are taken in
 * @flow: a flow
 */
static inline void hpcc_audit_begin(struct hpcc_flow *flow)
{
	flow->audit_seen = 0;
}

/**
 * hpcc_skipped_ignore() - do not count records that came too soon: the receiver computes W
 * @flow: a flow
 */
static inline void hpcc_skipped_ignore(struct hpcc_flow *flow)
{
	flow->skipped = false;
}

void hpcc_set_scale(struct hpcc_flow *flow, u8 scale);
u32 hpcc_mailbox_drain(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits);
u32 hpcc_echo_drain(struct sock *sk, struct hpcc_flow *flow, struct hpcc_intake *in, bool leave,
		    u32 *bits);
void hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records);
void hpcc_forward_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records, const u8 *nodes, u32 nr);
u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room);
u32 hpcc_report_write(const struct hpcc_flow *flow, u8 *p, const u64 *records, u8 nr);

#endif /* _HPCC_TELEMETRY_MAILBOX_H */
