/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints for stamping and marking at a port. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hpcc

#if !defined(_HPCC_QDISC_CORE_TRACEPOINTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HPCC_QDISC_CORE_TRACEPOINTS_H

#include <linux/tracepoint.h>
#include <hpcc/wire/stamp.h>

#include "core/load.h"

TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_OFF);
TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_NO_OPTION);
TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_MALFORMED);
TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_FULL);
TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_PHASE);
TRACE_DEFINE_ENUM(HPCC_UNSTAMPED_NO_MEMORY);
TRACE_DEFINE_ENUM(HPCC_MARK);
TRACE_DEFINE_ENUM(HPCC_MARK_FAILED);
TRACE_DEFINE_ENUM(HPCC_DROP_KNONECT);
TRACE_DEFINE_ENUM(HPCC_DROP_LIMIT);

/* Only for packets with telemetry to fill in. ts and tx are the values before scaling. */
TRACE_EVENT(hpcc_stamp,

	TP_PROTO(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns, int result),

	TP_ARGS(q, skb, ts_ns, result),

	TP_STRUCT__entry(
		__field(const void *, skbaddr)
		__field(int, ifindex)
		__field(u32, node)
		__field(u32, port)
		__field(u32, len)
		__field(u64, ts_ns)
		__field(u64, tx_ns)
		__field(u32, qlen_bytes)
		__field(int, result)
	),

	TP_fast_assign(
		struct hpcc_load load = hpcc_load(q, skb, ts_ns);

		__entry->skbaddr = skb;
		__entry->ifindex = skb->dev->ifindex;
		__entry->node = q->cfg.node;
		__entry->port = q->cfg.port;
		__entry->len = skb->len;
		__entry->ts_ns = ts_ns + q->offset.ts_ns;
		__entry->tx_ns = load.busy_ns + q->offset.tx_ns;
		__entry->qlen_bytes = load.backlog_bytes;
		__entry->result = result;
	),

	TP_printk("skbaddr=%p ifindex=%d node=%u port=%u len=%u ts_ns=%llu tx_ns=%llu qlen_bytes=%u result=%s",
		  __entry->skbaddr, __entry->ifindex, __entry->node, __entry->port, __entry->len,
		  __entry->ts_ns, __entry->tx_ns, __entry->qlen_bytes,
		  __print_symbolic(__entry->result, { HPCC_STAMP_WRITTEN, "written" },
				   { HPCC_STAMP_QUIET, "quiet" },
				   { HPCC_UNSTAMPED_OFF, "off" },
				   { HPCC_UNSTAMPED_NO_OPTION, "no_option" },
				   { HPCC_UNSTAMPED_MALFORMED, "malformed" },
				   { HPCC_UNSTAMPED_FULL, "full" },
				   { HPCC_UNSTAMPED_PHASE, "phase" },
				   { HPCC_UNSTAMPED_NO_MEMORY, "no_memory" }))
);

/* The queue that a packet met, and the decision. Not for packets that pass without a mark. */
TRACE_EVENT(hpcc_mark,

	TP_PROTO(const struct hpcc_sched *q, const struct sk_buff *skb, u32 qlen,
		 enum hpcc_verdict verdict),

	TP_ARGS(q, skb, qlen, verdict),

	TP_STRUCT__entry(
		__field(const void *, skbaddr)
		__field(int, ifindex)
		__field(u32, node)
		__field(u32, port)
		__field(u32, len)
		__field(u32, qlen_bytes)
		__field(u8, verdict)
	),

	TP_fast_assign(
		__entry->skbaddr = skb;
		__entry->ifindex = skb->dev->ifindex;
		__entry->node = q->cfg.node;
		__entry->port = q->cfg.port;
		__entry->len = skb->len;
		__entry->qlen_bytes = qlen;
		__entry->verdict = verdict;
	),

	TP_printk("skbaddr=%p ifindex=%d node=%u port=%u len=%u qlen_bytes=%u verdict=%s",
		  __entry->skbaddr, __entry->ifindex, __entry->node, __entry->port, __entry->len,
		  __entry->qlen_bytes,
		  __print_symbolic(__entry->verdict, { HPCC_MARK, "mark" },
				   { HPCC_MARK_FAILED, "mark_failed" },
				   { HPCC_DROP_KNONECT, "drop_knonect" },
				   { HPCC_DROP_LIMIT, "drop_limit" }))
);

#endif /* _HPCC_QDISC_CORE_TRACEPOINTS_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tracepoints
#include <trace/define_trace.h>
