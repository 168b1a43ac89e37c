// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: read the plan; main.c describes its format. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

/* Size of the hash table: twice the maximum number of namespaces. */
#define NETNS_MAX	8192

#define DSCP_MAX	63

static unsigned int netns_index(const char *name)
{
	const ENTRY *found = hsearch((ENTRY){ .key = (char *)name }, FIND);

	if (!found)
		die("plan: no namespace %s", name);
	return (uintptr_t)found->data;
}

void enter(unsigned int ns)
{
	static int current = -1;

	if (current == (int)ns)
		return;
	if (netns[ns].fd < 0)
		netns[ns].fd = open(netns[ns].path, O_RDONLY | O_CLOEXEC);
	if (netns[ns].fd < 0 || setns(netns[ns].fd, CLONE_NEWNET))
		die("namespace %s: %s", netns[ns].path, strerror(errno));
	current = ns;
}

static void set_address(struct sockaddr_storage *ss, const char *text)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	else
		die("plan: bad address %s", text);
}

static void parse_netns(const char *line)
{
	char address[64];
	struct netns *ns;
	unsigned int i;
	int n;

	netns = grown(netns, nr_netns, sizeof(*netns));
	ns = &netns[nr_netns];
	ns->fd = -1;
	ns->netlink = -1;
	for (i = 0; i < CC_MAX * ROUNDS; i++)
		ns->listener[i] = -1;
	n = sscanf(line, "ns %31s %127s %63s", ns->name, ns->path, address);
	if (n < 2 || (!nr_netns && !hcreate(NETNS_MAX)) || nr_netns == NETNS_MAX / 2)
		die("plan: %s", line);
	if (n == 3)
		set_address(&ns->addr, address);
	hsearch((ENTRY){ strdup(ns->name), (void *)(uintptr_t)nr_netns }, ENTER);
	nr_netns++;
}

static void parse_port(const char *line)
{
	struct port *p;
	int series;
	char ns[32];

	ports = grown(ports, nr_ports, sizeof(*ports));
	p = &ports[nr_ports++];
	if (sscanf(line, "port %u %31s %15s %d %u", &p->id, ns, p->ifname, &series,
		   &p->classes) != 5 || p->classes > CLASSES_MAX)
		die("plan: %s", line);
	p->ns = netns_index(ns);
	p->series = series;
	nr_series += p->series;
	if (!netns[p->ns].nr_ports)
		netns[p->ns].first_port = nr_ports - 1;
	if (netns[p->ns].first_port + netns[p->ns].nr_ports++ != nr_ports - 1)
		die("plan: ports of %s do not follow one another", ns);
}

/* NAME or NAME/DSCP */
static unsigned int cc_index(const char *text)
{
	unsigned int i, dscp = 0;
	struct cc *cc;

	for (i = 0; i < nr_ccs; i++)
		if (!strcmp(ccs[i].text, text))
			return i;
	if (nr_ccs == CC_MAX)
		die("plan: more than %d congestion controls", CC_MAX);
	cc = &ccs[nr_ccs];
	snprintf(cc->text, sizeof(cc->text), "%s", text);
	if (sscanf(text, "%15[^/]/%u", cc->name, &dscp) < 1 || dscp > DSCP_MAX)
		die("plan: %s: a congestion control is NAME or NAME/DSCP, with a DSCP of 0 to %d",
		    text, DSCP_MAX);
	cc->tos = dscp << 2;
	return nr_ccs++;
}

static void set_hosts(struct flow *f, const char *from, const char *to, const char *cc)
{
	f->from = netns_index(from);
	f->to = netns_index(to);
	f->cc = cc_index(cc);
	netns[f->from].host = true;
	netns[f->to].host = true;
	if (!netns[f->from].addr.ss_family || !netns[f->to].addr.ss_family)
		die("plan: %s or %s has no address", from, to);
}

static void read_flow(const char *line, struct flow *f)
{
	char from[32], to[32], cc[20], connect[16];

	if (sscanf(line, "flow %u %31s %31s %" SCNu64 " %" SCNu64 " %19s %15s", &f->id, from,
		   to, &f->bytes, &f->start_ns, cc, connect) != 7)
		die("plan: %s", line);
	set_hosts(f, from, to, cc);
	if (!strcmp(connect, "before"))
		f->connect = BEFORE;
	else if (!strcmp(connect, "start"))
		f->connect = START;
	else if (!strcmp(connect, "pool"))
		f->connect = POOL;
	else
		f->connect = SHARED;
	if (f->connect == SHARED) {
		f->shared = strtoul(connect, NULL, 10);
		if (f->shared >= nr_flows || flows[f->shared].connect != BEFORE)
			die("plan: %s", line);
	}
}

static void parse_flow(const char *line)
{
	struct flow f = {};

	read_flow(line, &f);
	netns[f.from].nr_sent++;
	bytes_wanted += f.bytes;
	if (!f.bytes) {
		f.endless = true;
		f.bytes = INT64_MAX;
		nr_endless++;
	}
	nr_large += f.bytes > LARGE_BYTES;
	if ((f.connect == START || f.connect == POOL) && !series_flows) {
		nr_streamed++;
		return;
	}
	if (nr_streamed)
		die("plan: %s: flows with start and pool have to be last", line);
	flows = grown(flows, nr_flows, sizeof(*flows));
	flows[nr_flows++] = f;
}

/* The plan stays open: flows that make no connection before time zero are read again. */
static FILE *plan;
static char *line;
static size_t line_size;
static off_t first_streamed;

void rewind_flows(void)
{
	if (fseeko(plan, first_streamed, SEEK_SET))
		die("plan: %s", strerror(errno));
}

/* The next flow that is not in flows[], or NULL after the last one. They are sorted by start. */
struct flow *next_flow(void)
{
	struct flow *f;

	if (!nr_streamed || getline(&line, &line_size, plan) <= 0)
		return NULL;
	f = zeroed(1, sizeof(*f));
	read_flow(line, f);
	f->streamed = true;
	return f;
}

static void parse_rpc(const char *line)
{
	char from[32], to[32], cc[20];
	struct rpc *r;

	rpcs = grown(rpcs, nr_rpcs, sizeof(*rpcs));
	r = &rpcs[nr_rpcs++];
	if (sscanf(line, "rpc %u %31s %31s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %"
		   SCNu64 " %" SCNu64 " %19s", &r->id, from, to, &r->request_bytes,
		   &r->response_bytes, &r->count, &r->until_ns, &r->think_ns, &r->next_ns,
		   cc) != 10)
		die("plan: %s", line);
	set_hosts(&r->request, from, to, cc);
	set_hosts(&r->response, to, from, cc);
	r->request.id = r->id;
	r->response.id = r->id;
}

static void parse_collective(const char *line)
{
	struct collective *c;

	collectives = grown(collectives, nr_collectives, sizeof(*collectives));
	c = &collectives[nr_collectives++];
	if (sscanf(line, "collective %u %" SCNu64 " %u", &c->id, &c->begun_ns, &c->steps) != 3)
		die("plan: %s", line);
	c->first = nr_edges;
}

static void parse_edge(const char *line)
{
	char from[32], to[32], cc[20], *end;
	const char *at;
	struct edge *e;
	int n = 0;

	edges = grown(edges, nr_edges, sizeof(*edges));
	e = &edges[nr_edges++];
	if (sscanf(line, "edge %31s %31s %" SCNu64 " %u %u %19s%n", from, to, &e->bytes, &e->count,
		   &e->free, cc, &n) != 6 || !nr_collectives || !e->bytes || !e->count)
		die("plan: %s", line);
	set_hosts(&e->flow, from, to, cc);
	e->collective = nr_collectives - 1;
	bytes_wanted += e->bytes * e->count * collectives[e->collective].steps;
	collectives[e->collective].nr_edges++;
	for (at = line + n; *at; at = end) {
		e->after = grown(e->after, e->nr_after, sizeof(*e->after));
		e->after[e->nr_after++] = strtoul(at, &end, 10);
		if (end == at)
			die("plan: %s", line);
	}
}

/* All edges are known, and no longer move. */
static void link_edges(void)
{
	unsigned int i, n;

	for (i = 0; i < nr_edges; i++) {
		const struct collective *c = &collectives[edges[i].collective];

		edges[i].flow.edge = &edges[i];
		for (n = 0; n < edges[i].nr_after; n++)
			if (edges[i].after[n] >= c->nr_edges)
				die("plan: edge %u: no edge %u", i, edges[i].after[n]);
	}
}

static void parse_program(const char *line)
{
	char ns[32], start[32], stop[32], out[64];
	struct program *p;
	int at = 0;

	programs = grown(programs, nr_programs, sizeof(*programs));
	p = &programs[nr_programs++];
	if (sscanf(line, "run %31s %31s %31s %63s %n", ns, start, stop, out, &at) != 4 ||
	    !line[at])
		die("plan: %s", line);
	p->early = !strcmp(start, "before");
	p->start_ns = p->early ? 0 : strtoull(start, NULL, 10);
	p->ns = netns_index(ns);
	/* Only hosts have an address. Events and captures may run in the namespace of a switch. */
	if (netns[p->ns].addr.ss_family)
		netns[p->ns].host = true;
	p->server = !strcmp(stop, "end");
	p->stop_ns = p->server ? 0 : strtoull(stop, NULL, 10);
	if (!p->stop_ns)
		p->stop_ns = NEVER;
	p->out = strdup(out);
	p->command = strdup(line + at);
	p->pidfd = -1;
}

static void parse_number(const char *line)
{
	char key[32];
	uint64_t n;

	if (sscanf(line, "%31s %" SCNu64, key, &n) != 2)
		die("plan: %s", line);
	if (!strcmp(key, "interval"))
		interval_ns = n;
	else if (!strcmp(key, "from"))
		from_ns = n;
	else if (!strcmp(key, "until"))
		until_ns = n;
	else if (!strcmp(key, "deadline"))
		deadline_ns = n;
	else if (!strcmp(key, "verify"))
		verify = n;
	else if (!strcmp(key, "series_flows"))
		series_flows = n;
	else if (!strcmp(key, "pool"))
		pool_size = n;
	else
		die("plan: %s", line);
}

void read_plan(const char *path)
{
	unsigned int i;
	ssize_t n;

	plan = fopen(path, "re");
	if (!plan)
		die("%s: %s", path, strerror(errno));
	setvbuf(plan, NULL, _IOFBF, 1 << 18);
	while ((n = getline(&line, &line_size, plan)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "ns ", 3))
			parse_netns(line);
		else if (!strncmp(line, "port ", 5))
			parse_port(line);
		else if (!strncmp(line, "flow ", 5))
			parse_flow(line);
		else if (!strncmp(line, "rpc ", 4))
			parse_rpc(line);
		else if (!strncmp(line, "collective ", 11))
			parse_collective(line);
		else if (!strncmp(line, "edge ", 5))
			parse_edge(line);
		else if (!strncmp(line, "run ", 4))
			parse_program(line);
		else if (line[0])
			parse_number(line);
		if (!nr_streamed)
			first_streamed += n;
		else if (strncmp(line, "flow ", 5))
			die("plan: %s: has to be before the flows", line);
	}
	if (ferror(plan))
		die("%s: %s", path, strerror(errno));
	for (i = 0; i < nr_rpcs; i++) {
		rpcs[i].request.rpc = &rpcs[i];
		rpcs[i].response.rpc = &rpcs[i];
	}
	link_edges();
}
