// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: which flows are meant: an end is ADDR, ADDR:PORT, [ADDR]:PORT or :PORT. One end alone
 * may be the flow's own or the peer's, as who asks often knows one of them only. A number alone is
 * a socket's cookie, as ss -e has it in hexadecimal.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hpccmon.h"

/* An IPv4 address in the form that IPv6 has for it. */
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

/* Return: false if a word is no end. */
bool end_read(struct end *end, const char *word)
{
	char copy[END_MAX], *addr = copy, *port = NULL;
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
	end->any_addr = addr == copy && !*addr && port;
	end->any_port = !port;
	if (port && !number_parse(port, UINT16_MAX, &number))
		return false;
	end->port = number;
	return end->any_addr || addr_parse(addr, &end->addr);
}

static void end_parse(struct end *end, const char *word)
{
	if (!end_read(end, word))
		usage("%s is no end of a flow: write ADDR, ADDR:PORT, [ADDR]:PORT, :PORT, or a "
		      "cookie; names are not looked up", word);
}

/* What the words of a command line ask for; none: all flows. */
void wanted_parse(struct wanted *wanted, int nr, char **words)
{
	const struct end any = { .any_addr = true, .any_port = true };

	memset(wanted, 0, sizeof(*wanted));
	wanted->local = any;
	wanted->peer = any;
	if (nr > 2)
		usage("%s: one flow too many: write its own end and its peer's", words[2]);
	if (!nr)
		return;
	if (nr == 1 && number_parse(words[0], UINT64_MAX, &wanted->cookie)) {
		snprintf(wanted->words, sizeof(wanted->words), "cookie %" PRIu64, wanted->cookie);
		return;
	}
	end_parse(&wanted->local, words[0]);
	if (nr == 2)
		end_parse(&wanted->peer, words[1]);
	wanted->either = nr == 1;
	snprintf(wanted->words, sizeof(wanted->words), "%s%s%s", words[0], nr == 2 ? " to " : "",
		 nr == 2 ? words[1] : "");
}

static bool end_matches(const struct end *wanted, const struct end *end)
{
	return (wanted->any_addr || !memcmp(&wanted->addr, &end->addr, sizeof(end->addr))) &&
	       (wanted->any_port || wanted->port == end->port);
}

bool wanted_matches(const struct wanted *wanted, const struct flow *flow)
{
	if (wanted->cookie && wanted->cookie != flow->cookie)
		return false;
	if (wanted->either && end_matches(&wanted->local, &flow->peer))
		return true;
	return end_matches(&wanted->local, &flow->local) && end_matches(&wanted->peer, &flow->peer);
}

/* The address alone. */
const char *addr_text(const struct end *end, char text[END_MAX])
{
	if (IN6_IS_ADDR_V4MAPPED(&end->addr))
		inet_ntop(AF_INET, end->addr.s6_addr + 12, text, END_MAX);
	else
		inet_ntop(AF_INET6, &end->addr, text, END_MAX);
	return text;
}

/* The address and the port, as end_parse() takes them. */
const char *end_text(const struct end *end, char text[END_MAX])
{
	char addr[END_MAX];
	bool v4 = IN6_IS_ADDR_V4MAPPED(&end->addr);

	addr_text(end, addr);
	snprintf(text, END_MAX, "%s%.*s%s:%u", v4 ? "" : "[", INET6_ADDRSTRLEN, addr,
		 v4 ? "" : "]", end->port);
	return text;
}
