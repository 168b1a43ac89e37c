/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon plot: a recording in memory, and the selection of samples to draw. */
#ifndef HPCCMON_SAMPLES_H
#define HPCCMON_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "record.h"

/* A flow that has samples. */
struct track {
	struct endpoint	local;
	struct endpoint	peer;
	uint64_t	cookie;		/* a flow with other ends may have the same cookie later */
	size_t		samples;	/* number of samples */
	uint32_t	hops;		/* maximum number of hops in a sample */
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

/* A recording. */
struct samples {
	struct sample	*sample;	/* lines, sorted by time */
	float		*load;		/* u' and queue (us) by sample and hop; NaN: unknown */
	struct track	**track;	/* flows; the flow with the most samples is the first */
	size_t		nr;
	size_t		nr_loads;
	size_t		nr_tracks;
};

void samples_read(struct samples *samples, const char *name, const struct filter *filter);
bool samples_any_load(const struct samples *samples, const struct track *track, unsigned int what);
void samples_put(FILE *to, const struct samples *samples, const struct track *track, bool loads);
void samples_free(struct samples *samples);

#endif /* HPCCMON_SAMPLES_H */
