// SPDX-License-Identifier: GPL-2.0
/* TCP options of random packets. */
#include <string.h>

#include "packets.h"

enum {
	FORWARD = 1, ECHO = 2, IDENTIFY = 3, REPORT = 5, ANSWERED = 6,
};

/* Write valid records of a REPORT: N, a window, or parameters. The ids are 0 .. 3. */
static uint32_t report(struct rng *rng, uint8_t *p)
{
	uint32_t id = below(rng, 4);

	if (percent(rng, 65)) {
		bool window = percent(rng, 50);

		put32(p, window ? 0x10000000 | id << 24 | below(rng, 65536) : 0x20000000);
		put32(p + 4, 1 + below(rng, window ? 1 << 30 : 1 << 16));
		return 1;
	}
	/* maxStage 5, settle 3, eta 0.95; W_init / 1024, W_init, W_init / 2000 */
	put32(p, 0x30000000 | id << 24 | 5 << 16 | 3 << 9 | 950 >> 2);
	put32(p + 4, (950U & 3) << 30 | (percent(rng, 80) ? 1000000 : below(rng, 3000)));
	put32(p + 8, 0x30000000 | id << 24 | 16 << 12 | 0xffff >> 4);
	put32(p + 12, 0xf0000000 | 134218);
	return 2;
}

/* Write our option: a head and records. About one option in four is invalid. */
uint32_t our_option(struct maker *m, uint8_t *p, const struct flow *flow)
{
	struct rng *rng = &m->rng;
	uint32_t nr = below(rng, 5);
	uint32_t hops = below(rng, 4) ? below(rng, 6) : below(rng, 16);
	uint32_t type = percent(rng, 80) ? 1 + below(rng, 4) : below(rng, 8);
	uint32_t len = 4 + 8 * nr;

	if (type == ECHO && percent(rng, 40))
		type = REPORT;
	if (type == FORWARD && percent(rng, 20))
		type = ANSWERED;
	p[0] = percent(rng, 95) ? m->kind : 253 + below(rng, 2);
	p[1] = len;
	p[2] = type << 5 | (percent(rng, 80) ? flow ? flow->scale : 7 : below(rng, 32));
	p[3] = hops << 4 | (percent(rng, 70) ? 0 : below(rng, 16));
	for (uint32_t i = 0; i < nr; i++) {
		uint8_t *record = p + 4 + 8 * i;

		fill(rng, record, 8);
		if (percent(rng, 50))
			memset(record, 0, 8);
		else if (percent(rng, 70))
			record[0] = (i + 1) << 4 | (record[0] & 15);
	}
	if (type == REPORT && percent(rng, 80)) {
		p[2] = type << 5;
		p[3] = 0;
		len = 4 + 8 * report(rng, p + 4);
		p[1] = len;
	}
	if (percent(rng, 15))
		p[1] = percent(rng, 50) ? below(rng, 48) : below(rng, 256);
	return len;
}

uint32_t syn_option(struct maker *m, uint8_t *p)
{
	static const uint8_t right[] = { 253, 6, 0x48, 0x43, 0x10, 0x11 };
	struct rng *rng = &m->rng;

	memcpy(p, right, 6);
	p[0] = m->kind;
	if (percent(rng, 30))
		p[1 + below(rng, 5)] = rng_next(rng);
	return 6;
}

/* Write an option that is not ours. For a live connection, TCP must not act on the option. */
static uint32_t other_option(struct maker *m, uint8_t *p, bool live)
{
	static const uint8_t kinds[] = { 2, 3, 4, 5, 8, 19, 28, 29, 30, 34, 254 };
	struct rng *rng = &m->rng;
	uint32_t len = 2 + below(rng, 18);

	fill(rng, p, len);
	p[0] = percent(rng, 70) ? kinds[below(rng, sizeof(kinds))] : rng_next(rng);
	/* TCP would use the values of timestamps and SACK, and drop segments with MD5 or AO. */
	while (live && (p[0] <= 1 || p[0] == 5 || p[0] == 8 || p[0] == 19 || p[0] == 29 ||
			p[0] == 30))
		p[0] = 100 + below(rng, 100);
	p[1] = percent(rng, 90) ? len : rng_next(rng);
	return len;
}

static uint32_t timestamps(struct rng *rng, uint8_t *p, const struct flow *flow)
{
	if (flow && flow->ts[0] == 8) {
		memcpy(p, flow->ts, 10);
		return 10;
	}
	p[0] = 8;
	p[1] = 10;
	fill(rng, p + 2, 8);
	return flow ? 0 : 10;
}

/* make_options() - write the options of a segment: at most 40 bytes, and a multiple of 4. @flow: a
 * live connection, or NULL. In a live connection only our own options may have an effect.
 */
uint32_t make_options(struct maker *m, uint8_t *p, const struct flow *flow)
{
	struct rng *rng = &m->rng;
	uint8_t buf[128] = {};
	uint32_t len = 0;

	if (percent(rng, 8))
		return 0;
	while (len < 40 && !(len && percent(rng, 25))) {
		uint32_t what = below(rng, 100);

		if (what < 45)
			len += our_option(m, buf + len, flow);
		else if (what < 55)
			len += timestamps(rng, buf + len, flow);
		else if (what < 80)
			buf[len++] = 1;
		else if (what < 85)
			len += syn_option(m, buf + len);
		else if (what < 99)
			len += other_option(m, buf + len, flow);
		else
			buf[len++] = 0;
	}
	if (len > 40 || (len > 4 && percent(rng, 5)))
		len = len > 40 ? 40 : len - 1 - below(rng, 4);
	if (percent(rng, 50))
		memset(buf + len, 1, 3);
	len = (len + 3) & ~3U;
	memcpy(p, buf, len);
	return len;
}
