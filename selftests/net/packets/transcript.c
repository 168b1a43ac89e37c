// SPDX-License-Identifier: GPL-2.0
/*
 * Write the lines of a transcript (deliver.c). A line describes a packet, but does not contain
 * random values, times, or our options.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "packets.h"

/* ISNs that the host chose for connections that are not in maker.flows. */
static uint32_t isns[2][65536];

uint32_t hash(const uint8_t *p, uint32_t len)
{
	uint32_t h = 2166136261;

	while (len--)
		h = (h ^ *p++) * 16777619;
	return h;
}

/* ---- Output ---- */

/* Write all options, except NOPs and the host's timestamps; SACK block by block. Our options are
 * left out if the module may add and remove them (@agreed).
 */
static void write_options(const uint8_t *p, uint32_t len, bool from_host, bool agreed)
{
	uint32_t at = 0;

	while (at < len && p[at]) {
		uint32_t n = option_len(p, at, len);

		if (!n) {
			printf(" ?");
			return;
		}
		if (p[at] == 8 && n == 10)	/* the other time is from the host */
			printf(" 8:%08x", get32(p + at + (from_host ? 6 : 2)));
		else if (p[at] == 5 && n % 8 == 2)
			for (uint32_t block = 2; block < n; block += 8)
				printf("%s:%08x", block == 2 ? " 5" : "", hash(p + at + block, 8));
		else if (p[at] != 1 && !(agreed && (p[at] == 253 || p[at] == 254)))
			printf(" %u:%08x", p[at], hash(p + at, n));
		at += n;
	}
}

static struct flow *find_flow(struct maker *m, uint8_t version, const uint8_t *host,
			      const uint8_t *peer, const uint8_t *th)
{
	for (uint32_t i = 0; i < m->nr_flows; i++) {
		struct flow *flow = &m->flows[i];
		uint32_t n = version == 4 ? 4 : 16;

		if (flow->version == version && flow->dport == get16(th) &&
		    flow->sport == get16(th + 2) && !memcmp(flow->saddr, peer, n) &&
		    !memcmp(flow->daddr, host, n))
			return flow;
	}
	return NULL;
}

/* Update the packet generator's state of a connection from a segment that the host sends. */
static void learn(struct flow *flow, const uint8_t *th, uint32_t len)
{
	uint32_t hlen = (th[12] >> 4) * 4, at, n;
	uint8_t flags = th[13];

	if (flags & TCP_RST)
		return;
	if (flags & TCP_SYN && !flow->known)
		flow->isn = get32(th + 4);
	if (flags & TCP_ACK) {
		flow->seq = get32(th + 8);
		flow->una = get32(th + 8);
	}
	flow->ack = get32(th + 4) + len - hlen + !!(flags & (TCP_SYN | TCP_FIN));
	for (at = 20; at + 1 < hlen && th[at] && (n = option_len(th, at, hlen)); at += n) {
		if (th[at] == 8 && flow->has_ts) {
			flow->ts[0] = 8;
			flow->ts[1] = 10;
			put32(flow->ts + 2, flow->tsval);
			memcpy(flow->ts + 6, th + at + 2, 4);
		}
	}
}

/* Return a sequence number of the host as it stands in the transcript: relative to the ISN, unless
 * both hosts choose the same ISNs.
 */
static uint32_t relative(const struct maker *m, uint32_t number, uint32_t isn)
{
	return m->same_isns ? number : number - isn;
}

static void write_number(const struct maker *m, const struct flow *flow, uint8_t version,
			 const uint8_t *th)
{
	uint32_t *isn = &isns[version == 6][get16(th + 2)];
	uint32_t seq = get32(th + 4);

	/* The SYN may belong to a connection of an earlier round. */
	if (th[13] & TCP_SYN)
		*isn = seq;
	/* The sequence number of a RST without ACK is the ACK number of the triggering segment. */
	if (flow)
		printf(" seq +%u", relative(m, seq, flow->isn));
	else if (th[13] != TCP_RST && seq - *isn < 1 << 20)
		printf(" seq isn+%u", relative(m, seq, *isn));
	else
		printf(" seq %u", seq);
}

/* Write nothing for a correct checksum, " partial" for one that a device has to complete, and
 * " bad" for a wrong one. Write " either" if the value fits both of the first two cases, which
 * happens in one segment of 65,536.
 */
static void write_sum(uint32_t sum, uint32_t check, uint32_t pseudo)
{
	bool right = sum % 0xffff == 0, partial = check % 0xffff == pseudo % 0xffff;

	printf("%s", right && partial ? " either" : right ? "" : partial ? " partial" : " bad");
}

/* Write a segment that the host sends, or that a raw socket receives. */
void write_tcp(struct maker *m, uint8_t version, const uint8_t *saddr, const uint8_t *daddr,
	       const uint8_t *th, uint32_t len, bool from_host)
{
	uint32_t hlen = len > 12 ? (th[12] >> 4) * 4 : 0, sum;
	struct flow *flow;

	if (hlen < 20 || hlen > len) {
		printf(" short %u %08x\n", len, hash(th, len));
		return;
	}
	printf(" %u>%u %02x", get16(th), get16(th + 2), th[13]);
	if (from_host) {
		flow = find_flow(m, version, saddr, daddr, th);
		if (flow)
			learn(flow, th, len);
		write_number(m, flow, version, th);
		printf(" ack %u", get32(th + 8));
	} else {
		/* The ACK number is relative to the host's ISN, which is random. */
		bool has_ack = get32(th + 8);

		flow = find_flow(m, version, daddr, saddr,
				 (uint8_t[]){ th[2], th[3], th[0], th[1] });
		printf(" seq %u ack %s%u", get32(th + 4), flow && has_ack ? "+" : "",
		       relative(m, get32(th + 8), flow && has_ack ? flow->isn : 0));
	}
	printf(" win %u", get16(th + 14));
	/* Our option may also be in a SYN-ACK to an unknown peer, or to a peer that reuses the
	 * ports of an ended connection, and in segments of an earlier round.
	 */
	write_options(th + 20, hlen - 20, from_host,
		      flow ? flow->agreed || (from_host && th[13] & 2) : from_host);
	printf(" data %u %08x", len - hlen, hash(th + hlen, len - hlen));
	sum = pseudo(version, saddr, daddr, TCP, len);
	write_sum(sum + sum16(th, len), get16(th + 16), sum);
	printf("\n");
}

void write_reply(struct maker *m, const uint8_t *ip, uint32_t len)
{
	uint8_t version = ip[0] >> 4;
	uint32_t at = version == 4 ? (ip[0] & 15) * 4 : 40;
	uint8_t proto = ip[version == 4 ? 9 : 6];
	const uint8_t *p = ip + at;

	if (len < at || (version != 4 && version != 6))
		return;
	if (proto == 58 && p[0] >= 130 && p[0] != 136)	/* sent at random times */
		return;
	/* The ECN field is left out: hpcc sends all packets as ECT. */
	printf("r %u %u", version, version == 4 ? (ip[1] & ~3) | get16(ip + 6) << 8 :
						  (get32(ip) >> 20 & 252));
	if (proto == 6) {
		if (version == 4)
			write_tcp(m, 4, ip + 12, ip + 16, p, len - at, true);
		else
			write_tcp(m, 6, ip + 8, ip + 24, p, len - at, true);
	} else if (proto == 1 && (p[0] == 3 || p[0] == 11 || p[0] == 12)) {
		printf(" icmp %u %u %u about %u %08x\n", p[0], p[1], get32(p + 4), p[8 + 9],
		       hash(p + 8 + 12, 8));
	} else if (proto == 58 && p[0] < 128) {
		printf(" icmp6 %u %u %u about %u %08x\n", p[0], p[1], get32(p + 4), p[8 + 6],
		       hash(p + 8 + 8, 32));
	} else if (proto == 44) {	/* the identification is random */
		printf(" fragment %u %08x\n", get16(p + 2), hash(p + 8, len - at - 8));
	} else {
		printf(" proto %u %u %08x\n", proto, len - at, hash(p, len - at));
	}
}
