// SPDX-License-Identifier: GPL-2.0
/* Packets that become longer or shorter on departure: by the metadata or the tag of a carrier. */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/checksum.h>
#include <net/ip.h>

#include "core/sched.h"

/* Length of an IP packet by its header at offset @ip; 0: more than the skb has. */
u32 hpcc_ip_len(const struct sk_buff *skb, u32 ip)
{
	const struct iphdr *iph = (const struct iphdr *)(skb->data + ip);
	const struct ipv6hdr *ip6h = (const struct ipv6hdr *)iph;
	u32 len = iph->version == 4 ? ntohs(iph->tot_len) :
				      ntohs(ip6h->payload_len) + sizeof(*ip6h);

	return len <= skb->len - ip ? len : 0;
}
EXPORT_SYMBOL_GPL(hpcc_ip_len);

/* Number of bytes that an IP packet of @len bytes, by its header, may grow by. A device's MTU may
 * exceed the maximum of this field.
 */
u32 hpcc_ip_room(const struct sk_buff *skb, u32 len)
{
	u32 mtu = min_t(u32, READ_ONCE(skb->dev->mtu), IP_MAX_MTU);

	/* A VRF looks up a second route, whose MTU is not known yet. */
	if (netif_is_l3_master(skb->dev))
		return 0;
	return mtu > len ? mtu - len : 0;
}
EXPORT_SYMBOL_GPL(hpcc_ip_room);

/* Add @n to the offsets of the headers that begin before @end; the bytes move later. */
static void hpcc_move_headers(struct sk_buff *skb, int end, int n)
{
	/* The checksum of the whole packet from the receiving device is no longer valid. */
	skb_forward_csum(skb);
	if (skb->ip_summed == CHECKSUM_PARTIAL && skb_checksum_start_offset(skb) < end)
		skb->csum_start += n;
	if (skb_transport_header_was_set(skb) && skb_transport_offset(skb) < end)
		skb->transport_header += n;
	if (skb_network_offset(skb) < end)
		skb->network_header += n;
	if (skb_mac_header_was_set(skb))
		skb->mac_header += n;
}

/* Make room for @n bytes inside a packet, which is writable up to @at. The bytes before @at move,
 * and so do their header offsets.
 * Return: 0 or HPCC_UNSTAMPED_NO_MEMORY.
 */
int hpcc_open(struct sk_buff *skb, u32 at, u32 n)
{
	if (skb_cow_head(skb, n))
		return HPCC_UNSTAMPED_NO_MEMORY;
	hpcc_move_headers(skb, at, -n);
	skb_push(skb, n);
	memmove(skb->data, skb->data + n, at);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_open);

/* Remove @n bytes inside a packet, which is writable up to @at + @n, and not GSO. The bytes before
 * @at move, and so do their header offsets.
 */
void hpcc_close(struct sk_buff *skb, u32 at, u32 n)
{
	hpcc_move_headers(skb, at + n, n);
	memmove(skb->data + n, skb->data, at);
	__skb_pull(skb, n);
	/* A guest may have placed its checksum in these bytes: do not compute it then. */
	if (skb->ip_summed == CHECKSUM_PARTIAL &&
	    skb_checksum_start_offset(skb) + skb->csum_offset + sizeof(__sum16) > skb_headlen(skb))
		skb->ip_summed = CHECKSUM_NONE;
}
EXPORT_SYMBOL_GPL(hpcc_close);

/* Add @n to the length in the IP header at offset @ip. */
void hpcc_ip_grow(struct sk_buff *skb, u32 ip, u32 n)
{
	struct iphdr *iph = (struct iphdr *)(skb->data + ip);
	struct ipv6hdr *ip6h = (struct ipv6hdr *)iph;
	__be16 old = iph->tot_len;

	if (iph->version == 4) {
		iph->tot_len = htons(ntohs(old) + n);
		csum_replace2(&iph->check, old, iph->tot_len);
	} else {
		ip6h->payload_len = htons(ntohs(ip6h->payload_len) + n);
	}
}
EXPORT_SYMBOL_GPL(hpcc_ip_grow);
