// SPDX-License-Identifier: GPL-2.0
/*
 * Probes with the telemetry that switches write: INT after the TCP header, IFA around it. A host
 * that runs hpcc removes valid probes, so that TCP does not receive them. For both hosts the other
 * probes are old data, or packets of a protocol without a receiver.
 */
#include <string.h>

#include "packets.h"

#define INT_BACK	1028	/* bytes by which a probe's sequence number is too old */
#define INT_HEADER	16
#define INT_HOP		24
#define IFA_PROTOCOL	131
#define IFA_HOP		32

static void sum_up(struct frame *f, const struct flow *flow)
{
	uint32_t len = f->len - ip_len(flow);
	uint8_t *th = f->data + ip_len(flow);

	put16(th + 16, 0);
	put16(th + 16, ~fold(pseudo(flow->version, flow->saddr, flow->daddr, TCP, len) +
			     sum16(th, len)));
}

/* Write a pure ACK with a request that has no slots. */
static void make_probe(struct rng *rng, struct frame *f, const struct flow *flow)
{
	uint8_t opts[16];
	uint32_t len = flow->has_ts ? write_timestamps(opts, flow, flow->tsval) : 0;

	opts[len] = 253;
	opts[len + 1] = 4;
	opts[len + 2] = 1 << 5 | (percent(rng, 95) ? flow->scale : below(rng, 32));
	opts[len + 3] = 0;
	aim_segment(f, flow, TCP_ACK, opts, len + 4);
}

/* Write the metadata of one hop. The host also accepts a probe with implausible metadata. */
static void fill_hop(struct rng *rng, uint8_t *hop, uint32_t len)
{
	fill(rng, hop, len);
	if (percent(rng, 80)) {
		memset(hop, 0, len);
		put32(hop, len == INT_HOP ? 1 + below(rng, 3) : 1 << 28 | (1 + below(rng, 3)) << 8);
		put16(hop + (len == INT_HOP ? 6 : 8), 1 + below(rng, 2));
		put16(hop + 18, rng_next(rng));
	}
}

/* Write shim, header and stack of INT. If not @right, a type, a version or a length is wrong. */
static uint32_t make_int(struct rng *rng, uint8_t *p, bool right)
{
	uint32_t hops = below(rng, 8), len = INT_HEADER + INT_HOP * hops, i, what;

	memset(p, 0, INT_HEADER);
	p[0] = 1 << 4;
	p[1] = len / 4 - 1;
	p[3] = below(rng, 64) << 2;
	p[4] = 2 << 4 | (percent(rng, 80) ? 0 : below(rng, 8) << 1);
	p[6] = 6;
	p[7] = below(rng, 9);
	put16(p + 8, 0xd500);
	for (i = 0; i < hops; i++)
		fill_hop(rng, p + INT_HEADER + INT_HOP * i, INT_HOP);
	if (right)
		return len;
	what = below(rng, 5);
	if (what == 4)
		return 1 + below(rng, INT_HEADER - 1);
	if (what == 3)
		p[6] ^= 1 + below(rng, 31);
	else if (what == 1)
		p[1] += 1 + below(rng, 255);
	else
		p[what ? 4 : 0] ^= 1 << (4 + below(rng, 4));
	return len;
}

static bool aim_int(struct rng *rng, struct frame *f, struct flow *flow, bool plain)
{
	bool right = percent(rng, 70);
	uint8_t stack[INT_HEADER + 8 * INT_HOP];
	uint32_t len = make_int(rng, stack, right);

	flow->seq -= INT_BACK;
	make_probe(rng, f, flow);
	memcpy(open_at(f, flow, f->len, len), stack, len);
	sum_up(f, flow);
	return !(right && flow->agreed && plain);
}

/* Insert IFA headers, and the stack after the TCP header. Returns whether the probe is valid. */
static bool make_ifa(struct rng *rng, struct frame *f, const struct flow *flow)
{
	uint32_t hops = below(rng, 5), at = ip_len(flow), hlen = f->len - at, i, what;
	bool right = percent(rng, 70);
	uint8_t *p, *md;

	md = open_at(f, flow, f->len, 4 + IFA_HOP * hops);
	for (i = 0; i < hops; i++)
		fill_hop(rng, md + 4 + IFA_HOP * i, IFA_HOP);
	p = open_at(f, flow, at, 4);
	p[0] = 0x2f;
	p[1] = 6;
	p[2] = 4;
	p[3] = 8 * (1 + below(rng, 8));
	p[4 + hlen + 2] = below(rng, 9);
	p[4 + hlen + 3] = percent(rng, 80) ? 8 * hops : rng_next(rng);
	if (right)
		return true;
	what = below(rng, 4);
	if (what == 0)
		p[0] ^= 1 << below(rng, 8);
	else if (what == 1)
		p[1] ^= 1 + below(rng, 255);
	else if (what == 2)
		p[2] |= 0x11;
	else
		p[4 + 12] = below(rng, 5) << 4;
	return false;
}

static bool aim_ifa(struct rng *rng, struct frame *f, const struct flow *flow, bool plain)
{
	bool right;

	make_probe(rng, f, flow);
	if (percent(rng, 20))
		put16(f->data + ip_len(flow) + 16, rng_next(rng));
	right = make_ifa(rng, f, flow);
	f->data[flow->version == 4 ? 9 : 6] = IFA_PROTOCOL;
	if (flow->version == 4)
		ip4_sum(f->data);
	return !(right && flow->agreed && plain);
}

/* aim_carrier() - make the next probe for the host at the other end of m->flows, which has
 * acknowledged all data that it received.
 * @plain: the host does not run hpcc. It gets only the probes that the TCP of a host with hpcc
 * gets. Returns false if the host must not get this probe.
 */
bool aim_carrier(struct maker *m, struct frame *f, bool plain)
{
	struct rng *rng = &m->rng;
	struct flow flow = m->flows[below(rng, m->nr_flows)];

	flow.seq = flow.una;
	flow.agreed &= !flow.ended;
	if (percent(rng, 50))
		return aim_ifa(rng, f, &flow, plain);
	return aim_int(rng, f, &flow, plain);
}
