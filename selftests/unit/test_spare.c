// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/wire/spare.h>, in the order of its functions. */
#include <errno.h>

#include "test.h"
#include <hpcc/wire/spare.h>

#define TIMESTAMPS	"\x01\x01\x08\x0a\0\0\0\x01\0\0\0\x02"
#define ACCECN		"\xae\x0b\0\0\x01\0\0\x07\0\x05\x09"
#define SACK_BLOCK	"\x05\x0a\0\0\0\x01\0\0\0\x02"
#define SACK		"\x01\x01" SACK_BLOCK

/* Search in a copy on the heap, so that ASan detects a read beyond the end. */
static int find(const char *opts, u32 len)
{
	u8 *copy = malloc(len ? len : 1);
	int at;

	memcpy(copy, opts, len);
	at = hpcc_accecn_find(copy, len);
	free(copy);
	return at;
}

#define FIND(opts)	find(opts, sizeof(opts) - 1)

TEST(accecn_find__as_linux_writes_it)
{
	assert_int_equal(FIND(ACCECN "\x01"), 0);
	assert_int_equal(FIND(TIMESTAMPS ACCECN "\x01"), 12);
	assert_int_equal(FIND(TIMESTAMPS ACCECN "\x01" SACK), 12);
	assert_int_equal(FIND(""), -ENOENT);
	assert_int_equal(FIND(TIMESTAMPS SACK), -ENOENT);
}

TEST(accecn_find__other_forms_stay)
{
	/* no padding, or the next option in its place */
	assert_int_equal(FIND(TIMESTAMPS ACCECN), -ENOENT);
	assert_int_equal(FIND(TIMESTAMPS ACCECN SACK_BLOCK), -ENOENT);
	/* not at a multiple of 4 */
	assert_int_equal(FIND("\x01" ACCECN "\x01"), -ENOENT);
	/* one or two counters, or order 0 */
	assert_int_equal(FIND("\xae\x05\0\0\x01\x01\x01\x01"), -ENOENT);
	assert_int_equal(FIND("\xae\x08\0\0\x01\0\0\x07"), -ENOENT);
	assert_int_equal(FIND("\xac\x0b\0\0\x01\0\0\x07\0\x05\x09\x01"), -ENOENT);
	/* longer than the header */
	assert_int_equal(FIND(TIMESTAMPS "\xae\x0b\0\0"), -ENOENT);
}

/* A connection, and the number of its segments. */
struct sender {
	union hpcc_spare last;
	u32 sent, now_us, rtt_us;
};

/* Send a segment of @segs packets whose option is @opt, without the option whenever it may. Return:
 * whether it left without it.
 */
static bool drop(struct sender *s, const u8 *opt, u32 segs)
{
	u32 before = s->sent;
	bool may;

	s->sent += segs;
	may = hpcc_accecn_may_drop(&s->last, opt, before, s->sent, s->now_us, s->rtt_us);
	if (may)
		s->last.segs = s->sent;
	return may;
}

TEST(accecn_may_drop__in_turns)
{
	struct sender s = { .rtt_us = ~0U };
	u8 opt[] = ACCECN;

	/* the first three stay, then every second one */
	for (u32 i = 0; i < 11; i++) {
		opt[10]++;
		assert_int_equal(drop(&s, opt, 1 + i % 3), i >= 3 && i % 2);
	}
	/* after a segment in between, which nobody has looked at */
	s.sent++;
	assert_true(drop(&s, opt, 1));
	s.sent++;
	assert_true(drop(&s, opt, 1));
}

TEST(accecn_may_drop__changes_stay_twice)
{
	static const u32 bytes[] = { 3, 4, 6, 7 };	/* of ECT(1) and CE */
	u8 opt[] = ACCECN;

	for (u32 i = 0; i < ARRAY_SIZE(bytes); i++) {
		struct sender s = { .sent = 0xfffffffd, .rtt_us = ~0U };

		for (u32 j = 0; j < HPCC_ACCECN_LEAST; j++)
			assert_false(drop(&s, opt, 1));
		assert_true(drop(&s, opt, 1));
		opt[bytes[i]]++;
		s.sent++;
		assert_false(drop(&s, opt, 1));
		assert_false(drop(&s, opt, 1));
		assert_true(drop(&s, opt, 1));
		/* a counter that grows in each segment */
		for (u32 j = 0; j < 5; j++) {
			opt[bytes[i]]++;
			assert_false(drop(&s, opt, 1));
		}
	}
}

/* A counter of CE that grows by any number of bytes of a packet has changed. */
TEST(accecn_may_drop__each_length_is_a_change)
{
	u8 opt[] = ACCECN;

	for (u32 grows = 1; grows < 10000; grows++) {
		struct sender s = { .rtt_us = ~0U };

		for (u32 j = 0; j < 5; j++) {
			put_unaligned_be16(j * grows, opt + 6);
			assert_false(drop(&s, opt, 1));
		}
	}
}

/* RFC 9768, 3.2.3.3: in each RTT three ACKs carry the option, or all if there are fewer. */
TEST(accecn_may_drop__three_in_each_rtt)
{
	u8 opt[] = ACCECN;

	for (u32 per_rtt = 1; per_rtt < 12; per_rtt++) {
		struct sender s = { .now_us = 0xfffff000, .rtt_us = 10000 };

		for (u32 rtt = 0; rtt < 2000; rtt++) {
			u32 stayed = 0;

			s.now_us += s.rtt_us - 10 * per_rtt;
			for (u32 i = 0; i < per_rtt; i++) {
				s.now_us += 10;
				stayed += !drop(&s, opt, 1);
			}
			assert_true(stayed >= min(per_rtt, 3U) && stayed <= per_rtt / 2 + 2);
		}
		/* The RTT is not known yet. */
		s.rtt_us = 0;
		for (u32 i = 0; i < 9; i++)
			assert_false(drop(&s, opt, 1));
	}
}

TEST(sack_may_drop__after_three_segments_that_had_it)
{
	union hpcc_spare last = { .word = 0 };
	u8 block[] = "\xff\xff\xff\x10\0\0\0\x08";

	for (u32 i = 0; i < 300; i++) {
		for (u32 j = 0; j < HPCC_SACK_LEAST; j++)
			assert_false(hpcc_sack_may_drop(&last, block));
		/* in turns */
		assert_true(hpcc_sack_may_drop(&last, block));
		assert_false(hpcc_sack_may_drop(&last, block));
		assert_true(hpcc_sack_may_drop(&last, block));
		/* another edge */
		block[i % 2 ? 3 : 7]++;
	}
}

/* Search in a copy on the heap. Return: the length of the blocks; @at: offset of the option */
static u32 more(const char *opts, u32 len, u32 *at)
{
	u8 *copy = malloc(len);
	u32 n;

	memcpy(copy, opts, len);
	n = hpcc_sack_more(copy, len, at);
	free(copy);
	return n;
}

#define MORE(opts, at)	more(opts, sizeof(opts) - 1, at)
#define TWO		"\x01\x01\x05\x12"
#define BLOCK(from, to)	"\xff\xff\xff" from "\0\0\0" to

TEST(sack_more__blocks_behind_the_first)
{
	u32 at = 0;

	assert_int_equal(MORE(TIMESTAMPS TWO BLOCK("\x50", "\x09") BLOCK("\x10", "\x08"), &at), 8);
	assert_int_equal(at, 14);
	/* the second block is the later one */
	assert_int_equal(MORE("\x01\x01\x05\x1a" BLOCK("\x10", "\x02") BLOCK("\x50", "\x09")
			      BLOCK("\x60", "\x09"), &at), 16);
	assert_int_equal(at, 2);
}

TEST(sack_more__must_stay)
{
	u32 at = 7;

	assert_int_equal(MORE(TIMESTAMPS, &at), 0);
	assert_int_equal(MORE(TIMESTAMPS SACK, &at), 0);
	/* a D-SACK: the first block is within the second one, or equal to it */
	assert_int_equal(MORE(TWO BLOCK("\x50", "\x08") BLOCK("\x50", "\x09"), &at), 0);
	assert_int_equal(MORE(TWO BLOCK("\x50", "\x09") BLOCK("\x50", "\x09"), &at), 0);
	/* not as Linux writes it, or malformed */
	assert_int_equal(MORE("\x05\x12" BLOCK("\x50", "\x09") BLOCK("\x10", "\x08"), &at), 0);
	assert_int_equal(MORE("\x01\x01\x05\x13" BLOCK("\x50", "\x09") BLOCK("\x10", "\x08") "\0",
			      &at), 0);
	assert_int_equal(MORE(TWO BLOCK("\x50", "\x09"), &at), 0);
	assert_int_equal(at, 7);
}
