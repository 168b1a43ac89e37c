/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct responses of a switch (draft-miao-iccrg-hpccplus section 6.3): what it keeps of a
 * packet with a request that found a long queue, and the packet that tells the sender.
 *
 * A response is a TCP segment without any flag, from the data's receiver to its sender as far
 * as addresses and ports tell. Its ACK number is the data's sequence number, its sequence
 * number the data's ACK number, and its only option is a RESPONSE with one load record. TCP
 * discards a segment that has neither ACK, RST nor SYN (RFC 9293, 3.10.7.4), so that a sender
 * that does not know responses does nothing.
 *
 * Bytes and lengths only, as in hpcc/stamp.h: no skb.
 */
#ifndef _HPCC_RESPOND_H
#define _HPCC_RESPOND_H

#include <linux/string.h>
#include <hpcc/stamp.h>

/* Ethernet header and VLAN tags, at most. */
#define HPCC_RESPONSE_LINK_MAX	(ETH_HLEN + HPCC_VLAN_TAGS_MAX * VLAN_HLEN)

#define HPCC_RESPONSE_OPT_LEN	(HPCC_OPT_HEAD_LEN + HPCC_RECORD_LEN)
#define HPCC_RESPONSE_TCP_LEN	(sizeof(struct tcphdr) + HPCC_RESPONSE_OPT_LEN)

/* Headers of the longest response. */
#define HPCC_RESPONSE_LEN_MAX	(HPCC_RESPONSE_LINK_MAX + sizeof(struct ipv6hdr) + \
				 HPCC_RESPONSE_TCP_LEN)

#define HPCC_RESPONSE_TTL	64

#define HPCC_TCP_RST		0x04
#define HPCC_TCP_ACK		0x10

/**
 * struct hpcc_cause - a packet with a request, as far as a response needs it
 * @addrs: source and destination, of 4 or 16 bytes each
 * @ports: source and destination
 * @seq: sequence number
 * @ack: ACK number
 * @opt: the request with one free slot; then the RESPONSE
 * @link: its Ethernet header and VLAN tags
 * @link_len: their length; 0 where there are none
 * @version: 4 or 6
 * @tos: its DSCP, shifted; the ECN field is zero
 *
 * @addrs and @ports, zeroes behind the addresses included, tell flows apart.
 */
struct hpcc_cause {
	u8	addrs[2 * 16];
	u8	ports[4];
	u8	seq[4];
	u8	ack[4];
	u8	opt[HPCC_RESPONSE_OPT_LEN];
	u8	link[HPCC_RESPONSE_LINK_MAX];
	u8	link_len;
	u8	version;
	u8	tos;
};

/* What tells flows apart: @addrs and @ports. */
#define HPCC_CAUSE_FLOW_LEN	offsetof(struct hpcc_cause, seq)

/* Addresses and DSCP of an IP header. */
static inline void hpcc_cause_ip(struct hpcc_cause *c, const u8 *ip)
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

/* Whether an address may be that of one host. */
static inline bool hpcc_cause_is_host(const struct hpcc_cause *c, const u8 *addr)
{
	if (c->version == 4)
		return addr[0] && addr[0] < 224;
	return addr[0] != 0xff && (get_unaligned_be64(addr) || get_unaligned_be64(addr + 8));
}

/**
 * hpcc_cause_read() - keep what a response needs of a packet
 * @p: the packet, readable up to @place->end
 * @place: from the walk, which found IP header and option
 * @kind: TCP option kind
 * @ethernet: the packet begins with an Ethernet header
 * @c: result
 *
 * No response goes to a segment without ACK, as it has no ACK number to tell; nor to one
 * that has passed 15 hops, which is the last number. Nor to one whose source or destination is
 * not one host, as for ICMP (RFC 1122, 3.2.2): a single packet would get as many responses as
 * ports that a group's packets leave by.
 *
 * Return: whether the packet asks for load records, and may get a response.
 */
static inline bool hpcc_cause_read(const u8 *p, const struct hpcc_place *place, u8 kind,
				   bool ethernet, struct hpcc_cause *c)
{
	const u8 *opt = p + place->opt;
	const u8 *tcp = p + place->tcp;
	struct hpcc_opt head;

	if (opt[0] != kind || opt[1] != place->len || hpcc_opt_decode(opt, place->len, &head) ||
	    head.type != HPCC_OPT_FORWARD || head.hops >= HPCC_HOPS_MAX ||
	    (tcp[HPCC_TCP_FLAGS] & (HPCC_TCP_ACK | HPCC_TCP_RST)) != HPCC_TCP_ACK)
		return false;
	c->link_len = 0;
	if (ethernet) {
		if ((p[0] | p[ETH_ALEN]) & 1 || place->ip > HPCC_RESPONSE_LINK_MAX)
			return false;
		c->link_len = place->ip;
		memcpy(c->link, p, c->link_len);
	}
	c->version = place->version;
	hpcc_cause_ip(c, p + place->ip);
	if (!hpcc_cause_is_host(c, c->addrs) ||
	    !hpcc_cause_is_host(c, c->addrs + (c->version == 4 ? 4 : 16)))
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

/**
 * hpcc_cause_stamp() - write the record of a response
 * @c: from hpcc_cause_read()
 * @s: the port; neither quiet nor anonymous
 */
static inline void hpcc_cause_stamp(struct hpcc_cause *c, const struct hpcc_stamp *s)
{
	hpcc_stamp_option(c->opt, sizeof(c->opt), s);
	c->opt[2] = HPCC_OPT_RESPONSE << 5 | (c->opt[2] & 0x1f);
}

/**
 * hpcc_response_len() - length of a response
 * @c: what caused it
 *
 * Return: bytes, HPCC_RESPONSE_LEN_MAX at most.
 */
static inline u32 hpcc_response_len(const struct hpcc_cause *c)
{
	return c->link_len + (c->version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	       HPCC_RESPONSE_TCP_LEN;
}

/* IP header, but for the addresses. */
static inline void hpcc_response_ip(u8 *ip, const struct hpcc_cause *c)
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

/* TCP header, with a checksum of zero. */
static inline void hpcc_response_tcp(u8 *tcp, const struct hpcc_cause *c)
{
	memset(tcp, 0, sizeof(struct tcphdr));
	memcpy(tcp, c->ports + 2, 2);
	memcpy(tcp + 2, c->ports, 2);
	memcpy(tcp + offsetof(struct tcphdr, seq), c->ack, sizeof(c->ack));
	memcpy(tcp + offsetof(struct tcphdr, ack_seq), c->seq, sizeof(c->seq));
	tcp[HPCC_TCP_DOFF] = HPCC_RESPONSE_TCP_LEN / 4 << 4;
	memcpy(tcp + sizeof(struct tcphdr), c->opt, sizeof(c->opt));
}

/**
 * hpcc_response_write() - write a response
 * @p: hpcc_response_len() bytes
 * @c: what caused it, stamped
 */
static inline void hpcc_response_write(u8 *p, const struct hpcc_cause *c)
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

#endif /* _HPCC_RESPOND_H */
