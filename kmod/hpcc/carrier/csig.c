// SPDX-License-Identifier: GPL-2.0
/*
 * CSIG as the carrier of requests (net.hpcc.carrier = 4), for IPv4 and IPv6 over Ethernet.
 * protocol.rst has the formats.
 *
 *	sender		LOCAL_OUT puts a signal record into the FORWARD of a probe (probe.c), and
 *			sch_hpcc of the sender's device (csig_push) pushes a tag for the record.
 *	switches	Each port replaces the tag if its own state is worse.
 *	receiver	hpcc_csig_rcv() pops the tag, copies it into the record, and returns the
 *			packet to the stack. LOCAL_IN reflects the record as a REPORT.
 *	sender		LOCAL_IN turns the signal into a load record of one link, which stands for
 *			the path (hpcc/carrier/csig.h).
 *
 * Hosts and routers without this module drop frames with a tag. The loss of such a probe costs no
 * data, and silence then lets the TCP option carry requests again. This module accepts a tag only
 * with a probe to this host, and only if CSIG is the carrier towards the sender. So only probes can
 * bypass a filter by means of a tag. Without its tag, the probe passes the whole receive path
 * again: IP filters see it, and a namespace that forwards may route it on.
 *
 * Data carry no tags: GRO does not merge data with a tag, so they would overtake merged data.
 */
#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <hpcc/carrier/csig.h>

#include "carrier/carrier.h"
#include "netns/table.h"
#include "telemetry/mailbox.h"

static ushort hpcc_csig_tpid = HPCC_CSIG_TPID_DEFAULT;
module_param_named(tpid, hpcc_csig_tpid, ushort, 0444);
MODULE_PARM_DESC(tpid, "EtherType of CSIG tags, 1536 .. 65535 (34997, 0x88b5)");

static bool hpcc_csig_walk(struct sk_buff *skb, u8 kind, struct hpcc_opt_location *place)
{
	struct hpcc_frame frame = { .len = skb->len, .proto = ntohs(skb->protocol) };
	int ret;

	do {
		frame.p = skb->data;
		frame.have = skb_headlen(skb);
		ret = hpcc_walk(&frame, kind, place);
	} while (ret == HPCC_WALK_MORE && pskb_may_pull(skb, place->need));
	return ret == HPCC_WALK_FOUND;
}

/* Whether a segment can be a probe. A filter by EtherType does not see the TCP header after the
 * tag, so a segment with a tag must be a pure ACK.
 */
static bool hpcc_csig_is_probe(const struct sk_buff *skb, const struct hpcc_opt_location *place)
{
	const struct tcphdr *th = (const struct tcphdr *)(skb->data + place->tcp);
	const struct ipv6hdr *ip6h = (const struct ipv6hdr *)skb->data;
	const struct iphdr *iph = (const struct iphdr *)skb->data;
	u32 len = place->version == 4 ? ntohs(iph->tot_len) :
					ntohs(ip6h->payload_len) + sizeof(*ip6h);

	return len == place->end && th->ack && !(th->syn | th->fin | th->rst | th->urg);
}

/* Whether CSIG is the carrier towards the sender of a segment. */
static bool hpcc_csig_is_wanted(const struct sk_buff *skb, const struct hpcc_opt_location *place)
{
	struct in6_addr peer;

	if (place->version == 4)
		ipv6_addr_set_v4mapped(((const struct iphdr *)skb->data)->saddr, &peer);
	else
		peer = ((const struct ipv6hdr *)skb->data)->saddr;
	return hpcc_peer_policy_for(dev_net(skb->dev), &peer).carrier == HPCC_CARRIER_CSIG;
}

/* Remove the tag at skb->data, and copy it into the segment after it. */
static bool hpcc_csig_take_tag(struct sk_buff *skb)
{
	u32 mac_len = skb->data - skb_mac_header(skb);
	struct hpcc_opt_location place;
	u16 tag;

	if (mac_len < ETH_HLEN || skb_is_gso(skb) || !pskb_may_pull(skb, HPCC_CSIG_LEN))
		return false;
	tag = get_unaligned_be16(skb->data);
	skb->protocol = *(__be16 *)(skb->data + sizeof(u16));
	skb_pull_rcsum(skb, HPCC_CSIG_LEN);
	/* A flow keeps its agreed option kind if the sysctl changes. */
	if (!hpcc_csig_walk(skb, HPCC_OPT_KIND_DEFAULT, &place) &&
	    !hpcc_csig_walk(skb, HPCC_OPT_KIND_OTHER, &place))
		return false;
	if (!hpcc_csig_is_probe(skb, &place) || !hpcc_csig_is_wanted(skb, &place) ||
	    skb_ensure_writable(skb, place.end))
		return false;
	memmove(skb_mac_header(skb) + HPCC_CSIG_LEN, skb_mac_header(skb), mac_len - sizeof(u16));
	skb->mac_header += HPCC_CSIG_LEN;
	skb_reset_network_header(skb);
	skb_reset_mac_len(skb);
	/* The old hash is of an unknown protocol, and selects another CPU than the flow's data. */
	skb_clear_hash(skb);
	return hpcc_csig_pop(skb->data, &place, tag, skb->ip_summed != CHECKSUM_PARTIAL);
}

/* Process the packet at once: netif_rx() would queue it after all that arrived with it. A tag may
 * arrive before tcp_hpcc is set up.
 */
static int hpcc_csig_rcv(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt,
			 struct net_device *orig_dev)
{
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	if (hpcc_is_up()) {
		if (skb->pkt_type == PACKET_HOST && hpcc_csig_take_tag(skb))
			return netif_receive_skb(skb);
		hpcc_count(dev_net(dev), HPCC_C_CSIG_IGNORED);
	}
	kfree_skb(skb);
	return NET_RX_DROP;
}

static struct packet_type hpcc_csig_packet_type __read_mostly = {
	.func = hpcc_csig_rcv,
};

static bool hpcc_csig_carries(const struct hpcc_flow *flow, const struct hpcc_arrival *in,
			      const struct hpcc_opt *opt, const u8 *records)
{
	return flow->caps & HPCC_CAP_CSIG && hpcc_csig_is(opt, records);
}

static void hpcc_csig_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			   const struct hpcc_opt *opt, const u8 *record)
{
	const struct net *net = in->state->net;
	u64 v = get_unaligned_be64(record);

	hpcc_prompt_in(flow, opt);
	/* No tag arrived, or no port wrote into it. */
	if (!(v & HPCC_CSIG_POPPED) || !HPCC_CSIG_LM(v)) {
		hpcc_count_rcu(net, HPCC_C_CSIG_IGNORED);
		return;
	}
	hpcc_signal_in(flow, HPCC_CARRIER_CSIG, v);
	hpcc_count_rcu(net, HPCC_C_CSIG_RECEIVED);
}

/* State of the path. LOCAL_IN writes it without a lock, so two CPUs may spoil a sample. */
static struct hpcc_csig_path *hpcc_csig_path(const struct hpcc_flow *flow)
{
	BUILD_BUG_ON(sizeof(struct hpcc_csig_path) > sizeof(flow->carrier_private.own));
	return (struct hpcc_csig_path *)flow->carrier_private.own;
}

static void hpcc_csig_fill(const struct hpcc_flow *flow, u8 *record)
{
	u8 type = READ_ONCE(hpcc_csig_path(flow)->ask) ?: HPCC_CSIG_QLEN;

	/* While W converges, request both signals in turn. */
	if (READ_ONCE(flow->searching))
		type = READ_ONCE(flow->requests) & 1 ? HPCC_CSIG_QLEN : HPCC_CSIG_ABW_C;
	put_unaligned_be64(hpcc_csig_record(hpcc_csig_ask(type), false), record);
}

/* Process a reflected signal. If two CPUs do this for one flow, one sample may be wrong. */
static bool hpcc_csig_report_in(struct hpcc_flow *flow, const struct net *net,
				const struct hpcc_opt *opt, const u8 *records)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet_rcu(net)->sysctls;
	struct hpcc_csig_units units = {
		.abw = READ_ONCE(sysctls->csig_abw),
		.time_ns = READ_ONCE(sysctls->csig_time),
	};
	struct hpcc_opt echo = { .nr = 1, .hops = 1, .scale = READ_ONCE(flow->scale) };
	u16 tag = hpcc_csig_reported(opt, records);
	u8 record[HPCC_RECORD_LEN];
	struct hpcc_record r;
	int ret;

	if (!tag)
		return false;
	ret = hpcc_csig_take(hpcc_csig_path(flow), tag, &units, ktime_get_ns(), echo.scale, &r);
	if (ret < 0)
		hpcc_count_rcu(net, HPCC_C_CSIG_IGNORED);
	if (ret <= 0)
		return true;
	hpcc_record_encode(record, &r);
	hpcc_echo_in(flow, &echo, record);
	return true;
}

/* No fits(): the MTU does not count the tag, and a probe is far shorter than the MTU. */
static const struct hpcc_carrier_ops hpcc_csig = {
	.owner		= THIS_MODULE,
	.id		= HPCC_CARRIER_CSIG,
	.cap		= HPCC_CAP_CSIG,
	.probes_only	= true,
	.reflects	= true,
	HPCC_CARRIER_COUNTERS(CSIG),
	.fill		= hpcc_csig_fill,
	.report_in	= hpcc_csig_report_in,
	.carries	= hpcc_csig_carries,
	.pull		= hpcc_csig_pull,
	.report		= hpcc_csig_report,
};

static int __init hpcc_csig_init(void)
{
	if (hpcc_csig_tpid < HPCC_CSIG_TPID_MIN || hpcc_csig_tpid == ETH_P_IP ||
	    hpcc_csig_tpid == ETH_P_IPV6 || eth_type_vlan(htons(hpcc_csig_tpid))) {
		pr_err("hpcc_csig: tpid: has to be 1536 .. 65535, and neither IP nor VLAN\n");
		return -EINVAL;
	}
	hpcc_csig_packet_type.type = htons(hpcc_csig_tpid);
	hpcc_carrier_register(&hpcc_csig);
	dev_add_pack(&hpcc_csig_packet_type);
	return 0;
}

static void __exit hpcc_csig_exit(void)
{
	dev_remove_pack(&hpcc_csig_packet_type);
	hpcc_carrier_unregister(&hpcc_csig);
}

module_init(hpcc_csig_init);
module_exit(hpcc_csig_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("CSIG as a carrier of HPCC++ telemetry");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
