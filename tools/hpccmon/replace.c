// SPDX-License-Identifier: GPL-2.0
/* hpccmon: atomic replacement of files. A reader sees the old file or the complete new file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hpccmon.h"

/* Permit other users to read the file, as umask allows; mkstemp() does not use umask. */
static bool let_read(int fd)
{
	mode_t mask = umask(0);

	umask(mask);
	return !fchmod(fd, 0666 & ~mask);
}

/* Create a new file that will replace the file @name. A device or a link as @name is an error,
 * because rename() as root would replace it. Programs that we start inherit @fd.
 * Return: temporary name of the new file, for file_replace() or unlink(); the caller frees it.
 */
char *file_beside(const char *name, int *fd)
{
	struct stat there;
	char *new;
	int err;

	if (!lstat(name, &there) && !S_ISREG(there.st_mode))
		die("%s: it exists, and is not a regular file", name);
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

/* Give a complete file its final name; an error ends the program. */
void file_replace(const char *new, int fd, const char *name)
{
	int err;

	if (!close(fd) && !rename(new, name))
		return;
	err = errno;
	unlink(new);
	die("%s: %s", name, strerror(err));
}
