/* SPDX-License-Identifier: GPL-2.0 */
/* A link as a receiver of IOAM traces (hpcc/carrier/ioam.h) or INT metadata
 * (hpcc/carrier/int.h) follows it.
 */
#ifndef _HPCC_CARRIER_LINK_H
#define _HPCC_CARRIER_LINK_H

#include <linux/types.h>

/**
 * struct hpcc_trace_link - a link as a receiver follows it
 * @node: node_id
 * @port: egress_if_id
 * @turn: changes when it begins anew, modulo 4
 * @bps: B in bit/s; 0: no node data of it was seen, or too long ago
 * @byte_time: ns per byte at B, Q32
 * @ts_ns: timestamp, not wrapped
 * @tx_bytes: of IOAM: not wrapped
 * @tx_ns: of INT: time that the link has spent, as utilizations add up to
 */
struct hpcc_trace_link {
	u32	node;
	u16	port;
	u8	turn;
	u64	bps;
	u64	byte_time;
	u64	ts_ns;
	union {
		u64	tx_bytes;
		u64	tx_ns;
	};
};

#endif /* _HPCC_CARRIER_LINK_H */
