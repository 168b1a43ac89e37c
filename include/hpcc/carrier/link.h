/* SPDX-License-Identifier: GPL-2.0 */
/* State of a link at a receiver of IOAM, INT or IFA. */
#ifndef _HPCC_CARRIER_LINK_H
#define _HPCC_CARRIER_LINK_H

#include <linux/types.h>

struct hpcc_trace_link {
	u32	node;		/* node_id */
	u16	port;		/* egress_if_id */
	u8	turn;		/* changes when the link restarts, modulo 4 */
	u64	bps;		/* B in bit/s; 0: no data of this link, or the data are too old */
	u64	byte_time;	/* ns per byte at B, Q32 */
	u64	ts_ns;		/* last timestamp, unwrapped */
	union {
		u64	tx_bytes;	/* IOAM, IFA: bytes sent, unwrapped */
		u64	tx_ns;		/* INT: time spent on packets: sum of utilization x time */
	};
};

#endif /* _HPCC_CARRIER_LINK_H */
