// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Does a kprobe count every call of a hot function, made on 1 to all CPUs?
 * The function is the entry of a system call that hardly any program makes,
 * so that the calls made are ours and known.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char event[64];

/* kprobe_profile: a line "NAME HITS MISSES" for each kprobe event. */
static void profile(uint64_t *hits, uint64_t *misses)
{
	static char list[1 << 18];
	char path[128], *line;

	tracing_file(path, sizeof(path), "kprobe_profile");
	if (read_small(path, list, sizeof(list)) <= 0)
		fail("cannot read %s", path);
	line = strstr(list, event);
	if (!line || sscanf(line + strlen(event), "%lu %lu", hits, misses) != 2)
		fail("%s does not list %s", path, event);
}

void bench_hit_count(void)
{
	static struct row *base[MAX_CPUS], *probed[MAX_CPUS];
	unsigned int counts[MAX_CPUS], steps, all;
	uint64_t hits[2], misses[2];
	char definition[256];
	struct place place;
	struct span span;
	int cpus[MAX_CPUS], ret;

	all = usable_cpus(cpus);
	pin_to(cpus[0]);
	work_open();
	place_of_syscall(&place);
	workers_start(cpus, all);
	steps = cpu_counts(all, counts);
	make_instance();
	/* kprobe_profile knows events by their name alone. */
	snprintf(event, sizeof(event), GROUP "_hits_%d", getpid());
	note("A call is %s; the kprobe is on its entry.", work_call[WORK_SYSCALL]);
	for (unsigned int step = 0; step < steps; step++) {
		base[step] = row_new("", "\"hook\":\"base\",\"cpus\":%u", counts[step]);
		probed[step] = row_new(place.function, "\"hook\":\"kprobe\",\"cpus\":%u", counts[step]);
	}
	snprintf(definition, sizeof(definition), "p:" GROUP "/%s %s", event, place.function);
	ret = place.function[0] ? event_define(definition) : -1;
	if (ret)
		for (unsigned int step = 0; step < steps; step++)
			row_unsupported(probed[step], "not supported on this kernel: it takes no kprobe on that system call");
	for (unsigned int round = 0; round < opt.rounds; round++) {
		progress(round);
		for (unsigned int step = 0; step < steps; step++) {
			workers_run(WORK_SYSCALL, counts[step], opt.loops / 20 + 1, false);
			span = workers_run(WORK_SYSCALL, counts[step], opt.loops, false);
			row_put(base[step], "calls", round, span.calls);
			row_put(base[step], "ns", round, span.ns);
		}
		if (ret)
			continue;
		if (event_enable(event, true))
			fail("the kprobe event on %s cannot be enabled", place.function);
		for (unsigned int step = 0; step < steps; step++) {
			workers_run(WORK_SYSCALL, counts[step], opt.loops / 20 + 1, false);
			profile(&hits[0], &misses[0]);
			span = workers_run(WORK_SYSCALL, counts[step], opt.loops, false);
			profile(&hits[1], &misses[1]);
			row_put(probed[step], "calls", round, span.calls);
			row_put(probed[step], "ns", round, span.ns);
			row_put(probed[step], "hits", round, hits[1] - hits[0]);
			row_put(probed[step], "misses", round, misses[1] - misses[0]);
		}
		event_enable(event, false);
	}
	event_delete(event);
}
