// SPDX-License-Identifier: GPL-2.0
/*
 * A congestion control to start from: it keeps the queueing delay of the path near a target. Copy
 * it, change it, and compare it with others (Documentation/testbed.rst).
 */
#include <linux/module.h>
#include <net/tcp.h>

static unsigned int target_us = 5;
module_param(target_us, uint, 0644);
MODULE_PARM_DESC(target_us, "queueing delay to aim for, in us");

/* State of a connection, at most ICSK_CA_PRIV_SIZE bytes */
struct example {
	u32	base_rtt_us;	/* shortest RTT of the connection: the path without a queue */
	u32	rtt_us;		/* shortest RTT of this round trip */
	u32	round_end;	/* the round trip ends when this byte is acknowledged */
};

static void example_init(struct sock *sk)
{
	struct example *e = inet_csk_ca(sk);

	e->base_rtt_us = U32_MAX;
	e->rtt_us = U32_MAX;
	e->round_end = tcp_sk(sk)->snd_nxt;
}

/* Called for each ACK, before example_cong_avoid(). */
static void example_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct example *e = inet_csk_ca(sk);

	if (sample->rtt_us <= 0)
		return;
	e->rtt_us = min_t(u32, e->rtt_us, sample->rtt_us);
	e->base_rtt_us = min(e->base_rtt_us, e->rtt_us);
}

/* Called for each ACK of new data, unless TCP recovers from a loss. Change the window once in a
 * round trip: double it, until the delay first reaches the target; then one segment more, or less
 * in proportion to the excess.
 */
static void example_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct example *e = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tp), queue_us = e->rtt_us - e->base_rtt_us;

	if (before(ack, e->round_end) || e->rtt_us == U32_MAX)
		return;
	if (queue_us > target_us) {
		cwnd -= DIV_ROUND_UP(cwnd * (queue_us - target_us), 2 * e->rtt_us);
		tp->snd_ssthresh = max(cwnd, 2U);
	} else if (tcp_is_cwnd_limited(sk)) {
		cwnd = tcp_in_slow_start(tp) ? 2 * cwnd : cwnd + 1;
	}
	tcp_snd_cwnd_set(tp, clamp(cwnd, 2U, tp->snd_cwnd_clamp));
	e->round_end = tp->snd_nxt;
	e->rtt_us = U32_MAX;
}

static struct tcp_congestion_ops example = {
	.name		= "example",
	.owner		= THIS_MODULE,
	.init		= example_init,
	.pkts_acked	= example_pkts_acked,
	.cong_avoid	= example_cong_avoid,
	.ssthresh	= tcp_reno_ssthresh,	/* half the window after a loss */
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init example_module_init(void)
{
	return tcp_register_congestion_control(&example);
}
module_init(example_module_init);

static void __exit example_module_exit(void)
{
	tcp_unregister_congestion_control(&example);
}
module_exit(example_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Example of a congestion control");
