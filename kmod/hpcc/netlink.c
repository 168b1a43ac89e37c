// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink family "hpcc": the flows of a network namespace, one or all, and what happens
 * to them. As with ss, whoever may open a socket in the namespace may ask; only who has
 * CAP_NET_ADMIN there is told the names of links.
 *
 * A dump takes the flows in the order of their numbers, each under its socket's lock: what it
 * says of one is of one moment. It says of each flow that lives all the time exactly once.
 */
#include <linux/sock_diag.h>
#include <net/genetlink.h>

#include "cc.h"
#include "flow.h"
#include "handshake.h"
#include "net.h"
#include "netlink.h"
#include "path.h"
#include "trace.h"

static struct genl_family hpcc_family;

enum {
	HPCC_MCGRP_OF_EVENTS,
};

static const struct genl_multicast_group hpcc_mcgrps[] = {
	[HPCC_MCGRP_OF_EVENTS] = { .name = HPCC_MCGRP_EVENTS, },
};

/* What selects flows. */
static const struct nla_policy hpcc_flow_policy[HPCC_A_FLOW_COOKIE + 1] = {
	[HPCC_A_FLOW_LADDR]	= NLA_POLICY_RANGE(NLA_BINARY, 4, 16),
	[HPCC_A_FLOW_RADDR]	= NLA_POLICY_RANGE(NLA_BINARY, 4, 16),
	[HPCC_A_FLOW_LPORT]	= { .type = NLA_U16 },
	[HPCC_A_FLOW_RPORT]	= { .type = NLA_U16 },
	[HPCC_A_FLOW_COOKIE]	= { .type = NLA_U64 },
};

/**
 * struct hpcc_nl_reply - what goes into each message of an answer
 * @skb: where they go
 * @portid: of who asked
 * @seq: of what he asked
 * @flags: of the messages
 * @names: he may know the names of links
 */
struct hpcc_nl_reply {
	struct sk_buff *skb;
	u32 portid;
	u32 seq;
	int flags;
	bool names;
};

/* ---- What a flow is ---------------------------------------------------------- */

static int hpcc_put_addr(struct sk_buff *skb, int type, const struct in6_addr *addr)
{
	if (ipv6_addr_v4mapped(addr))
		return nla_put_in_addr(skb, type, addr->s6_addr32[3]);
	return nla_put_in6_addr(skb, type, addr);
}

static int hpcc_put_u64(struct sk_buff *skb, int type, u64 value)
{
	return nla_put_u64_64bit(skb, type, value, HPCC_A_FLOW_PAD);
}

/* Modules have no sock_gen_cookie(). */
static u64 hpcc_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}

static int hpcc_put_who(struct sk_buff *skb, struct sock *sk)
{
	struct hpcc_tuple t;

	hpcc_tuple_of_sock(sk, &t);
	return hpcc_put_addr(skb, HPCC_A_FLOW_LADDR, &t.laddr) ?:
	       hpcc_put_addr(skb, HPCC_A_FLOW_RADDR, &t.raddr) ?:
	       nla_put_u16(skb, HPCC_A_FLOW_LPORT, ntohs(t.lport)) ?:
	       nla_put_u16(skb, HPCC_A_FLOW_RPORT, ntohs(t.rport)) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_COOKIE, hpcc_cookie(sk));
}

static int hpcc_put_mode(struct sk_buff *skb, const struct hpcc_flow *flow)
{
	BUILD_BUG_ON(HPCC_MODE_TELEMETRY != (int)HPCC_FLOW_TELEMETRY ||
		     HPCC_MODE_IGNORING != (int)HPCC_FLOW_IGNORING ||
		     HPCC_MODE_CLASSIC != (int)HPCC_FLOW_CLASSIC ||
		     HPCC_MODE_DOUBTING != (int)HPCC_FLOW_DOUBTING);
	return nla_put_u32(skb, HPCC_A_FLOW_MODE, flow->mode) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_WHY, flow->why) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_W, flow->algo.W_q16 >> 16) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_WC, flow->algo.Wc_q16 >> 16) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_W_INIT, flow->params.W_max_q16 >> 16) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_U, flow->algo.U_q24) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_ETA, flow->params.eta_q24) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_R,
			    hpcc_pacing_rate(&flow->algo, &flow->params, NSEC_PER_SEC)) ?:
	       hpcc_put_u64(skb, HPCC_A_FLOW_T, flow->params.T) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_INC_STAGE, flow->algo.inc_stage);
}

static int hpcc_put_how(struct sk_buff *skb, const struct hpcc_flow *flow)
{
	return (flow->N_heard ? nla_put_u32(skb, HPCC_A_FLOW_N, flow->N_heard) : 0) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_SAMPLE, flow->searching ? 0 : flow->sample_ns) ?:
	       (flow->reported ? nla_put_flag(skb, HPCC_A_FLOW_RECEIVER) : 0) ?:
	       (flow->probes ? nla_put_flag(skb, HPCC_A_FLOW_PROBES) : 0) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_HOPS, READ_ONCE(flow->hops));
}

static int hpcc_put_link(struct sk_buff *skb, const struct hpcc_link *link, u64 now_us)
{
	if (link->quiet)
		return nla_put_flag(skb, HPCC_A_HOP_QUIET);
	if (!link->valid)
		return 0;
	return hpcc_put_u64(skb, HPCC_A_HOP_U, link->u_q24) ?:
	       hpcc_put_u64(skb, HPCC_A_HOP_QLEN, link->qlen) ?:
	       hpcc_put_u64(skb, HPCC_A_HOP_AGE, now_us - link->seen_us);
}

static int hpcc_put_identity(struct sk_buff *skb, u64 word)
{
	struct hpcc_identity id;

	hpcc_identity_unpack(word, &id);
	if (!id.hop)
		return 0;
	return nla_put_u32(skb, HPCC_A_HOP_NODE, id.node) ?:
	       nla_put_u32(skb, HPCC_A_HOP_PORT, id.port) ?:
	       hpcc_put_u64(skb, HPCC_A_HOP_RATE, id.bps);
}

static int hpcc_put_hops(struct sk_buff *skb, const struct sock *sk, const struct hpcc_flow *flow,
			 bool names)
{
	const struct hpcc_path *path = names ? rcu_dereference(flow->path) : NULL;
	u64 now_us = max_t(u64, tcp_sk(sk)->tcp_mstamp, tcp_clock_us());
	struct nlattr *nest;
	u32 i;

	for (i = 0; i < READ_ONCE(flow->hops); i++) {
		nest = nla_nest_start(skb, HPCC_A_FLOW_HOP);
		if (!nest || nla_put_u32(skb, HPCC_A_HOP_HOP, i + 1) ||
		    (i < flow->algo.nr && hpcc_put_link(skb, &flow->algo.L[i], now_us)) ||
		    (path && hpcc_put_identity(skb, READ_ONCE(path->identity[i]))))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
	}
	return 0;
}

/* One message about a flow, under the lock of its socket. */
static int hpcc_put_flow(const struct hpcc_nl_reply *to, struct sock *sk,
			 const struct hpcc_flow *flow)
{
	struct sk_buff *skb = to->skb;
	void *head = genlmsg_put(skb, to->portid, to->seq, &hpcc_family, to->flags,
				 HPCC_CMD_FLOW_GET);
	int err;

	if (!head)
		return -EMSGSIZE;
	rcu_read_lock();
	err = hpcc_put_who(skb, sk) ?:
	      hpcc_put_mode(skb, flow) ?:
	      hpcc_put_how(skb, flow) ?:
	      hpcc_put_hops(skb, sk, flow, to->names);
	rcu_read_unlock();
	if (err)
		genlmsg_cancel(skb, head);
	else
		genlmsg_end(skb, head);
	return err;
}

/* ---- Which flows ----------------------------------------------------------------- */

static bool hpcc_addr_matches(const struct nlattr *attr, const struct in6_addr *addr)
{
	if (!attr)
		return true;
	if (ipv6_addr_v4mapped(addr))
		return nla_len(attr) == 4 && !memcmp(nla_data(attr), &addr->s6_addr32[3], 4);
	return nla_len(attr) == 16 && !memcmp(nla_data(attr), addr, 16);
}

static bool hpcc_port_matches(const struct nlattr *attr, __be16 port)
{
	return !attr || nla_get_u16(attr) == ntohs(port);
}

static bool hpcc_flow_matches(struct nlattr * const *attrs, struct sock *sk)
{
	struct hpcc_tuple t;

	hpcc_tuple_of_sock(sk, &t);
	return hpcc_addr_matches(attrs[HPCC_A_FLOW_LADDR], &t.laddr) &&
	       hpcc_addr_matches(attrs[HPCC_A_FLOW_RADDR], &t.raddr) &&
	       hpcc_port_matches(attrs[HPCC_A_FLOW_LPORT], t.lport) &&
	       hpcc_port_matches(attrs[HPCC_A_FLOW_RPORT], t.rport) &&
	       (!attrs[HPCC_A_FLOW_COOKIE] ||
		nla_get_u64(attrs[HPCC_A_FLOW_COOKIE]) == hpcc_cookie(sk));
}

/* The socket of the first flow whose number is @id or more, with a reference; sets @id. */
static struct sock *hpcc_flow_sock(const struct net *net, unsigned long *id)
{
	struct hpcc_flow *flow;
	struct sock *sk = NULL;

	rcu_read_lock();
	for (; !sk && (flow = hpcc_flow_from(net, id)); ++*id) {
		spin_lock_bh(&flow->lock);
		/* The socket cannot go away: release() waits for the lock. */
		if (!flow->dead && refcount_inc_not_zero(&((struct sock *)flow->sk)->sk_refcnt))
			sk = (struct sock *)flow->sk;
		spin_unlock_bh(&flow->lock);
		if (sk)
			break;
	}
	rcu_read_unlock();
	return sk;
}

/* Tell of the socket's flow, if it still has one, and it is wanted. Return: 0 as well if not. */
static int hpcc_tell(const struct hpcc_nl_reply *to, struct sock *sk,
		     struct nlattr * const *attrs)
{
	const struct hpcc_flow *flow;
	int err = 0;

	lock_sock(sk);
	flow = hpcc_is_ours(sk) ? hpcc_flow_of(sk) : NULL;
	if (flow && hpcc_flow_matches(attrs, sk))
		err = hpcc_put_flow(to, sk, flow);
	release_sock(sk);
	return err;
}

/* cb->args[0] is the number of the next flow. */
static int hpcc_nl_dump_flows(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct hpcc_nl_reply to = {
		.skb = skb, .portid = NETLINK_CB(cb->skb).portid, .seq = cb->nlh->nlmsg_seq,
		.flags = NLM_F_MULTI, .names = netlink_net_capable(cb->skb, CAP_NET_ADMIN),
	};
	struct nlattr *attrs[HPCC_A_FLOW_COOKIE + 1];
	unsigned long id = cb->args[0];
	struct sock *sk;
	int err;

	err = genlmsg_parse(cb->nlh, &hpcc_family, attrs, HPCC_A_FLOW_COOKIE, hpcc_flow_policy,
			    cb->extack);
	while (!err && (sk = hpcc_flow_sock(sock_net(skb->sk), &id))) {
		err = hpcc_tell(&to, sk, attrs);
		sock_put(sk);
		if (!err)
			id++;
	}
	cb->args[0] = id;
	/* What does not fit goes into the next message. */
	return err == -EMSGSIZE && skb->len ? skb->len : err ?: skb->len;
}

static int hpcc_nl_get_flow(struct sk_buff *skb, struct genl_info *info)
{
	struct hpcc_nl_reply to = {
		.portid = info->snd_portid, .seq = info->snd_seq,
		.names = netlink_net_capable(skb, CAP_NET_ADMIN),
	};
	struct sk_buff *msg;
	unsigned long id;
	struct sock *sk;
	int err = 0;

	if (!info->attrs[HPCC_A_FLOW_COOKIE] &&
	    (!info->attrs[HPCC_A_FLOW_LADDR] || !info->attrs[HPCC_A_FLOW_RADDR] ||
	     !info->attrs[HPCC_A_FLOW_LPORT] || !info->attrs[HPCC_A_FLOW_RPORT])) {
		NL_SET_ERR_MSG(info->extack, "a flow is named by both ends, or by its cookie");
		return -EINVAL;
	}
	msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	to.skb = msg;
	for (id = 0; !err && !msg->len && (sk = hpcc_flow_sock(genl_info_net(info), &id)); id++) {
		err = hpcc_tell(&to, sk, info->attrs);
		sock_put(sk);
	}
	if (!err && !msg->len) {
		NL_SET_ERR_MSG(info->extack, "no connection of that name runs hpcc here");
		err = -ENOENT;
	}
	if (err) {
		nlmsg_free(msg);
		return err;
	}
	return genlmsg_reply(msg, info);
}

/* ---- Events ------------------------------------------------------------------------ */

/**
 * hpcc_notify() - tell who listens that something happened to a flow
 * @sk: its socket, under its lock
 * @flow: the flow
 * @event: what
 *
 * Who listens too slowly loses messages, and gets ENOBUFS.
 *
 * Context: does not sleep.
 */
void hpcc_notify(struct sock *sk, const struct hpcc_flow *flow, enum hpcc_event event)
{
	struct net *net = sock_net(sk);
	struct sk_buff *skb;
	void *head;

	trace_hpcc_mode(sk, flow, event);
	if (likely(!genl_has_listeners(&hpcc_family, net, HPCC_MCGRP_OF_EVENTS)))
		return;
	skb = nlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return;
	head = genlmsg_put(skb, 0, 0, &hpcc_family, 0, HPCC_CMD_FLOW_NTF);
	if (!head || hpcc_put_who(skb, sk) || nla_put_u32(skb, HPCC_A_FLOW_EVENT, event) ||
	    hpcc_put_mode(skb, flow)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, head);
	genlmsg_multicast_netns(&hpcc_family, net, skb, 0, HPCC_MCGRP_OF_EVENTS, GFP_ATOMIC);
}

/* ---- Registration -------------------------------------------------------------------- */

static const struct genl_ops hpcc_nl_ops[] = {
	{
		.cmd		= HPCC_CMD_FLOW_GET,
		.policy		= hpcc_flow_policy,
		.maxattr	= HPCC_A_FLOW_COOKIE,
		.doit		= hpcc_nl_get_flow,
		.dumpit		= hpcc_nl_dump_flows,
	},
};

static struct genl_family hpcc_family __ro_after_init = {
	.name		= HPCC_FAMILY_NAME,
	.version	= HPCC_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= hpcc_nl_ops,
	.n_ops		= ARRAY_SIZE(hpcc_nl_ops),
	.resv_start_op	= __HPCC_CMD_MAX,
	.mcgrps		= hpcc_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(hpcc_mcgrps),
};

/**
 * hpcc_netlink_init() - register the family
 *
 * Return: 0 or a negative error.
 */
int __init hpcc_netlink_init(void)
{
	return genl_register_family(&hpcc_family);
}

/**
 * hpcc_netlink_exit() - take it back
 */
void hpcc_netlink_exit(void)
{
	genl_unregister_family(&hpcc_family);
}
