// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: the reason for the value of W, in one line. The window law (<hpcc/law/algo.h>):
 *
 *	W = Wc / (U/eta) + W_ai   when U >= eta or incStage >= maxStage
 *	W = Wc + W_ai             otherwise
 *
 * W stays between W_min and W_init. U is an average of the largest u'.
 */
#include <inttypes.h>

#include "hpccmon.h"

/* If U is below NEAR_ETA * eta, the path has unused capacity. */
#define NEAR_ETA	0.9
/* A sending flow gets records several times per T. It counts as idle after IDLE_T times T
 * without a record, but not before IDLE_US.
 */
#define IDLE_T		64
#define IDLE_US		100000
/* The same for an observed flow, which sends requests each 200 ms or more rarely. */
#define OBSERVED_IDLE_US	2000000

/* Records of observed flows are far apart, and u' contains the smaller queue of two records: in a
 * burst after a pause it is 1 for several links, and only the slow link has a queue. The u' of a
 * quiet hop is not measured.
 */
static double load_of(const struct flow *flow, const struct hop *hop)
{
	if (flow->mode != FLOW_OBSERVED)
		return hop->u;
	return hop->quiet ? -1 : hop->u + (double)hop->qlen_ns / flow->T_ns;
}

/* The hop with the largest u', as in the window law; NULL: no hop is known. For a quiet hop, whose
 * queue is too short for records, the window law uses eta as u', and lowers it over time.
 */
const struct hop *flow_holder(const struct flow *flow)
{
	const struct hop *hop, *holder = NULL;
	bool unknown = false;
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++) {
		hop = &flow->hop[i];
		unknown |= !hop->known && !hop->quiet;
		if ((hop->known || hop->quiet) &&
		    (!holder || load_of(flow, hop) > load_of(flow, holder)))
			holder = hop;
	}
	/* A hop of an observed flow that is not quiet, and not yet measured, may be the busiest. */
	if (flow->mode == FLOW_OBSERVED && unknown && holder && holder->quiet)
		return NULL;
	return holder;
}

/* Whether U is known. hpcc also sets W by the initial U, but an observed flow has none. */
bool flow_is_measured(const struct flow *flow)
{
	return flow->mode != FLOW_OBSERVED || flow_holder(flow);
}

static const char *classic_text(const struct flow *flow)
{
	switch (flow->fell_back) {
	case HPCC_WHY_SILENCE:
		return "telemetry stopped (silence)";
	case HPCC_WHY_UNSEEN_LOSS:
		return "no link with telemetry explains its losses (unseen-loss)";
	case HPCC_WHY_UNTRUSTED:
		return "feedback has a wrong tag or none: do both ends have the same key? "
		       "(untrusted)";
	case HPCC_WHY_MUTED:
		return "the path may drop segments with the option (muted)";
	default:
		return "no telemetry has arrived";
	}
}

/* Reasons outside the window law. */
static bool other_rules(const struct flow *flow, char *text, size_t size)
{
	if (flow_is_classic(flow))
		snprintf(text, size, "classic: %s; Reno sets the window, not W, until %s",
			 classic_text(flow), flow->mode == HPCC_FLOW_CLASSIC ? "a record arrives" :
			 "a link is measured");
	else if (flow->mode == HPCC_FLOW_IGNORING)
		snprintf(text, size,
			 "no link could be measured from the last records: W is unchanged");
	else if (flow->busy)
		snprintf(text, size, "a process uses the socket: its hops cannot be read now");
	else
		return false;
	return true;
}

static uint64_t youngest_us(const struct flow *flow)
{
	uint64_t age = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++)
		if ((flow->hop[i].known || (flow->hop[i].quiet && flow->mode == FLOW_OBSERVED)) &&
		    flow->hop[i].age_us < age)
			age = flow->hop[i].age_us;
	return age;
}

/* Whether a record of this age is old. */
static bool is_idle(const struct flow *flow, uint64_t age_us)
{
	return age_us > (flow->mode == FLOW_OBSERVED ? OBSERVED_IDLE_US : IDLE_US) &&
	       age_us > flow->T_ns * IDLE_T / 1000;
}

/* Whether the last record is old, or no record has arrived. */
bool flow_is_idle(const struct flow *flow)
{
	return is_idle(flow, youngest_us(flow));
}

/* The queue of the busiest link, if the queue is a large part of the link's u'. */
static const char *queue_text(const struct flow *flow, const struct hop *hop, char text[48])
{
	char ns[16];

	*text = 0;
	if (flow->T_ns && hop->qlen_ns * 20 > flow->T_ns)
		snprintf(text, 48, ", queue %s", time_text(hop->qlen_ns, ns));
	return text;
}

/* The hop with the largest u', and the time for which it has been the bottleneck. */
static const char *holds_text(const struct hop *hop, const char *queue, char text[96])
{
	char age[16];

	if (hop->held_us)
		snprintf(text, 96, "hop %u (u' %.2f%s) has limited W for %s", hop->nr, hop->u,
			 queue, time_text(hop->held_us * 1e3, age));
	else
		snprintf(text, 96, "hop %u (u' %.2f%s) limits W", hop->nr, hop->u, queue);
	return text;
}

/* How the law changes W, near eta or above it. */
static const char *step_text(const struct flow *flow)
{
	if (flow->U >= flow->eta)
		return flow->W <= flow->W_min ? "W is W_min, the least" : "W = Wc / (U/eta)";
	if (flow->W >= flow->W_init)
		return "W is W_init, the largest";
	return flow->inc_stage >= flow->max_stage ? "W = Wc / (U/eta)" : "W grows by W_ai";
}

/* No hop has a known u'. */
static void unknown_text(const struct flow *flow, char *text, size_t size)
{
	if (!flow->nr_hops)
		snprintf(text, size, "no record has arrived yet: this end only receives, or no "
			 "switch writes telemetry; W has its initial value");
	else
		snprintf(text, size, "no link has been measured yet: W has its initial value");
}

/* What another congestion control has to expect from the law. */
static const char *observed_text(const struct flow *flow, char *text, size_t size)
{
	const struct hop *hop = flow_holder(flow);
	char queue[48], age[16], busiest[96];
	uint64_t age_us;
	bool idle;

	if (!hop) {
		snprintf(text, size, "%s sets the window; %s", flow->cc, flow->nr_hops ?
			 "no link has been measured yet" : "no record has arrived yet: this "
			 "end only receives, or no switch writes telemetry");
		return text;
	}
	/* Another hop may have newer records. */
	age_us = hop->known ? hop->age_us : youngest_us(flow);
	idle = is_idle(flow, age_us);
	if (hop->quiet)
		snprintf(busiest, sizeof(busiest), "all queues %s too short for records",
			 idle ? "were" : "are");
	else
		snprintf(busiest, sizeof(busiest), "hop %u (u' %.2f%s) %s the busiest", hop->nr,
			 hop->u, queue_text(flow, hop, queue), idle ? "was" : "is");
	if (idle)
		snprintf(text, size, "%s sets the window; %s ago %s; U %.2f, eta %.2f", flow->cc,
			 time_text(age_us * 1e3, age), busiest, flow->U, flow->eta);
	else
		snprintf(text, size, "%s sets the window; %s; U %.2f, eta %.2f: hpcc would %s W",
			 flow->cc, busiest, flow->U, flow->eta,
			 flow->U >= flow->eta ? "reduce" : "increase");
	return text;
}

/* Explain the value of W. Return: @text. */
const char *why_text(const struct flow *flow, char *text, size_t size)
{
	const struct hop *hop = flow_holder(flow);
	uint64_t age_us = youngest_us(flow);
	char queue[48], age[16], holds[96];

	if (flow->mode == FLOW_OBSERVED)
		return observed_text(flow, text, size);
	if (other_rules(flow, text, size))
		return text;
	if (!hop && flow->receiver) {
		snprintf(text, size, "the receiver computes W; no echo has arrived yet");
		return text;
	}
	if (!hop) {
		unknown_text(flow, text, size);
		return text;
	}
	queue_text(flow, hop, queue);
	holds_text(hop, queue, holds);
	if (age_us != UINT64_MAX && flow_is_idle(flow))
		snprintf(text, size, "idle or stalled: the last record arrived %s ago, and W has "
			 "not changed since", time_text(age_us * 1e3, age));
	else if (hop->quiet)
		snprintf(text, size, "hop %u has the largest load, but its queue is too short for "
			 "records: it counts as u' %.2f, and %s", hop->nr, hop->u,
			 flow->W < flow->W_init ? "W grows" : "W is W_init");
	else if (flow->receiver)
		snprintf(text, size, "the receiver computes W; according to the last echoes %s",
			 holds);
	else if (flow->U >= NEAR_ETA * flow->eta && !hop->u)
		snprintf(text, size, "no link has been measured since the flow began or its path "
			 "changed: W is unchanged");
	else if (flow->U >= NEAR_ETA * flow->eta)
		snprintf(text, size, "%s: U %.2f is %s eta %.2f: %s", holds, flow->U,
			 flow->U >= flow->eta ? "above" : "just below", flow->eta,
			 step_text(flow));
	else if (flow->W >= flow->W_init)
		snprintf(text, size, "U %.2f is below eta %.2f and W is W_init: the application, "
			 "the receiver's window or a link that does not stamp limits the flow",
			 flow->U, flow->eta);
	else
		snprintf(text, size, "U %.2f is below eta %.2f: W grows until hop %u, the busiest, "
			 "is at eta, as long as the flow uses W", flow->U, flow->eta, hop->nr);
	return text;
}
