// SPDX-License-Identifier: GPL-2.0
/* hpccmon: --json. Names are the same as in the text output, with the unit appended. */
#include "hpccmon.h"

static void put_number(struct json_object *to, const char *name, uint64_t number)
{
	json_object_object_add(to, name, json_object_new_uint64(number));
}

static void put_text(struct json_object *to, const char *name, const char *text)
{
	json_object_object_add(to, name, json_object_new_string(text));
}

static void put_flag(struct json_object *to, const char *name, bool flag)
{
	json_object_object_add(to, name, json_object_new_boolean(flag));
}

static void put_part(struct json_object *to, const char *name, double part)
{
	char text[32];

	snprintf(text, sizeof(text), "%.8g", part);
	json_object_object_add(to, name, json_object_new_double_s(part, text));
}

static struct json_object *hop_json(const struct hop *hop)
{
	struct json_object *object = json_object_new_object();

	put_number(object, "hop", hop->nr);
	if (hop->known) {
		put_part(object, "u", hop->u);
		put_number(object, "qlen_ns", hop->qlen_ns);
		put_number(object, "age_us", hop->age_us);
		if (hop->held_us)
			put_number(object, "held_us", hop->held_us);
	}
	if (hop->quiet) {
		put_part(object, "u", hop->u);
		put_flag(object, "quiet", true);
	}
	if (hop->named) {
		put_number(object, "node", hop->node);
		put_number(object, "port", hop->port);
		put_number(object, "B_bps", hop->bps);
	}
	return object;
}

static void put_hops(struct json_object *to, const struct flow *flow)
{
	struct json_object *hops = json_object_new_array();
	const struct hop *holder = flow_holder(flow);
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++)
		json_object_array_add(hops, hop_json(&flow->hop[i]));
	json_object_object_add(to, "hops", hops);
	if (holder)
		put_number(to, "holds", holder->nr);
}

/* The ends of the flow, and the values that control W. */
static void put_state(struct json_object *to, const struct flow *flow)
{
	char text[ENDPOINT_MAX];

	put_text(to, "laddr", addr_text(&flow->local, text));
	put_number(to, "lport", flow->local.port);
	put_text(to, "raddr", addr_text(&flow->peer, text));
	put_number(to, "rport", flow->peer.port);
	put_number(to, "cookie", flow->cookie);
	if (flow->ifindex)
		put_number(to, "ifindex", flow->ifindex);
	put_text(to, "mode", mode_text(flow->mode));
	if (*flow->cc)
		put_text(to, "cc", flow->cc);
	put_text(to, "fell_back", fell_back_text(flow->fell_back));
	put_number(to, "W", flow->W);
	put_number(to, "Wc", flow->Wc);
	put_number(to, "W_init", flow->W_init);
	put_number(to, "W_min", flow->W_min);
	if (flow_is_measured(flow))
		put_part(to, "U", flow->U);
	put_part(to, "eta", flow->eta);
	put_number(to, "R_bps", 8 * flow->R);
	put_number(to, "T_ns", flow->T_ns);
	put_number(to, "incStage", flow->inc_stage);
	put_number(to, "maxStage", flow->max_stage);
}

struct json_object *flow_json(const struct flow *flow)
{
	struct json_object *object = json_object_new_object();
	char text[256];
	size_t i;

	put_state(object, flow);
	if (flow->N)
		put_number(object, "N", flow->N);
	put_number(object, "sample_ns", flow->sample_ns);
	put_flag(object, "receiver", flow->receiver);
	put_flag(object, "probes", flow->probes);
	put_flag(object, "muted", flow->muted);
	put_flag(object, "signed", flow->is_signed);
	put_flag(object, "powertcp", flow->powertcp);
	put_flag(object, "busy", flow->busy);
	put_number(object, "received", flow->received);
	for (i = 0; i < NR_IGNORED; i++)
		put_number(object, ignored[i].reason, member_value(flow, ignored[i].nr));
	put_hops(object, flow);
	put_text(object, "why", why_text(flow, text, sizeof(text)));
	return object;
}

struct json_object *event_json(const struct flow *flow)
{
	struct json_object *object = json_object_new_object();

	put_text(object, "event", event_text(flow->event));
	put_state(object, flow);
	put_number(object, "missed", flow->missed);
	return object;
}

/* Print an object as one line, and free it. */
void json_line(struct json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}
