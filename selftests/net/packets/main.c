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
	printf("fuzz-packets: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
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

static struct maker maker;
static struct options conf = { .seed = 1, .count = 1000, .kind = 253, .rules.tags_max = 4 };

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

static void parse_dmac(char *text) { parse_mac(maker.mac, text); }
static void parse_smac(char *text) { parse_mac(maker.mac + 6, text); }
static void parse_saddr(char *text) { parse_address(text, maker.saddr4, maker.saddr6); }
static void parse_daddr(char *text) { parse_address(text, maker.daddr4, maker.daddr6); }

static void parse_flow(char *text)
{
	struct flow *flow = &maker.flows[maker.nr_flows++];
	char *words[5];

	if (maker.nr_flows > FLOWS_MAX)
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

/* An argument: the variable for its text or number, or its parser; or a flag without a value. */
static const struct arg {
	const char *name;
	const char **text;
	uint64_t *number;
	bool *flag;
	void (*parse)(char *text);
} args[] = {
	{ "seed", .number = &conf.seed },
	{ "count", .number = &conf.count },
	{ "tx", .text = &conf.tx },
	{ "rx", .text = &conf.rx },
	{ "rx-ns", .text = &conf.rx_ns },
	{ "tun", .text = &conf.tun },
	{ "cc", .text = &conf.cc },
	{ "dmac", .parse = parse_dmac },
	{ "smac", .parse = parse_smac },
	{ "saddr", .parse = parse_saddr },
	{ "daddr", .parse = parse_daddr },
	{ "flow", .parse = parse_flow },
	{ "port", .number = &conf.port },
	{ "kind", .number = &conf.kind },
	{ "tags", .number = &conf.rules.tags_max },
	{ "show", .number = &conf.show },
	{ "settle", .number = &conf.settle_ms },
	{ "scale", .number = &conf.scale },
	{ "lossy", .flag = &conf.lossy },
	{ "carriers", .flag = &conf.carriers },
	{ "offload", .flag = &maker.offload },
	{ "routed", .flag = &maker.routed },
	{ "quiet", .flag = &maker.quiet },
	{ "stamp", .flag = &conf.rules.stamp },
	{ "mark", .flag = &conf.rules.mark },
};

#define NR_ARGS (sizeof(args) / sizeof(*args))

int main(int argc, char **argv)
{
	struct option names[NR_ARGS + 1] = {};
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint32_t i = 0; i < NR_ARGS; i++)
		names[i] = (struct option){ args[i].name, !args[i].flag, NULL, i };
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == '?')
			exit(2);
		if (args[c].text)
			*args[c].text = optarg;
		if (args[c].number)
			*args[c].number = strtoull(optarg, NULL, 0);
		if (args[c].flag)
			*args[c].flag = true;
		if (args[c].parse)
			args[c].parse(optarg);
	}
	maker.port = conf.port;
	conf.rules.kind = conf.kind;
	conf.rules.bare = conf.tun;
	maker.kind = conf.kind;
	maker.bare = conf.tun;
	rng_seed(&maker.rng, conf.seed);
	if (optind + 1 == argc && !strcmp(argv[optind], "deliver") && conf.tun && conf.cc)
		return deliver_main(&maker, &conf);
	if (optind + 1 != argc || !conf.tx)
		die("wire or live with --tx, or deliver with --tun and --cc");
	if (!strcmp(argv[optind], "wire") && ((conf.rx && conf.rx_ns) || conf.tun))
		return wire_main(&maker, &conf);
	if (!strcmp(argv[optind], "live"))
		return live_main(&maker, &conf);
	die("wire (with --rx, --rx-ns or --tun) or live");
}
