/* SPDX-License-Identifier: GPL-2.0 */
/* A connection that is created again for each test, and its records. */
#ifndef HPCC_TEST_CONNECTION_H
#define HPCC_TEST_CONNECTION_H

#define TEST_SETUP new_connection
#include "algo.h"

/* Each test starts with a connection of one link, and with the next sample of this link. */
static struct hpcc_params p;
static struct hpcc_algo a;
static struct hpcc_sample s[3];

static inline void begin(u32 max_stage)
{
	p = params(max_stage);
	a = started(&p);
}

static void new_connection(void)
{
	begin(5);
}

/* Measure with the first @nr samples of s. */
static inline u32 measure_all(u32 nr)
{
	return hpcc_measure_inflight(&a, &p, s, nr);
}

static inline u32 measure(u64 dts, u64 dtx, u64 qlen)
{
	*s = next(&a, 1, dts, dtx, qlen);
	return measure_all(1);
}

/* Process an ACK with the next record; @snd_nxt is the end of the data sent so far. */
static inline u32 ack(u64 dts, u64 dtx, u64 qlen, u32 ack_seq, u32 snd_nxt)
{
	*s = next(&a, 1, dts, dtx, qlen);
	return hpcc_new_ack(&a, &p, s, 1, ack_seq, snd_nxt);
}

/* Process an ACK that ends a round trip. */
static inline u32 update(u64 dts, u64 dtx, u64 qlen)
{
	return ack(dts, dtx, qlen, a.last_update_seq + 1, a.last_update_seq + 1000);
}

/* Begin a connection of three links, whose first records have the same time. */
static inline void three(u32 max_stage)
{
	p = params(max_stage);
	a = begun(&p);
	for (int i = 0; i < 3; i++)
		s[i] = (struct hpcc_sample){ .hop = i + 1, .tag = i, .ts = 1000000, .tx = 1000000 };
	hpcc_new_ack(&a, &p, s, 3, 0, 1000);
}

static inline u32 measure_hop(u8 hop, u64 dts, u64 dtx)
{
	*s = next(&a, hop, dts, dtx, 0);
	return measure_all(1);
}

/* Process an ACK that ends a round trip, with a record of this hop. */
static inline u32 update_hop(u8 hop, u64 dts, u64 dtx)
{
	*s = next(&a, hop, dts, dtx, 0);
	return hpcc_new_ack(&a, &p, s, 1, a.last_update_seq + 1, a.last_update_seq + 1000);
}

#endif /* HPCC_TEST_CONNECTION_H */
