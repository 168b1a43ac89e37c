/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoint: the window after each ACK. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ldcp

#if !defined(_HPCC_LDCP_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HPCC_LDCP_EVENTS_H

#include <linux/tracepoint.h>

#include "conn.h"

TRACE_EVENT(ldcp_ack,

	TP_PROTO(const struct sock *sk, const struct ldcp_ca *ca, u32 delivered, u32 marked),

	TP_ARGS(sk, ca, delivered, marked),

	TP_STRUCT__entry(
		__field(u16, sport)
		__field(u16, dport)
		__field(u64, cw_q24)
		__field(u32, delivered)
		__field(u32, marked)
		__field(u32, cwnd)
		__field(u32, rtt_us)
		__field(u8, stage)
	),

	TP_fast_assign(
		__entry->sport = sk->sk_num;
		__entry->dport = ntohs(sk->sk_dport);
		__entry->cw_q24 = ca->cw_q24;
		__entry->delivered = delivered;
		__entry->marked = marked;
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		__entry->rtt_us = ca->rtt_us;
		__entry->stage = ca->stage;
	),

	TP_printk("sport=%u dport=%u stage=%s cw_milli=%llu delivered=%u marked=%u cwnd=%u rtt_us=%u",
		  __entry->sport, __entry->dport,
		  __entry->stage == LDCP_START ? "start" : "stable",
		  __entry->cw_q24 * 1000 >> LDCP_CW_BITS, __entry->delivered,
		  __entry->marked, __entry->cwnd, __entry->rtt_us)
);

#endif /* _HPCC_LDCP_EVENTS_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
