// SPDX-License-Identifier: GPL-2.0
/*
 * The choice of the carrier of a connection's requests: the TCP option, or another one that its
 * peer and its route allow.
 */
#include <net/tcp.h>

#include "carrier/carrier.h"
#include "netns/net.h"
#include "netns/policy.h"

/* For each carrier: the capability that the peer needs, whether only probes use the carrier, and
 * the counter of its end.
 */
static const struct hpcc_carrier_info {
	u16 cap;
	bool probed;
	enum hpcc_counter stopped;
} hpcc_carriers[] = {
	[HPCC_CARRIER_TCP] = {},
	[HPCC_CARRIER_IOAM] = { HPCC_CAP_IOAM, false, HPCC_C_IOAM_STOPPED },
	[HPCC_CARRIER_INT] = { HPCC_CAP_INT, true, HPCC_C_INT_STOPPED },
	[HPCC_CARRIER_IFA] = { HPCC_CAP_IFA, true, HPCC_C_IFA_STOPPED },
	[HPCC_CARRIER_CSIG] = { HPCC_CAP_CSIG, true, HPCC_C_CSIG_STOPPED },
};

/**
 * hpcc_carrier_is_probed() - whether only probes use a carrier
 * @carrier: enum hpcc_carrier
 */
bool hpcc_carrier_is_probed(u8 carrier)
{
	return hpcc_carriers[carrier].probed;
}

/* Return: the carrier of the connection's route, if the peer supports it, else the TCP option.
 * Probes need SACK; IOAM needs IPv6.
 */
static u8 hpcc_carrier_for(const struct sock *sk, u16 caps)
{
	u8 carrier = hpcc_peer_policy_of(sk).carrier;

	BUILD_BUG_ON(ARRAY_SIZE(hpcc_carriers) != HPCC_CARRIER_MAX + 1);
	if (!(caps & hpcc_carriers[carrier].cap) ||
	    (hpcc_carriers[carrier].probed && !tcp_is_sack(tcp_sk(sk))) ||
	    (carrier == HPCC_CARRIER_IOAM &&
	     inet_csk(sk)->icsk_af_ops->net_header_len != sizeof(struct ipv6hdr)))
		return HPCC_CARRIER_TCP;
	return carrier;
}

/**
 * hpcc_carrier_begin() - choose the carrier of a new flow
 * @sk: its socket
 * @flow: the flow
 */
void hpcc_carrier_begin(const struct sock *sk, struct hpcc_flow *flow)
{
	flow->carrier = hpcc_carrier_for(sk, flow->caps);
	hpcc_ioam_begin(tcp_sk(sk), flow);
}

/**
 * hpcc_carrier_end() - let the TCP option carry requests from now on
 * @sk: socket, under its lock
 * @flow: its flow, with another carrier
 *
 * Return: whether probes may continue to carry requests.
 */
bool hpcc_carrier_end(const struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_carrier_info *info = &hpcc_carriers[flow->carrier];

	WRITE_ONCE(flow->carrier, HPCC_CARRIER_TCP);
	hpcc_count(sock_net(sk), info->stopped);
	return !info->probed || READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.probes);
}
