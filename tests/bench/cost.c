// SPDX-License-Identifier: GPL-2.0
/*
 * What does a hit of each of these events cost, and to define it?
 *
 *   cost FILE [--hits N] [--rounds N] [--modes bpf,legacy,interpreter]
 *
 * A line of the file: NAME, a tab, what is hit (call or user), a tab, and the event:
 *   -			none
 *   @SYSTEM/EVENT	a static event
 *   a definition	of a probe event named cost/ev; %u stands for this program's function
 *
 * It prints "cost NAME MODE NS" (the least of all rounds, per hit), "define NAME MODE NS" (the median) and "none NAME
 * MODE REASON". Rounds of all events are interleaved. The module fetcharg_bench must be loaded; all events are recorded
 * in an instance of its own. Where the clock counts instructions, a nanosecond is one of them.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/stat.h>

#include "tracefs.h"

#define INSTANCE T "instances/cost/"
#define PARAMETERS "/sys/module/fetcharg_bench/parameters/"
#define JIT "/proc/sys/net/core/bpf_jit_enable"
#define INTERPRETER "/sys/module/trace_probe_bpf/parameters/interpreter"
#define MAX_CASES 256
#define MAX_ROUNDS 32

static struct {
	char name[64], mode[16], event[512];
	int user, rounds;
	double best;
	uint64_t defined[MAX_ROUNDS];
	const char *reason;
} cases[MAX_CASES];
static int nr_cases, hits = 6400, rounds = 5;

static struct {
	uint64_t first, pad[13];
	uint32_t second;
	char name[32];
} data = { .first = 0x1122334455667788ULL, .second = 0x99aabbcc, .name = "fetcharg_bench" };

__attribute__((noinline, noclone)) long cost_target(void *d, unsigned long seq, unsigned int flags)
{
	asm volatile("nop; nop; nop; nop" : : "r"(d), "r"(seq), "r"(flags) : "memory");
	return seq + flags;
}

static uint64_t hit(int user, int times)
{
	long (*volatile target)(void *, unsigned long, unsigned int) = cost_target;
	uint64_t start;
	char buf[32];
	int i;

	if (!user) {
		sprintf(buf, "%d", times);
		if (put(PARAMETERS "loops", 0, buf))
			die("fetcharg_bench");
		get(PARAMETERS "elapsed_ns", buf, sizeof(buf));
		return strtoull(buf, NULL, 10);
	}
	start = now_ns();
	for (i = 0; i < times; i++)
		target(&data, i, 0x5a);
	return now_ns() - start;
}

/* Is the event that was just defined run in this way? */
static int right_mode(const char *mode)
{
	char list[4096];

	if (!strcmp(mode, "legacy") || get(T "fetcharg_bpf", list, sizeof(list)) <= 0)
		return 1;
	return !strstr(list, "cost/ev ") ||
	       strstr(list, !strcmp(mode, "bpf") ? "jited=1" : "jited=0 insns=") != NULL;
}

static void sample(int n)
{
	const char *event = cases[n].event;
	int interpreter = !strcmp(cases[n].mode, "interpreter"), defined = 0;
	char enable[128] = "";
	uint64_t took;
	double cost;

	if (event[0] == '@') {
		snprintf(enable, sizeof(enable), INSTANCE "events/%.80s/enable", event + 1);
	} else if (event[0] != '-') {
		if (interpreter && (put(INTERPRETER, 0, "1") || put(JIT, 0, "0"))) {
			cases[n].reason = "this kernel has no interpreter for programs";
			return;
		}
		took = now_ns();
		defined = !put(T "dynamic_events", O_APPEND, event);
		cases[n].defined[cases[n].rounds++] = now_ns() - took;
		if (interpreter) {
			put(INTERPRETER, 0, "0");
			put(JIT, 0, "1");
		}
		if (!defined) {
			cases[n].reason = "this kernel does not accept it";
			return;
		}
		strcpy(enable, INSTANCE "events/cost/ev/enable");
	}
	put(INSTANCE "options/disable_bpf", 0, strcmp(cases[n].mode, "legacy") ? "0" : "1");
	if (defined && !right_mode(cases[n].mode)) {
		cases[n].reason = "it is not run in this way";
	} else if (*enable && put(enable, 0, "1")) {
		cases[n].reason = "it cannot be enabled";
	} else {
		hit(cases[n].user, 64);
		took = hit(cases[n].user, hits);
		cost = (double)took / hits;
		if (!cases[n].best || cost < cases[n].best)
			cases[n].best = cost;
		if (*enable)
			put(enable, 0, "0");
	}
	if (defined)
		put(T "dynamic_events", O_APPEND, "-:cost/ev");
}

static void read_cases(const char *path, const char *modes, const char *exe)
{
	unsigned long at = file_offset(cost_target);
	char line[1024], mode[64], *name, *what, *event, *save, *place, *m, *mode_save;
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s", path);
	while (fgets(line, sizeof(line), file)) {
		name = strtok_r(line, "\t", &save);
		what = strtok_r(NULL, "\t", &save);
		event = strtok_r(NULL, "\n", &save);
		if (!event)
			continue;
		snprintf(mode, sizeof(mode), "%s", modes);
		for (m = strtok_r(mode, ",", &mode_save); m; m = strtok_r(NULL, ",", &mode_save)) {
			if (nr_cases == MAX_CASES)
				die("too many cases");
			strcpy(cases[nr_cases].name, name);
			strcpy(cases[nr_cases].mode, m);
			cases[nr_cases].user = !strcmp(what, "user");
			place = strstr(event, "%u ");
			if (place)
				sprintf(cases[nr_cases].event, "%.*s%s:0x%lx%s", (int)(place - event), event, exe, at,
					place + 2);
			else
				strcpy(cases[nr_cases].event, event);
			nr_cases++;
		}
	}
	fclose(file);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
	const char *modes = "legacy";
	char exe[128] = "";
	int i, round;

	for (i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--hits"))
			hits = atoi(argv[i + 1]);
		if (!strcmp(argv[i], "--rounds"))
			rounds = atoi(argv[i + 1]);
		if (!strcmp(argv[i], "--modes"))
			modes = argv[i + 1];
	}
	if (argc < 2 || rounds > MAX_ROUNDS || readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return 2;
	read_cases(argv[1], modes, exe);
	mkdir(T "instances/cost", 0755);
	if (put(INSTANCE "buffer_size_kb", 0, "256"))
		die("no instance");
	for (round = 0; round < rounds; round++)
		for (i = 0; i < nr_cases; i++)
			if (!cases[i].reason)
				sample(i);
	for (i = 0; i < nr_cases; i++) {
		if (cases[i].reason) {
			printf("none %s %s %s\n", cases[i].name, cases[i].mode, cases[i].reason);
			continue;
		}
		printf("cost %s %s %.2f\n", cases[i].name, cases[i].mode, cases[i].best);
		if (!cases[i].rounds)
			continue;
		qsort(cases[i].defined, cases[i].rounds, sizeof(uint64_t), by_value);
		printf("define %s %s %llu\n", cases[i].name, cases[i].mode,
		       (unsigned long long)cases[i].defined[cases[i].rounds / 2]);
	}
	rmdir(T "instances/cost");
	return 0;
}
