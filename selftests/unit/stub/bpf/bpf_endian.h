/* SPDX-License-Identifier: GPL-2.0 */
/* libbpf's byte order, for test_observe.c. */
#include <endian.h>

#define bpf_htonl(x)		htobe32(x)
#define bpf_ntohl(x)		be32toh(x)
#define bpf_cpu_to_be64(x)	htobe64(x)
