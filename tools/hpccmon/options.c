// SPDX-License-Identifier: GPL-2.0
/* hpccmon: options of commands. An error message states the allowed values. */
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "hpccmon.h"

/* The next option of a command; -1: there is no more option. */
int next_option(int argc, char **argv, const char *letters, const struct option *options)
{
	char quiet[32] = ":", known[256] = "", letter[] = { '-', 0, 0 };
	int option;

	option = getopt_long(argc, argv, strcat(quiet, letters), options, NULL);
	if (option == ':')
		usage("%s needs a value", argv[optind - 1]);
	if (option != '?')
		return option;
	if (isalpha(optopt) && strchr(letters, optopt))
		usage("%.*s takes no value", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
	letter[1] = optopt;
	for (; options->name; options++) {
		strcat(strcat(known, *known ? ", --" : "--"), options->name);
		if (options->has_arg == required_argument)
			strcat(known, "=VALUE");
	}
	usage("%s: use one of %s", optopt ? letter : argv[optind - 1], known);
}

double number_option(const char *name, double min, double max)
{
	double number;
	char *end;

	number = strtod(optarg, &end);
	if (end == optarg || *end || !(number >= min && number <= max))
		usage("%s %s: it has to be from %.10g to %.10g", name, optarg, min, max);
	return number;
}

uint32_t whole_option(const char *name, uint32_t min, uint32_t max)
{
	double number = number_option(name, min, max);

	if (number != (uint32_t)number)
		usage("%s %s: it has to be a whole number", name, optarg);
	return number;
}
