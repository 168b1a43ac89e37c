// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: the plan, see the head of main.c. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

static void *grown(void *array, unsigned int nr, size_t size)
{
	array = reallocarray(array, nr + 1, size);
	if (!array)
		die("out of memory");
	memset((char *)array + nr * size, 0, size);
	return array;
}

static unsigned int netns_index(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_netns; i++)
		if (!strcmp(netns[i].name, name))
			return i;
	die("plan: no namespace %s", name);
}

void enter(unsigned int ns)
{
	static int current = -1;
	int fd;

	if (current == (int)ns)
		return;
	fd = open(netns[ns].path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("namespace %s: %s", netns[ns].path, strerror(errno));
	close(fd);
	current = ns;
}

static void write_sysctl(const char *ns, const char *path, const char *value)
{
	char file[256];
	int fd;

	enter(netns_index(ns));
	snprintf(file, sizeof(file), "/proc/sys/%s", path);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("%s in %s: cannot set %s: %s", file, ns, value, strerror(errno));
	close(fd);
}

static void set_address(struct sockaddr_storage *ss, const char *text, unsigned int port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
	} else {
		die("plan: bad address %s", text);
	}
}

static void parse_netns(const char *line)
{
	struct netns *ns;

	netns = grown(netns, nr_netns, sizeof(*netns));
	ns = &netns[nr_netns++];
	ns->netlink = -1;
	if (sscanf(line, "ns %31s %127s", ns->name, ns->path) != 2)
		die("plan: %s", line);
}

static void parse_port(const char *line)
{
	struct port *p;
	int series;
	char ns[32];

	ports = grown(ports, nr_ports, sizeof(*ports));
	p = &ports[nr_ports++];
	if (sscanf(line, "port %u %31s %15s %d", &p->id, ns, p->ifname, &series) != 4)
		die("plan: %s", line);
	p->ns = netns_index(ns);
	p->series = series;
	nr_series += p->series;
	netns[p->ns].nr_ports++;
}

static void parse_flow(const char *line)
{
	char from[32], to[32], saddr[64], daddr[64];
	unsigned int port;
	struct flow *f;

	flows = grown(flows, nr_flows, sizeof(*flows));
	f = &flows[nr_flows++];
	if (sscanf(line, "flow %u %31s %31s %63s %63s %u %" SCNu64 " %" SCNu64 " %15s",
		   &f->id, from, to, saddr, daddr, &port, &f->bytes, &f->start_ns,
		   f->cc) != 9)
		die("plan: %s", line);
	f->from = netns_index(from);
	f->to = netns_index(to);
	netns[f->from].host = true;
	netns[f->to].host = true;
	set_address(&f->saddr, saddr, port);
	set_address(&f->daddr, daddr, port);
	f->tx = -1;
	f->rx = -1;
	bytes_wanted += f->bytes;
	if (!f->bytes) {
		f->endless = true;
		f->bytes = INT64_MAX;
		nr_endless++;
	}
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
	else
		die("plan: %s", line);
}

/* A device that was brought up drops packets until the kernel has noticed its
 * carrier, which may take it a second.
 */
static void wait_running(const char *ns, const char *ifname)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t give_up_ns = now_ns() + 10 * NSEC_PER_SEC;
	struct ifreq req = {};
	int fd;

	enter(netns_index(ns));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	strcpy(req.ifr_name, ifname);
	while (!ioctl(fd, SIOCGIFFLAGS, &req)) {
		if (req.ifr_flags & IFF_RUNNING) {
			close(fd);
			return;
		}
		if (now_ns() > give_up_ns)
			break;
		nanosleep(&pause, NULL);
	}
	die("%s of %s does not come up", ifname, ns);
}

void read_plan(const char *path, bool prepare)
{
	char line[512], ns[32], ifname[IFNAMSIZ], sysctl[128], value[128];
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "ns ", 3)) {
			parse_netns(line);
		} else if (!strncmp(line, "sysctl ", 7)) {
			if (sscanf(line, "sysctl %31s %127s %127[^\n]", ns, sysctl, value) != 3)
				die("plan: %s", line);
			if (prepare)
				write_sysctl(ns, sysctl, value);
		} else if (!strncmp(line, "wait ", 5)) {
			if (sscanf(line, "wait %31s %15s", ns, ifname) != 2)
				die("plan: %s", line);
			if (!prepare)
				wait_running(ns, ifname);
		} else if (!strncmp(line, "port ", 5)) {
			parse_port(line);
		} else if (!strncmp(line, "flow ", 5)) {
			parse_flow(line);
		} else if (line[0]) {
			parse_number(line);
		}
	}
	fclose(file);
}
