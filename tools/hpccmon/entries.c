// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon link, hpccmon route, hpccmon key: the tables of this network namespace. Input and output
 * are pairs of a name and a value, so "load" reads the output of "show", except for keys, which the
 * kernel does not show. Each change is one request, which the kernel applies completely or not at
 * all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hpccmon.h"

/* Larger than all attributes of an entry, and larger than the headers of a request. */
#define ENTRY_BYTES	128
#define VALUES_MAX	7
#define ATTRS_MAX	16
#define TEXT_MAX	(INET6_ADDRSTRLEN + 4)

/* When the user must give a value: to delete an entry, to set an entry, or never. OR_ZERO: never,
 * and 0 is allowed, too. The kernel alone gives a value that is SHOWN.
 */
enum need { KEY, NEEDED, OPTIONAL, OR_ZERO, SHOWN };

/* A value of an entry. If bytes is 0, the value is a prefix; if it is 1, a flag; if it is
 * HPCC_KEY_LEN, the name of a file with a key; otherwise it is one of words, or a number from min
 * to max. A number of 8 bytes is in bit/s.
 */
struct value {
	const char		*name;
	const char		*json;
	uint16_t		attr;
	uint8_t			bytes;
	enum need		need;
	uint64_t		min;
	uint64_t		max;
	const char *const	*words;
};

/* name is the command of hpccmon. get dumps the table, and the next two commands set and delete;
 * nest is the attribute of an entry.
 */
struct table {
	const char	*name;
	uint8_t		get;
	uint16_t	nest;
	struct value	values[VALUES_MAX + 1];
};

static const char *const where_words[] = { "sender", "receiver", NULL };
static const char *const carrier_words[] = { "tcp", "ioam", "int", "ifa", "csig", NULL };
static const char *const flag_words[] = { "no", "yes", NULL };
static const char *const rate_units[] = { "bit", "kbit", "mbit", "gbit", "tbit", NULL };

static const struct table tables[] = {
	{ "link", HPCC_CMD_LINK_GET, HPCC_A_TABLE_LINK, {
		{ "node", "node", HPCC_A_LINK_NODE, 4, KEY, 0, 0xfffffe, NULL },
		{ "port", "port", HPCC_A_LINK_PORT, 4, KEY, 0, 0xfffe, NULL },
		{ "rate", "rate_bps", HPCC_A_LINK_RATE, 8, NEEDED, HPCC_RATE_MIN * 8,
		  HPCC_RATE_MAX * 8, NULL },
		{ "unit", "unit_bytes", HPCC_A_LINK_UNIT, 4, OPTIONAL, 1, UINT16_MAX, NULL },
	} },
	{ "route", HPCC_CMD_ROUTE_GET, HPCC_A_TABLE_ROUTE, {
		{ "prefix", "prefix", HPCC_A_ROUTE_PREFIX, 0, KEY, 0, 0, NULL },
		{ "where", "where", HPCC_A_ROUTE_WHERE, 4, OPTIONAL, 0, 1, where_words },
		{ "carrier", "carrier", HPCC_A_ROUTE_CARRIER, 4, OPTIONAL, 0, 4, carrier_words },
		{ "base_rtt_ns", "base_rtt_ns", HPCC_A_ROUTE_BASE_RTT_NS, 4, OR_ZERO, 1000,
		  1000000000, NULL },
		{ "eta_permille", "eta_permille", HPCC_A_ROUTE_ETA_PERMILLE, 4, OPTIONAL, 1, 1000,
		  NULL },
		{ "n_flows", "n_flows", HPCC_A_ROUTE_N_FLOWS, 4, OR_ZERO, 1, 1000000, NULL },
		{ "sample", "sample", HPCC_A_ROUTE_SAMPLE, 4, OPTIONAL, 0, 64, NULL },
	} },
	{ "key", HPCC_CMD_KEY_GET, HPCC_A_TABLE_KEY, {
		{ "prefix", "prefix", HPCC_A_KEY_PREFIX, 0, KEY, 0, 0, NULL },
		{ "send", NULL, HPCC_A_KEY_SEND, HPCC_KEY_LEN, NEEDED, 0, 0, NULL },
		{ "accept", NULL, HPCC_A_KEY_ACCEPT, HPCC_KEY_LEN, OPTIONAL, 0, 0, NULL },
		{ "accept", "accept", HPCC_A_KEY_HAS_ACCEPT, 1, SHOWN, 0, 1, flag_words },
		{ "require", "require", HPCC_A_KEY_REQUIRE, 1, OPTIONAL, 0, 1, flag_words },
	} },
};

/* The file and the line that we read, for error messages. */
static char place[256];

static bool number_read(const struct value *value, const char *word, uint64_t *number)
{
	uint64_t factor = 1;
	char *end;
	int i;

	for (i = 0; value->words && value->words[i]; i++) {
		*number = i;
		if (!strcmp(word, value->words[i]))
			return true;
	}
	errno = 0;
	*number = strtoull(word, &end, 10);
	for (i = 0; value->bytes == 8 && *end && rate_units[i]; i++, factor *= 1000)
		if (!strcasecmp(end, rate_units[i]) &&
		    !__builtin_mul_overflow(*number, factor, number))
			end += strlen(end);
	return *word >= '0' && *word <= '9' && !errno && !*end &&
	       ((*number >= value->min && *number <= value->max) ||
		(value->need == OR_ZERO && !*number));
}

static bool put_prefix(struct nlmsghdr *nlh, const char *word)
{
	int family = strchr(word, ':') ? AF_INET6 : AF_INET;
	const struct value length = { .max = family == AF_INET6 ? 128 : 32 };
	const char *bits = strchrnul(word, '/');
	char addr[INET6_ADDRSTRLEN], raw[16];
	uint64_t number = length.max;

	snprintf(addr, sizeof(addr), "%.*s", (int)(bits - word), word);
	if (bits - word >= INET6_ADDRSTRLEN || inet_pton(family, addr, raw) != 1 ||
	    (*bits && !number_read(&length, bits + 1, &number)))
		return false;
	mnl_attr_put(nlh, HPCC_A_ROUTE_PREFIX, length.max / 8, raw);
	mnl_attr_put_u32(nlh, HPCC_A_ROUTE_LEN, number);
	return true;
}

/* Put a key from a line of 32 hexadecimal digits. */
static void put_key(struct nlmsghdr *nlh, const struct value *value, const char *name)
{
	char line[2 * HPCC_KEY_LEN + 2] = "";
	FILE *file = strcmp(name, "-") ? fopen(name, "re") : stdin;
	unsigned char key[HPCC_KEY_LEN];
	char digits[3] = "", *end;
	size_t i;

	/* Without a buffer no copy of the key remains. */
	if (file && file != stdin)
		setvbuf(file, NULL, _IONBF, 0);
	if (!file || (!fgets(line, sizeof(line), file) && ferror(file)))
		usage("%s%s %s: %s", place, value->name, name, strerror(errno));
	line[strcspn(line, "\n")] = '\0';
	for (i = 0; i < sizeof(key); i++) {
		memcpy(digits, line + 2 * i, 2);
		key[i] = strtoul(digits, &end, 16);
		if (end != digits + 2 || strspn(digits, "0123456789abcdefABCDEF") != 2)
			break;
	}
	if (i < sizeof(key) || line[2 * sizeof(key)])
		usage("%s%s %s: a key has 32 hexadecimal digits", place, value->name, name);
	mnl_attr_put(nlh, value->attr, sizeof(key), key);
	explicit_bzero(line, sizeof(line));
	explicit_bzero(key, sizeof(key));
	if (file != stdin)
		fclose(file);
}

static bool put_value(struct nlmsghdr *nlh, const struct value *value, const char *word)
{
	uint64_t number;

	if (!value->bytes)
		return put_prefix(nlh, word);
	if (value->bytes == HPCC_KEY_LEN) {
		put_key(nlh, value, word);
		return true;
	}
	if (!number_read(value, word, &number))
		return false;
	if (value->bytes == 8)
		mnl_attr_put_u64(nlh, value->attr, number);
	else if (value->bytes == 1 && number)
		mnl_attr_put(nlh, value->attr, 0, NULL);
	else if (value->bytes > 1)
		mnl_attr_put_u32(nlh, value->attr, number);
	return true;
}

/* In the format of number_read(), with all digits. */
static const char *number_text(const struct value *value, uint64_t number, char text[TEXT_MAX])
{
	const char *const *unit = rate_units;

	if (value->words && number <= value->max)
		return value->words[number];
	for (; value->bytes == 8 && number && !(number % 1000) && unit[1]; unit++)
		number /= 1000;
	snprintf(text, TEXT_MAX, "%" PRIu64 "%s", number, value->bytes == 8 ? *unit : "");
	return text;
}

static uint64_t number_of(const struct nlattr *attr)
{
	if (!mnl_attr_get_payload_len(attr))
		return true;
	return mnl_attr_get_payload_len(attr) == 8 ? mnl_attr_get_u64(attr) :
	       mnl_attr_get_u32(attr);
}

static const char *value_text(const struct value *value, const struct nlattr *const *attrs,
			      char text[TEXT_MAX])
{
	const struct nlattr *attr = attrs[value->attr];

	if (value->bytes)
		return number_text(value, number_of(attr), text);
	inet_ntop(mnl_attr_get_payload_len(attr) == 16 ? AF_INET6 : AF_INET,
		  mnl_attr_get_payload(attr), text, INET6_ADDRSTRLEN);
	snprintf(text + strlen(text), 5, "/%u", (uint8_t)number_of(attrs[HPCC_A_ROUTE_LEN]));
	return text;
}

static void wrong_value(const struct value *value, const char *word)
{
	char known[128] = "", low[TEXT_MAX], high[TEXT_MAX];
	const char *const *name;

	if (!value->bytes)
		usage("%s%s %s: it has to be ADDRESS/BITS", place, value->name, word);
	if (!value->words)
		usage("%s%s %s: it has to be %sfrom %s to %s", place, value->name, word,
		      value->need == OR_ZERO ? "0, or " : "", number_text(value, value->min, low),
		      number_text(value, value->max, high));
	for (name = value->words; *name; name++)
		strcat(strcat(known, *known ? ", " : ""), *name);
	usage("%s%s %s: use one of %s", place, value->name, word, known);
}

static struct nlmsghdr *request(uint8_t cmd, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(allocated(malloc(2 * ENTRY_BYTES)));
	struct genlmsghdr *head = mnl_nlmsg_put_extra_header(nlh, sizeof(*head));

	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	head->cmd = cmd;
	head->version = HPCC_FAMILY_VERSION;
	return nlh;
}

/* Append an entry to a request. Return: the request, with room for one more entry. */
static struct nlmsghdr *put_entry(struct nlmsghdr *nlh, const struct table *table, char **args,
				  int nr, enum need most)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, table->nest);
	const struct value *value;
	unsigned int seen = 0, bit;
	int i;

	for (i = 0; i < nr; i += 2) {
		for (value = table->values; value->name && strcmp(args[i], value->name); value++)
			;
		if (!value->name || value->need > most)
			usage("%s%s is not allowed here", place, args[i]);
		bit = 1 << (value - table->values);
		if (seen & bit || i + 1 == nr)
			usage("%s%s %s", place, args[i],
			      i + 1 == nr ? "needs a value" : "is given twice");
		seen |= bit;
		if (!put_value(nlh, value, args[i + 1]))
			wrong_value(value, args[i + 1]);
	}
	for (value = table->values; value->name; value++)
		if (value->need < OPTIONAL && value->need <= most &&
		    !(seen & 1 << (value - table->values)))
			usage("%swhich %s?", place, value->name);
	mnl_attr_nest_end(nlh, nest);
	return allocated(realloc(nlh, nlh->nlmsg_len + 2 * ENTRY_BYTES));
}

/* The entries of a file, one per line. */
static struct nlmsghdr *put_file(struct nlmsghdr *nlh, const struct table *table, const char *name)
{
	FILE *file = strcmp(name, "-") ? fopen(name, "re") : stdin;
	char *args[2 * VALUES_MAX + 2], *line = NULL, *rest, *word;
	unsigned int nr_line = 0;
	size_t size = 0;
	int nr;

	if (!file)
		die("%s: %s", name, strerror(errno));
	while (getline(&line, &size, file) >= 0) {
		snprintf(place, sizeof(place), "%s:%u: ", name, ++nr_line);
		line[strcspn(line, "#\n")] = '\0';
		word = strtok_r(line, " \t", &rest);
		for (nr = 0; word && nr < 2 * VALUES_MAX + 2; word = strtok_r(NULL, " \t", &rest))
			args[nr++] = word;
		if (nr)
			nlh = put_entry(nlh, table, args, nr, OR_ZERO);
	}
	if (ferror(file))
		die("%s: %s", name, strerror(errno));
	free(line);
	if (file != stdin)
		fclose(file);
	return nlh;
}

static void send_request(struct nlmsghdr *nlh, message_fn fn, void *data)
{
	struct monitor *mon = monitor_open();
	int room = nlh->nlmsg_len + 4096;

	if (setsockopt(monitor_fd(mon), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		setsockopt(monitor_fd(mon), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	monitor_ask(mon, nlh, fn, data);
	monitor_close(mon);
	explicit_bzero(nlh, nlh->nlmsg_len);
	free(nlh);
}

struct show {
	const struct table	*table;
	bool			json;
	unsigned int		nr;
};

static int attr_take(const struct nlattr *attr, void *data)
{
	const struct nlattr **attrs = data;

	if (mnl_attr_get_type(attr) < ATTRS_MAX)
		attrs[mnl_attr_get_type(attr)] = attr;
	return MNL_CB_OK;
}

static int entry_show(const struct nlattr *nest, void *data)
{
	const struct nlattr *attrs[ATTRS_MAX] = {};
	struct json_object *object = json_object_new_object();
	const struct value *value;
	struct show *show = data;
	char text[TEXT_MAX];

	mnl_attr_parse_nested(nest, attr_take, attrs);
	for (value = show->table->values; value->name; value++) {
		if (!attrs[value->attr] || !value->json)
			continue;
		if (!show->json)
			printf("%s%s %s", value == show->table->values ? "" : " ", value->name,
			       value_text(value, attrs, text));
		json_object_object_add(object, value->json, value->bytes == 1 ?
				       json_object_new_boolean(true) :
				       value->bytes && !value->words ?
				       json_object_new_uint64(number_of(attrs[value->attr])) :
				       json_object_new_string(value_text(value, attrs, text)));
	}
	if (show->json) {
		fputs(show->nr ? "," : "[", stdout);
		json_line(object);
	} else {
		json_object_put(object);
		putchar('\n');
	}
	show->nr++;
	return MNL_CB_OK;
}

static void message_show(struct monitor *mon, const struct nlmsghdr *nlh, void *data)
{
	(void)mon;
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), entry_show, data);
}

static void show_table(const struct table *table, bool json)
{
	struct show show = { .table = table, .json = json };

	send_request(request(table->get, NLM_F_DUMP), message_show, &show);
	if (json)
		puts(show.nr ? "]" : "[]");
}

/* hpccmon link, hpccmon route, hpccmon key */
int cmd_table(int argc, char **argv)
{
	const struct table *table = tables;
	bool json = false;
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &json },
		{ }
	};
	static const char verbs[] = "show, set, del, flush, load";
	const char *verb = "show";
	struct nlmsghdr *nlh;
	int nr;

	while (strcmp(table->name, argv[0]))
		table++;
	take_options(argc, argv, options);
	nr = argc - optind;
	argv += optind;
	if (nr && nr--)
		verb = *argv++;
	if (!strcmp(verb, "show") && !nr) {
		show_table(table, json);
		return 0;
	}
	if (json)
		usage("only show accepts --json");
	nlh = request(table->get + 1 + !strcmp(verb, "del"), NLM_F_ACK);
	if (!strcmp(verb, "set") || !strcmp(verb, "del")) {
		nlh = put_entry(nlh, table, argv, nr, strcmp(verb, "set") ? KEY : OR_ZERO);
	} else if ((!strcmp(verb, "flush") && !nr) || (!strcmp(verb, "load") && nr == 1)) {
		mnl_attr_put(nlh, HPCC_A_TABLE_REPLACE, 0, NULL);
		nlh = nr ? put_file(nlh, table, *argv) : nlh;
	} else {
		usage("%s%s: use one of %s; load needs a file", verb, nr ? " ..." : "", verbs);
	}
	send_request(nlh, NULL, NULL);
	return 0;
}
