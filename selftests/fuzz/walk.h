/* SPDX-License-Identifier: GPL-2.0 */
/* For fuzz targets that walk a packet's headers a second time: all bytes are readable, and ends are
 * pointers.
 */
#ifndef _FUZZ_WALK_H
#define _FUZZ_WALK_H

#include <hpcc/wire/stamp.h>

struct view {
	const u8 *start, *p, *end;
};

/* Whether the packet has n more bytes, and a switch may read them. */
static inline bool there(const struct view *v, long n)
{
	return v->end - v->p >= n && v->p + n - v->start <= HPCC_WALK_MAX_BYTES;
}

static inline u32 be16(const u8 *p)
{
	return p[0] * 256 + p[1];
}

#endif /* _FUZZ_WALK_H */
