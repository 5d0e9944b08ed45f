// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The BPF JIT is off only while an event is defined that is to be interpreted.
 * The value of before is kept in a file meanwhile: whoever survives, or the
 * next run, puts it back.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JIT "/proc/sys/net/core/bpf_jit_enable"
#define INTERPRETER "/sys/module/trace_probe_bpf/parameters/interpreter"
#define SAVED "/run/fetchbpf-bench.jit"
#define UNSAVED SAVED ".new"

/* Whole or not at all: a damaged file would restore nonsense. */
static bool save(const char *value)
{
	int fd = open(UNSAVED, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool written;

	if (fd < 0)
		return false;
	written = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return written && !rename(UNSAVED, SAVED);
}

bool jit_off(char *why, size_t size)
{
	char value[16];
	int ret;

	if (access(INTERPRETER, W_OK)) {
		snprintf(why, size, "not supported on this kernel: it cannot interpret the BPF program of an event");
		return false;
	}
	if (read_small(JIT, value, sizeof(value)) < 0) {
		snprintf(why, size, "not supported on this kernel: it has no BPF JIT that could be turned off");
		return false;
	}
	if (!save(value)) {
		snprintf(why, size, "cannot write %s: %s", SAVED, strerror(errno));
		return false;
	}
	ret = write_small(JIT, "0");
	if (!ret)
		ret = write_small(INTERPRETER, "1");
	if (ret) {
		jit_restore();
		snprintf(why, size, "not supported on this kernel: its BPF JIT cannot be turned off: %s", strerror(-ret));
		return false;
	}
	return true;
}

/* Does nothing where nothing is to be restored; safe in a signal handler. */
void jit_restore(void)
{
	char value[16];

	unlink(UNSAVED);
	if (read_small(SAVED, value, sizeof(value)) <= 0)
		return;
	write_small(INTERPRETER, "0");
	if (!write_small(JIT, value))
		unlink(SAVED);
}
