// SPDX-License-Identifier: GPL-2.0
/*
 * Paths that pass SYNs with our option, but drop data or ACKs with it. Telemetry must never make a
 * connection lose data. So an end that suspects the path sends segments without our option:
 *
 *	data	An RTO mutes the flow if requests left and no echo or REPORT of the peer arrived
 *		since the last RTO. The flow falls back to classic. Later one data segment carries a
 *		request as a trial. Segments are in flight before and after the trial, so that fast
 *		retransmit repairs its loss. If a flow sends too few segments, the trial leaves
 *		after HPCC_TRIAL_WAIT, and a tail loss probe repairs its loss. The muting ends if
 *		the peer acknowledges the trial, and TCP has retransmitted no segment after the
 *		trial. An echo proves less: the peer may have stored it before the trial. After a
 *		failed trial the next one waits longer, because the path may also lose a trial by
 *		chance. ACKs without data still answer the peer's requests: an outage also mutes
 *		flows, and an end that sends no more data makes no trial.
 *	ACKs	If the peer retransmits data that were acknowledged, the path may have dropped the
 *		ACK because of our option. The answer and the next HPCC_PAUSE ACKs without data
 *		carry no option. The number doubles if another such retransmission arrives within
 *		HPCC_PAUSE_RESET, because an end cannot detect whether its ACK arrived. Data keep
 *		the option: if the path also drops data, an RTO mutes the flow.
 */
#include "carrier/carrier.h"
#include "control/mute.h"
#include "telemetry/mailbox.h"

/* Number of ACKs without an option after the first lost ACK, and its maximum. */
#define HPCC_PAUSE		64
#define HPCC_PAUSE_MAX		32768U

/* TCP retransmits its tail after this time or later (TCP_TIMEOUT_MIN); reordering is faster. */
#define HPCC_LOST_JIFFIES	2

/* Duplicates at longer intervals are spurious retransmissions: the pause is HPCC_PAUSE again. */
#define HPCC_PAUSE_RESET	(10 * HZ)

/* Number of segments that the trial needs in flight before it, and in the send queue after it. */
#define HPCC_TRIAL_BEFORE	7
#define HPCC_TRIAL_AFTER	3

/* After this time a trial needs no segments before and after it. Each failed trial doubles the
 * time.
 */
#define HPCC_TRIAL_WAIT		(10 * HZ)
#define HPCC_TRIAL_DOUBLINGS	6

static bool hpcc_mute_waited(const struct hpcc_flow *flow, u8 doublings)
{
	return tcp_jiffies32 - READ_ONCE(flow->mute_past.since) >= HPCC_TRIAL_WAIT << doublings;
}

/* Send no option in data from now on, and wait for the next trial. */
static void __cold hpcc_mute(struct hpcc_flow *flow)
{
	WRITE_ONCE(flow->mute_past.since, tcp_jiffies32);
	WRITE_ONCE(flow->mute.state, HPCC_MUTED);
}

/* An RTO fired: the path may drop segments with our option. If data use another carrier,
 * hpcc_carrier_rto() stops this carrier first. Context: socket lock. Return: whether this RTO mutes
 * the flow.
 */
bool __cold hpcc_mute_rto(struct sock *sk, struct hpcc_flow *flow)
{
	u32 received = READ_ONCE(flow->received);
	u32 requests = READ_ONCE(flow->requests);
	bool suspect;

	if (READ_ONCE(flow->mute.state))
		return false;
	suspect = received == flow->mute_past.rto_received &&
		  requests != flow->mute_past.rto_requests;
	/* The path has passed options since the last trial. */
	if (received != flow->mute_past.rto_received)
		WRITE_ONCE(flow->mute_past.trials, 0);
	flow->mute_past.rto_received = received;
	flow->mute_past.rto_requests = requests;
	if (!suspect || hpcc_carrier_in_data(flow))
		return false;
	hpcc_mute(flow);
	hpcc_count(sock_net(sk), HPCC_C_MUTED);
	return true;
}

/* The trial was sent: end the muting if the peer has received it. */
static void __cold hpcc_mute_judge(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tp->total_retrans != READ_ONCE(flow->mute_past.trial_retrans)) {
		hpcc_mute(flow);
	} else if (!before(tp->snd_una, READ_ONCE(flow->mute_past.trial_end))) {
		/* The next RTO mutes the flow if no request that leaves from now on is answered. */
		flow->mute_past.rto_received = READ_ONCE(flow->received);
		flow->mute_past.rto_requests = READ_ONCE(flow->requests);
		WRITE_ONCE(flow->mute.state, HPCC_MUTED_NOT);
	} else {
		return;
	}
	hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
}

/* An ACK of a muted flow arrived, in classic: end the muting, or try telemetry again. */
void __cold hpcc_mute_ack(struct sock *sk, struct hpcc_flow *flow)
{
	/* Pairs with the release in hpcc_mute_tries(). */
	u8 muted = smp_load_acquire(&flow->mute.state);

	if (muted == HPCC_MUTED_TRIED) {
		hpcc_mute_judge(sk, flow);
		return;
	}
	if (muted == HPCC_MUTED) {
		u8 trials = READ_ONCE(flow->mute_past.trials);

		if (!hpcc_fallback_over(&flow->fallback) ||
		    (trials && !hpcc_mute_waited(flow, trials)))
			return;
		/* A trial after the first one waits for other segments from now on. */
		if (trials)
			WRITE_ONCE(flow->mute_past.since, tcp_jiffies32);
	}
	/* Each segment of a TSO packet would carry the request. A new route removes the limit. */
	hpcc_cap_bursts(sk, &flow->burst, 0, true);
	/* If the state was not HPCC_MUTED, LOCAL_OUT may have sent the trial in between. */
	if (muted == HPCC_MUTED) {
		/* The mailbox has records from before the RTO. */
		hpcc_mail_discard(flow);
		WRITE_ONCE(flow->mute.state, HPCC_MUTED_TRIES);
	}
}

/* Whether a segment that ends at @end may be the trial. */
static bool hpcc_mute_ready(const struct tcp_sock *tp, const struct hpcc_flow *flow, u32 end)
{
	return (hpcc_peek(tp->packets_out) >= HPCC_TRIAL_BEFORE &&
		hpcc_peek(tp->write_seq) - end >= HPCC_TRIAL_AFTER * hpcc_peek(tp->mss_cache)) ||
	       hpcc_mute_waited(flow, 0);
}

/* Whether a segment with new data and a request is the trial segment. */
static bool hpcc_mute_tries(const struct hpcc_segment *seg, const struct tcp_sock *tp,
			    struct hpcc_flow *flow)
{
	struct hpcc_flow_mute_past *past = &flow->mute_past;
	u32 end = hpcc_segment_end(seg);

	if (READ_ONCE(flow->mute.state) != HPCC_MUTED_TRIES || skb_is_gso(seg->skb) ||
	    !hpcc_mute_ready(tp, flow, end))
		return false;
	/* In recovery, retransmissions of older segments would count as loss of the trial.
	 * READ_ONCE() cannot read a bit field; an old value can only make the trial fail.
	 */
	if (tp->inet_conn.icsk_ca_state != TCP_CA_Open)
		return false;
	WRITE_ONCE(past->trial_end, end);
	WRITE_ONCE(past->trial_retrans, hpcc_peek(tp->total_retrans));
	WRITE_ONCE(past->trials, min(READ_ONCE(past->trials) + 1, HPCC_TRIAL_DOUBLINGS));
	/* Pairs with hpcc_mute_ack(): if that reads this state, it also reads the values above. */
	smp_store_release(&flow->mute.state, HPCC_MUTED_TRIED);
	return true;
}

/* Whether the previous ACK was lost: @seg repeats its number HPCC_LOST_JIFFIES later or more. */
static bool hpcc_mute_lost(const struct hpcc_segment *seg, const struct hpcc_flow *flow)
{
	return ntohl(hpcc_segment_th(seg)->ack_seq) == READ_ONCE(flow->sent.echo_ack) &&
	       tcp_jiffies32 - READ_ONCE(flow->sent.echo_at) >= HPCC_LOST_JIFFIES;
}

/* An ACK with our option was lost. */
static void hpcc_mute_pause(const struct hpcc_segment *seg, struct hpcc_flow *flow)
{
	u32 now = tcp_jiffies32;
	u32 pause = READ_ONCE(flow->mute_past.next_pause);

	if (!pause || now - READ_ONCE(flow->mute_past.paused_at) >= HPCC_PAUSE_RESET)
		pause = HPCC_PAUSE;
	WRITE_ONCE(flow->mute_past.paused_at, now);
	WRITE_ONCE(flow->mute.pause, pause);
	WRITE_ONCE(flow->mute_past.next_pause, min(2 * pause, HPCC_PAUSE_MAX));
	hpcc_count(seg->state->net, HPCC_C_MUTED);
	/* hpcc_probe_answer() sends the event: this may run without the socket lock. */
	WRITE_ONCE(flow->mute_past.paused, true);
	hpcc_answer_later(flow);
}

/**
 * hpcc_mute_out() - whether a segment may carry our option
 * @seg: a segment of a muted flow, or one that reports a duplicate
 * @tp: its socket
 * @flow: its flow
 * @presence: our options in the segment
 * @request: the segment has new data and space for a request, and a request is due
 * Context: LOCAL_OUT.
 */
bool __cold hpcc_mute_out(const struct hpcc_segment *seg, const struct tcp_sock *tp,
			  struct hpcc_flow *flow, enum hpcc_presence presence, bool request)
{
	u32 pause = READ_ONCE(flow->mute.pause);

	if (READ_ONCE(flow->mute.state) && !hpcc_is_pure(seg))
		return request && hpcc_mute_tries(seg, tp, flow);
	if (presence == HPCC_DUPLICATE && !pause && hpcc_mute_lost(seg, flow)) {
		hpcc_mute_pause(seg, flow);
		return false;
	}
	if (!pause || !hpcc_is_pure(seg))
		return true;
	WRITE_ONCE(flow->mute.pause, pause - 1);
	return false;
}
