/* SPDX-License-Identifier: GPL-2.0 */
/* Records on their way between the hooks and the algorithm (mailbox.c). */
#ifndef _HPCC_TELEMETRY_MAILBOX_H
#define _HPCC_TELEMETRY_MAILBOX_H

#include "flow/flow.h"

#define HPCC_SCALE_CLASSES	15

/* State while records are processed. */
struct hpcc_intake {
	struct hpcc_algo *algo;			/* state of the window law, with the links */
	const struct hpcc_params *params;
	struct hpcc_measure measure;		/* result of the records so far */
	u64 now_us;				/* tcp_mstamp */
	u32 rtt_us;				/* RTT of the ACK with the records; 0: from data */
	u8 hops;				/* hops of the path */
	bool skipped;				/* a record came too soon */
};

static inline bool hpcc_words_pending(const u64 *word, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (READ_ONCE(word[i]))
			return true;
	return false;
}

/* Whether the mailbox has records for cong_control. */
static inline bool hpcc_mail_pending(const struct hpcc_flow *flow)
{
	return hpcc_words_pending(flow->mail, READ_ONCE(flow->hops));
}

/* Clear the words from index @i on. A word that another CPU writes meanwhile may stay. */
static inline void hpcc_words_clear(u64 *word, u32 i)
{
	for (; i < HPCC_HOPS_MAX; i++)
		WRITE_ONCE(word[i], 0);
}

/* Empty the mailbox. Context: socket lock. */
static inline void hpcc_mail_discard(struct hpcc_flow *flow)
{
	hpcc_words_clear(flow->mail, 0);
}

/* Number of hops of the newest request. */
static inline u32 hpcc_echo_hops(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->echo.head) & 0xff;
}

/* Whether records are to be echoed. */
static inline bool hpcc_echo_pending(const struct hpcc_flow *flow)
{
	return !READ_ONCE(flow->echo.reserved) &&
	       hpcc_words_pending(flow->echo.records, hpcc_echo_hops(flow));
}

/* Whether the records to be echoed are load records. */
static inline bool hpcc_echo_is_load(const struct hpcc_flow *flow)
{
	return (u8)(READ_ONCE(flow->echo.head) >> 16) == HPCC_OPT_FORWARD;
}

/* Note whether a request needs a prompt ACK. Context: LOCAL_IN. */
static inline void hpcc_prompt_in(struct hpcc_flow *flow, const struct hpcc_opt *opt)
{
	if (opt->flags & HPCC_OPT_F_PROMPT)
		WRITE_ONCE(flow->prompt, true);
}

/* Answer the peer with the next segment that TCP processes. Context: LOCAL_IN, LOCAL_OUT. */
static inline void hpcc_answer_later(struct hpcc_flow *flow)
{
	/* Pairs with hpcc_answer_begin(): the CPU that clears this flag sees the records. */
	smp_store_release(&flow->answer, true);
}

/* hpcc_probe_answer() runs now. */
static inline void hpcc_answer_begin(struct hpcc_flow *flow)
{
	/* Clear the flag before the records are read: a later probe sets it again. */
	smp_store_mb(flow->answer, false);
}

/* Whether a request since the last call needs a prompt ACK. Context: socket lock. */
static inline bool hpcc_prompt_take(struct hpcc_flow *flow)
{
	if (!READ_ONCE(flow->prompt))
		return false;
	WRITE_ONCE(flow->prompt, false);
	return true;
}

/* Keep the stored records for receiver.c (@reserve), or let LOCAL_OUT echo them. */
static inline void hpcc_echo_reserve(struct hpcc_flow *flow, bool reserve)
{
	WRITE_ONCE(flow->echo.reserved, reserve);
}

/* Start to collect the hops whose records are processed. */
static inline void hpcc_audit_begin(struct hpcc_flow *flow)
{
	flow->audit_seen = 0;
}

/* Do not count records that came too soon: the receiver computes W. */
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
