/* SPDX-License-Identifier: GPL-2.0 */
/* MeasureInflight and NewAck of draft-miao-iccrg-hpccplus section 4.2 for all records of an ACK at
 * once, for the replay and for tests. The kernel calls their parts.
 */
#ifndef _TOOLS_DRAFT_H
#define _TOOLS_DRAFT_H

#include <hpcc/law/algo.h>

/* Lines 1-10, for @n records of links, in any order. */
static inline u32 hpcc_measure_inflight(struct hpcc_algo *a, const struct hpcc_params *p,
					const struct hpcc_sample *s, u32 n)
{
	struct hpcc_measure m = {};
	u32 i;

	for (i = 0; i < n; i++)
		hpcc_measure_link(a, p, &s[i], &m);
	return hpcc_measure_end(a, p, &m);
}

/* Lines 21-27. */
static inline u32 hpcc_new_ack(struct hpcc_algo *a, const struct hpcc_params *p,
			       const struct hpcc_sample *s, u32 n, u32 ack_seq, u32 snd_nxt)
{
	return hpcc_follow(a, p, hpcc_measure_inflight(a, p, s, n), ack_seq, snd_nxt,
			   hpcc_compute_wind);
}

#endif /* _TOOLS_DRAFT_H */
