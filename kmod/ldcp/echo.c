// SPDX-License-Identifier: GPL-2.0
/*
 * The receiver's part: each ACK tells of the packets it covers whether they
 * were marked (draft section 2.2, "per-packet ACK" and its delayed form).
 *
 * Plain TCP repeats ECN-Echo until the sender confirms. Here TCP's flag for
 * that follows the last packet's CE bit; and as an ACK has one bit for all that
 * it covers, it may not cover packets of both kinds. Senders of dctcp count on
 * the same.
 *
 * Each marked packet gets an ACK at once; those of unmarked ones may be delayed.
 * A receiver of dctcp delays both kinds, and acknowledges at once where the mark
 * changes.
 */
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "conn.h"

static void ldcp_set_echo(struct tcp_sock *tp, bool ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/**
 * ldcp_echo() - data came
 * @sk: socket
 * @ca: its state
 * @ce: with CE
 *
 * Where the mark changed, an ACK that was held back leaves now with what it has
 * to tell. One for a marked packet follows at once.
 *
 * Context: socket lock; tp->rcv_nxt is behind the data, if they were in order.
 */
void ldcp_echo(struct sock *sk, struct ldcp_ca *ca, bool ce)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* Nothing left since. The timer need not be on: since Linux 6.7 no ACK
	 * leaves before the owner of the socket has seen all that came
	 * meanwhile. TCP does not tell us of Not-ECT: what left for them has
	 * told of those before, too.
	 */
	if (ce != ca->ce && ca->prior_segs_out == tp->segs_out) {
		ldcp_set_echo(tp, ca->ce);
		hpcc_send_ack(sk, ca->prior_rcv_nxt);
	}
	if (ce)
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	ca->ce = ce;
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->prior_segs_out = tp->segs_out;
	ldcp_set_echo(tp, ce);
}
