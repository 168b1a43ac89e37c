/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon observe: flows of other congestion controls. */
#ifndef HPCCMON_OBSERVE_H
#define HPCCMON_OBSERVE_H

#include "hpccmon.h"

/* observe.c, or noobserve.c if built without libbpf */
bool observed_any(void);
bool observed_hidden(void);
bool observed_flows(const struct filter *filter, flow_fn fn, void *data);

#endif /* HPCCMON_OBSERVE_H */
