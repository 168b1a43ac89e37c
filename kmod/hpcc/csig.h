/* SPDX-License-Identifier: GPL-2.0 */
/* CSIG as the carrier of requests (csig.c). */
#ifndef _HPCC_HPCC_CSIG_H
#define _HPCC_HPCC_CSIG_H

#include <hpcc/csig.h>

#include "flow.h"

/**
 * hpcc_signal_waits() - whether a signal waits to be reflected
 * @flow: a flow
 */
static inline bool hpcc_signal_waits(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->signal);
}

void hpcc_csig_out(const struct hpcc_flow *flow, u8 *record);
void hpcc_csig_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		  const u8 *record);
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p);
bool hpcc_signal_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		    const u8 *records);
int hpcc_csig_check(void);
void hpcc_csig_init(void);
void hpcc_csig_exit(void);

#endif /* _HPCC_HPCC_CSIG_H */
