// SPDX-License-Identifier: GPL-3.0-or-later
/* Where the benchmarks put their hooks. Kernels differ in names: the first that does the job is taken, and told. */
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <string.h>

static const char *find(enum work work, const char *const *names)
{
	static char found[4][128];
	static int used;
	char *mine = found[used++ % 4];

	if (!function_of(work, names, mine, sizeof(found[0])))
		note("This kernel has none of the functions that a %s could go through (%s, ...), or none takes a kprobe.",
		     work_call[work], names[0]);
	else if (strcmp(mine, names[0]))
		note("%s is not called by a %s on this kernel; %s does the job.", names[0], work_call[work], mine);
	return mine;
}

void place_of_comm(struct place *place)
{
	static const char *const names[] = { "__set_task_comm", "set_task_comm", "comm_write", NULL };

	place->function = find(WORK_COMM, names);
	place->tracepoint = "task:task_rename";
}

void place_of_urandom(struct place *place)
{
	static const char *const names[] = {
		"urandom_read_iter", "get_random_bytes_user", "urandom_read", "urandom_read_nowarn", NULL
	};
	char path[128];

	place->function = find(WORK_URANDOM, names);
	place->tracepoint = "random:urandom_read";
	if (!tracing_file(path, sizeof(path), "events/random/urandom_read"))
		note("This kernel has no tracepoint random:urandom_read; kprobe and fentry are on %s.", place->function);
}

void place_of_syscall(struct place *place)
{
	static const char *const names[] = {
		"__x64_sys_sched_get_priority_min", "__arm64_sys_sched_get_priority_min",
		"__se_sys_sched_get_priority_min", "sys_sched_get_priority_min", NULL
	};

	place->function = find(WORK_SYSCALL, names);
	place->tracepoint = "syscalls:sys_enter_sched_get_priority_min";
}
