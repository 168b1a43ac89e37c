// SPDX-License-Identifier: GPL-2.0
/*
 * N: how many flows share the link to a receiver (draft-miao section 6.2).
 *
 *	receiver	counts the flows that want N and whose requests it echoes, for each device
 *			that they come in by, and tells N in a REPORT beside an echo: once in T,
 *			and when N changes. Others do not count, so that they cost nothing
 *	sender		W_ai = W_init (1 - eta) / N while the last hop has the largest u'
 *
 * Where IOAM traces and TCP options both have hops, the last number need not be that of the last
 * link: N is neither told nor used there.
 *
 * A receiver that computes W (receiver.c) counts the flow as well, and sets W_ai itself.
 *
 * Only a sender that has net.hpcc.n_flows = 0 asks for reports (HPCC_CAP_REPORT). Where none
 * comes, where it is old, or where another hop is the bottleneck, N is HPCC_N_DEFAULT.
 *
 * A flow counts once in a period of 16 T: as long as its packets are apart when W is W_min
 * (ack.c). No period is longer than 100 ms. N is what the last whole period had, or what this one
 * has already, if that is more. So flows that come count at once, those that go for up to two
 * periods more. Devices whose numbers are equal modulo HPCC_CENSUS_SLOTS count together.
 */
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <hpcc/compat.h>
#include <hpcc/law/newint.h>

#include "common/peek.h"
#include "control/census.h"
#include "netns/net.h"
#include "telemetry/mailbox.h"

static const u32 hpcc_period_T = 16;

/* A peer that answers late gives its flow a T of up to a second. No period is longer than this
 * for that, as flows that have gone count for up to two periods more.
 */
static const u32 hpcc_period_max_us = 100 * USEC_PER_MSEC;

/* A report holds for so long. */
static const u32 hpcc_report_age_T = 32;

static u32 hpcc_T_us(const struct hpcc_params *p)
{
	return max_t(u32, div_u64(hpcc_peek(p->T), NSEC_PER_USEC), 1);
}

/* The period that a flow wants to be counted in. */
static u32 hpcc_wanted_us(u32 T_us)
{
	return min(T_us * hpcc_period_T, hpcc_period_max_us);
}

/* ---- Receiver ----------------------------------------------------------------- */

/* The count of a flow. When its packets come in by another device it changes to that one's count
 * only when the period is over: each count has it once in a period, however often it changes.
 */
static struct hpcc_census *hpcc_census_of(struct hpcc_net *hn, struct hpcc_flow *flow,
					  s64 now_us, u32 wanted_us)
{
	struct hpcc_census *census = &hn->census[READ_ONCE(flow->census)];
	u8 device = READ_ONCE(flow->device);

	if (likely(READ_ONCE(flow->census) == device))
		return census;
	if (READ_ONCE(flow->counted) == READ_ONCE(census->epoch) &&
	    now_us - atomic64_read(&census->began_us) <
	    max(READ_ONCE(census->period_us), wanted_us))
		return census;
	census = &hn->census[device];
	WRITE_ONCE(flow->census, device);
	WRITE_ONCE(flow->counted, READ_ONCE(census->epoch) - 1);
	return census;
}

/* Count a flow, and return N. The longest period of all flows holds for all, so that one with a
 * large T is not missed. Whoever moves began_us ends the period, alone.
 *
 * @now_us is as old as the flow's last packet or timer: with several CPUs, and with ACKs that
 * setsockopt() lets go, it may be before began_us.
 */
static u32 hpcc_census_count(struct hpcc_census *census, struct hpcc_flow *flow,
			     s64 now_us, u32 wanted_us)
{
	s64 began_us = atomic64_read(&census->began_us);
	u32 epoch = READ_ONCE(census->epoch);
	u32 period_us = max(READ_ONCE(census->period_us), wanted_us);
	s64 elapsed_us = now_us - began_us;
	u32 last;

	if (elapsed_us >= period_us &&
	    atomic64_cmpxchg(&census->began_us, began_us, now_us) == began_us) {
		last = atomic_xchg(&census->now, 0);
		WRITE_ONCE(census->last, elapsed_us >= 2LL * period_us ? 0 : last);
		WRITE_ONCE(census->period_us, xchg(&census->next_period_us, 0));
		WRITE_ONCE(census->epoch, ++epoch);
	}
	if (READ_ONCE(flow->counted) != epoch) {
		WRITE_ONCE(flow->counted, epoch);
		atomic_inc(&census->now);
		if (READ_ONCE(census->next_period_us) < wanted_us)
			WRITE_ONCE(census->next_period_us, wanted_us);
	}
	return max_t(u32, READ_ONCE(census->last), atomic_read(&census->now));
}

/**
 * hpcc_report_due() - count a flow that is about to echo; whether to tell N beside the echo
 * @flow: a flow
 * @tp: its socket
 * @net: its network namespace
 *
 * Context: LOCAL_OUT.
 * Return: whether the peer wants N, and has not heard of it for T, or of another one.
 */
bool hpcc_report_due(struct hpcc_flow *flow, const struct tcp_sock *tp,
		     const struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet_rcu(net);
	u32 sent = READ_ONCE(flow->N_sent);
	u32 T_us, wanted_us, N;
	u64 now_us;

	if (!(flow->caps & HPCC_CAP_REPORT))
		return false;
	now_us = hpcc_peek(tp->tcp_mstamp);
	T_us = hpcc_T_us(&flow->params);
	wanted_us = hpcc_wanted_us(T_us);
	N = hpcc_census_count(hpcc_census_of(hn, flow, now_us, wanted_us), flow, now_us, wanted_us);
	N = clamp_t(u32, N, 1, HPCC_REPORT_N_MAX);
	if (unlikely(READ_ONCE(flow->mixed)))
		return false;
	/* By more than an eighth: N of many flows changes with each packet. */
	if (sent && abs((s32)(N - sent)) * 8 <= sent &&
	    (u32)now_us - READ_ONCE(flow->N_sent_us) < T_us)
		return false;
	WRITE_ONCE(flow->N_sent, N);
	WRITE_ONCE(flow->N_sent_us, now_us);
	return true;
}

/**
 * hpcc_report_write() - write a REPORT
 * @flow: a flow, of which one is due
 * @p: hpcc_opt_len(1) bytes
 *
 * Context: LOCAL_OUT.
 * Return: its length.
 */
u32 hpcc_report_write(const struct hpcc_flow *flow, u8 *p)
{
	const struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 1 };

	hpcc_opt_encode(p, flow->kind, &opt);
	put_unaligned_be64(hpcc_report_pack(HPCC_REPORT_FLOWS, READ_ONCE(flow->N_sent)),
			   p + HPCC_OPT_HEAD_LEN);
	return hpcc_opt_len(1);
}

/* Whether no hop has a larger u' than the last one of @hops, which has been heard. */
static bool hpcc_last_hop_rules(const struct hpcc_algo *a, u32 hops)
{
	u32 i;

	if (a->end != hops)
		return false;
	for (i = 0; i + 1 < a->end; i++)
		if (a->L[i].u_q24 > a->L[a->end - 1].u_q24)
			return false;
	return a->end;
}

/* W_ai at most doubles, or halves, in a round trip. */
static u64 hpcc_slew_W_ai(u64 W_ai_q16, u64 goal_q16)
{
	return clamp_t(u64, goal_q16, W_ai_q16 / 2, W_ai_q16 * 2 + 1);
}

/**
 * hpcc_count_N() - count a flow whose W is computed here, and have W_ai follow N
 * @flow: a flow
 * @sk: its socket
 * @a: what W is computed in
 * @p: and with; W_ai may change
 * @W_ai_one_q16: W_ai of a flow alone, bytes; 0: W_ai does not follow N
 *
 * Once in T.
 *
 * Context: socket lock.
 */
void hpcc_count_N(struct hpcc_flow *flow, const struct sock *sk, const struct hpcc_algo *a,
		  struct hpcc_params *p, u64 W_ai_one_q16)
{
	struct hpcc_net *hn = hpcc_pernet(sock_net(sk));
	u32 wanted_us = hpcc_wanted_us(hpcc_T_us(p));
	u64 now_us = tcp_sk(sk)->tcp_mstamp;
	u32 N;

	if (!W_ai_one_q16)
		return;
	N = hpcc_census_count(hpcc_census_of(hn, flow, now_us, wanted_us), flow, now_us,
			      wanted_us);
	if (READ_ONCE(flow->mixed) || !hpcc_last_hop_rules(a, hpcc_echo_hops(flow)))
		N = HPCC_N_DEFAULT;
	p->W_ai_q16 = hpcc_slew_W_ai(p->W_ai_q16, div_u64(W_ai_one_q16, max(N, 1U)));
}

/* ---- Sender ------------------------------------------------------------------- */

/**
 * hpcc_report_in() - keep the N of a REPORT for the end of the round trip
 * @flow: a flow that wants it
 * @opt: head of the option
 * @records: its records
 *
 * Context: LOCAL_IN.
 * Return: 0, or -EINVAL where it does not state one N.
 */
int hpcc_report_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records)
{
	u16 N = opt->nr == 1 ? hpcc_report_flows(get_unaligned_be64(records)) : 0;

	if (!N)
		return -EINVAL;
	WRITE_ONCE(flow->N_arrived, N);
	return 0;
}

/**
 * hpcc_set_N() - W_ai after T has changed
 * @flow: a flow, its parameters set but for W_ai
 * @W_ai_one_q16: W_ai of a flow alone, bytes; 0: W_ai does not follow N
 * @n_flows: N as configured; 0: as reported
 * @was_q16: W_ai until now
 *
 * Until reports come N is the default. On its way to another N W_ai stays the part of W_init that
 * it is.
 *
 * Context: socket lock, as below.
 * Return: W_ai.
 */
u64 hpcc_set_N(struct hpcc_flow *flow, u64 W_ai_one_q16, u32 n_flows, u64 was_q16)
{
	u64 one_was_q16 = flow->wants_N ? flow->W_ai_one_q16 : 0;
	u64 W_ai_q16 = flow->params.W_ai_q16;

	WRITE_ONCE(flow->wants_N, W_ai_one_q16 && !n_flows);
	flow->W_ai_one_q16 = W_ai_one_q16;
	flow->N = n_flows ? : flow->N ? : HPCC_N_DEFAULT;
	if (W_ai_one_q16)
		W_ai_q16 = div_u64(W_ai_one_q16, flow->N);
	flow->W_ai_goal_q16 = W_ai_q16;
	if (flow->wants_N && one_was_q16)
		W_ai_q16 = mul_u64_u64_div_u64(was_q16, W_ai_one_q16, one_was_q16);
	return W_ai_q16;
}

/**
 * hpcc_follow_N() - W_ai at the end of a round trip: it follows N
 * @flow: a flow
 * @now_us: tcp_mstamp, modulo 2^32
 *
 * Return: W_ai.
 */
u64 hpcc_follow_N(struct hpcc_flow *flow, u32 now_us)
{
	u32 arrived;
	u32 N = HPCC_N_DEFAULT;

	if (!flow->wants_N)
		return flow->params.W_ai_q16;
	arrived = READ_ONCE(flow->N_arrived) ? xchg(&flow->N_arrived, 0) : 0;
	if (arrived) {
		flow->N_reported = arrived;
		flow->N_reported_us = now_us;
	}
	if (flow->N_reported && hpcc_last_hop_rules(&flow->algo, READ_ONCE(flow->hops))) {
		if (now_us - flow->N_reported_us <= hpcc_T_us(&flow->params) * hpcc_report_age_T)
			N = flow->N_reported;
		else
			flow->N_reported = 0;
	}
	if (flow->N != N) {
		flow->N = N;
		flow->W_ai_goal_q16 = max_t(u64, div_u64(flow->W_ai_one_q16, N), 1);
	}
	return hpcc_slew_W_ai(flow->params.W_ai_q16, flow->W_ai_goal_q16);
}
