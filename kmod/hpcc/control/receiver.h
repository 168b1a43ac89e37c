/* SPDX-License-Identifier: GPL-2.0 */
/* Receiver-based HPCC++ (receiver.c). */
#ifndef _HPCC_CONTROL_RECEIVER_H
#define _HPCC_CONTROL_RECEIVER_H

#include <hpcc/law/newint.h>

#include "flow/flow.h"

/* A receiver that computes W may leave this many segments without an ACK, and one more if a window
 * has HPCC_RX_MANY segments or more. The sender adds this number to W.
 */
#define HPCC_RX_HELD		2
#define HPCC_RX_MANY		8
/* The sender requests prompt ACKs if cwnd is below this. */
#define HPCC_PROMPT_CWND_RX	(HPCC_RX_HELD + 2)

/**
 * struct hpcc_rx - a receiver that computes W for its peer
 * @state: state of the algorithm
 * @wants: newest parameters from the peer; LOCAL_IN writes
 * @uses: parameters that W is computed with
 * @window: record of W for the next report; written under the socket lock
 * @audited_ns: time of the last echo of load records
 * @heard_ns: time when a record was last processed
 * @began_seq: rcv_nxt at @began_ns
 * @began_ns: start of the current T
 * @seq: sequence number of reports
 * @mss: TCP's rcv_mss, as TCP measured it
 * @raised: value that rcv_mss was raised to
 * @more: segments that an ACK may wait for after the first one
 * @thin: ACKs wait
 * @id: id of the parameters in use
 * @on: parameters are in use
 * @arrived: new parameters are in @wants
 * @due: LOCAL_OUT must send @window
 *
 * Socket lock, except for @wants, @arrived, @window and @due: single words that the hooks share.
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
 * @HPCC_REMOTE_OFF: the sender computes W
 * @HPCC_REMOTE_ASKING: parameters are being sent, the receiver has not answered yet
 * @HPCC_REMOTE_ON: the receiver computes W
 */
enum hpcc_remote_state {
	HPCC_REMOTE_OFF,
	HPCC_REMOTE_ASKING,
	HPCC_REMOTE_ON,
};

/**
 * struct hpcc_remote - a sender whose W its receiver may compute
 * @tell: parameters to send; LOCAL_OUT reads them
 * @window: newest record of a window; LOCAL_IN writes
 * @taken: record that last set W
 * @params_sent_ns: tcp_clock_cache when LOCAL_OUT last sent parameters
 * @since_us: start time of @state
 * @wait_us: minimum duration of HPCC_REMOTE_OFF
 * @id: id of @tell
 * @state: enum hpcc_remote_state
 * @telling: LOCAL_OUT must send @tell
 * @tries: number of times that LOCAL_OUT sent @tell in this state
 *
 * Written under the socket lock, except for @window and @params_sent_ns; the hooks also write
 * @telling and @tries.
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
 * hpcc_window_pending() - whether a report of W is pending
 * @flow: a flow
 *
 * Context: LOCAL_OUT.
 */
static inline bool hpcc_window_pending(const struct hpcc_flow *flow)
{
	const struct hpcc_rx *rx;

	if (likely(!flow->rx_window_agreed))
		return false;
	rx = rcu_dereference(flow->rx);
	return rx && READ_ONCE(rx->due);
}

/**
 * hpcc_cwnd_event() - TCP's notification that data arrived
 * @sk: socket that runs hpcc or classic
 * @event: CA_EVENT_ECN_*; others are ignored
 */
void hpcc_cwnd_event(struct sock *sk, enum tcp_ca_event event);
void hpcc_rx_end(struct sock *sk, struct hpcc_flow *flow);
u32 hpcc_window_write(struct hpcc_flow *flow, u8 *p);

/**
 * hpcc_is_receivers() - whether receiver.c processes a REPORT
 * @opt: head of the REPORT
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
