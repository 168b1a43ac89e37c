// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon plot: draw a recording with gnuplot, as four diagrams over time in an SVG file: W, U, and
 * u' and queue of each hop of the flow with the most samples.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "samples.h"

/* With more lines a diagram is hard to read. */
#define FLOWS_MAX	8

static void put_title(FILE *to, const struct track *track, const char *what)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX];

	fprintf(to, "\"%s%s > %s\"", what, endpoint_text(&track->local, local),
		endpoint_text(&track->peer, peer));
}

/* Draw one column of each flow. */
static void draw_flows(FILE *to, const struct samples *samples, size_t nr, const char *label,
		       int column)
{
	size_t t;

	fprintf(to, "set ylabel \"%s\"\nplot ", label);
	for (t = 0; t < nr; t++) {
		fprintf(to, "%s$flow%zu using 1:%d with lines lw 1.5 title ", t ? ", " : "", t,
			column);
		/* The second diagram has the same colours, so it needs no titles. */
		if (column == 2)
			put_title(to, samples->track[t], nr == 1 ? "W  " : "");
		else
			fprintf(to, "\"\"");
	}
	if (column == 2 && nr == 1)
		fprintf(to, ", $flow0 using 1:3 with lines dt 2 title \"Wc\"");
	if (column == 4)
		fprintf(to, ", $flow0 using 1:5 with lines dt 2 lc rgb \"#606060\" title \"eta\"");
	fputc('\n', to);
}

/* Draw a column of each hop of the first flow. */
static void draw_hops(FILE *to, const struct samples *samples, const char *label, int column)
{
	const struct track *track = samples->track[0];
	uint32_t h;

	/* gnuplot warns if it must choose a range for values that are all 0. */
	fprintf(to, "set yrange [0:%s]\nset ylabel \"%s\"\nplot ",
		samples_any_load(samples, track, column - 2) ? "*" : "1", label);
	for (h = 0; h < track->hops; h++)
		fprintf(to, "%s$hops0 using 1:%u with lines lw 1.5 title \"hop %u\"", h ? ", " : "",
			column + 2 * h, h + 1);
	if (!track->hops)
		fprintf(to, "NaN title \"no data of hops\"");
	fputc('\n', to);
}

/* The time of day at the start of the recording. */
static const char *date_text(double time, char text[32])
{
	time_t seconds = time;
	struct tm tm;

	strftime(text, 32, "%F %T", localtime_r(&seconds, &tm));
	return text;
}

/* Pass an open file to gnuplot and not its name, because gnuplot runs the commands in names such as
 * |CMD, or after a newline in a name.
 */
static void script(FILE *to, const struct samples *samples, int fd, size_t nr)
{
	double took = samples->sample[samples->nr - 1].time - samples->sample[0].time;
	char date[32];
	size_t t;

	fprintf(to, "set terminal svg size 900,1000 dynamic noenhanced font \"sans,12\" "
		"background rgb \"white\"\nset output '/proc/self/fd/%d'\n"
		"set datafile missing \"NaN\"\n", fd);
	for (t = 0; t < nr; t++) {
		fprintf(to, "$flow%zu << EOD\n", t);
		samples_put(to, samples, samples->track[t], false);
		fprintf(to, "EOD\n");
	}
	fprintf(to, "$hops0 << EOD\n");
	samples_put(to, samples, samples->track[0], true);
	fprintf(to, "EOD\n");
	fprintf(to, "set multiplot layout 4,1\nset grid\nset key outside top center horizontal\n"
		"set lmargin 10\nset xlabel \"s since %s\" offset 0,0.5\nset yrange [0:*]\n"
		"set xrange [0:%g]\n", date_text(samples->sample[0].time, date),
		took > 0 ? took : 1);
	draw_flows(to, samples, nr, "W, KB", 2);
	draw_flows(to, samples, nr, "U", 4);
	fprintf(to, "set title ");
	put_title(to, samples->track[0], "hops of ");
	fputc('\n', to);
	draw_hops(to, samples, "u'", 2);
	fprintf(to, "unset title\n");
	draw_hops(to, samples, "queue, us", 3);
	fprintf(to, "unset multiplot\nset output\n");
}

static bool is_whole(int fd)
{
	static const char end[] = "</svg>";
	char last[32] = "";
	off_t at = lseek(fd, 0, SEEK_END) - (off_t)(sizeof(last) - 1);

	return at >= 0 && pread(fd, last, sizeof(last) - 1, at) > 0 && strstr(last, end);
}

static void draw(const struct samples *samples, const char *output, size_t nr)
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
	script(gnuplot, samples, fd, nr);
	status = pclose(gnuplot);
	if (status || !is_whole(fd)) {
		unlink(new);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
			die("gnuplot is not installed; install gnuplot-nox");
		die("%s could not be drawn: gnuplot failed, or the disk is full", output);
	}
	file_replace(new, fd, output);
	free(new);
}

static void tell_json(const struct samples *samples, const char *output)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "output", json_object_new_string(output));
	json_object_object_add(object, "samples", json_object_new_uint64(samples->nr));
	json_object_object_add(object, "flows", json_object_new_uint64(samples->nr_tracks));
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
		usage("%s is the recording itself; select another file with --output=FILE", name);
	return output;
}

int cmd_plot(int argc, char **argv)
{
	const char *output = NULL;
	bool json = false;
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &json },
		{ "output", 'o', OPTION_TEXT, .to = &output },
		{ }
	};
	struct samples samples = {};
	struct filter filter;
	char *chosen = NULL;
	size_t nr;

	take_options(argc, argv, options);
	if (optind == argc)
		usage("no file given; \"hpccmon record\" writes such files");
	filter_parse(&filter, argc - optind - 1, argv + optind + 1);
	if (!output)
		chosen = default_output(argv[optind]);
	output = output ?: chosen;
	samples_read(&samples, argv[optind], &filter);
	nr = samples.nr_tracks < FLOWS_MAX ? samples.nr_tracks : FLOWS_MAX;
	draw(&samples, output, nr);
	if (json)
		tell_json(&samples, output);
	else
		printf("%s: %zu samples, flows: %zu%s\n", output, samples.nr, samples.nr_tracks,
		       nr < samples.nr_tracks ? ", of which 8 are drawn" : "");
	samples_free(&samples);
	free(chosen);
	return 0;
}
