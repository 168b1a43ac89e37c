// SPDX-License-Identifier: GPL-2.0
/*
 * The table of carriers, and the choice of the carrier of a connection's requests: the TCP option,
 * or another one that its peer and its route allow.
 */
#include <net/tcp.h>
#include <hpcc/carrier/ifa.h>

#include "carrier/carrier.h"
#include "netns/links.h"
#include "netns/net.h"
#include "netns/policy.h"

const struct hpcc_carrier_ops hpcc_tcp_option;

/* The other files of this directory are called through this table only. */
const struct hpcc_carrier_ops *const hpcc_carriers[] = {
	[HPCC_CARRIER_TCP] = &hpcc_tcp_option,
	[HPCC_CARRIER_IOAM] = &hpcc_ioam,
	[HPCC_CARRIER_INT] = &hpcc_int_md,
	[HPCC_CARRIER_IFA] = &hpcc_ifa,
	[HPCC_CARRIER_CSIG] = &hpcc_csig,
};

static_assert(ARRAY_SIZE(hpcc_carriers) == HPCC_CARRIER_MAX + 1);

/* Carriers by IP protocol, for those that have packet_in(). */
const u8 hpcc_carrier_protocols[256] = {
	[HPCC_IFA_PROTOCOL] = HPCC_CARRIER_IFA,
};

/* ---- The choice ---- */

/**
 * hpcc_carrier_caps() - capabilities of a receiver
 * @net: network namespace
 * @carrier: carrier of the route to the sender
 *
 * Return: HPCC_CAP_* of all carriers whose telemetry it accepts, and HPCC_CAP_PROBES if @carrier
 * needs it.
 */
u16 hpcc_carrier_caps(const struct net *net, u8 carrier)
{
	u16 caps = hpcc_carriers[carrier]->probes_only ? HPCC_CAP_PROBES : 0;
	bool links = hpcc_links_known(net);
	int i;

	for (i = HPCC_CARRIER_MAX; i > HPCC_CARRIER_TCP; i--)
		if (hpcc_carriers[i]->needs_links ? links : i == carrier)
			caps |= hpcc_carriers[i]->cap;
	return caps;
}

/* Return: the carrier of the connection's route, if the peer supports it, else the TCP option.
 * Probes need SACK.
 */
static u8 hpcc_carrier_for(const struct sock *sk, u16 caps)
{
	u8 carrier = hpcc_peer_policy_of(sk).carrier;
	const struct hpcc_carrier_ops *ops = hpcc_carriers[carrier];

	if (!(caps & ops->cap) || (ops->probes_only && !tcp_is_sack(tcp_sk(sk))) ||
	    (ops->ipv6_only &&
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
	flow->carrier_state.nodes = READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.ioam_nodes);
	flow->carrier = hpcc_carrier_for(sk, flow->caps);
	if (hpcc_carrier_of(flow)->begin)
		hpcc_carrier_of(flow)->begin(tcp_sk(sk), flow);
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
	const struct hpcc_carrier_ops *ops = hpcc_carrier_of(flow);

	WRITE_ONCE(flow->carrier, HPCC_CARRIER_TCP);
	hpcc_count(sock_net(sk), ops->stopped);
	return !ops->probes_only || READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.probes);
}

/* ---- Segments ---- */

/**
 * hpcc_carrier_fits() - whether a trace or a stack fits into a segment
 * @seg: the segment
 * @sk: its socket
 * @n: bytes of trace or stack
 * @room: bytes for options; reduced to the space beside the trace or stack
 *
 * Return: true if so, with an option of one record.
 */
bool hpcc_carrier_fits(const struct hpcc_segment *seg, const struct sock *sk, u32 n, u32 *room)
{
	u32 space = hpcc_segment_space(seg, sk);

	if (*room < hpcc_opt_len(1) || space < n + hpcc_opt_len(1))
		return false;
	*room = min(*room, space - n) & ~3U;
	return true;
}

/**
 * hpcc_carrier_of_request() - the carrier that has the records of a request
 * @flow: the receiver's flow
 * @in: the segment
 * @opt: head of its FORWARD or IDENTIFY
 * @records: records of @opt
 *
 * Return: the carrier; NULL: the records are in the option.
 */
const struct hpcc_carrier_ops *hpcc_carrier_of_request(const struct hpcc_flow *flow,
						       const struct hpcc_arrival *in,
						       const struct hpcc_opt *opt,
						       const u8 *records)
{
	int i;

	/* Begin with the last row of the table: if a request is for a signal, a trace in the same
	 * packet is not used.
	 */
	for (i = HPCC_CARRIER_MAX; i > HPCC_CARRIER_TCP; i--)
		if (hpcc_carriers[i]->carries && hpcc_carriers[i]->carries(flow, in, opt, records))
			return hpcc_carriers[i];
	return in->carrier;
}

/**
 * hpcc_signal_write() - write the REPORT that reflects a signal
 * @flow: a flow with a signal
 * @p: hpcc_opt_len(1) bytes
 *
 * Context: LOCAL_OUT.
 * Return: its length; 0 if another CPU has taken the signal.
 */
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p)
{
	const struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 1 };
	u32 signal = xchg(&flow->carrier_state.signal, 0);

	if (!signal)
		return 0;
	hpcc_opt_encode(p, flow->kind, &opt);
	put_unaligned_be64(hpcc_carriers[signal >> 16]->report(signal), p + HPCC_OPT_HEAD_LEN);
	return hpcc_opt_len(1);
}
