// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: why is W what it is? What the kernel's generic netlink family "hpcc" knows of the flows
 * of this network namespace, for people and, with --json, for programs.
 *
 *	main.c		commands, and how they end
 *	ends.c		which flows are meant
 *	netlink.c	questions to the kernel
 *	flow.c		its answers
 *	why.c		what they mean
 *	units.c json.c	how they are shown
 *	options.c	what commands are told
 *
 * and a file for each command.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hpccmon.h"

struct command {
	const char	*name;
	int		(*run)(int argc, char **argv);
	const char	*usage;
};

static const struct command commands[] = {
	{ "events", cmd_events, "[--json] [--count=N] [LOCAL|COOKIE] [PEER]" },
	{ "export", cmd_export, "[--flows[=N] [--names]] [--textfile=FILE|--listen=ADDR:PORT]" },
	{ "flow", cmd_flow, "[--json] [--names] [LOCAL|COOKIE] [PEER]" },
	{ "path", cmd_path, "[--json] [--port=PORT] HOST" },
	{ "plot", cmd_plot, "[--json] [--output=FILE.svg] FILE [LOCAL|COOKIE] [PEER]" },
	{ "record", cmd_record, "[--json] --output=FILE [--time=S] [--delay=S] [--no-acks] "
		"[--buffer=KB] [LOCAL|COOKIE] [PEER]" },
	{ "top", cmd_top, "[--json|--once] [--delay=S] [--sort=COLUMN] [--reverse] [--filter=TEXT] "
		"[LOCAL|COOKIE] [PEER]" },
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(*commands))

static const struct command *current;
static atomic_bool stop;

static void complain(const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "hpccmon%s%s: ", current ? " " : "", current ? current->name : "");
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	exit(EXIT_NOTHING);
}

void usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	exit(EXIT_USAGE);
}

void *allocated(void *memory)
{
	if (!memory)
		die("out of memory");
	return memory;
}

/* What was printed has to be somewhere. */
void end_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		die("cannot write: %s", strerror(errno));
}

static void interrupt(int signal)
{
	(void)signal;
	stop = true;
}

/* From here on SIGINT and SIGTERM do not end the program, but what it waits for. */
void catch_interrupts(void)
{
	const struct sigaction action = { .sa_handler = interrupt };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
	return stop;
}

static void help(const struct command *command)
{
	printf("\thpccmon %s %s\n", command->name, command->usage);
}

static void help_all(void)
{
	size_t i;

	printf("usage: hpccmon COMMAND [OPTION]... [ARGUMENT]...\n");
	for (i = 0; i < NR_COMMANDS; i++)
		help(&commands[i]);
	printf("LOCAL, PEER: ADDR, ADDR:PORT, [ADDR]:PORT or :PORT; one alone may be either end.\n"
	       "hpccmon(8) tells more.\n");
}

static bool asks_for_help(const char *word)
{
	return word && (!strcmp(word, "--help") || !strcmp(word, "-h"));
}

static const struct command *find(const char *name)
{
	char known[128] = "";
	size_t i;

	for (i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
		strcat(strcat(known, i ? ", " : ""), commands[i].name);
	}
	usage("no command %s; there are %s", name, known);
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2)
		usage("what? \"hpccmon --help\" lists the commands");
	/* A reader that has seen enough ends the program by an error of write(). */
	signal(SIGPIPE, SIG_IGN);
	if (asks_for_help(argv[1])) {
		help_all();
	} else {
		current = find(argv[1]);
		if (asks_for_help(argv[2]))
			help(current);
		else
			status = current->run(argc - 1, argv + 1);
	}
	end_output();
	return status;
}
