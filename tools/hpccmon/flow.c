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

/* The members that attributes fill in. The attribute of a SHARE is in units of 2^-24. */
static const struct member hop_members[HPCC_A_HOP_MAX + 1] = {
	[HPCC_A_HOP_HOP] = HOP(nr, NUMBER32),
	[HPCC_A_HOP_U] = HOP(u, SHARE),
	[HPCC_A_HOP_QLEN] = HOP(qlen_ns, NUMBER64),
	[HPCC_A_HOP_AGE] = HOP(age_us, NUMBER64),
	[HPCC_A_HOP_HELD] = HOP(held_us, NUMBER64),
	[HPCC_A_HOP_QUIET] = HOP(quiet, FLAG),
	[HPCC_A_HOP_NODE] = HOP(node, NUMBER32),
	[HPCC_A_HOP_PORT] = HOP(port, NUMBER32),
	[HPCC_A_HOP_RATE] = HOP(bps, NUMBER64),
};

static const struct member flow_members[HPCC_A_FLOW_MAX + 1] = {
	[HPCC_A_FLOW_LPORT] = FLOW(local.port, NUMBER16),
	[HPCC_A_FLOW_RPORT] = FLOW(peer.port, NUMBER16),
	[HPCC_A_FLOW_COOKIE] = FLOW(cookie, NUMBER64),
	[HPCC_A_FLOW_IFINDEX] = FLOW(ifindex, NUMBER32),
	[HPCC_A_FLOW_EVENT] = FLOW(event, NUMBER32),
	[HPCC_A_FLOW_MODE] = FLOW(mode, NUMBER32),
	[HPCC_A_FLOW_WHY] = FLOW(fell_back, NUMBER32),
	[HPCC_A_FLOW_W] = FLOW(W, NUMBER64),
	[HPCC_A_FLOW_WC] = FLOW(Wc, NUMBER64),
	[HPCC_A_FLOW_W_INIT] = FLOW(W_init, NUMBER64),
	[HPCC_A_FLOW_U] = FLOW(U, SHARE),
	[HPCC_A_FLOW_ETA] = FLOW(eta, SHARE),
	[HPCC_A_FLOW_R] = FLOW(R, NUMBER64),
	[HPCC_A_FLOW_T] = FLOW(T_ns, NUMBER64),
	[HPCC_A_FLOW_INC_STAGE] = FLOW(inc_stage, NUMBER32),
	[HPCC_A_FLOW_N] = FLOW(N, NUMBER32),
	[HPCC_A_FLOW_SAMPLE] = FLOW(sample_ns, NUMBER32),
	[HPCC_A_FLOW_RECEIVER] = FLOW(receiver, FLAG),
	[HPCC_A_FLOW_PROBES] = FLOW(probes, FLAG),
	[HPCC_A_FLOW_HOPS] = FLOW(nr_hops, NUMBER32),
	[HPCC_A_FLOW_BUSY] = FLOW(busy, FLAG),
	[HPCC_A_FLOW_MISSED] = FLOW(missed, NUMBER32),
	[HPCC_A_FLOW_RECEIVED] = FLOW(received, NUMBER32),
	[HPCC_A_FLOW_MALFORMED] = FLOW(malformed, NUMBER32),
	[HPCC_A_FLOW_BAD_HOP] = FLOW(bad_hop, NUMBER32),
	[HPCC_A_FLOW_TS_BACK] = FLOW(ts_back, NUMBER32),
	[HPCC_A_FLOW_TX_EXCESS] = FLOW(tx_excess, NUMBER32),
	[HPCC_A_FLOW_SIGNED] = FLOW(is_signed, FLAG),
	[HPCC_A_FLOW_UNSIGNED] = FLOW(untagged, NUMBER32),
	[HPCC_A_FLOW_WRONG_TAG] = FLOW(wrong_tag, NUMBER32),
	[HPCC_A_FLOW_REPLAYED] = FLOW(replayed, NUMBER32),
	[HPCC_A_FLOW_W_MIN] = FLOW(W_min, NUMBER64),
	[HPCC_A_FLOW_MAX_STAGE] = FLOW(max_stage, NUMBER32),
	[HPCC_A_FLOW_MUTED] = FLOW(muted, FLAG),
	[HPCC_A_FLOW_POWERTCP] = FLOW(powertcp, FLAG),
};

const struct ignored ignored[NR_IGNORED] = {
	{ "malformed", "malformed", FLOW(malformed, NUMBER32) },
	{ "bad_hop", "of no hop", FLOW(bad_hop, NUMBER32) },
	{ "ts_back", "with old ts", FLOW(ts_back, NUMBER32) },
	{ "tx_excess", "with too much tx", FLOW(tx_excess, NUMBER32) },
	{ "unsigned", "without a tag", FLOW(untagged, NUMBER32) },
	{ "wrong_tag", "with a wrong tag", FLOW(wrong_tag, NUMBER32) },
	{ "replayed", "replayed", FLOW(replayed, NUMBER32) },
};

static void member_take(const struct member *members, uint16_t max, const struct nlattr *attr,
			void *base)
{
	uint16_t type = mnl_attr_get_type(attr);
	uint64_t value = number_of(attr);
	void *to;

	if (type > max)
		return;
	to = (char *)base + members[type].offset;
	switch (members[type].kind) {
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

	member_take(hop_members, HPCC_A_HOP_MAX, attr, hop);
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
		member_take(flow_members, HPCC_A_FLOW_MAX, attr, flow);
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

/* The value of a number or a SHARE. */
double member_value(const void *base, struct member member)
{
	const void *at = (const char *)base + member.offset;

	switch (member.kind) {
	case NUMBER32:
		return *(const uint32_t *)at;
	case NUMBER64:
		return *(const uint64_t *)at;
	default:
		return *(const double *)at;
	}
}

/* Whether Reno sets the window. */
bool flow_is_classic(const struct flow *flow)
{
	return flow->mode == HPCC_FLOW_CLASSIC || flow->mode == HPCC_FLOW_DOUBTING;
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
		[FLOW_OBSERVED] = "observed",
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
