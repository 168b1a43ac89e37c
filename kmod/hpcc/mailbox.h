/* SPDX-License-Identifier: GPL-2.0 */
/* Records on their way (mailbox.c). */
#ifndef _HPCC_HPCC_MAILBOX_H
#define _HPCC_HPCC_MAILBOX_H

#include "flow.h"

/* The mailbox tells scales apart by their remainder. */
#define HPCC_SCALE_CLASSES	15

/* Whether one of @n words is not empty. */
static inline bool hpcc_words_wait(const u64 *word, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (READ_ONCE(word[i]))
			return true;
	return false;
}

/**
 * hpcc_mail_waits() - whether records wait for cong_control
 * @flow: a flow
 */
static inline bool hpcc_mail_waits(const struct hpcc_flow *flow)
{
	return hpcc_words_wait(flow->mail, READ_ONCE(flow->hops));
}

/**
 * hpcc_echo_waits() - whether records wait to be echoed
 * @flow: a flow
 */
static inline bool hpcc_echo_waits(const struct hpcc_flow *flow)
{
	return hpcc_words_wait(flow->echo, READ_ONCE(flow->echo_head) & 0xff);
}

void hpcc_set_scale(struct hpcc_flow *flow, u8 scale);
u32 hpcc_take_mail(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits);
u32 hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		 const u8 *records);
u32 hpcc_forward_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		    const u8 *records);
u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room);

#endif /* _HPCC_HPCC_MAILBOX_H */
