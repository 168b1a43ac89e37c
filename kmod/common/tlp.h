/* SPDX-License-Identifier: GPL-2.0 */
/* Tail loss probes (RFC 8985). */
#ifndef _HPCC_COMMON_TLP_H
#define _HPCC_COMMON_TLP_H

#include <net/tcp.h>

/**
 * struct hpcc_tlp - a probe on its way; socket lock
 * @high_seq: tlp_high_seq when an ACK came, if that ACK may tell of a loss; else 0
 * @dsacks: dsack_dups then
 *
 * TCP sets the state TCP_CA_CWR for a loss that a probe has repaired as it does
 * for ECE. By then it has cleared what it knew of the probe.
 */
struct hpcc_tlp {
	u32 high_seq;
	u32 dsacks;
};

/**
 * hpcc_tlp_ack() - note the probe that an ACK may be of
 * @tlp: filled in
 * @tp: socket; to be called from in_ack_event()
 */
static inline void hpcc_tlp_ack(struct hpcc_tlp *tlp,
				const struct tcp_sock *tp)
{
	/* With a DSACK, the segment and its copy have both arrived. */
	tlp->high_seq = tp->tlp_retrans && tp->dsack_dups == tlp->dsacks ?
			tp->tlp_high_seq : 0;
	tlp->dsacks = tp->dsack_dups;
}

/**
 * hpcc_tlp_repaired() - whether TCP_CA_CWR is for a loss, not for ECE
 * @tlp: as of this ACK
 * @tp: socket; to be called from set_state(), once for each state
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
