// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink family "hpcc": the operations and the events. Most hosts send no requests, so the
 * module hpcc_netlink (requests.c, tables.c) handles them. The first request of any user loads the
 * module, as a request for a family does. Each request and each dump holds the module until its
 * end. Events need no other module: a listener that only joins the group gets all of them.
 */
#include <linux/module.h>

#include "control/agreement.h"
#include "control/cc.h"
#include "control/trace.h"
#include "observe/netlink.h"

enum {
	HPCC_MCGRP_OF_EVENTS,
};

static const struct genl_multicast_group hpcc_mcgrps[] = {
	[HPCC_MCGRP_OF_EVENTS] = { .name = HPCC_MCGRP_EVENTS, },
};

/* Maximum number of events of a flow in a second. */
#define HPCC_NL_EVENTS		8

/* Check an IPv4 or IPv6 address. */
int hpcc_nl_addr_validate(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	if (nla_len(attr) == sizeof(struct in_addr) || nla_len(attr) == sizeof(struct in6_addr))
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr, "an address has 4 or 16 bytes");
	return -EINVAL;
}
EXPORT_SYMBOL_GPL(hpcc_nl_addr_validate);

/* Attributes that select flows. */
static const struct nla_policy hpcc_flow_policy[HPCC_A_FLOW_IDENTIFY + 1] = {
	[HPCC_A_FLOW_LADDR]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_nl_addr_validate),
	[HPCC_A_FLOW_RADDR]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_nl_addr_validate),
	[HPCC_A_FLOW_LPORT]	= { .type = NLA_U16 },
	[HPCC_A_FLOW_RPORT]	= { .type = NLA_U16 },
	[HPCC_A_FLOW_COOKIE]	= { .type = NLA_U64 },
	[HPCC_A_FLOW_IFINDEX]	= { .type = NLA_U32 },
	[HPCC_A_FLOW_IDENTIFY]	= { .type = NLA_FLAG },
};

/* Requests that change a table; hpcc_table_type.policy is the policy of an entry. */
static const struct nla_policy hpcc_table_policy[HPCC_A_TABLE_MAX + 1] = {
	[HPCC_A_TABLE_REPLACE]	= { .type = NLA_FLAG },
	[HPCC_A_TABLE_LINK]	= { .type = NLA_NESTED },
	[HPCC_A_TABLE_ROUTE]	= { .type = NLA_NESTED },
	[HPCC_A_TABLE_KEY]	= { .type = NLA_NESTED },
};

/* Put the ends of a connection into a message. */
int __cold hpcc_nl_put_tuple(struct sk_buff *skb, struct sock *sk)
{
	int ifindex = READ_ONCE(sk->sk_bound_dev_if);
	struct hpcc_tuple t;

	hpcc_tuple_of_sock(sk, &t);
	return hpcc_nl_put_addr(skb, HPCC_A_FLOW_LADDR, &t.laddr) ?:
	       hpcc_nl_put_addr(skb, HPCC_A_FLOW_RADDR, &t.raddr) ?:
	       nla_put_u16(skb, HPCC_A_FLOW_LPORT, ntohs(t.lport)) ?:
	       nla_put_u16(skb, HPCC_A_FLOW_RPORT, ntohs(t.rport)) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_COOKIE, hpcc_nl_cookie(sk)) ?:
	       (ifindex ? nla_put_u32(skb, HPCC_A_FLOW_IFINDEX, ifindex) : 0);
}
EXPORT_SYMBOL_GPL(hpcc_nl_put_tuple);

/* R = W/T in bytes/s. Without the socket lock W and T may belong to two consecutive ACKs. */
u64 __cold hpcc_peek_rate(const struct hpcc_flow *flow)
{
	const struct hpcc_params params = { .inv_T_q63 = hpcc_peek(flow->params.inv_T_q63) };
	const struct hpcc_algo algo = { .W_q16 = hpcc_peek(flow->algo.W_q16) };

	return hpcc_pacing_rate(&algo, &params, NSEC_PER_SEC);
}

/* Put mode, windows and parameters of a flow into a message. */
int __cold hpcc_nl_put_mode(struct sk_buff *skb, const struct hpcc_flow *flow)
{
	BUILD_BUG_ON(HPCC_MODE_TELEMETRY != (int)HPCC_FLOW_TELEMETRY ||
		     HPCC_MODE_STALE != (int)HPCC_FLOW_IGNORING ||
		     HPCC_MODE_CLASSIC != (int)HPCC_FLOW_CLASSIC ||
		     HPCC_MODE_CLASSIC_VERIFY != (int)HPCC_FLOW_DOUBTING);
	return nla_put_u32(skb, HPCC_A_FLOW_MODE, READ_ONCE(flow->mode)) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_WHY, hpcc_peek(flow->why)) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_W, hpcc_peek(flow->algo.W_q16) >> 16) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_WC, hpcc_peek(flow->algo.Wc_q16) >> 16) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_W_INIT, hpcc_peek(flow->params.W_max_q16) >> 16) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_U, hpcc_peek(flow->algo.U_q24)) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_ETA, hpcc_peek(flow->params.eta_q24)) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_R, hpcc_peek_rate(flow)) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_T, hpcc_peek(flow->params.T)) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_INC_STAGE, hpcc_peek(flow->algo.inc_stage)) ?:
	       hpcc_nl_put_u64(skb, HPCC_A_FLOW_W_MIN, hpcc_peek(flow->params.W_min_q16) >> 16) ?:
	       nla_put_u32(skb, HPCC_A_FLOW_MAX_STAGE, hpcc_peek(flow->params.max_stage));
}
EXPORT_SYMBOL_GPL(hpcc_nl_put_mode);

/* Whether a flow has reached its limit of events in this second; counts the event. */
static bool hpcc_event_is_missed(struct hpcc_flow *flow)
{
	u32 now = jiffies;

	if (now - flow->event.since >= HZ) {
		flow->event.since = now;
		flow->event.count = 0;
	}
	if (flow->event.count == HPCC_NL_EVENTS) {
		flow->event.missed++;
		return true;
	}
	flow->event.count++;
	return false;
}

static int hpcc_put_event(struct sk_buff *skb, struct sock *sk, const struct hpcc_flow *flow,
			  enum hpcc_event event)
{
	void *head = genlmsg_put(skb, 0, 0, &hpcc_family, 0, HPCC_CMD_FLOW_NTF);
	int err;

	if (!head)
		return -EMSGSIZE;
	err = hpcc_nl_put_tuple(skb, sk) ?:
	      nla_put_u32(skb, HPCC_A_FLOW_EVENT, event) ?:
	      hpcc_nl_put_mode(skb, flow) ?:
	      (flow->event.missed ? nla_put_u32(skb, HPCC_A_FLOW_MISSED, flow->event.missed) : 0);
	genlmsg_end(skb, head);
	return err;
}

/**
 * hpcc_nl_notify() - send an event of a flow to the listeners of the multicast group
 * @sk: its socket, under its lock
 * @flow: the flow
 * @event: the event
 *
 * A peer can cause events, so a flow sends at most HPCC_NL_EVENTS in a second. The next event has
 * the number of missed events.
 * Context: does not sleep.
 */
void __cold hpcc_nl_notify(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event)
{
	struct net *net = sock_net(sk);
	struct sk_buff *skb;

	trace_hpcc_mode(sk, flow, event);
	/* A kernel socket may outlive the netlink of its namespace. */
	if (!check_net(net) ||
	    likely(!genl_has_listeners(&hpcc_family, net, HPCC_MCGRP_OF_EVENTS)) ||
	    hpcc_event_is_missed(flow))
		return;
	skb = nlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb || hpcc_put_event(skb, sk, flow, event)) {
		nlmsg_free(skb);
		flow->event.missed++;
		return;
	}
	flow->event.missed = 0;
	genlmsg_multicast_netns(&hpcc_family, net, skb, 0, HPCC_MCGRP_OF_EVENTS, GFP_ATOMIC);
}

static const struct hpcc_nl_requests __rcu *hpcc_nl_requests __read_mostly;

/* Last step of the module's init. Takes no lock: see common/setup.c. */
int hpcc_nl_register(const struct hpcc_nl_requests *to)
{
	rcu_assign_pointer(hpcc_nl_requests, to);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_nl_register);

/* The module's exit: no request uses it. genetlink reads the error message of a request, which is
 * in the module, after module_put(). It then still holds its cb_lock, for which
 * genl_unregister_family() of an unknown family waits.
 */
void hpcc_nl_unregister(const struct hpcc_nl_requests *to)
{
	static const struct genl_family unknown;

	genl_unregister_family(&unknown);
	rcu_assign_pointer(hpcc_nl_requests, NULL);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(hpcc_nl_unregister);

static const struct hpcc_nl_requests *hpcc_nl_try_get(void)
{
	const struct hpcc_nl_requests *to;

	rcu_read_lock();
	to = rcu_dereference(hpcc_nl_requests);
	if (to && !try_module_get(to->owner))
		to = NULL;
	rcu_read_unlock();
	return to;
}

static DEFINE_MUTEX(hpcc_nl_loading);

/* Load the module, unless an attempt failed less than a second ago, or the module is being removed.
 * genetlink's cb_lock is held, as sock_diag's mutex is for a request that loads a module of ss. So
 * users must not keep modprobe running.
 */
static const struct hpcc_nl_requests * __cold hpcc_nl_load(void)
{
	static unsigned long failed = INITIAL_JIFFIES - HZ;
	const struct hpcc_nl_requests *to;

	mutex_lock(&hpcc_nl_loading);
	to = hpcc_nl_try_get();
	if (!to && !rcu_access_pointer(hpcc_nl_requests) && time_after_eq(jiffies, failed + HZ)) {
		hpcc_module_request("hpcc_netlink");
		to = hpcc_nl_try_get();
		if (!to)
			failed = jiffies;
	}
	mutex_unlock(&hpcc_nl_loading);
	return to;
}

static const struct hpcc_nl_requests * __cold hpcc_nl_get(struct netlink_ext_ack *extack)
{
	const struct hpcc_nl_requests *to = hpcc_nl_try_get() ?: hpcc_nl_load();

	if (!to)
		NL_SET_ERR_MSG(extack, "the module hpcc_netlink is not loaded");
	return to;
}

static int hpcc_nl_doit(struct sk_buff *skb, struct genl_info *info)
{
	const struct hpcc_nl_requests *to = hpcc_nl_get(info->extack);
	int err;

	if (!to)
		return -ENOENT;
	err = to->doit(skb, info);
	module_put(to->owner);
	return err;
}

/* The first part holds the module for the dump. Not in start(), which cannot report a message. */
static int hpcc_nl_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct hpcc_nl_requests *to = (void *)cb->args[HPCC_NL_HELD];

	if (!to) {
		to = hpcc_nl_get(cb->extack);
		if (!to)
			return -ENOENT;
		cb->args[HPCC_NL_HELD] = (long)to;
	}
	return to->dumpit(skb, cb);
}

static int hpcc_nl_done(struct netlink_callback *cb)
{
	const struct hpcc_nl_requests *to = (void *)cb->args[HPCC_NL_HELD];

	if (to)
		module_put(to->owner);
	return 0;
}

#define HPCC_NL_DUMP	.dumpit = hpcc_nl_dumpit, .done = hpcc_nl_done
#define HPCC_NL_CHANGE	.flags = GENL_UNS_ADMIN_PERM, .doit = hpcc_nl_doit

static const struct genl_ops hpcc_nl_ops[] = {
	{ .cmd = HPCC_CMD_FLOW_GET, .policy = hpcc_flow_policy, .maxattr = HPCC_A_FLOW_IDENTIFY,
	  .doit = hpcc_nl_doit, HPCC_NL_DUMP },
	{ .cmd = HPCC_CMD_COUNTERS_GET, HPCC_NL_DUMP },
	{ .cmd = HPCC_CMD_LINK_GET, HPCC_NL_DUMP },
	{ .cmd = HPCC_CMD_ROUTE_GET, HPCC_NL_DUMP },
	{ .cmd = HPCC_CMD_KEY_GET, HPCC_NL_DUMP },
};

/* These, and the dumps without a policy, use the policy of the family. */
static const struct genl_small_ops hpcc_nl_changes[] = {
	{ .cmd = HPCC_CMD_LINK_SET, HPCC_NL_CHANGE },
	{ .cmd = HPCC_CMD_LINK_DEL, HPCC_NL_CHANGE },
	{ .cmd = HPCC_CMD_ROUTE_SET, HPCC_NL_CHANGE },
	{ .cmd = HPCC_CMD_ROUTE_DEL, HPCC_NL_CHANGE },
	{ .cmd = HPCC_CMD_KEY_SET, HPCC_NL_CHANGE },
	{ .cmd = HPCC_CMD_KEY_DEL, HPCC_NL_CHANGE },
};

struct genl_family hpcc_family = {
	.name		= HPCC_FAMILY_NAME,
	.version	= HPCC_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= hpcc_nl_ops,
	.n_ops		= ARRAY_SIZE(hpcc_nl_ops),
	.small_ops	= hpcc_nl_changes,
	.n_small_ops	= ARRAY_SIZE(hpcc_nl_changes),
	.policy		= hpcc_table_policy,
	.maxattr	= HPCC_A_TABLE_MAX,
	.mcgrps		= hpcc_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(hpcc_mcgrps),
};
EXPORT_SYMBOL_GPL(hpcc_family);
