/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct responses of a switch (draft-miao-iccrg-hpccplus section 6.3). If a packet with a request
 * meets a long queue, the switch copies fields of this packet and sends a response to its sender.
 *
 * A response is a TCP segment without any flag. Its addresses and ports are those of a segment from
 * the data's receiver to the sender. Its ACK number is the data's sequence number, its sequence
 * number is the data's ACK number, and its only option is a RESPONSE with one load record. TCP
 * discards a segment without ACK, RST and SYN (RFC 9293, 3.10.7.4), so a sender that does not
 * support responses ignores the segment. If the port is closed, TCP replies with RST.
 *
 * An attacker with a forged source address can direct responses to that address. So a request gets
 * at most one response on its path: the switch that responds changes the FORWARD to ANSWERED, and
 * other switches do not respond to ANSWERED. A flow gets a response only in its turn (at most once
 * per interval), and only while the budgets of its sender and of the port are not used up.
 *
 * The functions use no skb, as in hpcc/wire/stamp.h.
 */
#ifndef _HPCC_WIRE_RESPOND_H
#define _HPCC_WIRE_RESPOND_H

#include <linux/string.h>
#include <hpcc/wire/stamp.h>

/* Maximum length of the Ethernet header and VLAN tags. */
#define HPCC_RESPONSE_LINK_MAX	(ETH_HLEN + HPCC_VLAN_TAGS_MAX * VLAN_HLEN)

#define HPCC_RESPONSE_OPT_LEN	(HPCC_OPT_HEAD_LEN + HPCC_RECORD_LEN)
#define HPCC_RESPONSE_TCP_LEN	(sizeof(struct tcphdr) + HPCC_RESPONSE_OPT_LEN)

#define HPCC_RESPONSE_LEN_MAX	(HPCC_RESPONSE_LINK_MAX + sizeof(struct ipv6hdr) + \
				 HPCC_RESPONSE_TCP_LEN)

#define HPCC_RESPONSE_TTL	64

#define HPCC_TCP_RST		0x04
#define HPCC_TCP_ACK		0x10

/* Fields for a response, copied from the packet with the request. vlans, addrs and ports identify a
 * flow; vlans and the source in addrs identify a sender.
 */
struct hpcc_trigger {
	u16	vlans[1 + HPCC_VLAN_TAGS_MAX];	/* tag in the skb, then in headers; 0: none */
	u8	addrs[2 * 16];	/* source, destination: 4 or 16 bytes each; unused bytes are 0 */
	u8	ports[4];	/* source, destination */
	u8	seq[4];
	u8	ack[4];
	u8	opt[HPCC_RESPONSE_OPT_LEN];	/* request with one free slot; stamped: RESPONSE */
	u8	link[HPCC_RESPONSE_LINK_MAX];	/* Ethernet header and VLAN tags */
	u8	link_len;	/* of link; 0: none */
	u8	version;	/* 4 or 6 */
	u8	tos;		/* traffic class; the ECN field is 0 */
};

#define HPCC_TRIGGER_FLOW_LEN	offsetof(struct hpcc_trigger, seq)

static inline u32 hpcc_trigger_sender_len(const struct hpcc_trigger *c)
{
	return offsetof(struct hpcc_trigger, addrs) + (c->version == 4 ? 4 : 16);
}

/* Read the VLAN tags between an Ethernet header and the IP header at @ip. */
static inline void hpcc_trigger_vlans(struct hpcc_trigger *c, const u8 *p, u32 ip)
{
	u32 at, i = 1;

	for (at = ETH_HLEN; at < ip; at += VLAN_HLEN)
		c->vlans[i++] = get_unaligned_be16(p + at) & VLAN_VID_MASK;
}

static inline void hpcc_trigger_ip(struct hpcc_trigger *c, const u8 *ip)
{
	memset(c->addrs, 0, sizeof(c->addrs));
	if (c->version == 4) {
		memcpy(c->addrs, ip + offsetof(struct iphdr, saddr), 2 * 4);
		c->tos = ip[1] & 0xfc;
	} else {
		memcpy(c->addrs, ip + offsetof(struct ipv6hdr, saddr), 2 * 16);
		c->tos = (ip[0] << 4 | ip[1] >> 4) & 0xfc;
	}
}

/* Whether an address is unicast. */
static inline bool hpcc_trigger_is_host(const struct hpcc_trigger *c, const u8 *addr)
{
	if (c->version == 4)
		return addr[0] && addr[0] < 224;
	return addr[0] != 0xff && (get_unaligned_be64(addr) || get_unaligned_be64(addr + 8));
}

/**
 * hpcc_trigger_read() - copy the fields of a packet that a response needs
 * @p: the packet, readable up to @place->end
 * @place: result of the walk, with IP header and option
 * @kind: TCP option kind
 * @ethernet: the packet begins with an Ethernet header
 * @c: result; the caller adds the VLAN tag of the skb
 *
 * A segment gets no response if it has no ACK number for the response, if its hop count is at the
 * maximum of 15, or if one of its addresses is not unicast. ICMP also has the last rule (RFC
 * 1122, 3.2.2): otherwise each port through which a multicast packet leaves would send a response.
 * A first slot of a hop that is still to come is a request for a CSIG tag: no response.
 * Return: whether the packet requests load records and may get a response.
 */
static inline bool hpcc_trigger_read(const u8 *p, const struct hpcc_opt_location *place, u8 kind,
				     bool ethernet, struct hpcc_trigger *c)
{
	const u8 *opt = p + place->opt;
	const u8 *tcp = p + place->tcp;
	struct hpcc_opt head;

	if (opt[0] != kind || opt[1] != place->len || hpcc_opt_decode(opt, place->len, &head) ||
	    head.type != HPCC_OPT_FORWARD || head.hops >= HPCC_HOPS_MAX ||
	    (head.nr && hpcc_slot_hop(opt + HPCC_OPT_HEAD_LEN) > head.hops) ||
	    (tcp[HPCC_TCP_FLAGS] & (HPCC_TCP_ACK | HPCC_TCP_RST)) != HPCC_TCP_ACK)
		return false;
	c->link_len = 0;
	memset(c->vlans, 0, sizeof(c->vlans));
	if (ethernet) {
		if ((p[0] | p[ETH_ALEN]) & 1 || place->ip > HPCC_RESPONSE_LINK_MAX)
			return false;
		c->link_len = place->ip;
		memcpy(c->link, p, c->link_len);
		hpcc_trigger_vlans(c, p, place->ip);
	}
	c->version = place->version;
	hpcc_trigger_ip(c, p + place->ip);
	if (!hpcc_trigger_is_host(c, c->addrs) ||
	    !hpcc_trigger_is_host(c, c->addrs + (c->version == 4 ? 4 : 16)))
		return false;
	memcpy(c->ports, tcp, sizeof(c->ports));
	memcpy(c->seq, tcp + offsetof(struct tcphdr, seq), sizeof(c->seq));
	memcpy(c->ack, tcp + offsetof(struct tcphdr, ack_seq), sizeof(c->ack));
	head.flags = 0;
	head.nr = 1;
	hpcc_opt_encode(c->opt, kind, &head);
	memset(c->opt + HPCC_OPT_HEAD_LEN, 0, HPCC_RECORD_LEN);
	return true;
}

/* Write the record of a response. @s: the port; neither quiet nor anonymous. */
static inline void hpcc_trigger_stamp(struct hpcc_trigger *c, const struct hpcc_stamp *s)
{
	hpcc_stamp_option(c->opt, sizeof(c->opt), s);
	c->opt[2] = HPCC_OPT_RESPONSE << 5 | (c->opt[2] & 0x1f);
}

/* Mark a FORWARD as answered. @p and @fix_check: as for hpcc_stamp_packet(). */
static inline void hpcc_answered_write(u8 *p, const struct hpcc_opt_location *place, bool fix_check)
{
	__wsum before = hpcc_opts_sum(p, place);
	u8 *type = p + place->opt + 2;

	*type = HPCC_OPT_ANSWERED << 5 | (*type & 0x1f);
	if (fix_check)
		hpcc_opts_fix_check(p, place, before);
}

/* Sequence numbers are near each other if they differ by less than 4 MB (330 us at 100 Gb/s). A
 * random number is near a given one with probability 1/512.
 */
#define HPCC_TURN_NEAR		0x400000U

/* Number of turns stored for flows with the same hash. Forged sequence numbers use the other
 * entries and leave one entry to the real flow.
 */
#define HPCC_TURN_WAYS		4

/* The last turn of a flow. */
struct hpcc_turn {
	u64	ns;	/* time of the turn; 0: never */
	u32	key;	/* identifies the flow */
	u32	seq;	/* sequence number of the data */
};

enum hpcc_turn_kind {
	HPCC_TURN_HELD,		/* the flow has no turn yet, or no entry is free */
	HPCC_TURN_NEXT,		/* the flow has an entry, and has a turn now */
	HPCC_TURN_NEW,		/* no entry has a near sequence number; an entry is free */
};

/**
 * hpcc_turn_find() - whether a flow may get a response now
 * @set: the HPCC_TURN_WAYS last turns of flows with this hash
 * @key: key of the flow
 * @seq: sequence number of its request
 * @now_ns: current time
 * @every_ns: minimum time between two turns of a flow
 * @turn: set to the entry that the caller must write if the flow gets the response
 *
 * A continuous flow has one turn per @every_ns and keeps its entry. Retransmissions get no turn.
 * An entry becomes free if it has no turn for 2 x @every_ns. Sequence numbers that are far from the
 * flow's own, such as forged ones, need another entry: they do not delay the flow's next turn.
 * Return: enum hpcc_turn_kind.
 */
static inline enum hpcc_turn_kind hpcc_turn_find(struct hpcc_turn *set, u32 key, u32 seq,
						 u64 now_ns, u32 every_ns, struct hpcc_turn **turn)
{
	struct hpcc_turn *t;

	*turn = NULL;
	for (t = set; t < set + HPCC_TURN_WAYS; t++) {
		u64 passed_ns = now_ns - t->ns;
		u32 ahead = seq - t->seq;

		if (!t->ns || passed_ns >= 2 * (u64)every_ns) {
			*turn = t;
		} else if (t->key == key && ahead + HPCC_TURN_NEAR < 2 * HPCC_TURN_NEAR) {
			*turn = t;
			return ahead < HPCC_TURN_NEAR && passed_ns >= every_ns ? HPCC_TURN_NEXT :
										 HPCC_TURN_HELD;
		}
	}
	return *turn ? HPCC_TURN_NEW : HPCC_TURN_HELD;
}

/* Rate limit for responses. */
struct hpcc_budget {
	u32	shift;	/* the average interval between responses is every_ns >> shift */
	u32	burst;	/* maximum number of responses at once */
};

/* Budgets of a port, and of a sender that receives responses. */
static const struct hpcc_budget hpcc_port_budget = { .shift = 8, .burst = 2048 };
static const struct hpcc_budget hpcc_sender_budget = { .shift = 2, .burst = 64 };

/* Take one response from a budget. @full_ns: time at which the budget is full again. @every_ns:
 * minimum time between two turns of a flow, 1 us to 1 s. New flows (@kind) may use half of the
 * budget, so forged flows leave the other half to known flows.
 * Return: the next @full_ns; 0 if the budget is used up.
 */
static inline u64 hpcc_budget_after(const struct hpcc_budget *b, u64 full_ns, u64 now_ns,
				    u32 every_ns, enum hpcc_turn_kind kind)
{
	u64 one_ns = every_ns >> b->shift;
	u64 all_ns = one_ns * b->burst;

	/* The budget is full, or @every_ns was longer before. */
	if (full_ns - now_ns > all_ns)
		full_ns = now_ns;
	full_ns += one_ns;
	return full_ns <= now_ns + (kind == HPCC_TURN_NEW ? all_ns / 2 : all_ns) ? full_ns : 0;
}

/* Bytes of a response, at most HPCC_RESPONSE_LEN_MAX. */
static inline u32 hpcc_response_len(const struct hpcc_trigger *c)
{
	return c->link_len + (c->version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	       HPCC_RESPONSE_TCP_LEN;
}

/* Write the IP header without the addresses. */
static inline void hpcc_response_ip(u8 *ip, const struct hpcc_trigger *c)
{
	if (c->version == 4) {
		memset(ip, 0, sizeof(struct iphdr));
		ip[0] = 0x45;
		ip[1] = c->tos;
		put_unaligned_be16(sizeof(struct iphdr) + HPCC_RESPONSE_TCP_LEN,
				   ip + offsetof(struct iphdr, tot_len));
		put_unaligned_be16(0x4000, ip + offsetof(struct iphdr, frag_off));	/* DF */
		ip[offsetof(struct iphdr, ttl)] = HPCC_RESPONSE_TTL;
		ip[offsetof(struct iphdr, protocol)] = IPPROTO_TCP;
	} else {
		put_unaligned_be32(6U << 28 | c->tos << 20, ip);
		put_unaligned_be16(HPCC_RESPONSE_TCP_LEN,
				   ip + offsetof(struct ipv6hdr, payload_len));
		ip[offsetof(struct ipv6hdr, nexthdr)] = NEXTHDR_TCP;
		ip[offsetof(struct ipv6hdr, hop_limit)] = HPCC_RESPONSE_TTL;
	}
}

/* Write the TCP header with a checksum of 0. */
static inline void hpcc_response_tcp(u8 *tcp, const struct hpcc_trigger *c)
{
	memset(tcp, 0, sizeof(struct tcphdr));
	memcpy(tcp, c->ports + 2, 2);
	memcpy(tcp + 2, c->ports, 2);
	memcpy(tcp + offsetof(struct tcphdr, seq), c->ack, sizeof(c->ack));
	memcpy(tcp + offsetof(struct tcphdr, ack_seq), c->seq, sizeof(c->seq));
	tcp[HPCC_TCP_DOFF] = HPCC_RESPONSE_TCP_LEN / 4 << 4;
	memcpy(tcp + sizeof(struct tcphdr), c->opt, sizeof(c->opt));
}

/* Write hpcc_response_len() bytes: the response. @c is stamped. */
static inline void hpcc_response_write(u8 *p, const struct hpcc_trigger *c)
{
	static const u8 pseudo[] = { 0, IPPROTO_TCP, 0, HPCC_RESPONSE_TCP_LEN };
	u32 addr_len = c->version == 4 ? 4 : 16;
	u8 *ip = p + c->link_len;
	u8 *addrs = ip + (c->version == 4 ? offsetof(struct iphdr, saddr) :
					    offsetof(struct ipv6hdr, saddr));
	u8 *tcp = addrs + 2 * addr_len;
	__wsum sum;

	if (c->link_len) {
		memcpy(p, c->link + ETH_ALEN, ETH_ALEN);
		memcpy(p + ETH_ALEN, c->link, ETH_ALEN);
		memcpy(p + 2 * ETH_ALEN, c->link + 2 * ETH_ALEN, c->link_len - 2 * ETH_ALEN);
	}
	hpcc_response_ip(ip, c);
	memcpy(addrs, c->addrs + addr_len, addr_len);
	memcpy(addrs + addr_len, c->addrs, addr_len);
	if (c->version == 4)
		put_unaligned(csum_fold(csum_partial(ip, sizeof(struct iphdr), 0)),
			      (__sum16 *)(ip + offsetof(struct iphdr, check)));
	hpcc_response_tcp(tcp, c);
	sum = csum_partial(addrs, 2 * addr_len, csum_partial(pseudo, sizeof(pseudo), 0));
	put_unaligned(csum_fold(csum_partial(tcp, HPCC_RESPONSE_TCP_LEN, sum)),
		      (__sum16 *)(tcp + offsetof(struct tcphdr, check)));
}

#endif /* _HPCC_WIRE_RESPOND_H */
