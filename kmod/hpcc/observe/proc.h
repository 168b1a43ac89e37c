/* SPDX-License-Identifier: GPL-2.0 */
/* /proc/net/hpcc, ss and getsockopt(TCP_CC_INFO) (info.c). */
#ifndef _HPCC_OBSERVE_PROC_H
#define _HPCC_OBSERVE_PROC_H

#include <net/tcp.h>

struct hpcc_flow;

int hpcc_proc_register(struct net *net);
void hpcc_proc_unregister(struct net *net);
u64 hpcc_peek_rate(const struct hpcc_flow *flow);
size_t hpcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);

#endif /* _HPCC_OBSERVE_PROC_H */
