// SPDX-License-Identifier: GPL-2.0
/* hpcc-network: convert each line of the plan to a message. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <netinet/ether.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/uapi/linux/hpcc.h"
#include "../../include/uapi/linux/hpcc_netlink.h"
#include "network.h"

struct address {
	unsigned char	family, plen;
	unsigned char	bytes[16];
	size_t		size;
};

static unsigned long long number(const char *text, unsigned long long most,
				 const struct item *item)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value > most)
		bad_line(item);
	return value;
}

/* ADDRESS or ADDRESS/BITS */
static struct address parse_address(char *text, const struct item *item)
{
	struct address a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	char *bits = strchr(text, '/');

	a.size = a.family == AF_INET6 ? 16 : 4;
	a.plen = bits ? number(bits + 1, 8 * a.size, item) : 8 * a.size;
	if (bits)
		*bits = '\0';
	if (inet_pton(a.family, text, a.bytes) != 1)
		bad_line(item);
	return a;
}

static void put_address(struct nlmsghdr *nlh, int type, const struct address *a)
{
	mnl_attr_put(nlh, type, a->size, a->bytes);
}

static void put_mac(struct nlmsghdr *nlh, int type, const char *text, const struct item *item)
{
	struct ether_addr mac;

	if (!ether_aton_r(text, &mac))
		bad_line(item);
	mnl_attr_put(nlh, type, sizeof(mac), &mac);
}

static void put_end(struct nlmsghdr *nlh, struct item *item, const struct node *node,
		    const char *name, const char *mac, unsigned int mtu)
{
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	mnl_attr_put_u32(nlh, IFLA_MTU, mtu);
	put_mac(nlh, IFLA_ADDRESS, mac, item);
	mnl_attr_put_u32(nlh, IFLA_NET_NS_FD, node->fd);
}

/* link NODE INTERFACE MAC NODE INTERFACE MAC MTU: one message creates both ends */
void add_link(struct item *item)
{
	char *args = item->args, *name = word(&args, item), *mac = word(&args, item);
	struct node *peer = node_of(word(&args, item));
	char *peer_name = word(&args, item), *peer_mac = word(&args, item);
	unsigned int mtu = number(word(&args, item), UINT16_MAX, item);
	struct ifinfomsg head = { .ifi_index = interface_of(item->node, name) };
	struct nlattr *info, *data, *end;
	struct nlmsghdr *nlh;

	nlh = netlink_message(item, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	put_end(nlh, item, item->node, name, mac, mtu);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_str(nlh, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	end = mnl_attr_nest_start(nlh, VETH_INFO_PEER);
	head.ifi_index = interface_of(peer, peer_name);
	memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(head)), &head, sizeof(head));
	put_end(nlh, item, peer, peer_name, peer_mac, mtu);
	mnl_attr_nest_end(nlh, end);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
}

/* bridge NODE INTERFACE */
static void add_bridge(struct item *item)
{
	char *args = item->args, *name = word(&args, item);
	struct ifinfomsg head = { .ifi_index = interface_of(item->node, name) };
	struct nlattr *info, *data;
	struct nlmsghdr *nlh;

	nlh = netlink_message(item, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_str(nlh, IFLA_INFO_KIND, "bridge");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	mnl_attr_put_u32(nlh, IFLA_BR_STP_STATE, 0);
	mnl_attr_put_u32(nlh, IFLA_BR_FORWARD_DELAY, 0);
	mnl_attr_put_u8(nlh, IFLA_BR_MCAST_SNOOPING, 0);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
}

/* member NODE INTERFACE BRIDGE */
static void add_member(struct item *item)
{
	char *args = item->args;
	struct ifinfomsg head = { .ifi_index = interface_of(item->node, word(&args, item)) };
	struct nlmsghdr *nlh = netlink_message(item, RTM_SETLINK, 0, &head, sizeof(head));

	mnl_attr_put_u32(nlh, IFLA_MASTER, interface_of(item->node, word(&args, item)));
}

/* up NODE INTERFACE, down NODE INTERFACE */
static void set_up(struct item *item)
{
	char *args = item->args;
	struct ifinfomsg head = {
		.ifi_index = interface_of(item->node, word(&args, item)),
		.ifi_flags = strcmp(item->kind, "up") ? 0 : IFF_UP,
		.ifi_change = IFF_UP,
	};

	netlink_message(item, RTM_SETLINK, 0, &head, sizeof(head));
}

/* address NODE INTERFACE ADDRESS/BITS */
static void add_address(struct item *item)
{
	char *args = item->args, *name = word(&args, item);
	struct address a = parse_address(word(&args, item), item);
	struct ifaddrmsg head = {
		.ifa_family = a.family,
		.ifa_prefixlen = a.plen,
		.ifa_flags = a.family == AF_INET6 ? IFA_F_NODAD : 0,
		.ifa_index = interface_of(item->node, name),
	};
	struct nlmsghdr *nlh;

	nlh = netlink_message(item, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &head, sizeof(head));
	put_address(nlh, IFA_LOCAL, &a);
	put_address(nlh, IFA_ADDRESS, &a);
}

/* neigh NODE INTERFACE ADDRESS MAC */
static void add_neighbour(struct item *item)
{
	char *args = item->args, *name = word(&args, item);
	struct address a = parse_address(word(&args, item), item);
	struct ndmsg head = {
		.ndm_family = a.family,
		.ndm_ifindex = interface_of(item->node, name),
		.ndm_state = NUD_PERMANENT,
	};
	struct nlmsghdr *nlh;

	nlh = netlink_message(item, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &head,
			      sizeof(head));
	put_address(nlh, NDA_DST, &a);
	put_mac(nlh, NDA_LLADDR, word(&args, item), item);
}

/* fdb NODE INTERFACE MAC: the bridge forwards packets to MAC through INTERFACE */
static void add_fdb(struct item *item)
{
	char *args = item->args;
	struct ndmsg head = {
		.ndm_family = PF_BRIDGE,
		.ndm_ifindex = interface_of(item->node, word(&args, item)),
		.ndm_state = NUD_NOARP | NUD_REACHABLE,
		.ndm_flags = NTF_MASTER,
	};
	struct nlmsghdr *nlh;

	nlh = netlink_message(item, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	put_mac(nlh, NDA_LLADDR, word(&args, item), item);
}

static void put_hops(struct nlmsghdr *nlh, struct item *item, char *names,
		     const struct address *via)
{
	struct nlattr *hops = mnl_attr_nest_start(nlh, RTA_MULTIPATH);
	char *name;

	while ((name = strsep(&names, ","))) {
		struct rtnexthop *hop;

		if (nlh->nlmsg_len > MESSAGE_BYTES / 2)
			bad_line(item);
		hop = mnl_nlmsg_put_extra_header(nlh, sizeof(*hop));
		hop->rtnh_flags = RTNH_F_ONLINK;
		hop->rtnh_ifindex = interface_of(item->node, name);
		put_address(nlh, RTA_GATEWAY, via);
		hop->rtnh_len = (char *)mnl_nlmsg_get_payload_tail(nlh) - (char *)hop;
	}
	mnl_attr_nest_end(nlh, hops);
}

/* route NODE INTERFACE[,INTERFACE...] PREFIX GATEWAY|- QUICKACK: all interfaces have the same
 * gateway, which the kernel does not check.
 */
static void add_route(struct item *item)
{
	char *args = item->args, *names = word(&args, item);
	struct address to = parse_address(word(&args, item), item), via = {};
	char *gateway = word(&args, item);
	unsigned int quickack = number(word(&args, item), 1, item);
	struct rtmsg head = {
		.rtm_family = to.family,
		.rtm_dst_len = to.plen,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
	};
	struct nlmsghdr *nlh;
	struct nlattr *metrics;

	if (*gateway != '-') {
		via = parse_address(gateway, item);
		head.rtm_scope = RT_SCOPE_UNIVERSE;
		head.rtm_flags = strchr(names, ',') ? 0 : RTNH_F_ONLINK;
	}
	nlh = netlink_message(item, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &head,
			      sizeof(head));
	put_address(nlh, RTA_DST, &to);
	if (quickack) {
		metrics = mnl_attr_nest_start(nlh, RTA_METRICS);
		mnl_attr_put_u32(nlh, RTAX_QUICKACK, 1);
		mnl_attr_nest_end(nlh, metrics);
	}
	if (strchr(names, ',')) {
		put_hops(nlh, item, names, &via);
		return;
	}
	mnl_attr_put_u32(nlh, RTA_OIF, interface_of(item->node, names));
	if (via.size)
		put_address(nlh, RTA_GATEWAY, &via);
}

/* know NODE [LINK PORT BPS]...: a message for each link; the process is in NODE's namespace */
void add_known(struct item *item)
{
	struct genlmsghdr head = { .cmd = HPCC_CMD_LINK_SET, .version = HPCC_FAMILY_VERSION };
	struct mnl_socket *nl = netlink_socket(NETLINK_GENERIC);
	int family = netlink_family(nl, HPCC_FAMILY_NAME);
	struct nlmsghdr *nlh;
	struct nlattr *link;
	char *args;

	if (family < 0)
		die("node %s: tcp_hpcc is not loaded", item->node->name);
	netlink_begin(nl);
	for (; item; item = item->next) {
		nlh = netlink_message(item, family, 0, &head, sizeof(head));
		for (args = item->args; args;) {
			if (nlh->nlmsg_len > MESSAGE_BYTES / 2)
				bad_line(item);
			link = mnl_attr_nest_start(nlh, HPCC_A_TABLE_LINK);
			mnl_attr_put_u32(nlh, HPCC_A_LINK_NODE,
					 number(word(&args, item), UINT32_MAX, item));
			mnl_attr_put_u32(nlh, HPCC_A_LINK_PORT,
					 number(word(&args, item), UINT32_MAX, item));
			mnl_attr_put_u64(nlh, HPCC_A_LINK_RATE,
					 number(word(&args, item), UINT64_MAX, item));
			mnl_attr_nest_end(nlh, link);
		}
	}
	netlink_end();
	mnl_socket_close(nl);
}

/* TCA_DUALPI2_* for old kernel headers. */
#define HPCC_DUALPI2_LIMIT		1
#define HPCC_DUALPI2_MEMORY_LIMIT	2

static const struct option {
	const char	*kind;
	const char	*name;
	int		attr;
	size_t		size;
} options[] = {
	/* in bit/s; the kernel uses bytes/s */
	{ "hpcc", "rate",		TCA_HPCC_RATE64,	8 },
	{ "hpcc", "limit",		TCA_HPCC_LIMIT,		4 },
	{ "hpcc", "node",		TCA_HPCC_NODE,		4 },
	{ "hpcc", "port",		TCA_HPCC_PORT,		4 },
	{ "hpcc", "overhead",	TCA_HPCC_OVERHEAD,	4 },
	{ "hpcc", "delay",		TCA_HPCC_DELAY,		4 },
	{ "hpcc", "stamp",		TCA_HPCC_STAMP,		1 },
	{ "hpcc", "int_window",		TCA_HPCC_INT_WINDOW,	4 },
	{ "hpcc", "csig_abw",		TCA_HPCC_CSIG_ABW,	4 },
	{ "hpcc", "csig_time",		TCA_HPCC_CSIG_TIME,	4 },
	{ "hpcc", "above",		TCA_HPCC_ABOVE,		4 },
	{ "hpcc", "respond",		TCA_HPCC_RESPOND,	4 },
	{ "hpcc", "every",		TCA_HPCC_EVERY,		4 },
	{ "hpcc", "marking",	TCA_HPCC_MARKING,	1 },
	{ "hpcc", "kmin",		TCA_HPCC_KMIN,		4 },
	{ "hpcc", "kmax",		TCA_HPCC_KMAX,		4 },
	{ "hpcc", "pmax",		TCA_HPCC_PMAX,		4 },	/* millionths */
	{ "hpcc", "knonect",	TCA_HPCC_KNONECT,	4 },
	{ "fq", "limit",		TCA_FQ_PLIMIT,		4 },
	{ "fq", "flow_limit",		TCA_FQ_FLOW_PLIMIT,	4 },
	{ "fq", "quantum",		TCA_FQ_QUANTUM,		4 },
	{ "fq", "initial_quantum",	TCA_FQ_INITIAL_QUANTUM,	4 },
	{ "fq", "pacing",		TCA_FQ_RATE_ENABLE,	4 },
	{ "fq", "timer_slack",		TCA_FQ_TIMER_SLACK,	4 },	/* ns */
	{ "fq_codel", "limit",		TCA_FQ_CODEL_LIMIT,	4 },
	{ "fq_codel", "quantum",	TCA_FQ_CODEL_QUANTUM,	4 },
	{ "fq_codel", "memory_limit",	TCA_FQ_CODEL_MEMORY_LIMIT, 4 },
	{ "dualpi2", "limit",		HPCC_DUALPI2_LIMIT,	4 },
	{ "dualpi2", "memory_limit",	HPCC_DUALPI2_MEMORY_LIMIT, 4 },
};

static void put_option(struct nlmsghdr *nlh, struct item *item, const char *kind, const char *name,
		       const char *text)
{
	unsigned long long value;
	size_t i;

	if (nlh->nlmsg_len > MESSAGE_BYTES / 2)
		bad_line(item);

	for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const struct option *o = &options[i];

		if (strcmp(o->kind, kind) || strcmp(o->name, name))
			continue;
		value = number(text, o->size == 8 ? UINT64_MAX : o->size == 4 ? UINT32_MAX :
			       UINT8_MAX, item);
		if (o->size == 8)
			mnl_attr_put_u64(nlh, o->attr, value / 8);
		else if (o->size == 4)
			mnl_attr_put_u32(nlh, o->attr, value);
		else
			mnl_attr_put_u8(nlh, o->attr, value);
		return;
	}
	bad_line(item);
}

/* A handle in the format of tc: "root", or MAJOR:MINOR in hexadecimal. */
static unsigned int parse_handle(const char *text)
{
	char *minor;
	unsigned long major = strtoul(text, &minor, 16);

	if (!strcmp(text, "root"))
		return TC_H_ROOT;
	return major << 16 | (*minor == ':' ? strtoul(minor + 1, NULL, 16) : 0);
}

/* qdisc NODE INTERFACE PARENT HANDLE KIND [OPTION NUMBER]...; "change" changes an existing qdisc */
static void add_qdisc(struct item *item)
{
	char *args = item->args;
	struct tcmsg head = {};
	struct nlattr *nest;
	struct nlmsghdr *nlh;
	const char *kind;

	head.tcm_ifindex = interface_of(item->node, word(&args, item));
	head.tcm_parent = parse_handle(word(&args, item));
	head.tcm_handle = parse_handle(word(&args, item));
	nlh = netlink_message(item, RTM_NEWQDISC, strcmp(item->kind, "qdisc") ? 0 :
			      NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	kind = word(&args, item);
	mnl_attr_put_strz(nlh, TCA_KIND, kind);
	nest = args ? mnl_attr_nest_start(nlh, TCA_OPTIONS) : NULL;
	while (args) {
		char *name = word(&args, item);

		put_option(nlh, item, kind, name, word(&args, item));
	}
	if (nest)
		mnl_attr_nest_end(nlh, nest);
}

static const struct {
	const char	*kind;
	void		(*make)(struct item *item);
} makers[] = {
	{ "bridge",	add_bridge },
	{ "member",	add_member },
	{ "qdisc",	add_qdisc },
	{ "change",	add_qdisc },
	{ "up",		set_up },
	{ "down",	set_up },
	{ "address",	add_address },
	{ "neigh",	add_neighbour },
	{ "fdb",	add_fdb },
	{ "route",	add_route },
};

void configure(struct item *item)
{
	size_t i;

	for (i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		if (!strcmp(makers[i].kind, item->kind)) {
			makers[i].make(item);
			return;
		}
	}
	bad_line(item);
}
