// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How long the function runs with each kind of hook on it: percentiles, at
 * 100 calls a second and as fast as it goes.
 *
 * Where the kernel has BTF, programs at entry and exit of the function's
 * caller take the time, so that the system call around it is not in it.
 * Elsewhere the system call is timed.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CALLER "comm_write"
#define PERIOD_NS 10000000L

/*
 * A log-linear histogram: exact below 64 ns, from there 32 steps for each power
 * of two, so that a value is off by 1/64 (1.6 %) at most.
 */
#define STEP_BITS 5
#define STEPS (1U << STEP_BITS)
#define BUCKETS ((64 - STEP_BITS) * STEPS + 2 * STEPS)

struct histogram {
	uint64_t count[BUCKETS], total;
};

static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < 2 * STEPS)
		return value;
	shift = 63 - __builtin_clzll(value) - STEP_BITS;
	return (shift + 1) * STEPS + (value >> shift) - STEPS;
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < 2 * STEPS)
		return bucket;
	shift = bucket / STEPS - 1;
	return ((uint64_t)(bucket % STEPS + STEPS) << shift) + ((1ULL << shift) >> 1);
}

static void add(struct histogram *histogram, uint64_t value)
{
	histogram->count[bucket_of(value)]++;
	histogram->total++;
}

/* The smallest value that at least ``percent`` of all do not exceed. */
static uint64_t percentile(const struct histogram *histogram, unsigned int percent)
{
	uint64_t wanted = (histogram->total * percent + 99) / 100, seen = 0;

	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++) {
		seen += histogram->count[bucket];
		if (seen >= wanted)
			return value_of(bucket);
	}
	return 0;
}

static const enum hook hooks[] = { HOOK_BASE, HOOK_KPROBE, HOOK_KRETPROBE, HOOK_TRACEPOINT, HOOK_FENTRY, HOOK_FEXIT };
static const unsigned int percents[] = { 50, 90, 99 };

#define HOOKS (sizeof(hooks) / sizeof(*hooks))
#define PERCENTS (sizeof(percents) / sizeof(*percents))
#define LOADS 2

/* What the timer's programs tell: start, last run time, number of runs; NULL when the system call is timed. */
static volatile uint64_t *timer;

static uint64_t timed_call(enum work work)
{
	uint64_t start = now_ns();

	work_once(work);
	return timer && work == WORK_COMM ? timer[1] : now_ns() - start;
}

static void at_100_a_second(enum work work, struct histogram *histogram)
{
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned int i = 0; i < opt.slow_calls; i++) {
		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
		add(histogram, timed_call(work));
	}
}

static void at_full_rate(enum work work, struct histogram *histogram)
{
	for (unsigned int i = 0; i < opt.loops; i++)
		add(histogram, timed_call(work));
}

static void put(struct row *row[PERCENTS], unsigned int round, const struct histogram *histogram)
{
	for (size_t p = 0; p < PERCENTS; p++)
		row_put(row[p], "ns", round, percentile(histogram, percents[p]));
}

static void measure(enum work work, struct row *row[LOADS][PERCENTS], unsigned int round)
{
	static struct histogram histogram;

	for (unsigned int i = 0; i < 10; i++)
		work_once(work);
	memset(&histogram, 0, sizeof(histogram));
	at_100_a_second(work, &histogram);
	put(row[0], round, &histogram);
	memset(&histogram, 0, sizeof(histogram));
	at_full_rate(work, &histogram);
	put(row[1], round, &histogram);
}

static void new_rows(struct row *row[LOADS][PERCENTS], const char *target, const char *hook)
{
	static const char *const load_name[LOADS] = { "100/s", "full" };

	for (int load = 0; load < LOADS; load++)
		for (size_t p = 0; p < PERCENTS; p++)
			row[load][p] = row_new(target, "\"hook\":\"%s\",\"load\":\"%s\",\"percentile\":\"p%u\"", hook,
					       load_name[load], percents[p]);
}

void bench_latency(void)
{
	static struct row *rows[HOOKS][LOADS][PERCENTS], *harness[LOADS][PERCENTS];
	struct link entry, exit_, link;
	struct place place;
	int cpus[MAX_CPUS], map;
	char why[REASON_LEN], caller[128];
	uint64_t *value;

	usable_cpus(cpus);
	pin_to(cpus[0]);
	work_open();
	place_of_comm(&place);
	map = counter_map(&value);
	if (kernel_function(CALLER, caller, sizeof(caller)) &&
	    attach_timer(caller, map, &entry, &exit_, why, sizeof(why))) {
		work_once(WORK_COMM);
		if (value[2])
			timer = value;
	}
	note("A hook is on %s; the time is that of %s, which calls it.", place.function,
	     timer ? caller : "the whole write(2) to /proc/self/comm");
	note("The histogram is log-linear: exact below %u, else a value is off by %.1f %% at most.", 2 * STEPS,
	     50.0 / STEPS);
	note("harness is two looks at the clock with nothing between, from user space; it is subtracted nowhere.");
	note("All samples were taken on CPU %d; %u calls a sample at 100/s, %u at full rate.", cpus[0], opt.slow_calls,
	     opt.loops);
	new_rows(harness, "", hook_name[HOOK_HARNESS]);
	for (size_t hook = 0; hook < HOOKS; hook++)
		new_rows(rows[hook], hooks[hook] == HOOK_TRACEPOINT ? place.tracepoint : place.function,
			 hook_name[hooks[hook]]);
	for (unsigned int round = 0; round < opt.rounds; round++) {
		progress(round);
		measure(WORK_NOTHING, harness, round);
		for (size_t hook = 0; hook < HOOKS; hook++) {
			if (!row_supported(rows[hook][0][0]))
				continue;
			if (attach(hooks[hook], &place, -1, &link, why, sizeof(why))) {
				measure(WORK_COMM, rows[hook], round);
				detach(&link);
				continue;
			}
			for (int load = 0; load < LOADS; load++)
				for (size_t p = 0; p < PERCENTS; p++)
					row_unsupported(rows[hook][load][p], why);
		}
	}
}
