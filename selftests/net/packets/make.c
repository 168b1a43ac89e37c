// SPDX-License-Identifier: GPL-2.0
/*
 * Random packets. Most of them are almost valid: a packet with an invalid first header does not
 * reach the code that parses its last header.
 */
#include <string.h>

#include "packets.h"

/* A packet under construction: offsets into the frame. */
struct draft {
	struct frame *f;
	const struct flow *flow;	/* live connection, or NULL */
	uint32_t ip, l4;
	uint32_t hlen;		/* length of the TCP header */
	uint32_t payload;
	bool is_ipv4, is_tcp;
	bool wrong_sum;
};

/* ---- random numbers ---- */

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		/* splitmix64 */
		uint64_t z = seed += 0x9e3779b97f4a7c15ULL;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
		rng->s[i] = z ^ z >> 31;
	}
}

static uint64_t rotate(uint64_t v, int k)
{
	return v << k | v >> (64 - k);
}

uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->s;
	uint64_t result = rotate(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

void fill(struct rng *rng, uint8_t *p, uint32_t len)
{
	while (len--)
		*p++ = rng_next(rng) >> 56;
}

/* ---- TCP ---- */

static uint32_t payload_len(struct maker *m, const struct draft *d)
{
	struct rng *rng = &m->rng;
	uint32_t what;

	/* In a segment for a live connection with a valid checksum, the payload takes the place of
	 * acknowledged bytes (make_tcp()): only the connection itself sends new data.
	 */
	if (d->flow && !d->wrong_sum)
		return d->flow->una && percent(rng, 20) ? 1 + below(rng, 200) : 0;
	what = below(rng, 4);
	return what ? below(rng, what == 1 ? 64 : 1300) : 0;
}

static uint32_t near(struct rng *rng, uint32_t v)
{
	uint32_t what = below(rng, 8);

	if (what < 2)
		return what ? v - below(rng, 3000) : v + below(rng, 3000);
	if (what == 2)
		return v + below(rng, 1 << 20) - (1 << 19);
	if (what == 3)
		return percent(rng, 50) ? rng_next(rng) : v + (1U << 31);
	return v;
}

static void tcp_numbers(struct maker *m, const struct draft *d, uint8_t *th)
{
	struct rng *rng = &m->rng;
	const struct flow *flow = d->flow;

	if (!flow) {
		put16(th, rng_next(rng));
		put16(th + 2, m->port && percent(rng, 70) ? m->port : rng_next(rng));
		put32(th + 4, rng_next(rng));
		put32(th + 8, rng_next(rng));
		th[13] = percent(rng, 60) ? TCP_ACK : percent(rng, 50) ? TCP_SYN : rng_next(rng);
		/* A segment to a host has at least one flag, see some_flags() in aim.c. */
		if (m->quiet && !th[13])
			th[13] = TCP_ACK;
		put16(th + 14, rng_next(rng));
		return;
	}
	put16(th, flow->sport);
	put16(th + 2, flow->dport);
	put32(th + 4, near(rng, flow->seq));
	/* TCP would accept an ACK of data that are still in flight: repeat the last ACK number, or
	 * an older one.
	 */
	put32(th + 8, percent(rng, 80) ? flow->ack : flow->ack - below(rng, 100000));
	th[13] = TCP_ACK | (percent(rng, 20) ? TCP_PSH : 0) | (percent(rng, 2) ? 0x40 : 0);
	put16(th + 14, flow->window);
	if (d->wrong_sum && percent(rng, 50)) {
		put32(th + 8, near(rng, flow->ack));
		th[13] = rng_next(rng);
		put16(th + 14, rng_next(rng));
	}
}

static uint32_t make_tcp(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	uint8_t *th = d->f->data + d->l4;
	uint32_t opts;

	memset(th, 0, 20);
	tcp_numbers(m, d, th);
	opts = make_options(m, th + 20, d->flow && !d->wrong_sum ? d->flow : NULL);
	d->hlen = 20 + opts;
	th[12] = d->hlen / 4 << 4;
	if (!d->flow && percent(rng, 5))
		th[12] = rng_next(rng);
	d->payload = payload_len(m, d);
	if (m->offload && percent(rng, 8))
		d->payload = 1000 + below(rng, 7000);
	if (d->flow && !d->wrong_sum && d->payload)
		put32(th + 4, d->flow->una - d->payload);
	fill(rng, th + d->hlen, d->payload > 64 ? 64 : d->payload);
	if (d->payload > 64)
		memset(th + d->hlen + 64, 'x', d->payload - 64);
	return d->hlen + d->payload;
}

/* ---- IP ---- */

static uint32_t make_l4(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	uint32_t len;

	d->is_tcp = d->flow || percent(rng, 92);
	if (d->is_tcp)
		return make_tcp(m, d);
	len = below(rng, 200);
	fill(rng, d->f->data + d->l4, len);
	return len;
}

/* The protocol number. With @quiet only TCP, and protocols whose handlers ignore random packets. */
static uint8_t protocol(struct maker *m, const struct draft *d)
{
	static const uint8_t harmless[] = { 17, 47, 50, 132, 255 };

	if (d->is_tcp)
		return TCP;
	return m->quiet ? harmless[below(&m->rng, sizeof(harmless))] : rng_next(&m->rng);
}

static uint32_t make_ipv4(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	uint8_t *ip = d->f->data + d->ip;
	uint32_t opts = percent(rng, 12) ? 4 * below(rng, 11) : 0;
	uint32_t total;

	memset(ip, 1, 20 + opts);	/* IP's NOP */
	if (opts && percent(rng, 30))
		fill(rng, ip + 20, opts);
	d->l4 = d->ip + 20 + opts;
	total = 20 + opts + make_l4(m, d);
	ip[0] = 0x45 + opts / 4;
	ip[1] = rng_next(rng);
	put16(ip + 2, total);
	put16(ip + 4, rng_next(rng));
	put16(ip + 6, percent(rng, 70) ? 0x4000 : 0);
	if (percent(rng, 3))
		put16(ip + 6, rng_next(rng));
	ip[8] = percent(rng, 97) ? 64 : below(rng, 3);
	ip[9] = protocol(m, d);
	memcpy(ip + 12, d->flow ? d->flow->saddr : m->saddr4, 4);
	memcpy(ip + 16, d->flow ? d->flow->daddr : m->daddr4, 4);
	return total;
}

/* Write an IOAM option of a hop-by-hop header: either kind of trace, with or without nodes. Most
 * options are valid. Other options have a false length or field, or their first node contains
 * the start of another option.
 */
static uint32_t make_ioam(struct rng *rng, uint8_t *p)
{
	uint32_t room = 1 + below(rng, 5), used = below(rng, room + 1), words = 5, hop, at;
	bool grows = percent(rng, 30);
	uint8_t *node;

	if (grows)
		room = used;
	p[0] = 0x31;
	p[1] = 10 + 20 * room;
	p[2] = 0;
	p[3] = percent(rng, 5) ? rng_next(rng) : grows;
	put16(p + 4, percent(rng, 6) ? rng_next(rng) : 0);
	put16(p + 6, words << 11 | (grows ? 20 : 5 * (room - used)));
	put32(p + 8, (percent(rng, 6) ? rng_next(rng) & 0xffffff : 0xd20800) << 8);
	at = 12 + 20 * room;
	memset(p + 12, 0, 20 * room);
	for (hop = 0; hop < used; hop++) {
		node = p + at - 20 * (hop + 1);
		put32(node, 63U << 24 | (1 + below(rng, 4)));
		put32(node + 4, 0xffffU << 16 | (1 + below(rng, 2)));
		put32(node + 8, below(rng, percent(rng, 95) ? 1000000000 : ~0U));
		put32(node + 12, percent(rng, 95) ? below(rng, 100000) : ~0U);
		put32(node + 16, rng_next(rng));
	}
	if (percent(rng, 8))
		memcpy(p + 12, p, 20 * room < 12 ? 0 : 12);
	if (percent(rng, 8))
		put16(p + 6, rng_next(rng));
	if (percent(rng, 5))
		p[1] = rng_next(rng);
	return at;
}

/* make_trace() - write a hop-by-hop header with IOAM, except its first byte. Returns its length. */
uint32_t make_trace(struct rng *rng, uint8_t *p)
{
	uint32_t len = 2, pad;

	if (percent(rng, 90)) {
		put16(p + len, 1 << 8);		/* PadN */
		len += 2;
	}
	do
		len += make_ioam(rng, p + len);
	while (percent(rng, 8));
	pad = -len % 8;
	memset(p + len, 0, pad);
	if (pad > 1) {
		p[len] = 1;
		p[len + 1] = pad - 2;
	}
	len += pad;
	p[1] = percent(rng, 97) ? len / 8 - 1 : rng_next(rng);
	return len;
}

/* Write extension headers; the next-header bytes are chained through *next. */
uint32_t make_extensions(struct maker *m, uint8_t *p, uint8_t **next)
{
	static const uint8_t kinds[] = { 0, 43, 60, 60, 60, 44, 51, 135 };
	struct rng *rng = &m->rng;
	uint32_t at = 0;

	while (at < 600 && percent(rng, 60)) {
		uint32_t len = 8 * (1 + (percent(rng, 90) ? below(rng, 3) : below(rng, 80)));
		uint8_t kind = kinds[below(rng, at ? sizeof(kinds) : 3)];

		memset(p + at, 0, len);		/* Pad1 */
		if (kind == 44) {
			len = 8;
			put32(p + at + 4, rng_next(rng));
			put16(p + at + 2, percent(rng, 50) ? 0 : rng_next(rng));
		}
		if (percent(rng, 10))
			fill(rng, p + at + 2, len - 2);
		p[at + 1] = kind == 44 ? 0 : len / 8 - 1;
		if (!kind && percent(rng, 40))
			len = make_trace(rng, p + at);
		**next = kind;
		*next = p + at;
		at += len;
	}
	return at;
}

static uint32_t make_ipv6(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	uint8_t *ip = d->f->data + d->ip;
	uint8_t *next = ip + 6;
	uint32_t len = 0;

	put32(ip, 6U << 28 | (rng_next(rng) & 0xfffffff));
	if (percent(rng, 20))
		len = make_extensions(m, ip + 40, &next);
	d->l4 = d->ip + 40 + len;
	len += make_l4(m, d);
	*next = protocol(m, d);
	put16(ip + 4, len);
	ip[7] = percent(rng, 97) ? 64 : below(rng, 3);
	memcpy(ip + 8, d->flow ? d->flow->saddr : m->saddr6, 16);
	memcpy(ip + 24, d->flow ? d->flow->daddr : m->daddr6, 16);
	return 40 + len;
}

/* ---- checksums ---- */

uint32_t sum16(const uint8_t *p, uint32_t len)
{
	uint64_t sum = 0;

	for (; len > 1; len -= 2, p += 2)
		sum += get16(p);
	return fold(sum + (len ? *p << 8 : 0));
}

uint32_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Write a vnet header: the device, or a host that forwards the packet, must compute the checksum,
 * and sometimes also segment the packet.
 */
static void make_vnet(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	struct virtio_net_hdr *vnet = &d->f->vnet;
	uint32_t what;

	vnet->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	vnet->csum_start = d->l4;
	vnet->csum_offset = 16;
	if (d->payload > 1300 || percent(rng, 20)) {
		vnet->gso_type = d->is_ipv4 ? VIRTIO_NET_HDR_GSO_TCPV4 :
					      VIRTIO_NET_HDR_GSO_TCPV6;
		vnet->gso_size = percent(rng, 90) ? 500 + below(rng, 900) :
						    60 + below(rng, 10000);
		/* If the packet is longer than a page, only this length is linear. */
		vnet->hdr_len = percent(rng, 60) ? d->l4 + d->hlen : 0;
	}
	what = percent(rng, 15) ? below(rng, 6) : 6;
	if (what == 0)
		vnet->flags = rng_next(rng);
	else if (what == 1)
		vnet->csum_start = below(rng, d->f->len + 8);
	else if (what == 2)
		vnet->csum_offset = below(rng, 64);
	else if (what == 3)
		vnet->gso_type = rng_next(rng);
	else if (what == 4)
		vnet->hdr_len = below(rng, d->f->len + 8);
	else if (what == 5)
		vnet->csum_start += below(rng, 8) - 4;
}

static void make_sums(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	uint8_t *ip = d->f->data + d->ip;
	uint8_t *l4 = d->f->data + d->l4;
	uint32_t l4_len = d->f->len - d->l4, sum;

	if (d->is_ipv4) {
		ip4_sum(ip);
		if (!m->routed && percent(rng, 2))
			put16(ip + 10, rng_next(rng));
	}
	if (!d->is_tcp)
		return;
	put16(l4 + 16, 0);
	sum = d->is_ipv4 ? pseudo(4, ip + 12, ip + 16, TCP, l4_len) :
			   pseudo(6, ip + 8, ip + 24, TCP, l4_len);
	if (m->offload && !d->flow && (d->payload > 1300 || percent(rng, 15))) {
		put16(l4 + 16, sum);
		make_vnet(m, d);
		return;
	}
	put16(l4 + 16, ~fold(sum + sum16(l4, l4_len)));
	if (d->wrong_sum)
		put16(l4 + 16, get16(l4 + 16) ^ (1 + below(rng, 0xfffe)));
}

/* ---- Ethernet ---- */

static uint32_t make_tags(struct maker *m, uint8_t *p)
{
	struct rng *rng = &m->rng;
	uint32_t at = 12;

	memcpy(p, m->mac, 12);
	if (m->routed || m->bare || m->nr_flows || !percent(rng, 15))
		return at;
	do {
		put16(p + at, percent(rng, 70) ? 0x8100 : 0x88a8);
		put16(p + at + 2, rng_next(rng));
		at += 4;
	} while (at < 36 && percent(rng, 40));
	return at;
}

/* Make a packet invalid: false lengths, random bytes, a truncated or extended end. */
static void spoil(struct maker *m, struct draft *d)
{
	struct rng *rng = &m->rng;
	struct frame *f = d->f;
	uint8_t *ip = f->data + d->ip;

	if (percent(rng, 3))
		put16(ip + (d->is_ipv4 ? 2 : 4), below(rng, 1600));
	if (percent(rng, 5) && !m->routed)
		for (int i = below(rng, 4); i >= 0; i--)
			f->data[d->ip + below(rng, f->len - d->ip)] = rng_next(rng);
	if (percent(rng, 5))
		f->len = 14 + below(rng, f->len - 13);
	else if (percent(rng, 5) && !f->vnet.gso_type && f->len < 1000)
		f->len += below(rng, 100);
}

/* Split the IP packet at offset @at into fragments, which the receiver reassembles. Sometimes a
 * fragment is missing, or with IPv4 sent twice.
 */
void make_fragments(struct maker *m, struct frame *f, uint32_t at)
{
	struct rng *rng = &m->rng;
	bool is_ipv4 = f->data[at] >> 4 == 4;
	uint32_t hlen = is_ipv4 ? (f->data[at] & 15) * 4 : 40;
	uint32_t head = hlen + (is_ipv4 ? 0 : 8), id = is_ipv4 ? 0 : rng_next(rng);
	uint32_t len = f->len - at - hlen;
	uint32_t size = 8 * (1 + below(rng, len / 16 + 2));
	uint32_t from, nr = 0;

	if (len / size >= 8)
		size = (len / 8 + 8) & ~7U;
	for (from = 0; from < len && nr < 8; from += size, nr++) {
		struct frame *part = &m->parts[nr];
		uint32_t n = len - from < size ? len - from : size;
		uint8_t *ip = part->data + at;

		memset(&part->vnet, 0, sizeof(part->vnet));
		memcpy(part->data, f->data, at + hlen);
		memcpy(ip + head, f->data + at + hlen + from, n);
		part->len = at + head + n;
		if (is_ipv4) {
			put16(ip + 2, hlen + n);
			put16(ip + 6, from / 8 | (from + n < len ? 0x2000 : 0));
			ip4_sum(ip);
			continue;
		}
		put16(ip + 4, 8 + n);
		put16(ip + 40, ip[6] << 8);
		put16(ip + 42, from | (from + n < len));
		put32(ip + 44, id);
		ip[6] = FRAGMENT;
	}
	m->nr_parts = nr;
	if (nr && percent(rng, is_ipv4 ? 20 : 15))
		m->nr_parts--;
	if (is_ipv4 && nr > 1 && percent(rng, 30))
		m->parts[0] = m->parts[1 + below(rng, nr - 1)];
}

static void make_next(struct maker *m, struct frame *f)
{
	struct rng *rng = &m->rng;
	struct draft d = { .f = f };

	if (m->nr_parts) {
		struct frame *part = &m->parts[--m->nr_parts];

		/* spoil() may send bytes that earlier frames left behind the end of @f. */
		f->vnet = part->vnet;
		f->len = part->len;
		memcpy(f->data, part->data, part->len);
		return;
	}
	memset(&f->vnet, 0, sizeof(f->vnet));
	if (m->nr_flows && percent(rng, 50))
		d.flow = &m->flows[below(rng, m->nr_flows)];
	if (d.flow && !d.flow->known)
		d.flow = NULL;
	d.wrong_sum = percent(rng, 15);
	d.is_ipv4 = d.flow ? d.flow->version == 4 : percent(rng, 50);
	d.ip = make_tags(m, f->data) + 2;
	put16(f->data + d.ip - 2, d.is_ipv4 ? 0x0800 : 0x86dd);
	if (!m->quiet && percent(rng, 2))
		put16(f->data + d.ip - 2, rng_next(rng));
	f->len = d.ip + (d.is_ipv4 ? make_ipv4(m, &d) : make_ipv6(m, &d));
	make_sums(m, &d);
	/* Do not write random bytes into segments of a live connection: the wrong checksum of a
	 * segment could become correct, and the connection would accept the segment.
	 */
	if (d.is_ipv4 && !f->vnet.flags && !f->vnet.gso_type && percent(rng, 5))
		make_fragments(m, f, d.ip);
	else if (!d.flow)
		spoil(m, &d);
}

static uint32_t less(uint32_t v, uint32_t by)
{
	return v > by ? v - by : 0;
}

/* make_frame() - the next frame of a maker's sequence. */
void make_frame(struct maker *m, struct frame *f)
{
	make_next(m, f);
	if (!m->bare)
		return;
	f->len = less(f->len, 14);
	memmove(f->data, f->data + 14, f->len);
	f->vnet.csum_start = less(f->vnet.csum_start, 14);
	f->vnet.hdr_len = less(f->vnet.hdr_len, 14);
}

/* make_frames() - make the next @left frames, at most @most. Returns their number. */
uint32_t make_frames(struct maker *m, struct frame *f, uint64_t left, uint32_t most)
{
	uint32_t nr = left < most ? left : most;

	for (uint32_t i = 0; i < nr; i++)
		make_frame(m, &f[i]);
	return nr;
}
