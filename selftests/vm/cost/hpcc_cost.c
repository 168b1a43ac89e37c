// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the time in ns that a packet takes in a qdisc. The module calls enqueue and
 * dequeue of the first transmit queue of a device directly. When it is loaded with
 * dev=NAME, it measures each kind of packet and prints a line for each. Then its init
 * fails, so that nothing has to be unloaded.
 *
 * In a guest whose CPU takes a nanosecond for each instruction (scripts/vm/run.sh
 * --icount) the result is the number of instructions, and is the same in each run.
 */
#include <linux/if_ether.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#define HPCC_COST_ROUNDS	4096
#define HPCC_COST_BATCH_MAX	64
#define HPCC_COST_LEN		1514

static char *dev = "";
module_param(dev, charp, 0400);
MODULE_PARM_DESC(dev, "device, of the initial network namespace");

static unsigned int batch = 1;
module_param(batch, uint, 0400);
MODULE_PARM_DESC(batch, "packets that wait at a time, 1 .. 64");

/* Headers of a packet in hexadecimal; zeros follow. */
struct hpcc_cost_packet {
	const char	*name;
	const char	*hex;
};

#define HPCC_COST_HEAD_MAX	256

#define ETHER		"020000000001020000000002"
#define IP4_TCP		"0800450005dc00004000400600000a0000010a000002"
#define IP4_UDP		"0800450005dc00004000401100000a0000010a000002"
#define IP6_ENDS	"fc000000000000000000000000000001" \
			"fc000000000000000000000000000002"
#define IP6_TCP		"86dd6000000005b40640" IP6_ENDS
#define IP6_HOP		"86dd6000000005b40040" IP6_ENDS
#define NODE		"0000000000000000000000000000000000000000"
#define TRACE		"060e0100316e000000002819d2080000" NODE NODE NODE NODE NODE "01020000"
#define TCP		"9c4014510000000100000001"
#define TIMESTAMPS	"0101080a0000000100000002"
#define REQUEST		"fd0c20000000000000000000"
/* Probes: their IP headers contain a length of 256 bytes, because ports make them longer. */
#define PROBE		TCP "901000ff00000000" TIMESTAMPS "fd042000"
#define IP4_INT		"0800455c010000004000400600000a0000010a000002"
#define INT_STACK	"1003000020000605d500000000000000"
#define IP4_IFA		"08004500010000004000408300000a0000010a000002"
#define IFA_HEAD	"2f060430"
#define IFA_STACK	"00000600"
#define IP4_CSIG	"88b5600008004500010000004000400600000a0000010a000002"

static const struct hpcc_cost_packet hpcc_cost_packets[] = {
	{ "tcp4", ETHER IP4_TCP TCP "801000ff00000000" TIMESTAMPS },
	{ "tcp6", ETHER IP6_TCP TCP "801000ff00000000" TIMESTAMPS },
	{ "udp4", ETHER IP4_UDP },
	{ "request4", ETHER IP4_TCP TCP "b01000ff00000000" TIMESTAMPS REQUEST },
	{ "request6", ETHER IP6_TCP TCP "b01000ff00000000" TIMESTAMPS REQUEST },
	{ "ioam6", ETHER IP6_HOP TRACE TCP "b01000ff00000000" TIMESTAMPS REQUEST },
	{ "int4", ETHER IP4_INT PROBE INT_STACK },
	{ "ifa4", ETHER IP4_IFA IFA_HEAD PROBE IFA_STACK },
	{ "csig4", ETHER IP4_CSIG PROBE },
};

/* Headers of the packet that is measured. */
static u8 hpcc_cost_head[HPCC_COST_HEAD_MAX];

static struct sk_buff *hpcc_cost_skb[HPCC_COST_BATCH_MAX];

static void hpcc_cost_prepare(struct sk_buff *skb)
{
	/* Remove the bytes that a port has added. */
	skb_pull(skb, skb->len - HPCC_COST_LEN);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	memcpy(skb->data, hpcc_cost_head, sizeof(hpcc_cost_head));
	qdisc_skb_cb(skb)->pkt_len = skb->len;
}

/* Return the time of all rounds in ns. The caller holds the lock of the qdisc. */
static u64 hpcc_cost_run(struct Qdisc *q, bool work, u32 *lost)
{
	struct sk_buff *to_free = NULL;
	u64 start = ktime_get_ns();
	u32 round, i;

	for (round = 0; round < HPCC_COST_ROUNDS; round++) {
		for (i = 0; i < batch; i++) {
			hpcc_cost_prepare(hpcc_cost_skb[i]);
			if (work)
				q->enqueue(hpcc_cost_skb[i], q, &to_free);
		}
		for (i = 0; work && i < batch; i++)
			*lost += q->dequeue(q) != hpcc_cost_skb[i];
	}
	*lost += to_free ? 1 : 0;
	return ktime_get_ns() - start;
}

static void hpcc_cost_measure(struct Qdisc *q, const struct hpcc_cost_packet *p)
{
	u64 all, loop;
	u32 lost = 0;

	memset(hpcc_cost_head, 0, sizeof(hpcc_cost_head));
	if (hex2bin(hpcc_cost_head, p->hex, strlen(p->hex) / 2))
		return;
	local_bh_disable();
	spin_lock(qdisc_lock(q));
	hpcc_cost_run(q, true, &lost);
	all = hpcc_cost_run(q, true, &lost);
	loop = hpcc_cost_run(q, false, &lost);
	spin_unlock(qdisc_lock(q));
	local_bh_enable();
	pr_info("hpcc_cost: %s %s batch %u: %llu.%llu lost %u\n", q->ops->id, p->name, batch,
		div_u64(all - loop, HPCC_COST_ROUNDS * batch),
		div_u64((all - loop) * 10, HPCC_COST_ROUNDS * batch) % 10, lost);
}

static int hpcc_cost_alloc(struct net_device *netdev)
{
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < batch; i++) {
		skb = netdev_alloc_skb(netdev, HPCC_COST_LEN);
		if (!skb)
			return -ENOMEM;
		hpcc_cost_skb[i] = skb;
		skb_put_zero(skb, HPCC_COST_LEN);
		skb->dev = netdev;
		/* Set the hash, as for a local TCP connection, so that fq_codel reads no headers.
		 */
		__skb_set_hash(skb, 0x12345678, false, true);
	}
	return 0;
}

static int __init hpcc_cost_init(void)
{
	struct net_device *netdev;
	struct Qdisc *q;
	int err;
	u32 i;

	batch = clamp(batch, 1U, (unsigned int)HPCC_COST_BATCH_MAX);
	rtnl_lock();
	netdev = __dev_get_by_name(&init_net, dev);
	err = netdev ? hpcc_cost_alloc(netdev) : -ENODEV;
	if (!err) {
		q = rtnl_dereference(netdev_get_tx_queue(netdev, 0)->qdisc);
		for (i = 0; i < ARRAY_SIZE(hpcc_cost_packets); i++)
			hpcc_cost_measure(q, &hpcc_cost_packets[i]);
	}
	rtnl_unlock();
	for (i = 0; i < batch; i++)
		kfree_skb(hpcc_cost_skb[i]);
	return err ?: -EAGAIN;
}
module_init(hpcc_cost_init);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Cost of a packet in a qdisc");
MODULE_LICENSE("GPL");
