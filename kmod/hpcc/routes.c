// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters by the peer's address: /proc/net/hpcc_routes.
 *
 * A route of the kernel names a congestion control, and has no place for more. So each network
 * namespace has a short table of prefixes, that says of net.hpcc.where and net.hpcc.carrier what
 * they are for a peer. The longest prefix wins; what it leaves open, and peers without one, the
 * sysctls decide.
 *
 * A connection asks in its SYN or SYN-ACK, and when it is established: no packet does after that.
 * So the table is an array, the longest prefixes first, and who asks goes through it. Who writes
 * makes another one: readers see all that a write says, or nothing of it.
 *
 * IPv4 addresses are their mapped IPv6 form, as in all of this module.
 */
#include <linux/inet.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <hpcc/compat.h>

#include "routes.h"

/* Bounds what who owns a namespace can have the kernel keep, 4 KB, and how long those who ask
 * take.
 */
#define HPCC_ROUTES_MAX	200

#define HPCC_MAPPED_LEN	96

/* The sysctl decides. */
#define HPCC_ROUTE_OPEN	-1

/**
 * struct hpcc_route - a line
 * @prefix: no bit behind @len is set
 * @len: bits of @prefix that count
 * @where: as the sysctl, or HPCC_ROUTE_OPEN
 * @carrier: the same
 */
struct hpcc_route {
	struct in6_addr prefix;
	u8 len;
	s8 where;
	s8 carrier;
};

/**
 * struct hpcc_routes - all lines of a namespace; constant
 * @rcu: frees it
 * @nr: how many
 * @route: the longest prefixes first
 */
struct hpcc_routes {
	struct rcu_head rcu;
	u32 nr;
	struct hpcc_route route[HPCC_ROUTES_MAX];
};

static_assert(sizeof(struct hpcc_routes) <= 4096);

/**
 * hpcc_choice_for() - what connections with an address are to do
 * @net: network namespace
 * @peer: the address
 *
 * Context: any.
 */
struct hpcc_choice hpcc_choice_for(const struct net *net, const struct in6_addr *peer)
{
	const struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_choice choice = {
		.where = READ_ONCE(hn->sysctls.where),
		.carrier = READ_ONCE(hn->sysctls.carrier),
	};
	const struct hpcc_routes *routes;
	const struct hpcc_route *route;
	u32 i;

	rcu_read_lock();
	routes = rcu_dereference(hn->routes);
	for (i = 0; routes && i < routes->nr; i++) {
		route = &routes->route[i];
		if (!ipv6_prefix_equal(peer, &route->prefix, route->len))
			continue;
		if (route->where != HPCC_ROUTE_OPEN)
			choice.where = route->where;
		if (route->carrier != HPCC_ROUTE_OPEN)
			choice.carrier = route->carrier;
		break;
	}
	rcu_read_unlock();
	return choice;
}

/**
 * hpcc_choice_of() - what a connection is to do, by the address of its peer
 * @sk: full or request socket
 *
 * Context: any.
 */
struct hpcc_choice hpcc_choice_of(const struct sock *sk)
{
	struct in6_addr laddr, raddr;

	hpcc_sock_addrs(sk, &laddr, &raddr);
	return hpcc_choice_for(sock_net(sk), &raddr);
}

/* ---- /proc/net/hpcc_routes --------------------------------------------------- */

static void hpcc_route_show_value(struct seq_file *seq, s8 value, char end)
{
	if (value == HPCC_ROUTE_OPEN)
		seq_printf(seq, "-%c", end);
	else
		seq_printf(seq, "%d%c", value, end);
}

static int hpcc_routes_show(struct seq_file *seq, void *v)
{
	const struct hpcc_net *hn = hpcc_pernet(seq_file_single_net(seq));
	const struct hpcc_routes *routes;
	const struct hpcc_route *route;
	u32 i;

	rcu_read_lock();
	routes = rcu_dereference(hn->routes);
	for (i = 0; routes && i < routes->nr; i++) {
		route = &routes->route[i];
		if (route->len >= HPCC_MAPPED_LEN && ipv6_addr_v4mapped(&route->prefix))
			seq_printf(seq, "%pI4/%u ", &route->prefix.s6_addr32[3],
				   route->len - HPCC_MAPPED_LEN);
		else
			seq_printf(seq, "%pI6c/%u ", &route->prefix, route->len);
		hpcc_route_show_value(seq, route->where, ' ');
		hpcc_route_show_value(seq, route->carrier, '\n');
	}
	rcu_read_unlock();
	return 0;
}

/* "ADDRESS/LEN" */
static int hpcc_prefix_parse(char *word, struct hpcc_route *route)
{
	char *address = strsep(&word, "/");
	struct in6_addr prefix;
	u8 more = 0;

	if (in4_pton(address, -1, (u8 *)&prefix.s6_addr32[3], -1, NULL)) {
		ipv6_addr_set_v4mapped(prefix.s6_addr32[3], &prefix);
		more = HPCC_MAPPED_LEN;
	} else if (!in6_pton(address, -1, prefix.s6_addr, -1, NULL)) {
		return -EINVAL;
	}
	if (!word || kstrtou8(word, 10, &route->len) || route->len > 128 - more)
		return -EINVAL;
	route->len += more;
	/* Who sets more bits than count means something else. */
	ipv6_addr_prefix(&route->prefix, &prefix, route->len);
	return ipv6_addr_equal(&route->prefix, &prefix) ? 0 : -EINVAL;
}

static int hpcc_route_value(const char *word, u8 max, s8 *value)
{
	*value = HPCC_ROUTE_OPEN;
	if (!strcmp(word, "-"))
		return 0;
	return kstrtos8(word, 10, value) || *value < 0 || *value > max ? -EINVAL : 0;
}

/* "PREFIX/LEN [WHERE CARRIER]"; without the two: forget it. */
enum hpcc_route_word {
	HPCC_ROUTE_WORD_PREFIX,
	HPCC_ROUTE_WORD_WHERE,
	HPCC_ROUTE_WORD_CARRIER,
	__HPCC_ROUTE_WORD_MAX,
};

/* Return: how many words there are, or -EINVAL. */
static int hpcc_route_parse(char *line, struct hpcc_route *route)
{
	char *words[__HPCC_ROUTE_WORD_MAX];
	int nr = hpcc_words(line, words, __HPCC_ROUTE_WORD_MAX);

	if ((nr != HPCC_ROUTE_WORD_WHERE && nr != __HPCC_ROUTE_WORD_MAX) ||
	    hpcc_prefix_parse(words[HPCC_ROUTE_WORD_PREFIX], route))
		return -EINVAL;
	if (nr == __HPCC_ROUTE_WORD_MAX &&
	    (hpcc_route_value(words[HPCC_ROUTE_WORD_WHERE], HPCC_WHERE_MAX, &route->where) ||
	     hpcc_route_value(words[HPCC_ROUTE_WORD_CARRIER], HPCC_CARRIER_MAX, &route->carrier)))
		return -EINVAL;
	return nr;
}

static int hpcc_route_write(struct hpcc_routes *routes, char *line)
{
	struct hpcc_route *route = routes->route;
	struct hpcc_route new;
	int nr = hpcc_route_parse(line, &new);
	bool keep = nr == __HPCC_ROUTE_WORD_MAX;
	const struct hpcc_route *end = route + routes->nr;
	bool found;

	if (nr < 0)
		return nr;
	while (route < end && (route->len > new.len ||
			       (route->len == new.len &&
				!ipv6_addr_equal(&route->prefix, &new.prefix))))
		route++;
	found = route < end && route->len == new.len;
	if (keep && !found && routes->nr == HPCC_ROUTES_MAX)
		return -ENOSPC;
	/* What is behind it makes room, or closes up. */
	memmove(route + keep, route + found, (end - (route + found)) * sizeof(*route));
	routes->nr += keep - found;
	if (keep)
		*route = new;
	return 0;
}

/* A write is one or several whole lines. One that is wrong, and none is taken. */
static int hpcc_routes_write(struct file *file, char *buf, size_t size)
{
	struct hpcc_net *hn = hpcc_pernet(seq_file_single_net(file->private_data));
	struct hpcc_routes *old, *new;
	char *line;
	int err = 0;

	new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	mutex_lock(&hn->path_lock);
	old = rcu_dereference_protected(hn->routes, lockdep_is_held(&hn->path_lock));
	if (old)
		*new = *old;
	else
		new->nr = 0;
	while (!err && (line = strsep(&buf, "\n")))
		if (*line)
			err = hpcc_route_write(new, line);
	if (!err) {
		rcu_assign_pointer(hn->routes, new);
		kfree_rcu(old, rcu);
	}
	mutex_unlock(&hn->path_lock);
	if (err)
		kfree(new);
	return err;
}

/**
 * hpcc_routes_free() - when the namespace goes
 * @hn: our state in it, of which nobody writes routes any more
 */
void hpcc_routes_free(struct hpcc_net *hn)
{
	struct hpcc_routes *routes = rcu_replace_pointer(hn->routes, NULL, true);

	kfree_rcu(routes, rcu);
}

/**
 * hpcc_routes_register() - show the table
 * @net: network namespace
 *
 * Return: 0 or -ENOMEM.
 */
int hpcc_routes_register(struct net *net)
{
	return proc_create_net_single_write("hpcc_routes", 0644, net->proc_net, hpcc_routes_show,
					    hpcc_routes_write, NULL) ? 0 : -ENOMEM;
}

/**
 * hpcc_routes_unregister() - take it back
 * @net: network namespace
 */
void hpcc_routes_unregister(struct net *net)
{
	remove_proc_entry("hpcc_routes", net->proc_net);
}
