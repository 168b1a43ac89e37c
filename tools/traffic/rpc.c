// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: requests and responses over one connection, in a closed loop. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "traffic.h"

static void begin_message(struct flow *f, uint64_t bytes)
{
	f->bytes = bytes;
	f->sent = 0;
	f->received = 0;
	set_lowat(f);
	begin_flow(f);
}

static void finish(struct rpc *r)
{
	r->done = true;
	r->next_ns = NEVER;
	nr_undone--;
	nr_ended++;
	release(&r->request);
	release(&r->response);
}

static void next_call(struct rpc *r, uint64_t due_ns)
{
	if ((r->count && r->nr_calls == r->count) || (r->until_ns && due_ns >= r->until_ns)) {
		finish(r);
		return;
	}
	r->next_ns = due_ns;
}

/* Send a request. Its latency starts at the time at which it is due, even if we send it later. */
static void call(struct rpc *r)
{
	r->request.start_ns = r->next_ns;
	r->next_ns = NEVER;
	begin_message(&r->request, r->request_bytes);
}

void start_rpcs(uint64_t t_ns)
{
	unsigned int i;

	for (i = 0; i < nr_rpcs; i++)
		if (rpcs[i].next_ns <= t_ns)
			call(&rpcs[i]);
}

uint64_t next_rpc_ns(void)
{
	uint64_t next = NEVER;
	unsigned int i;

	for (i = 0; i < nr_rpcs; i++)
		if (rpcs[i].next_ns < next)
			next = rpcs[i].next_ns;
	return next;
}

/* A message has arrived: the request or the response. */
void rpc_advance(struct flow *f, uint64_t t_ns)
{
	struct rpc *r = f->rpc;

	if (f == &r->request) {
		begin_message(&r->response, r->response_bytes);
		return;
	}
	r->latency_ns = grown(r->latency_ns, r->nr_calls, sizeof(*r->latency_ns));
	r->latency_ns[r->nr_calls++] = t_ns - r->request.start_ns;
	next_call(r, t_ns + r->think_ns);
	if (r->next_ns <= t_ns)
		call(r);
}

void put_rpcs(FILE *out)
{
	unsigned int i;
	uint64_t n;

	for (i = 0; i < nr_rpcs; i++) {
		fprintf(out, "{\"kind\":\"rpc\",\"id\":%u,\"done\":%s,\"latency_ns\":[", rpcs[i].id,
			rpcs[i].done ? "true" : "false");
		for (n = 0; n < rpcs[i].nr_calls; n++)
			fprintf(out, "%s%" PRIu64, n ? "," : "", rpcs[i].latency_ns[n]);
		fprintf(out, "]}\n");
	}
}
