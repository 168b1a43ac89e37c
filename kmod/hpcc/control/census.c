// SPDX-License-Identifier: GPL-2.0
/*
 * N: the number of flows that share the link to a receiver (draft-miao section 6.2).
 *
 *	receiver	counts the flows that want N, separately for each device by which their
 *			packets arrive, when it echoes their requests; sends N in a REPORT beside an
 *			echo, once per T and when N changes. In receiver mode it also computes W_ai
 *			from this N
 *	sender		with net.hpcc.n_flows = 0: sets W_ai = W_init (1 - eta) / N while the report
 *			is valid and the last hop has the largest u', else with HPCC_N_DEFAULT
 *
 * If a request collects hops from a trace and from the TCP option, the last hop may not be the last
 * link. Then neither end uses N.
 *
 * A flow counts once per period of 16 T, the interval between packets of a flow whose W is W_min
 * (window.c), but at most 100 ms. N is the larger count of the last complete period and the current
 * period. So a new flow counts immediately, and an ended flow for at most two more periods. Devices
 * share a count if their ifindex is equal modulo HPCC_CENSUS_SLOTS.
 */
#include <linux/unaligned.h>
#include <hpcc/law/newint.h>

#include "control/cc.h"
#include "telemetry/mailbox.h"

static const u32 hpcc_period_T = 16;

/* A peer that delays its ACKs can raise T to one second. */
static const u32 hpcc_period_max_us = 100 * USEC_PER_MSEC;

/* Maximum age of a valid report. */
static const u32 hpcc_report_age_T = 32;

static u32 hpcc_T_us(const struct hpcc_params *p)
{
	return max_t(u32, div_u64(hpcc_peek(p->T), NSEC_PER_USEC), 1);
}

/* A flow changes to the census of another device only at the end of the period: it counts once. */
static struct hpcc_census *hpcc_census_of(struct hpcc_net *hn, struct hpcc_flow *flow,
					  s64 now_us, u32 wanted_us)
{
	struct hpcc_census *census = &hn->census[READ_ONCE(flow->census.index)];
	u8 device = READ_ONCE(flow->device);

	if (likely(READ_ONCE(flow->census.index) == device))
		return census;
	if (READ_ONCE(flow->census.period) == READ_ONCE(census->epoch) &&
	    now_us - atomic64_read(&census->began_us) <
	    max(READ_ONCE(census->period_us), wanted_us))
		return census;
	census = &hn->census[device];
	WRITE_ONCE(flow->census.index, device);
	WRITE_ONCE(flow->census.period, READ_ONCE(census->epoch) - 1);
	return census;
}

/* Count a flow, and return N. The longest period that a flow needs applies to all flows: in a
 * shorter one a flow with a large T may send nothing. The CPU that advances began_us ends the
 * period. @now_us may be before began_us: CPUs run in parallel, and setsockopt() may send a delayed
 * ACK.
 */
static u32 hpcc_census_count(struct hpcc_net *hn, struct hpcc_flow *flow, s64 now_us, u32 T_us)
{
	u32 wanted_us = min(T_us * hpcc_period_T, hpcc_period_max_us);
	struct hpcc_census *census = hpcc_census_of(hn, flow, now_us, wanted_us);
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
	if (READ_ONCE(flow->census.period) != epoch) {
		WRITE_ONCE(flow->census.period, epoch);
		atomic_inc(&census->now);
		if (READ_ONCE(census->next_period_us) < wanted_us)
			WRITE_ONCE(census->next_period_us, wanted_us);
	}
	return max_t(u32, READ_ONCE(census->last), atomic_read(&census->now));
}

/* Count a flow before an echo, and decide on a REPORT beside it. Context: LOCAL_OUT. Return:
 * whether the peer wants N, and the last REPORT is at least T old or had a different N.
 */
bool hpcc_report_due(struct hpcc_flow *flow, const struct tcp_sock *tp, const struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet_rcu(net);
	u32 sent, T_us, N;
	u64 now_us;

	if (!(flow->caps & HPCC_CAP_REPORT))
		return false;
	now_us = hpcc_peek(tp->tcp_mstamp);
	T_us = hpcc_T_us(&flow->params);
	N = clamp_t(u32, hpcc_census_count(hn, flow, now_us, T_us), 1, HPCC_REPORT_N_MAX);
	if (unlikely(READ_ONCE(flow->carrier_state.mixed)))
		return false;
	sent = READ_ONCE(flow->census.N_sent);
	/* N differs if it changed by more than 1/8: with many flows N changes with each packet. */
	if (sent && abs((s32)(N - sent)) * 8 <= sent &&
	    (u32)now_us - READ_ONCE(flow->census.N_sent_us) < T_us)
		return false;
	WRITE_ONCE(flow->census.N_sent, N);
	WRITE_ONCE(flow->census.N_sent_us, now_us);
	return true;
}

/* Whether the last one of @hops has sent a record and has the largest u'. */
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

/* W_ai changes by a factor of two at most in a round trip. */
static u64 hpcc_slew_W_ai(u64 W_ai_q16, u64 goal_q16)
{
	return clamp_t(u64, goal_q16, W_ai_q16 / 2, W_ai_q16 * 2 + 1);
}

/**
 * hpcc_count_N() - once per T: count a flow whose W is computed here, and adapt W_ai to N
 * @flow: a flow
 * @sk: its socket
 * @a: algorithm that computes W
 * @p: its parameters; W_ai is updated
 * @W_ai_one_q16: W_ai of a single flow, bytes; 0: W_ai does not depend on N
 * Context: socket lock.
 */
void hpcc_count_N(struct hpcc_flow *flow, const struct sock *sk, const struct hpcc_algo *a,
		  struct hpcc_params *p, u64 W_ai_one_q16)
{
	struct hpcc_net *hn = hpcc_pernet(sock_net(sk));
	u32 N;

	if (!W_ai_one_q16)
		return;
	N = hpcc_census_count(hn, flow, tcp_sk(sk)->tcp_mstamp, hpcc_T_us(p));
	if (READ_ONCE(flow->carrier_state.mixed) || !hpcc_last_hop_rules(a, hpcc_echo_hops(flow)))
		N = HPCC_N_DEFAULT;
	p->W_ai_q16 = hpcc_slew_W_ai(p->W_ai_q16, div_u64(W_ai_one_q16, max(N, 1U)));
}
EXPORT_SYMBOL_GPL(hpcc_count_N);

/* Keep the N of a REPORT for the end of the round trip. Context: LOCAL_IN. Return: 0, or -EINVAL if
 * the REPORT does not contain exactly one N.
 */
int hpcc_report_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records)
{
	u16 N = opt->nr == 1 ? hpcc_report_flows(get_unaligned_be64(records)) : 0;

	if (!N)
		return -EINVAL;
	WRITE_ONCE(flow->census.N_arrived, N);
	return 0;
}

/**
 * hpcc_set_N() - W_ai after T has changed; a W_ai on its way to a new N keeps its ratio to W_init
 * @flow: a flow; all its parameters except W_ai are set
 * @W_ai_one_q16: W_ai of a single flow, bytes; 0: W_ai does not depend on N
 * @n_flows: N from the configuration; 0: N from reports
 * @was_q16: W_ai until now
 * Context: socket lock.
 */
u64 hpcc_set_N(struct hpcc_flow *flow, u64 W_ai_one_q16, u32 n_flows, u64 was_q16)
{
	u64 one_was_q16 = flow->census.wants_N ? flow->census.W_ai_one_q16 : 0;
	u64 W_ai_q16 = flow->params.W_ai_q16;

	WRITE_ONCE(flow->census.wants_N, W_ai_one_q16 && !n_flows);
	flow->census.W_ai_one_q16 = W_ai_one_q16;
	flow->census.N = n_flows ? : flow->census.N ? : HPCC_N_DEFAULT;
	if (W_ai_one_q16)
		W_ai_q16 = div_u64(W_ai_one_q16, flow->census.N);
	flow->census.W_ai_goal_q16 = W_ai_q16;
	if (flow->census.wants_N && one_was_q16)
		W_ai_q16 = mul_u64_u64_div_u64(was_q16, W_ai_one_q16, one_was_q16);
	return W_ai_q16;
}

/* Adapt W_ai to N at the end of a round trip. @now_us: tcp_mstamp, modulo 2^32. Context: socket
 * lock. Return: W_ai.
 */
u64 hpcc_follow_N(struct hpcc_flow *flow, u32 now_us)
{
	u32 arrived;
	u32 N = HPCC_N_DEFAULT;

	if (!flow->census.wants_N)
		return flow->params.W_ai_q16;
	arrived = READ_ONCE(flow->census.N_arrived) ? xchg(&flow->census.N_arrived, 0) : 0;
	if (arrived) {
		flow->census.N_reported = arrived;
		flow->census.N_reported_us = now_us;
	}
	if (flow->census.N_reported && hpcc_last_hop_rules(&flow->algo, READ_ONCE(flow->hops))) {
		if (now_us - flow->census.N_reported_us <=
		    hpcc_T_us(&flow->params) * hpcc_report_age_T)
			N = flow->census.N_reported;
		else
			flow->census.N_reported = 0;
	}
	if (flow->census.N != N) {
		flow->census.N = N;
		flow->census.W_ai_goal_q16 = max_t(u64, div_u64(flow->census.W_ai_one_q16, N), 1);
	}
	return hpcc_slew_W_ai(flow->params.W_ai_q16, flow->census.W_ai_goal_q16);
}
