// SPDX-License-Identifier: GPL-2.0
/* hpcc-network: read the plan; main.c describes its format. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

#define LOOPBACK_INDEX	1

/* The kernel uses lower numbers for the loopback interface and tunnels. */
static unsigned int last_index = 99;
static struct item *last_link;
static bool items_began;

void bad_line(const struct item *item)
{
	die("plan: node %s: %s %s", item->node ? item->node->name : "", item->kind, item->args);
}

char *word(char **args, const struct item *item)
{
	char *found = strsep(args, " ");

	if (!found || !*found)
		bad_line(item);
	return found;
}

struct node *node_of(const char *name)
{
	static unsigned int i;
	unsigned int tries;

	/* Lines of a node usually follow each other, so start with the last node. */
	for (tries = 0; tries < nr_nodes; tries++, i = (i + 1) % nr_nodes)
		if (!strcmp(nodes[i].name, name))
			return &nodes[i];
	die("plan: no node %s", name);
}

unsigned int interface_of(const struct node *node, const char *name)
{
	unsigned int i;

	for (i = 0; i < node->nr_interfaces; i++)
		if (!strcmp(node->interfaces[i].name, name))
			return node->interfaces[i].index;
	if (!strcmp(name, "lo"))
		return LOOPBACK_INDEX;
	die("plan: node %s has no interface %s", node->name, name);
}

/* Each interface has its own ifindex. If the peer of a veth has the same ifindex, linkwatch handles
 * its carrier up to one second later.
 */
static void new_interface(struct node *node, const char *name)
{
	struct interface *new;

	node->interfaces = allocated(reallocarray(node->interfaces, node->nr_interfaces + 1,
						  sizeof(*node->interfaces)));
	if (!*name || strlen(name) >= IFNAMSIZ)
		die("plan: node %s: interface %s: a name has 1 to %d characters", node->name, name,
		    IFNAMSIZ - 1);
	new = &node->interfaces[node->nr_interfaces++];
	snprintf(new->name, sizeof(new->name), "%s", name);
	new->index = ++last_index;
}

static void number_interfaces(struct item *item)
{
	char name[IFNAMSIZ + 1], peer[33], peer_name[IFNAMSIZ + 1];

	if (!strcmp(item->kind, "bridge")) {
		new_interface(item->node, item->args);
	} else if (!strcmp(item->kind, "link")) {
		if (sscanf(item->args, "%16s %*s %32s %16s", name, peer, peer_name) != 3)
			bad_line(item);
		new_interface(item->node, name);
		new_interface(node_of(peer), peer_name);
	}
}

/* All nodes come before the items, because items point to nodes. */
static void new_node(const char *name)
{
	struct node *node;

	if (items_began)
		die("plan: node %s: nodes must come before their interfaces and settings", name);
	if (!*name || strlen(name) >= sizeof(node->name) || strpbrk(name, "/ "))
		die("plan: node %s: a name has 1 to %zu characters, no / and no space", name,
		    sizeof(node->name) - 1);
	nodes = allocated(reallocarray(nodes, nr_nodes + 1, sizeof(*nodes)));
	node = &nodes[nr_nodes++];
	*node = (struct node){ .fd = -1 };
	snprintf(node->name, sizeof(node->name), "%s", name);
}

static void append(struct item **first, struct item **last, struct item *item)
{
	if (*last)
		(*last)->next = item;
	else
		*first = item;
	*last = item;
}

static void new_item(char *line)
{
	struct item *item = allocated(calloc(1, sizeof(*item)));

	items_began = true;
	item->kind = strsep(&line, " ");
	item->node = node_of(line ? strsep(&line, " ") : "");
	item->args = line ? line : "";
	number_interfaces(item);
	if (!strcmp(item->kind, "link"))
		append(&links, &last_link, item);
	else if (!strcmp(item->kind, "sysctl"))
		append(&item->node->sysctls, &item->node->last_sysctl, item);
	else if (!strcmp(item->kind, "know"))
		append(&item->node->known, &item->node->last_known, item);
	else
		append(&item->node->first, &item->node->last, item);
}

void forget_items(void)
{
	unsigned int i;

	links = NULL;
	for (i = 0; i < nr_nodes; i++) {
		nodes[i].first = NULL;
		nodes[i].last = NULL;
	}
}

void read_plan(const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	if (!file)
		die("%s: %s", path, strerror(errno));
	while ((n = getline(&line, &size, file)) > 0) {
		line[n - (line[n - 1] == '\n')] = '\0';
		if (!strncmp(line, "node ", 5))
			new_node(line + 5);
		else
			new_item(allocated(strdup(line)));
	}
	free(line);
	fclose(file);
}
