// SPDX-License-Identifier: GPL-2.0
/*
 * tc's side of the qdisc "hpcc": options, text and JSON. tc (iproute2 4.17 and later) opens
 * q_hpcc.so in TC_LIB_DIR and looks for hpcc_qdisc_util.
 */
#include <stdlib.h>
#include <string.h>

#include "q_hpcc.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Maximum size of a request in tc; our options need less. */
#define HPCC_REQUEST_MAX	4096

static void explain(void)
{
	fprintf(stderr,
		"Usage: ... hpcc [ rate RATE ] [ bandwidth RATE ] [ limit BYTES ]\n"
		"                [ node ID ] [ port ID ] [ overhead BYTES ] [ delay TIME ]\n"
		"                [ kind 253|254 ]\n"
		"                [ stamp [ CARRIER[,CARRIER] ] [ above QUEUE ] [ respond QUEUE [ every TIME ] ] | nostamp ]\n"
		"                [ int_dscp DSCP ] [ int_window TIME ]\n"
		"                [ csig_tpid ETHERTYPE ] [ csig_abw UNIT ] [ csig_time TIME ]\n"
		"                [ split-gso | no-split-gso ] [ identify on|off ] [ stats on|off ]\n"
		"                [ marking off|ldcp ] [ kmin BYTES ] [ kmax BYTES ]\n"
		"                [ pmax FRACTION ] [ knonect BYTES ]\n"
		"                [ class RATE [ qlen class|port|sojourn ] ]\n"
		"                [ quantize STEPS|off ] [ strip CARRIER[,CARRIER]|all|off ]\n"
		"                [ inner on|off ]\n"
		"\n"
		"rate       shape to this rate, 1kbit .. 10tbit; 0: do not shape (default)\n"
		"bandwidth  B in telemetry, if rate is 0; 0: speed of the device (default)\n"
		"limit      maximum queue, overhead included (1Mb)\n"
		"node, port name of this link in telemetry, 0 .. %u and 0 .. %u (0)\n"
		"overhead   overhead of the link per packet, 0 .. %u bytes (24)\n"
		"delay      propagation delay after the queue, 0 .. 1s (0)\n"
		"kind       kind of the TCP option (253)\n"
		"stamp      write telemetry into these carriers: tcp (default), ioam, int, ifa, csig, csig_push\n"
		"int_dscp   DSCP of packets with INT, 1 .. %u (23)\n"
		"int_window time over which INT and CSIG average the utilization, 1us .. 1s (10us)\n"
		"csig_tpid  EtherType of CSIG tags, 0x600 .. 0xffff (0x88b5)\n"
		"csig_abw   unit of ABW/C in CSIG, in 1/10000, 1 .. %u (%u)\n"
		"csig_time  unit of times in CSIG, 1ns .. 1ms (%uns)\n"
		"above      write load records only while the queue is longer than this, 1b .. limit;\n"
		"           0: always (default)\n"
		"respond    if a packet finds a longer queue, send the load to its sender, 1b .. limit;\n"
		"           0: never (default)\n"
		"every      minimum time between two responses to a flow, 1us .. 1s (10us)\n"
		"identify   answer requests for node, port and B (on)\n"
		"stats      record queue lengths for percentiles and maximum (on)\n"
		"marking    ldcp: mark and drop by queue length on arrival (off)\n"
		"kmin, kmax ECN-capable packets: mark none below kmin, and all from kmax on,\n"
		"           at most limit; 0: derived from B (default)\n"
		"pmax       probability of marking just below kmax, 0 .. 1 (1)\n"
		"knonect    drop other IP packets from this queue on, at most limit; 0:\n"
		"           derived from B (default)\n"
		"class      the rate that the classful parent guarantees to this queue, 1kbit .. bandwidth;\n"
		"           0: the queue is no class (default)\n"
		"qlen       qlen in the records of a class: own queue (class), all queues of the port, or\n"
		"           waiting time (sojourn, default below prio)\n"
		"quantize   border of a domain: TCP options that leave show only u', rounded up to multiples\n"
		"           of 1/STEPS, 4 .. 16, and at least 3/4 (off)\n"
		"strip      border of a domain: remove these carriers from packets that leave: ioam, int, ifa,\n"
		"           csig (off)\n"
		"inner      also stamp the TCP option of packets in tunnels: VXLAN, Geneve, GRE, IP in IP (off)\n",
		HPCC_NODE_MAX, HPCC_PORT_MAX, HPCC_OVERHEAD_MAX, HPCC_INT_DSCP_MAX,
		HPCC_CSIG_ABW_MAX, HPCC_CSIG_ABW_DEFAULT, HPCC_CSIG_TIME_DEFAULT);
}

static int bad_value(const char *name, const char *value, const char *allowed)
{
	fprintf(stderr, "hpcc: %s \"%s\": has to be %s\n", name, value, allowed);
	return -1;
}

/* An option of the qdisc. parse() parses the word after the name, or prints an error and returns
 * false. If it is NULL, the option has no value, and one of words is its name.
 */
struct option {
	const char *name;	/* on the command line and in JSON */
	int attr;		/* TCA_HPCC_* */
	size_t size;		/* bytes of the attribute */
	bool (*parse)(const struct option *option, const char *arg, __u64 *value);
	void (*print)(const struct option *option, __u64 value);
	__u64 min;		/* smallest value */
	__u64 max;		/* largest value */
	const char *allowed;	/* valid values, for error messages */
	const char *words[3];	/* for the values min, min + 1 and min + 2 */
};

static bool check(const struct option *option, const char *arg, bool good)
{
	return good || !bad_value(option->name, arg, option->allowed);
}

static int word_index(const struct option *option, const char *arg)
{
	int i;

	for (i = 0; i < (int)ARRAY_SIZE(option->words); i++)
		if (option->words[i] && !strcmp(arg, option->words[i]))
			return i;
	return -1;
}

static bool parse_word(const struct option *option, const char *arg, __u64 *value)
{
	int i = word_index(option, arg);

	*value = option->min + i;
	return check(option, arg, i >= 0);
}

/* A number in decimal, or hexadecimal with 0x. */
static bool parse_number(const struct option *option, const char *arg, __u64 *value)
{
	int base = !strncasecmp(arg, "0x", 2) ? 16 : 10;
	char allowed[64];
	char *end;

	*value = strtoull(arg, &end, base);
	/* Reject a leading 0: 010 may mean 8 or 10. */
	if (*arg < '0' || *arg > '9' || *end || *value > option->max ||
	    (base == 10 && *arg == '0' && arg[1])) {
		snprintf(allowed, sizeof(allowed),
			 "a number, 0 .. %llu, decimal without a leading 0, or 0x", option->max);
		return !bad_value(option->name, arg, allowed);
	}
	return check(option, arg, *value >= option->min);
}

/* Bytes per second, or 0. tc computes in whole bytes: 7bit is 0. */
static bool parse_rate(const struct option *option, const char *arg, __u64 *value)
{
	return check(option, arg, !get_rate64(value, arg) && *value <= option->max &&
		     (*value ? *value >= option->min : strtod(arg, NULL) == 0));
}

/* Bytes, up to 4 GB. */
static bool parse_size(const struct option *option, const char *arg, __u64 *value)
{
	unsigned int size = 0;
	bool good = *arg != '-' && !get_size(&size, arg) && size >= option->min;

	*value = size;
	return check(option, arg, good);
}

/* A fraction of @max, rounded to the nearest integer. */
static bool parse_fraction(const struct option *option, const char *arg, __u64 *value)
{
	double fraction;
	char *end;

	fraction = strtod(arg, &end);
	if (strspn(arg, "0123456789.e-") != strlen(arg) || !*arg || *end ||
	    !(fraction >= 0 && fraction <= 1) || *arg == '-')
		return check(option, arg, false);
	*value = fraction * option->max + 0.5;
	return true;
}

/* Nanoseconds. */
static bool parse_time(const struct option *option, const char *arg, __u64 *value)
{
	__s64 time_ns = -1;
	bool good = !get_time64(&time_ns, arg) && time_ns >= (__s64)option->min &&
		    time_ns <= (__s64)option->max;

	*value = time_ns;
	return check(option, arg, good);
}

/* STEPS; 0 means off. */
static bool parse_steps(const struct option *option, const char *arg, __u64 *value)
{
	char *end;

	*value = 0;
	if (!strcmp(arg, "off"))
		return true;
	*value = strtoul(arg, &end, 10);
	return check(option, arg, *arg >= '1' && *arg <= '9' && !*end && *value >= option->min &&
		     *value <= option->max);
}

static void print_number(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_u64(option->name, "%llu ", value);
}

static void print_hex(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_u64(option->name, "0x%llx ", value);
}

static void print_size(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_u64(option->name, "%llub ", value);
}

static void print_rate(const struct option *option, __u64 value)
{
	if (!value)
		return;
	print_text("%s ", option->name);
	tc_print_rate(PRINT_ANY, option->name, "%s ", value);
}

/* tc prints six digits with %g, which is enough for millionths. */
static void print_fraction(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_color_float(PRINT_ANY, COLOR_NONE, option->name, "%g ", value / (double)option->max);
}

/* Time in the largest unit without a fraction, in the format of parse_time(). */
static void print_time(const struct option *option, __u64 value)
{
	static const char * const unit[] = { "ns", "us", "ms", "s" };
	size_t i = 0;

	if (is_json_context()) {
		print_u64(option->name, NULL, value);
		return;
	}
	while (value && value % 1000 == 0 && i < 3) {
		value /= 1000;
		i++;
	}
	print_text("%s ", option->name);
	print_u64(NULL, "%llu", value);
	print_text("%s ", unit[i]);
}

static void print_word(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_color_string(PRINT_ANY, COLOR_NONE, option->name, "%s ",
			   value < ARRAY_SIZE(option->words) && option->words[value] ?
			   option->words[value] : "?");
}

static void print_flag(const struct option *option, __u64 value)
{
	print_color_bool(PRINT_JSON, COLOR_NONE, option->name, NULL, value);
	if (option->parse)
		print_text("%s ", option->name);
	print_text("%s ", option->words[!!value]);
}

static const struct {
	const char *name;
	__u8 value;
} carriers[] = {
	{ "tcp",	HPCC_STAMP_TCP },
	{ "ioam",	HPCC_STAMP_IOAM },
	{ "int",	HPCC_STAMP_INT },
	{ "ifa",	HPCC_STAMP_IFA },
	{ "csig",	HPCC_STAMP_CSIG },
	{ "csig_push",	HPCC_STAMP_CSIG_PUSH },
};

/* A list of carriers; in JSON an array. */
static void print_carriers(const char *name, __u64 value)
{
	const char *format = "%s";
	size_t i;

	open_json_array(PRINT_JSON, name);
	for (i = 0; i < ARRAY_SIZE(carriers); i++) {
		if (!(value & carriers[i].value))
			continue;
		print_color_string(PRINT_ANY, COLOR_NONE, NULL, format, carriers[i].name);
		format = ",%s";
	}
	close_json_array(PRINT_JSON, NULL);
	print_text("%s", " ");
}

/* TCP alone prints as "stamp", for scripts of older versions. */
static void print_stamp(const struct option *option, __u64 value)
{
	print_flag(option, value);
	if (value && value != HPCC_STAMP_TCP)
		print_carriers("carriers", value);
}

static void print_strip(const struct option *option, __u64 value)
{
	print_text("%s ", option->name);
	print_carriers(option->name, value);
}

/* Parse a list of carriers; 0: @arg is no such list. */
static __u8 parse_carriers(const char *arg)
{
	__u8 value = 0, one;
	size_t i, len;

	do {
		one = 0;
		len = strcspn(arg, ",");
		for (i = 0; i < ARRAY_SIZE(carriers); i++)
			if (strlen(carriers[i].name) == len && !strncmp(arg, carriers[i].name, len))
				one = carriers[i].value;
		value |= one;
		arg += len + 1;
	} while (one && arg[-1]);
	return one ? value : 0;
}

static bool parse_strip(const struct option *option, const char *arg, __u64 *value)
{
	*value = !strcmp(arg, "all") ? HPCC_STRIP_ALL : parse_carriers(arg);
	return check(option, arg,
		     !strcmp(arg, "off") || (*value && !(*value & ~(__u64)HPCC_STRIP_ALL)));
}

/* The options, in the order of tc qdisc show. */

static const struct option options[] = {
	{ "rate", TCA_HPCC_RATE64, 8, parse_rate, print_rate, .min = HPCC_RATE_MIN,
	  .max = HPCC_RATE_MAX, .allowed = "a rate, 1kbit .. 10tbit, or 0" },
	{ "bandwidth", TCA_HPCC_BANDWIDTH64, 8, parse_rate, print_rate, .min = HPCC_RATE_MIN,
	  .max = HPCC_RATE_MAX, .allowed = "a rate, 1kbit .. 10tbit, or 0" },
	{ "limit", TCA_HPCC_LIMIT, 4, parse_size, print_size, .min = 1,
	  .allowed = "a size, 1 .. 4294967295b" },
	{ "node", TCA_HPCC_NODE, 4, parse_number, print_number, .max = HPCC_NODE_MAX },
	{ "port", TCA_HPCC_PORT, 4, parse_number, print_number, .max = HPCC_PORT_MAX },
	{ "overhead", TCA_HPCC_OVERHEAD, 4, parse_number, print_number, .max = HPCC_OVERHEAD_MAX },
	{ "delay", TCA_HPCC_DELAY, 4, parse_time, print_time, .max = HPCC_DELAY_MAX_NS,
	  .allowed = "a time, 0 .. 1s" },
	{ "kind", TCA_HPCC_KIND, 1, parse_word, print_number, .min = 253,
	  .allowed = "253 or 254", .words = { "253", "254" } },
	{ "stamp", TCA_HPCC_STAMP, 1, NULL, print_stamp, .words = { "nostamp", "stamp" } },
	{ "above", TCA_HPCC_ABOVE, 4, parse_size, print_size, .allowed = "a size, or 0" },
	{ "respond", TCA_HPCC_RESPOND, 4, parse_size, print_size, .allowed = "a size, or 0" },
	{ "every", TCA_HPCC_EVERY, 4, parse_time, print_time, .min = HPCC_EVERY_MIN_NS,
	  .max = HPCC_EVERY_MAX_NS, .allowed = "a time, 1us .. 1s" },
	{ "int_dscp", TCA_HPCC_INT_DSCP, 1, parse_number, print_number, .min = 1,
	  .max = HPCC_INT_DSCP_MAX, .allowed = "a number, 1 .. 63" },
	{ "int_window", TCA_HPCC_INT_WINDOW, 4, parse_time, print_time, .min = HPCC_EVERY_MIN_NS,
	  .max = HPCC_EVERY_MAX_NS, .allowed = "a time, 1us .. 1s" },
	{ "csig_tpid", TCA_HPCC_CSIG_TPID, 4, parse_number, print_hex, .min = HPCC_CSIG_TPID_MIN,
	  .max = 0xffff, .allowed = "an EtherType, 0x600 .. 0xffff" },
	{ "csig_abw", TCA_HPCC_CSIG_ABW, 4, parse_number, print_number, .min = 1,
	  .max = HPCC_CSIG_ABW_MAX, .allowed = "a number, 1 .. 1000" },
	{ "csig_time", TCA_HPCC_CSIG_TIME, 4, parse_time, print_time, .min = 1,
	  .max = HPCC_CSIG_TIME_MAX_NS, .allowed = "a time, 1ns .. 1ms" },
	{ "split_gso", TCA_HPCC_SPLIT, 1, NULL, print_flag,
	  .words = { "no-split-gso", "split-gso" } },
	{ "identify", TCA_HPCC_IDENTIFY, 1, parse_word, print_flag,
	  .allowed = "on or off", .words = { "off", "on" } },
	{ "stats", TCA_HPCC_STATS, 1, parse_word, print_flag,
	  .allowed = "on or off", .words = { "off", "on" } },
	{ "marking", TCA_HPCC_MARKING, 1, parse_word, print_word, .min = HPCC_MARKING_OFF,
	  .allowed = "off or ldcp", .words = { "off", "ldcp" } },
	{ "kmin", TCA_HPCC_KMIN, 4, parse_size, print_size, .allowed = "a size, or 0" },
	{ "kmax", TCA_HPCC_KMAX, 4, parse_size, print_size, .allowed = "a size, or 0" },
	{ "pmax", TCA_HPCC_PMAX, 4, parse_fraction, print_fraction, .max = HPCC_PMAX_MAX,
	  .allowed = "a fraction, 0 .. 1" },
	{ "knonect", TCA_HPCC_KNONECT, 4, parse_size, print_size, .allowed = "a size, or 0" },
	{ "class", TCA_HPCC_CLASS64, 8, parse_rate, print_rate, .min = HPCC_RATE_MIN,
	  .max = HPCC_RATE_MAX, .allowed = "a rate, 1kbit .. 10tbit, or 0" },
	{ "qlen", TCA_HPCC_QLEN, 1, parse_word, print_word, .min = HPCC_QLEN_CLASS,
	  .allowed = "class, port or sojourn", .words = { "class", "port", "sojourn" } },
	{ "quantize", TCA_HPCC_QUANTIZE, 1, parse_steps, print_number, .min = HPCC_QUANTIZE_MIN,
	  .max = HPCC_QUANTIZE_MAX, .allowed = "a number, 4 .. 16, or off" },
	{ "strip", TCA_HPCC_STRIP, 1, parse_strip, print_strip,
	  .allowed = "ioam, int, ifa, csig, or several: ioam,ifa; all, or off" },
	{ "inner", TCA_HPCC_INNER, 1, parse_word, print_flag,
	  .allowed = "on or off", .words = { "off", "on" } },
};

static const struct option *find_option(const char *arg)
{
	const struct option *o;

	for (o = options; o < options + ARRAY_SIZE(options); o++)
		if (o->parse ? !strcmp(arg, o->name) : word_index(o, arg) >= 0)
			return o;
	return NULL;
}

/* Carriers may follow "stamp". Returns the number of arguments used, or -1. */
static int parse_flag(const struct option *option, int argc, char **argv, __u64 *value)
{
	__u8 list;

	*value = word_index(option, argv[0]);
	if (option->attr != TCA_HPCC_STAMP || !*value || argc < 2)
		return 1;
	list = parse_carriers(argv[1]);
	if (list)
		*value = list;
	else if (!find_option(argv[1]) && strcmp(argv[1], "help"))
		return bad_value(argv[0], argv[1],
				 "tcp, ioam, int, ifa, csig, csig_push, or several: tcp,int");
	return list ? 2 : 1;
}

static void add_value(struct nlmsghdr *n, const struct option *option, __u64 value)
{
	__u32 v32 = value;
	__u8 v8 = value;

	addattr_l(n, HPCC_REQUEST_MAX, option->attr,
		  option->size == sizeof(v8) ? &v8 :
		  option->size == sizeof(v32) ? (void *)&v32 : &value, option->size);
}

/* Returns the number of arguments used, 0 if the first argument is unknown, or -1. */
static int parse_one(int argc, char **argv, struct nlmsghdr *n)
{
	const struct option *option = find_option(argv[0]);
	int used = 2;
	__u64 value;

	if (!option)
		return 0;
	if (!option->parse) {
		used = parse_flag(option, argc, argv, &value);
		if (used < 0)
			return -1;
	} else if (argc < 2) {
		fprintf(stderr, "hpcc: %s: a value has to follow\n", argv[0]);
		return -1;
	} else if (!option->parse(option, argv[1], &value)) {
		return -1;
	}
	add_value(n, option, value);
	return used;
}

static int hpcc_parse_opt(struct qdisc_util *qu, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev)
{
	struct rtattr *nest;
	int used;

	nest = addattr_nest(n, HPCC_REQUEST_MAX, TCA_OPTIONS | NLA_F_NESTED);
	while (argc > 0) {
		if (!strcmp(*argv, "help")) {
			explain();
			return -1;
		}
		used = parse_one(argc, argv, n);
		if (used < 0)
			return -1;
		if (!used) {
			fprintf(stderr, "hpcc: unknown option \"%s\"\n", *argv);
			explain();
			return -1;
		}
		argc -= used;
		argv += used;
	}
	addattr_nest_end(n, nest);
	return 0;
}

static __u64 attr_value(const struct rtattr *attr)
{
	__u64 v64 = 0;
	__u32 v32 = 0;

	if (RTA_PAYLOAD(attr) == sizeof(v64)) {
		memcpy(&v64, RTA_DATA(attr), sizeof(v64));
		return v64;
	}
	if (RTA_PAYLOAD(attr) == sizeof(v32)) {
		memcpy(&v32, RTA_DATA(attr), sizeof(v32));
		return v32;
	}
	return RTA_PAYLOAD(attr) ? *(__u8 *)RTA_DATA(attr) : 0;
}

static int hpcc_print_opt(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_HPCC_MAX + 1];
	const struct option *o;

	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_HPCC_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt), NLA_F_NESTED);
	for (o = options; o < options + ARRAY_SIZE(options); o++)
		if (tb[o->attr])
			o->print(o, attr_value(tb[o->attr]));
	return 0;
}

struct qdisc_util hpcc_qdisc_util = {
	.id		= "hpcc",
	.parse_qopt	= hpcc_parse_opt,
	.print_qopt	= hpcc_print_opt,
	.print_xstats	= hpcc_print_xstats,
};
