/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink family "hpcc" (netlink.c). */
#ifndef _HPCC_OBSERVE_NETLINK_H
#define _HPCC_OBSERVE_NETLINK_H

#include <linux/hpcc_netlink.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "flow/flow.h"

int hpcc_netlink_init(void);
void hpcc_netlink_exit(void);
void hpcc_nl_notify(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event);

#endif /* _HPCC_OBSERVE_NETLINK_H */
