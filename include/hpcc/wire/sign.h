/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Signed feedback: the bytes that a tag covers, the keys of a connection, and the order of tags.
 * Documentation/protocol.rst has the format. The functions use no skb, policy or clock.
 */
#ifndef _HPCC_WIRE_SIGN_H
#define _HPCC_WIRE_SIGN_H

#include <linux/siphash.h>
#include <linux/string.h>
#include <hpcc/wire/record.h>

/* Number of tags with the same position and TSval: the count has 4 bits. */
#define HPCC_TAG_COUNTS		16

/* When a segment with feedback left its sender. */
struct hpcc_moment {
	u64 pos;	/* ACK number, from the first data byte on: it never wraps */
	u32 tsval;	/* TSval of the segment; 0: the segment has no timestamps */
	u8 count;	/* number of this tag among those with the same @pos and @tsval */
};

/* The bytes that a tag covers. */
struct hpcc_signed {
	u8 bytes[12 + 40] __aligned(8);	/* position, TSval, options */
	u32 len;
};

/* Begin with the bytes in front of the options. */
static inline void hpcc_signed_begin(struct hpcc_signed *s, const struct hpcc_moment *m)
{
	put_unaligned_be64(m->pos, s->bytes);
	put_unaligned_be32(m->tsval, s->bytes + 8);
	s->len = 12;
}

static inline void hpcc_signed_add(struct hpcc_signed *s, const u8 *p, u32 len)
{
	memcpy(s->bytes + s->len, p, len);
	s->len += len;
}

static inline u32 hpcc_signed_tag(const struct hpcc_signed *s, const siphash_key_t *key)
{
	return siphash(s->bytes, s->len, key);
}

/* Collect the feedback that a segment's tag covers. @opts: @len option bytes, at most 40. @at:
 * offset of the first feedback. @count: result: the count of the tag. Return: offset of the tag;
 * -ENOENT: there is no tag; -EINVAL: it does not end the last feedback, or an option is malformed.
 */
static inline int hpcc_signed_collect(struct hpcc_signed *s, const u8 *opts, u32 len, u32 at,
				      u8 kind, u8 *count)
{
	int tag = -ENOENT;
	u32 end = at;
	int err;

	while (!(err = hpcc_opt_step(opts, len, &at, &end))) {
		if (opts[at] != kind || !hpcc_opt_is_feedback(opts + at, end - at))
			continue;
		if (tag >= 0)
			return -EINVAL;
		if (hpcc_opt_has_tag(end - at)) {
			tag = end - HPCC_TAG_LEN;
			*count = opts[at + 3] & 0xf;
		}
		hpcc_signed_add(s, opts + at, (tag >= 0 ? (u32)tag : end) - at);
	}
	return err == -ENOENT ? tag : -EINVAL;
}

/* Let the last option carry a count and a tag. @p: @len bytes of feedback, well-formed options
 * without others between them, and HPCC_TAG_LEN free bytes.
 */
static inline void hpcc_signed_write(struct hpcc_signed *s, u8 *p, u32 len, u8 count,
				     const siphash_key_t *key)
{
	u8 *last = p;

	while (last + last[1] < p + len)
		last += last[1];
	last[1] += HPCC_TAG_LEN;
	last[3] |= count;
	hpcc_signed_add(s, p, len);
	put_unaligned_be32(hpcc_signed_tag(s, key), p + len);
}

/* The key of a connection and a direction. @isn: initial sequence numbers, of the signer and of the
 * other end. @active: the signer sent the SYN, not the SYN-ACK.
 */
static inline siphash_key_t hpcc_sign_key(const siphash_key_t *shared, const u32 isn[2],
					  bool active)
{
	u8 in[16] __aligned(8);
	siphash_key_t key;
	u32 i;

	put_unaligned_be32(isn[0], in);
	put_unaligned_be32(isn[1], in + 4);
	memcpy(in + 8, "HPCCtag", 7);
	for (i = 0; i < 2; i++) {
		in[15] = 2 * active + i;
		key.key[i] = siphash(in, sizeof(in), shared);
	}
	return key;
}

/* The order of two moments: negative, 0, or positive if @a is later. TSval wraps, so a moment with
 * the same position must be at most half of its range away.
 */
static inline int hpcc_moment_cmp(const struct hpcc_moment *a, const struct hpcc_moment *b)
{
	if (a->pos != b->pos)
		return a->pos < b->pos ? -1 : 1;
	if (a->tsval != b->tsval)
		return (s32)(a->tsval - b->tsval) < 0 ? -1 : 1;
	return a->count - b->count;
}

/* TSval of a segment; 0 if it has no timestamps. @opts, @len: option bytes of its TCP header. */
static inline u32 hpcc_tsval(const u8 *opts, u32 len)
{
	const u32 ts_kind = 8, ts_len = 10;
	u32 at, end = 0;

	if (hpcc_opts_usual(opts, len))
		return get_unaligned_be32(opts + 4);
	while (!hpcc_opt_step(opts, len, &at, &end))
		if (opts[at] == ts_kind && end - at == ts_len)
			return get_unaligned_be32(opts + at + 2);
	return 0;
}

#endif /* _HPCC_WIRE_SIGN_H */
