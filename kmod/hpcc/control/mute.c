// SPDX-License-Identifier: GPL-2.0
/*
 * Paths that pass SYNs with our option, and drop data or ACKs with it.
 *
 * Telemetry must not cost a connection its data. So an end that suspects the path sends segments
 * without our option, whatever carries telemetry:
 *
 *	data	An RTO mutes the flow if requests left and no echo or REPORT of the peer arrived
 *		since the last RTO. The flow falls back to classic. Later one data segment carries a
 *		request: other segments are in flight in front of it and behind it, so that fast
 *		retransmit repairs its loss. An echo or REPORT ends the muting. Without one
 *		the flow stays muted until the connection ends. ACKs without data still answer
 *		the peer's requests: an outage mutes flows, too, and an end that sends little may
 *		never try.
 *	ACKs	The peer sends data again that were acknowledged: the ACK, which had our option,
 *		may have been dropped for it. The answer carries no option, nor do the next
 *		HPCC_PAUSE ACKs without data that would have had one. That number doubles if this
 *		happens again within HPCC_PAUSE_RESET, as an end never learns whether its ACK
 *		arrived. Data keep the option: where the path drops them, too, an RTO mutes.
 */
#include <net/tcp.h>

#include "control/cc.h"
#include "control/mute.h"
#include "control/probe.h"

/* ACKs without an option after the first one that was lost, and after many. */
#define HPCC_PAUSE		64
#define HPCC_PAUSE_MAX		32768U

/* TCP waits for so long, at least, before it sends the tail of its data again: see
 * TCP_TIMEOUT_MIN. Duplicates of reordering come sooner.
 */
#define HPCC_LOST_JIFFIES	2

/* Duplicates that are rarer than this are spurious retransmissions. */
#define HPCC_PAUSE_RESET	(10 * HZ)

/* Segments in flight in front of the one that tries, and behind it. */
#define HPCC_TRIAL_SEGS		3

/**
 * hpcc_mute_rto() - an RTO: the path may drop segments with our option
 * @sk: socket, under its lock
 * @flow: its flow
 *
 * IOAM goes first: after hpcc_ioam_rto() the TCP option carries the next requests.
 *
 * Return: whether the flow is muted from now on.
 */
bool hpcc_mute_rto(struct sock *sk, struct hpcc_flow *flow)
{
	u32 received = READ_ONCE(flow->received);
	u32 requests = READ_ONCE(flow->requests);
	bool suspect = received == flow->rto_received && requests != flow->rto_requests;

	flow->rto_received = received;
	flow->rto_requests = requests;
	if (flow->muted || !suspect ||
	    (flow->carrier == HPCC_CARRIER_IOAM && !flow->ioam_paused && !flow->probes))
		return false;
	WRITE_ONCE(flow->muted, HPCC_MUTED);
	hpcc_count(sock_net(sk), HPCC_C_MUTED);
	return true;
}

/**
 * hpcc_mute_ack() - an ACK came: end the muting, or try telemetry again
 * @sk: socket that runs classic, under its lock
 * @flow: its flow, which is muted
 */
void hpcc_mute_ack(struct sock *sk, struct hpcc_flow *flow)
{
	u8 muted = READ_ONCE(flow->muted);

	if (READ_ONCE(flow->received) != flow->rto_received) {
		hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
		WRITE_ONCE(flow->muted, HPCC_MUTED_NOT);
	} else if (muted == HPCC_MUTED_TRIES ||
		   (muted == HPCC_MUTED && hpcc_fallback_over(&flow->fallback) &&
		    inet_csk(sk)->icsk_ca_state == TCP_CA_Open &&
		    tcp_sk(sk)->packets_out > 2 * HPCC_TRIAL_SEGS)) {
		/* Each segment of a TSO packet would carry the request. A new route removes the
		 * cap.
		 */
		hpcc_cap_bursts(sk, &flow->burst, 0, true);
		WRITE_ONCE(flow->muted, HPCC_MUTED_TRIES);
	} else if (muted == HPCC_MUTED_TRIED) {
		hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
		WRITE_ONCE(flow->muted, HPCC_MUTED_FOR_GOOD);
	}
}

/* Whether a segment that asks is to be the one that tries: a new one, with others around it. */
static bool hpcc_mute_tries(const struct hpcc_segment *seg, const struct tcp_sock *tp,
			    struct hpcc_flow *flow)
{
	u32 end = hpcc_segment_end(seg);

	if (READ_ONCE(flow->muted) != HPCC_MUTED_TRIES || skb_is_gso(seg->skb) ||
	    end != READ_ONCE(flow->snd_end) ||
	    hpcc_peek(tp->packets_out) < HPCC_TRIAL_SEGS ||
	    hpcc_peek(tp->write_seq) - end < HPCC_TRIAL_SEGS * hpcc_peek(tp->mss_cache))
		return false;
	WRITE_ONCE(flow->muted, HPCC_MUTED_TRIED);
	return true;
}

/* Whether the ACK before this one, which reports a duplicate, is likely to be lost: the peer has
 * waited for it.
 */
static bool hpcc_mute_lost(const struct hpcc_segment *seg, const struct hpcc_flow *flow)
{
	return ntohl(hpcc_segment_th(seg)->ack_seq) == READ_ONCE(flow->echo_ack) &&
	       tcp_jiffies32 - READ_ONCE(flow->echo_at) >= HPCC_LOST_JIFFIES;
}

/* An ACK with our option has not arrived. */
static void hpcc_mute_pause(const struct hpcc_segment *seg, struct hpcc_flow *flow)
{
	u32 now = tcp_jiffies32;
	u32 pause = HPCC_PAUSE;

	if (READ_ONCE(flow->next_pause) && now - READ_ONCE(flow->paused_at) < HPCC_PAUSE_RESET)
		pause = READ_ONCE(flow->next_pause);
	WRITE_ONCE(flow->paused_at, now);
	WRITE_ONCE(flow->pause, pause);
	WRITE_ONCE(flow->next_pause, min(2 * pause, HPCC_PAUSE_MAX));
	hpcc_count(seg->state->net, HPCC_C_MUTED);
	/* hpcc_in_ack_event() has the socket lock. */
	WRITE_ONCE(flow->paused, true);
	hpcc_answer_later(flow);
}

/**
 * hpcc_mute_out() - whether a segment of a muted flow may carry our option, or one that reports a
 *	duplicate
 * @seg: the segment
 * @tp: its socket
 * @flow: its flow
 * @presence: what is among its options
 * @asks: it has data and room for a request, and one is due
 *
 * Context: LOCAL_OUT.
 */
bool hpcc_mute_out(const struct hpcc_segment *seg, const struct tcp_sock *tp,
		   struct hpcc_flow *flow, enum hpcc_presence presence, bool asks)
{
	u32 pause = READ_ONCE(flow->pause);

	if (READ_ONCE(flow->muted) && !hpcc_is_pure(seg))
		return asks && hpcc_mute_tries(seg, tp, flow);
	if (presence == HPCC_DUPLICATE && !pause && hpcc_mute_lost(seg, flow)) {
		hpcc_mute_pause(seg, flow);
		return false;
	}
	if (!pause || !hpcc_is_pure(seg))
		return true;
	WRITE_ONCE(flow->pause, pause - 1);
	return false;
}
