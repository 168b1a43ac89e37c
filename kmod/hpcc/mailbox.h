/* SPDX-License-Identifier: GPL-2.0 */
/* Records on their way (mailbox.c). */
#ifndef _HPCC_HPCC_MAILBOX_H
#define _HPCC_HPCC_MAILBOX_H

#include "flow.h"

/**
 * hpcc_mail_waits() - whether records wait for cong_control
 * @flow: a flow
 */
static inline bool hpcc_mail_waits(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->mail_fresh);
}

u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room);
u32 hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		 const u8 *records);
u32 hpcc_identity_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records);
u32 hpcc_take_mail(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us);
void hpcc_note_seen(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 n);

#endif /* _HPCC_HPCC_MAILBOX_H */
