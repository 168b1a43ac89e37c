// SPDX-License-Identifier: GPL-2.0
/*
 * The receiver's part: each ACK tells of the packets it covers whether they
 * were marked (draft section 2.2, "per-packet ACK" and its delayed form).
 *
 * Plain TCP repeats ECN-Echo until the sender confirms. Here TCP's flag for
 * that follows the last packet's CE bit; and as an ACK has one bit for all that
 * it covers, it may not cover packets of both kinds. Senders of dctcp count on
 * the same.
 */
#include <net/tcp.h>

#include "ldcp.h"

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
 * to tell, and one for this packet follows at once.
 *
 * Context: socket lock; tp->rcv_nxt is behind the data, if they were in order.
 */
void ldcp_echo(struct sock *sk, struct ldcp_ca *ca, bool ce)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ce != ca->ce) {
		/* TCP does not tell of Not-ECT: what it holds back for them
		 * has nothing to say, and one for less would be a duplicate.
		 */
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER &&
		    after(ca->prior_rcv_nxt, tp->rcv_wup)) {
			ldcp_set_echo(tp, ca->ce);
			hpcc_send_ack(sk, ca->prior_rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
		ca->ce = ce;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ldcp_set_echo(tp, ce);
}
