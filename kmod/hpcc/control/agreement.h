/* SPDX-License-Identifier: GPL-2.0 */
/* Which connections agreed to telemetry (agreement.c). */
#ifndef _HPCC_CONTROL_AGREEMENT_H
#define _HPCC_CONTROL_AGREEMENT_H

#include <linux/in6.h>

#include "packet/arrival.h"
#include "packet/segment.h"

/* A connection as this host sees it. */
struct hpcc_tuple {
	struct in6_addr laddr;	/* local address; an IPv4 address is in mapped IPv6 form */
	struct in6_addr raddr;	/* remote address, in the form of @laddr */
	__be16 lport;		/* local port */
	__be16 rport;		/* remote port */
};

/* One handshake. @prior_hold has the minimum number of round trips of the next classic response. */
struct hpcc_note {
	u64	key;			/* hash of connection and IRS; 0: free; lockless readers */
	u32	stamp;			/* low half of jiffies at the write */
	u32	prior_hold : 19;	/* 0: never ran hpcc; else 1 + next hpcc_fallback.hold */
	u32	other : 1;		/* the option kind is HPCC_OPT_KIND_OTHER */
	/* HPCC_CAP_* of the peer; 0: not known yet. HPCC_CAP_SIGNED: of both ends. In the note of
	 * our own SYN: HPCC_CAP_SIGNED if the SYN announced it.
	 */
	u32	caps : 11;
	u32	done : 1;		/* both ends carried the option; false: only the SYN did */
};

/* Bit of hpcc_note.caps and hpcc_flow.caps: we sent the SYN. */
#define HPCC_NOTE_ACTIVE	0x400
/* Bits of the wire that a note has. */
#define HPCC_NOTE_CAPS		(HPCC_NOTE_ACTIVE - 1)

static inline u8 hpcc_note_kind(struct hpcc_note note)
{
	return note.other ? HPCC_OPT_KIND_OTHER : HPCC_OPT_KIND_DEFAULT;
}

void hpcc_agreement_init(void);
void hpcc_agreement_exit(struct hpcc_net *hn);
void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple);

void hpcc_agree_write(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
		      struct hpcc_note note, const struct sock *payer);
struct hpcc_note hpcc_agree_read(const struct net *net, const struct hpcc_tuple *tuple, u32 irs,
				 const struct hpcc_arrival *in, bool take);

struct hpcc_note hpcc_agreed(const struct sock *sk);
void hpcc_agreement_save(const struct sock *sk, struct hpcc_note note);

#endif /* _HPCC_CONTROL_AGREEMENT_H */
