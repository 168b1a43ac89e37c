// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: requests to the generic netlink family "hpcc", and its events.
 *
 * If the module is unloaded and loaded again, its family has a new number, so a dump that fails
 * with ENOENT must look up the number again.
 */
#include <errno.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "observe.h"

#define ANSWER_BYTES	(64 << 10)

struct monitor {
	struct mnl_socket	*nl;
	uint16_t		family;	/* number of the family, 0: unknown */
	uint32_t		group;	/* multicast group of events */
	uint32_t		seq;
	uint32_t		drops;	/* drops that were already reported */
	bool			behind;	/* the kernel has dropped messages */
	char			*answer;
	const char		*why;	/* error message of the kernel, or NULL */
};

static const char *not_loaded(void)
{
	if (observed_any())
		return "tcp_hpcc is not loaded; for observed flows there are only flow, top, "
		       "path, record and export";
	if (observed_hidden())
		return "tcp_hpcc is not loaded; load it with: modprobe tcp_hpcc, or see flows of "
		       "hpccmon observe with CAP_SYS_ADMIN";
	return "tcp_hpcc is not loaded; load it with: modprobe tcp_hpcc";
}

static struct nlmsghdr *request(struct monitor *mon, char *buf, uint16_t type, uint8_t cmd,
				uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *head = mnl_nlmsg_put_extra_header(nlh, sizeof(*head));

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++mon->seq;
	head->cmd = cmd;
	head->version = HPCC_FAMILY_VERSION;
	return nlh;
}

static int take_why(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
	    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		*(const char **)data = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

/* The error in the last message of an answer; 0: none. */
static int error_of(struct monitor *mon, const struct nlmsghdr *nlh)
{
	const int *number = mnl_nlmsg_get_payload(nlh);
	size_t offset = nlh->nlmsg_type == NLMSG_ERROR ? sizeof(struct nlmsgerr) : sizeof(int);

	if (mnl_nlmsg_get_payload_len(nlh) < offset)
		return 0;
	if (*number && nlh->nlmsg_flags & NLM_F_ACK_TLVS)
		mnl_attr_parse(nlh, offset, take_why, &mon->why);
	return -*number;
}

/* Send a request and pass each message of the answer to @fn. Return: 0 or an error. */
static int ask(struct monitor *mon, const struct nlmsghdr *nlh, message_fn fn, void *data)
{
	const struct nlmsghdr *got;
	ssize_t n;
	int len;

	mon->why = NULL;
	if (mnl_socket_sendto(mon->nl, nlh, nlh->nlmsg_len) < 0)
		return errno;
	for (;;) {
		n = mnl_socket_recvfrom(mon->nl, mon->answer, ANSWER_BYTES);
		if (n < 0 && errno == EINTR && !interrupted())
			continue;
		if (n < 0)
			return errno;
		len = n;
		for (got = (void *)mon->answer; mnl_nlmsg_ok(got, len);
		     got = mnl_nlmsg_next(got, &len)) {
			if (got->nlmsg_seq != mon->seq)
				continue;
			if (got->nlmsg_type == NLMSG_ERROR || got->nlmsg_type == NLMSG_DONE)
				return error_of(mon, got);
			if (got->nlmsg_type >= NLMSG_MIN_TYPE)
				fn(mon, got, data);
		}
	}
}

static int group_take(const struct nlattr *attr, void *data)
{
	const struct nlattr **parts = data;

	if (mnl_attr_get_type(attr) <= CTRL_ATTR_MCAST_GRP_ID)
		parts[mnl_attr_get_type(attr)] = attr;
	return MNL_CB_OK;
}

static int groups_take(const struct nlattr *attr, void *data)
{
	const struct nlattr *parts[CTRL_ATTR_MCAST_GRP_ID + 1] = {};
	struct monitor *mon = data;

	mnl_attr_parse_nested(attr, group_take, parts);
	if (parts[CTRL_ATTR_MCAST_GRP_NAME] && parts[CTRL_ATTR_MCAST_GRP_ID] &&
	    !strcmp(mnl_attr_get_str(parts[CTRL_ATTR_MCAST_GRP_NAME]), HPCC_MCGRP_EVENTS))
		mon->group = mnl_attr_get_u32(parts[CTRL_ATTR_MCAST_GRP_ID]);
	return MNL_CB_OK;
}

static int family_take(const struct nlattr *attr, void *data)
{
	struct monitor *mon = data;

	if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
		mon->family = mnl_attr_get_u16(attr);
	else if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GROUPS)
		mnl_attr_parse_nested(attr, groups_take, mon);
	return MNL_CB_OK;
}

static void family_message(struct monitor *mon, const struct nlmsghdr *nlh, void *data)
{
	(void)data;
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), family_take, mon);
}

static int find_family(struct monitor *mon)
{
	char buf[256] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = request(mon, buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	int err;

	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, HPCC_FAMILY_NAME);
	mon->family = 0;
	err = ask(mon, nlh, family_message, NULL);
	return err ?: mon->family ? 0 : ENOENT;
}

struct monitor *monitor_new(void)
{
	struct monitor *mon = allocated(calloc(1, sizeof(*mon)));
	int one = 1;

	mon->answer = allocated(malloc(ANSWER_BYTES));
	mon->nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!mon->nl || mnl_socket_bind(mon->nl, 0, MNL_SOCKET_AUTOPID))
		die("netlink: %s", strerror(errno));
	mnl_socket_setsockopt(mon->nl, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(mon->nl, NETLINK_CAP_ACK, &one, sizeof(one));
	return mon;
}

/* As monitor_new(), but the program ends if the module is not loaded. */
struct monitor *monitor_open(void)
{
	struct monitor *mon = monitor_new();
	int err = find_family(mon);

	if (err)
		die("%s", err == ENOENT ? not_loaded() : strerror(err));
	return mon;
}

/* As monitor_open(), but the module is not needed if an observer runs. */
struct monitor *monitor_open_flows(void)
{
	return observed_any() ? monitor_new() : monitor_open();
}

void monitor_close(struct monitor *mon)
{
	mnl_socket_close(mon->nl);
	free(mon->answer);
	free(mon);
}

int monitor_fd(const struct monitor *mon)
{
	return mnl_socket_get_fd(mon->nl);
}

struct dump {
	const struct filter	*filter;
	bool			peers;	/* second dump: compare filter->local with the peer */
	flow_fn			fn;
	void			*data;
};

static void put_endpoint(struct nlmsghdr *nlh, const struct endpoint *endpoint, uint16_t addr,
			 uint16_t port)
{
	if (!endpoint->any_addr)
		mnl_attr_put(nlh, addr, sizeof(endpoint->addr), &endpoint->addr);
	if (!endpoint->any_port)
		mnl_attr_put_u16(nlh, port, endpoint->port);
}

static void flow_message(struct monitor *mon, const struct nlmsghdr *nlh, void *data)
{
	const struct dump *dump = data;
	struct filter first = *dump->filter;
	struct flow flow;

	(void)mon;
	first.either = false;
	flow_parse(&flow, nlh);
	if (!dump->peers || !filter_matches(&first, &flow))
		dump->fn(&flow, dump->data);
}

static int dump_once(struct monitor *mon, struct dump *dump)
{
	char buf[256] __attribute__((aligned(8)));
	const struct filter *filter = dump->filter;
	struct nlmsghdr *nlh = request(mon, buf, mon->family, HPCC_CMD_FLOW_GET, NLM_F_DUMP);

	if (filter->names)
		mnl_attr_put(nlh, HPCC_A_FLOW_IDENTIFY, 0, NULL);
	if (filter->cookie)
		mnl_attr_put_u64(nlh, HPCC_A_FLOW_COOKIE, filter->cookie);
	if (dump->peers) {
		put_endpoint(nlh, &filter->local, HPCC_A_FLOW_RADDR, HPCC_A_FLOW_RPORT);
	} else {
		put_endpoint(nlh, &filter->local, HPCC_A_FLOW_LADDR, HPCC_A_FLOW_LPORT);
		put_endpoint(nlh, &filter->peer, HPCC_A_FLOW_RADDR, HPCC_A_FLOW_RPORT);
	}
	return ask(mon, nlh, flow_message, dump);
}

/* Result of a request; a module that is being unloaded counts as not loaded. */
static int request_result(struct monitor *mon, int err, const char **why)
{
	if (err == EPROTONOSUPPORT)
		err = ENOENT;
	if (err == ENOENT && !mon->why)
		mon->family = 0;
	if (err)
		*why = mon->why ?: err == ENOENT ? not_loaded() : strerror(err);
	return err;
}

/* Get each selected flow once. Return: 0, or an error with its message in @why. */
int monitor_dump(struct monitor *mon, const struct filter *filter, flow_fn fn, void *data,
		 const char **why)
{
	struct dump dump = { .filter = filter, .fn = fn, .data = data };
	int err = mon->family ? 0 : find_family(mon);

	err = err ?: dump_once(mon, &dump);
	if (!err && filter->either) {
		dump.peers = true;
		err = dump_once(mon, &dump);
	}
	if (observed_flows(filter, fn, data) && !mon->family && err == ENOENT)
		return 0;
	return request_result(mon, err, why);
}

/* As monitor_dump(), but an error ends the program. */
void monitor_flows(struct monitor *mon, const struct filter *filter, flow_fn fn, void *data)
{
	const char *why;

	if (monitor_dump(mon, filter, fn, data, &why) && !interrupted())
		die("%s", why);
}

/* Send a request about a table, and add family and sequence number to it. @fn gets each message of
 * the answer. An error ends the program.
 */
void monitor_ask(struct monitor *mon, struct nlmsghdr *nlh, message_fn fn, void *data)
{
	const char *why;

	nlh->nlmsg_type = mon->family;
	nlh->nlmsg_seq = ++mon->seq;
	if (request_result(mon, ask(mon, nlh, fn, data), &why))
		die("%s", why);
}

struct count {
	counter_fn	fn;
	void		*data;
	const char	*name;
	uint64_t	value;
};

static int count_take(const struct nlattr *attr, void *data)
{
	struct count *count = data;

	if (mnl_attr_get_type(attr) == HPCC_A_COUNTER_NAME &&
	    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		count->name = mnl_attr_get_str(attr);
	else if (mnl_attr_get_type(attr) == HPCC_A_COUNTER_VALUE &&
		 mnl_attr_validate(attr, MNL_TYPE_U64) >= 0)
		count->value = mnl_attr_get_u64(attr);
	return MNL_CB_OK;
}

static void count_message(struct monitor *mon, const struct nlmsghdr *nlh, void *data)
{
	struct count *count = data;

	(void)mon;
	count->name = NULL;
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), count_take, count);
	if (count->name)
		count->fn(count->name, count->value, count->data);
}

/* Get each counter of the namespace. Return: 0, or an error with its message in @why. */
int monitor_counters(struct monitor *mon, counter_fn fn, void *data, const char **why)
{
	char buf[256] __attribute__((aligned(8)));
	struct count count = { .fn = fn, .data = data };
	int err = mon->family ? 0 : find_family(mon);

	err = err ?: ask(mon, request(mon, buf, mon->family, HPCC_CMD_COUNTERS_GET, NLM_F_DUMP),
			 count_message, &count);
	return request_result(mon, err, why);
}

static void join(struct monitor *mon, uint32_t group)
{
	if (mnl_socket_setsockopt(mon->nl, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)))
		die("cannot listen for events: %s", strerror(errno));
}

/* From here on the socket receives events, and notices the removal of the family. */
void monitor_listen(struct monitor *mon)
{
	join(mon, mon->group);
	join(mon, GENL_ID_CTRL);
}

/* Number of messages since the last call that did not fit in our socket. */
uint64_t monitor_lost(struct monitor *mon)
{
	FILE *file = fopen("/proc/net/netlink", "re");
	uint32_t protocol, portid, found, drops = mon->drops;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %u %u %*s %*s %*s %*s %*s %u", &protocol, &portid,
			   &found) == 3 && protocol == NETLINK_GENERIC &&
		    portid == mnl_socket_get_portid(mon->nl))
			drops = found;
	if (file)
		fclose(file);
	found = drops - mon->drops;
	mon->drops = drops;
	return found;
}

static void event_message(struct monitor *mon, const struct nlmsghdr *nlh, flow_fn fn, void *data)
{
	const struct genlmsghdr *head = mnl_nlmsg_get_payload(nlh);
	uint16_t ours = mon->family;
	struct flow flow;

	if (nlh->nlmsg_type == ours && head->cmd == HPCC_CMD_FLOW_NTF) {
		flow_parse(&flow, nlh);
		fn(&flow, data);
	} else if (nlh->nlmsg_type == GENL_ID_CTRL && head->cmd == CTRL_CMD_DELFAMILY) {
		family_message(mon, nlh, NULL);
		if (mon->family == ours)
			die("tcp_hpcc was removed");
		mon->family = ours;
	}
}

/* Receive the events of one message of the kernel. If the kernel dropped messages because we read
 * slowly, @lost is their number, which is known only after we have read all remaining messages.
 * Return: false if there was no message.
 */
bool monitor_recv(struct monitor *mon, flow_fn fn, void *data, uint64_t *lost)
{
	ssize_t n = recv(monitor_fd(mon), mon->answer, ANSWER_BYTES, MSG_DONTWAIT);
	const struct nlmsghdr *nlh;
	int len = n;

	*lost = 0;
	if (n < 0 && errno == ENOBUFS) {
		mon->behind = true;
		return true;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		die("events: %s", strerror(errno));
	if (n < 0 && mon->behind) {
		*lost = monitor_lost(mon);
		mon->behind = false;
	}
	for (nlh = (void *)mon->answer; n >= 0 && mnl_nlmsg_ok(nlh, len);
	     nlh = mnl_nlmsg_next(nlh, &len))
		if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct genlmsghdr))
			event_message(mon, nlh, fn, data);
	return n >= 0;
}
