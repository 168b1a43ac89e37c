// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: a message of the kernel about a flow. Attributes that are unknown, of another length
 * or not there leave a value 0: a kernel of tomorrow may say more.
 */
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string.h>

#include "hpccmon.h"

#define Q24	(1 << 24)

static uint64_t number_of(const struct nlattr *attr)
{
	switch (mnl_attr_get_payload_len(attr)) {
	case 2:
		return mnl_attr_get_u16(attr);
	case 4:
		return mnl_attr_get_u32(attr);
	case 8:
		return mnl_attr_get_u64(attr);
	default:
		return 0;
	}
}

static void endpoint_take(struct endpoint *endpoint, const struct nlattr *attr)
{
	uint16_t length = mnl_attr_get_payload_len(attr);

	if (length == sizeof(struct in_addr))
		addr_map(&endpoint->addr, mnl_attr_get_payload(attr));
	else if (length == sizeof(endpoint->addr))
		memcpy(&endpoint->addr, mnl_attr_get_payload(attr), length);
}

static int hop_take(const struct nlattr *attr, void *data)
{
	struct hop *hop = data;

	switch (mnl_attr_get_type(attr)) {
	case HPCC_A_HOP_HOP:
		hop->nr = number_of(attr);
		break;
	case HPCC_A_HOP_U:
		hop->u = (double)number_of(attr) / Q24;
		hop->known = true;
		break;
	case HPCC_A_HOP_QLEN:
		hop->qlen_ns = number_of(attr);
		break;
	case HPCC_A_HOP_AGE:
		hop->age_us = number_of(attr);
		break;
	case HPCC_A_HOP_HELD:
		hop->held_us = number_of(attr);
		break;
	case HPCC_A_HOP_QUIET:
		hop->quiet = true;
		break;
	case HPCC_A_HOP_NODE:
		hop->node = number_of(attr);
		hop->named = true;
		break;
	case HPCC_A_HOP_PORT:
		hop->port = number_of(attr);
		break;
	case HPCC_A_HOP_RATE:
		hop->bps = number_of(attr);
		break;
	}
	return MNL_CB_OK;
}

/* Hops come in any order, and stand in that of their numbers. */
static void hops_take(struct flow *flow, const struct nlattr *attr)
{
	struct hop hop = {};

	mnl_attr_parse_nested(attr, hop_take, &hop);
	if (hop.nr >= 1 && hop.nr <= HPCC_HOPS_MAX)
		flow->hop[hop.nr - 1] = hop;
}

static int came_take(const struct nlattr *attr, struct flow *flow)
{
	switch (mnl_attr_get_type(attr)) {
	case HPCC_A_FLOW_RECEIVED:
		flow->received = number_of(attr);
		break;
	case HPCC_A_FLOW_MALFORMED:
		flow->malformed = number_of(attr);
		break;
	case HPCC_A_FLOW_BAD_HOP:
		flow->bad_hop = number_of(attr);
		break;
	case HPCC_A_FLOW_TS_BACK:
		flow->ts_back = number_of(attr);
		break;
	case HPCC_A_FLOW_TX_EXCESS:
		flow->tx_excess = number_of(attr);
		break;
	}
	return MNL_CB_OK;
}

static int how_take(const struct nlattr *attr, struct flow *flow)
{
	switch (mnl_attr_get_type(attr)) {
	case HPCC_A_FLOW_N:
		flow->N = number_of(attr);
		break;
	case HPCC_A_FLOW_SAMPLE:
		flow->sample_ns = number_of(attr);
		break;
	case HPCC_A_FLOW_RECEIVER:
		flow->receiver = true;
		break;
	case HPCC_A_FLOW_PROBES:
		flow->probes = true;
		break;
	case HPCC_A_FLOW_MUTED:
		flow->muted = true;
		break;
	case HPCC_A_FLOW_HOPS:
		flow->nr_hops = number_of(attr);
		break;
	case HPCC_A_FLOW_HOP:
		hops_take(flow, attr);
		break;
	case HPCC_A_FLOW_BUSY:
		flow->busy = true;
		break;
	case HPCC_A_FLOW_MISSED:
		flow->missed = number_of(attr);
		break;
	default:
		return came_take(attr, flow);
	}
	return MNL_CB_OK;
}

static int law_take(const struct nlattr *attr, struct flow *flow)
{
	switch (mnl_attr_get_type(attr)) {
	case HPCC_A_FLOW_W:
		flow->W = number_of(attr);
		break;
	case HPCC_A_FLOW_WC:
		flow->Wc = number_of(attr);
		break;
	case HPCC_A_FLOW_W_INIT:
		flow->W_init = number_of(attr);
		break;
	case HPCC_A_FLOW_U:
		flow->U = (double)number_of(attr) / Q24;
		break;
	case HPCC_A_FLOW_ETA:
		flow->eta = (double)number_of(attr) / Q24;
		break;
	case HPCC_A_FLOW_R:
		flow->R = number_of(attr);
		break;
	case HPCC_A_FLOW_T:
		flow->T_ns = number_of(attr);
		break;
	case HPCC_A_FLOW_INC_STAGE:
		flow->inc_stage = number_of(attr);
		break;
	case HPCC_A_FLOW_W_MIN:
		flow->W_min = number_of(attr);
		break;
	case HPCC_A_FLOW_MAX_STAGE:
		flow->max_stage = number_of(attr);
		break;
	default:
		return how_take(attr, flow);
	}
	return MNL_CB_OK;
}

static int flow_take(const struct nlattr *attr, void *data)
{
	struct flow *flow = data;

	switch (mnl_attr_get_type(attr)) {
	case HPCC_A_FLOW_LADDR:
		endpoint_take(&flow->local, attr);
		break;
	case HPCC_A_FLOW_RADDR:
		endpoint_take(&flow->peer, attr);
		break;
	case HPCC_A_FLOW_LPORT:
		flow->local.port = number_of(attr);
		break;
	case HPCC_A_FLOW_RPORT:
		flow->peer.port = number_of(attr);
		break;
	case HPCC_A_FLOW_COOKIE:
		flow->cookie = number_of(attr);
		break;
	case HPCC_A_FLOW_IFINDEX:
		flow->ifindex = number_of(attr);
		break;
	case HPCC_A_FLOW_EVENT:
		flow->event = number_of(attr);
		break;
	case HPCC_A_FLOW_MODE:
		flow->mode = number_of(attr);
		break;
	case HPCC_A_FLOW_WHY:
		flow->fell_back = number_of(attr);
		break;
	default:
		return law_take(attr, flow);
	}
	return MNL_CB_OK;
}

void flow_parse(struct flow *flow, const struct nlmsghdr *nlh)
{
	uint32_t i;

	memset(flow, 0, sizeof(*flow));
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), flow_take, flow);
	if (flow->nr_hops > HPCC_HOPS_MAX)
		flow->nr_hops = HPCC_HOPS_MAX;
	for (i = 0; i < flow->nr_hops; i++) {
		flow->hop[i].nr = i + 1;
		flow->hop[i].known &= !flow->hop[i].quiet;
	}
}

/* The hop with the largest u', as the window law takes it; NULL: none is known. A quiet one has a
 * queue so short that its switch writes nothing: W takes its u' for eta, and less over time.
 */
const struct hop *flow_holder(const struct flow *flow)
{
	const struct hop *hop, *holder = NULL;
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++) {
		hop = &flow->hop[i];
		if ((hop->known || hop->quiet) && (!holder || hop->u > holder->u))
			holder = hop;
	}
	return holder;
}

static const char *text_of(const char *const *texts, size_t nr, uint32_t value)
{
	return value < nr ? texts[value] : "?";
}

const char *mode_text(uint32_t mode)
{
	static const char *const texts[] = {
		[HPCC_FLOW_TELEMETRY] = "telemetry",
		[HPCC_FLOW_IGNORING] = "ignoring",
		[HPCC_FLOW_CLASSIC] = "classic",
		[HPCC_FLOW_DOUBTING] = "doubting",
	};

	return text_of(texts, sizeof(texts) / sizeof(*texts), mode);
}

const char *fell_back_text(uint32_t why)
{
	static const char *const texts[] = {
		[HPCC_WHY_NONE] = "none",
		[HPCC_WHY_SILENCE] = "silence",
		[HPCC_WHY_UNSEEN_LOSS] = "unseen-loss",
		[HPCC_WHY_MUTED] = "muted",
	};

	return text_of(texts, sizeof(texts) / sizeof(*texts), why);
}

const char *event_text(uint32_t event)
{
	static const char *const texts[] = {
		[HPCC_EVENT_FALLBACK] = "fallback",
		[HPCC_EVENT_RETURN] = "return",
		[HPCC_EVENT_PATH] = "path",
		[HPCC_EVENT_MUTED] = "muted",
	};

	return text_of(texts, sizeof(texts) / sizeof(*texts), event);
}
