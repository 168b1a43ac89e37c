// SPDX-License-Identifier: GPL-2.0
/* hpccmon: options of commands. An error message states the allowed values. */
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "hpccmon.h"

#define OPTIONS_MAX	8

/* The next option of a command; -1: there is no more option. */
static int next_option(int argc, char **argv, const char *letters, const struct option *options)
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

/* The value of a NUMBER or of a WHOLE. */
double option_number(const struct option_spec *option, const char *text)
{
	double number;
	char *end;

	number = strtod(text, &end);
	if (end == text || *end || !(number >= option->min && number <= option->max))
		usage("--%s %s: it has to be from %.10g to %.10g", option->name, text, option->min,
		      option->max);
	if (option->kind == OPTION_WHOLE && number != (uint32_t)number)
		usage("--%s %s: it has to be a whole number", option->name, text);
	return number;
}

static void take_option(const struct option_spec *option)
{
	switch (option->kind) {
	case OPTION_FLAG:
		*(bool *)option->to = true;
		break;
	case OPTION_TEXT:
		*(const char **)option->to = optarg;
		break;
	case OPTION_NUMBER:
		*(double *)option->to = option_number(option, optarg);
		break;
	case OPTION_WHOLE:
		*(uint32_t *)option->to = optarg ? option_number(option, optarg) :
					  option->without;
		break;
	}
}

/* Store the values of all options of a command; optind is the index of the first argument. */
void take_options(int argc, char **argv, const struct option_spec *options)
{
	struct option known[OPTIONS_MAX + 1] = {};
	const struct option_spec *spec;
	char letters[3 * OPTIONS_MAX + 1] = "", *end = letters;
	size_t nr = 0;
	int letter;

	for (spec = options; spec->name; spec++) {
		known[nr++] = (struct option){ spec->name, spec->kind == OPTION_FLAG ? no_argument :
			spec->without ? optional_argument : required_argument, NULL, spec->letter };
		end += sprintf(end, "%c%s", spec->letter, spec->kind == OPTION_FLAG ? "" :
			       spec->without ? "::" : ":");
	}
	while ((letter = next_option(argc, argv, letters, known)) != -1) {
		for (spec = options; spec->letter != letter; spec++)
			;
		take_option(spec);
	}
}
