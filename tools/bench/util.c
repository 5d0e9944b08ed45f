// SPDX-License-Identifier: GPL-3.0-or-later
/* Errors, small files, time, CPUs. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void fail(const char *fmt, ...)
{
	va_list args;

	fputs("fetchbpf-bench: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	/* The guard cleans up. */
	_exit(1);
}

void progress(unsigned int round)
{
	fprintf(stderr, "round %u/%u\n", round + 1, opt.rounds);
}

void *need(void *memory)
{
	if (!memory)
		fail("out of memory");
	return memory;
}

/* Returns the length of the text, or -1; safe in a signal handler. */
ssize_t read_small(const char *path, char *buf, size_t size)
{
	size_t done = 0;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while (done < size - 1 && (got = read(fd, buf + done, size - 1 - done)) > 0)
		done += got;
	close(fd);
	buf[done] = '\0';
	return done;
}

/* One write(2), appended: O_TRUNC on dynamic_events would delete everybody's. Returns 0 or -errno. */
int write_small(const char *path, const char *text)
{
	ssize_t len = strlen(text);
	int fd, ret = 0;

	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != len)
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* The CPUs we may run on, the last first: the first one serves most interrupts. */
unsigned int usable_cpus(int *list)
{
	unsigned int count = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail("sched_getaffinity: %s", strerror(errno));
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
		if (CPU_ISSET(cpu, &set))
			list[count++] = cpu;
	return count;
}

void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("cannot run on CPU %d: %s", cpu, strerror(errno));
}
