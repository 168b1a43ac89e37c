// SPDX-License-Identifier: GPL-2.0
/*
 * Packets for the sockets of one host. Most of them are packets that a peer could send, with random
 * extension headers, IP options, TCP options and payload. The sequence and ACK numbers follow from
 * the segments that the host sends, so that two hosts get the same packets.
 */
#define _GNU_SOURCE
#include <string.h>

#include "packets.h"

static uint32_t flow_sum(const struct flow *flow, uint32_t proto, uint32_t len)
{
	return pseudo(flow->version, flow->saddr, flow->daddr, proto, len);
}

/* Write an IP header at the start of the frame. @len: number of bytes after the header. */
static void ip_header(struct frame *f, const struct flow *flow, uint8_t proto, uint32_t len)
{
	uint8_t *ip = f->data;

	memset(&f->vnet, 0, sizeof(f->vnet));
	memset(ip, 0, ip_len(flow));
	f->len = ip_len(flow) + len;
	if (flow->version == 4) {
		ip[0] = 0x45;
		put16(ip + 2, f->len);
		put16(ip + 6, 0x4000);
		ip[8] = 64;
		ip[9] = proto;
		memcpy(ip + 12, flow->saddr, 4);
		memcpy(ip + 16, flow->daddr, 4);
		ip4_sum(ip);
		return;
	}
	ip[0] = 0x60;
	put16(ip + 4, len);
	ip[6] = proto;
	ip[7] = 64;
	memcpy(ip + 8, flow->saddr, 16);
	memcpy(ip + 24, flow->daddr, 16);
}

static void tcp_header(uint8_t *th, const struct flow *flow, uint8_t flags, uint32_t optlen)
{
	memset(th, 0, 20);
	put16(th, flow->sport);
	put16(th + 2, flow->dport);
	put32(th + 4, flow->seq);
	put32(th + 8, flow->ack);
	th[12] = (20 + optlen) / 4 << 4;
	th[13] = flags;
	put16(th + 14, flow->window);
}

/* aim_segment() - write a valid segment without data. */
void aim_segment(struct frame *f, const struct flow *flow, uint8_t flags,
		 const uint8_t *opts, uint32_t optlen)
{
	uint8_t *th = f->data + ip_len(flow);

	ip_header(f, flow, TCP, 20 + optlen);
	tcp_header(th, flow, flags, optlen);
	memcpy(th + 20, opts, optlen);
	put16(th + 16, ~fold(flow_sum(flow, TCP, 20 + optlen) + sum16(th, 20 + optlen)));
}

/* ---- TCP options ---- */

/* write_timestamps() - write two NOPs and the timestamps option. Returns their length. */
uint32_t write_timestamps(uint8_t *p, const struct flow *flow, uint32_t tsval)
{
	memset(p, 1, 2);
	p[2] = 8;
	p[3] = 10;
	put32(p + 4, tsval);
	memcpy(p + 8, flow->ts + 6, 4);
	return 12;
}

static uint32_t options(struct maker *m, uint8_t *p, struct flow *flow)
{
	struct rng *rng = &m->rng;
	uint8_t buf[128];
	uint32_t len = 0;

	if (percent(rng, 12))
		return make_options(m, p, flow);
	if (flow->has_ts && percent(rng, 97))
		len = write_timestamps(p, flow,
				       flow->tsval - (percent(rng, 3) ? below(rng, 5000) : 0));
	while (percent(rng, len > 12 ? 20 : 80)) {
		uint32_t n = percent(rng, 95) ? our_option(m, buf, flow) : syn_option(m, buf);

		if (len + n > 40)
			continue;
		memcpy(p + len, buf, n);
		len += n;
	}
	if (len < 40 && percent(rng, 10))
		p[len++] = below(rng, 4) ? 1 : 0;
	while (len % 4)
		p[len++] = 1;
	return len;
}

/* ---- Payload ---- */

/* Write a packet, without its IP header, into a payload. No socket may receive this packet. */
static uint32_t hidden(struct rng *rng, uint8_t *p, const struct flow *flow, uint8_t proto)
{
	static const uint16_t ports[] = { PORT_UDP, PORT_FILTERED, PORT_HPCC, 7 };
	uint32_t len = 20, at = 16;

	memset(p, 0, len);
	put16(p, 4000);
	put16(p + 2, ports[below(rng, 4)]);
	if (proto == UDP) {
		put16(p + 4, len);
		at = 6;
	} else if (proto == ICMP6) {
		put32(p, 128U << 24);
		at = 2;
	} else {
		p[12] = 0x50;
		p[13] = TCP_SYN;
		p[14] = 1;
	}
	put16(p + at, ~fold(flow_sum(flow, proto, len) + sum16(p, len)));
	if (percent(rng, 30))
		put16(p + at, get16(p + at) ^ 0x5555);
	return len;
}

/* Write a payload for a parser that mistakes the TCP header for an IPv6 extension header. Such a
 * parser reads the source port as the next header and the length. For this parser each word of the
 * payload is an IPv6 option that extends to the hidden packet at the end.
 */
static uint32_t sled(struct rng *rng, uint8_t *p, const struct flow *flow, uint32_t hlen)
{
	uint32_t end = 8 * ((flow->sport & 255) + 1), at;

	if (percent(rng, 80))
		hlen = flow->has_ts ? 32 : 20;
	if (flow->version == 4 || hlen > end)
		return hidden(rng, p, flow, percent(rng, 50) ? UDP : TCP);
	for (at = hlen; at < end; at += 4) {
		put16(p + at - hlen, 0x1e << 8 | ((end - at - 2) & 255));
		put16(p + at - hlen + 2, 0);
	}
	return end - hlen + hidden(rng, p + end - hlen, flow, flow->sport >> 8);
}

static uint32_t payload(struct maker *m, uint8_t *p, const struct flow *flow, uint32_t hlen)
{
	struct rng *rng = &m->rng;
	uint32_t len, what = below(rng, 100);

	if (what < 35)
		return 0;
	if (what < 50)
		return sled(rng, p, flow, hlen);
	len = 1 + below(rng, what < 75 ? 64 : what < 95 ? 1300 : 8000);
	fill(rng, p, len > 64 ? 64 : len);
	if (len > 64)
		memset(p + 64, 'a' + below(rng, 26), len - 64);
	return len;
}

/* ---- Checksums and offloads ---- */

static void sums(struct maker *m, struct frame *f, const struct flow *flow, uint32_t l4,
		 uint32_t hlen)
{
	struct rng *rng = &m->rng;
	struct virtio_net_hdr *vnet = &f->vnet;
	uint32_t len = f->len - l4;
	uint8_t *th = f->data + l4;

	put16(th + 16, 0);
	if (percent(rng, 20) || (len > 1500 && percent(rng, 80))) {
		vnet->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet->csum_start = l4;
		vnet->csum_offset = 16;
		put16(th + 16, flow_sum(flow, TCP, len));
		if (len - hlen > 200 && percent(rng, 80)) {
			vnet->gso_type = flow->version == 4 ? VIRTIO_NET_HDR_GSO_TCPV4 :
							      VIRTIO_NET_HDR_GSO_TCPV6;
			vnet->gso_size = 100 + below(rng, 1300);
		}
	} else {
		put16(th + 16, ~fold(flow_sum(flow, TCP, len) + sum16(th, len)));
		if (percent(rng, 6))
			put16(th + 16, get16(th + 16) ^ (1 + below(rng, 0xfffe)));
		if (percent(rng, 10))
			vnet->flags = VIRTIO_NET_HDR_F_DATA_VALID;
	}
	/* If the packet is longer than a page, only this length is linear. */
	if (percent(rng, 60))
		vnet->hdr_len = percent(rng, 50) ? l4 + hlen : l4 + below(rng, hlen);
}

/* ---- Between IP and TCP ---- */

static uint32_t right_extensions(struct rng *rng, uint8_t *p, uint8_t **next)
{
	static const uint8_t kinds[] = { DSTOPTS, DSTOPTS, ROUTING, FRAGMENT, HBH, HBH };
	uint32_t at = 0;

	do {
		uint8_t kind = kinds[below(rng, at ? 4 : 6)];
		uint32_t len = kind == FRAGMENT ? 8 : 8 * (1 + below(rng, 4));

		memset(p + at, 0, len);
		if (kind == FRAGMENT) {
			put32(p + at + 4, rng_next(rng));
		} else {
			p[at + 1] = len / 8 - 1;
			put16(p + at + 2, kind == ROUTING ? 0 : 0x1e << 8 | (len - 4));
		}
		if (kind == HBH && percent(rng, 70))
			len = make_trace(rng, p + at);
		**next = kind;
		*next = p + at;
		at += len;
	} while (percent(rng, 45));
	return at;
}

/* open_at() - insert @n zero bytes at offset @at, and update the IP header. Returns them. */
uint8_t *open_at(struct frame *f, const struct flow *flow, uint32_t at, uint32_t n)
{
	memmove(f->data + at + n, f->data + at, f->len - at);
	memset(f->data + at, 0, n);
	f->len += n;
	if (flow->version == 4) {
		put16(f->data + 2, f->len);
		ip4_sum(f->data);
	} else {
		put16(f->data + 4, f->len - 40);
	}
	return f->data + at;
}

/* Insert extension headers (IPv6) or options (IPv4) after the IP header. */
static void insert(struct maker *m, struct frame *f, const struct flow *flow)
{
	struct rng *rng = &m->rng;
	uint32_t n;
	uint8_t proto = f->data[6], ext[1300];
	uint8_t *next = f->data + 6;

	if (flow->version == 4) {
		if (!percent(rng, 15))
			return;
		n = 4 * (1 + below(rng, 10));
		memset(ext, 1, n);
		if (percent(rng, 20))
			fill(rng, ext, n);
	} else if (percent(rng, 25)) {
		n = make_trace(rng, ext);
		*next = HBH;
		ext[0] = proto;
	} else {
		if (!percent(rng, 50))
			return;
		n = percent(rng, 85) ? right_extensions(rng, ext, &next) :
				       make_extensions(m, ext, &next);
		*next = proto;
	}
	memcpy(open_at(f, flow, ip_len(flow), n), ext, n);
	f->vnet.csum_start += f->vnet.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM ? n : 0;
	f->vnet.hdr_len += f->vnet.hdr_len ? n : 0;
	if (flow->version == 4) {
		f->data[0] += n / 4;
		ip4_sum(f->data);
	}
}

/* ---- Kinds of packets ---- */

static uint32_t near(struct rng *rng, uint32_t v)
{
	uint32_t what = below(rng, 100);

	if (what < 65)
		return v;
	if (what < 77)
		return v + below(rng, 3000);
	if (what < 90)
		return v - below(rng, 3000);
	return what < 96 ? v + below(rng, 1 << 18) - (1 << 17) : v + rng_next(rng);
}

/* Return at least one flag. A segment without flags may be a response of a switch. If there is no
 * such connection, TCP answers the segment, but a host with the modules does not.
 * net/response.py tests responses.
 */
static uint8_t some_flags(struct rng *rng)
{
	uint32_t what = below(rng, 1000);
	uint8_t any;

	if (what < 970)
		return TCP_ACK | (percent(rng, 25) ? TCP_PSH : 0);
	if (what < 976)
		return TCP_ACK | TCP_FIN;
	if (what < 990)
		return what < 982 ? TCP_RST : TCP_SYN;
	any = rng_next(rng);
	return any ? any : TCP_PSH;
}

/* Make a segment of a connection, or a SYN of an unknown peer (@stranger). */
static void make_segment(struct maker *m, struct frame *f, struct flow *to, bool stranger)
{
	struct rng *rng = &m->rng;
	struct flow flow = *to;
	uint8_t flags = stranger ? TCP_SYN : some_flags(rng);
	uint32_t l4 = ip_len(to), optlen, len;
	uint8_t *th = f->data + l4;

	if (!stranger) {
		flow.seq = near(rng, to->seq);
		flow.ack = near(rng, to->ack);
		flow.window = percent(rng, 90) ? to->window : rng_next(rng);
	}
	optlen = options(m, th + 20, &flow);
	len = stranger && percent(rng, 80) ? 0 : payload(m, th + 20 + optlen, to, 20 + optlen);
	ip_header(f, to, TCP, 20 + optlen + len);
	tcp_header(th, &flow, flags, optlen);
	sums(m, f, to, l4, 20 + optlen);
	/* The host accepts these data if the segment is valid; its next ACK corrects seq. */
	if (!stranger && flow.seq == to->seq)
		to->seq += len;
	insert(m, f, to);
	if (percent(rng, 5) && !f->vnet.gso_type) {
		f->vnet.flags = 0;
		make_fragments(m, f, 0);
	}
}

/* Make a packet of UDP, of ICMP, or of the protocol of a raw socket. */
static void make_other(struct maker *m, struct frame *f, const struct flow *to)
{
	static const uint16_t ports[] = { PORT_UDP, PORT_UDP, PORT_FILTERED, 7 };
	struct rng *rng = &m->rng;
	uint8_t echo = to->version == 4 ? ICMP : ICMP6;
	uint8_t proto = percent(rng, 60) ? UDP : percent(rng, 50) ? RAW : echo;
	uint32_t l4 = ip_len(to), len = 8 + below(rng, percent(rng, 90) ? 200 : 3000);
	uint8_t *p = f->data + l4;
	uint32_t at = proto == UDP ? 6 : 2;

	fill(rng, p, len > 64 ? 64 : len);
	memset(p + 64, 'u', len > 64 ? len - 64 : 0);
	ip_header(f, to, proto, len);
	if (proto == UDP) {
		put16(p, 1024 + below(rng, 60000));
		put16(p + 2, ports[below(rng, 4)]);
		put16(p + 4, len);
	} else if (proto == echo) {
		put16(p, to->version == 4 ? 8 << 8 : 128 << 8);
	}
	put16(p + at, 0);
	put16(p + at, ~fold((proto == ICMP ? 0 : flow_sum(to, proto, len)) + sum16(p, len)));
	if (percent(rng, 5))
		put16(p + at, 1 + below(rng, 65535));
	insert(m, f, to);
	if (percent(rng, 10))
		make_fragments(m, f, 0);
}

/* Whether a frame contains the ports of one of our connections. */
static bool names_flow(const struct maker *m, const struct frame *f)
{
	for (uint32_t i = 0; i < m->nr_flows; i++) {
		uint8_t ports[4];

		put16(ports, m->flows[i].sport);
		put16(ports + 2, m->flows[i].dport);
		if (memmem(f->data, f->len, ports, 4))
			return true;
	}
	return false;
}

/* Make a frame with make_frame() that belongs to none of our connections. */
static void make_stranger(struct maker *m, struct frame *f)
{
	uint32_t nr_flows = m->nr_flows;

	m->aimed_parts = false;
	do {
		m->nr_flows = 0;
		make_frame(m, f);
		m->nr_flows = nr_flows;
	} while (!f->len || names_flow(m, f));
}

/* aim_frame() - make the next frame for the host at the other end of m->flows. */
void aim_frame(struct maker *m, struct frame *f)
{
	struct rng *rng = &m->rng;
	struct flow *flow = &m->flows[below(rng, m->nr_flows)];
	uint32_t what = below(rng, 100);

	if (m->nr_parts) {
		if (m->aimed_parts)
			*f = m->parts[--m->nr_parts];
		else
			make_stranger(m, f);
		return;
	}
	m->aimed_parts = true;
	if (what < 65) {
		make_segment(m, f, flow, false);
	} else if (what < 70) {
		static const uint16_t ports[] = { PORT_HPCC, PORT_OTHER, PORT_FILTERED, 7 };
		struct flow to = *flow;

		to.sport = 0x8000 + below(rng, 0x7000);
		to.dport = ports[below(rng, 4)];
		to.seq = rng_next(rng);
		to.ack = 0;
		make_segment(m, f, &to, true);
	} else if (what < 80) {
		make_other(m, f, flow);
	} else {
		make_stranger(m, f);
	}
}
