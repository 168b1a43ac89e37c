// SPDX-License-Identifier: GPL-2.0
/*
 * The window that a receiver offers in the first round trip.
 *
 * TCP's first window is at most 64 KB, the maximum in a SYN, and grows by two segments for each
 * segment received. A sender with a larger W_init = B * T (for example at 100 Gb/s and 5 us) must
 * then wait for a round trip. So both ends, which have the same W_init, open the window at the
 * start of a connection, as far as the receive buffer allows.
 */
#include <net/tcp.h>

#include "device.h"

/**
 * hpcc_open_window() - let the peer send W_init before the ACK of its first segment
 * @sk: socket, locked, at the end of its handshake
 * @W_init_bytes: initial window of the peer
 *
 * An active socket's next segment, which ends the handshake, has the window; a passive socket sends
 * an ACK for it. Does nothing if the buffer (tcp_rmem, SO_RCVBUF) has no more room than TCP's own
 * first window: tcp_init_buffer_space(), which runs after this, also clamps.
 */
void hpcc_open_window(struct sock *sk, u64 W_init_bytes)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 most = min3(W_init_bytes, (u64)tp->window_clamp, (u64)max(tcp_full_space(sk), 0));

	/* On 7.2 rcv_ssthresh starts above 64 KB, the maximum in the handshake. */
	if (most < min_t(u32, tp->rcv_wnd, U16_MAX) + 2 * (u64)tp->advmss)
		return;
	tp->rcv_ssthresh = max_t(u64, tp->rcv_ssthresh, most);
	if (sk->sk_state != TCP_SYN_RECV)
		return;
	/* tcp_rcv_state_process() sends this ACK at its end. */
	inet_csk_schedule_ack(sk);
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}
EXPORT_SYMBOL_GPL(hpcc_open_window);
