// SPDX-License-Identifier: GPL-2.0
/* hpccmon record without ACKs: the build had no libbpf, clang or bpftool. */
#include <stddef.h>

#include "acks.h"

struct acks *acks_open(uint32_t buffer_kb, const char **why)
{
	(void)buffer_kb;
	*why = "this hpccmon was built without libbpf";
	return NULL;
}

void acks_take(struct acks *acks, ack_fn fn, void *data, unsigned int most)
{
	(void)acks;
	(void)fn;
	(void)data;
	(void)most;
}

uint64_t acks_lost(const struct acks *acks)
{
	(void)acks;
	return 0;
}

void acks_close(struct acks *acks)
{
	(void)acks;
}
