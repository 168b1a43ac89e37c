// SPDX-License-Identifier: GPL-2.0
/*
 * Process 1 of the User Mode Linux guest. Its root contains only files that run.sh has
 * prepared: empty directories, a few links, this program and the list "mounts". The program
 * is linked statically and reads no other file, so it runs in the same way on each host.
 *
 *	first			mount the file systems of the list, then execute init.sh
 *	first insmod FILE [NAME=VALUE]...	load a module with these parameters
 *	first poweroff
 *
 * A line of the list is TYPE SOURCE TARGET. TYPE is a file system, or ro or rw: then
 * the host's directory SOURCE, relative to run.sh's job, is shown as TARGET.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failed(const char *what, const char *name)
{
	fprintf(stderr, "%s %s: %s\n", what, name, strerror(errno));
	return 1;
}

/* Ignore errors: if a directory does not exist afterwards, mount() fails. */
static void make_directories(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	mkdir(path, 0755);
}

/* The guest's kernel runs in the job's directory, so the guest sees no path of the host. In the
 * namespaces of an ordinary user files of root belong to nobody: a set-user-ID program would
 * lose root's rights.
 */
static int show(const char *type, const char *source, const char *target)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/cwd/%s", source);
	return mount("hostfs", target, "hostfs",
		     MS_NOSUID | (strcmp(type, "rw") ? MS_RDONLY : 0), path);
}

static void mount_line(char *line)
{
	char *type = strtok(line, " "), *source = strtok(NULL, " "), *target = strtok(NULL, "\n");
	int rc;

	if (!target)
		return;
	make_directories(target);
	if (!strcmp(type, "ro") || !strcmp(type, "rw"))
		rc = show(type, source, target);
	else
		rc = mount(source, target, type, 0, NULL);
	/* A kernel may lack some of these file systems. */
	if (rc && errno != ENODEV && errno != ENOENT)
		failed("mount", target);
}

static int start(void)
{
	char line[4200];
	FILE *list = fopen("/mounts", "r");

	if (!list)
		return failed("open", "/mounts");
	while (fgets(line, sizeof(line), list))
		mount_line(line);
	fclose(list);
	execl("/bin/sh", "sh", "/mnt/init.sh", NULL);
	return failed("exec", "/bin/sh");
}

static int insmod(const char *path, char **more)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char parameters[4096] = "";
	size_t used = 0;

	for (; *more && used < sizeof(parameters); more++)
		used += snprintf(parameters + used, sizeof(parameters) - used, "%s ", *more);
	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0))
		return failed("insmod", path);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && !strcmp(argv[1], "insmod"))
		return insmod(argv[2], argv + 3);
	if (argc == 2 && !strcmp(argv[1], "poweroff")) {
		sync();
		reboot(RB_POWER_OFF);
		return failed("poweroff", "");
	}
	return start();
}
