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

/* A connection sends a segment of @segs packets whose option is @opt, and leaves the option out
 * whenever it may. Return: whether it left the option out.
 */
static bool drop(struct hpcc_spare *last, const u8 *opt, u32 *sent, u32 segs)
{
	u32 before = *sent;
	bool may;

	*sent += segs;
	may = hpcc_accecn_may_drop(last, opt, before, *sent);
	if (may)
		last->segs = *sent;
	return may;
}

TEST(accecn_may_drop__in_turns)
{
	struct hpcc_spare last = { 0 };
	u8 opt[] = ACCECN;
	u32 sent = 0;

	/* the first two stay, then every second one */
	for (u32 i = 0; i < 10; i++) {
		opt[10]++;
		assert_int_equal(drop(&last, opt, &sent, 1 + i % 3), i >= 2 && i % 2 == 0);
	}
	/* after a segment in between, which nobody has looked at */
	assert_true(drop(&last, opt, &sent, 1));
	sent++;
	assert_true(drop(&last, opt, &sent, 1));
}

TEST(accecn_may_drop__changes_stay_twice)
{
	static const u32 bytes[] = { 2, 4, 5, 7 };	/* of ECT(1) and CE */
	u8 opt[] = ACCECN;

	for (u32 i = 0; i < ARRAY_SIZE(bytes); i++) {
		struct hpcc_spare last = { 0 };
		u32 sent = 0xfffffffd;

		assert_false(drop(&last, opt, &sent, 1));
		assert_false(drop(&last, opt, &sent, 1));
		assert_true(drop(&last, opt, &sent, 1));
		opt[bytes[i]]++;
		sent++;
		assert_false(drop(&last, opt, &sent, 1));
		assert_false(drop(&last, opt, &sent, 1));
		assert_true(drop(&last, opt, &sent, 1));
		/* a counter that grows in each segment */
		for (u32 j = 0; j < 5; j++) {
			opt[bytes[i]]++;
			assert_false(drop(&last, opt, &sent, 1));
		}
	}
}

TEST(sack_may_drop__after_two_segments_that_had_it)
{
	struct hpcc_spare last = { 0 };
	u8 block[] = "\xff\xff\xff\x10\0\0\0\x08";

	for (u32 i = 0; i < 300; i++) {
		assert_false(hpcc_sack_may_drop(&last, block));
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
