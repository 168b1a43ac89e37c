// SPDX-License-Identifier: GPL-2.0
/* hpccmon: files that others see as they were before, or whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hpccmon.h"

/* Other users may read it, as far as umask says, which mkstemp() does not ask. */
static bool let_read(int fd)
{
	mode_t mask = umask(0);

	umask(mask);
	return !fchmod(fd, 0666 & ~mask);
}

/**
 * file_beside() - a new file that is to take a name
 * @name: the name; root may replace a device or a link, too, which is never meant
 * @fd: becomes the file, open in programs that we start as well
 *
 * Return: what it is called until then, for file_replace() or unlink(); free() it.
 */
char *file_beside(const char *name, int *fd)
{
	struct stat there;
	char *new;
	int err;

	if (!lstat(name, &there) && !S_ISREG(there.st_mode))
		die("%s: it is there, and no regular file", name);
	if (asprintf(&new, "%s.XXXXXX", name) < 0)
		die("out of memory");
	*fd = mkstemp(new);
	if (*fd < 0)
		die("%s: %s", name, strerror(errno));
	if (!let_read(*fd)) {
		err = errno;
		unlink(new);
		die("%s: %s", name, strerror(err));
	}
	return new;
}

/* Let a file that is whole take its name, or end the program. */
void file_replace(const char *new, int fd, const char *name)
{
	int err;

	if (!close(fd) && !rename(new, name))
		return;
	err = errno;
	unlink(new);
	die("%s: %s", name, strerror(err));
}
