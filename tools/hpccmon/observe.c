// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon observe: attach bpf/observe.bpf.c to a cgroup until a signal arrives. The kernel detaches
 * it when this process ends.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "bpf/observe.h"
#include "observe.h"
#include <observe.skel.h>

/* Lines of the verifier's log that an error message has. */
#define LOG_LINES	6
#define LOG_BYTES	(1 << 20)
#define LOOK_MS		200
/* Every so many looks, check whether other programs are loaded. */
#define ALONE_LOOKS	5
/* The result of a check is valid for so long. */
#define ALONE_NS	3000000000ULL
/* Default number of flows; their memory, about 1 KB each, is allocated at the start. */
#define FLOWS		8192

static char log_text[LOG_BYTES];

/* Print the last lines of the verifier's log. */
static void put_log(void)
{
	char *line = log_text + strlen(log_text);
	int lines = 0;

	while (line > log_text && lines <= LOG_LINES)
		lines += *--line == '\n';
	if (*log_text)
		fprintf(stderr, "%s", *line == '\n' ? line + 1 : line);
}

static const char *missing(int err)
{
	switch (err) {
	case EPERM:
	case EACCES:
		return geteuid() ? "root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, is needed" :
		       "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are needed";
	case EINVAL:
		return "Linux 6.1 or later with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF is needed";
	default:
		return strerror(err);
	}
}

static int open_cgroup(const char *name)
{
	int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		die("--cgroup %s: %s", name, strerror(errno));
	if (fd < 0 || fstatfs(fd, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC)
		usage("--cgroup %s: it has to be a directory of a cgroup v2 file system", name);
	return fd;
}

/* The cgroup of all processes. */
static const char *default_cgroup(void)
{
	static const char *const tops[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	struct statfs fs;
	size_t i;

	for (i = 0; i < sizeof(tops) / sizeof(*tops); i++)
		if (!statfs(tops[i], &fs) && fs.f_type == CGROUP2_SUPER_MAGIC)
			return tops[i];
	die("no cgroup v2 file system is mounted at /sys/fs/cgroup; --cgroup names another place");
}

/* The value of net.hpcc.NAME, if the module is loaded. */
static uint32_t sysctl_or(const char *name, uint32_t otherwise)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/hpcc/%s", name);
	file = fopen(path, "re");
	if (!file)
		return otherwise;
	if (fscanf(file, "%" SCNu32, &otherwise) != 1)
		die("%s: cannot read it", path);
	fclose(file);
	return otherwise;
}

static struct observe_bpf *loaded(uint32_t kind, uint32_t exid, uint32_t flows, bool ended)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .kernel_log_buf = log_text,
		    .kernel_log_size = sizeof(log_text));
	struct observe_bpf *bpf;
	int err;

	libbpf_set_print(NULL);
	bpf = observe_bpf__open_opts(&options);
	if (!bpf)
		die("BPF program: %s", strerror(errno));
	bpf->data->kind = kind;
	bpf->data->exid = exid;
	bpf->bss->ended = ended;
	/* Reject here what a machine without unaligned accesses would reject. */
	bpf_program__set_flags(bpf->progs.hpcc_observe, BPF_F_STRICT_ALIGNMENT);
	bpf_map__set_max_entries(bpf->maps.hpcc_observed, flows);
	err = -observe_bpf__load(bpf);
	if (err) {
		put_log();
		die("the kernel refuses the BPF program: %s", missing(err));
	}
	return bpf;
}

/* Whether the program is still attached. */
static bool is_attached(const struct bpf_link *link)
{
	struct bpf_link_info info = {};
	uint32_t size = sizeof(info);

	return bpf_obj_get_info_by_fd(bpf_link__fd(link), &info, &size) || info.cgroup.cgroup_id;
}

/* Return: until when callbacks of sockets count as ours; 0: another program gets them,
 * or, without CAP_SYS_ADMIN, the kernel does not say so.
 */
static uint64_t alone_until(const struct bpf_program *own)
{
	struct bpf_prog_info info;
	uint32_t id = 0, nr = 0;
	struct timespec ts;
	uint32_t size;
	int fd, err;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	while (!bpf_prog_get_next_id(id, &id)) {
		fd = bpf_prog_get_fd_by_id(id);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return 0;
		size = sizeof(info);
		memset(&info, 0, sizeof(info));
		err = bpf_obj_get_info_by_fd(fd, &info, &size);
		close(fd);
		if (err)
			return 0;
		nr += info.type == bpf_program__type(own);
	}
	return errno == ENOENT && nr == 1 ? ts.tv_sec * 1000000000ULL + ts.tv_nsec + ALONE_NS : 0;
}

int cmd_observe(int argc, char **argv)
{
	uint32_t kind = sysctl_or("option_kind", HPCC_OPT_KIND_DEFAULT);
	uint32_t exid = sysctl_or("option_exid", HPCC_OPT_EXID_DEFAULT);
	uint32_t flows = FLOWS;
	const char *name = NULL, *who = "";
	bool ended = false;
	const struct option_spec options[] = {
		{ "cgroup", 'g', OPTION_TEXT, .to = &name },
		{ "flows", 'f', OPTION_WHOLE, &flows, .min = 1, .max = 1 << 20 },
		{ "kind", 'k', OPTION_WHOLE, &kind, .min = 253, .max = 254 },
		{ "exid", 'x', OPTION_WHOLE, &exid, .min = 0, .max = 65535 },
		{ "ended", 'e', OPTION_FLAG, .to = &ended },
		{ }
	};
	struct observe_bpf *bpf;
	struct bpf_link *link;
	bool full = false;
	uint32_t look;
	int fd;

	take_options(argc, argv, options);
	if (optind < argc)
		usage("%s: too many arguments: use one of --cgroup, --flows, --kind, --exid, "
		      "--ended", argv[optind]);
	if (!name) {
		name = default_cgroup();
		who = ", which has all processes (--cgroup selects another one)";
	}
	fd = open_cgroup(name);
	bpf = loaded(kind, exid, flows, ended);
	bpf->bss->alone_until = alone_until(bpf->progs.hpcc_observe);
	catch_interrupts();
	link = bpf_program__attach_cgroup(bpf->progs.hpcc_observe, fd);
	if (!link)
		die("cannot attach to %s: %s", name, missing(errno));
	fprintf(stderr, "observing new connections of %s%s; Ctrl-C ends\n", name, who);
	for (look = 1; !interrupted() && is_attached(link); look++) {
		poll(NULL, 0, LOOK_MS);
		if (!(look % ALONE_LOOKS))
			bpf->bss->alone_until = alone_until(bpf->progs.hpcc_observe);
		if (!full && bpf->bss->missed)
			fprintf(stderr, "%u flows are observed, and there is no space for more "
				"(--flows)\n", flows);
		full = bpf->bss->missed;
	}
	if (!interrupted())
		die("the cgroup %s was removed", name);
	if (bpf->bss->missed)
		fprintf(stderr, "%llu flows were not observed\n",
			(unsigned long long)bpf->bss->missed);
	bpf_link__destroy(link);
	observe_bpf__destroy(bpf);
	close(fd);
	return 0;
}
