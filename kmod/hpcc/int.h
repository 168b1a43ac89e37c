/* SPDX-License-Identifier: GPL-2.0 */
/* INT-MD as the carrier of requests (int.c). */
#ifndef _HPCC_HPCC_INT_H
#define _HPCC_HPCC_INT_H

#include <hpcc/record.h>

#include "flow.h"
#include "segment.h"

void hpcc_int_out(const struct hpcc_segment *seg, const struct tcp_sock *tp, u8 nodes);
bool hpcc_int_comes(const struct tcp_sock *tp, const struct hpcc_arrival *in,
		    const struct hpcc_opt *opt);
bool hpcc_int_read(struct hpcc_arrival *in, u8 *buf);
void hpcc_int_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		 const struct hpcc_opt *opt);

#endif /* _HPCC_HPCC_INT_H */
