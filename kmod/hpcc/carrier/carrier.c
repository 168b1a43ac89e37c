// SPDX-License-Identifier: GPL-2.0
/*
 * The table of carriers, and the choice of the carrier of a connection's requests: the TCP option,
 * or another carrier that the peer and the route allow.
 */
#include <linux/module.h>

#include "carrier/carrier.h"
#include "netns/table.h"
#include "telemetry/mailbox.h"

const struct hpcc_carrier_ops hpcc_tcp_option;

/* Index: enum hpcc_carrier. &hpcc_tcp_option: the module of the carrier is not loaded. */
const struct hpcc_carrier_ops __rcu *hpcc_carriers[] __read_mostly = {
	[0 ... HPCC_CARRIER_MAX] = RCU_INITIALIZER(&hpcc_tcp_option),
};

/* Index: IP protocol. Only carriers with packet_in() have an entry. */
u8 hpcc_carrier_protocols[256] __read_mostly;

void (*hpcc_stack_in)(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in,
		      int at, u32 pos) __ro_after_init;
EXPORT_SYMBOL_GPL(hpcc_stack_in);

/**
 * hpcc_carrier_register() - let connections use a carrier from now on
 * @ops: the carrier; no other module has its number
 *
 * Context: last step of a module's init. Takes no lock: see common/setup.c.
 * Return: always 0.
 */
int __cold hpcc_carrier_register(const struct hpcc_carrier_ops *ops)
{
	rcu_assign_pointer(hpcc_carriers[ops->id], ops);
	if (ops->packet_in)
		WRITE_ONCE(hpcc_carrier_protocols[ops->protocol], ops->id);
	set_bit(ops->id, &hpcc_modules_loaded);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_carrier_register);

/**
 * hpcc_carrier_unregister() - stop the use of a carrier
 * @ops: a carrier that no flow uses
 *
 * Context: a module's exit; waits until no packet uses @ops.
 */
void __cold hpcc_carrier_unregister(const struct hpcc_carrier_ops *ops)
{
	clear_bit(ops->id, &hpcc_modules_loaded);
	if (ops->packet_in)
		WRITE_ONCE(hpcc_carrier_protocols[ops->protocol], HPCC_CARRIER_TCP);
	rcu_assign_pointer(hpcc_carriers[ops->id], &hpcc_tcp_option);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(hpcc_carrier_unregister);

/* Capabilities of a receiver. @carrier: carrier of the route to the sender. Context: RCU read side.
 * Return: HPCC_CAP_* of all carriers whose telemetry the receiver accepts, and HPCC_CAP_PROBES if
 * @carrier needs it.
 */
u16 __cold hpcc_carrier_caps(const struct net *net, u8 carrier)
{
	u16 caps = hpcc_carrier_at(carrier)->probes_only ? HPCC_CAP_PROBES : 0;
	const struct hpcc_carrier_ops *ops;
	bool links = hpcc_links_known(net);
	int i;

	for (i = HPCC_CARRIER_MAX; i > HPCC_CARRIER_TCP; i--) {
		ops = hpcc_carrier_at(i);
		if (ops->needs_links ? links : i == carrier)
			caps |= ops->cap;
	}
	return caps;
}

/* Return: the carrier of the connection's route, with a reference to its module, if the peer
 * supports the carrier and the module is loaded; else the TCP option. Probes need SACK.
 */
static u8 hpcc_carrier_for(const struct sock *sk, u16 caps)
{
	const struct hpcc_carrier_ops *ops;
	u8 carrier = HPCC_CARRIER_TCP;

	rcu_read_lock();
	ops = hpcc_carrier_at(hpcc_peer_policy_of(sk).carrier);
	if (caps & ops->cap && (!ops->probes_only || tcp_is_sack(tcp_sk(sk))) &&
	    (!ops->ipv6_only ||
	     inet_csk(sk)->icsk_af_ops->net_header_len == sizeof(struct ipv6hdr)) &&
	    try_module_get(ops->owner))
		carrier = ops->id;
	rcu_read_unlock();
	return carrier;
}

/* Choose the carrier of a new flow, or try again in classic (hpcc_carrier_is_due()). */
void __cold hpcc_carrier_begin(const struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_carrier_private *own = &flow->carrier_private;

	own->tried = (u32)jiffies;
	own->tries = min(own->tries + 1, 7);
	flow->carrier_state.nodes = READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.ioam_nodes);
	WRITE_ONCE(flow->carrier, hpcc_carrier_for(sk, flow->caps));
	if (hpcc_carrier_of(flow)->begin)
		hpcc_carrier_of(flow)->begin(tcp_sk(sk), flow);
}

/* Let the TCP option carry requests from now on. The module of the flow's carrier may then be
 * unloaded. Context: socket lock. Return: whether probes may continue to carry requests.
 */
bool __cold hpcc_carrier_end(const struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_carrier_ops *ops = hpcc_carrier_of(flow);
	bool probes = !ops->probes_only || READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.probes);

	WRITE_ONCE(flow->carrier, HPCC_CARRIER_TCP);
	hpcc_count(sock_net(sk), ops->stopped);
	module_put(ops->owner);
	return probes;
}

/**
 * hpcc_carrier_fits() - whether a trace or stack, and an option of one record, fit into a segment
 * @seg: the segment
 * @sk: its socket
 * @n: bytes of trace or stack
 * @room: bytes for options; reduced to the space beside the trace or stack
 */
bool hpcc_carrier_fits(const struct hpcc_segment *seg, const struct sock *sk, u32 n, u32 *room)
{
	u32 space = hpcc_segment_space(seg, sk);

	if (*room < hpcc_opt_len(1) || space < n + hpcc_opt_len(1))
		return false;
	*room = min(*room, space - n) & ~3U;
	return true;
}
EXPORT_SYMBOL_GPL(hpcc_carrier_fits);

/**
 * hpcc_carrier_of_request() - the carrier that contains the records of a request
 * @flow: the receiver's flow
 * @in: the segment
 * @opt: head of its FORWARD or IDENTIFY
 * @records: records of @opt
 * Return: NULL if the records are in the option.
 */
const struct hpcc_carrier_ops *hpcc_carrier_of_request(const struct hpcc_flow *flow,
						       const struct hpcc_arrival *in,
						       const struct hpcc_opt *opt,
						       const u8 *records)
{
	const struct hpcc_carrier_ops *ops;
	int i;

	/* Begin with the last carrier (CSIG): a request for a signal does not use a trace. */
	for (i = HPCC_CARRIER_MAX; i > HPCC_CARRIER_TCP; i--) {
		ops = hpcc_carrier_at(i);
		if (ops->carries && ops->carries(flow, in, opt, records))
			return ops;
	}
	return in->carrier;
}

/* Write the REPORT that reflects a signal. @flow: a flow with a signal. @p: hpcc_opt_len(1) bytes.
 * Context: LOCAL_OUT. Return: its length; 0 if another CPU has taken the signal, or if its carrier
 * is unloaded.
 */
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p)
{
	u32 signal = xchg(&flow->carrier_state.signal, 0);
	const struct hpcc_carrier_ops *ops = hpcc_carrier_at(signal >> 16);
	u64 record;

	if (!ops->report)
		return 0;
	record = ops->report(signal);
	return hpcc_report_write(flow, p, &record, 1);
}
