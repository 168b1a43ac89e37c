/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon plot: a recording in memory, and the selection of samples to draw. */
#ifndef HPCCMON_SAMPLES_H
#define HPCCMON_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "record.h"

/**
 * struct track - a flow that has samples
 * @local: address and port of this end
 * @peer: address and port of the other end
 * @cookie: SO_COOKIE, which can be reused by a flow with other ends
 * @samples: number of samples
 * @hops: maximum number of hops in a sample
 */
struct track {
	struct endpoint	local;
	struct endpoint	peer;
	uint64_t	cookie;
	size_t		samples;
	uint32_t	hops;
};

#define LAWS	4

/* A line of a recording; there may be tens of millions. */
struct sample {
	double		time;		/* s */
	struct track	*track;
	float		law[LAWS];		/* W and Wc, KB; U; eta */
	uint32_t	nr_hops;
	uint32_t	load;		/* index of the first hop's values in samples.load */
};

/**
 * struct samples - a recording
 * @sample: lines, sorted by time
 * @load: two values for each hop of each sample: u', and the queue in us; NaN if unknown
 * @track: flows, the one with the most samples first
 * @nr: number of elements of @sample
 * @nr_loads: number of elements of @load
 * @nr_tracks: number of elements of @track
 */
struct samples {
	struct sample	*sample;
	float		*load;
	struct track	**track;
	size_t		nr;
	size_t		nr_loads;
	size_t		nr_tracks;
};

void samples_read(struct samples *samples, const char *name, const struct filter *filter);
bool samples_any_load(const struct samples *samples, const struct track *track, unsigned int what);
void samples_put_law(FILE *to, const struct samples *samples, const struct track *track);
void samples_put_hops(FILE *to, const struct samples *samples, const struct track *track);
void samples_free(struct samples *samples);

#endif /* HPCCMON_SAMPLES_H */
