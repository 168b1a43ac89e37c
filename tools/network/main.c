// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-network: the network of a scenario of hpcc-lab, by netlink.
 *
 *	hpcc-network up PLAN	create the network, and wait until its links have carrier
 *	hpcc-network down PLAN	delete the network
 *	hpcc-network change PLAN CHANGES	apply lines of the same kinds, and down, change
 *
 * One program replaces thousands of calls of ip, bridge and tc: in User Mode Linux a system call
 * costs 100 us of real time, and the start of a program costs 10 ms.
 *
 * The plan has one item per line:
 *	node NAME		a network namespace, /run/netns/hpcc-NAME as for ip-netns(8)
 *	sysctl NODE PATH VALUE	before NODE has interfaces; -PATH: only if the file exists
 *	know NODE [LINK PORT BPS]...	links whose B a receiver of IOAM, INT or IFA must know
 *	link NODE INTERFACE MAC NODE INTERFACE MAC MTU	a veth pair
 * Each node then has a batch of messages, in this order (messages.c has the format of each line):
 *	bridge, member, qdisc, up, address, neigh, fdb, route
 * Qdiscs come before "up", because the kernel then creates no queue that they would replace.
 *
 * If the kernel rejects a message, the program ends with an error that names the node and the
 * interface.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

#define NETNS_DIR	"/run/netns"
/* Maximum number of open files: namespaces and their sockets. */
#define FILES_MAX	4096
/* Timeout for carrier, in milliseconds: the kernel reports 100 devices per second. */
#define PATIENCE_MS	60000

struct node *nodes;
unsigned int nr_nodes;
struct item *links;
/* Number of nodes that this "up" has created: the first entries of nodes. */
static unsigned int nr_made;

void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "hpcc-network: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void *allocated(void *memory)
{
	if (!memory)
		die("out of memory");
	return memory;
}

static const char *path_of(const struct node *node)
{
	static char path[64];

	snprintf(path, sizeof(path), NETNS_DIR "/hpcc-%s", node->name);
	return path;
}

static void write_sysctl(const struct item *item)
{
	char *args = item->args, *path = word(&args, item);
	bool optional = *path == '-';
	char file[256];
	int fd;

	if (!args || strstr(path, "..") ||
	    snprintf(file, sizeof(file), "/proc/sys/%s", path + optional) >= (int)sizeof(file))
		bad_line(item);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && optional)
		return;
	if (fd < 0 || write(fd, args, strlen(args)) < 0)
		die("node %s: %s: cannot set %s: %s", item->node->name, file, args,
		    strerror(errno));
	close(fd);
}

static void delete_node(const struct node *node)
{
	umount2(path_of(node), MNT_DETACH);
	unlink(path_of(node));
}

/* After a failed "up", delete only the namespaces that this "up" has created. */
static void delete_made(void)
{
	while (nr_made)
		delete_node(&nodes[--nr_made]);
}

static void interrupted(int signal)
{
	delete_made();
	_exit(128 + signal);
}

static void make_node(struct node *node)
{
	const char *path = path_of(node);
	const struct item *item;
	int fd;

	fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (fd < 0)
		die("node %s: %s: %s", node->name, path, strerror(errno));
	close(fd);
	nr_made++;
	if (unshare(CLONE_NEWNET) || mount("/proc/thread-self/ns/net", path, "none", MS_BIND, NULL))
		die("node %s: network namespace: %s", node->name, strerror(errno));
	node->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (node->fd < 0)
		die("node %s: %s: %s", node->name, path, strerror(errno));
	for (item = node->sysctls; item; item = item->next)
		write_sysctl(item);
	if (node->known)
		add_known(node->known);
	node->netlink = netlink_socket(NETLINK_ROUTE);
}

/* IFF_RUNNING is also set while the state is unknown, before the kernel has noticed the carrier. */
static int count_waiting(const struct nlmsghdr *nlh, void *data)
{
	const struct ifinfomsg *head = mnl_nlmsg_get_payload(nlh);
	bool waits = (head->ifi_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(*head))
		if (mnl_attr_get_type(attr) == IFLA_OPERSTATE)
			waits = waits && mnl_attr_get_u8(attr) != IF_OPER_UP;
	*(unsigned int *)data += waits;
	return MNL_CB_OK;
}

static bool has_carrier(const struct node *node)
{
	static char buf[32 << 10] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *head;
	unsigned int waiting = 0;
	int more = MNL_CB_OK;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	head = mnl_nlmsg_put_extra_header(nlh, sizeof(*head));
	head->ifi_family = AF_UNSPEC;
	mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (mnl_socket_sendto(node->netlink, nlh, nlh->nlmsg_len) < 0)
		die("netlink: %s", strerror(errno));
	while (more > MNL_CB_STOP) {
		ssize_t n = mnl_socket_recvfrom(node->netlink, buf, sizeof(buf));

		more = n < 0 ? MNL_CB_ERROR : mnl_cb_run(buf, n, 0, 0, count_waiting, &waiting);
		if (more == MNL_CB_ERROR)
			die("node %s: interfaces: %s", node->name, strerror(errno));
	}
	return !waiting;
}

/* Wait for carrier. A device that is up drops packets until the kernel has noticed the carrier. */
static void wait_for_carrier(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int i = 0, patience = PATIENCE_MS;

	while (i < nr_nodes) {
		if (has_carrier(&nodes[i])) {
			i++;
			continue;
		}
		if (!patience--)
			die("node %s: an interface does not come up", nodes[i].name);
		nanosleep(&pause, NULL);
	}
}

/* Print progress in steps of 10 %: first nodes that exist, then nodes that are configured. */
static void progress(unsigned int done)
{
	unsigned int step = done * 5 / nr_nodes, before = (done - 1) * 5 / nr_nodes;

	if (done && step > before)
		fprintf(stderr, "progress network %u\n", 10 * step);
}

static void up(void)
{
	const struct rlimit files = { FILES_MAX, FILES_MAX };
	struct item *item;
	unsigned int i;

	if (setrlimit(RLIMIT_NOFILE, &files) || (mkdir(NETNS_DIR, 0755) && errno != EEXIST))
		die(NETNS_DIR ": %s", strerror(errno));
	atexit(delete_made);
	signal(SIGINT, interrupted);
	signal(SIGTERM, interrupted);
	for (i = 0; i < nr_nodes; i++) {
		make_node(&nodes[i]);
		progress(i + 1);
	}
	netlink_begin(nodes[0].netlink);
	for (item = links; item; item = item->next)
		add_link(item);
	netlink_end();
	for (i = 0; i < nr_nodes; i++) {
		netlink_begin(nodes[i].netlink);
		for (item = nodes[i].first; item; item = item->next)
			configure(item);
		netlink_end();
		progress(nr_nodes + i + 1);
	}
	wait_for_carrier();
	nr_made = 0;
}

static void down(void)
{
	unsigned int i;

	for (i = 0; i < nr_nodes; i++)
		delete_node(&nodes[i]);
}

static void change(const char *changes)
{
	struct item *item;
	unsigned int i;
	int fd;

	forget_items();
	read_plan(changes);
	for (i = 0; i < nr_nodes; i++) {
		if (!nodes[i].first)
			continue;
		fd = open(path_of(&nodes[i]), O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNET))
			die("node %s: %s: %s", nodes[i].name, path_of(&nodes[i]), strerror(errno));
		close(fd);
		netlink_begin(netlink_socket(NETLINK_ROUTE));
		for (item = nodes[i].first; item; item = item->next)
			configure(item);
		netlink_end();
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool changes = !strcmp(what, "change");

	if (argc != 3 + changes || (!changes && strcmp(what, "up") && strcmp(what, "down"))) {
		fprintf(stderr, "usage: hpcc-network up|down PLAN | change PLAN CHANGES\n");
		return 1;
	}
	read_plan(argv[2]);
	if (!nr_nodes)
		die("%s: no node", argv[2]);
	if (changes)
		change(argv[3]);
	else if (!strcmp(what, "up"))
		up();
	else
		down();
	return 0;
}
