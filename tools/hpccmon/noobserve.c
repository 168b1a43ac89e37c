// SPDX-License-Identifier: GPL-2.0
/* hpccmon without observed flows: the build had no libbpf, clang or bpftool. */
#include "observe.h"

bool observed_any(void)
{
	return false;
}

bool observed_hidden(void)
{
	return false;
}

bool observed_flows(const struct filter *filter, flow_fn fn, void *data)
{
	(void)filter;
	(void)fn;
	(void)data;
	return false;
}

int cmd_observe(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	die("this hpccmon was built without libbpf");
}
