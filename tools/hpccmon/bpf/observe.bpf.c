// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon observe: the telemetry option on flows of any congestion control. This program agrees on
 * the option in the handshake, requests load, echoes the requests of the peer, and keeps the last
 * two records of each hop. It does no arithmetic of the law. Documentation/protocol.rst has the
 * rules; Documentation/observability.rst says what differs from tcp_hpcc.
 *
 * A segment that fills the MSS has no room for an option, and tcp_current_mss() computes the MSS
 * before TCP builds segments. So a call for the MSS reserves bytes if an option is due (armed),
 * the next segment carries it, and the call after that reserves nothing. Segments that are
 * shorter than the MSS, and ACKs without data, have room anyway. TCP copies the options of a GSO
 * packet to all of its segments. So all of them are requests, and a record of a hop counts only
 * if at least half the time between two requests has passed since the last one: within a burst a
 * link is always busy.
 *
 * The callback for options runs several times per ACK. It is on only while an option waits, unless
 * another program may want it. The callback for the RTT runs once per round trip, and turns it on
 * if a request is due. A request of the peer turns it on for the echo.
 */
#include <linux/bpf.h>
#include <linux/hpcc.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "observe.h"

#define SOL_TCP			6
#define AF_INET			2
#define TCP_SYN			0x02
#define TCP_RST			0x04
#define TCP_STATE_CLOSE		7

#define TCPOPT_NOP		1
#define TCPOPT_MD5		19
#define TCPOPT_AO		29
#define TCPOPT_MPTCP		30

/* Our callbacks of an established connection, and the one for options, which is on at times. */
#define CALLS \
	(BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG | \
	 BPF_SOCK_OPS_RTT_CB_FLAG)
#define WRITE_CALL		BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG

/* Requests have at most 3 slots: beside timestamps there is no room for more. */
#define SLOTS			3
/* After this many losses of a SYN, suspect its option. */
#define SYN_TRIES		2
/* Options in segments that fill the MSS are at most 1/1024 of the bytes, unless a flow is slow. A
 * request also splits a packet: this many bytes of headers.
 */
#define SPENT_SHIFT		10
#define SPLIT_BYTES		80
/* A new flow counts as if options of this many bytes were sent: flows to 1 MB carry none. */
#define FIRST_BYTES		1024
/* With an RTT like this, requests do not wait for the next callback for the RTT. */
#define LONG_RTT_US		(OBSERVE_SLOW_NS / 4000)
/* When a request is due: not yet, in a segment that is shorter than the MSS, or in any. */
enum { NOT_DUE, DUE_IF_SHORT, DUE };
/* Each 8th request asks for identities, the second one of a flow being the first such request. */
#define NAMES_EVERY		8
#define ROOM			40	/* all options of a TCP header */

/* Set by the loader. */
__u8 kind = HPCC_OPT_KIND_DEFAULT;
__u16 exid = HPCC_OPT_EXID_DEFAULT;
/* Flows that have ended stay in the map. */
bool ended;
/* Until then (CLOCK_MONOTONIC, ns) no other program of this type is known: callbacks of a socket
 * serve this one only. If the loader is stopped, this time passes.
 */
__u64 alone_until;

/* Flows that were not observed because the map was full. */
__u64 missed;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 13);
	__type(key, __u64);
	__type(value, struct observed_flow);
} hpcc_observed SEC(".maps");

/* The initial value of an entry, which is too large for the stack. */
struct observed_flow blank;

static __always_inline bool has_long_rtt(struct bpf_sock_ops *ctx)
{
	return ctx->srtt_us >> 3 >= LONG_RTT_US;
}

static __always_inline bool has_echo(const struct observed_flow *flow)
{
	return flow->fresh || flow->still;
}

/* Callbacks belong to the socket, not to a program: other programs may have requested some. */
static __always_inline void add_calls(struct bpf_sock_ops *ctx, int calls)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | calls);
}

/* Turn the callback for options on, or off if no other program may want it. */
static __always_inline void call_for_options(struct bpf_sock_ops *ctx, bool on)
{
	int now = ctx->bpf_sock_ops_cb_flags;
	int calls = on || bpf_ktime_get_ns() >= alone_until ? now | WRITE_CALL : now & ~WRITE_CALL;

	if (calls != now)
		bpf_sock_ops_cb_flags_set(ctx, calls);
}

/* There is no flow. Cancel the callback of the handshake, unless another program requested more. */
static __always_inline void end_calls(struct bpf_sock_ops *ctx)
{
	if (ctx->bpf_sock_ops_cb_flags == WRITE_CALL)
		bpf_sock_ops_cb_flags_set(ctx, 0);
}

static __always_inline bool is_text(const char *text, const char *want)
{
	int i;

#pragma unroll
	for (i = 0; i < 9; i++) {
		if (text[i] != want[i])
			return false;
		if (!want[i])
			break;
	}
	return true;
}

/* Whether the socket is not one of tcp_hpcc, which writes and reads the option itself. */
static __always_inline bool is_ours(struct bpf_sock_ops *ctx)
{
	char cc[16] = {};

	return !bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, cc, sizeof(cc)) &&
	       !is_text(cc, "hpcc") && !is_text(cc, "powertcp");
}

static __always_inline struct observed_flow *flow_of(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);

	return bpf_map_lookup_elem(&hpcc_observed, &cookie);
}

/* ---- Handshake ---- */

/* Find the option of the peer's SYN or SYN-ACK. Return: its capabilities, or 0. */
static __always_inline __u8 peer_caps(struct bpf_sock_ops *ctx, __u64 where)
{
	__u8 option[HPCC_SYN_OPT_LEN] = { kind, 4, exid >> 8, exid & 0xff };

	if (bpf_load_hdr_opt(ctx, option, sizeof(option), where) != HPCC_SYN_OPT_LEN ||
	    option[4] >> 4 != HPCC_OPT_VERSION || !(option[5] & HPCC_CAP_TELEMETRY))
		return 0;
	return option[5];
}

static __always_inline bool has_option(struct bpf_sock_ops *ctx, __u8 of)
{
	__u8 option[ROOM] = { of };

	return bpf_load_hdr_opt(ctx, option, sizeof(option), 0) > 0;
}

/* Switches change our option, so it must not be beside options that sign the header. */
static __always_inline void write_syn(struct bpf_sock_ops *ctx)
{
	const __u8 option[HPCC_SYN_OPT_LEN] = {
		kind, HPCC_SYN_OPT_LEN, exid >> 8, exid & 0xff, HPCC_OPT_VERSION << 4,
		HPCC_CAP_TELEMETRY | HPCC_CAP_QUIET,
	};

	if (!has_option(ctx, TCPOPT_MD5) && !has_option(ctx, TCPOPT_AO) &&
	    !has_option(ctx, TCPOPT_MPTCP))
		bpf_store_hdr_opt(ctx, option, sizeof(option), 0);
}

/* Keep the value of an application: 2 also saves the MAC header. */
static __always_inline bool save_syn(struct bpf_sock_ops *ctx)
{
	int saved = 0, one = 1;

	bpf_getsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &saved, sizeof(saved));
	return saved || !bpf_setsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one));
}

static __always_inline void reserve_synack(struct bpf_sock_ops *ctx)
{
	if (ctx->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE &&
	    peer_caps(ctx, BPF_LOAD_HDR_OPT_TCP_SYN))
		bpf_reserve_hdr_opt(ctx, HPCC_SYN_OPT_LEN, 0);
}

/* A route may have selected the congestion control after the call of connect(). */
static __always_inline void reserve_syn(struct bpf_sock_ops *ctx)
{
	if (is_ours(ctx) && !ctx->skb_len && ctx->total_retrans < SYN_TRIES)
		bpf_reserve_hdr_opt(ctx, HPCC_SYN_OPT_LEN, 0);
}

/* As hpcc_scale_for(), by bisection: old verifiers reject some loops, so all are unrolled. */
static __always_inline __u8 scale_for(__u64 t_ns)
{
	__u64 units = t_ns >> 13;
	__u32 scale = 0, step;

#pragma unroll
	for (step = 16; step; step >>= 1) {
		if (units >> step) {
			units >>= step;
			scale += step;
		}
	}
	scale += units;
	return scale < 31 ? scale : 31;
}

/* Select the unit of time for the records of the next requests. @apart_ns: time between two records
 * of a hop.
 */
static __noinline int set_scale(struct observed_flow *flow, __u64 apart_ns)
{
	__u64 T_ns = flow->T_us * 1000ULL, t_ns = apart_ns >> OBSERVE_T_SHIFT;

	flow->scale = scale_for(t_ns > T_ns ? t_ns : T_ns);
	return 0;
}

/* The barrier keeps the compiler from computing an address in the context, which the verifier
 * rejects.
 */
static __always_inline __u32 plain(__u32 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

static __always_inline void put_ends(struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	flow->lport = ctx->local_port;
	flow->rport = bpf_ntohl(ctx->remote_port);
	if (ctx->family == AF_INET) {
		flow->laddr[2] = bpf_htonl(0xffff);
		flow->raddr[2] = flow->laddr[2];
		flow->laddr[3] = plain(ctx->local_ip4);
		flow->raddr[3] = plain(ctx->remote_ip4);
		return;
	}
	flow->laddr[0] = plain(ctx->local_ip6[0]);
	flow->laddr[1] = plain(ctx->local_ip6[1]);
	flow->laddr[2] = plain(ctx->local_ip6[2]);
	flow->laddr[3] = plain(ctx->local_ip6[3]);
	flow->raddr[0] = plain(ctx->remote_ip6[0]);
	flow->raddr[1] = plain(ctx->remote_ip6[1]);
	flow->raddr[2] = plain(ctx->remote_ip6[2]);
	flow->raddr[3] = plain(ctx->remote_ip6[3]);
}

static __always_inline void put_socket(struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	flow->T_us = ctx->rtt_min && ctx->rtt_min != ~0U ? ctx->rtt_min : ctx->srtt_us >> 3;
	flow->rtt_us = ctx->srtt_us >> 3;
	flow->W = (__u64)ctx->snd_cwnd * ctx->mss_cache;
	bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, flow->cc, sizeof(flow->cc));
}

/* The handshake has ended. @caps: of the peer; 0: no agreement. */
static __always_inline void established(struct bpf_sock_ops *ctx, __u8 caps)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct observed_flow *flow;

	if (!caps || !is_ours(ctx)) {
		end_calls(ctx);
		return;
	}
	bpf_map_update_elem(&hpcc_observed, &cookie, &blank, BPF_ANY);
	flow = bpf_map_lookup_elem(&hpcc_observed, &cookie);
	if (!flow) {
		__sync_fetch_and_add(&missed, 1);
		end_calls(ctx);
		return;
	}
	flow->netns = bpf_get_netns_cookie(ctx);
	put_ends(flow, ctx);
	put_socket(flow, ctx);
	flow->request_ns = bpf_ktime_get_ns();
	flow->request_seq = ctx->snd_nxt;
	flow->spent = FIRST_BYTES;
	flow->peer_quiet = !!(caps & HPCC_CAP_QUIET);
	add_calls(ctx, CALLS);
	call_for_options(ctx, false);
}

/* ---- Sending ---- */

/* When a data segment may carry an option: once per 1024 bytes for each byte that the last option
 * cost, and slow flows at fixed times. For a round trip a slow flow waits for a segment that is
 * shorter than the MSS: if an option shortens a full segment, Nagle's algorithm may delay the last
 * segment of a message.
 */
static __always_inline __u8 when_due(const struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	if (ctx->snd_nxt - flow->request_seq >= flow->spent << SPENT_SHIFT)
		return DUE;
	if (bpf_ktime_get_ns() - flow->request_ns < OBSERVE_SLOW_NS)
		return NOT_DUE;
	return flow->due || has_long_rtt(ctx) ? DUE : DUE_IF_SHORT;
}

/* Whether the callback for options is needed. */
static __always_inline bool needs_call(const struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	return flow->due || has_echo(flow) || has_long_rtt(ctx);
}

/* A round trip has ended, and the next one begins. */
static __always_inline void start_round(struct bpf_sock_ops *ctx)
{
	struct observed_flow *flow = flow_of(ctx);

	if (!flow)
		return;
	flow->due = when_due(flow, ctx);
	call_for_options(ctx, needs_call(flow, ctx));
}

/* Select the option of a segment. @data: the segment has data. @room: it is shorter than the MSS.
 * Return: 0, ECHO or FORWARD.
 */
static __always_inline __u8 choose(const struct observed_flow *flow, bool data, bool room)
{
	bool due = data && (room ? flow->due != NOT_DUE : flow->due == DUE);

	if (has_echo(flow) && (room || due) && !(due && flow->echoed))
		return HPCC_OPT_ECHO;
	return due ? HPCC_OPT_FORWARD : 0;
}

/* Reserve an option with up to @most records. Return: the number of records; 0: no room. */
static __always_inline __u8 reserve(struct bpf_sock_ops *ctx, __u32 most)
{
	if (most >= 3 && !bpf_reserve_hdr_opt(ctx, HPCC_OPT_HEAD_LEN + 3 * HPCC_RECORD_LEN, 0))
		return 3;
	if (most >= 2 && !bpf_reserve_hdr_opt(ctx, HPCC_OPT_HEAD_LEN + 2 * HPCC_RECORD_LEN, 0))
		return 2;
	if (most >= 1 && !bpf_reserve_hdr_opt(ctx, HPCC_OPT_HEAD_LEN + HPCC_RECORD_LEN, 0))
		return 1;
	return 0;
}

static __always_inline __u32 records_for(const struct observed_flow *flow, __u8 type)
{
	__u32 nr = __builtin_popcount(flow->fresh) + !!flow->still;

	return type == HPCC_OPT_ECHO && nr < SLOTS ? nr : SLOTS;
}

/* TCP computes the MSS, or the length of a segment's header. */
static __always_inline void reserve_option(struct bpf_sock_ops *ctx)
{
	struct observed_flow *flow = flow_of(ctx);
	__u32 most;
	bool room;

	if (!flow)
		return;
	if (has_long_rtt(ctx) && bpf_ktime_get_ns() - flow->request_ns >= flow->T_us * 1000ULL)
		flow->due = when_due(flow, ctx);
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS) {
		flow->type = choose(flow, true, false);
		flow->armed = flow->type ? reserve(ctx, records_for(flow, flow->type)) : 0;
		return;
	}
	flow->type = 0;
	if (ctx->skb_tcp_flags & TCP_RST)
		return;
	room = !ctx->skb_len || ctx->skb_len + ROOM <= ctx->mss_cache;
	if (!room && !flow->armed)
		return;
	flow->type = choose(flow, ctx->skb_len, room);
	if (!flow->type)
		return;
	most = records_for(flow, flow->type);
	if (!room && most > flow->armed)
		most = flow->armed;
	flow->slots = reserve(ctx, most);
	flow->full = !room;
	if (ctx->skb_len)
		flow->armed = 0;
}

/* Set out to the waiting records of up to @flow->slots hops, in turns. */
static __always_inline void fill_echo(struct observed_flow *flow)
{
	__u32 i, hop, nr = 0;

	/* The quiet hops have the turn of hop 0. */
	flow->echo[0] = (__u64)flow->still << 45;
	flow->fresh |= !!flow->still;
#pragma unroll
	for (i = 0; i < HPCC_HOPS_MAX + 1; i++) {
		hop = (flow->echo_turn + i) & 15;
		if (!(flow->fresh & 1U << hop))
			continue;
		if (nr >= flow->slots)
			break;
		flow->out[nr & 3] = bpf_cpu_to_be64(flow->echo[hop]);
		flow->fresh &= ~(1U << hop);
		nr++;
	}
	flow->still = flow->fresh & 1 ? flow->still : 0;
	flow->fresh &= ~1U;
	flow->echo_turn = (flow->echo_turn + i) & 15;
	flow->slots = nr;
}

/* The phase of a request with these slots, of which @next is the first hop - 1. */
static __always_inline __u8 phase_of(struct observed_flow *flow, __u8 *next)
{
	__u32 slots = flow->slots ?: 1, phase = *next / slots, after;

	if (phase > HPCC_OPT_F_PHASE)
		phase = 0;
	after = (phase + 1) * slots;
	*next = after < flow->hops ? after : 0;
	return phase;
}

/* The time since the last option in a data segment. */
static __always_inline __u64 gap_of(const struct observed_flow *flow, __u64 now)
{
	__u64 gap_ns = now - flow->request_ns;

	return gap_ns < OBSERVE_SLOW_NS ? gap_ns : OBSERVE_SLOW_NS;
}

/* A data segment with an option is sent. */
static __always_inline void account(struct observed_flow *flow, struct bpf_sock_ops *ctx)
{
	__u32 mss = ctx->mss_cache ?: 1, segments = ctx->skb_len / mss + 1;
	__u64 now = bpf_ktime_get_ns();

	flow->gap_ns = gap_of(flow, now);
	flow->request_ns = now;
	flow->request_seq = ctx->snd_nxt;
	flow->spent = segments * (HPCC_OPT_HEAD_LEN + flow->slots * HPCC_RECORD_LEN) + SPLIT_BYTES;
	flow->echoed = flow->type == HPCC_OPT_ECHO;
	flow->due = NOT_DUE;
}

_Static_assert(offsetof(struct observed_flow, head) + HPCC_OPT_HEAD_LEN ==
	       offsetof(struct observed_flow, out), "the records follow the head");

static __always_inline void write_option(struct bpf_sock_ops *ctx)
{
	struct observed_flow *flow = flow_of(ctx);
	__u8 *head, type, scale, low;

	if (!flow || !flow->type || !flow->slots)
		return;
	flow->out[0] = 0;
	flow->out[1] = 0;
	flow->out[2] = 0;
	if (flow->type == HPCC_OPT_ECHO) {
		fill_echo(flow);
		if (!flow->slots)
			return;
		type = flow->echo_names ? HPCC_OPT_IDENTIFY_ECHO : HPCC_OPT_ECHO;
		scale = flow->echo_scale;
		low = flow->echo_hops << 4;
	} else {
		bool names = flow->requests % NAMES_EVERY == 1;

		if (!flow->requests++)
			set_scale(flow, gap_of(flow, bpf_ktime_get_ns()));
		flow->scales |= 1U << (flow->scale & 31);
		type = names ? HPCC_OPT_IDENTIFY : HPCC_OPT_FORWARD;
		scale = flow->scale;
		low = names ? phase_of(flow, &flow->next[1]) : phase_of(flow, &flow->next[0]);
	}
	head = (__u8 *)&flow->head;
	head[0] = kind;
	head[1] = HPCC_OPT_HEAD_LEN + flow->slots * HPCC_RECORD_LEN;
	head[2] = type << 5 | scale;
	head[3] = low;
	/* Of this size the helper copies only the option's length. */
	bpf_store_hdr_opt(ctx, head, HPCC_OPT_HEAD_LEN + SLOTS * HPCC_RECORD_LEN, 0);
	if (flow->type == HPCC_OPT_FORWARD || flow->full)
		account(flow, ctx);
	call_for_options(ctx, needs_call(flow, ctx));
}

#include "observe_in.h"

SEC("sockops")
int hpcc_observe(struct bpf_sock_ops *ctx)
{
	__u64 cookie;

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		add_calls(ctx, WRITE_CALL);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (is_ours(ctx) && save_syn(ctx))
			add_calls(ctx, WRITE_CALL);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		established(ctx, peer_caps(ctx, 0));
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, peer_caps(ctx, BPF_LOAD_HDR_OPT_TCP_SYN));
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (!ctx->is_fullsock)
			reserve_synack(ctx);
		else if (ctx->skb_tcp_flags & TCP_SYN)
			reserve_syn(ctx);
		else
			reserve_option(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (ctx->skb_tcp_flags & TCP_SYN)
			write_syn(ctx);
		else
			write_option(ctx);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		read_options(ctx);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		start_round(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == TCP_STATE_CLOSE && !ended) {
			cookie = bpf_get_socket_cookie(ctx);
			bpf_map_delete_elem(&hpcc_observed, &cookie);
		}
		break;
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
