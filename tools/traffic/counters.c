// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: TCP counters of hosts, from /proc/net of each namespace, and the kernel's drops. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "traffic.h"

#define LINE_BYTES	8192

/* A line of names is followed by a line of values; both start with "TcpExt:". */
static uint64_t netstat(const char *wanted)
{
	static char names[LINE_BYTES], values[LINE_BYTES];
	FILE *file = fopen("/proc/net/netstat", "r");
	char *name, *value, *next_name, *next_value;

	if (!file)
		die("/proc/net/netstat: %s", strerror(errno));
	while (fgets(names, sizeof(names), file) && fgets(values, sizeof(values), file)) {
		name = strtok_r(names, "\n ", &next_name);
		value = strtok_r(values, "\n ", &next_value);
		while (name && value) {
			if (!strcmp(name, wanted)) {
				fclose(file);
				return strtoull(value, NULL, 10);
			}
			name = strtok_r(NULL, "\n ", &next_name);
			value = strtok_r(NULL, "\n ", &next_value);
		}
	}
	die("/proc/net/netstat: no %s", wanted);
}

/* Packets that the kernel dropped between two interfaces, because its backlog queue was full: the
 * second number in the line of each CPU. No qdisc counts these packets.
 */
static uint64_t backlog_drops(void)
{
	FILE *file = fopen("/proc/net/softnet_stat", "r");
	unsigned int dropped;
	uint64_t sum = 0;

	if (!file)
		die("/proc/net/softnet_stat: %s", strerror(errno));
	while (fscanf(file, "%*x %x%*[^\n]", &dropped) == 1)
		sum += dropped;
	fclose(file);
	return sum;
}

static uint64_t drops_before;

/* Read the counters at time zero, to subtract the setup. */
void read_hosts(void)
{
	unsigned int i;

	drops_before = backlog_drops();
	for (i = 0; i < nr_netns; i++) {
		if (!netns[i].host)
			continue;
		enter(i);
		netns[i].timeouts = netstat("TCPTimeouts");
	}
}

/* Counters of a module, in lines of "name value". The file exists only if the module is loaded. */
static void put_module(FILE *out, const char *module)
{
	const char *comma = "";
	uint64_t value;
	char name[64];
	FILE *file;

	snprintf(name, sizeof(name), "/proc/net/%s", module);
	file = fopen(name, "r");
	if (!file)
		return;
	fprintf(out, ",\"%s\":{", module);
	while (fscanf(file, "%63s %" SCNu64, name, &value) == 2) {
		fprintf(out, "%s\"%s\":%" PRIu64, comma, name, value);
		comma = ",";
	}
	fprintf(out, "}");
	fclose(file);
}

void put_hosts(FILE *out)
{
	unsigned int i;

	fprintf(out, "{\"kind\":\"kernel\",\"backlog_drops\":%" PRIu64 "}\n",
		backlog_drops() - drops_before);
	for (i = 0; i < nr_netns; i++) {
		if (!netns[i].host)
			continue;
		enter(i);
		fprintf(out, "{\"kind\":\"host\",\"name\":\"%s\",\"timeouts\":%" PRIu64,
			netns[i].name, netstat("TCPTimeouts") - netns[i].timeouts);
		put_module(out, "hpcc");
		put_module(out, "ldcp");
		fprintf(out, "}\n");
	}
}
