/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_IF_VLAN_H
#define _SHIM_LINUX_IF_VLAN_H

#include <linux/types.h>

#define VLAN_HLEN	4
#define VLAN_VID_MASK	0x0fff

struct vlan_hdr {
	__be16	h_vlan_TCI;
	__be16	h_vlan_encapsulated_proto;
};

#endif /* _SHIM_LINUX_IF_VLAN_H */
