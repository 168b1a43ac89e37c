/* SPDX-License-Identifier: GPL-2.0 */
/* B and T of a host (device.c), and the first window of a receiver (receive.c). */
#ifndef _HPCC_COMMON_DEVICE_H
#define _HPCC_COMMON_DEVICE_H

#include <linux/time64.h>
#include <net/sock.h>

#include "setup.h"

#define HPCC_DEFAULT_MBPS	10000	/* if the speed of a device is unknown */

extern struct hpcc_setup hpcc_device_setup;

u64 hpcc_host_rate(const struct sock *sk, u32 mbps);

/* A measured T is clamped to this range, for which the algorithms are designed. */
#define HPCC_T_MIN_NS		(NSEC_PER_USEC)
#define HPCC_T_MAX_NS		((u32)NSEC_PER_SEC)
/* T before it is measured. */
#define HPCC_T_DEFAULT_NS	(100 * NSEC_PER_USEC)

/* The longest handshake that counts as one round trip of a data center. */
#define HPCC_START_RTT_NS	(200 * NSEC_PER_USEC)

u32 hpcc_base_rtt_ns(const struct sock *sk, u32 configured_ns);
bool hpcc_starts_at_line_rate(const struct sock *sk, u32 configured_ns, u32 longest_ns);
void hpcc_open_window(struct sock *sk, u64 W_init_bytes);

#endif /* _HPCC_COMMON_DEVICE_H */
