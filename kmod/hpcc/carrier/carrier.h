/* SPDX-License-Identifier: GPL-2.0 */
/* Carriers of requests other than the TCP option: operations, and the choice (carrier.c). */
#ifndef _HPCC_CARRIER_CARRIER_H
#define _HPCC_CARRIER_CARRIER_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <hpcc/carrier/ioam.h>
#include <hpcc/wire/record.h>

#include "flow/flow.h"
#include "packet/arrival.h"
#include "packet/segment.h"

/* Capabilities of carriers with hpcc_carrier_ops.reflects. */
#define HPCC_CAP_REFLECTS	HPCC_CAP_CSIG

/**
 * struct hpcc_trace - hops of a received trace or stack
 * @ops: carrier of the trace
 * @p: data of the hops
 * @head: values that the carrier has read from the header of the trace
 * @net: network namespace
 * @hops: number of hops; negative: invalid
 * @before: number of earlier hops on the path, which wrote into the option
 * @scale: scale of the records
 * @now_ns: arrival time
 * @age_ns: time since the last trace
 */
struct hpcc_trace {
	const struct hpcc_carrier_ops *ops;
	const u8 *p;
	const void *head;
	const struct net *net;
	int hops;
	u8 before;
	u8 scale;
	u64 now_ns;
	u64 age_ns;
};

/**
 * struct hpcc_carrier_ops - a carrier; all members of the TCP option are 0
 * @owner: its module
 * @id: enum hpcc_carrier
 * @protocol: IP protocol of the packets for packet_in()
 * @cap: HPCC_CAP_* that the peer needs
 * @probes_only: only probes use the carrier; a probe's FORWARD has a record only if fill() is set
 * @apart: the peer's TCP does not receive probes of the carrier
 * @ipv6_only: the carrier needs IPv6
 * @needs_links: if set, a receiver announces @cap if its table of links has entries; if not set, a
 *	receiver announces @cap if its route to the sender selects the carrier
 * @reflects: requests of the carrier have a signal in place of load records; pull() stores this
 *	signal for report()
 * @sent: counter of requests that left
 * @received: counter of telemetry that was accepted
 * @ignored: counter of telemetry that was ignored
 * @unknown_link: counter of telemetry of a link that is not in the table
 * @stopped: counter of connections that changed back to the TCP option
 *
 * Functions. pull() is set if the carrier announces @cap, hop() if it calls hpcc_trace_in(),
 * report() if it @reflects, and packet_in() if it has its own @protocol. All other functions may be
 * NULL.
 *
 * Sender, under the socket lock:
 *
 * @begin: a flow begins to use the carrier
 * @acked: an ACK arrived; informed: the ACK carried telemetry
 * @rto: an RTO fired. Return: whether the carrier ends; the caller then stops it
 * @reserve: number of bytes to keep free in each data segment
 *
 * Sender, in LOCAL_OUT and LOCAL_IN:
 *
 * @fits: whether the carrier fits into a segment; limits *@room for options to what remains
 * @fill: write the record of a FORWARD, HPCC_RECORD_LEN bytes
 * @push: write options and carrier into a segment. Return: false if there is no memory
 * @report_in: process a REPORT. Return: whether it is of this carrier, valid or not
 *
 * Receiver, in LOCAL_IN; report() in LOCAL_OUT:
 *
 * @packet_in: process a packet of the carrier's protocol. Return: whether it belonged to a
 *	connection that runs hpcc; such a packet is freed
 * @outside_in: process a segment with unacceptable sequence number, but acceptable ACK number and
 *	TTL. Return: 1 if it is consumed; 0 if it is counted as invalid; -ENOENT if the carrier does
 *	not use it
 * @carries: whether the carrier, not the option, has the records of a request
 * @pull: store the carrier's records. The records of the option fit (hpcc_opt_misfits()), unless
 *	@reflects
 * @hop: make a load record of hop nr of a trace. Return: 0, -EINVAL, or -ENOENT if its link is
 *	unknown
 * @report: return the record of a REPORT that reflects a signal
 */
struct hpcc_carrier_ops {
	struct module *owner;
	u8 id;
	u8 protocol;
	u16 cap;
	bool probes_only;
	bool apart;
	bool ipv6_only;
	bool needs_links;
	bool reflects;
	enum hpcc_counter sent, received, ignored, unknown_link, stopped;

	void (*begin)(const struct tcp_sock *tp, struct hpcc_flow *flow);
	void (*acked)(const struct tcp_sock *tp, struct hpcc_flow *flow, bool informed);
	bool (*rto)(const struct tcp_sock *tp, struct hpcc_flow *flow);
	u16 (*reserve)(const struct hpcc_flow *flow);

	bool (*fits)(const struct hpcc_segment *seg, const struct sock *sk,
		     const struct hpcc_flow *flow, u32 *room);
	void (*fill)(const struct hpcc_flow *flow, u8 *record);
	bool (*push)(struct hpcc_segment *seg, const struct sock *sk, const struct hpcc_flow *flow,
		     const u8 *options, u32 len);
	bool (*report_in)(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
			  const u8 *records);

	bool (*packet_in)(struct sk_buff *skb, const struct nf_hook_state *state);
	int (*outside_in)(struct sock *sk, struct hpcc_flow *flow, struct hpcc_arrival *in,
			  const struct hpcc_opt *opt, int at, u32 pos);
	bool (*carries)(const struct hpcc_flow *flow, const struct hpcc_arrival *in,
			const struct hpcc_opt *opt, const u8 *records);
	void (*pull)(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, const u8 *records);
	int (*hop)(const struct hpcc_trace *t, int nr, struct hpcc_trace_link *link,
		   struct hpcc_record *r);
	u64 (*report)(u16 signal);
};

/* The counters of a carrier. */
#define HPCC_CARRIER_COUNTERS(id)		\
	.sent = HPCC_C_##id##_SENT,		\
	.received = HPCC_C_##id##_RECEIVED,	\
	.ignored = HPCC_C_##id##_IGNORED,	\
	.stopped = HPCC_C_##id##_STOPPED

extern const struct hpcc_carrier_ops __rcu *hpcc_carriers[HPCC_CARRIER_MAX + 1];
extern const struct hpcc_carrier_ops hpcc_tcp_option;
extern u8 hpcc_carrier_protocols[256];

/* Takes in the options of a probe that TCP will not get, and answers it; main.c sets it. Context:
 * LOCAL_IN; @at and @pos as in hpcc_options_in().
 */
extern void (*hpcc_stack_in)(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in,
			     int at, u32 pos);

/* Operations of a carrier; those of the TCP option if its module is not loaded. Context: RCU read
 * side; or socket lock, if the carrier is that of the socket's flow, which holds the module.
 */
static inline const struct hpcc_carrier_ops *hpcc_carrier_at(u8 carrier)
{
	return rcu_dereference_raw(hpcc_carriers[carrier]);
}

/* Operations of the carrier of a flow's requests. Context: as hpcc_carrier_at(). */
static inline const struct hpcc_carrier_ops *hpcc_carrier_of(const struct hpcc_flow *flow)
{
	return hpcc_carrier_at(READ_ONCE(flow->carrier));
}

/* Release the module of a flow's carrier. Context: the flow has no other user. */
static inline void hpcc_carrier_put(const struct hpcc_flow *flow)
{
	module_put(hpcc_carrier_of(flow)->owner);
}

/* Whether data carry requests, but not in the TCP option. Context: socket lock. */
static inline bool hpcc_carrier_in_data(const struct hpcc_flow *flow)
{
	return unlikely(flow->carrier) && !hpcc_carrier_of(flow)->probes_only &&
	       !flow->carrier_state.paused && !flow->probes;
}

/* acked() and rto() of struct hpcc_carrier_ops. Context: socket lock. */
static inline void hpcc_carrier_acked(const struct tcp_sock *tp, struct hpcc_flow *flow,
				      bool informed)
{
	if (unlikely(flow->carrier) && hpcc_carrier_of(flow)->acked)
		hpcc_carrier_of(flow)->acked(tp, flow, informed);
}

static inline bool hpcc_carrier_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	return unlikely(flow->carrier) && hpcc_carrier_of(flow)->rto &&
	       hpcc_carrier_of(flow)->rto(tp, flow);
}

/* While a carrier's requests are paused, the TCP option carries requests. Context: socket lock. */
static inline void hpcc_carrier_pause(struct hpcc_flow *flow, bool paused)
{
	WRITE_ONCE(flow->carrier_state.paused, paused);
}

/* Whether some ports write into the TCP option, others into a trace. Context: LOCAL_IN. */
static inline void hpcc_carrier_mix(struct hpcc_flow *flow, bool mixed)
{
	if (READ_ONCE(flow->carrier_state.mixed) != mixed)
		WRITE_ONCE(flow->carrier_state.mixed, mixed);
}

/* Store a signal that the next ACK reflects. @carrier: enum hpcc_carrier. Context: LOCAL_IN. */
static inline void hpcc_signal_in(struct hpcc_flow *flow, u8 carrier, u16 signal)
{
	WRITE_ONCE(flow->carrier_state.signal, carrier << 16 | signal);
}

/* Whether a signal is to be reflected. Context: any. */
static inline bool hpcc_signal_pending(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->carrier_state.signal);
}

/* The carrier whose IP protocol a packet has, enum hpcc_carrier; 0: none. TCP needs no table. */
static inline u8 hpcc_carrier_of_packet(const struct sk_buff *skb, u8 pf)
{
	u8 protocol = pf == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr;

	return likely(protocol == IPPROTO_TCP) ? HPCC_CARRIER_TCP :
						 READ_ONCE(hpcc_carrier_protocols[protocol]);
}

/* packet_in() of struct hpcc_carrier_ops. Context: LOCAL_IN. */
static inline bool hpcc_carrier_packet_in(u8 carrier, struct sk_buff *skb,
					  const struct nf_hook_state *state)
{
	const struct hpcc_carrier_ops *ops = hpcc_carrier_at(carrier);

	/* The module may be going away. */
	return ops->packet_in && ops->packet_in(skb, state);
}

/* Whether hpcc_carrier_of_request() must look for a carrier beside the option of a request. */
static inline bool hpcc_may_be_carried(const struct hpcc_flow *flow, const struct hpcc_arrival *in)
{
	return in->carrier || flow->caps & HPCC_CAP_REFLECTS ||
	       (in->state->pf == NFPROTO_IPV6 && in->thoff != sizeof(struct ipv6hdr));
}

const struct hpcc_carrier_ops *hpcc_carrier_of_request(const struct hpcc_flow *flow,
						       const struct hpcc_arrival *in,
						       const struct hpcc_opt *opt,
						       const u8 *records);
int hpcc_carrier_register(const struct hpcc_carrier_ops *ops);
void hpcc_carrier_unregister(const struct hpcc_carrier_ops *ops);
void hpcc_carrier_begin(const struct sock *sk, struct hpcc_flow *flow);
bool hpcc_carrier_end(const struct sock *sk, struct hpcc_flow *flow);
u16 hpcc_carrier_caps(const struct net *net, u8 carrier);
bool hpcc_carrier_fits(const struct hpcc_segment *seg, const struct sock *sk, u32 n, u32 *room);
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p);

/* ---- Traces and stacks at a receiver (trace.c) ---- */

bool hpcc_trace_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		   const struct hpcc_opt *opt, struct hpcc_trace *t, u8 *records);
void hpcc_stack_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, struct hpcc_trace *t);

#endif /* _HPCC_CARRIER_CARRIER_H */
