/* SPDX-License-Identifier: GPL-2.0 */
/* Tail loss probes (RFC 8985). */
#ifndef _HPCC_COMMON_TLP_H
#define _HPCC_COMMON_TLP_H

#include <net/tcp.h>

/* A tail loss probe in flight; socket lock. TCP enters TCP_CA_CWR for ECE, and for a loss that a
 * probe repaired, after it has cleared its state of the probe.
 */
struct hpcc_tlp {
	u32 high_seq;	/* tlp_high_seq if this ACK may show a repaired loss, or 0 */
	u32 dsacks;	/* dsack_dups at that time */
};

/* In in_ack_event(): store the state of the probe that an ACK may acknowledge. */
static inline void hpcc_tlp_ack(struct hpcc_tlp *tlp, const struct tcp_sock *tp)
{
	/* With a DSACK, both the segment and its copy have arrived. */
	tlp->high_seq = tp->tlp_retrans && tp->dsack_dups == tlp->dsacks ? tp->tlp_high_seq : 0;
	tlp->dsacks = tp->dsack_dups;
}

/* In set_state(), once per state: whether TCP_CA_CWR is for a repaired loss, not for ECE. */
static inline bool hpcc_tlp_repaired(struct hpcc_tlp *tlp, const struct tcp_sock *tp)
{
	bool repaired = tlp->high_seq && after(tp->snd_una, tlp->high_seq);

	tlp->high_seq = 0;
	return repaired;
}

#endif /* _HPCC_COMMON_TLP_H */
