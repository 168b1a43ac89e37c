// SPDX-License-Identifier: GPL-2.0
/* hpccmon: options of commands. What is wrong with one is told with what is allowed. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "hpccmon.h"

/* The next option of a command, -1: there is none. */
int next_option(int argc, char **argv, const char *letters, const struct option *options)
{
	char known[256] = "";
	int option;

	opterr = 0;
	option = getopt_long(argc, argv, letters, options, NULL);
	if (option != '?')
		return option;
	if (optopt && strchr(letters, optopt))
		usage("%s needs a value", argv[optind - 1]);
	for (; options->name; options++) {
		strcat(strcat(known, *known ? ", --" : "--"), options->name);
		if (options->has_arg == required_argument)
			strcat(known, "=VALUE");
	}
	usage("%s: there are %s", argv[optind - 1], known);
}

/* What the option that was just read says. */
double number_option(const char *name, double min, double max)
{
	double number;
	char *end;

	number = strtod(optarg, &end);
	if (end == optarg || *end || !(number >= min && number <= max))
		usage("%s %s: it is %.10g to %.10g", name, optarg, min, max);
	return number;
}
