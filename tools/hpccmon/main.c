// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon: explain the value of W. It reads data about the flows of this network namespace from the
 * kernel's generic netlink family "hpcc", and prints them as text, or as JSON with --json.
 *
 *	main.c		commands, and their exit status
 *	filter.c	selection of flows
 *	netlink.c	requests to the kernel
 *	flow.c		answers of the kernel
 *	why.c		the reason for W
 *	units.c json.c	format of the output
 *	options.c	options of commands
 *	entries.c	hpccmon link, hpccmon route, hpccmon key
 *	observed.c	flows of hpccmon observe
 *
 * Each other command has a file with its name.
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
	const char	*what;
	const char	*options;	/* help text of each option */
};

#define HELP_JSON	"\t--json                print JSON\n"
#define HELP_FLOWS \
	"\tLOCAL, PEER           ADDR, ADDR:PORT, [ADDR]:PORT or :PORT of a flow;\n" \
	"\t                      if only one is given, it may be either end\n" \
	"\tCOOKIE                number of the flow in the output of \"hpccmon flow\"\n"
#define HELP_TABLE \
	"\tset, del, flush       add or change an entry, delete one, delete all: CAP_NET_ADMIN\n" \
	"\tload FILE             replace all entries by the output of show in FILE; -: stdin\n" \
	"\t--json                show JSON\n"

static const struct command commands[] = {
	{ "events", cmd_events, "[--json] [--count=N] [LOCAL|COOKIE] [PEER]",
	  "print fallbacks, returns, muted flows and path changes as they happen",
	  HELP_JSON
	  "\t-c, --count=N         end after N events\n"
	  HELP_FLOWS },
	{ "export", cmd_export, "[--flows[=N] [--names]] "
	  "[--textfile=FILE|--listen=ADDR:PORT [--host=NAME[,NAME]...]]",
	  "export counters, flows and hops to Prometheus",
	  "\t--flows[=N]           also export N flows (default: 100) and their hops\n"
	  "\t--names               with --flows: also export node and port of links; needs CAP_NET_ADMIN\n"
	  "\t--textfile=FILE       write to FILE, once; -: standard output\n"
	  "\t--listen=ADDR:PORT    serve HTTP at this address until Ctrl-C (default: 127.0.0.1:4722)\n"
	  "\t--host=NAME[,NAME]... other host names that requests may use\n" },
	{ "flow", cmd_flow, "[--json] [--names] [LOCAL|COOKIE] [PEER]",
	  "show the state of each flow, and the hop that limits it",
	  HELP_JSON
	  "\t--names               request node, port and speed of the links; needs CAP_NET_ADMIN\n"
	  HELP_FLOWS },
	{ "key", cmd_table, "[--json] [show] | set prefix PREFIX send FILE [accept FILE] "
	  "[require yes] | del prefix PREFIX | flush | load FILE",
	  "show or set the prefixes of peers whose feedback is signed, and their keys",
	  HELP_TABLE
	  "\tsend FILE             sign and verify with this key, 32 hexadecimal digits; -: stdin\n"
	  "\taccept FILE           also verify with this key\n"
	  "\trequire yes           no telemetry with peers that do not sign (default: no)\n" },
	{ "link", cmd_table, "[--json] [show] | set node NODE port PORT rate RATE "
	  "[unit BYTES] | del node NODE port PORT | flush | load FILE",
	  "show or change the links that receivers of IOAM, INT and IFA know",
	  HELP_TABLE
	  "\trate RATE             B, such as 100gbit (default unit: bit/s)\n"
	  "\tunit BYTES            unit of the queue length in telemetry (default: 1)\n" },
	{ "observe", cmd_observe, "[--cgroup=DIR] [--flows=N] [--kind=KIND] [--exid=EXID] "
	  "[--ended]",
	  "let flows of other congestion controls carry telemetry, until Ctrl-C; needs root",
	  "\t-g, --cgroup=DIR      flows of this cgroup (default: all)\n"
	  "\t-f, --flows=N         at most N flows (default: 8192)\n"
	  "\t-k, --kind=KIND       kind of the TCP option, 253 or 254 (default: that of net.hpcc)\n"
	  "\t-x, --exid=EXID       ExID of the TCP option (default: that of net.hpcc)\n"
	  "\t-e, --ended           also keep flows that have ended\n" },
	{ "path", cmd_path, "[--json] [--port=PORT] HOST",
	  "show the switches on the path to a host, and their load",
	  HELP_JSON
	  "\t-p, --port=PORT       if there is no flow to HOST, connect to this port and send some bytes\n"
	  "\tHOST                  a name or an address\n" },
	{ "plot", cmd_plot, "[--json] [--output=FILE.svg] FILE [LOCAL|COOKIE] [PEER]",
	  "plot a file that \"hpccmon record\" wrote",
	  HELP_JSON
	  "\t-o, --output=FILE.svg write the plot to this file (default: FILE with the suffix .svg)\n"
	  HELP_FLOWS },
	{ "record", cmd_record, "[--json] --output=FILE [--time=S] [--delay=S] [--no-acks] "
	  "[--buffer=KB] [LOCAL|COOKIE] [PEER]",
	  "record W, U and the load of each hop over time in a file",
	  "\t--json                write one JSON object per line instead of CSV\n"
	  "\t-o, --output=FILE     write to FILE; -: standard output\n"
	  "\t-t, --time=S          end after S seconds (default: at Ctrl-C)\n"
	  "\t-d, --delay=S         read the flows every S seconds (default: 0.1)\n"
	  "\t--no-acks             write no line for each ACK\n"
	  "\t-b, --buffer=KB       size of the buffer for ACKs (default: 16384)\n"
	  HELP_FLOWS },
	{ "route", cmd_table, "[--json] [show] | set prefix PREFIX [where WHERE] "
	  "[carrier CARRIER] | del prefix PREFIX | flush | load FILE",
	  "show or set the end that computes W, and the carrier, per prefix of peers",
	  HELP_TABLE
	  "\twhere WHERE           sender or receiver (default: net.hpcc.where)\n"
	  "\tcarrier CARRIER       tcp, ioam, int, ifa or csig (default: net.hpcc.carrier)\n" },
	{ "top", cmd_top, "[--json|--once] [--delay=S] [--sort=COLUMN] [--reverse] [--filter=TEXT] "
	  "[LOCAL|COOKIE] [PEER]",
	  "show a table of all flows and update it; q quits",
	  "\t--json                print JSON, once\n"
	  "\t--once                print the table once\n"
	  "\t-d, --delay=S         update every S seconds (default: 1)\n"
	  "\t-s, --sort=COLUMN     sort by this column\n"
	  "\t-r, --reverse         reverse the order\n"
	  "\t-f, --filter=TEXT     only flows whose addresses, mode or reason contain TEXT\n"
	  HELP_FLOWS },
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(*commands))

static const struct command *current;
static atomic_bool stop;
static void (*restore)(void);

/* Restore the terminal before an error is printed. */
void restore_by(void (*function)(void))
{
	restore = function;
}

static void complain(const char *format, va_list args)
{
	if (restore)
		restore();
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

/* Check that all output was written. */
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

/* From here on a signal ends the current wait, and does not end the program. */
void catch_signal(int signal)
{
	const struct sigaction action = { .sa_handler = interrupt };

	sigaction(signal, &action, NULL);
}

void catch_interrupts(void)
{
	catch_signal(SIGINT);
	catch_signal(SIGTERM);
}

bool interrupted(void)
{
	return stop;
}

static void help(const struct command *command)
{
	printf("\thpccmon %s %s\n\t    %s\n", command->name, command->usage, command->what);
}

static void help_all(void)
{
	size_t i;

	printf("usage: hpccmon COMMAND [OPTION]... [ARGUMENT]...\n");
	for (i = 0; i < NR_COMMANDS; i++)
		help(&commands[i]);
	printf("\"hpccmon COMMAND --help\" explains its options; hpccmon(8) explains the output.\n"
	       "\"hpccmon --version\" prints the version.\n"
	       "To see which hop limits a flow, run \"hpccmon flow --names\" as root on the sender.\n");
}

static bool asks_for_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* An option may be anywhere among the words of a command. */
static bool any_asks_for_help(char **args)
{
	while (*args && strcmp(*args, "--"))
		if (asks_for_help(*args++))
			return true;
	return false;
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
	usage("no command %s; use one of %s", name, known);
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2)
		usage("no command given; \"hpccmon --help\" lists the commands");
	/* If the reader of our pipe closes it, the error of write() ends the program. */
	signal(SIGPIPE, SIG_IGN);
	if (asks_for_help(argv[1])) {
		help_all();
	} else if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("hpccmon %s\n", HPCC_VERSION);
	} else {
		current = find(argv[1]);
		if (any_asks_for_help(argv + 2)) {
			help(current);
			fputs(current->options, stdout);
		} else {
			status = current->run(argc - 1, argv + 1);
		}
	}
	end_output();
	return status;
}
