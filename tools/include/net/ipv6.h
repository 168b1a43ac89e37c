/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_NET_IPV6_H
#define _SHIM_NET_IPV6_H

#define NEXTHDR_HOP		0
#define NEXTHDR_TCP		6
#define NEXTHDR_ROUTING		43
#define NEXTHDR_FRAGMENT	44
#define NEXTHDR_DEST		60

#endif /* _SHIM_NET_IPV6_H */
