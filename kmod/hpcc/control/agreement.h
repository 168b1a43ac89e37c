/* SPDX-License-Identifier: GPL-2.0 */
/* Which connections agreed to telemetry (agreement.c). */
#ifndef _HPCC_CONTROL_AGREEMENT_H
#define _HPCC_CONTROL_AGREEMENT_H

#include <linux/in6.h>
#include <net/tcp.h>
#include <hpcc/wire/record.h>

#include "packet/arrival.h"
#include "packet/segment.h"

/**
 * struct hpcc_tuple - a connection as this host sees it
 * @laddr: local address; an IPv4 address is in mapped IPv6 form
 * @raddr: remote address, in the form of @laddr
 * @lport: local port
 * @rport: remote port
 */
struct hpcc_tuple {
	struct in6_addr laddr;
	struct in6_addr raddr;
	__be16 lport;
	__be16 rport;
};

/**
 * struct hpcc_note - one handshake
 * @key: keyed hash of connection and IRS; 0: free; hpcc_note_seen() reads it without the lock
 * @stamp: low half of jiffies when the note was written
 * @prior_hold: 0 for a new connection; for one that left hpcc, 1 + the minimum number of round
 *	trips of its next classic response (hpcc_fallback.hold)
 * @other: the option's kind is HPCC_OPT_KIND_OTHER, not HPCC_OPT_KIND_DEFAULT
 * @caps: HPCC_CAP_* of the peer; 0: not known yet
 * @done: both ends carried the option; false: only the SYN did
 */
struct hpcc_note {
	u64	key;
	u32	stamp;
	u32	prior_hold : 21;
	u32	other : 1;
	u32	caps : 9;
	u32	done : 1;
};

/**
 * hpcc_note_kind() - kind of the option in a note
 * @note: the note
 */
static inline u8 hpcc_note_kind(struct hpcc_note note)
{
	return note.other ? HPCC_OPT_KIND_OTHER : HPCC_OPT_KIND_DEFAULT;
}

void hpcc_agreement_init(void);
void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple);

void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
		      struct hpcc_note note, const struct sock *payer);
struct hpcc_note hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
				    u32 irs);
void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
		     struct hpcc_note note, const struct sock *payer);
struct hpcc_note hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
				 const struct hpcc_arrival *in);

u16 hpcc_agreed(const struct sock *sk, u32 *prior_hold, u8 *kind);
void hpcc_agreement_save(const struct sock *sk, u32 prior_hold, u16 caps, u8 kind);

#endif /* _HPCC_CONTROL_AGREEMENT_H */
