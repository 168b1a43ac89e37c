// SPDX-License-Identifier: GPL-2.0
/* hpccmon record: write a file in which all lines are complete, even if the disk is full. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define BUFFER_BYTES	(256 << 10)
/* After Ctrl-C we wait this long (ms) for a reader to take PIPE_BUF bytes from a pipe. */
#define LAST_MS		1000

struct writer {
	const char	*name;
	int		fd;
	char		*buffer;	/* complete lines */
	size_t		used;
	off_t		whole;		/* length of the file up to the last complete line */
};

struct writer *writer_open(const char *name)
{
	struct writer *writer = allocated(calloc(1, sizeof(*writer)));

	/* A file that is too long then causes an error of write(), as a full disk does. */
	signal(SIGXFSZ, SIG_IGN);
	writer->buffer = allocated(malloc(BUFFER_BYTES));
	writer->name = strcmp(name, "-") ? name : "standard output";
	if (strcmp(name, "-"))
		writer->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	else
		writer->fd = dup(STDOUT_FILENO);
	if (writer->fd < 0)
		die("%s: %s", name, strerror(errno));
	return writer;
}

/* Remove the written part of an incomplete line from the file. A pipe does not permit this. */
static void broke_off(struct writer *writer, size_t written, const char *why)
	__attribute__((noreturn));

static void broke_off(struct writer *writer, size_t written, const char *why)
{
	char *end = written ? memrchr(writer->buffer, '\n', written) : NULL;

	writer->whole += end ? end + 1 - writer->buffer : 0;
	if (ftruncate(writer->fd, writer->whole))
		die("%s: %s", writer->name, why);
	die("%s: %s; the file ends with the last complete line", writer->name, why);
}

/* Write a part of the buffer. After Ctrl-C stop if no reader takes the data. */
static ssize_t write_some(struct writer *writer, size_t done)
{
	struct pollfd fd = { .fd = writer->fd, .events = POLLOUT };
	size_t length = writer->used - done;

	if (interrupted()) {
		if (!poll(&fd, 1, LAST_MS))
			broke_off(writer, done, "nobody reads");
		if (length > PIPE_BUF)
			length = PIPE_BUF;
	}
	return write(writer->fd, writer->buffer + done, length);
}

void writer_flush(struct writer *writer)
{
	size_t done = 0;
	ssize_t n;

	while (done < writer->used) {
		n = write_some(writer, done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			broke_off(writer, done, strerror(errno));
		done += n;
	}
	writer->whole += done;
	writer->used = 0;
}

/* Add a line; @line has no newline. */
void writer_line(struct writer *writer, const char *line)
{
	size_t length = strlen(line);

	if (writer->used + length + 1 > BUFFER_BYTES)
		writer_flush(writer);
	memcpy(writer->buffer + writer->used, line, length);
	writer->buffer[writer->used + length] = '\n';
	writer->used += length + 1;
}

/* Return: room for a line of up to CSV_LINE_MAX bytes. */
char *writer_room(struct writer *writer)
{
	if (writer->used + CSV_LINE_MAX > BUFFER_BYTES)
		writer_flush(writer);
	return writer->buffer + writer->used;
}

/* Add the line that was written into the room of writer_room() up to @end, and a newline. */
void writer_take(struct writer *writer, char *end)
{
	*end++ = '\n';
	writer->used = end - writer->buffer;
}

void writer_close(struct writer *writer)
{
	writer_flush(writer);
	if (close(writer->fd))
		die("%s: %s", writer->name, strerror(errno));
	free(writer->buffer);
	free(writer);
}
