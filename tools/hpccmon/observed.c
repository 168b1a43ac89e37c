// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: flows that "hpccmon observe" of any process records. Other commands find the program by
 * its name, and its map. This needs CAP_SYS_ADMIN; without it there are no such flows. The map and
 * its flows end with that process.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <hpcc/law/measure.h>
#include <hpcc/wire/record.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bpf/observe.h"
#include "observe.h"

/* The default of net.hpcc.eta_permille. */
#define ETA		0.95
#define Q24		(1 << 24)
/* A hop without records for this long, and for this many times the time between two records, is no
 * longer reported, if another hop is.
 */
#define GONE_NS		2000000000ULL
#define GONE_APART	4
/* No congestion window is as large; 8e6 times this value fits 64 bits. */
#define W_LIMIT		(1ULL << 40)
/* Flows that are read at once; more than a bucket of the map has. */
#define BATCH		256
/* Observers of which hpccmon shows the flows */
#define OBSERVERS	16
/* The program has fewer maps, with those of the compiler. */
#define MAPS		8

struct batch {
	__u64			cookie[BATCH];
	struct observed_flow	flow[BATCH];
};

struct reader {
	const struct filter	*filter;
	flow_fn			fn;
	void			*data;
	uint64_t		netns;
	uint64_t		now;
	int			maps[OBSERVERS];
	uint32_t		nr_maps;
};

static uint64_t age_us(const struct reader *reader, uint64_t ns)
{
	return reader->now > ns ? (reader->now - ns) / 1000 : 0;
}

static struct hpcc_sample sample_of(uint64_t record, const struct hpcc_sample *last, uint8_t scale)
{
	struct hpcc_record raw;

	hpcc_record_unpack(record, &raw);
	return (struct hpcc_sample){
		.hop = raw.hop,
		.tag = raw.tag,
		.ts = hpcc_counter_extend(last->ts >> scale, raw.ts) << scale,
		.tx = hpcc_counter_extend(last->tx >> scale, raw.tx) << scale,
		.qlen = (uint64_t)raw.qlen << scale,
	};
}

/* Compute u' of a hop from its records. Return: whether u' was measured. */
static bool measure_hop(struct hpcc_algo *a, const struct hpcc_params *p, uint32_t hop,
			const struct observed_hop *at, struct hpcc_measure *m)
{
	struct hpcc_sample sample = { .ts = 1ULL << 60, .tx = 1ULL << 60 };
	uint8_t scale = at->scale & HPCC_SCALE_MAX;
	struct hpcc_measure before = {};

	if (at->record[1]) {
		sample = sample_of(at->record[1], &sample, scale);
		hpcc_measure_link(a, p, &sample, &before);
	} else {
		hpcc_measure_quiet(a, p, hop, p->T, &before);
	}
	sample = sample_of(at->record[0], &sample, scale);
	return !hpcc_measure_link(a, p, &sample, m);
}

static void take_name(struct hop *to, uint64_t name, uint64_t record)
{
	struct hpcc_identity id;
	struct hpcc_record last;

	if (!name)
		return;
	hpcc_identity_unpack(name, &id);
	hpcc_record_unpack(record, &last);
	/* The path may have changed since. */
	if (record && last.tag != hpcc_link_tag(id.node, id.port))
		return;
	to->named = true;
	to->node = id.node;
	to->port = id.port;
	to->bps = id.bps;
}

/* Compute u' of each hop, and U, by the functions of the window law. */
static void measure(struct flow *flow, const struct observed_flow *from,
		    const struct reader *reader)
{
	uint64_t gone_ns = GONE_NS + GONE_APART * from->apart_ns[1];
	struct hpcc_link links[HPCC_HOPS_MAX] = {};
	struct hpcc_params p = {};
	struct hpcc_measure m = {};
	struct hpcc_algo a = {};
	__u64 newest = 0;
	uint32_t i;

	hpcc_params_init(&p, flow->T_ns, 1, 1, 0, ETA * Q24, 0);
	hpcc_algo_init(&a, &p);
	hpcc_algo_links(&a, links, HPCC_HOPS_MAX);
	for (i = 0; i < flow->nr_hops; i++)
		newest = max(newest, from->hop[i + 1].last_ns);
	for (i = 0; i < flow->nr_hops; i++) {
		const struct observed_hop *at = &from->hop[i + 1];
		struct hop *to = &flow->hop[i];

		to->nr = i + 1;
		take_name(to, at->name, at->last);
		if (from->quiet & 1U << i) {
			/* Looks are many T apart: u' is that after many round trips. */
			links[i].quiet = 1 + HPCC_QUIET_STEPS;
			hpcc_measure_quiet(&a, &p, i + 1, p.T, &m);
			to->quiet = true;
			to->age_us = age_us(reader, from->quiet_ns);
		} else if (at->record[0] && newest - at->last_ns < gone_ns) {
			to->known = measure_hop(&a, &p, i + 1, at, &m);
			to->qlen_ns = links[i].qlen;
			to->age_us = age_us(reader, at->ns);
		}
		to->u = (double)links[i].u_q24 / Q24;
	}
	flow->U = (double)m.u_q24 / Q24;
}

/* Whether an observer could have written this: its name does not prove that it is one. */
static bool is_plausible(const struct observed_flow *from)
{
	size_t i;

	for (i = 0; i < sizeof(from->cc) - 1 && from->cc[i]; i++)
		if (from->cc[i] <= ' ' || from->cc[i] >= 0x7f)
			return false;
	return from->scale <= HPCC_SCALE_MAX && from->W < W_LIMIT;
}

static void take(const struct reader *reader, uint64_t cookie, const struct observed_flow *from)
{
	struct flow flow = {
		.local.port = from->lport,
		.peer.port = from->rport,
		.cookie = cookie,
		.mode = FLOW_OBSERVED,
		.W = from->W,
		.Wc = from->W,
		.W_init = from->W,
		.eta = ETA,
		.T_ns = max(from->T_us, 1U) * 1000ULL,
		.received = from->received,
		.malformed = from->malformed,
		.nr_hops = min_t(u32, from->hops, HPCC_HOPS_MAX),
	};

	if (from->netns != reader->netns || !is_plausible(from))
		return;
	memcpy(&flow.local.addr, from->laddr, sizeof(flow.local.addr));
	memcpy(&flow.peer.addr, from->raddr, sizeof(flow.peer.addr));
	snprintf(flow.cc, sizeof(flow.cc), "%.15s", from->cc);
	flow.R = 1e6 * flow.W / max(from->rtt_us, 1U);
	flow.sample_ns = flow.T_ns;
	if (!filter_matches(reader->filter, &flow))
		return;
	measure(&flow, from, reader);
	reader->fn(&flow, reader->data);
}

/* Whether observer @nr has received the most echoes of a flow, and no earlier one as many. */
static bool is_best(const struct reader *reader, uint32_t nr, uint64_t cookie, uint64_t received)
{
	struct observed_flow flow;
	uint32_t i;

	for (i = 0; i < reader->nr_maps; i++)
		if (i != nr && !bpf_map_lookup_elem(reader->maps[i], &cookie, &flow) &&
		    flow.received >= received + (i > nr ? 1 : 0))
			return false;
	return true;
}

static void read_map(const struct reader *reader, uint32_t map)
{
	struct batch *batch = allocated(malloc(sizeof(*batch)));
	uint32_t i, nr, from, *after = NULL;
	int err;

	do {
		nr = BATCH;
		err = bpf_map_lookup_batch(reader->maps[map], after, &from, batch->cookie,
					   batch->flow, &nr, NULL);
		if (err && err != -ENOENT)
			break;
		for (i = 0; i < nr; i++)
			if (is_best(reader, map, batch->cookie[i], batch->flow[i].received))
				take(reader, batch->cookie[i], &batch->flow[i]);
		after = &from;
	} while (!err);
	free(batch);
}

/* Open a map if it is one of an observer's flows. Return: its file; -1: it is not. */
static int flows_map(uint32_t id)
{
	int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = {};
	uint32_t size = sizeof(info);

	if (fd < 0)
		return -1;
	/* Check what lookups will write. */
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) && !strcmp(info.name, OBSERVED_MAP) &&
	    info.type == BPF_MAP_TYPE_HASH && info.key_size == sizeof(uint64_t) &&
	    info.value_size == sizeof(struct observed_flow))
		return fd;
	close(fd);
	return -1;
}

/* The map of a program, if it is an observer. CAP_BPF alone is enough to create a map of any name,
 * but to load such a program needs CAP_NET_ADMIN. Return: the map's file; -1: none.
 */
static int map_of(uint32_t id)
{
	int fd = bpf_prog_get_fd_by_id(id), err, map = -1;
	uint32_t i, maps[MAPS] = {};
	struct bpf_prog_info info = { .nr_map_ids = MAPS, .map_ids = (uintptr_t)maps };
	uint32_t size = sizeof(info);

	if (fd < 0)
		return -1;
	err = bpf_obj_get_info_by_fd(fd, &info, &size);
	close(fd);
	if (err || info.type != BPF_PROG_TYPE_SOCK_OPS || strcmp(info.name, OBSERVE_PROGRAM))
		return -1;
	for (i = 0; map < 0 && i < info.nr_map_ids && i < MAPS; i++)
		map = flows_map(maps[i]);
	return map;
}

/* Find the map of the next observer after the program @id. Return: its file; -1: none. */
static int next_map(uint32_t *id)
{
	int map = -1;

	while (map < 0 && !bpf_prog_get_next_id(*id, id))
		map = map_of(*id);
	return map;
}

/* Whether an observer runs on this machine. */
bool observed_any(void)
{
	uint32_t id = 0;
	int fd = next_map(&id);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Whether this process may not see observers. */
bool observed_hidden(void)
{
	uint32_t id;

	return bpf_prog_get_next_id(0, &id) && errno == EPERM;
}

static uint64_t own_netns(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(uint64_t);
	uint64_t cookie = 0;

	if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size))
		cookie = 0;
	if (fd >= 0)
		close(fd);
	return cookie;
}

/* Pass the observed flows of this namespace to @fn. Return: whether an observer runs. */
bool observed_flows(const struct filter *filter, flow_fn fn, void *data)
{
	struct reader reader = { .filter = filter, .fn = fn, .data = data };
	uint32_t id = 0;
	struct timespec ts;
	uint32_t i;
	int fd;

	while (reader.nr_maps < OBSERVERS && (fd = next_map(&id)) >= 0)
		reader.maps[reader.nr_maps++] = fd;
	if (reader.nr_maps)
		reader.netns = own_netns();
	for (i = 0; i < reader.nr_maps; i++) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		reader.now = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
		read_map(&reader, i);
	}
	for (i = 0; i < reader.nr_maps; i++)
		close(reader.maps[i]);
	return reader.nr_maps;
}
