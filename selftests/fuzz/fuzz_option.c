// SPDX-License-Identifier: GPL-2.0
/*
 * The options of <hpcc/wire/record.h>: compare the walk over a TCP header's options with a second
 * walk that is written differently. Encoding a decoded head or SYN option gives the same bytes.
 *
 * Input: option kind, ExID, then bytes. They are used as the options of a TCP header, up to
 * the maximum length, and then as one option.
 */
#include "fuzz.h"
#include <hpcc/wire/sign.h>

#define OPTS_MAX	40
#define FUZZ_TIMESTAMPS	8
#define FUZZ_KIND	253

/* Options of a kind, in order. */
struct list {
	int at[OPTS_MAX];
	int len[OPTS_MAX];
	int nr;
	bool broken;
};

static struct list list_options(const u8 *opts, int len, u8 kind)
{
	struct list l = { .nr = 0 };
	int left = len;

	while (left > 0 && *opts != HPCC_TCPOPT_EOL) {
		int optlen = 1;

		if (*opts != HPCC_TCPOPT_NOP) {
			optlen = left > 1 ? opts[1] : 0;
			l.broken = optlen < 2 || optlen > left;
		}
		if (l.broken)
			break;
		if (*opts == kind && kind != HPCC_TCPOPT_NOP) {
			l.at[l.nr] = len - left;
			l.len[l.nr++] = optlen;
		}
		opts += optlen;
		left -= optlen;
	}
	return l;
}

static void telemetry(const u8 *p, u32 len)
{
	bool right = len >= 4 && len <= 36 && len % 8 == 4 && p[2] >= 0x20;
	struct hpcc_opt opt;
	u8 head[HPCC_OPT_HEAD_LEN];

	memset(&opt, 0xff, sizeof(opt));
	if (hpcc_opt_decode(p, len, &opt)) {
		expect(!right);
		return;
	}
	expect(right);
	expect(opt.type >= 1 && opt.type <= HPCC_OPT_RESPONSE);
	expect(opt.scale <= HPCC_SCALE_MAX && opt.hops <= HPCC_HOPS_MAX);
	expect(opt.nr <= HPCC_OPT_RECORDS_MAX);
	expect(!(opt.flags & ~(HPCC_OPT_F_PHASE | HPCC_OPT_F_PROMPT)));
	expect(hpcc_opt_len(opt.nr) == len);
	hpcc_opt_encode(head, p[0], &opt);
	expect(!memcmp(head, p, sizeof(head)));
}

/* The first option of the kind with our ExID decides. */
static void syn(const u8 *opts, u32 len, u8 kind, u16 exid)
{
	struct list want = list_options(opts, len, kind);
	int caps = hpcc_syn_opt_find(opts, len, kind, exid);
	u8 again[HPCC_SYN_OPT_LEN];
	const u8 *p = NULL;
	int optlen = 0;

	for (int i = 0; i < want.nr && !p; i++) {
		p = opts + want.at[i];
		optlen = want.len[i];
		if (optlen < 4 || p[2] * 256 + p[3] != exid)
			p = NULL;
	}
	if (!p) {
		expect(caps == (want.broken ? -EINVAL : -ENOENT));
		return;
	}
	if (caps < 0) {
		expect(caps == -EINVAL && (optlen != HPCC_SYN_OPT_LEN ||
					   p[4] >> 4 != HPCC_OPT_VERSION));
		return;
	}
	expect(optlen == HPCC_SYN_OPT_LEN && caps <= 0xfff);
	hpcc_syn_opt_encode(again, p[0], exid, caps);
	expect(!memcmp(again, p, sizeof(again)));
}

static void walk(const u8 *opts, u32 len, u8 kind)
{
	struct list want = list_options(opts, len, kind);
	u32 pos = 0;
	int i, at;

	for (i = 0; (at = hpcc_opt_next(opts, len, &pos, kind)) >= 0; i++) {
		u8 *option;

		expect(i < want.nr && at == want.at[i]);
		expect(pos == (u32)at + want.len[i] && pos <= len);
		option = fuzz_copy(opts + at, want.len[i]);
		telemetry(option, want.len[i]);
		free(option);
	}
	expect(i == want.nr);
	expect(at == (want.broken ? -EINVAL : -ENOENT));
	expect(want.broken || pos == len);
}

/* The tag of feedback: only in the last feedback, and only with a length of 16, 24 and so on. */
static void sign(const u8 *opts, u32 len, u8 kind)
{
	struct list l = list_options(opts, len, kind);
	const struct hpcc_moment m = {};
	int first = -1, want = -ENOENT, tag;
	struct hpcc_signed s;
	u8 count = 0xff;
	u32 sum = 12;

	for (int i = 0; i < l.nr && want != -EINVAL; i++) {
		const u8 *p = opts + l.at[i];
		bool tagged = l.len[i] >= 16 && l.len[i] % 8 == 0;

		if (l.len[i] < 4 || (p[2] >> 5 != HPCC_OPT_ECHO && p[2] >> 5 != HPCC_OPT_REPORT &&
				     p[2] >> 5 != HPCC_OPT_IDENTIFY_ECHO))
			continue;
		if (first < 0)
			first = l.at[i];
		if (want >= 0)
			want = -EINVAL;
		else if (tagged)
			want = l.at[i] + l.len[i] - 4;
		sum += l.len[i] - 4 * tagged;
	}
	if (first < 0)
		return;
	hpcc_signed_begin(&s, &m);
	tag = hpcc_signed_collect(&s, opts, len, first, kind, &count);
	expect(tag == (l.broken ? -EINVAL : want));
	expect(s.len <= sizeof(s.bytes));
	if (tag < 0)
		return;
	expect(s.len == sum && count <= 15);
	hpcc_tsval(opts, len);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	u8 kind = fuzz_take(&in, 1);
	u16 exid = fuzz_take(&in, 2);
	u32 len = min_t(size_t, in.size, OPTS_MAX);
	u8 *opts = fuzz_copy(in.p, len);

	/* hpcc_opt_next() is called only for our kinds, not for timestamps. */
	if (kind == FUZZ_TIMESTAMPS)
		kind = FUZZ_KIND;
	walk(opts, len, kind);
	syn(opts, len, kind, exid);
	sign(opts, len, kind);
	free(opts);
	/* Test a single option, up to the maximum of its length byte. */
	if (in.size >= 2 && in.size <= 255) {
		opts = fuzz_copy(in.p, in.size);
		opts[1] = in.size;
		telemetry(opts, in.size);
		free(opts);
	}
	return 0;
}
