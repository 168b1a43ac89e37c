// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "powertcp", the module tcp_powertcp: the law of <hpcc/law/power.h> for W.
 * Everything else is hpcc: handshake, records, carriers, fallback, and all callbacks but init().
 */
#include <linux/module.h>
#include <net/tcp.h>
#include <hpcc/law/power.h>

#include "control/cc.h"
#include "control/law.h"
#include "telemetry/mailbox.h"

static u32 power_update(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hpcc_power_prior prior;
	u32 n;

	hpcc_power_begin(&flow->algo, &prior);
	n = hpcc_mailbox_drain(sk, flow, rtt_us, bits);
	if (!n)
		return 0;
	*bits = hpcc_power_measure(&flow->algo, &flow->params, &prior, *bits, tp->tcp_mstamp,
				   NSEC_PER_USEC);
	*bits = hpcc_follow(&flow->algo, &flow->params, *bits, hpcc_round_seq(tp, flow),
			    tp->snd_nxt, hpcc_power_wind);
	return n;
}

static struct tcp_congestion_ops power_ops[4] __read_mostly;

static const struct hpcc_law power_law = {
	.cc = { &power_ops[0], &power_ops[1], &power_ops[2], &power_ops[3] },
	.update = power_update,
};

static void power_init_socket(struct sock *sk)
{
	hpcc_begin(sk, &power_law);
}

static int __init power_init(void)
{
	int err;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(power_ops); i++) {
		power_ops[i] = *hpcc_law.cc[i];
		power_ops[i].owner = THIS_MODULE;
		strscpy(power_ops[i].name, i < 2 ? "powertcp" : "power-classic", TCP_CA_NAME_MAX);
	}
	power_ops[0].init = power_init_socket;
	err = tcp_register_congestion_control(&power_ops[0]);
	if (!err)
		WRITE_ONCE(hpcc_law.other_key, power_ops[0].key);
	return err;
}

static void __exit power_exit(void)
{
	WRITE_ONCE(hpcc_law.other_key, TCP_CA_UNSPEC);
	tcp_unregister_congestion_control(&power_ops[0]);
}

module_init(power_init);
module_exit(power_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("PowerTCP: TCP congestion control by the telemetry of HPCC++");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
