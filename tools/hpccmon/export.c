// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon export: counters and flows for Prometheus, as a file for node_exporter's textfile
 * collector, or by HTTP. metrics.c writes the metrics, serve.c answers HTTP.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export.h"

#define LISTEN_DEFAULT	"127.0.0.1:4722"
#define FLOWS_DEFAULT	100

/* node_exporter does not read the temporary file, because its name does not end in ".prom". */
static void replace_file(const char *name, const char *text, size_t length)
{
	int fd, err;
	char *new = file_beside(name, &fd);

	if (dprintf(fd, "%s", text) != (int)length) {
		err = errno;
		unlink(new);
		die("%s: %s", name, strerror(err));
	}
	file_replace(new, fd, name);
	free(new);
}

/* Without data of the kernel the file contains only hpcc_up 0. */
static int write_metrics(struct export *export, const char *name)
{
	const char *why = NULL;
	size_t length;
	char *text = metrics_text(export, &length, &why);

	if (strcmp(name, "-"))
		replace_file(name, text, length);
	else
		fwrite(text, 1, length, stdout);
	free(text);
	end_output();
	if (why)
		die("%s", why);
	return 0;
}

int cmd_export(int argc, char **argv)
{
	const char *where = NULL, *file = NULL;
	struct export export = {};
	const struct option_spec options[] = {
		{ "flows", 'f', OPTION_WHOLE, &export.flows, .min = 1, .max = FLOWS_MAX,
		  .without = FLOWS_DEFAULT },
		{ "host", 'H', OPTION_TEXT, .to = &export.hosts },
		{ "listen", 'l', OPTION_TEXT, .to = &where },
		{ "names", 'n', OPTION_FLAG, .to = &export.names },
		{ "textfile", 't', OPTION_TEXT, .to = &file },
		{ }
	};
	int status;

	take_options(argc, argv, options);
	if (argc > optind)
		usage("%s: export shows all flows, and has no filter", argv[optind]);
	if (file && where)
		usage("--textfile and --listen: choose one");
	if (file && export.hosts)
		usage("--host: needs --listen");
	if (export.names && !export.flows)
		usage("--names: needs --flows");
	export.mon = monitor_new();
	status = file ? write_metrics(&export, file) :
		 serve_metrics(&export, where ?: LISTEN_DEFAULT);
	monitor_close(export.mon);
	return status;
}
