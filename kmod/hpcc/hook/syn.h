/* SPDX-License-Identifier: GPL-2.0 */
/* SYN and SYN-ACK (syn.c). */
#ifndef _HPCC_HOOK_SYN_H
#define _HPCC_HOOK_SYN_H

#include <net/tcp.h>

#include "control/agreement.h"
#include "packet/arrival.h"
#include "packet/segment.h"

void hpcc_syn_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_synack_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_syn_in(const struct hpcc_arrival *in);

#endif /* _HPCC_HOOK_SYN_H */
