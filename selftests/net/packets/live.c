// SPDX-License-Identifier: GPL-2.0
/*
 * Packets for existing connections. The sequence numbers of a connection are taken from the
 * segments that TCP sends through the device. TCP leaves the checksums of its segments to the
 * device. These programs never do so in packets for a connection, so the segments of TCP can be
 * recognised.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <linux/if_packet.h>

#include "packets.h"

/* Frames sent between two calls of listen_to(), while the known sequence numbers become old. */
#define FRAMES_AT_ONCE	16

static struct frame frames[BATCH];

/* A TCP segment captured on the device. */
struct segment {
	const uint8_t *saddr, *daddr, *th;
	uint32_t alen, hlen, payload;
};

static bool parse_segment(const uint8_t *p, uint32_t len, struct segment *seg)
{
	uint32_t at, total;

	if (len < 74)
		return false;
	if (get16(p + 12) == 0x0800 && p[23] == 6 && !(get16(p + 20) & 0x3fff)) {
		at = 14 + (p[14] & 15) * 4;
		total = 14 + get16(p + 16);
		seg->saddr = p + 26;
		seg->alen = 4;
	} else if (get16(p + 12) == 0x86dd && p[20] == 6) {
		at = 54;
		total = 54 + get16(p + 18);
		seg->saddr = p + 22;
		seg->alen = 16;
	} else {
		return false;
	}
	seg->daddr = seg->saddr + seg->alen;
	seg->th = p + at;
	if (at + 20 > len)
		return false;
	seg->hlen = (seg->th[12] >> 4) * 4;
	if (seg->hlen < 20 || at + seg->hlen > len || at + seg->hlen > total)
		return false;
	seg->payload = total - at - seg->hlen;
	return true;
}

static bool ends_are(const struct segment *seg, const uint8_t *saddr, uint16_t sport,
		     const uint8_t *daddr, uint16_t dport)
{
	return get16(seg->th) == sport && get16(seg->th + 2) == dport &&
	       !memcmp(seg->saddr, saddr, seg->alen) && !memcmp(seg->daddr, daddr, seg->alen);
}

static void learn_options(struct flow *flow, const struct segment *seg, uint8_t kind)
{
	const uint8_t *p = seg->th + 20, *end = seg->th + seg->hlen;
	uint32_t n;

	for (; p + 1 < end && *p && (n = option_len(p, 0, end - p)); p += n) {
		if (*p == 8 && n == 10)
			memcpy(flow->ts, p, 10);
		if (*p == kind && n >= 4 && (p[2] >> 5 == 2 || p[2] >> 5 == 4))
			flow->scale = p[2] & 31;
	}
}

static void learn(struct maker *m, const struct segment *seg)
{
	for (uint32_t i = 0; i < m->nr_flows; i++) {
		struct flow *flow = &m->flows[i];

		if (seg->alen != (flow->version == 4 ? 4 : 16))
			continue;
		if (ends_are(seg, flow->daddr, flow->dport, flow->saddr, flow->sport))
			flow->una = get32(seg->th + 8);
		if (!ends_are(seg, flow->saddr, flow->sport, flow->daddr, flow->dport))
			continue;
		flow->seq = get32(seg->th + 4) + seg->payload;
		flow->ack = get32(seg->th + 8);
		flow->window = get16(seg->th + 14);
		flow->known = true;
		learn_options(flow, seg, m->kind);
	}
}

/* Read the packets that have passed the device since the last call. Returns their number. */
static uint64_t listen_to(struct maker *m, int fd)
{
	uint8_t buf[sizeof(struct virtio_net_hdr) + 256];
	const struct virtio_net_hdr *vnet = (void *)buf;
	const uint32_t skip = sizeof(struct virtio_net_hdr);
	struct segment seg;
	uint64_t seen = 0;
	ssize_t len;

	while ((len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		seen++;
		if (len > (ssize_t)skip && vnet->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM &&
		    parse_segment(buf + skip, len - skip, &seg))
			learn(m, &seg);
	}
	return seen;
}

int live_main(struct maker *m, const struct options *o)
{
	/* In virtual time other programs run only while this program waits. */
	const struct timespec pause = { .tv_nsec = 200000 };
	uint64_t done = 0, sent = 0, seen = 0;
	uint32_t known = 0;
	int fd = open_packet(o->tx, 3);
	int one = 1;

	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)))
		die("setsockopt");
	while (done < o->count) {
		uint32_t nr;

		seen += listen_to(m, fd);
		nr = make_frames(m, frames, o->count - done, FRAMES_AT_ONCE);
		sent += send_frames(fd, frames, nr, NULL);
		done += nr;
		nanosleep(&pause, NULL);
	}
	for (uint32_t i = 0; i < m->nr_flows; i++)
		known += m->flows[i].known;
	printf("seed %" PRIu64 " frames %" PRIu64 " taken %" PRIu64 " seen %" PRIu64
	       " flows %u of %u\n", o->seed, done, sent, seen, known, m->nr_flows);
	return known == m->nr_flows ? 0 : 1;
}
