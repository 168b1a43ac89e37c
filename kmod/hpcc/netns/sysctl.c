// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters in net/hpcc/ of each network namespace. A connection reads them when it is
 * established, and again when its T changes. Routes (policy.c) replace some of them.
 */
#include <hpcc/carrier/ioam.h>

#include "common/device.h"
#include "netns/net.h"

#define HPCC_SYSCTL(field) .offset = offsetof(struct hpcc_net, sysctls.field)

const struct hpcc_sysctl_desc hpcc_sysctl_descs[] = {
	/* draft-miao section 5: 95 % */
	{ "eta_permille", HPCC_SYSCTL(peer.eta_permille), 950, 1, 1000 },
	/* draft-miao section 5: 5; the authors' simulator: 0 */
	{ "max_stage", HPCC_SYSCTL(max_stage), 0, 0, 255 },
	{ "settle", HPCC_SYSCTL(settle), 3, 0, 64 },	/* design.rst has the measurements */
	/* 1: draft-miao section 6.1, first guideline; 0: section 4.2 */
	{ "per_rtt", HPCC_SYSCTL(per_rtt), 0, 0, 1 },
	/* HPCC paper: W_AI for 100 flows */
	{ "n_flows", HPCC_SYSCTL(peer.n_flows), 100, 1, HPCC_N_MAX, .zero = true },
	{ "w_ai", HPCC_SYSCTL(w_ai_bytes), 0, 1, 1 << 30, .zero = true },
	/* range in which the algorithm is tested */
	{ "base_rtt_ns", HPCC_SYSCTL(peer.base_rtt_ns), 0, 1000, 1000000000, .zero = true },
	/* The peer may delay its part of the handshake. No data center has a longer RTT. */
	{ "start_rtt_ns", HPCC_SYSCTL(start_rtt_ns), HPCC_START_RTT_NS, 1000, 1000000000 },
	{ "host_mbps", HPCC_SYSCTL(host_mbps), 0, 1, 1000000, .zero = true },
	/* Longer bursts wait in the sender's own NIC and lengthen the RTT. */
	{ "burst", HPCC_SYSCTL(burst_segs), 16, 1, 64 },
	/* Without pacing, windows leave in bursts, which queue at the next switch. */
	{ "pace", HPCC_SYSCTL(pace), 1, 0, 1 },
	/* Three records fit into the TCP header together with timestamps. */
	{ "slots", HPCC_SYSCTL(slots), 3, 1, 3 },
	/* draft-miao section 6: once per RTT is enough. W follows U, which each record moves by
	 * tau/T. On a path of several hops HPCC_HOP_RECORDS limits the records.
	 */
	{ "sample", HPCC_SYSCTL(peer.sample), 8, 0, HPCC_SAMPLE_MAX },
	{ "carry", HPCC_SYSCTL(probes), 0, 0, 1 },	/* design.rst has the reasons */
	/* draft-miao section 6.2: the sender or the receiver may compute W. */
	{ "where", HPCC_SYSCTL(peer.where), 0, 0, HPCC_WHERE_MAX, .accept = hpcc_where_load },
	/* Only some networks support the other carriers. */
	{ "carrier", HPCC_SYSCTL(peer.carrier), HPCC_CARRIER_TCP, 0, HPCC_CARRIER_MAX,
	  .accept = hpcc_module_load },
	/* draft-miao-tsv-hpcc-info-02: often no more than 5 hops */
	{ "ioam_nodes", HPCC_SYSCTL(ioam_nodes), 5, 1, HPCC_IOAM_NODES_MAX },
	/* Example in the INT specification */
	{ "int_dscp", HPCC_SYSCTL(int_dscp), HPCC_INT_DSCP_DEFAULT, 1, HPCC_INT_DSCP_MAX },
	/* Defaults of the ports (tc-hpcc(8)) */
	{ "csig_abw", HPCC_SYSCTL(csig_abw), HPCC_CSIG_ABW_DEFAULT, 1, HPCC_CSIG_ABW_MAX },
	{ "csig_time", HPCC_SYSCTL(csig_time), HPCC_CSIG_TIME_DEFAULT, 1, HPCC_CSIG_TIME_MAX_NS },
	/* 0: by the machine's memory (flow.c) */
	{ "max_flows", HPCC_SYSCTL(max_flows), 0, 1, 1 << 24, .zero = true },
	{ "option_kind", HPCC_SYSCTL(option_kind), HPCC_OPT_KIND_DEFAULT, 253, 254 }, /* RFC 4727 */
	{ "option_exid", HPCC_SYSCTL(option_exid), HPCC_OPT_EXID_DEFAULT, 0, 0xffff },
	{}
};
