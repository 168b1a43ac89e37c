/* SPDX-License-Identifier: GPL-2.0 */
/* /proc/net/hpcc (info.c). */
#ifndef _HPCC_OBSERVE_PROC_H
#define _HPCC_OBSERVE_PROC_H

struct net;

int hpcc_proc_register(struct net *net);
void hpcc_proc_unregister(struct net *net);

#endif /* _HPCC_OBSERVE_PROC_H */
