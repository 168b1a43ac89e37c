// SPDX-License-Identifier: GPL-2.0
/*
 * What a receiver lets its peer send in the first round trip.
 *
 * TCP's first window is 64 KB at most, as a SYN cannot say more, and grows by two segments for
 * each one that comes. A sender that starts with W_init = B * T then waits for a round trip
 * where that is more than 64 KB (100 Gb/s and 5 us). So both ends, which have the same W_init,
 * open the window as a connection begins, as far as the receive buffer allows.
 */
#include <net/tcp.h>

#include "receive.h"

/**
 * hpcc_open_window() - let the peer send W_init before it hears of its first segment
 * @sk: socket, locked, at the end of its handshake
 * @W_init_bytes: what the peer starts with
 *
 * An active socket's next segment, which ends the handshake, has the window; a passive socket
 * sends an ACK for it. Does nothing where the buffer (tcp_rmem, SO_RCVBUF) has no more room than
 * TCP's own first window: tcp_init_buffer_space(), which runs after this, clamps as well.
 */
void hpcc_open_window(struct sock *sk, u64 W_init_bytes)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 most = min3(W_init_bytes, (u64)tp->window_clamp,
			(u64)max(tcp_full_space(sk), 0));

	/* On 7.2 rcv_ssthresh begins above 64 KB, which the handshake cannot state. */
	if (most < min_t(u32, tp->rcv_wnd, U16_MAX) + 2 * (u64)tp->advmss)
		return;
	tp->rcv_ssthresh = max_t(u64, tp->rcv_ssthresh, most);
	if (sk->sk_state != TCP_SYN_RECV)
		return;
	/* tcp_rcv_state_process() sends what is due when it is done. */
	inet_csk_schedule_ack(sk);
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}
EXPORT_SYMBOL_GPL(hpcc_open_window);
