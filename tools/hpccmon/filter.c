// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: selection of flows. An end is ADDR, ADDR:PORT, [ADDR]:PORT or :PORT. A single end
 * matches the local end or the peer, because users often know only one of the two. A single number
 * is a socket's cookie, which ss -e shows in hexadecimal.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hpccmon.h"

void addr_map(struct in6_addr *addr, const void *v4)
{
	memset(addr, 0, sizeof(*addr));
	addr->s6_addr[10] = 0xff;
	addr->s6_addr[11] = 0xff;
	memcpy(addr->s6_addr + 12, v4, sizeof(struct in_addr));
}

static bool addr_parse(const char *word, struct in6_addr *addr)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, word, addr) == 1)
		return true;
	if (inet_pton(AF_INET, word, &v4) != 1)
		return false;
	addr_map(addr, &v4);
	return true;
}

static bool number_parse(const char *word, uint64_t max, uint64_t *number)
{
	bool hex = !strncmp(word, "0x", 2);
	char *end;

	if (word[strspn(word, hex ? "x0123456789abcdefABCDEF" : "0123456789")] || !*word)
		return false;
	errno = 0;
	*number = strtoull(word, &end, hex ? 16 : 10);
	return !errno && !*end && *number && *number <= max;
}

/* Return: false if a word is not an end. */
bool endpoint_read(struct endpoint *endpoint, const char *word)
{
	char copy[ENDPOINT_MAX], *addr = copy, *port = NULL;
	uint64_t number = 0;

	if (strlen(word) >= sizeof(copy))
		return false;
	strcpy(copy, word);
	if (*copy == '[') {
		port = strchr(copy, ']');
		if (!port || (port[1] && port[1] != ':'))
			return false;
		*port++ = 0;
		addr++;
		port = *port ? port + 1 : NULL;
	} else if (strchr(copy, ':') == strrchr(copy, ':')) {
		port = strchr(copy, ':');
		if (port)
			*port++ = 0;
	}
	endpoint->any_addr = addr == copy && !*addr && port;
	endpoint->any_port = !port;
	if (port && !number_parse(port, UINT16_MAX, &number))
		return false;
	endpoint->port = number;
	return endpoint->any_addr || addr_parse(addr, &endpoint->addr);
}

static void endpoint_parse(struct endpoint *endpoint, const char *word)
{
	if (!endpoint_read(endpoint, word))
		usage("%s is not an end of a flow: write ADDR, ADDR:PORT, [ADDR]:PORT, :PORT, or a "
		      "cookie; names are not looked up", word);
}

/* Parse the words of a command line. Without words, select all flows. */
void filter_parse(struct filter *filter, int nr, char **args)
{
	const struct endpoint any = { .any_addr = true, .any_port = true };

	memset(filter, 0, sizeof(*filter));
	filter->local = any;
	filter->peer = any;
	if (nr > 2)
		usage("%s: too many arguments: a flow has one local end and one peer", args[2]);
	if (!nr)
		return;
	if (nr == 1 && number_parse(args[0], UINT64_MAX, &filter->cookie)) {
		snprintf(filter->text, sizeof(filter->text), "cookie %" PRIu64, filter->cookie);
		return;
	}
	endpoint_parse(&filter->local, args[0]);
	if (nr == 2)
		endpoint_parse(&filter->peer, args[1]);
	filter->either = nr == 1;
	snprintf(filter->text, sizeof(filter->text), "%s%s%s", args[0], nr == 2 ? " to " : "",
		 nr == 2 ? args[1] : "");
}

static bool endpoint_matches(const struct endpoint *filter, const struct endpoint *endpoint)
{
	return (filter->any_addr ||
		!memcmp(&filter->addr, &endpoint->addr, sizeof(endpoint->addr))) &&
	       (filter->any_port || filter->port == endpoint->port);
}

bool filter_matches(const struct filter *filter, const struct flow *flow)
{
	if (filter->cookie && filter->cookie != flow->cookie)
		return false;
	if (filter->either && endpoint_matches(&filter->local, &flow->peer))
		return true;
	return endpoint_matches(&filter->local, &flow->local) &&
	       endpoint_matches(&filter->peer, &flow->peer);
}

/* The address without the port. */
const char *addr_text(const struct endpoint *endpoint, char text[ENDPOINT_MAX])
{
	if (IN6_IS_ADDR_V4MAPPED(&endpoint->addr))
		inet_ntop(AF_INET, endpoint->addr.s6_addr + 12, text, ENDPOINT_MAX);
	else
		inet_ntop(AF_INET6, &endpoint->addr, text, ENDPOINT_MAX);
	return text;
}

/* The address and the port, in the format of endpoint_read(). */
const char *endpoint_text(const struct endpoint *endpoint, char text[ENDPOINT_MAX])
{
	char addr[ENDPOINT_MAX];
	bool v4 = IN6_IS_ADDR_V4MAPPED(&endpoint->addr);

	addr_text(endpoint, addr);
	snprintf(text, ENDPOINT_MAX, "%s%.*s%s:%u", v4 ? "" : "[", INET6_ADDRSTRLEN, addr,
		 v4 ? "" : "]", endpoint->port);
	return text;
}
