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

static bool write_all(int fd, const char *text, size_t length)
{
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		n = write(fd, text + done, length - done);
		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? n : 0;
	}
	return true;
}

/* node_exporter does not read the temporary file, because its name does not end in ".prom". */
static void replace_file(const char *name, const char *text, size_t length)
{
	int fd, err;
	char *new = file_beside(name, &fd);

	if (!write_all(fd, text, length)) {
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
	static const struct option options[] = {
		{ "flows", optional_argument, NULL, 'f' },
		{ "host", required_argument, NULL, 'H' },
		{ "listen", required_argument, NULL, 'l' },
		{ "names", no_argument, NULL, 'n' },
		{ "textfile", required_argument, NULL, 't' },
		{ }
	};
	const char *where = NULL, *file = NULL;
	struct export export = {};
	int option, status;

	while ((option = next_option(argc, argv, "f::H:l:nt:", options)) != -1) {
		if (option == 'f')
			export.flows = optarg ? whole_option("--flows", 1, FLOWS_MAX) :
				       FLOWS_DEFAULT;
		else if (option == 'H')
			export.hosts = optarg;
		else if (option == 'l')
			where = optarg;
		else if (option == 'n')
			export.names = true;
		else
			file = optarg;
	}
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
