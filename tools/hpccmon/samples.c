// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon plot: read a recording, and select the samples to draw. A long recording has more lines
 * than a diagram has columns of pixels, so time is divided into bins. In each bin we draw the first
 * and the last sample, and the samples with the minimum and the maximum of each value. The result
 * looks the same as a diagram with all samples.
 */
#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"

/* Number of bins; a diagram has fewer columns of pixels. */
#define BINS		1000
#define LOADS_MAX	(2 * HPCC_HOPS_MAX)

/* Return: @array, with room for one more element than @nr. */
static void *grown(void *array, size_t nr, size_t size)
{
	if (nr & (nr - 1))
		return array;
	return allocated(reallocarray(array, nr ? 2 * nr : 1, size));
}

/* A later flow may have the cookie of an earlier flow, but not also its addresses and ports. */
static int compare_tracks(const void *one, const void *other)
{
	const struct track *a = one, *b = other;

	return a->cookie < b->cookie ? -1 : a->cookie > b->cookie ? 1 :
	       memcmp(&a->local, &b->local, sizeof(a->local)) ?:
	       memcmp(&a->peer, &b->peer, sizeof(a->peer));
}

static struct track *track_of(struct samples *samples, void **tree, const struct flow *flow)
{
	const struct track key = {
		.local = flow->local, .peer = flow->peer, .cookie = flow->cookie
	};
	struct track *track, **found = tfind(&key, tree, compare_tracks);

	if (found)
		return *found;
	track = allocated(malloc(sizeof(*track)));
	*track = key;
	allocated(tsearch(track, tree, compare_tracks));
	samples->track = grown(samples->track, samples->nr_tracks, sizeof(*samples->track));
	samples->track[samples->nr_tracks++] = track;
	return track;
}

static void add_loads(struct samples *samples, const struct flow *flow)
{
	const struct hop *hop;
	float load[2];
	uint32_t i, j;

	for (i = 0; i < flow->nr_hops; i++) {
		hop = &flow->hop[i];
		load[0] = hop->known ? hop->u : NAN;
		load[1] = hop->known ? hop->qlen_ns / 1e3 : NAN;
		for (j = 0; j < 2; j++) {
			samples->load = grown(samples->load, samples->nr_loads, sizeof(float));
			samples->load[samples->nr_loads++] = load[j];
		}
	}
}

static void add_sample(struct samples *samples, void **tree, const struct flow *flow, double time)
{
	struct track *track = track_of(samples, tree, flow);
	struct sample *sample;

	if (samples->nr_loads > UINT32_MAX - LOADS_MAX)
		die("too many records of hops; select a flow, to draw only that flow");
	samples->sample = grown(samples->sample, samples->nr, sizeof(*sample));
	sample = &samples->sample[samples->nr++];
	*sample = (struct sample){
		.time = time,
		.track = track,
		.law = { flow->W / 1e3, flow->Wc / 1e3, flow->U, flow->eta },
		.nr_hops = flow->nr_hops,
		.load = samples->nr_loads,
	};
	add_loads(samples, flow);
	track->samples++;
	if (flow->nr_hops > track->hops)
		track->hops = flow->nr_hops;
}

static void read_lines(struct samples *samples, FILE *file, const char *name,
		       const struct filter *filter)
{
	unsigned long long nr = 0;
	void *tree = NULL;
	char *line = NULL;
	struct flow flow;
	size_t room = 0;
	double time;

	while (getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!nr++ && strcmp(line, csv_head))
			die("%s is not a recording of hpccmon: its first line is not %s", name,
			    csv_head);
		if (nr == 1)
			continue;
		if (!csv_parse(line, &flow, &time))
			die("%s, line %llu: this is not a line of a recording", name, nr);
		if (filter_matches(filter, &flow))
			add_sample(samples, &tree, &flow, time);
	}
	free(line);
	while (tree)
		tdelete(*(void **)tree, &tree, compare_tracks);
}

static int more_samples(const void *one, const void *other)
{
	const struct track *const *a = one, *const *b = other;

	return (*a)->samples < (*b)->samples ? 1 : (*a)->samples > (*b)->samples ? -1 : 0;
}

static int sooner(const void *one, const void *other)
{
	const struct sample *a = one, *b = other;

	return a->time < b->time ? -1 : a->time > b->time;
}

/* Read a file of "hpccmon record"; - is standard input. The program ends if there is no sample. */
void samples_read(struct samples *samples, const char *name, const struct filter *filter)
{
	FILE *file = strcmp(name, "-") ? fopen(name, "re") : stdin;

	if (!file)
		die("%s: %s", name, strerror(errno));
	read_lines(samples, file, name, filter);
	if (ferror(file))
		die("%s: %s", name, strerror(errno));
	if (file != stdin)
		fclose(file);
	if (!samples->nr)
		die("%s contains no sample%s%s", name, *filter->text ? " of " : "", filter->text);
	/* An ACK that was read after a dump of the flows may be older than the dump. */
	qsort(samples->sample, samples->nr, sizeof(*samples->sample), sooner);
	qsort(samples->track, samples->nr_tracks, sizeof(*samples->track), more_samples);
}

void samples_free(struct samples *samples)
{
	size_t t;

	for (t = 0; t < samples->nr_tracks; t++)
		free(samples->track[t]);
	free(samples->track);
	free(samples->load);
	free(samples->sample);
}

/* The rows of a bin: the first, the last, then the minimum and the maximum of each column. */
struct bin {
	const struct sample	*row[2 + 2 * LOADS_MAX];
	unsigned int		columns;
	bool			any;
};

typedef float (*column_fn)(const struct samples *samples, const struct sample *sample,
			   unsigned int column);

static float law_of(const struct samples *samples, const struct sample *sample,
		    unsigned int column)
{
	(void)samples;
	return sample->law[column];
}

static float load_of(const struct samples *samples, const struct sample *sample,
		     unsigned int column)
{
	return column < 2 * sample->nr_hops ? samples->load[sample->load + column] : NAN;
}

static void take(struct bin *bin, const struct samples *samples, const struct sample *sample,
		 column_fn value)
{
	const struct sample **least = &bin->row[2], **most = &bin->row[3];
	unsigned int c, nr = 2 + 2 * bin->columns;
	float now;

	for (c = 0; !bin->any && c < nr; c++)
		bin->row[c] = sample;
	bin->any = true;
	bin->row[1] = sample;
	for (c = 0; c < bin->columns; c++, least += 2, most += 2) {
		now = value(samples, sample, c);
		if (!(now >= value(samples, *least, c)))
			*least = sample;
		if (!(now <= value(samples, *most, c)))
			*most = sample;
	}
}

static int earlier(const void *one, const void *other)
{
	const struct sample *const *a = one, *const *b = other;

	return *a < *b ? -1 : *a > *b;
}

static void put_bin(FILE *to, struct bin *bin, const struct samples *samples, column_fn value)
{
	unsigned int r, c, nr = bin->any ? 2 + 2 * bin->columns : 0;

	qsort(bin->row, nr, sizeof(*bin->row), earlier);
	for (r = 0; r < nr; r++) {
		if (r && bin->row[r] == bin->row[r - 1])
			continue;
		fprintf(to, "%.6f", bin->row[r]->time - samples->sample[0].time);
		for (c = 0; c < bin->columns; c++)
			fprintf(to, " %g", value(samples, bin->row[r], c));
		fputc('\n', to);
	}
	bin->any = false;
}

/* Write a line for each sample to draw: seconds since the first sample; W, Wc, U and eta or, if
 * @loads is set, u' and queue of each hop. Samples of ACKs have no hops. If @loads is set, we omit
 * them, because they would interrupt the curves of the hops.
 */
void samples_put(FILE *to, const struct samples *samples, const struct track *track, bool loads)
{
	column_fn value = loads ? load_of : law_of;
	struct bin bin = { .columns = loads ? 2 * track->hops : LAWS };
	const struct sample *sample = samples->sample, *end = sample + samples->nr;
	double first = sample->time, width = (end[-1].time - first) / BINS, until = first + width;

	for (; sample < end; sample++) {
		if (sample->track != track || (loads && !sample->nr_hops))
			continue;
		if (sample->time > until) {
			put_bin(to, &bin, samples, value);
			until = sample->time + width;
		}
		take(&bin, samples, sample, value);
	}
	put_bin(to, &bin, samples, value);
}

/* Whether any hop of a flow had load; @what is 0 for u', 1 for the queue. */
bool samples_any_load(const struct samples *samples, const struct track *track, unsigned int what)
{
	unsigned int c;
	size_t i;

	for (i = 0; i < samples->nr; i++)
		for (c = what; c < 2 * samples->sample[i].nr_hops; c += 2)
			if (samples->sample[i].track == track &&
			    load_of(samples, &samples->sample[i], c) > 0)
				return true;
	return false;
}
