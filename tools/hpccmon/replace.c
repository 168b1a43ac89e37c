// SPDX-License-Identifier: GPL-2.0
/* hpccmon: atomic replacement of files: readers see the old file or the complete new file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hpccmon.h"

/* Permit other users to read it, as umask allows; mkstemp() ignores umask. */
static bool let_read(int fd)
{
	mode_t mask = umask(0);

	umask(mask);
	return !fchmod(fd, 0666 & ~mask);
}

/**
 * file_beside() - create a new file that will replace another file
 * @name: name of the file to replace; a device or a link is an error, because rename() as root
 *	would replace it
 * @fd: set to the open file; programs that we start inherit it
 *
 * Return: temporary name of the new file, for file_replace() or unlink(); free() it.
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

/* Give a complete file its final name, or end the program. */
void file_replace(const char *new, int fd, const char *name)
{
	int err;

	if (!close(fd) && !rename(new, name))
		return;
	err = errno;
	unlink(new);
	die("%s: %s", name, strerror(err));
}
