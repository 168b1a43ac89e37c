/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_MINMAX_H
#define _SHIM_LINUX_MINMAX_H

#define min_t(type, x, y) ({			\
	type _min_x = (x);			\
	type _min_y = (y);			\
	_min_x < _min_y ? _min_x : _min_y;	\
})

#define max_t(type, x, y) ({			\
	type _max_x = (x);			\
	type _max_y = (y);			\
	_max_x > _max_y ? _max_x : _max_y;	\
})

/* As in the kernel, operands of different types are a compile error. */
#define min(x, y) ({							\
	_Static_assert(__builtin_types_compatible_p(__typeof__(x),	\
						    __typeof__(y)),	\
		       "min() of different types");			\
	min_t(__typeof__(x), x, y);					\
})

#define max(x, y) ({							\
	_Static_assert(__builtin_types_compatible_p(__typeof__(x),	\
						    __typeof__(y)),	\
		       "max() of different types");			\
	max_t(__typeof__(x), x, y);					\
})

#define clamp_t(type, val, lo, hi) \
	min_t(type, max_t(type, val, lo), hi)

#endif /* _SHIM_LINUX_MINMAX_H */
