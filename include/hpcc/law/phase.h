/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Selection of the hops that the next request on a long path addresses.
 *
 * Hops p n + 1 .. p n + n write records into a request with n slots and phase p. Requests of one
 * connection differ in n: a request that shares its header with an echo has one slot. So the sender
 * stores the next hop to address, and each request addresses a range of hops that contains this
 * hop. A round over H hops then takes
 *
 *	ceil(H / n) requests of n slots each, at most H in any mixture
 *
 * if requests that address a hop beyond HPCC_PHASES have two slots or more: with one slot the 3
 * bits of the phase cannot address a later hop.
 */
#ifndef _HPCC_LAW_PHASE_H
#define _HPCC_LAW_PHASE_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/types.h>
#include <hpcc/wire/record.h>

#define HPCC_PHASES	(HPCC_OPT_F_PHASE + 1)

/* The phase of the next request, 0 .. HPCC_PHASES - 1. @next_hop: next hop to request in this
 * round, from 0 on; updated. @hops: hops of the path, 0 .. HPCC_HOPS_MAX. @nr: slots of the
 * request, 1 .. HPCC_OPT_RECORDS_MAX. If no phase with @nr slots can address @next_hop, a new round
 * begins.
 */
static inline u32 hpcc_phase_next(u8 *next_hop, u32 hops, u32 nr)
{
	u32 end = nr;
	u32 phase = 0;

	while (end <= *next_hop) {
		end += nr;
		phase++;
	}
	if (phase >= HPCC_PHASES) {
		end = nr;
		phase = 0;
	}
	*next_hop = end < hops ? end : 0;
	return phase;
}

/* Whether the next request needs more than one slot. */
static inline bool hpcc_phase_needs_slots(u8 next_hop)
{
	return next_hop >= HPCC_PHASES;
}

/* Hops that a request addressed but that wrote no record, as a bit mask: hop h in bit h - 1. @opt:
 * head of the request, as it arrived. @written: bit mask of the hops that wrote a record. @full: no
 * slot was left, so hops after the last record may have had no slot: exclude them.
 */
static inline u32 hpcc_phase_quiet(const struct hpcc_opt *opt, u32 written, bool full)
{
	u32 first = (opt->flags & HPCC_OPT_F_PHASE) * opt->nr;
	u32 end = full ? fls(written) : opt->hops;

	return (BIT(end) - 1) & ~(BIT(first) - 1) & ~written;
}

#endif /* _HPCC_LAW_PHASE_H */
