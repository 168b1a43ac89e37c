/* SPDX-License-Identifier: GPL-2.0 */
/* libbpf without a kernel, for test_observe.c: there is no program, and no map. */
#include <linux/bpf.h>

#define bpf_prog_get_next_id(from, id)			((void)(from), (void)(id), -1)
#define bpf_prog_get_fd_by_id(id)			((void)(id), -1)
#define bpf_map_get_fd_by_id(id)			((void)(id), -1)
#define bpf_obj_get_info_by_fd(fd, info, size)		((void)(fd), (void)(info), (void)(size), -1)
#define bpf_map_lookup_batch(fd, after, from, keys, values, nr, opts) \
	((void)(fd), (void)(after), (void)(from), -1)
#define bpf_map_lookup_elem(map, key, ...)		((void)(key), bpf_flow)

/* The flow in the map of the BPF program. */
static struct observed_flow *bpf_flow;
