// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-traffic: collective operations, such as an all-reduce. An edge is a connection that carries
 * messages of one size. Message m of a step is sent when message m - FREE has arrived on each edge
 * of AFTER; the first FREE messages are sent when the step begins. A step ends when all its
 * messages have arrived, and the next step begins at once.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "traffic.h"

/* Send the messages of an edge whose time has come. */
static void advance(struct collective *c, struct edge *e)
{
	uint64_t before = c->nr_steps * e->count, bytes;
	uint64_t arrived = e->nr_after ? NEVER : 0;
	unsigned int i;
	bool waits;

	for (i = 0; i < e->nr_after; i++) {
		const struct edge *p = &edges[c->first + e->after[i]];

		arrived = least(arrived, p->arrived - c->nr_steps * p->count);
	}
	bytes = (before + least(e->count, e->free + arrived)) * e->bytes;
	/* If earlier bytes do not fit into the send buffer, epoll reports when they do. */
	waits = e->flow.sent < e->flow.bytes;
	e->flow.bytes = bytes;
	if (!waits && e->flow.sent < bytes)
		fill(&e->flow);
}

static void advance_all(struct collective *c)
{
	unsigned int i;

	for (i = c->first; i < c->first + c->nr_edges; i++)
		advance(c, &edges[i]);
}

static void begin_step(struct collective *c)
{
	unsigned int i;

	c->left = 0;
	for (i = c->first; i < c->first + c->nr_edges; i++)
		c->left += edges[i].count;
	advance_all(c);
}

static void end_step(struct collective *c, uint64_t t_ns)
{
	unsigned int i;

	c->step_ns = grown(c->step_ns, c->nr_steps, sizeof(*c->step_ns));
	c->step_ns[c->nr_steps++] = t_ns - c->begun_ns;
	c->begun_ns = t_ns;
	if (c->nr_steps < c->steps) {
		begin_step(c);
		return;
	}
	nr_undone--;
	nr_ended++;
	for (i = c->first; i < c->first + c->nr_edges; i++)
		release(&edges[i].flow);
}

/* Bytes that are missing until the next message is complete. */
uint64_t message_left(const struct flow *f)
{
	return f->edge->bytes - f->received % f->edge->bytes;
}

void edge_received(struct flow *f, uint64_t t_ns)
{
	struct edge *e = f->edge;
	struct collective *c = &collectives[e->collective];
	uint64_t arrived = f->received / e->bytes - e->arrived;

	e->arrived += arrived;
	c->left -= arrived;
	set_lowat(f);
	if (arrived && c->left)
		advance_all(c);
	else if (arrived)
		end_step(c, t_ns);
}

void start_collectives(uint64_t t_ns)
{
	unsigned int i;

	for (i = 0; i < nr_collectives; i++) {
		struct collective *c = &collectives[i];

		if (c->begun || c->begun_ns > t_ns)
			continue;
		c->begun = true;
		begin_step(c);
	}
}

uint64_t next_collective_ns(void)
{
	uint64_t next = NEVER;
	unsigned int i;

	for (i = 0; i < nr_collectives; i++)
		if (!collectives[i].begun)
			next = least(next, collectives[i].begun_ns);
	return next;
}

void put_collectives(FILE *out)
{
	unsigned int i, n;
	uint64_t retrans;

	for (i = 0; i < nr_collectives; i++) {
		const struct collective *c = &collectives[i];

		retrans = 0;
		for (n = c->first; n < c->first + c->nr_edges; n++) {
			if (c->nr_steps < c->steps)
				read_info(&edges[n].flow);
			retrans += edges[n].flow.retrans;
		}
		fprintf(out, "{\"kind\":\"collective\",\"id\":%u,\"retrans\":%" PRIu64
			",\"step_ns\":[", c->id, retrans);
		for (n = 0; n < c->nr_steps; n++)
			fprintf(out, "%s%" PRIu64, n ? "," : "", c->step_ns[n]);
		fprintf(out, "]}\n");
	}
}
