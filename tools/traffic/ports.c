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

#define HPCC_HANDLE	0x00100000U

void open_ports(void)
{
	struct timeval patience = { .tv_sec = 5 };
	int size = 8 << 20;	/* answers for 600 ports */
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

/* One datagram with a request for each port. The sequence number is the index of the port. Without
 * ECHO the kernel would notify other listeners, but would not answer us.
 */
static unsigned int ask_ports(unsigned int ns, bool series_only)
{
	unsigned int first = netns[ns].first_port, i, n = 0;
	struct qdisc_request req[netns[ns].nr_ports];

	memset(req, 0, sizeof(req));
	for (i = first; i < first + netns[ns].nr_ports; i++) {
		if (series_only && !ports[i].series)
			continue;
		req[n].nh.nlmsg_len = sizeof(req[n]);
		req[n].nh.nlmsg_type = RTM_GETQDISC;
		req[n].nh.nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO;
		req[n].nh.nlmsg_seq = i;
		req[n].tc.tcm_family = AF_UNSPEC;
		req[n].tc.tcm_ifindex = ports[i].ifindex;
		req[n].tc.tcm_handle = HPCC_HANDLE;
		n++;
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

static void take_reading(const struct nlmsghdr *nh, struct reading *readings)
{
	const struct tcmsg *tc = NLMSG_DATA(nh);
	const struct rtattr *stats, *options, *app = NULL;
	unsigned int i = nh->nlmsg_seq;

	if (i >= nr_ports)
		die("netlink: unexpected sequence number");
	if (nh->nlmsg_type == NLMSG_ERROR)
		die("no qdisc 10: on %s of %s", ports[i].ifname, netns[ports[i].ns].name);
	options = find_attr(TCA_RTA(tc), TCA_PAYLOAD(nh), TCA_OPTIONS);
	if (options)
		take_options(options, &ports[i]);
	stats = find_attr(TCA_RTA(tc), TCA_PAYLOAD(nh), TCA_STATS2);
	if (stats)
		app = find_attr(RTA_DATA(stats), RTA_PAYLOAD(stats), TCA_STATS_APP);
	if (!app)
		die("no statistics of %s in %s", ports[i].ifname, netns[ports[i].ns].name);
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
