/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: the state after each ACK with telemetry, and the events of a flow. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hpcc

#if !defined(_HPCC_CONTROL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HPCC_CONTROL_TRACE_H

#include <linux/hpcc_netlink.h>
#include <linux/sock_diag.h>
#include <linux/tracepoint.h>

#include "flow/flow.h"

TRACE_EVENT(hpcc_ack,

	TP_PROTO(struct sock *sk, const struct hpcc_flow *flow),

	TP_ARGS(sk, flow),

	TP_STRUCT__entry(
		__field(u16, sport)
		__field(u16, dport)
		__field(u64, W_bytes)
		__field(u64, Wc_bytes)
		__field(u64, U_q24)
		__field(u32, T_ns)
		__field(u32, inc_stage)
		__field(u32, cwnd)
		__field(u64, pacing_rate)
		__field(u8, hops)
		__array(u32, cookie, 2)
	),

	TP_fast_assign(
		__entry->sport = sk->sk_num;
		__entry->dport = ntohs(sk->sk_dport);
		__entry->W_bytes = flow->algo.W_q16 >> 16;
		__entry->Wc_bytes = flow->algo.Wc_q16 >> 16;
		__entry->U_q24 = flow->algo.U_q24;
		__entry->T_ns = flow->params.T;
		__entry->inc_stage = flow->algo.inc_stage;
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		__entry->pacing_rate = READ_ONCE(sk->sk_pacing_rate);
		__entry->hops = READ_ONCE(flow->hops);
		sock_diag_save_cookie(sk, __entry->cookie);
	),

	TP_printk("sport=%u dport=%u W=%llu Wc=%llu U_permille=%llu T_ns=%u inc_stage=%u cwnd=%u pacing_rate=%llu hops=%u cookie=%llu",
		  __entry->sport, __entry->dport, __entry->W_bytes,
		  __entry->Wc_bytes, __entry->U_q24 * 1000 >> 24,
		  __entry->T_ns, __entry->inc_stage, __entry->cwnd,
		  __entry->pacing_rate, __entry->hops,
		  (u64)__entry->cookie[1] << 32 | __entry->cookie[0])
);

TRACE_DEFINE_ENUM(HPCC_EVENT_FALLBACK);
TRACE_DEFINE_ENUM(HPCC_EVENT_RETURN);
TRACE_DEFINE_ENUM(HPCC_EVENT_PATH);
TRACE_DEFINE_ENUM(HPCC_EVENT_MUTED);
TRACE_DEFINE_ENUM(HPCC_FLOW_TELEMETRY);
TRACE_DEFINE_ENUM(HPCC_FLOW_IGNORING);
TRACE_DEFINE_ENUM(HPCC_FLOW_CLASSIC);
TRACE_DEFINE_ENUM(HPCC_FLOW_DOUBTING);
TRACE_DEFINE_ENUM(HPCC_WHY_NONE);
TRACE_DEFINE_ENUM(HPCC_WHY_SILENCE);
TRACE_DEFINE_ENUM(HPCC_WHY_UNSEEN_LOSS);
TRACE_DEFINE_ENUM(HPCC_WHY_MUTED);

/* The content of HPCC_CMD_FLOW_NTF, also if no socket receives that. */
TRACE_EVENT(hpcc_mode,

	TP_PROTO(struct sock *sk, const struct hpcc_flow *flow, enum hpcc_event event),

	TP_ARGS(sk, flow, event),

	TP_STRUCT__entry(
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, event)
		__field(u8, mode)
		__field(u8, why)
		__field(u32, cwnd)
		__array(u32, cookie, 2)
	),

	TP_fast_assign(
		__entry->sport = sk->sk_num;
		__entry->dport = ntohs(sk->sk_dport);
		__entry->event = event;
		__entry->mode = flow->mode;
		__entry->why = flow->why;
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		sock_diag_save_cookie(sk, __entry->cookie);
	),

	TP_printk("sport=%u dport=%u event=%s mode=%s why=%s cwnd=%u cookie=%llu",
		  __entry->sport, __entry->dport,
		  __print_symbolic(__entry->event, { HPCC_EVENT_FALLBACK, "fallback" },
				   { HPCC_EVENT_RETURN, "return" }, { HPCC_EVENT_PATH, "path" },
				   { HPCC_EVENT_MUTED, "muted" }),
		  __print_symbolic(__entry->mode, { HPCC_FLOW_TELEMETRY, "telemetry" },
				   { HPCC_FLOW_IGNORING, "ignoring" },
				   { HPCC_FLOW_CLASSIC, "classic" },
				   { HPCC_FLOW_DOUBTING, "doubting" }),
		  __print_symbolic(__entry->why, { HPCC_WHY_NONE, "none" },
				   { HPCC_WHY_SILENCE, "silence" },
				   { HPCC_WHY_UNSEEN_LOSS, "unseen_loss" },
				   { HPCC_WHY_MUTED, "muted" }),
		  __entry->cwnd, (u64)__entry->cookie[1] << 32 | __entry->cookie[0])
);

#endif /* _HPCC_CONTROL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH control
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
