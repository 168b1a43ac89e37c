/* SPDX-License-Identifier: GPL-2.0 */
/* Space for our options in each segment (reserve.c). */
#ifndef _HPCC_CONTROL_RESERVE_H
#define _HPCC_CONTROL_RESERVE_H

#include "flow/flow.h"

u16 hpcc_option_reserve(const struct hpcc_flow *flow);
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes);
void hpcc_reserve_restore(struct sock *sk, struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_RESERVE_H */
