// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz-packets: random packets, the same for the same seed.
 *
 *	fuzz-packets wire --tx A,B --rx-ns FILE --rx A,B [OPTION...]
 *	fuzz-packets wire --tx A,B --tun FD,FD [OPTION...]
 *	fuzz-packets live --tx DEV --flow V,SADDR,SPORT,DADDR,DPORT... [OPTION...]
 *	fuzz-packets deliver --tun FD,FD --cc NAME --settle MS --scale N [OPTION...]
 *
 * wire: send the packets into the devices A and B, and compare the packets that arrive at the
 * devices of the other namespace, or at these TUN devices. live: send the packets into DEV; half of
 * them are for connections, whose sequence numbers are taken from the packets on DEV.
 * fuzz_packets.py uses both. deliver: see deliver.c.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/if_packet.h>

#include "packets.h"

void die(const char *what)
{
	printf("fuzz-packets: %s%s%s\n", what, errno ? ": " : "",
	       errno ? strerror(errno) : "");
	exit(2);
}

/* open_packet() - open a packet socket on a device; @protocol 0: the socket only sends. */
int open_packet(const char *dev, int protocol)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
	};
	int room = 1 << 26;
	int fd;

	addr.sll_ifindex = if_nametoindex(dev);
	if (!addr.sll_ifindex)
		die(dev);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		die(dev);
	return fd;
}

/* send_frames() - send frames; the socket refuses some. Returns the number of frames that it
 * accepted.
 * @dropped counts the frames that the qdisc dropped; it may be NULL.
 */
uint64_t send_frames(int fd, struct frame *frames, uint32_t nr, uint64_t *dropped)
{
	struct mmsghdr msgs[BATCH] = {};
	struct iovec iov[BATCH];
	uint32_t done = 0, taken = 0;

	for (uint32_t i = 0; i < nr; i++) {
		/* The bytes of the frame follow the vnet header. */
		iov[i].iov_base = &frames[i];
		iov[i].iov_len = sizeof(frames[i].vnet) + frames[i].len;
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	while (done < nr) {
		/* If a later frame fails, sendmmsg() reports only the number of sent frames. */
		int n = sendmmsg(fd, msgs + done, dropped ? 1 : nr - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENETDOWN || errno == ENXIO))
			die("sendmmsg");
		if (n < 0 && errno == ENOBUFS && dropped)
			++*dropped;
		taken += n > 0 ? n : 0;
		done += n > 0 ? n : 1;
	}
	return taken;
}

static void parse_mac(uint8_t *mac, const char *text)
{
	for (int i = 0; i < 6; i++)
		mac[i] = strtoul(text + 3 * i, NULL, 16);
}

static void parse_address(const char *text, uint8_t *addr4, uint8_t *addr6)
{
	if (inet_pton(AF_INET, text, addr4) != 1 && inet_pton(AF_INET6, text, addr6) != 1)
		die(text);
}

static void parse_flow(struct maker *m, char *text)
{
	struct flow *flow = &m->flows[m->nr_flows++];
	char *words[5];

	if (m->nr_flows > FLOWS_MAX)
		die("too many flows");
	for (int i = 0; i < 5; i++) {
		words[i] = strsep(&text, ",");
		if (!words[i])
			die("--flow V,SADDR,SPORT,DADDR,DPORT");
	}
	flow->version = atoi(words[0]);
	parse_address(words[1], flow->saddr, flow->saddr);
	flow->sport = atoi(words[2]);
	parse_address(words[3], flow->daddr, flow->daddr);
	flow->dport = atoi(words[4]);
}

enum { SEED = 256, COUNT, TX, RX, RX_NS, TUN, DMAC, SMAC, SADDR, DADDR, PORT, KIND, FLOW,
	OFFLOAD, ROUTED, QUIET,
	LOSSY, STAMP, MARK, TAGS, CC, SHOW, SETTLE, SCALE, CARRIERS };

static const struct option long_options[] = {
	{ "seed", 1, NULL, SEED }, { "count", 1, NULL, COUNT },
	{ "tx", 1, NULL, TX }, { "rx", 1, NULL, RX }, { "rx-ns", 1, NULL, RX_NS },
	{ "tun", 1, NULL, TUN }, { "lossy", 0, NULL, LOSSY },
	{ "dmac", 1, NULL, DMAC }, { "smac", 1, NULL, SMAC },
	{ "saddr", 1, NULL, SADDR }, { "daddr", 1, NULL, DADDR },
	{ "port", 1, NULL, PORT }, { "kind", 1, NULL, KIND },
	{ "flow", 1, NULL, FLOW }, { "offload", 0, NULL, OFFLOAD },
	{ "routed", 0, NULL, ROUTED }, { "quiet", 0, NULL, QUIET },
	{ "stamp", 0, NULL, STAMP }, { "mark", 0, NULL, MARK },
	{ "tags", 1, NULL, TAGS }, { "cc", 1, NULL, CC }, { "show", 1, NULL, SHOW },
	{ "settle", 1, NULL, SETTLE }, { "scale", 1, NULL, SCALE },
	{ "carriers", 0, NULL, CARRIERS }, {}
};

static void parse(struct maker *m, struct options *o, int c)
{
	switch (c) {
	case SEED:
		o->seed = strtoull(optarg, NULL, 0);
		break;
	case COUNT:
		o->count = strtoull(optarg, NULL, 0);
		break;
	case TX:
		o->tx = optarg;
		break;
	case RX:
		o->rx = optarg;
		break;
	case RX_NS:
		o->rx_ns = optarg;
		break;
	case TUN:
		o->tun = optarg;
		m->bare = true;
		o->rules.bare = true;
		break;
	case DMAC:
		parse_mac(m->mac, optarg);
		break;
	case SMAC:
		parse_mac(m->mac + 6, optarg);
		break;
	case SADDR:
		parse_address(optarg, m->saddr4, m->saddr6);
		break;
	case DADDR:
		parse_address(optarg, m->daddr4, m->daddr6);
		break;
	case PORT:
		m->port = atoi(optarg);
		break;
	case KIND:
		m->kind = atoi(optarg);
		o->rules.kind = m->kind;
		break;
	case FLOW:
		parse_flow(m, optarg);
		break;
	case LOSSY:
		o->lossy = true;
		break;
	case OFFLOAD:
		m->offload = true;
		break;
	case ROUTED:
		m->routed = true;
		break;
	case QUIET:
		m->quiet = true;
		break;
	case STAMP:
		o->rules.stamp = true;
		break;
	case MARK:
		o->rules.mark = true;
		break;
	case TAGS:
		o->rules.tags_max = atoi(optarg);
		break;
	case CC:
		o->cc = optarg;
		break;
	case SHOW:
		o->show = strtoull(optarg, NULL, 0);
		break;
	case SETTLE:
		o->settle_ms = atoi(optarg);
		break;
	case SCALE:
		o->scale = atoi(optarg);
		break;
	case CARRIERS:
		o->carriers = true;
		break;
	default:
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct maker maker = { .kind = 253 };
	struct options o = {
		.seed = 1,
		.count = 1000,
		.rules = { .kind = 253, .tags_max = 4 },
	};
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(&maker, &o, c);
	rng_seed(&maker.rng, o.seed);
	if (optind + 1 == argc && !strcmp(argv[optind], "deliver") && o.tun && o.cc)
		return deliver_main(&maker, &o);
	if (optind + 1 != argc || !o.tx)
		die("wire or live with --tx, or deliver with --tun and --cc");
	if (!strcmp(argv[optind], "wire") && ((o.rx && o.rx_ns) || o.tun))
		return wire_main(&maker, &o);
	if (!strcmp(argv[optind], "live"))
		return live_main(&maker, &o);
	die("wire (with --rx, --rx-ns or --tun) or live");
}
