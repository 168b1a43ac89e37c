// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "hpcc": from telemetry to window and pacing rate.
 *
 * For each ACK, hpcc_cong_control() takes the newest records out of the flow's
 * mailbox, unwraps their counters, runs NewAck of <hpcc/algo.h>, and has
 * window.c tell TCP about the W and R that come out.
 *
 * Two sets of callbacks share the state. "hpcc" is the algorithm. Where the
 * peer did not agree, where memory was short, or while no telemetry arrives,
 * the socket runs "hpcc-classic": Reno's response, as tcp_dctcp falls back,
 * which ss and getsockopt then show. With the first record that arrives it
 * returns. Where telemetry is there and cannot be true (trust.c) the same
 * happens, and it returns after some round trips in which it can.
 *
 * Loss: recovery conserves packets for one round, then W rules again, since
 * telemetry and not loss tells the load. After an RTO W restarts from one
 * segment. CE: Wc is reduced by 1/8, so that a queue that does not stamp is
 * heard as well.
 */
#include <linux/module.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "hpcc.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Counters that wrap after 128 T tell nothing about an interval beyond half
 * of that.
 */
static const u32 hpcc_base_age_T = 64;

/* On paths of several hops, a link is measured over T/8 at least. */
static const u32 hpcc_interval_shift = 3;

/* Telemetry has stopped after this many ACKs of new data, and RTTs, without. */
static const u32 hpcc_silent_acks = 8;
static const u32 hpcc_silent_rtts = 4;

/* IDENTIFY for each option's worth of hops: twice, as one may be lost. Then, for
 * each hop that did not answer, some more; a switch may not know the answer.
 */
static const u8 hpcc_identify_tries = 2;
static const u8 hpcc_identify_again = 64;

static const u32 hpcc_ecn_shift = 3;

static struct hpcc_flow *hpcc_flow_of(const struct sock *sk)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	return ca->flow;
}

/* ---- Parameters of a connection -------------------------------------- */

/* (Re)compute what follows from T: W_init = B_host * T,
 * W_ai = W_init * (1 - eta) / N, and the units of FORWARD.
 *
 * Range: B_host * T up to 1 Tbit/s * 1 s is 2^37 bytes, so Q16 has 2^53.
 */
static void hpcc_set_T(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	u32 eta_permille = READ_ONCE(sysctls->eta_permille);
	u32 w_ai_bytes = READ_ONCE(sysctls->w_ai_bytes);
	u64 W_init_q16;
	u64 W_ai_q16;
	u64 B_host;
	u8 scale;

	flow->min_rtt_us = tcp_min_rtt(tcp_sk(sk));
	WRITE_ONCE(flow->T_ns, hpcc_base_rtt_ns(sk, READ_ONCE(sysctls->base_rtt_ns)));
	B_host = hpcc_host_rate(sk, READ_ONCE(sysctls->host_mbps));
	W_init_q16 = mul_u64_u64_div_u64(B_host, (u64)flow->T_ns << 16,
					 NSEC_PER_SEC);
	W_init_q16 = max_t(u64, W_init_q16, (u64)tcp_sk(sk)->mss_cache << 16);
	W_ai_q16 = w_ai_bytes ? (u64)w_ai_bytes << 16 :
		   div_u64(div_u64(W_init_q16 * (1000 - eta_permille), 1000),
			   READ_ONCE(sysctls->n_flows));
	hpcc_params_init(&flow->params, flow->T_ns, W_init_q16,
			 hpcc_W_min(W_init_q16), W_ai_q16,
			 div_u64((u64)eta_permille << 24, 1000),
			 READ_ONCE(sysctls->max_stage));

	scale = hpcc_scale_for(flow->T_ns);
	spin_lock_bh(&flow->lock);
	flow->scale = scale;
	WRITE_ONCE(flow->scales, flow->scales | BIT(scale));
	spin_unlock_bh(&flow->lock);
}

/* T changed, and W_init with it: W has to stay within, or R = W/T would exceed
 * the host's rate until telemetry comes.
 */
static void hpcc_change_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_algo *algo = &flow->algo;

	hpcc_set_T(sk, flow);
	algo->W_q16 = hpcc_clamp_wind(&flow->params, algo->W_q16);
	algo->Wc_q16 = hpcc_clamp_wind(&flow->params, algo->Wc_q16);
}

/* ---- Mailbox --------------------------------------------------------- */

/* Whether a record comes too soon after the hop's last one. Between neighbours
 * d(tx)/d(ts) tells how packets bunch, not how loaded a link is; and the
 * maximum over several links takes the worst of that noise for load.
 */
static bool hpcc_too_soon(const struct hpcc_flow *flow, u64 dts_ns)
{
	return READ_ONCE(flow->hops) > 1 &&
	       dts_ns < flow->T_ns >> hpcc_interval_shift;
}

/* Whether the hop's last record is too old to go on from, next to one of the same link
 * that came after @rtt_us.
 *
 * Where packets wait on their way back (a virtual machine that stands still), the
 * last record was old when it came, and what is stamped now may be so much newer
 * that it looks older. So that is believed only as long as the two segments were
 * sent within the same span.
 */
static bool hpcc_base_void(const struct hpcc_flow *flow, u64 now_us, u32 rtt_us,
			   u32 i, const struct hpcc_mail *mail)
{
	u64 last = flow->algo.L[i].ts >> mail->scale;
	const struct hpcc_base *base = &flow->base[i];
	u64 span_ns = (u64)flow->T_ns * hpcc_base_age_T;
	u64 age_us = now_us - base->seen_us;

	if (base->scale != mail->scale || age_us * NSEC_PER_USEC > span_ns)
		return true;
	return hpcc_counter_extend(last, mail->ts) < last &&
	       (age_us + flow->base_rtt_us[i]) * NSEC_PER_USEC >
	       span_ns + (u64)rtt_us * NSEC_PER_USEC;
}

/* Turn a record into a sample: unwrap the counters next to those that the
 * algorithm holds for the hop, in units, then convert to ns. What it ignored
 * leaves no trace here.
 *
 * Return: false where the record is a copy of the last one, as a TSO burst
 * makes of its header, or comes too soon after it. A copy stays one however old
 * the baseline is: who repeats the same record for ever tells nothing.
 */
static bool hpcc_sample(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 i,
			const struct hpcc_mail *mail, struct hpcc_sample *s)
{
	const struct hpcc_link *link = &flow->algo.L[i];
	/* High enough to count back from. */
	u64 ts = (1ULL << (2 * HPCC_COUNTER_BITS)) | mail->ts;
	u64 tx = (1ULL << (2 * HPCC_COUNTER_BITS)) | mail->tx;
	bool known = link->valid && link->tag == mail->tag;
	u64 dts_ns;

	if (known && flow->base[i].scale == mail->scale &&
	    !((link->ts >> mail->scale ^ mail->ts) & HPCC_COUNTER_MASK))
		return false;
	if (known && hpcc_base_void(flow, now_us, rtt_us, i, mail)) {
		hpcc_algo_forget_hop(&flow->algo, i + 1);
		known = false;
	}
	/* Another link's counters have nothing to do with these: the algorithm
	 * sees the tag, and begins anew.
	 */
	if (known) {
		ts = hpcc_counter_extend(link->ts >> mail->scale, mail->ts);
		tx = hpcc_counter_extend(link->tx >> mail->scale, mail->tx);
		dts_ns = (ts << mail->scale) - link->ts;
		if (hpcc_too_soon(flow, dts_ns))
			return false;
	}
	flow->base[i].scale = mail->scale;
	s->hop = i + 1;
	s->tag = mail->tag;
	s->ts = ts << mail->scale;
	s->tx = tx << mail->scale;
	s->qlen = (u64)mail->qlen << mail->scale;
	return true;
}

/* RTT of an ACK, or TCP's average where it has none (-1). */
static u32 hpcc_rtt_us(const struct tcp_sock *tp, long rtt_us)
{
	return rtt_us < 0 ? tp->srtt_us >> 3 : rtt_us;
}

/* Note when the records came that the algorithm did not ignore, and how long after
 * their segments were sent.
 */
static void hpcc_note_seen(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 n)
{
	const struct hpcc_sample *s;

	for (s = flow->sample; s < flow->sample + n; s++) {
		if (flow->algo.L[s->hop - 1].ts != s->ts)
			continue;
		flow->base[s->hop - 1].seen_us = now_us;
		flow->base_rtt_us[s->hop - 1] = rtt_us;
	}
}

/* Empty the mailbox.
 *
 * Return: number of samples in @flow->sample.
 */
static u32 hpcc_take_mail(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us)
{
	u64 now_us = tcp_sk(sk)->tcp_mstamp;
	unsigned long fresh;
	u32 n = 0;
	u32 i;

	if (!READ_ONCE(flow->mail_fresh))
		return 0;
	spin_lock_bh(&flow->lock);
	fresh = flow->mail_fresh;
	WRITE_ONCE(flow->mail_fresh, 0);
	hpcc_algo_trim(&flow->algo, flow->hops);
	for_each_set_bit(i, &fresh, HPCC_HOPS_MAX)
		n += hpcc_sample(flow, now_us, rtt_us, i, &flow->mail[i],
				 &flow->sample[n]);
	spin_unlock_bh(&flow->lock);
	return n;
}

/* Ask the switches who they are. */
static void hpcc_identify(struct hpcc_flow *flow)
{
	spin_lock_bh(&flow->lock);
	memset(flow->identity, 0, sizeof(flow->identity));
	flow->identify_left = hpcc_identify_tries *
			      DIV_ROUND_UP(flow->hops, flow->slots);
	flow->identify_again = hpcc_identify_again;
	spin_unlock_bh(&flow->lock);
}

static void hpcc_count_ack(const struct sock *sk, u32 bits)
{
	struct net *net = sock_net(sk);

	if (bits & HPCC_ACK_TS_BACK)
		hpcc_count(net, HPCC_C_TS_BACK_IGNORED);
	if (bits & (HPCC_ACK_TX_EXCESS | HPCC_ACK_TX_BACK))
		hpcc_count(net, HPCC_C_TX_EXCESS_IGNORED);
	if (bits & HPCC_ACK_PATH)
		hpcc_count(net, HPCC_C_PATH_CHANGES);
}

/* ---- From hpcc to classic and back ----------------------------------- */

static void hpcc_run_classic(struct sock *sk, enum hpcc_counter why)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_classic_ops);
	hpcc_count(sock_net(sk), why);
}

static void hpcc_to_classic(struct sock *sk, enum hpcc_counter why)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* Nothing told that the path takes less: go on from here, slowly. */
	tp->snd_ssthresh = tcp_snd_cwnd(tp);
	hpcc_algo_forget(&hpcc_flow_of(sk)->algo);
	hpcc_run_classic(sk, why);
}

/* What W went by was wrong: find out anew what the path takes, up to W_init. */
static void hpcc_distrust(struct sock *sk, struct hpcc_flow *flow)
{
	u64 W_init_bytes = flow->params.W_max_q16 >> 16;

	hpcc_to_classic(sk, HPCC_C_IMPLAUSIBLE);
	tcp_sk(sk)->snd_ssthresh =
		clamp_t(u64, div_u64(W_init_bytes, tcp_sk(sk)->mss_cache),
			2, TCP_INFINITE_SSTHRESH);
}

static void hpcc_to_telemetry(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	flow->silent_acks = 0;
	flow->doubt = false;
	flow->conserving = false;
	hpcc_algo_forget(&flow->algo);
	hpcc_trust_restart(&flow->trust, tp->snd_nxt);
	hpcc_algo_restart(&flow->algo, &flow->params,
			  (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	/* Where nothing is in flight TCP does not call hpcc_cong_control(). */
	tcp_snd_cwnd_set(tp, hpcc_cwnd(sk, flow));
	hpcc_set_rate(sk, flow);
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_ops);
	hpcc_count(sock_net(sk), HPCC_C_RETURNS);
}

/* Whether data have been acknowledged for a while without telemetry of use. */
static bool hpcc_silent(const struct tcp_sock *tp, struct hpcc_flow *flow,
			const struct rate_sample *rs)
{
	if (!rs->acked_sacked)
		return false;
	if (!flow->silent_acks++)
		flow->silent_since_us = tp->tcp_mstamp;
	return flow->silent_acks > hpcc_silent_acks &&
	       tp->tcp_mstamp - flow->silent_since_us >
	       hpcc_silent_rtts * (u64)(tp->srtt_us >> 3);
}

/* ---- Callbacks of hpcc ----------------------------------------------- */

static void hpcc_cong_control(struct sock *sk, HPCC_CONG_CONTROL_ACK
			      const struct rate_sample *rs)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool told;
	u64 W_before_q16;
	u32 bits = HPCC_ACK_NO_SAMPLE;
	u32 rtt_us;
	u32 n;

	/* TCP may ask before init() was called. */
	if (unlikely(!flow))
		return;
	hpcc_reserve_again(sk, flow);
	hpcc_deny_credit(tp, &flow->burst, rs);
	if (unlikely(tcp_min_rtt(tp) != flow->min_rtt_us))
		hpcc_change_T(sk, flow);

	told = READ_ONCE(flow->mail_fresh);
	rtt_us = hpcc_rtt_us(tp, rs->rtt_us);
	n = hpcc_take_mail(sk, flow, rtt_us);
	if (n) {
		W_before_q16 = flow->algo.W_q16;
		bits = hpcc_new_ack(&flow->algo, &flow->params,
				    flow->sample, n, tp->snd_una, tp->snd_nxt);
		hpcc_note_seen(flow, tp->tcp_mstamp, rtt_us, n);
		if (unlikely(bits & ~(u32)HPCC_ACK_UPDATE)) {
			hpcc_count_ack(sk, bits);
			if (bits & (HPCC_ACK_FIRST | HPCC_ACK_PATH))
				hpcc_identify(flow);
		}
	}
	/* Where all records are ignored, or each is of another link than the one
	 * before, W would stay as it is for as long as that goes on. A link that
	 * is known from now on is neither: the next record will tell.
	 */
	if (likely(!(bits & HPCC_ACK_NO_SAMPLE))) {
		flow->doubt = false;
		flow->silent_acks = 0;
	} else if (!(bits & HPCC_ACK_NEW)) {
		flow->doubt |= n > 0;
		if (unlikely(hpcc_silent(tp, flow, rs))) {
			flow->doubt |= told;
			hpcc_to_classic(sk, HPCC_C_FALLBACKS);
			return;
		}
	}
	if (unlikely(hpcc_trust_changes(sk, flow, rs->rtt_us))) {
		hpcc_distrust(sk, flow);
		return;
	}
	hpcc_apply(sk, flow, rs);
	if (n) {
		if (tcp_snd_cwnd(tp) < HPCC_PROMPT_CWND)
			hpcc_pace_again(tp, W_before_q16, flow->algo.W_q16);
		trace_hpcc_ack(sk, flow);
	}
}

/* Every segment that carries our option takes TCP's slow path, which calls
 * this before it decides whether to delay the ACK.
 */
static void hpcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return;
	hpcc_probe_ack(&flow->probe, tcp_sk(sk));
	if (READ_ONCE(flow->prompt)) {
		WRITE_ONCE(flow->prompt, false);
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
}

static void hpcc_set_state(struct sock *sk, u8 new_state)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	switch (new_state) {
	case TCP_CA_CWR:
		/* What a probe repaired needs no round of its own. */
		if (hpcc_probe_repaired(&flow->probe, tp))
			break;
		hpcc_algo_restart(&flow->algo, &flow->params,
				  flow->algo.Wc_q16 -
				  (flow->algo.Wc_q16 >> hpcc_ecn_shift));
		hpcc_count(sock_net(sk), HPCC_C_ECN_RESPONSES);
		break;
	case TCP_CA_Recovery:
		flow->conserving = true;
		flow->conserve_seq = tp->snd_nxt;
		break;
	case TCP_CA_Loss:
		flow->conserving = false;
		hpcc_algo_restart(&flow->algo, &flow->params,
				  (u64)tp->mss_cache << 16);
		hpcc_count(sock_net(sk), HPCC_C_TIMEOUTS);
		break;
	}
}

static u32 hpcc_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 2U);
}

static u32 hpcc_undo_cwnd(struct sock *sk)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return tcp_snd_cwnd(tcp_sk(sk));
	flow->conserving = false;
	return hpcc_cwnd(sk, flow);
}

/* Not TCP's own minimum of two segments: where an MTU is 64 KB they would have
 * no length that an option could be added to.
 */
static u32 hpcc_min_tso_segs(struct sock *sk)
{
	return 1;
}

static u32 hpcc_sndbuf_expand(struct sock *sk)
{
	/* As BBR: room for the window, and for its double while it grows. */
	return 3;
}

/* Start with W = W_init where both ends agreed (draft section 5: flows start
 * at line rate), else classic.
 */
static void hpcc_init(struct sock *sk)
{
	struct net *net = sock_net(sk);
	struct hpcc_ca *ca = inet_csk_ca(sk);
	struct hpcc_tuple tuple;
	struct hpcc_flow *flow;

	ca->flow = NULL;
	hpcc_tuple_of_sock(sk, &tuple);
	if (!hpcc_agree_take(net, &tuple)) {
		hpcc_run_classic(sk, HPCC_C_NOT_AGREED);
		return;
	}
	flow = hpcc_flow_create(sk);
	if (!flow) {
		/* setsockopt() may find memory later. */
		hpcc_agree_set(net, &tuple, HPCC_AGREE_DONE);
		hpcc_run_classic(sk, HPCC_C_NO_MEMORY);
		return;
	}
	hpcc_set_T(sk, flow);
	hpcc_algo_init(&flow->algo, &flow->params);
	hpcc_trust_init(&flow->trust, tcp_sk(sk)->snd_nxt);
	hpcc_reserve(sk, flow, hpcc_room(flow));
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	tcp_snd_cwnd_set(tcp_sk(sk), hpcc_cwnd(sk, flow));
	hpcc_cap_bursts(sk, &flow->burst, tcp_snd_cwnd(tcp_sk(sk)));
	hpcc_set_rate(sk, flow);
	ca->flow = flow;
	hpcc_count(net, HPCC_C_AGREED);
}

/* setsockopt(TCP_CONGESTION) may come back later: leave a note that the
 * connection did agree.
 */
static void hpcc_release(struct sock *sk)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	struct hpcc_flow *flow = ca->flow;
	struct hpcc_tuple tuple;

	if (!flow)
		return;
	ca->flow = NULL;
	/* setsockopt() may have taken the room back since the last ACK. */
	hpcc_reserve_again(sk, flow);
	hpcc_reserve(sk, flow, 0);
	hpcc_burst_release(sk, &flow->burst);
	if ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT |
				   TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2)) {
		hpcc_tuple_of_sock(sk, &tuple);
		hpcc_agree_set(sock_net(sk), &tuple, HPCC_AGREE_DONE);
	}
	hpcc_flow_destroy(flow);
}

struct tcp_congestion_ops hpcc_ops __read_mostly = {
	.init		= hpcc_init,
	.release	= hpcc_release,
	.cong_control	= hpcc_cong_control,
	.in_ack_event	= hpcc_in_ack_event,
	.set_state	= hpcc_set_state,
	.ssthresh	= hpcc_ssthresh,
	.undo_cwnd	= hpcc_undo_cwnd,
	.min_tso_segs	= hpcc_min_tso_segs,
	.sndbuf_expand	= hpcc_sndbuf_expand,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "hpcc",
};

/* ---- Callbacks of hpcc-classic --------------------------------------- */

/* Take records in that W does not follow. Return: whether a link was measured. */
static bool hpcc_listen(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = hpcc_rtt_us(tp, -1);
	u32 n = hpcc_take_mail(sk, flow, rtt_us);
	u32 bits;

	if (!n)
		return false;
	bits = hpcc_measure_inflight(&flow->algo, &flow->params,
				     flow->sample, n);
	hpcc_note_seen(flow, tp->tcp_mstamp, rtt_us, n);
	hpcc_count_ack(sk, bits);
	return !(bits & HPCC_ACK_NO_SAMPLE);
}

/* After records that were all ignored a link has to be measured again; after
 * some that cannot be true hpcc_classic_pkts_acked() decides.
 */
static void hpcc_classic_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	bool measured;

	hpcc_in_ack_event(sk, flags);
	if (!flow || !READ_ONCE(flow->mail_fresh))
		return;
	measured = (flow->doubt || flow->trust.lost) && hpcc_listen(sk, flow);
	if (!flow->trust.lost && (measured || !flow->doubt))
		hpcc_to_telemetry(sk, flow);
}

static void hpcc_classic_pkts_acked(struct sock *sk,
				    const struct ack_sample *sample)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (flow && flow->trust.lost &&
	    hpcc_trust_changes(sk, flow, sample->rtt_us))
		hpcc_to_telemetry(sk, flow);
}

/* Called where a socket that had fallen back connects once more. */
static void hpcc_classic_init(struct sock *sk)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_ops);
	hpcc_init(sk);
}

/* Not registered: sockets get here by falling back only. */
struct tcp_congestion_ops hpcc_classic_ops __read_mostly = {
	.init		= hpcc_classic_init,
	.release	= hpcc_release,
	.in_ack_event	= hpcc_classic_in_ack_event,
	.pkts_acked	= hpcc_classic_pkts_acked,
	.min_tso_segs	= hpcc_min_tso_segs,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "hpcc-classic",
};
