/* SPDX-License-Identifier: GPL-2.0 */
/* 6.12 moved it here. This folder is searched after the kernel's own. */
#include <asm/unaligned.h>
