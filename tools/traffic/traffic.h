/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of hpcc-traffic share; its head comment is in main.c. */
#ifndef HPCC_TRAFFIC_H
#define HPCC_TRAFFIC_H

#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../include/uapi/linux/hpcc.h"

#define NSEC_PER_SEC	1000000000ULL

struct netns {
	char		name[32];
	char		path[128];
	int		netlink;	/* -1 until the first port needs it */
	unsigned int	nr_ports;
	bool		host;		/* an end of a flow */
	uint64_t	timeouts;	/* RTOs before time zero */
};

struct port {
	unsigned int	id;
	unsigned int	ns;
	char		ifname[IFNAMSIZ];
	int		ifindex;
	bool		series;
	bool		marking;
	uint32_t	kmin;		/* thresholds in force, bytes */
	uint32_t	kmax;
	uint32_t	knonect;
	uint32_t	pmax_ppm;
};

struct flow {
	unsigned int	id;
	unsigned int	from;
	unsigned int	to;
	struct sockaddr_storage	saddr;
	struct sockaddr_storage	daddr;
	uint64_t	bytes;
	bool		endless;
	uint64_t	start_ns;
	char		cc[16];
	int		tx;
	int		rx;
	uint64_t	sent;
	uint64_t	received;
	int		lowat;
	uint64_t	done_ns;
	bool		started;
	bool		writing;	/* EPOLLOUT is asked for */
	bool		done;		/* the receiver has all bytes */
	bool		closed;
	struct tcp_info	info;		/* the sender's, at its end */
};

extern struct netns *netns;
extern struct port *ports;
extern struct flow *flows;
extern unsigned int nr_netns, nr_ports, nr_flows, nr_endless, nr_series;
extern uint64_t interval_ns, from_ns, until_ns, deadline_ns;
extern uint64_t bytes_wanted;
extern bool verify;

/* main.c */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
uint64_t now_ns(void);

/* plan.c */
void enter(unsigned int ns);
void read_plan(const char *path, bool prepare);

/* counters.c */
void read_hosts(void);
void put_hosts(FILE *out);

/* ports.c */
void open_ports(void);
void read_ports(struct tc_hpcc_xstats *readings, bool series_only);

#endif /* HPCC_TRAFFIC_H */
