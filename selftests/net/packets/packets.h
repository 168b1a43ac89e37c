/* SPDX-License-Identifier: GPL-2.0 */
/* Random packets for ports and hosts: declarations for all files of fuzz-packets. */
#ifndef _FUZZ_PACKETS_H
#define _FUZZ_PACKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/virtio_net.h>

/* Longest frame: a GSO packet of some segments. */
#define FRAME_MAX	12000
#define BATCH		64
#define FLOWS_MAX	32

/* ---- Random numbers: xoshiro256**, the same on every machine ---- */

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);

/* 0 .. n - 1 */
static inline uint32_t below(struct rng *rng, uint32_t n)
{
	return (rng_next(rng) >> 32) * n >> 32;
}

static inline bool percent(struct rng *rng, uint32_t p)
{
	return below(rng, 100) < p;
}

/* ---- Bytes ---- */

static inline uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t get32(const uint8_t *p)
{
	return get16(p) << 16 | get16(p + 2);
}

static inline void put16(uint8_t *p, uint32_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

uint32_t sum16(const uint8_t *p, uint32_t len);
uint32_t fold(uint64_t sum);

/* The sum of a pseudo-header. */
static inline uint32_t pseudo(uint8_t version, const uint8_t *saddr, const uint8_t *daddr,
			      uint32_t proto, uint32_t len)
{
	uint32_t n = version == 4 ? 4 : 16;

	return fold((uint64_t)sum16(saddr, n) + sum16(daddr, n) + proto + len);
}

/* Write the checksum of an IPv4 header. */
static inline void ip4_sum(uint8_t *ip)
{
	put16(ip + 10, 0);
	put16(ip + 10, ~sum16(ip, (ip[0] & 15) * 4));
}

/* Length of the TCP option at offset @at, or 0 if it is invalid. */
static inline uint32_t option_len(const uint8_t *p, uint32_t at, uint32_t end)
{
	uint32_t len = p[at] == 1 ? 1 : at + 1 < end ? p[at + 1] : 0;

	return at + len > end || (p[at] != 1 && len < 2) ? 0 : len;
}

/* ---- Packets ---- */

enum { HBH = 0, ICMP = 1, TCP = 6, UDP = 17, ROUTING = 43, FRAGMENT = 44, ICMP6 = 58,
	DSTOPTS = 60, RAW = 253 };
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_PSH = 8, TCP_ACK = 16 };

struct frame {
	struct virtio_net_hdr vnet;
	uint8_t data[FRAME_MAX];
	uint32_t len;
};

/* A connection, in the direction in which frames are sent. Addresses have 4 or 16 bytes. Fields
 * that are not known yet are 0.
 */
struct flow {
	uint8_t version;
	uint8_t saddr[16];
	uint8_t daddr[16];
	uint16_t sport;
	uint16_t dport;
	uint32_t seq;		/* after the last byte sent */
	uint32_t una;		/* the other end acknowledged all earlier bytes */
	uint32_t ack;
	uint16_t window;
	uint8_t ts[10];		/* the last timestamps option sent; bytes 6 to 9 are the host's */
	uint8_t scale;		/* scale of the last echo; the other end ignores other scales */
	bool known;
	/* For packets of aim.c: */
	bool has_ts;
	bool agreed;		/* both ends agreed on our options */
	bool ended;		/* the other end has closed the connection */
	uint32_t isn;		/* initial sequence number of the other end */
	uint32_t irs;		/* initial sequence number of this end */
	uint32_t tsval;
};

/* How frames are made. */
struct maker {
	struct rng rng;
	uint8_t mac[12];	/* destination, source */
	uint8_t saddr4[4], daddr4[4];
	uint8_t saddr6[16], daddr6[16];
	uint16_t port;		/* port with a listener, or 0 */
	uint8_t kind;		/* kind of our TCP options */
	bool offload;		/* use vnet headers: GSO, checksums computed later */
	bool routed;		/* addresses and MACs stay as they are */
	bool quiet;		/* no packets to which other protocols react */
	bool bare;		/* IP without an Ethernet header */
	struct flow flows[FLOWS_MAX];
	uint32_t nr_flows;
	struct frame parts[8];	/* fragments that make_frame() returns next */
	uint32_t nr_parts;
	bool aimed_parts;	/* @parts are from aim.c: without an Ethernet header */
	bool same_isns;		/* another host chooses the same initial sequence numbers */
};

void make_frame(struct maker *m, struct frame *f);
uint32_t make_frames(struct maker *m, struct frame *f, uint64_t left, uint32_t most);
uint32_t make_options(struct maker *m, uint8_t *p, const struct flow *flow);
uint32_t our_option(struct maker *m, uint8_t *p, const struct flow *flow);
uint32_t syn_option(struct maker *m, uint8_t *p);
uint32_t make_trace(struct rng *rng, uint8_t *p);
uint32_t make_extensions(struct maker *m, uint8_t *p, uint8_t **next);
void make_fragments(struct maker *m, struct frame *f, uint32_t at);
void fill(struct rng *rng, uint8_t *p, uint32_t len);

/* ---- Packets for the sockets of one host (bare) ---- */

#define PORT_HPCC	0x1e40	/* listener with the congestion control under test */
#define PORT_OTHER	0x1e41	/* listener with another congestion control */
#define PORT_UDP	6000
#define PORT_FILTERED	6001	/* TCP and UDP sockets; a firewall rule drops packets to them */

static inline uint32_t ip_len(const struct flow *flow)
{
	return flow->version == 4 ? 20 : 40;
}

uint32_t write_timestamps(uint8_t *p, const struct flow *flow, uint32_t tsval);
uint8_t *open_at(struct frame *f, const struct flow *flow, uint32_t at, uint32_t n);
void aim_segment(struct frame *f, const struct flow *flow, uint8_t flags,
		 const uint8_t *opts, uint32_t optlen);
void aim_frame(struct maker *m, struct frame *f);
bool aim_carrier(struct maker *m, struct frame *f, bool plain);
uint32_t hash(const uint8_t *p, uint32_t len);
void write_tcp(struct maker *m, uint8_t version, const uint8_t *saddr, const uint8_t *daddr,
	       const uint8_t *th, uint32_t len, bool from_host);
void write_reply(struct maker *m, const uint8_t *ip, uint32_t len);

/* ---- Judging ---- */

/* Changes that a port may make to a frame. */
struct rules {
	uint8_t kind;
	uint64_t tags_max;
	bool bare;
	bool stamp;
	bool mark;
};

struct tally {
	uint64_t arrived;
	uint64_t same;
	uint64_t stamped;	/* a record was written */
	uint64_t counted;	/* only the hop count changed */
	uint64_t marked;
};

const char *judge(const struct rules *rules, const uint8_t *want, const uint8_t *got,
		  uint32_t len, uint32_t partial, struct tally *tally);

/* ---- Modes ---- */

struct options {
	uint64_t seed;
	uint64_t count;
	const char *tx, *rx, *rx_ns, *tun, *cc;
	uint64_t show;		/* number of the batch whose frames are printed, from 1 on */
	uint64_t settle_ms;	/* pause between batches */
	uint64_t scale;		/* scale of records, from the host's T */
	uint64_t port, kind;	/* copied to struct maker, and to @rules */
	bool lossy;
	bool carriers;		/* also probes with INT and IFA */
	struct rules rules;
};

int wire_main(struct maker *m, const struct options *o);
int live_main(struct maker *m, const struct options *o);
int deliver_main(struct maker *m, const struct options *o);
int open_packet(const char *dev, int protocol);
uint64_t send_frames(int fd, struct frame *frames, uint32_t nr, uint64_t *dropped);
void die(const char *what) __attribute__((noreturn));

#endif /* _FUZZ_PACKETS_H */
