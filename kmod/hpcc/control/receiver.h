/* SPDX-License-Identifier: GPL-2.0 */
/* Receiver-based HPCC++ (receiver.c). */
#ifndef _HPCC_CONTROL_RECEIVER_H
#define _HPCC_CONTROL_RECEIVER_H

#include <hpcc/law/newint.h>

#include "flow/flow.h"

/* Segments that a receiver which computes W leaves without an ACK, and one more where a window
 * has many: so many more may be in flight than W.
 */
#define HPCC_RX_HELD		2
#define HPCC_RX_MANY		8
/* And with no more than one beside those the sender asks for prompt ACKs. */
#define HPCC_PROMPT_CWND_RX	(HPCC_RX_HELD + 2)

/**
 * struct hpcc_rx - a receiver that computes W for its peer
 * @state: the algorithm's
 * @wants: parameters as they came; LOCAL_IN writes
 * @uses: those that W is computed with
 * @window: record to tell; written under the socket lock
 * @audited_ns: when load records were echoed last
 * @heard_ns: when a record was taken in last
 * @began_seq: rcv_nxt when W was told last
 * @began_ns: and when that was
 * @seq: counts what was told
 * @mss: TCP's rcv_mss, as TCP measured it
 * @raised: what it was raised to
 * @more: segments that an ACK may wait for, but for the first
 * @thin: ACKs wait
 * @id: of the parameters in use
 * @on: there are some
 * @arrived: parameters came
 * @due: @window waits for LOCAL_OUT
 *
 * Socket lock, but for @wants, @arrived, @window and @due: single words that the hooks share.
 */
struct hpcc_rx {
	struct hpcc_newint state;
	u64 wants[2];
	u64 uses[2];
	u64 window;
	u64 audited_ns;
	u64 heard_ns;
	u64 began_ns;
	u32 began_seq;
	u16 seq;
	u16 mss;
	u16 raised;
	u8 more;
	bool thin;
	u8 id;
	bool on;
	bool arrived;
	bool due;
};

/**
 * enum hpcc_remote_state - whether a sender's W comes from its receiver
 * @HPCC_REMOTE_OFF: it does not
 * @HPCC_REMOTE_ASKING: the receiver was told parameters and has not answered yet
 * @HPCC_REMOTE_ON: it does
 */
enum hpcc_remote_state {
	HPCC_REMOTE_OFF,
	HPCC_REMOTE_ASKING,
	HPCC_REMOTE_ON,
};

/**
 * struct hpcc_remote - a sender whose W its receiver may compute
 * @tell: parameters; LOCAL_OUT reads them
 * @window: newest record of a window; LOCAL_IN writes
 * @taken: the one that W was set from last
 * @params_sent_ns: tcp_clock_cache when LOCAL_OUT sent parameters last
 * @since_us: when @state began
 * @wait_us: how long HPCC_REMOTE_OFF lasts at least
 * @id: of @tell
 * @state: enum hpcc_remote_state
 * @telling: LOCAL_OUT is to send @tell
 * @tries: times that it did, in this state
 *
 * Written under the socket lock, but for @window and @params_sent_ns; the hooks write @telling and
 * @tries as well.
 */
struct hpcc_remote {
	u64 tell[2];
	u64 window;
	u64 taken;
	u64 params_sent_ns;
	u64 since_us;
	u64 wait_us;
	u8 id;
	u8 state;
	bool telling;
	u8 tries;
};

/**
 * hpcc_window_pending() - whether W waits to be told to the peer
 * @flow: a flow
 *
 * Context: LOCAL_OUT.
 */
static inline bool hpcc_window_pending(const struct hpcc_flow *flow)
{
	const struct hpcc_rx *rx = rcu_dereference(flow->rx);

	return unlikely(rx) && READ_ONCE(rx->due);
}

/**
 * hpcc_cwnd_event() - TCP tells that data came
 * @sk: socket that runs hpcc or classic
 * @event: CA_EVENT_ECN_*; others are ignored
 */
void hpcc_cwnd_event(struct sock *sk, enum tcp_ca_event event);
void hpcc_rx_end(struct sock *sk, struct hpcc_flow *flow);
u32 hpcc_window_write(struct hpcc_flow *flow, u8 *p);

/**
 * hpcc_is_receivers() - whether a REPORT is for receiver.c
 * @opt: its head
 * @records: its records
 */
static inline bool hpcc_is_receivers(const struct hpcc_opt *opt, const u8 *records)
{
	u8 kind = opt->nr ? hpcc_slot_hop(records) : 0;

	return kind == HPCC_REPORT_WINDOW || kind == HPCC_REPORT_PARAMETERS;
}

void hpcc_remote_begin(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_follow_T(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_tick(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_remote_take(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_stop(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_remote_silent(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_params_due(const struct hpcc_flow *flow, const struct tcp_sock *tp);
u32 hpcc_params_write(struct hpcc_flow *flow, const struct tcp_sock *tp, u8 *p);

int hpcc_receiver_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		     const u8 *records);

#endif /* _HPCC_CONTROL_RECEIVER_H */
