// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Renames per second with each kind of hook on the function (or tracepoint)
 * that a write to /proc/self/comm goes through: on one CPU and on all, with a
 * program that does nothing and with one that counts in one counter of all CPUs.
 */
#include "bench.h"

#include <string.h>

#define HOOKS (HOOK_HARNESS + 1)

void bench_hook_overhead(void)
{
	static struct row *rows[HOOKS][2][2];
	const char *const counter_name[] = { "none", "atomic" };
	unsigned int threads[2] = { 1, 0 }, variants;
	struct place place;
	int cpus[MAX_CPUS], map;
	char why[REASON_LEN];
	uint64_t *counted;
	struct link link;

	threads[1] = usable_cpus(cpus);
	variants = threads[1] > 1 ? 2 : 1;
	pin_to(cpus[0]);
	work_open();
	place_of_comm(&place);
	map = counter_map(&counted);
	workers_start(cpus, threads[1]);
	note("A call is a %s; threads are pinned processes, each writes its own name.", work_call[WORK_COMM]);
	note("With counter atomic the program adds to one counter of all CPUs; base and harness do so in user space.");
	for (int hook = 0; hook < HOOKS; hook++)
		for (unsigned int v = 0; v < variants; v++)
			for (int counter = 0; counter < 2; counter++) {
				bool by_event = hook == HOOK_TRACEPOINT || hook == HOOK_RAW_TRACEPOINT;

				rows[hook][v][counter] = row_new(
					hook == HOOK_HARNESS ? "" : by_event ? place.tracepoint : place.function,
					"\"hook\":\"%s\",\"threads\":%u,\"counter\":\"%s\"", hook_name[hook], threads[v],
					counter_name[counter]);
			}
	for (unsigned int round = 0; round < opt.rounds; round++) {
		progress(round);
		for (int hook = 0; hook < HOOKS; hook++)
			for (int counter = 0; counter < 2; counter++) {
				enum work work = hook == HOOK_HARNESS ? WORK_NOTHING : WORK_COMM;
				bool bare = hook == HOOK_BASE || hook == HOOK_HARNESS;

				if (!row_supported(rows[hook][0][counter]))
					continue;
				if (!attach(hook, &place, counter ? map : -1, &link, why, sizeof(why))) {
					for (unsigned int v = 0; v < variants; v++)
						row_unsupported(rows[hook][v][counter], why);
					continue;
				}
				for (unsigned int v = 0; v < variants; v++) {
					struct row *row = rows[hook][v][counter];
					struct span span;

					workers_run(work, threads[v], opt.loops / 20 + 1, bare && counter);
					*counted = 0;
					span = workers_run(work, threads[v], opt.loops, bare && counter);
					row_put(row, "ns", round, span.ns);
					row_put(row, "calls", round, span.calls);
					/* Others may rename themselves too, so more is no mistake. */
					if (counter && !bare && *counted < span.calls)
						fail("the program on %s ran %llu times in %llu calls", hook_name[hook],
						     (unsigned long long)*counted, (unsigned long long)span.calls);
				}
				detach(&link);
			}
	}
}
