/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon record: each ACK with telemetry, by the tracepoint hpcc:hpcc_ack. */
#ifndef HPCCMON_ACKS_H
#define HPCCMON_ACKS_H

#include <stdint.h>

struct ack {
	uint64_t	time_us;	/* since 1970 */
	uint64_t	cookie;
	uint64_t	W;
	uint64_t	Wc;
	uint64_t	U_q24;
	uint64_t	R;	/* bytes/s */
	uint32_t	T_ns;
	uint32_t	inc_stage;
};

typedef void (*ack_fn)(const struct ack *ack, void *data);

/* acks.c, or noacks.c if built without libbpf */
struct acks;
struct acks *acks_open(uint32_t buffer_kb, const char **why);
void acks_take(struct acks *acks, ack_fn fn, void *data, unsigned int most);
uint64_t acks_lost(const struct acks *acks);
void acks_close(struct acks *acks);

#endif /* HPCCMON_ACKS_H */
