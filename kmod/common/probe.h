/* SPDX-License-Identifier: GPL-2.0 */
/* Tail loss probes (RFC 8985). */
#ifndef _HPCC_COMMON_PROBE_H
#define _HPCC_COMMON_PROBE_H

#include <net/tcp.h>

/**
 * struct hpcc_probe - a probe on its way; socket lock
 * @high_seq: tlp_high_seq when an ACK came, if that ACK may tell of a loss; else 0
 * @dsacks: dsack_dups then
 *
 * TCP sets the state TCP_CA_CWR for a loss that a probe has repaired as it does
 * for ECE. By then it has cleared what it knew of the probe.
 */
struct hpcc_probe {
	u32 high_seq;
	u32 dsacks;
};

/**
 * hpcc_probe_ack() - note the probe that an ACK may be of
 * @probe: filled in
 * @tp: socket; to be called from in_ack_event()
 */
static inline void hpcc_probe_ack(struct hpcc_probe *probe,
				  const struct tcp_sock *tp)
{
	/* With a DSACK, the segment and its copy have both arrived. */
	probe->high_seq = tp->tlp_retrans && tp->dsack_dups == probe->dsacks ?
			  tp->tlp_high_seq : 0;
	probe->dsacks = tp->dsack_dups;
}

/**
 * hpcc_probe_repaired() - whether TCP_CA_CWR is for a loss, not for ECE
 * @probe: as of this ACK
 * @tp: socket; to be called from set_state(), once for each state
 */
static inline bool hpcc_probe_repaired(struct hpcc_probe *probe,
				       const struct tcp_sock *tp)
{
	bool repaired = probe->high_seq &&
			after(tp->snd_una, probe->high_seq);

	probe->high_seq = 0;
	return repaired;
}

#endif /* _HPCC_COMMON_PROBE_H */
