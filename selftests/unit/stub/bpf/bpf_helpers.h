/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers of BPF programs, for test_observe.c: time is a number, and an option goes to bpf_sent. */
#include <linux/bpf.h>
#include <string.h>

#define SEC(name)
#define __uint(name, value)
#define __type(name, value)
#undef __always_inline
#define __always_inline		inline
#define __noinline

static __u64 bpf_now;
static __u8 bpf_sent[40];

static inline __u64 bpf_ktime_get_ns(void)
{
	return bpf_now;
}

static inline long bpf_store_hdr_opt(struct bpf_sock_ops *ctx, const void *option, __u32 size,
				     __u64 flags)
{
	memcpy(bpf_sent, option, size);
	return 0;
}

static inline long bpf_load_hdr_opt(struct bpf_sock_ops *ctx, void *option, __u32 size, __u64 flags)
{
	return -1;
}

static inline long bpf_reserve_hdr_opt(struct bpf_sock_ops *ctx, __u32 size, __u64 flags)
{
	return 0;
}

static inline long bpf_sock_ops_cb_flags_set(struct bpf_sock_ops *ctx, int flags)
{
	return 0;
}

static inline long bpf_getsockopt(void *ctx, int level, int name, void *value, int size)
{
	return -1;
}

static inline long bpf_setsockopt(void *ctx, int level, int name, void *value, int size)
{
	return -1;
}

static inline __u64 bpf_get_socket_cookie(void *ctx)
{
	return 0;
}

static inline __u64 bpf_get_netns_cookie(void *ctx)
{
	return 0;
}

#define bpf_map_update_elem(map, key, value, flags)	((void)(key), (void)(value))
#define bpf_map_delete_elem(map, key)			((void)(key))
