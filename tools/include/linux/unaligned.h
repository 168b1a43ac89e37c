/* SPDX-License-Identifier: GPL-2.0 */
/* As in the kernel: one load or store, and a byte swap. */
#ifndef _SHIM_LINUX_UNALIGNED_H
#define _SHIM_LINUX_UNALIGNED_H

#include <asm/byteorder.h>
#include <linux/types.h>

#define get_unaligned(ptr) ({						\
	__typeof__(ptr) _ptr = (ptr);					\
	const struct { __typeof__(*_ptr) x; } __attribute__((packed))	\
		*_packed = (const void *)_ptr;				\
	_packed->x;							\
})

#define put_unaligned(val, ptr) do {					\
	__typeof__(ptr) _ptr = (ptr);					\
	struct { __typeof__(*_ptr) x; } __attribute__((packed))		\
		*_packed = (void *)_ptr;				\
	_packed->x = (val);						\
} while (0)

static inline u16 get_unaligned_be16(const void *p)
{
	return __be16_to_cpu(get_unaligned((const __be16 *)p));
}

static inline u32 get_unaligned_be32(const void *p)
{
	return __be32_to_cpu(get_unaligned((const __be32 *)p));
}

static inline u64 get_unaligned_be64(const void *p)
{
	return __be64_to_cpu(get_unaligned((const __be64 *)p));
}

static inline void put_unaligned_be16(u16 val, void *p)
{
	put_unaligned(__cpu_to_be16(val), (__be16 *)p);
}

static inline void put_unaligned_be32(u32 val, void *p)
{
	put_unaligned(__cpu_to_be32(val), (__be32 *)p);
}

static inline void put_unaligned_be64(u64 val, void *p)
{
	put_unaligned(__cpu_to_be64(val), (__be64 *)p);
}

#endif /* _SHIM_LINUX_UNALIGNED_H */
