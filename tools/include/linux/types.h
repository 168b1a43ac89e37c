/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's short type names, on top of the system's <linux/types.h>. */
#ifndef _SHIM_LINUX_TYPES_H
#define _SHIM_LINUX_TYPES_H

#include_next <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8	u8;
typedef __u16	u16;
typedef __u32	u32;
typedef __u64	u64;
typedef __s32	s32;
typedef __s64	s64;

#define __aligned(n)	__attribute__((aligned(n)))

#endif /* _SHIM_LINUX_TYPES_H */
