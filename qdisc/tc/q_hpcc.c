// SPDX-License-Identifier: GPL-2.0
/*
 * tc's side of the qdisc "hpcc": options, text and JSON.
 *
 * tc (iproute2 4.17 and later) opens q_hpcc.so in TC_LIB_DIR and looks for
 * hpcc_qdisc_util in it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/types.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/hpcc.h>

#include "q_hpcc.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Room that tc has for a request, and more than our options need. */
#define HPCC_REQUEST_MAX	4096

/* ---- options ---- */

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
		"\n"
		"rate       shape to this, 1kbit .. 10tbit; 0: do not shape (default)\n"
		"bandwidth  what telemetry states as B without rate; 0: the device's (default)\n"
		"limit      queue, overhead included (1Mb)\n"
		"node, port this link's name in telemetry, 0 .. %u and 0 .. %u (0)\n"
		"overhead   of the link on each packet, 0 .. %u bytes (24)\n"
		"delay      of propagation behind the queue, 0 .. 1s (0)\n"
		"kind       of the TCP option (253)\n"
		"stamp      write telemetry by CARRIER, tcp, ioam, int, ifa, csig or csig_push (stamp alone: tcp; default)\n"
		"int_dscp   of packets with INT, 1 .. %u (23)\n"
		"int_window that the utilization in INT and CSIG is of, 1us .. 1s (10us)\n"
		"csig_tpid  of CSIG tags, 0x600 .. 0xffff (0x88b5)\n"
		"csig_abw   unit of buckets of ABW/C, in 1/10000, 1 .. %u (%u)\n"
		"csig_time  unit of buckets of times, 1ns .. 1ms (%uns)\n"
		"above      write load only while the queue is longer, 1b .. limit; 0: always (default)\n"
		"respond    tell the sender of a packet that finds a longer queue at once, 1b .. limit;\n"
		"           0: never (default)\n"
		"every      time between two responses to a flow, 1us .. 1s (10us)\n"
		"identify   tell node, port and B to senders that ask (on)\n"
		"stats      count queue lengths for percentiles and maximum (on)\n"
		"marking    ldcp: mark and drop by queue length on arrival (off)\n"
		"kmin, kmax ECN-capable packets: none is marked below kmin, each from kmax on,\n"
		"           at most limit; 0: derived from B (default)\n"
		"pmax       probability of a mark just below kmax, 0 .. 1 (1)\n"
		"knonect    other IP packets are dropped from here on, at most limit; 0:\n"
		"           derived from B (default)\n",
		HPCC_NODE_MAX, HPCC_PORT_MAX, HPCC_OVERHEAD_MAX, HPCC_INT_DSCP_MAX,
		HPCC_CSIG_ABW_MAX, HPCC_CSIG_ABW_DEFAULT, HPCC_CSIG_TIME_DEFAULT);
}

static int bad_value(const char *name, const char *value, const char *allowed)
{
	fprintf(stderr, "hpcc: %s \"%s\": has to be %s\n", name, value, allowed);
	return -1;
}

/* A number in decimal, or hexadecimal with 0x. */
static int parse_number(const char *name, const char *arg, __u32 max, void *to)
{
	int base = !strncasecmp(arg, "0x", 2) ? 16 : 10;
	unsigned long long value;
	char allowed[64];
	char *end;
	__u32 v;

	value = strtoull(arg, &end, base);
	/* 010 is 8 to some and 10 to others. */
	if (*arg < '0' || *arg > '9' || *end || value > max ||
	    (base == 10 && *arg == '0' && arg[1])) {
		snprintf(allowed, sizeof(allowed),
			 "a number, 0 .. %u, decimal without a leading 0, or 0x", max);
		return bad_value(name, arg, allowed);
	}
	v = value;
	memcpy(to, &v, sizeof(v));
	return sizeof(v);
}

static int parse_rate(const char *name, const char *arg, void *to)
{
	__u64 rate;

	/* tc counts bytes per second: 7bit are 0. */
	if (get_rate64(&rate, arg) || rate > HPCC_RATE_MAX ||
	    (rate < HPCC_RATE_MIN && (rate || strtod(arg, NULL) != 0)))
		return bad_value(name, arg, "a rate, 1kbit .. 10tbit, or 0");
	memcpy(to, &rate, sizeof(rate));
	return sizeof(rate);
}

static int parse_size(const char *name, const char *arg, void *to)
{
	unsigned int size;

	if (*arg == '-' || get_size(&size, arg) || !size)
		return bad_value(name, arg, "a size, 1 .. 4294967295b");
	memcpy(to, &size, sizeof(size));
	return sizeof(size);
}

/* Up to 4 GB. */
static int parse_threshold(const char *name, const char *arg, void *to)
{
	unsigned int size;

	if (*arg == '-' || get_size(&size, arg))
		return bad_value(name, arg, "a size, or 0");
	memcpy(to, &size, sizeof(size));
	return sizeof(size);
}

static int parse_marking(const char *name, const char *arg, void *to)
{
	__u8 marking = !strcmp(arg, "ldcp") ? HPCC_MARKING_LDCP :
					      HPCC_MARKING_OFF;

	if (strcmp(arg, "ldcp") && strcmp(arg, "off"))
		return bad_value(name, arg, "off or ldcp");
	memcpy(to, &marking, sizeof(marking));
	return sizeof(marking);
}

static int parse_switch(const char *name, const char *arg, void *to)
{
	__u8 on = !strcmp(arg, "on");

	if (!on && strcmp(arg, "off"))
		return bad_value(name, arg, "on or off");
	memcpy(to, &on, sizeof(on));
	return sizeof(on);
}

/* To the nearest millionth. */
static int parse_fraction(const char *name, const char *arg, void *to)
{
	double value;
	char *end;
	__u32 ppm;

	value = strtod(arg, &end);
	if (strspn(arg, "0123456789.e-") != strlen(arg) || !*arg || *end ||
	    !(value >= 0 && value <= 1) || *arg == '-')
		return bad_value(name, arg, "a fraction, 0 .. 1");
	ppm = value * HPCC_PMAX_MAX + 0.5;
	memcpy(to, &ppm, sizeof(ppm));
	return sizeof(ppm);
}

static int parse_delay(const char *name, const char *arg, void *to)
{
	__s64 time_ns;
	__u32 v;

	if (get_time64(&time_ns, arg) || time_ns < 0 ||
	    time_ns > HPCC_DELAY_MAX_NS)
		return bad_value(name, arg, "a time, 0 .. 1s");
	v = time_ns;
	memcpy(to, &v, sizeof(v));
	return sizeof(v);
}

static int parse_every(const char *name, const char *arg, void *to)
{
	__s64 time_ns;
	__u32 v;

	if (get_time64(&time_ns, arg) || time_ns < HPCC_EVERY_MIN_NS ||
	    time_ns > HPCC_EVERY_MAX_NS)
		return bad_value(name, arg, "a time, 1us .. 1s");
	v = time_ns;
	memcpy(to, &v, sizeof(v));
	return sizeof(v);
}

static int parse_kind(const char *name, const char *arg, void *to)
{
	__u8 kind;

	if (strcmp(arg, "253") && strcmp(arg, "254"))
		return bad_value(name, arg, "253 or 254");
	kind = atoi(arg);
	memcpy(to, &kind, sizeof(kind));
	return sizeof(kind);
}

static int parse_dscp(const char *name, const char *arg, void *to)
{
	__u32 value;
	__u8 dscp;

	if (parse_number(name, arg, HPCC_INT_DSCP_MAX, &value) < 0)
		return -1;
	if (!value)
		return bad_value(name, arg, "a number, 1 .. 63");
	dscp = value;
	memcpy(to, &dscp, sizeof(dscp));
	return sizeof(dscp);
}

static int parse_tpid(const char *name, const char *arg, void *to)
{
	__u32 value;

	if (parse_number(name, arg, 0xffff, &value) < 0)
		return -1;
	if (value < HPCC_CSIG_TPID_MIN)
		return bad_value(name, arg, "an EtherType, 0x600 .. 0xffff");
	memcpy(to, &value, sizeof(value));
	return sizeof(value);
}

static int parse_abw(const char *name, const char *arg, void *to)
{
	__u32 value;

	if (parse_number(name, arg, HPCC_CSIG_ABW_MAX, &value) < 0)
		return -1;
	if (!value)
		return bad_value(name, arg, "a number, 1 .. 1000");
	memcpy(to, &value, sizeof(value));
	return sizeof(value);
}

static int parse_unit(const char *name, const char *arg, void *to)
{
	__s64 time_ns;
	__u32 v;

	if (get_time64(&time_ns, arg) || time_ns < 1 || time_ns > HPCC_CSIG_TIME_MAX_NS)
		return bad_value(name, arg, "a time, 1ns .. 1ms");
	v = time_ns;
	memcpy(to, &v, sizeof(v));
	return sizeof(v);
}

static int parse_node(const char *name, const char *arg, void *to)
{
	return parse_number(name, arg, HPCC_NODE_MAX, to);
}

static int parse_port(const char *name, const char *arg, void *to)
{
	return parse_number(name, arg, HPCC_PORT_MAX, to);
}

static int parse_overhead(const char *name, const char *arg, void *to)
{
	return parse_number(name, arg, HPCC_OVERHEAD_MAX, to);
}

/* Options with a value. The parser stores at most 8 bytes and returns how
 * many, or -1.
 */
static const struct {
	const char *name;
	int attr;
	int (*parse)(const char *name, const char *arg, void *to);
} values[] = {
	{ "rate",	TCA_HPCC_RATE64,	parse_rate },
	{ "bandwidth",	TCA_HPCC_BANDWIDTH64,	parse_rate },
	{ "limit",	TCA_HPCC_LIMIT,		parse_size },
	{ "node",	TCA_HPCC_NODE,		parse_node },
	{ "port",	TCA_HPCC_PORT,		parse_port },
	{ "overhead",	TCA_HPCC_OVERHEAD,	parse_overhead },
	{ "delay",	TCA_HPCC_DELAY,		parse_delay },
	{ "kind",	TCA_HPCC_KIND,		parse_kind },
	{ "marking",	TCA_HPCC_MARKING,	parse_marking },
	{ "kmin",	TCA_HPCC_KMIN,		parse_threshold },
	{ "kmax",	TCA_HPCC_KMAX,		parse_threshold },
	{ "pmax",	TCA_HPCC_PMAX,		parse_fraction },
	{ "knonect",	TCA_HPCC_KNONECT,	parse_threshold },
	{ "stats",	TCA_HPCC_STATS,		parse_switch },
	{ "identify",	TCA_HPCC_IDENTIFY,	parse_switch },
	{ "above",	TCA_HPCC_ABOVE,		parse_threshold },
	{ "respond",	TCA_HPCC_RESPOND,	parse_threshold },
	{ "every",	TCA_HPCC_EVERY,		parse_every },
	{ "int_dscp",	TCA_HPCC_INT_DSCP,	parse_dscp },
	{ "int_window",	TCA_HPCC_INT_WINDOW,	parse_every },
	{ "csig_tpid",	TCA_HPCC_CSIG_TPID,	parse_tpid },
	{ "csig_abw",	TCA_HPCC_CSIG_ABW,	parse_abw },
	{ "csig_time",	TCA_HPCC_CSIG_TIME,	parse_unit },
};

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

static const struct {
	const char *name;
	int attr;
	__u8 value;
} flags[] = {
	{ "stamp",		TCA_HPCC_STAMP,	HPCC_STAMP_TCP },
	{ "nostamp",		TCA_HPCC_STAMP,	0 },
	{ "split-gso",		TCA_HPCC_SPLIT,	1 },
	{ "no-split-gso",	TCA_HPCC_SPLIT,	0 },
};

/* A list of carriers. Returns 0 where it is none. */
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

static bool is_option(const char *arg)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++)
		if (!strcmp(arg, flags[i].name))
			return true;
	for (i = 0; i < ARRAY_SIZE(values); i++)
		if (!strcmp(arg, values[i].name))
			return true;
	return !strcmp(arg, "help");
}

/* Returns how many arguments were used, 0 where the first is unknown, or -1. */
static int parse_one(int argc, char **argv, struct nlmsghdr *n)
{
	__u8 list;
	__u64 value;
	size_t i;
	int len;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (strcmp(*argv, flags[i].name))
			continue;
		list = flags[i].attr == TCA_HPCC_STAMP && flags[i].value && argc > 1 ?
		       parse_carriers(argv[1]) : 0;
		if (flags[i].attr == TCA_HPCC_STAMP && flags[i].value && argc > 1 && !list &&
		    !is_option(argv[1]))
			return bad_value(argv[0], argv[1],
					 "tcp, ioam, int, ifa, csig, csig_push, or several: tcp,int");
		addattr_l(n, HPCC_REQUEST_MAX, flags[i].attr, list ? &list : &flags[i].value,
			  sizeof(list));
		return list ? 2 : 1;
	}
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		if (strcmp(*argv, values[i].name))
			continue;
		if (argc < 2) {
			fprintf(stderr, "hpcc: %s: a value has to follow\n", *argv);
			return -1;
		}
		len = values[i].parse(argv[0], argv[1], &value);
		if (len < 0)
			return -1;
		addattr_l(n, HPCC_REQUEST_MAX, values[i].attr, &value, len);
		return 2;
	}
	return 0;
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

/* Time in the largest unit that has no fraction; as parse_delay() takes it. */
static void print_time(const char *key, __u64 ns)
{
	static const char * const unit[] = { "ns", "us", "ms", "s" };
	__u64 v = ns;
	size_t i = 0;

	if (is_json_context()) {
		print_u64(key, NULL, ns);
		return;
	}
	while (v && v % 1000 == 0 && i < 3) {
		v /= 1000;
		i++;
	}
	print_text("%s ", key);
	print_u64(NULL, "%llu", v);
	print_text("%s ", unit[i]);
}

static void print_flag(const char *key, bool on, const char *yes,
		       const char *no)
{
	print_color_bool(PRINT_JSON, COLOR_NONE, key, NULL, on);
	print_text("%s ", on ? yes : no);
}

/* Carriers are shown where it is not TCP alone, as was before there were others. */
static void print_stamp(__u8 value)
{
	const char *format = "%s";
	size_t i;

	print_flag("stamp", value, "stamp", "nostamp");
	if (!value || value == HPCC_STAMP_TCP)
		return;
	open_json_array(PRINT_JSON, "carriers");
	for (i = 0; i < ARRAY_SIZE(carriers); i++) {
		if (!(value & carriers[i].value))
			continue;
		print_color_string(PRINT_ANY, COLOR_NONE, NULL, format, carriers[i].name);
		format = ",%s";
	}
	close_json_array(PRINT_JSON, NULL);
	print_text("%s", " ");
}

/* tc's %g keeps six digits, which is all that a millionth has. */
static void print_marking(struct rtattr **tb)
{
	const char *name = attr_value(tb[TCA_HPCC_MARKING]) ? "ldcp" : "off";

	print_color_string(PRINT_ANY, COLOR_NONE, "marking", "marking %s ",
			   name);
	if (tb[TCA_HPCC_KMIN])
		print_u64("kmin", "kmin %llub ", attr_value(tb[TCA_HPCC_KMIN]));
	if (tb[TCA_HPCC_KMAX])
		print_u64("kmax", "kmax %llub ", attr_value(tb[TCA_HPCC_KMAX]));
	if (tb[TCA_HPCC_PMAX])
		print_color_float(PRINT_ANY, COLOR_NONE, "pmax", "pmax %g ",
				  attr_value(tb[TCA_HPCC_PMAX]) /
				  (double)HPCC_PMAX_MAX);
	if (tb[TCA_HPCC_KNONECT])
		print_u64("knonect", "knonect %llub ",
			  attr_value(tb[TCA_HPCC_KNONECT]));
}

static int hpcc_print_opt(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_HPCC_MAX + 1];

	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_HPCC_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt),
			   NLA_F_NESTED);
	if (tb[TCA_HPCC_RATE64] && attr_value(tb[TCA_HPCC_RATE64]))
		tc_print_rate(PRINT_ANY, "rate", "rate %s ",
			      attr_value(tb[TCA_HPCC_RATE64]));
	if (tb[TCA_HPCC_BANDWIDTH64] && attr_value(tb[TCA_HPCC_BANDWIDTH64]))
		tc_print_rate(PRINT_ANY, "bandwidth", "bandwidth %s ",
			      attr_value(tb[TCA_HPCC_BANDWIDTH64]));
	if (tb[TCA_HPCC_LIMIT])
		print_u64("limit", "limit %llub ", attr_value(tb[TCA_HPCC_LIMIT]));
	if (tb[TCA_HPCC_NODE])
		print_u64("node", "node %llu ", attr_value(tb[TCA_HPCC_NODE]));
	if (tb[TCA_HPCC_PORT])
		print_u64("port", "port %llu ", attr_value(tb[TCA_HPCC_PORT]));
	if (tb[TCA_HPCC_OVERHEAD])
		print_u64("overhead", "overhead %llu ",
			  attr_value(tb[TCA_HPCC_OVERHEAD]));
	if (tb[TCA_HPCC_DELAY])
		print_time("delay", attr_value(tb[TCA_HPCC_DELAY]));
	if (tb[TCA_HPCC_KIND])
		print_u64("kind", "kind %llu ", attr_value(tb[TCA_HPCC_KIND]));
	if (tb[TCA_HPCC_STAMP])
		print_stamp(attr_value(tb[TCA_HPCC_STAMP]));
	if (tb[TCA_HPCC_ABOVE])
		print_u64("above", "above %llub ", attr_value(tb[TCA_HPCC_ABOVE]));
	if (tb[TCA_HPCC_RESPOND])
		print_u64("respond", "respond %llub ", attr_value(tb[TCA_HPCC_RESPOND]));
	if (tb[TCA_HPCC_EVERY])
		print_time("every", attr_value(tb[TCA_HPCC_EVERY]));
	if (tb[TCA_HPCC_INT_DSCP])
		print_u64("int_dscp", "int_dscp %llu ", attr_value(tb[TCA_HPCC_INT_DSCP]));
	if (tb[TCA_HPCC_INT_WINDOW])
		print_time("int_window", attr_value(tb[TCA_HPCC_INT_WINDOW]));
	if (tb[TCA_HPCC_CSIG_TPID])
		print_u64("csig_tpid", "csig_tpid 0x%llx ", attr_value(tb[TCA_HPCC_CSIG_TPID]));
	if (tb[TCA_HPCC_CSIG_ABW])
		print_u64("csig_abw", "csig_abw %llu ", attr_value(tb[TCA_HPCC_CSIG_ABW]));
	if (tb[TCA_HPCC_CSIG_TIME])
		print_time("csig_time", attr_value(tb[TCA_HPCC_CSIG_TIME]));
	if (tb[TCA_HPCC_SPLIT])
		print_flag("split_gso", attr_value(tb[TCA_HPCC_SPLIT]),
			   "split-gso", "no-split-gso");
	if (tb[TCA_HPCC_IDENTIFY])
		print_flag("identify", attr_value(tb[TCA_HPCC_IDENTIFY]), "identify on",
			   "identify off");
	if (tb[TCA_HPCC_STATS])
		print_flag("stats", attr_value(tb[TCA_HPCC_STATS]), "stats on",
			   "stats off");
	if (tb[TCA_HPCC_MARKING])
		print_marking(tb);
	return 0;
}

struct qdisc_util hpcc_qdisc_util = {
	.id		= "hpcc",
	.parse_qopt	= hpcc_parse_opt,
	.print_qopt	= hpcc_print_opt,
	.print_xstats	= hpcc_print_xstats,
};
