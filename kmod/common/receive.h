/* SPDX-License-Identifier: GPL-2.0 */
/* The first window of a receiver (receive.c). */
#ifndef _HPCC_COMMON_RECEIVE_H
#define _HPCC_COMMON_RECEIVE_H

#include <net/sock.h>

void hpcc_open_window(struct sock *sk, u64 W_init_bytes);

#endif /* _HPCC_COMMON_RECEIVE_H */
