/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests' programs do with tracefs: read and write whole files, or die. */
#ifndef TRACEFS_H
#define TRACEFS_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define T "/sys/kernel/tracing/"

static inline void die(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(err));
	fflush(stdout);
	_exit(2);
}

static inline int put(const char *path, int flags, const char *s)
{
	int fd = open(path, O_WRONLY | flags), ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, s, strlen(s)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static inline int get(const char *path, char *buf, int size)
{
	int fd = open(path, O_RDONLY), n, all = 0;

	if (fd < 0)
		return -errno;
	while (all < size - 1 && (n = read(fd, buf + all, size - 1 - all)) > 0)
		all += n;
	buf[all] = 0;
	close(fd);
	return all;
}

static inline unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Where in its file a function of this program is, for a uprobe. */
static inline unsigned long file_offset(void *function)
{
	unsigned long start, end, offset, found = 0, wanted = (unsigned long)function;
	char line[512], flags[8];
	FILE *maps = fopen("/proc/self/maps", "r");

	if (!maps)
		die("/proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s %lx", &start, &end, flags, &offset) == 4 && wanted >= start && wanted < end)
			found = wanted - start + offset;
	fclose(maps);
	return found;
}
#endif
