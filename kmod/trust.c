// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry that contradicts itself, or the sender's clock: <hpcc/trust.h> says
 * which. W obeys it until that is certain, but not below one segment as soon as
 * there is doubt; then the socket runs classic, and listens on.
 *
 * Context: socket lock, all of this file.
 */
#include <net/tcp.h>

#include "hpcc.h"

/* An RTT in ns, above 0. TCP cuts to whole us, of both ends of the interval. */
static u64 hpcc_rtt_ns(u32 rtt_us)
{
	return (rtt_us + 1ULL) * NSEC_PER_USEC;
}

/* While in doubt, W stays at one segment: lies are found out by packets, of which
 * W_min lets one go in many T.
 */
static void hpcc_trust_bound(const struct sock *sk, struct hpcc_flow *flow)
{
	u64 W_min_q16 = hpcc_W_min(flow->params.W_max_q16);

	if (hpcc_trust_doubtful(&flow->trust))
		W_min_q16 = max_t(u64, W_min_q16,
				  (u64)tcp_sk(sk)->mss_cache << 16);
	flow->params.W_min_q16 = min(W_min_q16, flow->params.W_max_q16);
}

/**
 * hpcc_trust_changes() - take in an ACK, and whether it changes what is believed
 * @sk: socket
 * @flow: its flow, which has taken in the ACK's records
 * @rtt_us: RTT that the ACK measured; below 0: none
 *
 * Return: true where trust was lost, or came back: flow->trust.lost.
 */
bool hpcc_trust_changes(const struct sock *sk, struct hpcc_flow *flow,
			long rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hpcc_trust *trust = &flow->trust;
	bool changes;

	hpcc_trust_ack(trust, &flow->algo, rtt_us < 0 ? 0 : hpcc_rtt_ns(rtt_us));
	if (likely(!after(tp->snd_una, trust->end_seq)))
		return false;
	changes = hpcc_trust_round(trust, &flow->algo, flow->T_ns,
				   (u64)tcp_min_rtt(tp) * NSEC_PER_USEC,
				   tp->snd_una, tp->snd_nxt,
				   after(tp->write_seq, tp->snd_nxt));
	hpcc_trust_bound(sk, flow);
	return changes;
}
