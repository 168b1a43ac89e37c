// SPDX-License-Identifier: GPL-2.0
/*
 * Module hpcc_netlink: requests of the netlink family "hpcc" (netlink.c) for flows, counters and
 * tables (tables.c) of a network namespace. As with ss, anybody with a socket in the namespace may
 * send requests. The names of links, IDENTIFY, and changes of tables require CAP_NET_ADMIN in the
 * namespace.
 *
 * A dump visits flows in the order of their numbers, each under its socket's lock: each flow is a
 * consistent snapshot. A flow that exists during the whole dump appears exactly once. A process
 * that owns a socket may sleep, so the dump waits only for a short time for the process. After that
 * time, values may mix two successive ACKs, and the load of hops is missing.
 */
#include <linux/module.h>

#include "control/agreement.h"
#include "control/cc.h"
#include "observe/netlink.h"
#include "telemetry/identify.h"

/* Maximum time to wait for owners of sockets, in total for each part of an answer. */
#define HPCC_NL_WAIT_MS		50

/* Data for each message of an answer. */
struct hpcc_nl_reply {
	struct sk_buff *skb;	/* buffer of the messages */
	u32 portid;		/* sender of the request */
	u32 seq;		/* sequence number of the request */
	int flags;		/* flags of the messages */
	unsigned long until;	/* when to stop waiting for owners of sockets, jiffies */
	bool names;		/* the sender may read the names of links */
};

static int hpcc_put_config(struct sk_buff *skb, const struct sock *sk, const struct hpcc_flow *flow)
{
	u32 N = hpcc_peek(flow->census.N_reported);

	return (N ? nla_put_u32(skb, HPCC_A_FLOW_N, N) : 0) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_SAMPLE,
			   READ_ONCE(flow->searching) ? 0 : hpcc_peek(flow->sample_ns)) ?:
	       (READ_ONCE(flow->rx_window_active) ? nla_put_flag(skb, HPCC_A_FLOW_RECEIVER) : 0) ?:
	       (READ_ONCE(flow->probes) ? nla_put_flag(skb, HPCC_A_FLOW_PROBES) : 0) ?:
	       (flow->caps & HPCC_CAP_SIGNED ? nla_put_flag(skb, HPCC_A_FLOW_SIGNED) : 0) ?:
	       (READ_ONCE(inet_csk(sk)->icsk_ca_ops)->owner != hpcc_law.cc[0]->owner ?
		nla_put_flag(skb, HPCC_A_FLOW_POWERTCP) : 0) ?:
	       (READ_ONCE(flow->mute.state) || READ_ONCE(flow->mute.pause) ?
		nla_put_flag(skb, HPCC_A_FLOW_MUTED) : 0);
}

static u64 hpcc_bottleneck_us(const struct hpcc_link *link, u64 now_us)
{
	return (u64)((u32)(now_us >> HPCC_BOTTLENECK_SHIFT) - link->bottleneck_since) <<
	       HPCC_BOTTLENECK_SHIFT;
}

static int hpcc_put_link(struct sk_buff *skb, const struct hpcc_link *link, u64 now_us)
{
	if (!link->valid && !link->quiet)
		return 0;
	return hpcc_nl_put_u64(skb, HPCC_A_HOP_U, link->u_q24) ?:
	       (link->quiet ? nla_put_flag(skb, HPCC_A_HOP_QUIET) :
		hpcc_nl_put_u64(skb, HPCC_A_HOP_QLEN, link->qlen) ?:
		hpcc_nl_put_u64(skb, HPCC_A_HOP_AGE, now_us - link->seen_us)) ?:
	       (link->bottleneck_since ?
		hpcc_nl_put_u64(skb, HPCC_A_HOP_HELD, hpcc_bottleneck_us(link, now_us)) : 0);
}

static int hpcc_put_identity(struct sk_buff *skb, u64 word)
{
	struct hpcc_identity id;

	hpcc_identity_unpack(word, &id);
	if (!id.hop)
		return 0;
	return nla_put_u32(skb, HPCC_A_HOP_NODE, id.node) ?:
	       nla_put_u32(skb, HPCC_A_HOP_PORT, id.port) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_HOP_RATE, id.bps);
}

static int hpcc_put_telemetry(struct sk_buff *skb, const struct hpcc_flow *flow)
{
	static const u8 types[HPCC_IGNORED_MAX] = {
		[HPCC_IGNORED_MALFORMED] = HPCC_A_FLOW_MALFORMED,
		[HPCC_IGNORED_BAD_HOP] = HPCC_A_FLOW_BAD_HOP,
		[HPCC_IGNORED_TS_BACK] = HPCC_A_FLOW_TS_BACK,
		[HPCC_IGNORED_TX_EXCESS] = HPCC_A_FLOW_TX_EXCESS,
		[HPCC_IGNORED_UNSIGNED] = HPCC_A_FLOW_UNSIGNED,
		[HPCC_IGNORED_WRONG_TAG] = HPCC_A_FLOW_WRONG_TAG,
		[HPCC_IGNORED_REPLAYED] = HPCC_A_FLOW_REPLAYED,
	};
	u32 i;

	if (nla_put_u32(skb, HPCC_A_FLOW_RECEIVED, READ_ONCE(flow->received)))
		return -EMSGSIZE;
	for (i = 0; i < HPCC_IGNORED_MAX; i++)
		if (nla_put_u32(skb, types[i], READ_ONCE(flow->ignored[i])))
			return -EMSGSIZE;
	return 0;
}

/* @nr: number of hops whose load may be read */
static int hpcc_put_hops(struct sk_buff *skb, const struct sock *sk, const struct hpcc_flow *flow,
			 u32 nr, bool names)
{
	const struct hpcc_path *path = names ? rcu_dereference(flow->path) : NULL;
	u64 now_us = max_t(u64, hpcc_peek(tcp_sk(sk)->tcp_mstamp), tcp_clock_us());
	u32 i, hops = READ_ONCE(flow->hops);
	struct nlattr *nest;

	if (nla_put_u32(skb, HPCC_A_FLOW_HOPS, hops))
		return -EMSGSIZE;
	for (i = 0; i < hops; i++) {
		nest = nla_nest_start(skb, HPCC_A_FLOW_HOP);
		if (!nest || nla_put_u32(skb, HPCC_A_HOP_HOP, i + 1) ||
		    (i < nr && hpcc_put_link(skb, &flow->algo.L[i], now_us)) ||
		    (path && hpcc_put_identity(skb, READ_ONCE(path->identity[i]))))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
	}
	return 0;
}

/* @busy: a process owns the socket */
static int hpcc_put_flow(const struct hpcc_nl_reply *to, struct sock *sk,
			 const struct hpcc_flow *flow, bool busy)
{
	struct sk_buff *skb = to->skb;
	void *head = genlmsg_put(skb, to->portid, to->seq, &hpcc_family, to->flags,
				 HPCC_CMD_FLOW_GET);
	int err;

	if (!head)
		return -EMSGSIZE;
	err = hpcc_nl_put_tuple(skb, sk) ?:
	      hpcc_nl_put_mode(skb, flow) ?:
	      hpcc_put_config(skb, sk, flow) ?:
	      hpcc_put_telemetry(skb, flow) ?:
	      hpcc_put_hops(skb, sk, flow, busy ? 0 : flow->algo.nr, to->names) ?:
	      (busy ? nla_put_flag(skb, HPCC_A_FLOW_BUSY) : 0);
	if (err)
		genlmsg_cancel(skb, head);
	else
		genlmsg_end(skb, head);
	return err;
}

static bool hpcc_addr_matches(const struct nlattr *attr, const struct in6_addr *addr)
{
	struct in6_addr want;

	if (!attr)
		return true;
	want = hpcc_nl_get_addr(attr);
	return ipv6_addr_equal(&want, addr);
}

static bool hpcc_port_matches(const struct nlattr *attr, __be16 port)
{
	return !attr || nla_get_u16(attr) == ntohs(port);
}

/* The caller does not hold the socket lock. So each value that this function compares is constant
 * while the connection lasts, or is a single word.
 */
static bool hpcc_flow_matches(struct nlattr * const *attrs, struct sock *sk)
{
	struct hpcc_tuple t;

	hpcc_tuple_of_sock(sk, &t);
	return hpcc_addr_matches(attrs[HPCC_A_FLOW_LADDR], &t.laddr) &&
	       hpcc_addr_matches(attrs[HPCC_A_FLOW_RADDR], &t.raddr) &&
	       hpcc_port_matches(attrs[HPCC_A_FLOW_LPORT], t.lport) &&
	       hpcc_port_matches(attrs[HPCC_A_FLOW_RPORT], t.rport) &&
	       (!attrs[HPCC_A_FLOW_COOKIE] ||
		nla_get_u64(attrs[HPCC_A_FLOW_COOKIE]) == hpcc_nl_cookie(sk)) &&
	       (!attrs[HPCC_A_FLOW_IFINDEX] ||
		nla_get_u32(attrs[HPCC_A_FLOW_IFINDEX]) == READ_ONCE(sk->sk_bound_dev_if));
}

/* The socket of a flow, with a reference, if the flow matches. */
static struct sock *hpcc_flow_hold(struct hpcc_flow *flow, struct nlattr * const *attrs)
{
	struct sock *sk = (struct sock *)flow->sk;
	bool wanted;

	spin_lock_bh(&flow->lock);
	/* The socket cannot be freed: release() needs the lock. */
	wanted = !flow->dead && hpcc_flow_matches(attrs, sk) &&
		 refcount_inc_not_zero(&sk->sk_refcnt);
	spin_unlock_bh(&flow->lock);
	return wanted ? sk : NULL;
}

/* The socket, with a reference, of the first flow from number @id on that matches; sets @id. */
static struct sock *hpcc_flow_next(const struct net *net, struct nlattr * const *attrs,
				   unsigned long *id)
{
	struct hpcc_flow *flow;
	struct sock *sk = NULL;

	for (;; ++*id) {
		rcu_read_lock();
		flow = hpcc_flow_from(hpcc_pernet(net), id);
		if (flow)
			sk = hpcc_flow_hold(flow, attrs);
		rcu_read_unlock();
		if (sk || !flow)
			return sk;
		cond_resched();
	}
}

static void hpcc_await_owner(const struct sock *sk, unsigned long until)
{
	while (hpcc_peek(sk->sk_lock.owned) && time_before(jiffies, until))
		schedule_timeout_uninterruptible(1);
}

/* Put a message about the socket's flow, if it still has one, and drop the reference. */
static int hpcc_dump_flow(const struct hpcc_nl_reply *to, struct sock *sk)
{
	const struct hpcc_flow *flow;
	int err = 0;

	hpcc_await_owner(sk, to->until);
	rcu_read_lock();
	spin_lock_bh(&sk->sk_lock.slock);
	flow = hpcc_flow_find(sk);
	if (flow)
		err = hpcc_put_flow(to, sk, flow, sock_owned_by_user(sk));
	spin_unlock_bh(&sk->sk_lock.slock);
	rcu_read_unlock();
	sock_put(sk);
	return err;
}

/* Request the names of the links of all paths, if the message has HPCC_A_FLOW_IDENTIFY. */
static int hpcc_identify(const struct sk_buff *request, struct net *net,
			 struct nlattr * const *attrs, struct netlink_ext_ack *extack)
{
	if (!attrs[HPCC_A_FLOW_IDENTIFY])
		return 0;
	if (!netlink_net_capable(request, CAP_NET_ADMIN)) {
		NL_SET_ERR_MSG_ATTR(extack, attrs[HPCC_A_FLOW_IDENTIFY],
				    "the names of links require CAP_NET_ADMIN");
		return -EPERM;
	}
	hpcc_paths_ask(net);
	return 0;
}

/* args: number of the next flow; whether the first part is done; whether the process that sent the
 * request may read the names of links. The capabilities of the reader are not checked.
 */
static int hpcc_nl_dump_flows(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct hpcc_nl_reply to = {
		.skb = skb, .portid = NETLINK_CB(cb->skb).portid, .seq = cb->nlh->nlmsg_seq,
		.flags = NLM_F_MULTI, .until = jiffies + msecs_to_jiffies(HPCC_NL_WAIT_MS),
	};
	struct nlattr *attrs[HPCC_A_FLOW_IDENTIFY + 1];
	unsigned long id = cb->args[0];
	struct sock *sk;
	int err;

	/* genetlink has checked the attributes by the policy of the family. */
	err = genlmsg_parse(cb->nlh, &hpcc_family, attrs, HPCC_A_FLOW_IDENTIFY, NULL, cb->extack);
	if (!err && !cb->args[1]) {
		cb->args[2] = netlink_net_capable(cb->skb, CAP_NET_ADMIN);
		err = hpcc_identify(cb->skb, sock_net(skb->sk), attrs, cb->extack);
	}
	cb->args[1] = !err;
	to.names = cb->args[2];
	while (!err && (sk = hpcc_flow_next(sock_net(skb->sk), attrs, &id))) {
		err = hpcc_dump_flow(&to, sk);
		if (!err)
			id++;
	}
	cb->args[0] = id;
	/* A flow that does not fit goes into the next message. */
	return err == -EMSGSIZE && skb->len ? skb->len : err ?: skb->len;
}

/* The socket of the only flow that matches, with a reference, or an error. */
static struct sock *hpcc_flow_only(struct genl_info *info)
{
	struct sock *sk, *another;
	unsigned long id = 0;

	sk = hpcc_flow_next(genl_info_net(info), info->attrs, &id);
	if (!sk) {
		NL_SET_ERR_MSG(info->extack,
			       "no connection with these ends runs hpcc in this namespace");
		return ERR_PTR(-ENOENT);
	}
	id++;
	another = hpcc_flow_next(genl_info_net(info), info->attrs, &id);
	if (!another)
		return sk;
	sock_put(another);
	sock_put(sk);
	NL_SET_ERR_MSG(info->extack, "several connections have these ends: add ifindex or cookie");
	return ERR_PTR(-ENOTUNIQ);
}

static int hpcc_nl_get_flow(struct sk_buff *skb, struct genl_info *info)
{
	struct hpcc_nl_reply to = {
		.portid = info->snd_portid, .seq = info->snd_seq,
		.until = jiffies + msecs_to_jiffies(HPCC_NL_WAIT_MS),
		.names = netlink_net_capable(skb, CAP_NET_ADMIN),
	};
	struct sock *sk;
	int err;

	if (!info->attrs[HPCC_A_FLOW_COOKIE] &&
	    (!info->attrs[HPCC_A_FLOW_LADDR] || !info->attrs[HPCC_A_FLOW_RADDR] ||
	     !info->attrs[HPCC_A_FLOW_LPORT] || !info->attrs[HPCC_A_FLOW_RPORT])) {
		NL_SET_ERR_MSG(info->extack,
			       "the request needs both ends of a connection, or its cookie");
		return -EINVAL;
	}
	err = hpcc_identify(skb, genl_info_net(info), info->attrs, info->extack);
	if (err)
		return err;
	to.skb = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!to.skb)
		return -ENOMEM;
	sk = hpcc_flow_only(info);
	err = IS_ERR(sk) ? PTR_ERR(sk) : hpcc_dump_flow(&to, sk);
	if (!err && to.skb->len)
		return genlmsg_reply(to.skb, info);
	nlmsg_free(to.skb);
	if (!err)
		NL_SET_ERR_MSG(info->extack, "the connection has just ended");
	return err ?: -ENOENT;
}

/* cb->args[0] is the next counter. */
static int hpcc_nl_dump_counters(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct hpcc_netns *ns = &hpcc_pernet(sock_net(skb->sk))->ns;
	void *head;

	for (; cb->args[0] < __HPCC_C_MAX; cb->args[0]++) {
		head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &hpcc_family, NLM_F_MULTI, HPCC_CMD_COUNTERS_GET);
		if (!head ||
		    nla_put_string(skb, HPCC_A_COUNTER_NAME, hpcc_counter_names[cb->args[0]]) ||
		    nla_put_u64_64bit(skb, HPCC_A_COUNTER_VALUE,
				      hpcc_counter_read(ns, cb->args[0]), HPCC_A_COUNTER_PAD)) {
			genlmsg_cancel(skb, head);
			break;
		}
		genlmsg_end(skb, head);
	}
	return skb->len;
}

static int hpcc_nl_do(struct sk_buff *skb, struct genl_info *info)
{
	return info->genlhdr->cmd == HPCC_CMD_FLOW_GET ? hpcc_nl_get_flow(skb, info) :
							 hpcc_nl_set_table(skb, info);
}

static int hpcc_nl_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	switch (((const struct genlmsghdr *)nlmsg_data(cb->nlh))->cmd) {
	case HPCC_CMD_FLOW_GET:
		return hpcc_nl_dump_flows(skb, cb);
	case HPCC_CMD_COUNTERS_GET:
		return hpcc_nl_dump_counters(skb, cb);
	default:
		return hpcc_nl_dump_table(skb, cb);
	}
}

static const struct hpcc_nl_requests hpcc_nl_handlers = {
	.owner	= THIS_MODULE,
	.doit	= hpcc_nl_do,
	.dumpit	= hpcc_nl_dump,
};

module_driver(hpcc_nl_handlers, hpcc_nl_register, hpcc_nl_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Netlink requests for HPCC++");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
