// SPDX-License-Identifier: GPL-2.0
/*
 * The receiver's part: each ACK reports whether the packets that it acknowledges were marked (draft
 * section 2.2, "per-packet ACK" and its delayed form).
 *
 * ECN-Echo is the CE bit of the last packet, as for dctcp. An ACK must not acknowledge both marked
 * and unmarked packets. Marked packets get an immediate ACK; ACKs of unmarked ones may be delayed.
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

/* Process arriving data. @sk: socket, under its lock; tp->rcv_nxt is after the data, if they were
 * in order. @ce: the data have CE; if this changed, the earlier data get their delayed ACK now.
 */
void ldcp_echo(struct sock *sk, struct ldcp_ca *ca, bool ce)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* No segment was sent since the earlier data. Do not check the ACK timer: since Linux 6.7
	 * TCP sends no ACK before the owner of the socket has processed all waiting segments. TCP
	 * does not notify us of Not-ECT packets, but an ACK for them also acknowledges the earlier
	 * data.
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
