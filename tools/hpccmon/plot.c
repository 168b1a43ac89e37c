// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon plot: what was recorded, as four diagrams over time in an SVG file, drawn by gnuplot: W,
 * U, and u' and the queue of each hop of the flow that was told of most often.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record.h"

/* More lines in a diagram are not told apart. */
#define FLOWS_MAX	8

struct sample {
	double		time;
	struct flow	flow;
};

/* Flows that have samples, the one with the most of them first. */
struct track {
	const struct flow	*flow;
	size_t			samples;
	uint32_t		hops;
};

struct plot {
	struct sample	*sample;
	size_t		nr;
	size_t		room;
	struct track	*track;
	size_t		nr_tracks;
};

/* ---- Reading --------------------------------------------------------------------------- */

static void add_sample(struct plot *plot, const struct flow *flow, double time)
{
	if (plot->nr == plot->room) {
		plot->room = plot->room ? 2 * plot->room : 256;
		plot->sample = allocated(realloc(plot->sample,
						 plot->room * sizeof(*plot->sample)));
	}
	plot->sample[plot->nr++] = (struct sample){ .time = time, .flow = *flow };
}

static void read_file(struct plot *plot, const char *name, const struct wanted *wanted)
{
	FILE *file = strcmp(name, "-") ? fopen(name, "re") : stdin;
	char *line = NULL;
	struct flow flow;
	size_t room = 0;
	unsigned int nr = 0;
	double time;

	if (!file)
		die("%s: %s", name, strerror(errno));
	while (getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!nr++ && strcmp(line, csv_head))
			die("%s is no recording of hpccmon: its first line is not %s", name,
			    csv_head);
		if (nr == 1)
			continue;
		if (!csv_parse(line, &flow, &time))
			die("%s, line %u: this is no line of a recording", name, nr);
		if (wanted_matches(wanted, &flow))
			add_sample(plot, &flow, time);
	}
	if (ferror(file))
		die("%s: %s", name, strerror(errno));
	free(line);
	if (file != stdin)
		fclose(file);
	if (!plot->nr)
		die("%s has no sample%s%s", name, *wanted->words ? " of " : "", wanted->words);
}

/* A cookie may come again, but not with the same ends. */
static bool same_flow(const struct flow *a, const struct flow *b)
{
	return a->cookie == b->cookie && a->local.port == b->local.port &&
	       a->peer.port == b->peer.port &&
	       !memcmp(&a->peer.addr, &b->peer.addr, sizeof(a->peer.addr));
}

static int more_samples(const void *one, const void *other)
{
	const struct track *a = one, *b = other;

	return a->samples < b->samples ? 1 : a->samples > b->samples ? -1 : 0;
}

/* ACKs that were read behind a look may have been before it. */
static int sooner(const void *one, const void *other)
{
	const struct sample *a = one, *b = other;

	return a->time < b->time ? -1 : a->time > b->time;
}

static void find_tracks(struct plot *plot)
{
	struct track *track;
	size_t i, t;

	for (i = 0; i < plot->nr; i++) {
		const struct flow *flow = &plot->sample[i].flow;

		for (t = 0; t < plot->nr_tracks && !same_flow(plot->track[t].flow, flow); t++)
			;
		if (t == plot->nr_tracks) {
			plot->track = allocated(realloc(plot->track,
							++plot->nr_tracks * sizeof(*track)));
			plot->track[t] = (struct track){ .flow = flow };
		}
		track = &plot->track[t];
		track->samples++;
		if (flow->nr_hops > track->hops)
			track->hops = flow->nr_hops;
	}
	qsort(plot->track, plot->nr_tracks, sizeof(*track), more_samples);
}

/* ---- gnuplot ------------------------------------------------------------------------------ */

static void put_title(FILE *to, const struct flow *flow, const char *what)
{
	char local[END_MAX], peer[END_MAX];

	fprintf(to, "\"%s%s > %s\"", what, end_text(&flow->local, local),
		end_text(&flow->peer, peer));
}

static void put_law(FILE *to, const struct flow *flow)
{
	fprintf(to, " %g %g %g %g\n", flow->W / 1e3, flow->Wc / 1e3, flow->U, flow->eta);
}

static void put_hops(FILE *to, const struct flow *flow)
{
	uint32_t h;

	for (h = 0; h < flow->nr_hops; h++) {
		if (flow->hop[h].known)
			fprintf(to, " %g %g", flow->hop[h].u, flow->hop[h].qlen_ns / 1e3);
		else
			fprintf(to, " NaN NaN");
	}
	fputc('\n', to);
}

/* The samples of a flow. Those of ACKs do not tell of hops, and would cut their lines. */
static void put_data(FILE *to, const struct plot *plot, size_t t, const char *name,
		     void (*put)(FILE *to, const struct flow *flow))
{
	double first = plot->sample[0].time;
	size_t i;

	fprintf(to, "$%s%zu << EOD\n", name, t);
	for (i = 0; i < plot->nr; i++) {
		const struct flow *flow = &plot->sample[i].flow;

		if (!same_flow(flow, plot->track[t].flow) || (put == put_hops && !flow->nr_hops))
			continue;
		fprintf(to, "%.6f", plot->sample[i].time - first);
		put(to, flow);
	}
	fprintf(to, "EOD\n");
}

/* One column of each flow. */
static void draw_flows(FILE *to, const struct plot *plot, size_t nr, const char *label, int column)
{
	size_t t;

	fprintf(to, "set ylabel \"%s\"\nplot ", label);
	for (t = 0; t < nr; t++) {
		fprintf(to, "%s$flow%zu using 1:%d with lines lw 1.5 title ", t ? ", " : "", t,
			column);
		put_title(to, plot->track[t].flow, nr == 1 && column == 2 ? "W  " : "");
	}
	if (column == 2 && nr == 1)
		fprintf(to, ", $flow0 using 1:3 with lines dt 2 title \"Wc\"");
	if (column == 4)
		fprintf(to, ", $flow0 using 1:5 with lines dt 2 lc rgb \"#606060\" title \"eta\"");
	fputc('\n', to);
}

static bool is_above_0(const struct flow *flow, int column)
{
	uint32_t h;

	for (h = 0; h < flow->nr_hops; h++)
		if (flow->hop[h].known && (column == 2 ? flow->hop[h].u : flow->hop[h].qlen_ns) > 0)
			return true;
	return false;
}

/* gnuplot complains where it has to find a range for zeros alone. */
static void put_range(FILE *to, const struct plot *plot, int column)
{
	size_t i;

	for (i = 0; i < plot->nr; i++)
		if (same_flow(&plot->sample[i].flow, plot->track[0].flow) &&
		    is_above_0(&plot->sample[i].flow, column))
			break;
	fprintf(to, "set yrange [0:%s]\n", i < plot->nr ? "*" : "1");
}

/* A column of each hop of the first flow. */
static void draw_hops(FILE *to, const struct plot *plot, const char *label, int column)
{
	const struct track *track = &plot->track[0];
	uint32_t h;

	put_range(to, plot, column);
	fprintf(to, "set ylabel \"%s\"\nplot ", label);
	for (h = 0; h < track->hops; h++)
		fprintf(to, "%s$hops0 using 1:%u with lines lw 1.5 title \"hop %u\"", h ? ", " : "",
			column + 2 * h, h + 1);
	if (!track->hops)
		fprintf(to, "NaN title \"no hop was told of\"");
	fputc('\n', to);
}

/* When the recording began, by the clock on the wall. */
static const char *date_text(double time, char text[32])
{
	time_t seconds = time;
	struct tm tm;

	strftime(text, 32, "%F %T", localtime_r(&seconds, &tm));
	return text;
}

/* gnuplot is told of a file that is open, as it runs what some names say: |CMD, or a line's end. */
static void script(FILE *to, const struct plot *plot, int fd, size_t nr)
{
	double took = plot->sample[plot->nr - 1].time - plot->sample[0].time;
	char date[32];
	size_t t;

	fprintf(to, "set terminal svg size 900,1000 dynamic noenhanced font \"sans,12\" "
		"background rgb \"white\"\nset output '/proc/self/fd/%d'\n"
		"set datafile missing \"NaN\"\n", fd);
	for (t = 0; t < nr; t++)
		put_data(to, plot, t, "flow", put_law);
	put_data(to, plot, 0, "hops", put_hops);
	fprintf(to, "set multiplot layout 4,1\nset grid\nset key outside top center horizontal\n"
		"set lmargin 10\nset xlabel \"s since %s\" offset 0,0.5\nset yrange [0:*]\n"
		"set xrange [0:%g]\n", date_text(plot->sample[0].time, date), took > 0 ? took : 1);
	draw_flows(to, plot, nr, "W, KB", 2);
	draw_flows(to, plot, nr, "U", 4);
	fprintf(to, "set title ");
	put_title(to, plot->track[0].flow, "hops of ");
	fputc('\n', to);
	draw_hops(to, plot, "u'", 2);
	fprintf(to, "unset title\n");
	draw_hops(to, plot, "queue, us", 3);
	fprintf(to, "unset multiplot\nset output\n");
}

static bool is_whole(int fd)
{
	static const char end[] = "</svg>";
	char last[32] = "";
	off_t at = lseek(fd, 0, SEEK_END) - (off_t)(sizeof(last) - 1);

	return at >= 0 && pread(fd, last, sizeof(last) - 1, at) > 0 && strstr(last, end);
}

static void draw(const struct plot *plot, const char *output, size_t nr)
{
	FILE *gnuplot;
	int status, fd;
	char *new;

	fflush(stdout);
	new = file_beside(output, &fd);
	gnuplot = popen("exec gnuplot", "w");
	if (!gnuplot) {
		unlink(new);
		die("out of memory or processes");
	}
	script(gnuplot, plot, fd, nr);
	status = pclose(gnuplot);
	if (status || !is_whole(fd)) {
		unlink(new);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
			die("gnuplot draws, and is not here: install gnuplot-nox");
		die("%s could not be drawn: gnuplot failed, or the disk is full", output);
	}
	file_replace(new, fd, output);
	free(new);
}

static void tell_json(const struct plot *plot, const char *output)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "output", json_object_new_string(output));
	json_object_object_add(object, "samples", json_object_new_uint64(plot->nr));
	json_object_object_add(object, "flows", json_object_new_uint64(plot->nr_tracks));
	json_line(object);
}

/* FILE.csv becomes FILE.svg. */
static char *default_output(const char *name)
{
	const char *base = strcmp(name, "-") ? name : "hpccmon", *dot = strrchr(base, '.');
	int length = dot && !strchr(dot, '/') ? dot - base : (int)strlen(base);
	char *output;

	if (asprintf(&output, "%.*s.svg", length, base) < 0)
		die("out of memory");
	if (!strcmp(output, name))
		usage("%s would be overwritten: --output=FILE names another file", name);
	return output;
}

int cmd_plot(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "output", required_argument, NULL, 'o' },
		{ }
	};
	char *output = NULL;
	struct wanted wanted;
	struct plot plot = {};
	bool json = false;
	int option;
	size_t nr;

	while ((option = next_option(argc, argv, "jo:", options)) != -1) {
		if (option == 'j')
			json = true;
		else
			output = allocated(strdup(optarg));
	}
	if (optind == argc)
		usage("which file? \"hpccmon record\" writes it");
	wanted_parse(&wanted, argc - optind - 1, argv + optind + 1);
	output = output ?: default_output(argv[optind]);
	read_file(&plot, argv[optind], &wanted);
	qsort(plot.sample, plot.nr, sizeof(*plot.sample), sooner);
	find_tracks(&plot);
	nr = plot.nr_tracks < FLOWS_MAX ? plot.nr_tracks : FLOWS_MAX;
	draw(&plot, output, nr);
	if (json)
		tell_json(&plot, output);
	else
		printf("%s: %zu samples, flows: %zu%s\n", output, plot.nr, plot.nr_tracks,
		       nr < plot.nr_tracks ? ", of which 8 are drawn" : "");
	free(plot.sample);
	free(plot.track);
	free(output);
	return 0;
}
