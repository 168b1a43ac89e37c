/* SPDX-License-Identifier: GPL-2.0 */
/* Events of a flow for observers. */
#ifndef _HPCC_FLOW_NOTIFY_H
#define _HPCC_FLOW_NOTIFY_H

#include <linux/hpcc_netlink.h>
#include <net/sock.h>

struct hpcc_flow;

/* Sends an event of a flow to its observers; main.c sets it. Context: socket lock. */
extern void (*hpcc_notify)(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event);

#endif /* _HPCC_FLOW_NOTIFY_H */
