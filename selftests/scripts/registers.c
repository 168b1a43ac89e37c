// SPDX-License-Identifier: GPL-2.0
/*
 * Check that a process of the guest keeps its floating-point registers, and a thread its own
 * variables. Print the wrong cases; the exit status is their number.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS	200
#define PAGE	4096

static __thread uint64_t own;
static int wrong;

/* A system call between setting a register and reading it. */
static long call(long nr, long a, void *b, long c, uint64_t in, uint64_t *out)
{
	long ret;

	asm volatile("movq %[in], %%xmm7\n\t"
		     "syscall\n\t"
		     "movq %%xmm7, (%[out])"
		     : "=a" (ret)
		     : "0" (nr), "D" (a), "S" (b), "d" (c), [in] "r" (in), [out] "r" (out)
		     : "rcx", "r11", "memory", "xmm7");
	return ret;
}

static void check(const char *name, int good)
{
	if (good)
		return;
	printf("wrong: %s\n", name);
	__atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
}

static void clobber(int signal)
{
	uint64_t x = signal;

	asm volatile("movq %0, %%xmm7" :: "r" (x) : "xmm7");
}

static void test_calls(void)
{
	uint64_t i, out;

	for (i = 1; i <= ROUNDS; i++) {
		call(SYS_getppid, 0, NULL, 0, i, &out);
		check("getppid", out == i);
	}
}

static void test_signal(void)
{
	uint64_t out;

	signal(SIGUSR1, clobber);
	call(SYS_kill, getpid(), (void *)SIGUSR1, 0, 77, &out);
	check("signal", out == 77);
}

static void test_fork(void)
{
	int status = 1;
	uint64_t out;
	long pid;

	pid = call(SYS_fork, 0, NULL, 0, 88, &out);
	if (!pid)
		_exit(out != 88);
	check("fork, parent", out == 88);
	waitpid(pid, &status, 0);
	check("fork, child", !status);
}

static void test_fault(void)
{
	char *page = mmap(NULL, ROUNDS * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t in, out;

	for (in = 0; in < ROUNDS; in++) {
		asm volatile("movq %[in], %%xmm7\n\t"
			     "movb $1, (%[page])\n\t"
			     "movq %%xmm7, %[out]"
			     : [out] "=r" (out)
			     : [in] "r" (in), [page] "r" (page + in * PAGE)
			     : "memory", "xmm7");
		check("page fault", out == in);
	}
}

/* Two threads share one process of the host, and run in turn, each with its own values. */
static void *play(void *ends)
{
	const int *fd = ends;
	uint64_t i, out, base = (uint64_t)fd[0] << 32;
	char byte = 0;

	own = base;
	for (i = 0; i < ROUNDS; i++) {
		call(SYS_write, fd[1], &byte, 1, base + i, &out);
		check("write, threads", out == base + i);
		call(SYS_read, fd[0], &byte, 1, base - i, &out);
		check("read, threads", out == base - i);
		check("variable of a thread", own == base);
	}
	return NULL;
}

static void test_threads(void)
{
	int there[2], back[2];
	pthread_t thread;

	if (pipe(there) || pipe(back))
		exit(255);
	int here[] = { back[0], there[1] }, other[] = { there[0], back[1] };

	if (pthread_create(&thread, NULL, play, other))
		exit(255);
	play(here);
	pthread_join(thread, NULL);
}

int main(void)
{
	test_calls();
	test_signal();
	test_fork();
	test_fault();
	test_threads();
	return wrong > 254 ? 254 : wrong;
}
