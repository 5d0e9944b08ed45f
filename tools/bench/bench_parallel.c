// SPDX-License-Identifier: GPL-3.0-or-later
/* Calls per second of pinned processes on 1 to all CPUs, with programs that do nothing hooked in. */
#include "bench.h"

#include <string.h>

static const enum hook hooks[] = { HOOK_BASE, HOOK_KPROBE, HOOK_TRACEPOINT, HOOK_FENTRY, HOOK_HARNESS };

#define HOOKS (sizeof(hooks) / sizeof(*hooks))
#define WORKLOADS 2

void bench_parallel(void)
{
	static const char *const workload[WORKLOADS] = { "comm", "urandom" };
	static const enum work works[WORKLOADS] = { WORK_COMM, WORK_URANDOM };
	static struct row *rows[WORKLOADS][HOOKS][MAX_CPUS];
	unsigned int counts[MAX_CPUS], steps, all;
	struct place place[WORKLOADS];
	int cpus[MAX_CPUS];
	char why[REASON_LEN];
	struct link link;

	all = usable_cpus(cpus);
	pin_to(cpus[0]);
	work_open();
	place_of_comm(&place[0]);
	place_of_urandom(&place[1]);
	workers_start(cpus, all);
	steps = cpu_counts(all, counts);
	note("comm is a %s, urandom a %s; one pinned process a CPU.", work_call[WORK_COMM], work_call[WORK_URANDOM]);
	for (int w = 0; w < WORKLOADS; w++)
		for (size_t hook = 0; hook < HOOKS; hook++)
			for (unsigned int step = 0; step < steps; step++)
				rows[w][hook][step] = row_new(
					hooks[hook] == HOOK_HARNESS ? "" :
					hooks[hook] == HOOK_TRACEPOINT ? place[w].tracepoint : place[w].function,
					"\"workload\":\"%s\",\"hook\":\"%s\",\"cpus\":%u", workload[w],
					hook_name[hooks[hook]], counts[step]);
	for (unsigned int round = 0; round < opt.rounds; round++) {
		progress(round);
		for (int w = 0; w < WORKLOADS; w++)
			for (size_t hook = 0; hook < HOOKS; hook++) {
				enum work work = hooks[hook] == HOOK_HARNESS ? WORK_NOTHING : works[w];

				if (!row_supported(rows[w][hook][0]))
					continue;
				if (!attach(hooks[hook], &place[w], -1, &link, why, sizeof(why))) {
					for (unsigned int step = 0; step < steps; step++)
						row_unsupported(rows[w][hook][step], why);
					continue;
				}
				for (unsigned int step = 0; step < steps; step++) {
					struct span span;

					workers_run(work, counts[step], opt.loops / 20 + 1, false);
					span = workers_run(work, counts[step], opt.loops, false);
					row_put(rows[w][hook][step], "ns", round, span.ns);
					row_put(rows[w][hook][step], "calls", round, span.calls);
				}
				detach(&link);
			}
	}
}
