/* SPDX-License-Identifier: GPL-2.0 */
/* Values of a connection for ss and getsockopt(TCP_CC_INFO), in the attribute of bbr. */
#ifndef _HPCC_COMMON_INFO_H
#define _HPCC_COMMON_INFO_H

#include <linux/inet_diag.h>
#include <linux/math64.h>

/* Whether the caller of get_info requests the attribute, and the name of the congestion control: a
 * caller without the name would take the values for those of bbr. inet_diag requests the attribute
 * with the bit of Vegas.
 */
static inline bool hpcc_info_is_wanted(u32 ext)
{
	return ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1)) &&
	       ext & 1 << (INET_DIAG_CONG - 1);
}

/* Write the attribute: @bw in bytes/s, min_rtt rounded up to us, gains in 1/256. */
static inline size_t hpcc_info_put(union tcp_cc_info *info, int *attr, u64 bw, u64 rtt_ns,
				   u64 pacing_gain, u64 cwnd_gain)
{
	*attr = INET_DIAG_BBRINFO;
	info->bbr = (struct tcp_bbr_info){
		.bbr_bw_lo = lower_32_bits(bw),
		.bbr_bw_hi = upper_32_bits(bw),
		.bbr_min_rtt = min_t(u64, DIV_ROUND_UP_ULL(rtt_ns, NSEC_PER_USEC), U32_MAX),
		.bbr_pacing_gain = min_t(u64, pacing_gain, U32_MAX),
		.bbr_cwnd_gain = min_t(u64, cwnd_gain, U32_MAX),
	};
	return sizeof(info->bbr);
}

#endif /* _HPCC_COMMON_INFO_H */
