/* SPDX-License-Identifier: GPL-2.0 */
/* Bursts and pacing (pace.c). */
#ifndef _HPCC_COMMON_PACE_H
#define _HPCC_COMMON_PACE_H

#include <net/tcp.h>

/**
 * struct hpcc_burst - how much may leave at once; socket lock
 * @segs: the most, segments
 * @saved_gso_segs: sk_gso_max_segs as the route set it
 * @least: segments that a burst may have, as far as HPCC_BURST_PART_SHIFT allows
 * @shift: the most of a window of cwnd segments: cwnd >> shift, but at least @least
 * @paced: hpcc_pacing_begin() made TCP pace
 */
struct hpcc_burst {
	u16 segs;
	u16 saved_gso_segs;
	u16 least;
	u8 shift;
	bool paced;
};

/* No burst is longer than cwnd >> HPCC_BURST_PART_SHIFT, or 1, for @least's sake. */
#define HPCC_BURST_PART_SHIFT	3

void hpcc_burst_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		     u32 shift);
void hpcc_pacing_begin(struct sock *sk, struct hpcc_burst *burst);
void hpcc_hand_over(struct sock *sk, struct hpcc_burst *burst);
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd,
		     bool tight);
void hpcc_deny_credit(struct tcp_sock *tp, const struct hpcc_burst *burst,
		      const struct rate_sample *rs);
void hpcc_pace_at(struct tcp_sock *tp, u64 ns);
void hpcc_pace_again(struct tcp_sock *tp, u64 R_before, u64 R);

#endif /* _HPCC_COMMON_PACE_H */
