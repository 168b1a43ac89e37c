// SPDX-License-Identifier: GPL-2.0
/*
 * Find the headers of an arriving packet, once: mark.c reads and writes the ECN field of the IP
 * header, stamp.c writes into the telemetry option when the packet departs.
 *
 * hpcc/wire/stamp.h interprets the bytes; this file makes them readable. This may pull data into
 * the packet's linear part, and changes no byte.
 *
 * Offsets found on arrival are valid on departure, because no other code pulls from or pushes to a
 * waiting packet. But its bytes may change. So a user of an offset makes the bytes writable, which
 * checks the length, and parses them again.
 */
#include <hpcc/carrier/ioam.h>
#include <hpcc/wire/stamp.h>

#include "core/sched.h"

/* Walk a packet from its first byte, or from its network header. */
static int hpcc_find(const struct sk_buff *skb, u8 kind,
		     struct hpcc_opt_location *place)
{
	struct hpcc_frame frame = {
		.p = skb->data,
		.have = skb_headlen(skb),
		.len = skb->len,
		.proto = HPCC_PROTO_ETHERNET,
	};

	if (!hpcc_is_ethernet(skb->dev)) {
		place->version = 0;
		place->ip = 0;
		if (skb_network_offset(skb) < 0)
			return HPCC_UNSTAMPED_MALFORMED;
		frame.network = skb_network_offset(skb);
		frame.proto = ntohs(skb->protocol);
	}
	return hpcc_walk(&frame, kind, place);
}

static u32 hpcc_hint(int ret, const struct hpcc_opt_location *place)
{
	/* Every value fits in its field. */
	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_TCP) < HPCC_WALK_MAX_BYTES);
	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_UNSTAMPED) < __HPCC_UNSTAMPED_MAX);
	if (ret != HPCC_WALK_FOUND)
		return FIELD_PREP(HPCC_HINT_UNSTAMPED, ret);
	return FIELD_PREP(HPCC_HINT_TCP, place->tcp) |
	       FIELD_PREP(HPCC_HINT_OPT, place->opt - place->tcp) |
	       FIELD_PREP(HPCC_HINT_LEN, place->len) |
	       FIELD_PREP(HPCC_HINT_END, place->end - place->tcp);
}

/* The hint of an IOAM trace in the hop-by-hop header at @at. Returns 0 if there is no trace, or if
 * its offset does not fit in the hint, or if the trace is not ours and @hint is a TCP option.
 */
static noinline u32 hpcc_find_ioam(struct sk_buff *skb, u32 at, u32 hint)
{
	u32 trace, hlen;
	int len;

	BUILD_BUG_ON(HPCC_HINT_IOAM >= HPCC_OPT_HEAD_LEN);
	if (!pskb_may_pull(skb, at + sizeof(struct ipv6_opt_hdr)))
		return 0;
	hlen = (skb->data[at + 1] + 1) * 8;
	if (at + hlen > HPCC_WALK_MAX_BYTES || !pskb_may_pull(skb, at + hlen))
		return 0;
	len = hpcc_ioam_find(skb->data + at, hlen, &trace);
	if (len < 0 || trace % 4 || trace / 4 > FIELD_MAX(HPCC_HINT_OPT))
		return 0;
	if (FIELD_GET(HPCC_HINT_LEN, hint) && !hpcc_ioam_is_ours(skb->data + at + trace))
		return 0;
	return FIELD_PREP(HPCC_HINT_TCP, at + trace) |
	       FIELD_PREP(HPCC_HINT_OPT, trace / 4) |
	       FIELD_PREP(HPCC_HINT_LEN, HPCC_HINT_IOAM) |
	       FIELD_PREP(HPCC_HINT_END, len / 4);
}

/**
 * hpcc_parse() - find a packet's headers
 * @skb: the packet
 * @kind: TCP option kind, or HPCC_WALK_IP_ONLY
 *
 * The walk returns HPCC_WALK_MORE at most once per header, each time with a larger number.
 *
 * Return: the headers.
 */
struct hpcc_headers hpcc_parse(struct sk_buff *skb, u8 kind)
{
	struct hpcc_headers headers = {};
	struct hpcc_opt_location place;
	int ret;

	while ((ret = hpcc_find(skb, kind, &place)) == HPCC_WALK_MORE) {
		if (!pskb_may_pull(skb, place.need)) {
			ret = HPCC_UNSTAMPED_NO_MEMORY;
			break;
		}
	}
	headers.hint = hpcc_hint(ret, &place);
	headers.version = place.version;
	headers.ip = place.ip;
	return headers;
}

/**
 * hpcc_parse_any() - find a packet's headers, for a port with any HPCC_STAMP_*
 * @skb: the packet
 * @cfg: configuration of the port; without HPCC_STAMP_TCP, TCP options are ignored
 *
 * If the port fills in IOAM traces, a trace of our type has priority over a TCP option; the same
 * for INT-MD. An anonymous port has no node to write into a trace, so there the TCP option is used,
 * which needs no name. In a packet with IFA no TCP option is used. If a packet has a CSIG tag, only
 * the tag is used. A segment that requests a CSIG tag gets no record.
 *
 * Return: the headers.
 */
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	u8 kind = cfg->stamp & HPCC_STAMP_TCP ? cfg->kind : HPCC_WALK_IP_ONLY;
	struct hpcc_headers headers;

	if (cfg->stamp & HPCC_STAMP_CSIG && hpcc_csig_parse(skb, cfg, &headers))
		return headers;
	headers = hpcc_parse(skb, cfg->stamp & HPCC_STAMP_CSIG_PUSH ? cfg->kind : kind);
	if (cfg->stamp & HPCC_STAMP_CSIG_PUSH) {
		u32 hint = hpcc_csig_push_hint(skb, headers);

		if (hint || (kind == HPCC_WALK_IP_ONLY && headers.hint & HPCC_HINT_LEN))
			headers.hint = hint;
	}
	if (cfg->stamp & HPCC_STAMP_IOAM && headers.version == 6 &&
	    (cfg->identify || !hpcc_hint_is_option(headers.hint)) &&
	    skb->data[headers.ip + offsetof(struct ipv6hdr, nexthdr)] == NEXTHDR_HOP)
		headers.hint = hpcc_find_ioam(skb, headers.ip + sizeof(struct ipv6hdr),
					      headers.hint) ?: headers.hint;
	else if (cfg->stamp & HPCC_STAMP_IFA && hpcc_is_ifa(skb, headers))
		headers.hint = hpcc_ifa_hint(skb, headers);
	else if (cfg->stamp & HPCC_STAMP_INT)
		headers.hint = hpcc_int_hint(skb, headers, cfg->int_dscp) ?: headers.hint;
	return headers;
}
