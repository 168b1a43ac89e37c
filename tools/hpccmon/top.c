// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon top: the flows of this namespace, updated at intervals. The screen has a status line, the
 * table, and a line for keys. No line is longer than the width of the terminal.
 */
#include <curses.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "table.h"

/* Width if the output is not a terminal. */
#define WIDE	(LINE_MAX_CHARS - 1)

static const char keys[] = "q quit  < > sort  r reverse  / filter  + - interval  p pause";

struct screen {
	struct table	table;
	double		delay;	/* s */
	bool		paused;
	bool		typing;	/* the user is typing the filter */
	size_t		first;	/* index of the first row on the screen */
	const char	*wrong;	/* error message, or NULL */
};

static void put_line(int y, int attributes, const char *line)
{
	move(y, 0);
	attrset(attributes);
	addnstr(line, COLS);
	/* Reverse the whole line, not only its text. */
	for (; attributes & A_REVERSE && getcurx(stdscr) && getcurx(stdscr) < COLS - 1;)
		addch(' ');
	attrset(0);
	if (getcury(stdscr) == y && (int)strlen(line) < COLS)
		clrtoeol();
}

static void put_title(const struct screen *screen)
{
	const struct table *table = &screen->table;
	char line[LINE_MAX_CHARS], clock[16];
	time_t now = time(NULL);
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	snprintf(line, sizeof(line), "%zu flows, %zu classic  %s  every %g s%s%s%s%s",
		 table->total, table->classic, clock, screen->delay,
		 screen->paused ? "  paused" : "", *table->text_filter ? "  with \"" : "",
		 table->text_filter, *table->text_filter ? "\"" : "");
	put_line(0, A_BOLD, screen->wrong ?: line);
}

static void put_keys(const struct screen *screen)
{
	char line[LINE_MAX_CHARS];

	snprintf(line, sizeof(line), "filter: %s_", screen->table.text_filter);
	put_line(LINES - 1, 0, screen->typing ? line : keys);
}

static int rows_shown(void)
{
	return LINES > 3 ? LINES - 3 : 0;
}

static void draw(struct screen *screen)
{
	const struct table *table = &screen->table;
	char line[LINE_MAX_CHARS];
	struct layout layout;
	size_t last = table->nr > (size_t)rows_shown() ? table->nr - rows_shown() : 0;
	int i;

	if (screen->first > last)
		screen->first = last;
	erase();
	table_layout(table, COLS, &layout);
	put_title(screen);
	if (LINES > 2) {
		table_line(table, NULL, &layout, line);
		put_line(1, A_REVERSE, line);
	}
	for (i = 0; i < rows_shown() && screen->first + i < table->nr; i++) {
		const struct flow *flow = &table->flow[screen->first + i];

		table_line(table, flow, &layout, line);
		put_line(2 + i, flow_is_classic(flow) ? A_BOLD : 0, line);
	}
	if (LINES > 1)
		put_keys(screen);
	refresh();
}

static void type(struct screen *screen, int key)
{
	char *filter = screen->table.text_filter;
	size_t length = strlen(filter);

	if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		screen->typing = false;
	} else if (key == 27) {
		*filter = 0;
		screen->typing = false;
	} else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && length) {
		filter[length - 1] = 0;
	} else if (key >= ' ' && key < 127 && length < TEXT_FILTER_MAX - 1) {
		filter[length] = key;
		filter[length + 1] = 0;
	}
}

static void sort_beside(struct table *table, int step)
{
	table->sort = (table->sort + TABLE_COLUMNS + step) % TABLE_COLUMNS;
	table_sort(table);
}

static void scroll_by(struct screen *screen, int rows)
{
	if (rows < 0 && screen->first < (size_t)-rows)
		screen->first = 0;
	else
		screen->first += rows;
}

/* Return: false if the key ends the program. */
static bool obey(struct screen *screen, int key)
{
	switch (key) {
	case 'q':
		return false;
	case '<':
	case KEY_LEFT:
		sort_beside(&screen->table, -1);
		break;
	case '>':
	case KEY_RIGHT:
		sort_beside(&screen->table, 1);
		break;
	case 'r':
		screen->table.reverse = !screen->table.reverse;
		table_sort(&screen->table);
		break;
	case '/':
		screen->typing = true;
		break;
	case 'p':
		screen->paused = !screen->paused;
		break;
	case '+':
		screen->delay = screen->delay < 30 ? 2 * screen->delay : 60;
		break;
	case '-':
		screen->delay = screen->delay > 0.2 ? screen->delay / 2 : 0.1;
		break;
	case KEY_UP:
		scroll_by(screen, -1);
		break;
	case KEY_DOWN:
		scroll_by(screen, 1);
		break;
	case KEY_PPAGE:
		scroll_by(screen, -rows_shown());
		break;
	case KEY_NPAGE:
		scroll_by(screen, rows_shown());
		break;
	case KEY_HOME:
		screen->first = 0;
		break;
	}
	return true;
}

static void watch(struct screen *screen, struct monitor *mon)
{
	double next = 0, now;
	bool more = true;
	int key;

	while (more && !interrupted()) {
		now = seconds(CLOCK_MONOTONIC);
		if (now >= next && !screen->paused) {
			screen->wrong = NULL;
			table_fill(&screen->table, mon, &screen->wrong);
			next = now + screen->delay;
		}
		draw(screen);
		timeout(screen->paused || next <= now ? 1000 : 1 + (int)(1000 * (next - now)));
		key = getch();
		/* The terminal is closed. */
		if (key == ERR && !isatty(STDIN_FILENO))
			break;
		if (screen->typing && key != ERR && key != KEY_RESIZE) {
			type(screen, key);
			next = 0;
		} else {
			more = obey(screen, key);
		}
	}
}

static void leave_screen(void)
{
	restore_by(NULL);
	endwin();
}

static void live(struct screen *screen, struct monitor *mon)
{
	SCREEN *terminal;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		usage("needs a terminal, except with --once and --json");
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal)
		usage("unknown terminal, TERM=%s; --once works without a terminal",
		      getenv("TERM") ?: "not set");
	restore_by(leave_screen);
	catch_interrupts();
	catch_signal(SIGHUP);
	catch_signal(SIGQUIT);
	set_escdelay(50);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	watch(screen, mon);
	leave_screen();
	delscreen(terminal);
}

static int width_of_output(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return columns && atoi(columns) > 0 ? atoi(columns) : WIDE;
}

static void print_line(char *line)
{
	size_t length = strlen(line);

	while (length && line[length - 1] == ' ')
		line[--length] = 0;
	puts(line);
}

static void once(const struct table *table)
{
	char line[LINE_MAX_CHARS];
	struct layout layout;
	size_t i;

	table_layout(table, width_of_output(), &layout);
	table_line(table, NULL, &layout, line);
	print_line(line);
	for (i = 0; i < table->nr; i++) {
		table_line(table, &table->flow[i], &layout, line);
		print_line(line);
	}
}

static void once_json(const struct table *table)
{
	struct json_object *flows = json_object_new_array();
	size_t i;

	for (i = 0; i < table->nr; i++)
		json_object_array_add(flows, flow_json(&table->flow[i]));
	json_line(flows);
}

int cmd_top(int argc, char **argv)
{
	struct screen screen = { .delay = 1 };
	bool json = false, only_once = false;
	const char *sort = "R", *filter = "", *why;
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &json },
		{ "once", 'o', OPTION_FLAG, .to = &only_once },
		{ "delay", 'd', OPTION_NUMBER, &screen.delay, .min = 0.1, .max = 60 },
		{ "sort", 's', OPTION_TEXT, .to = &sort },
		{ "reverse", 'r', OPTION_FLAG, .to = &screen.table.reverse },
		{ "filter", 'f', OPTION_TEXT, .to = &filter },
		{ }
	};
	struct monitor *mon;
	char known[128];

	take_options(argc, argv, options);
	if (!table_sort_by(&screen.table, sort))
		usage("--sort %s: use one of %s", sort, table_columns(known));
	if (strlen(filter) >= TEXT_FILTER_MAX)
		usage("--filter %s: the maximum length is %d characters", filter,
		      TEXT_FILTER_MAX - 1);
	strcpy(screen.table.text_filter, filter);
	filter_parse(&screen.table.filter, argc - optind, argv + optind);
	mon = monitor_open_flows();
	if (!json && !only_once)
		live(&screen, mon);
	else if (table_fill(&screen.table, mon, &why))
		die("%s", why);
	else if (json)
		once_json(&screen.table);
	else
		once(&screen.table);
	monitor_close(mon);
	free(screen.table.flow);
	return 0;
}
