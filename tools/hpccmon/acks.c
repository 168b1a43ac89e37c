// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: each ACK with telemetry. bpf/acks.bpf.c copies the records of the tracepoint into
 * a ring. The format file of the tracepoint gives the offsets of the fields, so this file needs no
 * types of the kernel or of the module.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hpccmon.h"
#include "acks.h"
#include <acks.skel.h>
#include "bpf/acks.h"

enum field { COOKIE, W, WC, U, T, STAGE, NR_FIELDS };

static const char *const names[NR_FIELDS] = {
	[COOKIE] = "cookie[2]", [W] = "W_bytes", [WC] = "Wc_bytes", [U] = "U_q24",
	[T] = "T_ns", [STAGE] = "inc_stage",
};

struct acks {
	struct acks_bpf		*bpf;
	struct ring_buffer	*ring;
	unsigned int		word[NR_FIELDS];	/* offset of each field */
	uint64_t		epoch_ns;		/* CLOCK_REALTIME - CLOCK_MONOTONIC */
	ack_fn			fn;
	void			*data;
	unsigned int		left;			/* ACKs that this call may still take */
};

static FILE *open_format(void)
{
	static const char *const tops[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing"
	};
	char path[128];
	FILE *file = NULL;
	size_t i;

	for (i = 0; i < 2 && !file; i++) {
		snprintf(path, sizeof(path), "%s/events/hpcc/hpcc_ack/format", tops[i]);
		file = fopen(path, "re");
	}
	return file;
}

/* A line such as "field:u64 W_bytes;	offset:16;	size:8;	signed:0;" */
static void take_field(struct acks *acks, char *line)
{
	char *name = strstr(line, "field:"), *at = strstr(line, "offset:"), *end;
	unsigned int offset, i;

	if (!name || !at || sscanf(at, "offset:%u", &offset) != 1)
		return;
	end = strchr(name, ';');
	*end = 0;
	name = strrchr(name, ' ') + 1;
	for (i = 0; i < NR_FIELDS; i++)
		if (!strcmp(name, names[i]) && offset >= ACK_HEAD && !(offset % 4))
			acks->word[i] = (offset - ACK_HEAD) / 4;
}

/* Return: false if a required field is missing. */
static bool read_format(struct acks *acks, const char **why)
{
	FILE *file = open_format();
	char line[256];
	unsigned int i;

	*why = "cannot read the tracepoint hpcc:hpcc_ack: this needs root and tracefs";
	if (!file)
		return false;
	for (i = 0; i < NR_FIELDS; i++)
		acks->word[i] = ACK_WORDS;
	while (fgets(line, sizeof(line), file))
		take_field(acks, line);
	fclose(file);
	*why = "the tracepoint hpcc:hpcc_ack belongs to another version";
	for (i = 0; i < NR_FIELDS; i++)
		if (acks->word[i] + (i == T || i == STAGE ? 1 : 2) > ACK_WORDS)
			return false;
	return true;
}

static uint64_t long_at(const struct ack_entry *entry, unsigned int word)
{
	uint64_t value;

	memcpy(&value, &entry->word[word], sizeof(value));
	return value;
}

static int take(void *context, void *data, size_t size)
{
	const struct ack_entry *entry = data;
	struct acks *acks = context;
	struct ack ack;

	if (size < sizeof(*entry))
		return 0;
	ack.time_us = (entry->ns + acks->epoch_ns) / 1000;
	ack.cookie = entry->word[acks->word[COOKIE]] |
		     (uint64_t)entry->word[acks->word[COOKIE] + 1] << 32;
	ack.W = long_at(entry, acks->word[W]);
	ack.Wc = long_at(entry, acks->word[WC]);
	ack.U_q24 = long_at(entry, acks->word[U]);
	ack.T_ns = entry->word[acks->word[T]];
	/* The actual pacing rate may differ: net.hpcc.pace. */
	ack.R = ack.T_ns ? 1e9 * ack.W / ack.T_ns : 0;
	ack.inc_stage = entry->word[acks->word[STAGE]];
	acks->fn(&ack, acks->data);
	/* The next call continues after this record. */
	return --acks->left ? 0 : -1;
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* The number of pages of the ring is a power of 2. */
static uint32_t ring_bytes(uint32_t kb)
{
	uint32_t bytes = sysconf(_SC_PAGESIZE);

	while (bytes >> 10 < kb)
		bytes *= 2;
	return bytes;
}

static bool attach(struct acks *acks, uint32_t buffer_kb)
{
	int err;

	acks->bpf = acks_bpf__open();
	if (!acks->bpf || bpf_map__set_max_entries(acks->bpf->maps.ring, ring_bytes(buffer_kb)) ||
	    acks_bpf__load(acks->bpf))
		return false;
	acks->ring = ring_buffer__new(bpf_map__fd(acks->bpf->maps.ring), take, acks, NULL);
	if (!acks->ring)
		return false;
	err = acks_bpf__attach(acks->bpf);
	errno = err ? -err : 0;
	return !err;
}

/* Return: NULL if ACKs cannot be recorded here. */
struct acks *acks_open(uint32_t buffer_kb, const char **why)
{
	struct acks *acks = allocated(calloc(1, sizeof(*acks)));

	libbpf_set_print(NULL);
	acks->epoch_ns = nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_MONOTONIC);
	if (!read_format(acks, why)) {
		acks_close(acks);
		return NULL;
	}
	if (!attach(acks, buffer_kb)) {
		*why = errno == EPERM || errno == EACCES ?
		       "BPF programs need CAP_BPF and CAP_PERFMON" :
		       "the kernel does not support BPF programs at tracepoints";
		acks_close(acks);
		return NULL;
	}
	return acks;
}

/* Pass the ACKs in the ring to @fn, at most @most, because they may arrive faster than we read. */
void acks_take(struct acks *acks, ack_fn fn, void *data, unsigned int most)
{
	acks->left = most;
	acks->fn = fn;
	acks->data = data;
	ring_buffer__consume(acks->ring);
}

/* Number of ACKs lost because the ring was full. */
uint64_t acks_lost(const struct acks *acks)
{
	return __atomic_load_n(&acks->bpf->bss->lost, __ATOMIC_RELAXED);
}

void acks_close(struct acks *acks)
{
	ring_buffer__free(acks->ring);
	acks_bpf__destroy(acks->bpf);
	free(acks);
}
