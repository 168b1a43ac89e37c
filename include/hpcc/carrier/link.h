/* SPDX-License-Identifier: GPL-2.0 */
/* State of a link at a receiver of IOAM traces (hpcc/carrier/ioam.h), INT metadata
 * (hpcc/carrier/int.h) or IFA metadata (hpcc/carrier/ifa.h).
 */
#ifndef _HPCC_CARRIER_LINK_H
#define _HPCC_CARRIER_LINK_H

#include <linux/types.h>

/**
 * struct hpcc_trace_link - state of a link at a receiver
 * @node: node_id
 * @port: egress_if_id
 * @turn: changes when the link restarts, modulo 4
 * @bps: B in bit/s; 0: no data of this link were received, or the last data are too old
 * @byte_time: ns per byte at B, Q32
 * @ts_ns: last timestamp, unwrapped
 * @tx_bytes: for IOAM and IFA: number of bytes sent, unwrapped
 * @tx_ns: for INT: time that the link has spent on packets (sum of utilization x time)
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
