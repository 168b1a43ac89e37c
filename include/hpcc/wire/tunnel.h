/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find the telemetry option of a TCP segment in tunnels: VXLAN (RFC 7348), Geneve (RFC 8926), GRE
 * (RFC 2784, 2890) and IP in IP (RFC 2003, 2473, 4213), also inside each other. A switch stamps
 * this option like that of a plain packet. The sum of the TCP segment stays constant, and so does
 * each checksum of a tunnel that covers the segment.
 *
 * Only the port of a UDP datagram shows that it may be a tunnel. So a tunnel header is accepted
 * only if all its flags are known.
 */
#ifndef _HPCC_WIRE_TUNNEL_H
#define _HPCC_WIRE_TUNNEL_H

#include <linux/udp.h>
#include <hpcc/wire/stamp.h>

/* UDP ports. */
#define HPCC_PORT_VXLAN		4789
#define HPCC_PORT_VXLAN_LINUX	8472	/* default of Linux */
#define HPCC_PORT_GENEVE	6081
#define HPCC_PORT_ESP		4500	/* RFC 3948 */

#define HPCC_PROTO_TEB		0x6558	/* Ethernet, in Geneve and GRE */
#define HPCC_PROTO_MACSEC	0x88e5

/* First bytes of a VXLAN header: the I flag, and the G flag of group policies. Other bits of the
 * first byte belong to VXLAN-GPE, where Ethernet may not follow. With Linux's remote checksum
 * offload the receiver computes the TCP checksum from that of UDP. Receivers ignore other bits.
 */
#define HPCC_VXLAN_LEN		8
#define HPCC_VXLAN_I		0x08
#define HPCC_VXLAN_G		0x80
#define HPCC_VXLAN_RCO		0x20	/* in the second byte */

#define HPCC_GENEVE_LEN		8
#define HPCC_GENEVE_VERSION	0xc0
#define HPCC_GENEVE_WORDS	0x3f	/* length of the options, 4 bytes each */
#define HPCC_GENEVE_O		0x80	/* in the second byte: control packet, no payload */

/* Flags of GRE: checksum, key and sequence number, of 4 bytes each. All other bits are reserved,
 * mean source routing, or are a version.
 */
#define HPCC_GRE_LEN		4
#define HPCC_GRE_C		0x8000
#define HPCC_GRE_K		0x2000
#define HPCC_GRE_S		0x1000

/* Let the frame begin after a tunnel header. @proto: EtherType of the payload. */
static inline int hpcc_tunnel_into(struct hpcc_frame *f, u32 at, u32 proto)
{
	f->network = at;
	f->proto = proto == HPCC_PROTO_TEB ? HPCC_PROTO_ETHERNET : proto;
	return 0;
}

static inline int hpcc_tunnel_vxlan(struct hpcc_frame *f, u32 at, struct hpcc_opt_location *place)
{
	int ret = hpcc_walk_need(f, f->len, at, HPCC_VXLAN_LEN, place);

	if (ret)
		return ret;
	if ((f->p[at] & ~HPCC_VXLAN_G) != HPCC_VXLAN_I || f->p[at + 1] & HPCC_VXLAN_RCO)
		return HPCC_UNSTAMPED_NOT_TCP;
	return hpcc_tunnel_into(f, at + HPCC_VXLAN_LEN, HPCC_PROTO_TEB);
}

static inline int hpcc_tunnel_geneve(struct hpcc_frame *f, u32 at, struct hpcc_opt_location *place)
{
	const u8 *p = f->p + at;
	u32 len;
	int ret;

	ret = hpcc_walk_need(f, f->len, at, HPCC_GENEVE_LEN, place);
	if (ret)
		return ret;
	if (p[0] & HPCC_GENEVE_VERSION || p[1] & HPCC_GENEVE_O)
		return HPCC_UNSTAMPED_NOT_TCP;
	len = HPCC_GENEVE_LEN + (p[0] & HPCC_GENEVE_WORDS) * 4;
	if (at + len > f->len)
		return HPCC_UNSTAMPED_MALFORMED;
	return hpcc_tunnel_into(f, at + len, get_unaligned_be16(p + 2));
}

/* UDP; the frame ends at its end. Keepalives have 1 byte, and IKE begins with a zero SPI. */
static inline int hpcc_tunnel_udp(struct hpcc_frame *f, struct hpcc_opt_location *place)
{
	u32 at = place->l4 + sizeof(struct udphdr), len;
	const u8 *udp = f->p + place->l4;
	int ret;

	ret = hpcc_walk_need(f, f->len, place->l4, sizeof(struct udphdr), place);
	if (ret)
		return ret;
	len = get_unaligned_be16(udp + offsetof(struct udphdr, len));
	if (hpcc_is_super(len, f->len - place->l4))
		len = f->len - place->l4;
	if (len < sizeof(struct udphdr) || len > f->len - place->l4)
		return HPCC_UNSTAMPED_MALFORMED;
	f->len = place->l4 + len;
	f->have = min(f->have, f->len);
	switch (get_unaligned_be16(udp + offsetof(struct udphdr, dest))) {
	case HPCC_PORT_VXLAN:
	case HPCC_PORT_VXLAN_LINUX:
		return hpcc_tunnel_vxlan(f, at, place);
	case HPCC_PORT_GENEVE:
		return hpcc_tunnel_geneve(f, at, place);
	case HPCC_PORT_ESP:
		if (len < sizeof(struct udphdr) + sizeof(u32))
			return HPCC_UNSTAMPED_NOT_TCP;
		return hpcc_walk_need(f, f->len, at, sizeof(u32), place) ?:
		       get_unaligned_be32(f->p + at) ? HPCC_UNSTAMPED_ENCRYPTED :
						       HPCC_UNSTAMPED_NOT_TCP;
	default:
		return HPCC_UNSTAMPED_NOT_TCP;
	}
}

static inline int hpcc_tunnel_gre(struct hpcc_frame *f, struct hpcc_opt_location *place)
{
	u32 flags, at = place->l4 + HPCC_GRE_LEN;
	int ret;

	ret = hpcc_walk_need(f, f->len, place->l4, HPCC_GRE_LEN, place);
	if (ret)
		return ret;
	flags = get_unaligned_be16(f->p + place->l4);
	if (flags & ~(HPCC_GRE_C | HPCC_GRE_K | HPCC_GRE_S))
		return HPCC_UNSTAMPED_NOT_TCP;
	at += 4 * (!!(flags & HPCC_GRE_C) + !!(flags & HPCC_GRE_K) + !!(flags & HPCC_GRE_S));
	if (at > f->len)
		return HPCC_UNSTAMPED_MALFORMED;
	return hpcc_tunnel_into(f, at, get_unaligned_be16(f->p + place->l4 + 2));
}

/* Enter the tunnel whose header is at place->l4: let the frame begin and end with its payload.
 * Returns as hpcc_walk_need(), or a reason.
 */
static inline int hpcc_tunnel_enter(struct hpcc_frame *f, struct hpcc_opt_location *place)
{
	f->len = place->end;
	f->have = min(f->have, f->len);
	switch (place->proto) {
	case IPPROTO_UDP:
		return hpcc_tunnel_udp(f, place);
	case IPPROTO_GRE:
		return hpcc_tunnel_gre(f, place);
	case IPPROTO_IPIP:
		return hpcc_tunnel_into(f, place->l4, ETH_P_IP);
	case IPPROTO_IPV6:
		return hpcc_tunnel_into(f, place->l4, ETH_P_IPV6);
	case IPPROTO_ESP:
		return HPCC_UNSTAMPED_ENCRYPTED;
	default:
		return HPCC_UNSTAMPED_NOT_TCP;
	}
}

/* Find the IP header of the frame, and the bytes after it. Returns as hpcc_walk_ipv4(). */
static inline int hpcc_tunnel_ip(const struct hpcc_frame *f, u8 kind,
				 struct hpcc_opt_location *place)
{
	u32 off = f->network, proto = f->proto;
	int ret = 0;

	if (proto == HPCC_PROTO_ETHERNET)
		ret = hpcc_walk_eth(f, f->network, &off, &proto, place);
	if (ret)
		return ret;
	switch (proto) {
	case ETH_P_IP:
		return hpcc_walk_ipv4(f, off, kind, place);
	case ETH_P_IPV6:
		return hpcc_walk_ipv6(f, off, kind, place);
	case HPCC_PROTO_MACSEC:
		return HPCC_UNSTAMPED_ENCRYPTED;
	default:
		return HPCC_UNSTAMPED_NOT_TCP;
	}
}

/* Find the first request in the TCP header inside the tunnels of a packet. @kind: TCP option kind.
 * Sets version and ip of @place to those of the innermost IP header.
 * Return: as hpcc_walk(); HPCC_UNSTAMPED_NOT_TCP for a packet without a tunnel.
 */
static inline int hpcc_walk_inner(const struct hpcc_frame *f, u8 kind,
				  struct hpcc_opt_location *place)
{
	struct hpcc_frame within = *f;
	u32 tunnels;
	int ret;

	within.have = min_t(u32, f->have, HPCC_WALK_MAX_BYTES);
	for (tunnels = 0; tunnels <= HPCC_TUNNELS_MAX; tunnels++) {
		ret = hpcc_tunnel_ip(&within, kind, place);
		if (ret != HPCC_WALK_L4)
			return ret;
		if (place->proto == IPPROTO_TCP) {
			place->tcp = place->l4;
			within.len = place->end;
			within.have = min(within.have, within.len);
			return tunnels ? hpcc_walk_tcp(&within, kind, place) :
					 HPCC_UNSTAMPED_NOT_TCP;
		}
		ret = hpcc_tunnel_enter(&within, place);
		if (ret)
			return ret;
	}
	return HPCC_UNSTAMPED_NESTED;
}

#endif /* _HPCC_WIRE_TUNNEL_H */
