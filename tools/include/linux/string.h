/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel has there of the C library. */
#ifndef _SHIM_LINUX_STRING_H
#define _SHIM_LINUX_STRING_H

#include <string.h>

#endif /* _SHIM_LINUX_STRING_H */
