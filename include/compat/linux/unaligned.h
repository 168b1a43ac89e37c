/* SPDX-License-Identifier: GPL-2.0 */
/* 6.12 gave the header this name. The compiler searches this folder after the kernel's own. */
#include <asm/unaligned.h>
