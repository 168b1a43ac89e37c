// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: parse a kernel message about a flow. If an attribute is missing or has an unexpected
 * length, its member stays 0. Unknown attributes are ignored, because a later kernel may send more.
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

enum kind { UNKNOWN, FLAG, NUMBER16, NUMBER32, NUMBER64, SHARE };

/* The member that an attribute fills in. The attribute of a SHARE is in units of 2^-24, and its
 * member is a double.
 */
struct field {
	uint16_t	offset;
	enum kind	kind;
};

static const struct field hop_fields[HPCC_A_HOP_MAX + 1] = {
	[HPCC_A_HOP_HOP] = { offsetof(struct hop, nr), NUMBER32 },
	[HPCC_A_HOP_U] = { offsetof(struct hop, u), SHARE },
	[HPCC_A_HOP_QLEN] = { offsetof(struct hop, qlen_ns), NUMBER64 },
	[HPCC_A_HOP_AGE] = { offsetof(struct hop, age_us), NUMBER64 },
	[HPCC_A_HOP_HELD] = { offsetof(struct hop, held_us), NUMBER64 },
	[HPCC_A_HOP_QUIET] = { offsetof(struct hop, quiet), FLAG },
	[HPCC_A_HOP_NODE] = { offsetof(struct hop, node), NUMBER32 },
	[HPCC_A_HOP_PORT] = { offsetof(struct hop, port), NUMBER32 },
	[HPCC_A_HOP_RATE] = { offsetof(struct hop, bps), NUMBER64 },
};

static const struct field flow_fields[HPCC_A_FLOW_MAX + 1] = {
	[HPCC_A_FLOW_LPORT] = { offsetof(struct flow, local.port), NUMBER16 },
	[HPCC_A_FLOW_RPORT] = { offsetof(struct flow, peer.port), NUMBER16 },
	[HPCC_A_FLOW_COOKIE] = { offsetof(struct flow, cookie), NUMBER64 },
	[HPCC_A_FLOW_IFINDEX] = { offsetof(struct flow, ifindex), NUMBER32 },
	[HPCC_A_FLOW_EVENT] = { offsetof(struct flow, event), NUMBER32 },
	[HPCC_A_FLOW_MODE] = { offsetof(struct flow, mode), NUMBER32 },
	[HPCC_A_FLOW_WHY] = { offsetof(struct flow, fell_back), NUMBER32 },
	[HPCC_A_FLOW_W] = { offsetof(struct flow, W), NUMBER64 },
	[HPCC_A_FLOW_WC] = { offsetof(struct flow, Wc), NUMBER64 },
	[HPCC_A_FLOW_W_INIT] = { offsetof(struct flow, W_init), NUMBER64 },
	[HPCC_A_FLOW_U] = { offsetof(struct flow, U), SHARE },
	[HPCC_A_FLOW_ETA] = { offsetof(struct flow, eta), SHARE },
	[HPCC_A_FLOW_R] = { offsetof(struct flow, R), NUMBER64 },
	[HPCC_A_FLOW_T] = { offsetof(struct flow, T_ns), NUMBER64 },
	[HPCC_A_FLOW_INC_STAGE] = { offsetof(struct flow, inc_stage), NUMBER32 },
	[HPCC_A_FLOW_N] = { offsetof(struct flow, N), NUMBER32 },
	[HPCC_A_FLOW_SAMPLE] = { offsetof(struct flow, sample_ns), NUMBER32 },
	[HPCC_A_FLOW_RECEIVER] = { offsetof(struct flow, receiver), FLAG },
	[HPCC_A_FLOW_PROBES] = { offsetof(struct flow, probes), FLAG },
	[HPCC_A_FLOW_HOPS] = { offsetof(struct flow, nr_hops), NUMBER32 },
	[HPCC_A_FLOW_BUSY] = { offsetof(struct flow, busy), FLAG },
	[HPCC_A_FLOW_MISSED] = { offsetof(struct flow, missed), NUMBER32 },
	[HPCC_A_FLOW_RECEIVED] = { offsetof(struct flow, received), NUMBER32 },
	[HPCC_A_FLOW_MALFORMED] = { offsetof(struct flow, malformed), NUMBER32 },
	[HPCC_A_FLOW_BAD_HOP] = { offsetof(struct flow, bad_hop), NUMBER32 },
	[HPCC_A_FLOW_TS_BACK] = { offsetof(struct flow, ts_back), NUMBER32 },
	[HPCC_A_FLOW_TX_EXCESS] = { offsetof(struct flow, tx_excess), NUMBER32 },
	[HPCC_A_FLOW_SIGNED] = { offsetof(struct flow, is_signed), FLAG },
	[HPCC_A_FLOW_UNSIGNED] = { offsetof(struct flow, untagged), NUMBER32 },
	[HPCC_A_FLOW_WRONG_TAG] = { offsetof(struct flow, wrong_tag), NUMBER32 },
	[HPCC_A_FLOW_REPLAYED] = { offsetof(struct flow, replayed), NUMBER32 },
	[HPCC_A_FLOW_W_MIN] = { offsetof(struct flow, W_min), NUMBER64 },
	[HPCC_A_FLOW_MAX_STAGE] = { offsetof(struct flow, max_stage), NUMBER32 },
	[HPCC_A_FLOW_MUTED] = { offsetof(struct flow, muted), FLAG },
	[HPCC_A_FLOW_POWERTCP] = { offsetof(struct flow, powertcp), FLAG },
};

static void field_take(const struct field *fields, uint16_t max, const struct nlattr *attr,
		       void *base)
{
	uint16_t type = mnl_attr_get_type(attr);
	uint64_t value = number_of(attr);
	void *to;

	if (type > max)
		return;
	to = (char *)base + fields[type].offset;
	switch (fields[type].kind) {
	case UNKNOWN:
		break;
	case FLAG:
		*(bool *)to = true;
		break;
	case NUMBER16:
		*(uint16_t *)to = value;
		break;
	case NUMBER32:
		*(uint32_t *)to = value;
		break;
	case NUMBER64:
		*(uint64_t *)to = value;
		break;
	case SHARE:
		*(double *)to = (double)value / Q24;
		break;
	}
}

static int hop_take(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);
	struct hop *hop = data;

	field_take(hop_fields, HPCC_A_HOP_MAX, attr, hop);
	hop->known |= type == HPCC_A_HOP_U;
	hop->named |= type == HPCC_A_HOP_NODE;
	return MNL_CB_OK;
}

/* Hops arrive in any order, so store each hop by its number. */
static void hops_take(struct flow *flow, const struct nlattr *attr)
{
	struct hop hop = {};

	mnl_attr_parse_nested(attr, hop_take, &hop);
	if (hop.nr >= 1 && hop.nr <= HPCC_HOPS_MAX)
		flow->hop[hop.nr - 1] = hop;
}

static int flow_take(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);
	struct flow *flow = data;

	if (type == HPCC_A_FLOW_LADDR)
		endpoint_take(&flow->local, attr);
	else if (type == HPCC_A_FLOW_RADDR)
		endpoint_take(&flow->peer, attr);
	else if (type == HPCC_A_FLOW_HOP)
		hops_take(flow, attr);
	else
		field_take(flow_fields, HPCC_A_FLOW_MAX, attr, flow);
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

/* The hop with the largest u', as in the window law; NULL: no hop is known. For a quiet hop, whose
 * queue is too short for records, the window law uses eta as u', and lowers it over time.
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
		[HPCC_WHY_UNTRUSTED] = "untrusted",
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
