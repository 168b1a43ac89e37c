/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the parts of hpcc-network share; the main comment is in main.c. */
#ifndef HPCC_NETWORK_H
#define HPCC_NETWORK_H

#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <stdbool.h>
#include <stddef.h>

/* Maximum length of a message. A route with 120 next hops has 4 KB. A message with any number of
 * items ends at half of this length.
 */
#define MESSAGE_BYTES	(8 << 10)

struct node;

/* One line of the plan. */
struct item {
	const char	*kind;
	char		*args;		/* text after the node's name */
	struct node	*node;
	struct item	*next;		/* next item of the same node */
};

struct interface {
	char		name[IFNAMSIZ];
	unsigned int	index;
};

struct node {
	char		name[32];
	int		fd;		/* file descriptor of its namespace */
	struct mnl_socket	*netlink;
	struct interface	*interfaces;
	unsigned int	nr_interfaces;
	struct item	*sysctls, *last_sysctl;
	struct item	*known, *last_known;
	struct item	*first, *last;	/* items that this node's netlink socket sends */
};

extern struct node *nodes;
extern unsigned int nr_nodes;
extern struct item *links;

/* main.c */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *allocated(void *memory);

/* plan.c */
void read_plan(const char *path);
void forget_items(void);
struct node *node_of(const char *name);
unsigned int interface_of(const struct node *node, const char *name);
char *word(char **args, const struct item *item);
void bad_line(const struct item *item) __attribute__((noreturn));

/* netlink.c */
struct mnl_socket *netlink_socket(int protocol);
int netlink_family(struct mnl_socket *nl, const char *name);
void netlink_begin(struct mnl_socket *socket);
struct nlmsghdr *netlink_message(const struct item *item, int type, int flags, void *head,
				 size_t size);
void netlink_end(void);

/* messages.c */
void add_link(struct item *item);
void add_known(struct item *item);
void configure(struct item *item);

#endif /* HPCC_NETWORK_H */
