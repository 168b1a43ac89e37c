/* SPDX-License-Identifier: GPL-2.0 */
/* Keys that sign feedback, by the peer's address (control/integrity.c, observe/tables.c). */
#ifndef _HPCC_NETNS_KEYS_H
#define _HPCC_NETNS_KEYS_H

#include <linux/siphash.h>

#include "netns/table.h"

/* An entry of HPCC_TABLE_KEYS. */
struct hpcc_key {
	struct hpcc_prefix prefix;
	bool required;		/* peers that do not sign run classic */
	bool two;		/* @accept is valid */
	siphash_key_t send;	/* signs, and verifies */
	siphash_key_t accept;	/* only verifies */
};

#endif /* _HPCC_NETNS_KEYS_H */
