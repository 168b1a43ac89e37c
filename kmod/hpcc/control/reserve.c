// SPDX-License-Identifier: GPL-2.0
/* The bytes of each segment that are kept free for our options. Socket lock for all functions. */
#include "carrier/carrier.h"
#include "control/cc.h"

/* Length of the IPv4 options that setsockopt() set. */
static u16 hpcc_ip_optlen(const struct sock *sk)
{
	const struct ip_options_rcu *opt =
		rcu_dereference_protected(inet_sk(sk)->inet_opt, lockdep_sock_is_held(sk));

	return opt ? opt->opt.optlen : 0;
}

/* Space for a FORWARD, or a FORWARD and an ECHO of one record, and the carrier. Return: number of
 * bytes; never a multiple of 8, see hpcc_reserve_restore().
 */
u16 hpcc_option_reserve(const struct hpcc_flow *flow)
{
	u16 bytes = max(hpcc_opt_len(flow->slots), 2 * hpcc_opt_len(1));

	if (unlikely(flow->carrier) && hpcc_carrier_of(flow)->reserve)
		bytes += hpcc_carrier_of(flow)->reserve(flow);
	return bytes % 8 ? bytes : bytes + 4;
}

/* Reserve space for our options in each segment. TCP subtracts icsk_ext_hdr_len from the MSS when
 * it computes the MSS from the path MTU. The path MTU itself, icsk_pmtu_cookie, belongs to TCP.
 * @bytes: new size; replaces the previous size.
 */
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u16 old = flow->reserve.bytes;

	icsk->icsk_ext_hdr_len += bytes - old;
	flow->reserve.bytes = bytes;
	flow->ext_hdr_len = icsk->icsk_ext_hdr_len;
	flow->reserve.ip_optlen = hpcc_ip_optlen(sk);
	if (bytes != old)
		icsk->icsk_sync_mss(sk, icsk->icsk_pmtu_cookie);
}

/* Restore the reserve after setsockopt() has overwritten it. setsockopt() of IPv4 options adds the
 * change of their length to icsk_ext_hdr_len. setsockopt() of IPv6 extension headers replaces
 * icsk_ext_hdr_len with their length, also for IPv4 on AF_INET6. These lengths are multiples of 8,
 * and hpcc_option_reserve() is not: this distinguishes the two.
 */
void hpcc_reserve_restore(struct sock *sk, struct hpcc_flow *flow)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u16 bytes;

	if (likely(icsk->icsk_ext_hdr_len == flow->ext_hdr_len))
		return;
	bytes = flow->reserve.bytes;
	if (icsk->icsk_ext_hdr_len !=
	    (u16)(flow->ext_hdr_len + hpcc_ip_optlen(sk) - flow->reserve.ip_optlen))
		flow->reserve.bytes = 0;
	hpcc_reserve(sk, flow, bytes);
}
