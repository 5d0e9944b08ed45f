// SPDX-License-Identifier: GPL-3.0-or-later
/* What is called again and again: by this process, or by one pinned process a CPU. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const work_call[] = {
	[WORK_NOTHING] = "nothing",
	[WORK_COMM] = "write to /proc/self/comm",
	[WORK_URANDOM] = "read of 16 bytes of /dev/urandom",
	[WORK_SYSCALL] = "sched_get_priority_min(2)",
};

static int comm_fd, urandom_fd;

/* A write to /proc/self/comm names the process that opened the file: each worker opens its own. */
void work_open(void)
{
	comm_fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
	urandom_fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (comm_fd < 0 || urandom_fd < 0)
		fail("cannot open /proc/self/comm or /dev/urandom: %s", strerror(errno));
}

static void call_nothing(void)
{
	asm volatile("");
}

static void call_comm(void)
{
	if (write(comm_fd, "fetchbpf-bench", 14) != 14)
		fail("write to /proc/self/comm: %s", strerror(errno));
}

static void call_urandom(void)
{
	char bytes[16];

	if (read(urandom_fd, bytes, sizeof(bytes)) != sizeof(bytes))
		fail("read of /dev/urandom: %s", strerror(errno));
}

static void call_syscall(void)
{
	/* Does next to nothing, and hardly any program calls it: our calls are all there are. */
	syscall(SYS_sched_get_priority_min, SCHED_OTHER);
}

static void (*const work_function[])(void) = {
	[WORK_NOTHING] = call_nothing,
	[WORK_COMM] = call_comm,
	[WORK_URANDOM] = call_urandom,
	[WORK_SYSCALL] = call_syscall,
};

void work_once(enum work work)
{
	work_function[work]();
}

/* Nanoseconds that ``loops`` calls take, after some that are not counted. */
uint64_t work_time(enum work work, unsigned int loops)
{
	void (*function)(void) = work_function[work];
	uint64_t start;

	for (unsigned int i = 0; i < loops / 20 + 1; i++)
		function();
	start = now_ns();
	for (unsigned int i = 0; i < loops; i++)
		function();
	return now_ns() - start;
}

#define ORDER (2 * MAX_CPUS)

/* One cache line for each worker's times, and one for the counter they share. */
static struct shared {
	uint32_t order;		/* a number that changes with every order, and how many workers it is for */
	uint32_t left;
	uint32_t work, loops, count;
	_Alignas(128) uint64_t hits;
	struct {
		_Alignas(128) uint64_t start, end;
	} worker[MAX_CPUS];
} *shared;

static void futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void worker_sample(unsigned int me)
{
	void (*function)(void) = work_function[shared->work];
	unsigned int loops = shared->loops;

	shared->worker[me].start = now_ns();
	if (shared->count) {
		for (unsigned int i = 0; i < loops; i++) {
			function();
			__atomic_fetch_add(&shared->hits, 1, __ATOMIC_RELAXED);
		}
	} else {
		for (unsigned int i = 0; i < loops; i++)
			function();
	}
	shared->worker[me].end = now_ns();
}

static void worker(unsigned int me, int cpu, pid_t parent)
{
	uint32_t seen = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Cleaning up is not a worker's. */
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	if (getppid() != parent)
		_exit(0);
	pin_to(cpu);
	work_open();
	for (;;) {
		uint32_t order;

		while ((order = __atomic_load_n(&shared->order, __ATOMIC_ACQUIRE)) == seen)
			futex_wait(&shared->order, seen);
		seen = order;
		/* Not for us; the next order may be on its way already, so look at nothing else. */
		if (me >= order % ORDER)
			continue;
		worker_sample(me);
		if (__atomic_sub_fetch(&shared->left, 1, __ATOMIC_ACQ_REL) == 0)
			futex_wake(&shared->left);
	}
}

/* A worker that ends would be waited for for ever. */
static void worker_gone(int signal)
{
	(void)signal;
	static const char text[] = "fetchbpf-bench: a worker process ended\n";

	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

void workers_start(const int *cpus, unsigned int count)
{
	pid_t parent = getpid();

	if (count > MAX_CPUS)
		fail("more than %d CPUs", MAX_CPUS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	signal(SIGCHLD, worker_gone);
	for (unsigned int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork: %s", strerror(errno));
		if (!child)
			worker(i, cpus[i], parent);
	}
}

/*
 * Lets the first ``active`` workers make ``loops`` calls each; returns the time
 * from the first start to the last end. With ``count`` every call also adds to
 * one counter of all, as a program that counts would.
 */
struct span workers_run(enum work work, unsigned int active, unsigned int loops, bool count)
{
	uint64_t start = UINT64_MAX, end = 0;
	uint32_t left;

	shared->work = work;
	shared->loops = loops;
	shared->count = count;
	__atomic_store_n(&shared->left, active, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->order, (shared->order / ORDER + 1) * ORDER + active, __ATOMIC_RELEASE);
	futex_wake(&shared->order);
	while ((left = __atomic_load_n(&shared->left, __ATOMIC_ACQUIRE)) != 0)
		futex_wait(&shared->left, left);
	for (unsigned int i = 0; i < active; i++) {
		if (shared->worker[i].start < start)
			start = shared->worker[i].start;
		if (shared->worker[i].end > end)
			end = shared->worker[i].end;
	}
	return (struct span){ .ns = end - start, .calls = (uint64_t)active * loops };
}

/* The numbers of CPUs to try: each up to 8, then powers of two, and all. */
unsigned int cpu_counts(unsigned int cpus, unsigned int *counts)
{
	unsigned int found = 0;

	for (unsigned int n = 1; n < cpus; n = n < 8 ? n + 1 : n * 2)
		counts[found++] = n;
	counts[found++] = cpus;
	return found;
}
