// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: read the counters of ports by netlink. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "traffic.h"

/* The handle of a port is 10:. Those of its classes follow CLASS_HANDLE. */
#define HPCC_HANDLE	0x00100000U
#define CLASS_HANDLE	0x00200000U

void open_ports(void)
{
	struct timeval patience = { .tv_sec = 5 };
	int size = 64 << 20;	/* answers for 600 ports with CLASSES_MAX classes each */
	unsigned int i;

	for (i = 0; i < nr_ports; i++) {
		struct netns *ns = &netns[ports[i].ns];

		enter(ports[i].ns);
		ports[i].ifindex = if_nametoindex(ports[i].ifname);
		if (!ports[i].ifindex)
			die("%s has no interface %s", ns->name, ports[i].ifname);
		if (ns->netlink >= 0)
			continue;
		ns->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (ns->netlink < 0)
			die("netlink: %s", strerror(errno));
		setsockopt(ns->netlink, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
		setsockopt(ns->netlink, SOL_SOCKET, SO_RCVTIMEO, &patience,
			   sizeof(patience));
	}
}

struct qdisc_request {
	struct nlmsghdr	nh;
	struct tcmsg	tc;
};

/* Ask for the qdisc of a port, or of one of its classes. The sequence number is the index of the
 * port. Without ECHO the kernel would notify other listeners, but would not answer us.
 */
static void ask_qdisc(struct qdisc_request *req, unsigned int port, unsigned int handle)
{
	*req = (struct qdisc_request){
		.nh.nlmsg_len = sizeof(*req),
		.nh.nlmsg_type = RTM_GETQDISC,
		.nh.nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO,
		.nh.nlmsg_seq = port,
		.tc.tcm_family = AF_UNSPEC,
		.tc.tcm_ifindex = ports[port].ifindex,
		.tc.tcm_handle = handle,
	};
}

/* One datagram with a request for each port. A port comes before its classes. */
static unsigned int ask_ports(unsigned int ns, bool series_only)
{
	unsigned int first = netns[ns].first_port, i, class, n = 0;
	struct qdisc_request req[netns[ns].nr_ports * (1 + CLASSES_MAX)];

	for (i = first; i < first + netns[ns].nr_ports; i++) {
		if (series_only && !ports[i].series)
			continue;
		ask_qdisc(&req[n++], i, HPCC_HANDLE);
		for (class = 1; class <= ports[i].classes && !series_only; class++)
			ask_qdisc(&req[n++], i, CLASS_HANDLE | class << 16);
	}
	if (n && send(netns[ns].netlink, req, n * sizeof(*req), 0) < 0)
		die("netlink: %s", strerror(errno));
	return n;
}

static const struct rtattr *find_attr(const struct rtattr *rta, int len, int type)
{
	for (; RTA_OK(rta, len); rta = RTA_NEXT(rta, len))
		if ((rta->rta_type & NLA_TYPE_MASK) == type)
			return rta;
	return NULL;
}

static uint32_t option_u32(const struct rtattr *options, int type)
{
	const struct rtattr *rta = find_attr(RTA_DATA(options), RTA_PAYLOAD(options), type);

	return rta ? *(const uint32_t *)RTA_DATA(rta) : 0;
}

static void take_options(const struct rtattr *options, struct port *p)
{
	const struct rtattr *marking = find_attr(RTA_DATA(options), RTA_PAYLOAD(options),
						 TCA_HPCC_MARKING);

	p->marking = marking && *(const uint8_t *)RTA_DATA(marking) == HPCC_MARKING_LDCP;
	p->kmin = option_u32(options, TCA_HPCC_KMIN);
	p->kmax = option_u32(options, TCA_HPCC_KMAX);
	p->knonect = option_u32(options, TCA_HPCC_KNONECT);
	p->pmax_ppm = option_u32(options, TCA_HPCC_PMAX);
}

/* Copy only the bytes that the module's version and our version have. */
static void take_stats(const struct rtattr *app, int type, void *to, size_t size)
{
	const struct rtattr *rta = find_attr(RTA_DATA(app), RTA_PAYLOAD(app), type);

	if (rta && RTA_PAYLOAD(rta) < size)
		size = RTA_PAYLOAD(rta);
	if (rta)
		memcpy(to, RTA_DATA(rta), size);
}

/* Add the counters of a class to those of its port: the classes mark, drop and stamp packets, and
 * the qdisc of the port shapes them.
 */
static void take_class(const struct rtattr *app, struct tc_hpcc_xstats *port)
{
	struct tc_hpcc_xstats class = {};

	take_stats(app, TCA_HPCC_XSTATS_PORT, &class, sizeof(class));
	port->stamped += class.stamped;
	port->drop_limit += class.drop_limit;
	port->drop_limit_ect += class.drop_limit_ect;
	port->drop_gso += class.drop_gso;
	port->drop_knonect += class.drop_knonect;
	port->marked += class.marked;
	port->marked_kmax += class.marked_kmax;
}

static void take_reading(const struct nlmsghdr *nh, struct reading *readings)
{
	const struct tcmsg *tc = NLMSG_DATA(nh);
	const struct rtattr *stats, *options, *queue, *app = NULL;
	unsigned int i = nh->nlmsg_seq;

	if (i >= nr_ports)
		die("netlink: unexpected sequence number");
	if (nh->nlmsg_type == NLMSG_ERROR)
		die("no qdisc 10:, or no class, on %s of %s", ports[i].ifname,
		    netns[ports[i].ns].name);
	options = find_attr(TCA_RTA(tc), TCA_PAYLOAD(nh), TCA_OPTIONS);
	if (options && tc->tcm_handle == HPCC_HANDLE)
		take_options(options, &ports[i]);
	stats = find_attr(TCA_RTA(tc), TCA_PAYLOAD(nh), TCA_STATS2);
	if (stats)
		app = find_attr(RTA_DATA(stats), RTA_PAYLOAD(stats), TCA_STATS_APP);
	if (!app)
		die("no statistics of %s in %s", ports[i].ifname, netns[ports[i].ns].name);
	if (tc->tcm_handle != HPCC_HANDLE) {
		take_class(app, &readings[i].port);
		return;
	}
	queue = find_attr(RTA_DATA(stats), RTA_PAYLOAD(stats), TCA_STATS_QUEUE);
	if (queue)
		readings[i].drops = ((const struct gnet_stats_queue *)RTA_DATA(queue))->drops;
	take_stats(app, TCA_HPCC_XSTATS_PORT, &readings[i].port, sizeof(readings[i].port));
	take_stats(app, TCA_HPCC_XSTATS_HIST, readings[i].hist, sizeof(readings[i].hist));
}

#define REPLIES		16
#define REPLY_BYTES	8192

void read_ports(struct reading *readings, bool series_only)
{
	static char buf[REPLIES][REPLY_BYTES] __attribute__((aligned(8)));
	unsigned int ns, wanted, i;

	for (ns = 0; ns < nr_netns; ns++) {
		if (!netns[ns].nr_ports)
			continue;
		wanted = ask_ports(ns, series_only);
		while (wanted) {
			struct iovec iov[REPLIES];
			struct mmsghdr msg[REPLIES] = {};
			int got;

			for (i = 0; i < REPLIES; i++) {
				iov[i] = (struct iovec){ buf[i], REPLY_BYTES };
				msg[i].msg_hdr.msg_iov = &iov[i];
				msg[i].msg_hdr.msg_iovlen = 1;
			}
			got = recvmmsg(netns[ns].netlink, msg,
				       wanted < REPLIES ? wanted : REPLIES,
				       MSG_WAITFORONE, NULL);
			if (got <= 0)
				die("netlink: %s", strerror(errno));
			for (i = 0; i < (unsigned int)got; i++)
				take_reading((void *)buf[i], readings);
			wanted -= got;
		}
	}
}
