// SPDX-License-Identifier: GPL-2.0
/* hpccmon record: flows by cookie; the record of an ACK identifies its flow only by the cookie. */
#include <stdlib.h>

#include "record.h"

struct known_flows {
	struct known	*slot;	/* cookie 0: empty */
	size_t		room;	/* a power of 2 */
	size_t		used;
};

struct known_flows *known_new(void)
{
	struct known_flows *flows = allocated(calloc(1, sizeof(*flows)));

	flows->room = 64;
	flows->slot = allocated(calloc(flows->room, sizeof(*flows->slot)));
	return flows;
}

static struct known *slot_of(const struct known_flows *flows, uint64_t cookie)
{
	size_t at = cookie * 0x9e3779b97f4a7c15ULL >> 32;

	for (at &= flows->room - 1; flows->slot[at].cookie; at = (at + 1) & (flows->room - 1))
		if (flows->slot[at].cookie == cookie)
			break;
	return &flows->slot[at];
}

/* Return: NULL if the cookie is not known. */
struct known *known_find(const struct known_flows *flows, uint64_t cookie)
{
	struct known *known = slot_of(flows, cookie);

	return known->cookie ? known : NULL;
}

static void grow(struct known_flows *flows)
{
	const struct known_flows before = *flows;
	size_t i;

	flows->room *= 2;
	flows->slot = allocated(calloc(flows->room, sizeof(*flows->slot)));
	for (i = 0; i < before.room; i++)
		if (before.slot[i].cookie)
			*slot_of(flows, before.slot[i].cookie) = before.slot[i];
	free(before.slot);
}

static void write_columns(struct known *known, const struct flow *flow)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX];

	known->who_length = snprintf(known->who, sizeof(known->who), ",%s,%s,%llu,%s,",
				     endpoint_text(&flow->local, local),
				     endpoint_text(&flow->peer, peer),
				     (unsigned long long)flow->cookie, mode_text(flow->mode));
	known->eta_length = snprintf(known->eta_text, sizeof(known->eta_text), ",%.6f,",
				     flow->eta);
}

const struct known *known_put(struct known_flows *flows, const struct flow *flow)
{
	/* The cookie 0 marks empty slots. */
	uint64_t cookie = flow->cookie ?: UINT64_MAX;
	struct known *known;

	if (2 * flows->used >= flows->room)
		grow(flows);
	known = slot_of(flows, cookie);
	if (!known->cookie || known->mode != flow->mode || known->eta != flow->eta)
		write_columns(known, flow);
	flows->used += !known->cookie;
	known->cookie = cookie;
	known->mode = flow->mode;
	known->W_init = flow->W_init;
	known->eta = flow->eta;
	return known;
}

size_t known_number(const struct known_flows *flows)
{
	return flows->used;
}

void known_free(struct known_flows *flows)
{
	free(flows->slot);
	free(flows);
}
