/* SPDX-License-Identifier: GPL-2.0 */
/* Reads without the socket lock. */
#ifndef _HPCC_COMMON_PEEK_H
#define _HPCC_COMMON_PEEK_H

#include <linux/compiler.h>

/* Without the socket lock, look at what is written under it plainly, by TCP or by
 * algo.h: the value may be slightly old, but never torn, as a CPU reads an aligned word
 * in one access. The modules need 64 bits for that.
 */
#define hpcc_peek(x)	data_race(READ_ONCE(x))

#endif /* _HPCC_COMMON_PEEK_H */
