// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: other programs, each in a namespace and in its own process group. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traffic.h"

unsigned int nr_running, nr_early;
static int zero_pipe[2];	/* input of early programs */

static void spawn(struct program *p)
{
	char *const argv[] = { "sh", "-c", p->command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int rc;

	enter(p->ns);
	posix_spawn_file_actions_init(&files);
	if (p->early)
		posix_spawn_file_actions_adddup2(&files, zero_pipe[0], 0);
	else
		posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (!strcmp(p->out, "-")) {
		posix_spawn_file_actions_adddup2(&files, 2, 1);
	} else {
		posix_spawn_file_actions_addopen(&files, 1, p->out,
						 O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
		posix_spawn_file_actions_adddup2(&files, 1, 2);
	}
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	rc = posix_spawn(&p->pid, "/bin/sh", &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	if (rc)
		die("%s: %s", p->command, strerror(rc));
	p->pidfd = pidfd_open(p->pid, 0);
	if (p->pidfd < 0)
		die("%s: pidfd: %s", p->command, strerror(errno));
}

static void start(struct program *p, uint64_t t_ns)
{
	p->started = true;
	p->started_ns = t_ns;
	spawn(p);
	watch(p->pidfd, EPOLL_CTL_ADD, EPOLLIN, TAG_PROGRAM << TAG_SHIFT | (p - programs));
}

void start_early_programs(void)
{
	unsigned int i;

	if (pipe2(zero_pipe, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	for (i = 0; i < nr_programs; i++) {
		if (!programs[i].early)
			continue;
		nr_early++;
		start(&programs[i], 0);
	}
}

/* Each early program may read time zero once. */
void announce_zero(void)
{
	const uint64_t zero = zero_clock_ns();
	unsigned int i;

	for (i = 0; i < nr_early; i++)
		if (write(zero_pipe[1], &zero, sizeof(zero)) < 0)
			die("pipe: %s", strerror(errno));
}

void start_programs(uint64_t t_ns)
{
	unsigned int i;

	for (i = 0; i < nr_programs; i++) {
		struct program *p = &programs[i];

		if (!p->started && p->start_ns <= t_ns)
			start(p, t_ns);
		if (p->pid && p->stop_ns <= t_ns && !p->signalled) {
			p->signalled = true;
			kill(-p->pid, SIGTERM);
		}
	}
}

void stop_programs(int signal)
{
	unsigned int i;

	for (i = 0; i < nr_programs; i++) {
		if (!programs[i].pid)
			continue;
		programs[i].signalled = true;
		kill(-programs[i].pid, signal);
	}
}

uint64_t next_program_ns(void)
{
	uint64_t next = NEVER;
	unsigned int i;

	for (i = 0; i < nr_programs; i++) {
		const struct program *p = &programs[i];

		if (!p->started && p->start_ns < next)
			next = p->start_ns;
		if (p->pid && !p->signalled && p->stop_ns < next)
			next = p->stop_ns;
	}
	return next;
}

void program_ended(unsigned int index)
{
	struct program *p = &programs[index];

	if (waitpid(p->pid, &p->status, 0) != p->pid)
		die("%s: wait: %s", p->command, strerror(errno));
	/* Kill the other processes of the group, because they would never end. */
	kill(-p->pid, SIGKILL);
	close(p->pidfd);
	p->pid = 0;
	p->ended = true;
	p->ended_ns = virtual_ns();
	if (!p->server)
		nr_running--;
	if (!strcmp(p->out, "-") && p->status && !p->signalled)
		die("%s in %s failed", p->command, netns[p->ns].name);
}

bool programs_left(void)
{
	unsigned int i;

	for (i = 0; i < nr_programs; i++)
		if (programs[i].pid)
			return true;
	return false;
}

void put_programs(FILE *out)
{
	unsigned int i;

	for (i = 0; i < nr_programs; i++) {
		const struct program *p = &programs[i];

		fprintf(out, "{\"kind\":\"run\",\"id\":%u,\"started\":%s,\"ended\":%s,"
			"\"stopped\":%s,\"started_ns\":%" PRIu64 ",\"ended_ns\":%" PRIu64
			",\"status\":%d}\n", i,
			p->started ? "true" : "false", p->ended ? "true" : "false",
			p->signalled ? "true" : "false", p->started_ns, p->ended_ns,
			WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) :
						 WEXITSTATUS(p->status));
	}
}
