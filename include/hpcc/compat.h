/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels 6.1 to 7.2. The sources are written for the newest kernel. Each
 * HAVE_* is one property of the target kernel, found by compiling a probe (Kbuild).
 */
#ifndef _HPCC_COMPAT_H
#define _HPCC_COMPAT_H

#include <linux/ethtool.h>
#include <linux/sysctl.h>
#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/ipv6.h>
#include <net/pkt_sched.h>
#include <net/tcp.h>
#include <net/xfrm.h>
#ifdef HAVE_NET_GSO_H
#include <net/gso.h>	/* 6.5 moved skb_gso_segment() there */
#endif

/* 6.11 constified the table that sysctl handlers get. */
#ifdef HAVE_CTL_TABLE_CONST
#define HPCC_CTL_TABLE_CONST	const
#else
#define HPCC_CTL_TABLE_CONST
#endif

/* 6.6 gave sysctl tables a size. Older kernels stop at an empty entry. */
#ifdef HAVE_REGISTER_NET_SYSCTL_SZ
#define HPCC_SYSCTL_SENTINEL	0
#define hpcc_register_net_sysctl	register_net_sysctl_sz
#else
#define HPCC_SYSCTL_SENTINEL	1
#define hpcc_register_net_sysctl(net, path, table, size) \
	register_net_sysctl(net, path, table)
#endif

/* 6.10 passes the ACK number and flags to cong_control. */
#ifdef HAVE_CONG_CONTROL_ACK
#define HPCC_CONG_CONTROL_ACK	u32 ack_seq, int flag,
#else
#define HPCC_CONG_CONTROL_ACK
#endif

/* Kernels with the BBRv3 patch call tso_segs() for the length of a burst, instead of min_tso_segs()
 * for its minimum. hpcc_tso_autosize() repeats tcp_tso_autosize(), which modules cannot call.
 */
#ifdef HAVE_MIN_TSO_SEGS
#define HPCC_TSO_SEGS	min_tso_segs
#define HPCC_TSO_SEGS_ARGS	struct sock *sk
#define hpcc_burst_segs(sk, least)	(least)
#else
#define HPCC_TSO_SEGS	tso_segs
#define HPCC_TSO_SEGS_ARGS	struct sock *sk, unsigned int mss_now
#define hpcc_burst_segs(sk, least)	hpcc_tso_autosize(sk, mss_now, least)
static inline u32 hpcc_tso_autosize(const struct sock *sk, unsigned int mss_now, u32 least)
{
	u32 rtt = tcp_min_rtt(tcp_sk(sk)) >> READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_tso_rtt_log);
	u64 bytes = READ_ONCE(sk->sk_pacing_rate) >> READ_ONCE(sk->sk_pacing_shift);

	if (rtt < BITS_PER_TYPE(sk->sk_gso_max_size))
		bytes += sk->sk_gso_max_size >> rtt;
	return max_t(u32, min_t(u64, bytes, sk->sk_gso_max_size) / mss_now, least);
}
#endif

/* Addresses of a full or request socket. IPv4 addresses are mapped. */
static inline void hpcc_sock_addrs(const struct sock *sk, struct in6_addr *laddr,
				   struct in6_addr *raddr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		*laddr = sk->sk_v6_rcv_saddr;
		*raddr = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, laddr);
	ipv6_addr_set_v4mapped(sk->sk_daddr, raddr);
}

/* From 7.2 on, the lookup functions have no argument for TCP's hash table. */
#ifdef HAVE_LOOKUP_WITHOUT_HASHINFO
#define hpcc_hashed(function, ns, ...)	function(ns, __VA_ARGS__)
#else
#define hpcc_hashed(function, ns, ...) ({				\
	struct net *_net = (ns);					\
	function(_net, _net->ipv4.tcp_death_row.hashinfo, __VA_ARGS__);	\
})
#endif

/* Look up a segment's established, request or TIME_WAIT socket at LOCAL_IN; take a reference. */
static inline struct sock *hpcc_lookup(struct net *net, u8 family, const struct sk_buff *skb,
				       const struct tcphdr *th)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (family == NFPROTO_IPV6)
		return hpcc_hashed(__inet6_lookup_established, net,
				   &ipv6_hdr(skb)->saddr, th->source,
				   &ipv6_hdr(skb)->daddr, ntohs(th->dest),
				   inet6_iif(skb), inet6_sdif(skb));
#endif
	return hpcc_hashed(__inet_lookup_established, net, ip_hdr(skb)->saddr,
			   th->source, ip_hdr(skb)->daddr, ntohs(th->dest),
			   inet_iif(skb), inet_sdif(skb));
}

/* Look up the listener for a SYN at LOCAL_IN; take no reference. If several listeners share the
 * port (SO_REUSEPORT), TCP may select a different one.
 */
static inline struct sock *hpcc_lookup_listener(struct net *net, u8 family,
						const struct sk_buff *skb, const struct tcphdr *th)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (family == NFPROTO_IPV6)
		return hpcc_hashed(inet6_lookup_listener, net, NULL, 0,
				   &ipv6_hdr(skb)->saddr, th->source,
				   &ipv6_hdr(skb)->daddr, ntohs(th->dest),
				   inet6_iif(skb), inet6_sdif(skb));
#endif
	return hpcc_hashed(__inet_lookup_listener, net, NULL, 0,
			   ip_hdr(skb)->saddr, th->source, ip_hdr(skb)->daddr,
			   ntohs(th->dest), inet_iif(skb), inet_sdif(skb));
}

/* Whether no IPsec policy applies to incoming packets. */
static inline bool hpcc_no_policy_in(const struct net *net, const struct sock *sk)
{
#ifdef CONFIG_XFRM
	return !rcu_access_pointer(sk->sk_policy[XFRM_POLICY_IN]) &&
	       !net->xfrm.policy_count[XFRM_POLICY_IN] &&
	       net->xfrm.policy_default[XFRM_POLICY_IN] == XFRM_USERPOLICY_ACCEPT;
#else
	return true;
#endif
}

static inline bool hpcc_skb_has_passed_ipvs(const struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_IP_VS)
	return skb->ipvs_property;
#else
	return false;
#endif
}

/* In 7.2 other CPUs read a qdisc's length without a lock. */
#ifndef HAVE_QDISC_QLEN_INC
static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}
#endif

/* 7.2 counts a GSO packet's segments in qdisc_skb_cb(). */
static inline void hpcc_set_pkt_segs(struct sk_buff *skb, u32 segs)
{
#ifdef HAVE_QDISC_PKT_SEGS
	qdisc_skb_cb(skb)->pkt_segs = segs;
#endif
}

/* Segments of a packet on the wire. A guest's GSO packet may not state the number. Then use the
 * kernel's computation for qdisc_pkt_len(), whose result may be one too many.
 */
static inline u32 hpcc_pkt_segs(const struct sk_buff *skb)
{
#ifdef HAVE_QDISC_PKT_SEGS
	return qdisc_pkt_segs(skb);
#else
	const struct skb_shared_info *shinfo = skb_shinfo(skb);

	if (!skb_is_gso(skb))
		return 1;
	return shinfo->gso_segs ?: DIV_ROUND_UP(skb->len, shinfo->gso_size);
#endif
}

/* 7.2 distinguishes classic ECN from AccECN, which uses ECE and CWR in another way. */
#ifndef HAVE_TCP_ECN_MODE
static inline bool tcp_ecn_mode_any(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_OK;
}

#define tcp_ecn_mode_rfc3168	tcp_ecn_mode_any
#endif

/* Whether TCP writes the AccECN option (since 6.18) into each segment. With tcp_ecn_option=1 it
 * writes only the options that RFC 9768 requires.
 */
static inline bool hpcc_accecn_is_usual(const struct net *net)
{
#ifdef HAVE_TCP_ECN_OPTION
	return READ_ONCE(net->ipv4.sysctl_tcp_ecn_option) >= 2;
#else
	return false;
#endif
}

/* Unit of TSval, ns. Since 6.7 a route can select microseconds. */
static inline u32 hpcc_ts_tick_ns(const struct tcp_sock *tp)
{
#ifdef HAVE_TCP_USEC_TS
	if (tp->tcp_usec_ts)
		return NSEC_PER_USEC;
#endif
	return NSEC_PER_MSEC;
}

/* 7.2 added an argument with flags for AccECN. */
static inline void hpcc_send_ack(struct sock *sk, u32 rcv_nxt)
{
#ifdef HAVE_SEND_ACK_FLAGS
	__tcp_send_ack(sk, rcv_nxt, 0);
#else
	__tcp_send_ack(sk, rcv_nxt);
#endif
}

/* 7.2 warns if the old name is used. */
#ifndef HAVE_SYSTEM_DFL_WQ
#define system_dfl_wq	system_unbound_wq
#endif

/* 6.12 autoloads qdiscs by alias, 6.1 by the module's name. */
#ifndef HAVE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(id)
#endif

/* In 7.2 __ethtool_get_link_ksettings() takes the device's lock. The kernel already holds this lock
 * when it calls the operations of a qdisc or a notifier.
 */
#ifndef HAVE_NETIF_GET_LINK_KSETTINGS
#define netif_get_link_ksettings	__ethtool_get_link_ksettings
#endif

#endif /* _HPCC_COMPAT_H */
