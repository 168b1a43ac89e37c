// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-network: many netlink messages per system call. Only the last message of a batch requests an
 * acknowledgment, because the kernel always reports errors. The sequence number of a message is its
 * index in the batch.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "network.h"

#define BATCH_BYTES	(64 << 10)
#define BATCH_MESSAGES	2048

static char batch[BATCH_BYTES] __attribute__((aligned(8)));
static const struct item *items[BATCH_MESSAGES];
static unsigned int nr_messages;
static struct nlmsghdr *last;
static struct mnl_socket *current;

struct mnl_socket *netlink_socket(int protocol)
{
	struct mnl_socket *nl = mnl_socket_open2(protocol, SOCK_CLOEXEC);
	int one = 1;

	if (!nl || mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID))
		die("netlink: %s", strerror(errno));
	mnl_socket_setsockopt(nl, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(nl, NETLINK_CAP_ACK, &one, sizeof(one));
	return nl;
}

static int take_family(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
		*(int *)data = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

static int take_family_message(const struct nlmsghdr *nlh, void *data)
{
	return mnl_attr_parse(nlh, sizeof(struct genlmsghdr), take_family, data);
}

/* The number of a generic netlink family; -1: there is no such family. */
int netlink_family(struct mnl_socket *nl, const char *name)
{
	static char buf[8 << 10] __attribute__((aligned(8)));
	const struct genlmsghdr head = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	int number = -1;
	ssize_t n;

	nlh->nlmsg_type = GENL_ID_CTRL;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(head)), &head, sizeof(head));
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, name);
	n = mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -1 :
	    mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n > 0)
		mnl_cb_run(buf, n, 0, 0, take_family_message, &number);
	return number;
}

void netlink_begin(struct mnl_socket *socket)
{
	current = socket;
}

static int take_text(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG)
		*(const char **)data = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static void refused(const struct nlmsghdr *nlh, const struct nlmsgerr *err)
{
	const struct item *item = nlh->nlmsg_seq < nr_messages ? items[nlh->nlmsg_seq] : NULL;
	const char *text = strerror(-err->error);
	char name[IFNAMSIZ] = "";

	if (nlh->nlmsg_flags & NLM_F_ACK_TLVS)
		mnl_attr_parse(nlh, sizeof(*err), take_text, &text);
	if (!item)
		die("netlink: %s", text);
	if (sscanf(item->args, "%15s", name) != 1)
		bad_line(item);
	die("node %s, interface %s: %s: %s", item->node->name, name, item->kind, text);
}

static void take_answers(void)
{
	static char buf[BATCH_BYTES] __attribute__((aligned(8)));
	unsigned int seq = last->nlmsg_seq;
	const struct nlmsghdr *nlh;
	ssize_t n;
	int len;

	for (;;) {
		n = mnl_socket_recvfrom(current, buf, sizeof(buf));
		if (n < 0)
			die("netlink: %s", strerror(errno));
		len = n;
		for (nlh = (void *)buf; mnl_nlmsg_ok(nlh, len); nlh = mnl_nlmsg_next(nlh, &len)) {
			const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);

			if (nlh->nlmsg_type != NLMSG_ERROR)
				continue;
			if (err->error)
				refused(nlh, err);
			if (nlh->nlmsg_seq == seq)
				return;
		}
	}
}

void netlink_end(void)
{
	if (!nr_messages)
		return;
	last->nlmsg_flags |= NLM_F_ACK;
	if (mnl_socket_sendto(current, batch, mnl_nlmsg_get_payload_tail(last) - (void *)batch) < 0)
		die("netlink: %s", strerror(errno));
	take_answers();
	nr_messages = 0;
	last = NULL;
}

/* Add a message, with the header of its type. */
struct nlmsghdr *netlink_message(const struct item *item, int type, int flags, void *head,
				 size_t size)
{
	char *at = last ? mnl_nlmsg_get_payload_tail(last) : batch;

	if (nr_messages == BATCH_MESSAGES || at + MESSAGE_BYTES > batch + BATCH_BYTES) {
		netlink_end();
		at = batch;
	}
	last = mnl_nlmsg_put_header(at);
	last->nlmsg_type = type;
	last->nlmsg_flags = NLM_F_REQUEST | flags;
	last->nlmsg_seq = nr_messages;
	items[nr_messages++] = item;
	memcpy(mnl_nlmsg_put_extra_header(last, size), head, size);
	return last;
}
