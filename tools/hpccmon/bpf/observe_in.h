/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon observe: options in arriving segments. A part of observe.bpf.c. */
#ifndef HPCCMON_BPF_OBSERVE_IN_H
#define HPCCMON_BPF_OBSERVE_IN_H

/* From here on values that were stored are loaded again. What is loaded from the map is unknown to
 * the verifier, so it checks the code that follows only once.
 */
static __always_inline void load_again(void)
{
	asm volatile("" : : : "memory");
}

/* As hpcc_opt_misfits(), but echoes may also have free slots. */
static __always_inline bool is_misfit(const struct observed_flow *flow, __u8 type, __u8 hops)
{
	__u32 i, hop, map, seen = 0;

#pragma unroll
	for (i = 0; i < HPCC_OPT_RECORDS_MAX; i++) {
		__u64 v = flow->in[i];

		if (!v)
			continue;
		hop = v >> 60;
		map = hop ? 1U << (hop - 1) : type == HPCC_OPT_ECHO ? v >> 45 : 0;
		if (!map || map >> hops || seen & map)
			return true;
		seen |= map;
	}
	return false;
}

/* A request of the peer: its records wait for an echo. */
static __always_inline void take_request(struct observed_flow *flow, __u32 nr, __u8 names)
{
	__u32 i, hop, seen = 0, last = 0, after = flow->got.phase * nr;
	__u8 scale = flow->got.scale, hops = flow->got.hops;
	bool free = false;

	if (flow->fresh && flow->echo_names && !names)
		return;
	if (flow->echo_names != names || flow->echo_scale != scale || flow->echo_hops != hops) {
		flow->fresh = 0;
		flow->still = 0;
	}
	flow->echo_names = names;
	flow->echo_scale = scale;
	flow->echo_hops = hops;
#pragma unroll
	for (i = 0; i < HPCC_OPT_RECORDS_MAX; i++) {
		hop = flow->in[i] >> 60;
		if (!hop) {
			free |= i < nr;
			continue;
		}
		flow->echo[hop] = flow->in[i];
		seen |= 1U << (hop - 1);
		last = hop > last ? hop : last;
	}
	flow->fresh |= seen << 1;
	if (names || !flow->peer_quiet)
		return;
	/* Hops that were addressed and wrote no record are quiet. */
	last = free ? hops : last;
	seen = after < last ? ((1U << last) - 1) & ~((1U << (after & 31)) - 1) & ~seen : 0;
	flow->still = (flow->still & ~(flow->fresh >> 1)) | seen;
	flow->fresh &= ~(seen << 1);
}

/* Keep a load record, unless it is of the same burst as the last one, or older. After a report that
 * the hop is quiet, the records before do not count: the link may have sent much or nothing since.
 */
static __noinline int keep(struct observed_flow *flow, __u64 record, __u64 now)
{
	struct observed_hop *at = &flow->hop[record >> 60];
	__u64 since = ((record >> 32) - (at->last >> 32)) & 0xfffff;
	__u64 apart = now - at->last_ns, before = at->apart_ns ?: apart;
	__u32 bit = 1U << (record >> 60) >> 1;
	bool quiet = flow->quiet & bit, same = !quiet && !((record ^ at->last) >> 52);
	__u8 scale = flow->got.scale & 31;
	bool near = same && scale == at->last_scale && apart < OBSERVED_HALF << scale;

	flow->quiet &= ~bit;
	if (near && (since << scale < flow->gap_ns / 2 || since >= OBSERVED_HALF))
		return 0;
	if (same) {
		flow->apart_ns[0] = apart < before ? apart : before;
		flow->apart_ns[1] = apart < before ? before : apart;
	}
	if (near || quiet) {
		at->record[1] = quiet ? 0 : at->last;
		at->record[0] = record;
		at->ns = now;
		at->scale = scale;
	} else if (!same) {
		at->record[0] = 0;
	}
	at->apart_ns = same ? apart : 0;
	at->last = record;
	at->last_ns = now;
	at->last_scale = scale;
	return 0;
}

/* Change the unit of time if the last three records of a hop were too close for its resolution, or
 * too far apart for its period. A single pause or burst changes nothing.
 */
static __always_inline void choose_scale(struct observed_flow *flow)
{
	__u64 far = flow->apart_ns[0] >> flow->scale, near = flow->apart_ns[1] >> flow->scale;

	if (far >= OBSERVE_APART_MAX || (flow->apart_ns[1] && near < OBSERVE_APART_MIN))
		set_scale(flow, flow->apart_ns[far < OBSERVE_APART_MAX]);
}

static __always_inline void take_echo(struct observed_flow *flow, bool names)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 i, hop;

#pragma unroll
	for (i = 0; i < HPCC_OPT_RECORDS_MAX; i++) {
		__u64 v = flow->in[i];

		hop = v >> 60;
		if (!v)
			continue;
		if (!hop) {
			flow->quiet |= v >> 45;
			flow->quiet_ns = now;
		} else if (names) {
			flow->hop[hop].name = v;
		} else {
			keep(flow, v, now);
		}
	}
	load_again();
	choose_scale(flow);
}

static __always_inline __u32 read32(const __u8 *p)
{
	return (__u32)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Copy an option of our kind. @at: its offset from the TCP header. */
static __always_inline bool copy_option(struct observed_flow *flow, struct bpf_sock_ops *ctx,
					__u32 at)
{
	const __u8 *p = ctx->skb_data, *q, *end = ctx->skb_data_end;
	__u32 i, nr;

	p += at & 63;
	if (p + HPCC_OPT_HEAD_LEN > end)
		return false;
	flow->got.length = p[1];
	nr = (__u32)(p[1] - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;
	flow->got.type = p[2] >> 5;
	flow->got.scale = p[2] & 31;
	flow->got.hops = p[3] >> 4;
	flow->got.phase = p[3] & HPCC_OPT_F_PHASE;
#pragma unroll
	for (i = 0; i < HPCC_OPT_RECORDS_MAX; i++) {
		q = p + HPCC_OPT_HEAD_LEN + i * HPCC_RECORD_LEN;
		flow->in[i] = 0;
		if (i < nr && q + HPCC_RECORD_LEN <= end)
			flow->in[i] = (__u64)read32(q) << 32 | read32(q + 4);
	}
	return true;
}

static __noinline int take_option(struct bpf_sock_ops *ctx, struct observed_flow *flow, __u32 at)
{
	__u32 length, nr;
	__u8 type;

	if (!copy_option(flow, ctx, at))
		return 0;
	load_again();
	length = flow->got.length;
	type = flow->got.type;
	nr = (length - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;
	if (type == HPCC_OPT_ANSWERED)
		type = HPCC_OPT_FORWARD;
	if (length % HPCC_RECORD_LEN != HPCC_OPT_HEAD_LEN || nr < 1 || nr > HPCC_OPT_RECORDS_MAX ||
	    type < HPCC_OPT_FORWARD || type > HPCC_OPT_IDENTIFY_ECHO ||
	    is_misfit(flow, type, flow->got.hops)) {
		flow->malformed++;
		return 0;
	}
	if (type == HPCC_OPT_FORWARD || type == HPCC_OPT_IDENTIFY) {
		take_request(flow, nr, type == HPCC_OPT_IDENTIFY);
	} else if (!(flow->scales & 1U << (flow->got.scale & 31))) {
		flow->malformed++;
	} else {
		flow->hops = flow->got.hops;
		flow->received++;
		put_socket(flow, ctx);
		take_echo(flow, type == HPCC_OPT_IDENTIFY_ECHO);
	}
	return 0;
}

/* Whether TCP will accept the segment's ACK number. It has checked the sequence number. RFC 5961:
 * an old ACK is at most the peer's largest window below SND.UNA. A program cannot read this window;
 * a reordered ACK is less than cwnd below.
 */
static __always_inline bool is_acceptable(struct bpf_sock_ops *ctx, __u32 ack)
{
	__u64 window = (__u64)ctx->snd_cwnd * ctx->mss_cache;
	__u32 old = ctx->snd_una - ack;

	return (__s32)(ctx->snd_nxt - ack) >= 0 &&
	       ((__s32)old <= 0 || (old <= window && old <= ctx->bytes_acked));
}

/* Store the offsets of up to two options of our kind, one in each direction. */
static __always_inline void find_options(struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	const __u8 *p = ctx->skb_data, *q, *end = ctx->skb_data_end;
	__u32 i;

	flow->at[0] = 0;
	flow->at[1] = 0;
	flow->walk = sizeof(struct tcphdr);
#pragma unroll
	for (i = 0; i < ROOM; i++) {
		load_again();
		q = p + (flow->walk & 63);
		if (flow->walk > 62 || q + 2 > end || !q[0])
			break;
		/* As TCP, stop at an option that is longer than the header. */
		if (q[0] != TCPOPT_NOP && (q[1] < 2 || q + q[1] > end))
			break;
		if (q[0] == kind) {
			flow->at[1] = flow->at[0];
			flow->at[0] = flow->walk;
		}
		flow->walk += q[0] == TCPOPT_NOP ? 1 : q[1];
	}
}

static __always_inline void read_options(struct bpf_sock_ops *ctx)
{
	struct observed_flow *flow = flow_of(ctx);
	const __u8 *p = ctx->skb_data, *end = ctx->skb_data_end;

	if (!flow || p + sizeof(struct tcphdr) > end || !is_acceptable(ctx, read32(p + 8)))
		return;
	find_options(flow, ctx);
	load_again();
	if (flow->at[0])
		take_option(ctx, flow, flow->at[0]);
	if (flow->at[1])
		take_option(ctx, flow, flow->at[1]);
	if (has_echo(flow))
		call_for_options(ctx, true);
}

#endif /* HPCCMON_BPF_OBSERVE_IN_H */
