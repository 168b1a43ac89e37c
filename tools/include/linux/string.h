/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of the C library that the kernel's header has. */
#ifndef _SHIM_LINUX_STRING_H
#define _SHIM_LINUX_STRING_H

#include <string.h>

#endif /* _SHIM_LINUX_STRING_H */
