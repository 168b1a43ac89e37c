/* SPDX-License-Identifier: GPL-2.0 */
/* Reads without the socket lock. */
#ifndef _HPCC_COMMON_PEEK_H
#define _HPCC_COMMON_PEEK_H

#include <linux/compiler.h>

/* Read without the socket lock a value that TCP or algo.h writes under it with plain writes. The
 * value may be slightly old, but is never torn: a CPU reads an aligned word in one access. For this
 * the modules need a 64-bit kernel.
 */
#define hpcc_peek(x)	data_race(READ_ONCE(x))

#endif /* _HPCC_COMMON_PEEK_H */
