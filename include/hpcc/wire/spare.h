/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options of TCP that a segment may leave without, to make room for ours. They leave at most in
 * every second segment.
 *
 * The AccECN option of RFC 9768, which TCP writes into each segment from Linux 6.18 on if both ends
 * negotiated AccECN, and tcp_ecn_option is 2 (the default) or 3. With 1 all options stay.
 * Beside timestamps it leaves 16 bytes, which is one record. Its counters are cumulative, and the
 * ACE field of the TCP header stays in each segment. So a segment may leave without it if these
 * rules of RFC 9768 hold:
 *
 *	3.2.3.2.1	The first ACK and the first data segment carry the option: the first option
 *			that is seen here stays.
 *	3.2.3.3		A changed counter of CE or ECT(1) is sent at once, and in the next segment.
 *			While only the counter of ECT(0) grows, every n-th ACK carries the option.
 *			Here n is 2 at most (packets before TSO), so the counter cannot grow by
 *			2^22 bytes in between. At least three ACKs per RTT carry the option, or
 *			all ACKs if there are fewer: in each RTT the first three options stay.
 *
 * SACK blocks behind the first one. Beside timestamps, two blocks leave no room for a record. The
 * first block reports the newest segment (RFC 2018, section 4), so it stays. Other blocks leave
 * only after three segments have reported them, as section 4 requests: TCP compresses ACKs, so one
 * ACK may be the first to report two blocks (TCP_SACK_BLOCKS_EXPECTED), and the path may lose ACKs.
 * A peer that gets a block after a block of later data would assume reordering, and send data
 * again. A first block within the second one is a D-SACK (RFC 2883): both stay.
 *
 * The functions use no skb, policy or clock.
 */
#ifndef _HPCC_WIRE_SPARE_H
#define _HPCC_WIRE_SPARE_H

#include <hpcc/wire/record.h>

/* Order 1: the counters of ECT(1), CE and ECT(0), 3 bytes each. The order that Linux writes. */
#define HPCC_TCPOPT_ACCECN1	174
#define HPCC_ACCECN_LEN		11
#define HPCC_ACCECN_PADDED	12

#define HPCC_TCPOPT_SACK	5
#define HPCC_SACK_HEAD		2
#define HPCC_SACK_BLOCK		8

/* Segments of each RTT in which the AccECN option stays, and segments that report a SACK block
 * before it may leave.
 */
#define HPCC_ACCECN_LEAST	3
#define HPCC_SACK_LEAST		3

#define HPCC_SPARE_US_BITS	24
#define HPCC_SPARE_SEGS_BITS	6

/* The options of a connection so far, in one word: LOCAL_OUT reads and writes it without a lock,
 * and of two segments at the same time one may be forgotten. A change of the AccECN option is seen
 * one option later if the low 16 bits of CE + 3 ECT(1) stay the same. An option may stay although
 * it could be left out.
 */
union hpcc_spare {
	struct {
		/* AccECN: when the current RTT began, us, and options that stayed since then */
		u64 rtt_began	: HPCC_SPARE_US_BITS;
		u64 stayed	: 2;
		/* of the segments sent when an option was left out, or @bytes changed */
		u64 segs	: HPCC_SPARE_SEGS_BITS;
		/* CE + 3 ECT(1) of the last AccECN option that stayed, bytes */
		u64 bytes	: 16;
		/* hash of a SACK block, and segments that reported it, at most HPCC_SACK_LEAST */
		u64 block	: 14;
		u64 reported	: 2;
	};
	u64 word;
};

/* Find a complete AccECN option and its padding in the @len option bytes of a TCP header. Return:
 * its offset, a multiple of 4, or -ENOENT.
 */
static inline int hpcc_accecn_find(const u8 *opts, u32 len)
{
	u32 pos = 0;
	int at = hpcc_opt_next(opts, len, &pos, HPCC_TCPOPT_ACCECN1);

	if (at < 0 || at % 4 || pos - at != HPCC_ACCECN_LEN || pos == len ||
	    opts[pos] != HPCC_TCPOPT_NOP)
		return -ENOENT;
	return at;
}

/* Whether a segment may leave without its option @opt. @before, @after: number of segments that the
 * connection sent before this one, and with it. @now_us: time of any clock. @rtt_us: RTT; ~0 if no
 * data arrived: then only the first options of the connection must stay. If the option must stay,
 * remember it.
 */
static inline bool hpcc_accecn_may_drop(union hpcc_spare *last, const u8 *opt, u32 before,
					u32 after, u32 now_us, u32 rtt_us)
{
	/* The low 16 bits of the counters. */
	u16 bytes = get_unaligned_be16(opt + 6) + 3 * get_unaligned_be16(opt + 3);

	if (((now_us - last->rtt_began) & (BIT(HPCC_SPARE_US_BITS) - 1)) >= rtt_us) {
		last->rtt_began = now_us;
		last->stayed = 0;
	}
	if (bytes != last->bytes) {
		last->bytes = bytes;
		last->segs = after;
	} else if (last->stayed == HPCC_ACCECN_LEAST &&
		   (before & (BIT(HPCC_SPARE_SEGS_BITS) - 1)) != last->segs) {
		return true;
	}
	last->stayed += last->stayed < HPCC_ACCECN_LEAST;
	return false;
}

/* Find the SACK blocks behind the first one in the @len option bytes of a TCP header. @at: offset
 * of the option, a multiple of 4 plus 2, as TCP writes it. Return: the length of these blocks, a
 * multiple of 8; 0: none, or they must stay.
 */
static inline u32 hpcc_sack_more(const u8 *opts, u32 len, u32 *at)
{
	u32 end = 0;
	int start = hpcc_opt_next(opts, len, &end, HPCC_TCPOPT_SACK);
	const u8 *first, *second;

	if (start < 0 || start % 4 != HPCC_SACK_HEAD ||
	    end - start < HPCC_SACK_HEAD + 2 * HPCC_SACK_BLOCK ||
	    (end - start) % HPCC_SACK_BLOCK != HPCC_SACK_HEAD)
		return 0;
	first = opts + start + HPCC_SACK_HEAD;
	second = first + HPCC_SACK_BLOCK;
	if ((s32)(get_unaligned_be32(first) - get_unaligned_be32(second)) >= 0 &&
	    (s32)(get_unaligned_be32(second + 4) - get_unaligned_be32(first + 4)) >= 0)
		return 0;
	*at = start;
	return end - start - HPCC_SACK_HEAD - HPCC_SACK_BLOCK;
}

/* Whether a segment may leave without the SACK block @block and those behind it. */
static inline bool hpcc_sack_may_drop(union hpcc_spare *last, const u8 *block)
{
	u32 edges = get_unaligned_be32(block) + 3 * get_unaligned_be32(block + 4);
	/* As in hpcc_link_tag(). */
	u16 hash = edges * 0x9e3779b1U >> 18;
	bool may = hash == last->block && last->reported == HPCC_SACK_LEAST;

	if (hash != last->block)
		last->reported = 0;
	last->block = hash;
	if (may)
		last->reported--;
	else
		last->reported++;
	return may;
}

#endif /* _HPCC_WIRE_SPARE_H */
