/* SPDX-License-Identifier: GPL-2.0 */
/* What tcp_hpcc and tcp_ldcp both need of their host: hpcc_common.ko. */
#ifndef _HPCC_KMOD_COMMON_H
#define _HPCC_KMOD_COMMON_H

#include <linux/seq_file.h>
#include <linux/sysctl.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

#include <hpcc/compat.h>

/* Without the socket lock, look at what is written under it plainly, by TCP or by
 * algo.h: the value may be slightly old, but never torn, as a CPU reads an aligned word
 * in one access. The modules need 64 bits for that.
 */
#define hpcc_peek(x)	data_race(READ_ONCE(x))

/* ---- Device speeds (device.c) ----------------------------------------------- */

#define HPCC_DEFAULT_MBPS	10000	/* where a device does not tell */

int hpcc_device_init(void);
void hpcc_device_exit(void);
u64 hpcc_host_rate(const struct sock *sk, u32 mbps);

/* T measured outside this is clamped: the range the algorithms are made for. */
#define HPCC_T_MIN_NS		(NSEC_PER_USEC)
#define HPCC_T_MAX_NS		((u32)NSEC_PER_SEC)
/* T while nothing has been measured. */
#define HPCC_T_DEFAULT_NS	(100 * NSEC_PER_USEC)

u32 hpcc_base_rtt_ns(const struct sock *sk, u32 configured_ns);

/* ---- Parameters below net/ (knob.c) ------------------------------------------- */

/**
 * struct hpcc_knob - one parameter
 * @name: file name
 * @offset: of its value, an unsigned int, in the caller's structure
 * @init: default
 * @min: smallest value allowed
 * @max: largest value allowed
 * @zero: 0 is allowed as well, and means "automatic"
 */
struct hpcc_knob {
	const char *name;
	size_t offset;
	unsigned int init;
	unsigned int min;
	unsigned int max;
	bool zero;
};

/**
 * struct hpcc_knobs - a directory of parameters in one network namespace
 * @table: its table, a copy of its own
 * @header: its registration
 */
struct hpcc_knobs {
	struct ctl_table *table;
	struct ctl_table_header *header;
};

int hpcc_knobs_register(struct hpcc_knobs *knobs, struct net *net,
			const char *path, const struct hpcc_knob *list,
			u32 nr, void *values);
void hpcc_knobs_unregister(struct hpcc_knobs *knobs);

/* ---- Counters (common.c) --------------------------------------------------------- */

#define HPCC_COUNTERS_MAX	64

/**
 * struct hpcc_counters - counters of a network namespace
 * @value: per-CPU, indexed by the module's enum; read once, under RCU
 * @retired: what @value was, while the namespace goes
 *
 * Kernel sockets hold no reference to their namespace. Another subsystem's exit handler
 * may close them after ours has run. So the counters go in two steps with an
 * RCU grace period between them; after the first one, sockets count where nobody looks.
 */
struct hpcc_counters {
	u64 __percpu *value;
	u64 __percpu *retired;
};

int hpcc_counters_init(struct hpcc_counters *counters);
void hpcc_counters_retire(struct hpcc_counters *counters);
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const struct hpcc_counters *counters);

/**
 * hpcc_counters_free() - the second step
 * @counters: hpcc_counters_retire() was called a grace period ago
 */
static inline void hpcc_counters_free(struct hpcc_counters *counters)
{
	free_percpu(counters->retired);
}

/**
 * hpcc_counters_add() - count something
 * @counters: the namespace's
 * @what: index
 * @n: how often
 *
 * Context: RCU read side, as netfilter hooks are.
 */
static inline void hpcc_counters_add(const struct hpcc_counters *counters,
				     u32 what, u32 n)
{
	this_cpu_add(READ_ONCE(counters->value)[what], n);
}

/* ---- Bursts and pacing (pace.c) ---------------------------------------------------- */

/**
 * struct hpcc_burst - how much may leave at once; socket lock
 * @segs: the most, segments
 * @saved_gso_segs: sk_gso_max_segs as the route set it
 * @shift: the most of a window of cwnd segments: cwnd >> shift, but at least 1
 * @paced: hpcc_pacing_begin() made TCP pace
 */
struct hpcc_burst {
	u16 segs;
	u16 saved_gso_segs;
	u8 shift;
	bool paced;
};

void hpcc_burst_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		     u32 shift);
void hpcc_pacing_begin(struct sock *sk, struct hpcc_burst *burst);
void hpcc_hand_over(struct sock *sk, struct hpcc_burst *burst);
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd);
void hpcc_deny_credit(struct tcp_sock *tp, const struct hpcc_burst *burst,
		      const struct rate_sample *rs);
void hpcc_pace_at(struct tcp_sock *tp, u64 ns);
void hpcc_pace_again(struct tcp_sock *tp, u64 R_before, u64 R);

/* ---- Tail loss probes (RFC 8985) ------------------------------------------- */

/**
 * struct hpcc_probe - a probe on its way; socket lock
 * @high_seq: tlp_high_seq when an ACK came, if that ACK may tell of a loss; else 0
 * @dsacks: dsack_dups then
 *
 * TCP sets the state TCP_CA_CWR for a loss that a probe has repaired as it does
 * for ECE. By then it has cleared what it knew of the probe.
 */
struct hpcc_probe {
	u32 high_seq;
	u32 dsacks;
};

/**
 * hpcc_probe_ack() - note the probe that an ACK may be of
 * @probe: filled in
 * @tp: socket; to be called from in_ack_event()
 */
static inline void hpcc_probe_ack(struct hpcc_probe *probe,
				  const struct tcp_sock *tp)
{
	/* With a DSACK, the segment and its copy have both arrived. */
	probe->high_seq = tp->tlp_retrans && tp->dsack_dups == probe->dsacks ?
			  tp->tlp_high_seq : 0;
	probe->dsacks = tp->dsack_dups;
}

/**
 * hpcc_probe_repaired() - whether TCP_CA_CWR is for a loss, not for ECE
 * @probe: as of this ACK
 * @tp: socket; to be called from set_state(), once for each state
 */
static inline bool hpcc_probe_repaired(struct hpcc_probe *probe,
				       const struct tcp_sock *tp)
{
	bool repaired = probe->high_seq &&
			after(tp->snd_una, probe->high_seq);

	probe->high_seq = 0;
	return repaired;
}

#endif /* _HPCC_KMOD_COMMON_H */
