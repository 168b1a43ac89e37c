// SPDX-License-Identifier: GPL-2.0
/* SYN and SYN-ACK: add the option, read the option of the peer, and store a note (agreement.c). */
#include "carrier/carrier.h"
#include "control/agreement.h"
#include "control/cc.h"
#include "control/integrity_ops.h"
#include "control/receiver_ops.h"
#include "hook/hook.h"
#include "netns/table.h"

/* After this many losses of a SYN, suspect its option, and send the SYN without it. */
#define HPCC_SYN_TRIES		2

static void hpcc_arrival_tuple(const struct hpcc_arrival *in, struct hpcc_tuple *tuple)
{
	memset(tuple, 0, sizeof(*tuple));
	if (in->state->pf == NFPROTO_IPV4) {
		const struct iphdr *iph = ip_hdr(in->skb);

		ipv6_addr_set_v4mapped(iph->daddr, &tuple->laddr);
		ipv6_addr_set_v4mapped(iph->saddr, &tuple->raddr);
	} else {
		tuple->laddr = ipv6_hdr(in->skb)->daddr;
		tuple->raddr = ipv6_hdr(in->skb)->saddr;
	}
	tuple->lport = in->th->dest;
	tuple->rport = in->th->source;
}

#define HPCC_SYN_OPT_PADDED	ALIGN(HPCC_SYN_OPT_LEN, 4)

static struct hpcc_note hpcc_note_now(const struct hpcc_sysctls *sysctls)
{
	return (struct hpcc_note){
		.other = READ_ONCE(sysctls->option_kind) == HPCC_OPT_KIND_OTHER,
	};
}

/* hpcc_syn_opt_find() for the namespace's ExID. noinline: the code has three callers. */
static noinline int hpcc_syn_find(const u8 *opts, u32 len, const struct hpcc_sysctls *sysctls,
				  struct hpcc_note note)
{
	return hpcc_syn_opt_find(opts, len, hpcc_note_kind(note), READ_ONCE(sysctls->option_exid));
}

/* Return: the capabilities in a segment that already has the option, or an error. */
static int hpcc_syn_written(const struct hpcc_segment *seg, const struct hpcc_sysctls *sysctls,
			    struct hpcc_note note)
{
	return hpcc_syn_find((const u8 *)(hpcc_segment_th(seg) + 1),
			     seg->thlen - sizeof(struct tcphdr), sysctls, note);
}

/* An option of our kind in a SYN may be of another experiment, and does not prevent ours. @allowed:
 * HPCC_CAP_SIGNED if feedback may be signed. Return: the capabilities; 0: no option was written.
 */
static noinline u16 __cold hpcc_syn_write(struct hpcc_segment *seg, struct net *net,
					  const struct sock *sk, u8 kind, u16 allowed)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_peer_policy policy = hpcc_peer_policy_of(sk);
	u8 option[HPCC_SYN_OPT_PADDED];
	u16 keys = hpcc_key_caps(sk), caps;

	if (hpcc_segment_presence(seg, HPCC_TCPOPT_EOL) == HPCC_INCOMPATIBLE ||
	    hpcc_segment_room(seg, sk) < HPCC_SYN_OPT_PADDED) {
		hpcc_segment_no_room(seg, HPCC_C_SYN_NO_ROOM);
		return 0;
	}
	if (keys & HPCC_KEY_REQUIRED && !allowed)
		return 0;
	caps = HPCC_CAP_TELEMETRY | HPCC_CAP_QUIET | (keys & allowed) |
	       (READ_ONCE(sysctls->probes) ? HPCC_CAP_PROBES : 0) |
	       (policy.where && hpcc_receiver_is_loaded() ? HPCC_CAP_WINDOW : 0) |
	       hpcc_carrier_caps(net, policy.carrier) |
	       (policy.n_flows ? 0 : HPCC_CAP_REPORT);
	memset(option, HPCC_TCPOPT_NOP, sizeof(option));
	hpcc_syn_opt_encode(option, kind, READ_ONCE(sysctls->option_exid), caps);
	if (!hpcc_segment_put(seg, option, sizeof(option), 0)) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return 0;
	}
	hpcc_count(net, HPCC_C_SYN_SENT);
	return caps;
}

/* Offer the option in our SYN, unless it has data (TCP Fast Open). @seg: the SYN. Context:
 * LOCAL_OUT.
 */
void __cold hpcc_syn_out(struct hpcc_segment *seg, struct sock *sk)
{
	struct net *net = sock_net(sk);
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_note note = hpcc_note_now(sysctls);
	struct hpcc_tuple tuple;
	u32 isn = ntohl(hpcc_segment_th(seg)->seq);

	if (hpcc_syn_written(seg, sysctls, note) >= 0)
		return;
	hpcc_tuple_of_sock(sk, &tuple);
	if (hpcc_peek(inet_csk(sk)->icsk_retransmits) < HPCC_SYN_TRIES &&
	    seg->skb->len == seg->thoff + seg->thlen)
		note.caps = hpcc_syn_write(seg, net, sk, hpcc_note_kind(note), HPCC_CAP_SIGNED);
	note.done = !!note.caps;
	if (note.done)
		hpcc_agree_write(net, &tuple, isn, note, sk);
	else
		hpcc_agree_read(net, &tuple, isn, NULL, true);
}

/* On the first pass of a VRF with a qdisc, skb_dst() is the VRF device's route. The second pass is
 * too late: the qdisc may orphan the segment (netem does).
 */
static u32 hpcc_synack_route_cc(const struct hpcc_segment *seg, const struct request_sock *req,
				const struct hpcc_tuple *tuple)
{
	const struct inet_request_sock *ireq = inet_rsk(req);
	const struct dst_entry *dst = skb_dst(seg->skb);

	if (likely(!netif_is_l3_master(dst->dev)))
		return dst_metric(dst, RTAX_CC_ALGO);
	return hpcc_route_cc(seg->state->net, seg->state->pf, tuple, ireq->ir_iif, ireq->ir_mark,
			     READ_ONCE(req->rsk_listener));
}

/* Answer a SYN that carried the option. A BPF program (hpccmon observe) cannot know which
 * congestion control the child will run. If it has answered already, its capabilities count. @seg:
 * the SYN-ACK. @sk: the request socket. Context: LOCAL_OUT.
 */
void __cold hpcc_synack_out(struct hpcc_segment *seg, struct sock *sk)
{
	u32 irs = ntohl(hpcc_segment_th(seg)->ack_seq) - 1;
	const struct request_sock *req = inet_reqsk(sk);
	struct net *net = sock_net(sk);
	struct hpcc_tuple tuple;
	struct hpcc_note note;
	int written, caps;

	if (!skb_dst(seg->skb))
		return;
	hpcc_tuple_of_sock(sk, &tuple);
	note = hpcc_agree_read(net, &tuple, irs, NULL, false);
	written = hpcc_syn_written(seg, &hpcc_pernet(net)->sysctls, note);
	if (!note.caps || (written >= 0 && (note.done || hpcc_key_caps(sk) & HPCC_KEY_REQUIRED)) ||
	    !hpcc_child_runs_hpcc(READ_ONCE(req->rsk_listener),
				  hpcc_synack_route_cc(seg, req, &tuple)))
		return;
	caps = written >= 0 ? written : hpcc_syn_write(seg, net, sk, hpcc_note_kind(note),
						       note.caps & HPCC_CAP_SIGNED);
	if (!caps)
		return;
	note.caps &= caps | ~HPCC_CAP_SIGNED;
	note.done = true;
	hpcc_agree_write(net, &tuple, irs, note, NULL);
}

/* Whether a SYN-ACK answers the SYN of one of our sockets, as TCP will check. */
static bool __cold hpcc_synack_ok(const struct hpcc_arrival *in)
{
	struct sock *sk;
	bool ok = false;
	bool put;

	sk = hpcc_arrival_sock(in, &put);
	if (!sk)
		return false;
	if (sk->sk_protocol == IPPROTO_TCP && hpcc_is_ours(sk) &&
	    READ_ONCE(sk->sk_state) == TCP_SYN_SENT)
		ok = ntohl(in->th->ack_seq) == hpcc_peek(tcp_sk(sk)->snd_una) + 1;
	if (put)
		sock_put(sk);
	return ok;
}

/* Process a SYN or SYN-ACK. Anybody may send a SYN. So its note affects only a connection that
 * begins with the SYN's number. A retransmitted SYN without the option withdraws the offer. A
 * SYN-ACK uses the option kind of our SYN, even if the sysctl has changed since. Context: LOCAL_IN.
 */
void __cold hpcc_syn_in(const struct hpcc_arrival *in)
{
	struct net *net = in->state->net;
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(net)->sysctls;
	struct hpcc_note note = hpcc_note_now(sysctls), offer;
	const struct sock *payer = NULL;
	struct hpcc_tuple tuple;
	u32 irs = ntohl(in->th->seq);
	int caps;

	caps = hpcc_syn_find(in->opts, in->optlen, sysctls, note);
	if (caps == -ENOENT && in->th->ack) {
		note.other ^= 1;
		caps = hpcc_syn_find(in->opts, in->optlen, sysctls, note);
	}
	if (caps != -ENOENT &&
	    (caps < 0 || !(caps & HPCC_CAP_TELEMETRY) || !hpcc_arrival_intact(in))) {
		hpcc_count(net, HPCC_C_SYN_INVALID);
		return;
	}
	hpcc_arrival_tuple(in, &tuple);
	note.caps = max(caps, 0) & HPCC_NOTE_CAPS;
	if (!in->th->ack && caps >= 0) {
		if (!rcu_access_pointer(hpcc_pernet(net)->agreements))
			payer = hpcc_syn_acceptable(in->skb, in->state, in->th, &tuple);
		hpcc_agree_write(net, &tuple, irs, note, payer);
	} else if (!in->th->ack) {
		hpcc_agree_read(net, &tuple, irs, in, true);
	} else if (caps >= 0) {
		offer = (struct hpcc_note){};
		if (hpcc_synack_ok(in))
			offer = hpcc_agree_read(net, &tuple, ntohl(in->th->ack_seq) - 1, NULL,
						true);
		note.caps &= offer.caps | ~HPCC_CAP_SIGNED;
		note.caps |= HPCC_NOTE_ACTIVE;
		note.done = offer.done && offer.other == note.other;
		if (note.done)
			hpcc_agree_write(net, &tuple, irs, note, NULL);
		else
			hpcc_count(net, HPCC_C_WINDOW_IGNORED);
	}
}
