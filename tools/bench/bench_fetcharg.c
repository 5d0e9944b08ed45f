// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What fetchargs cost: kprobe, fprobe and eprobe events with 0 to 3 of them.
 *
 * With the module fetcharg_bench of the patch series the kernel itself makes
 * the calls, with interrupts off. Without it the events go on the entry of a
 * system call that does next to nothing, which this process makes.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE "/sys/module/fetcharg_bench/parameters"
#define KINDS 3
#define ARGS 4

enum mode { BPF, INTERPRETER, LEGACY, MODES };

static const char *const mode_name[MODES] = { "bpf", "interpreter", "legacy" };
static const char *const kind_name[KINDS] = { "kprobe", "fprobe", "eprobe" };
static const char letter[KINDS] = { 'p', 'f', 'e' };

/* What is fetched: at a function whose first argument points to memory, and at an event with three integers. */
static const char *const at_function[ARGS] = {
	"", "a=$arg1", "a=$arg1 b=+0($arg1):u64", "a=$arg1 b=+0($arg1):u64 c=+112($arg1):u32",
};
static const char *const at_module_event[ARGS] = { "", "a=$data", "a=$data b=$seq", "a=$data b=$seq c=$flags" };
static const char *const at_syscall_event[ARGS] = {
	"", "a=$policy", "a=$policy b=$__syscall_nr", "a=$policy b=$__syscall_nr c=$policy",
};

static struct {
	bool module;
	struct place place;
	const char *const *event_args;
	bool compiles;			/* the kernel has the patch series */
	char no_interpreter[REASON_LEN];
} here;

static struct row *rows[KINDS][ARGS][MODES];

static void look_around(void)
{
	char path[256];

	here.compiles = tracing_file(path, sizeof(path), "fetcharg_bpf") &&
			tracing_file(path, sizeof(path), "options/disable_bpf");
	here.module = !access(MODULE "/loops", W_OK);
	if (here.module) {
		here.place = (struct place){ "fetcharg_bench_target", "fetcharg_bench:fetcharg_bench" };
		here.event_args = at_module_event;
		note("The kernel module fetcharg_bench makes the calls, with interrupts off; baseline is its loop and the call.");
	} else {
		place_of_syscall(&here.place);
		here.event_args = at_syscall_event;
		note("There is no module fetcharg_bench: the calls are %s, baseline is the whole system call.",
		     work_call[WORK_SYSCALL]);
	}
}

static const char *target(int kind)
{
	return kind == 2 ? here.place.tracepoint : here.place.function;
}

static uint64_t calls_ns(void)
{
	char text[32];
	int ret;

	if (!here.module)
		return work_time(WORK_SYSCALL, opt.loops);
	snprintf(text, sizeof(text), "%u", opt.loops);
	ret = write_small(MODULE "/loops", text);
	if (ret || read_small(MODULE "/elapsed_ns", text, sizeof(text)) <= 0)
		fail("fetcharg_bench does not run %u loops: %s", opt.loops, strerror(-ret));
	return strtoull(text, NULL, 10);
}

/* The loop around nothing; the module of another kernel build may not know it. */
static bool harness_ns(uint64_t *ns)
{
	if (!here.module) {
		*ns = work_time(WORK_NOTHING, opt.loops);
		return true;
	}
	if (write_small(MODULE "/empty", "1"))
		return false;
	*ns = calls_ns();
	write_small(MODULE "/empty", "0");
	return true;
}

/* Does the event that was just defined have a program, compiled or interpreted as wanted? */
static bool has_program(bool compiled)
{
	static char list[1 << 16];
	const char *wanted = compiled ? " jited=1 insns=" : " jited=0 insns=";
	char path[128], *line, *end, *found;

	tracing_file(path, sizeof(path), "fetcharg_bpf");
	if (read_small(path, list, sizeof(list)) <= 0)
		return false;
	line = strstr(list, GROUP "/bench ");
	if (!line)
		return false;
	end = strchrnul(line, '\n');
	*end = '\0';
	found = strstr(line, wanted);
	return found && found[strlen(wanted)] != '0';
}

/* Defines the event; returns false with the reason on refusal. */
static bool define(int kind, int nargs, char *why, size_t size)
{
	const char *args = kind == 2 ? here.event_args[nargs] : at_function[nargs];
	char definition[256], where[128], *colon;
	int ret;

	if (!target(kind)[0]) {
		snprintf(why, size, "not supported on this kernel: it has no such function that takes a kprobe");
		return false;
	}
	snprintf(where, sizeof(where), "%s", target(kind));
	colon = strchr(where, ':');
	if (colon)
		*colon = '.';
	snprintf(definition, sizeof(definition), "%c:" GROUP "/bench %s%s%s", letter[kind], where, nargs ? " " : "", args);
	ret = event_define(definition);
	if (ret)
		snprintf(why, size, "not supported on this kernel: it does not accept %s (%s)", definition, strerror(-ret));
	return !ret;
}

/* One sample of the event that is defined. */
static void sample(struct row *row, unsigned int round)
{
	int ret = event_enable("bench", true);
	char why[REASON_LEN];

	if (ret) {
		snprintf(why, sizeof(why), "the event cannot be enabled: %s", strerror(-ret));
		row_unsupported(row, why);
		return;
	}
	row_put(row, "ns", round, calls_ns());
	event_enable("bench", false);
}

static void set_disable_bpf(bool disable)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/options/disable_bpf", instance);
	write_small(path, disable ? "1" : "0");
}

/* The compiled program and the fetch interpreter are two samples of one event. */
static void compiled_and_legacy(int kind, int nargs, unsigned int round)
{
	struct row *compiled = rows[kind][nargs][BPF], *legacy = rows[kind][nargs][LEGACY];
	char why[REASON_LEN];

	if (!row_supported(compiled) && !row_supported(legacy))
		return;
	if (!define(kind, nargs, why, sizeof(why))) {
		row_unsupported(compiled, why);
		row_unsupported(legacy, why);
		return;
	}
	if (row_supported(compiled)) {
		set_disable_bpf(false);
		if (nargs && !has_program(true))
			row_unsupported(compiled, "this kernel did not compile these arguments; is the BPF JIT off?");
		else
			sample(compiled, round);
	}
	if (row_supported(legacy)) {
		set_disable_bpf(true);
		sample(legacy, round);
	}
	event_delete("bench");
}

/* The JIT is off only while the event is defined. */
static void interpreted(int kind, int nargs, unsigned int round)
{
	struct row *row = rows[kind][nargs][INTERPRETER];
	char why[REASON_LEN];
	bool defined;

	if (!row_supported(row))
		return;
	if (!jit_off(why, sizeof(why))) {
		row_unsupported(row, why);
		return;
	}
	defined = define(kind, nargs, why, sizeof(why));
	jit_restore();
	if (!defined) {
		row_unsupported(row, why);
		return;
	}
	set_disable_bpf(false);
	if (nargs && !has_program(false))
		row_unsupported(row, "this kernel has no program for these arguments that it would interpret");
	else
		sample(row, round);
	event_delete("bench");
}

void bench_fetcharg(void)
{
	struct row *baseline, *harness;
	int cpus[MAX_CPUS];
	uint64_t ns;

	usable_cpus(cpus);
	pin_to(cpus[0]);
	work_open();
	look_around();
	make_instance();
	baseline = row_new(here.place.function, "\"kind\":\"baseline\",\"mode\":\"default\",\"nargs\":0");
	harness = row_new("", "\"kind\":\"harness\",\"mode\":\"default\",\"nargs\":0");
	for (int kind = 0; kind < KINDS; kind++)
		for (int nargs = 0; nargs < ARGS; nargs++)
			for (int mode = 0; mode < MODES; mode++) {
				struct row *row = row_new(target(kind), "\"kind\":\"%s\",\"mode\":\"%s\",\"nargs\":%d",
							  kind_name[kind], mode_name[mode], nargs);

				if (mode != LEGACY && !here.compiles)
					row_unsupported(row, "not supported on this kernel: it does not compile fetchargs");
				rows[kind][nargs][mode] = row;
			}
	note("All samples were taken on CPU %d.", cpus[0]);
	for (unsigned int round = 0; round < opt.rounds; round++) {
		progress(round);
		row_put(baseline, "ns", round, calls_ns());
		if (row_supported(harness) && harness_ns(&ns))
			row_put(harness, "ns", round, ns);
		else
			row_unsupported(harness, "this kernel's module has no empty loop: it is part of baseline");
		for (int kind = 0; kind < KINDS; kind++)
			for (int nargs = 0; nargs < ARGS; nargs++) {
				compiled_and_legacy(kind, nargs, round);
				interpreted(kind, nargs, round);
			}
	}
}
