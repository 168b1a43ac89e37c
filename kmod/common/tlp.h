/* SPDX-License-Identifier: GPL-2.0 */
/* Tail loss probes (RFC 8985). */
#ifndef _HPCC_COMMON_TLP_H
#define _HPCC_COMMON_TLP_H

#include <net/tcp.h>

/**
 * struct hpcc_tlp - a tail loss probe in flight; socket lock
 * @high_seq: tlp_high_seq when an ACK arrived, if that ACK may show a repaired loss; otherwise 0
 * @dsacks: dsack_dups at that time
 *
 * TCP enters TCP_CA_CWR for ECE, and also for a loss that a probe repaired. At that time TCP has
 * already cleared its state of the probe.
 */
struct hpcc_tlp {
	u32 high_seq;
	u32 dsacks;
};

/**
 * hpcc_tlp_ack() - store the state of the probe that an ACK may acknowledge
 * @tlp: filled in
 * @tp: socket; call this from in_ack_event()
 */
static inline void hpcc_tlp_ack(struct hpcc_tlp *tlp,
				const struct tcp_sock *tp)
{
	/* With a DSACK, both the segment and its copy have arrived. */
	tlp->high_seq = tp->tlp_retrans && tp->dsack_dups == tlp->dsacks ?
			tp->tlp_high_seq : 0;
	tlp->dsacks = tp->dsack_dups;
}

/**
 * hpcc_tlp_repaired() - whether TCP_CA_CWR is for a loss, not for ECE
 * @tlp: state from this ACK
 * @tp: socket; call this from set_state(), once per state
 */
static inline bool hpcc_tlp_repaired(struct hpcc_tlp *tlp,
				     const struct tcp_sock *tp)
{
	bool repaired = tlp->high_seq &&
			after(tp->snd_una, tlp->high_seq);

	tlp->high_seq = 0;
	return repaired;
}

#endif /* _HPCC_COMMON_TLP_H */
