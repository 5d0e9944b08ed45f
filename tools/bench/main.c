// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fetchbpf-bench BENCHMARK: measures what probing costs and prints JSON.
 *
 * Two processes: a runner that measures, and a guard that waits for it and
 * removes what it left, however it ended. If the guard is killed, the runner
 * cleans up and ends; if both are, the next run cleans up before it starts.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCK "/run/fetchbpf-bench.lock"
#define MAX_LOOPS 100000000UL
#define MAX_ROUNDS 1000

struct options opt = { .rounds = 10, .loops = 100000, .slow_calls = 100 };

static const struct {
	const char *name;
	void (*run)(void);
	const char *what;
} benchmarks[] = {
	{ "fetcharg", bench_fetcharg, "probe events with 0 to 3 fetchargs, by each way to fetch them" },
	{ "hook_overhead", bench_hook_overhead, "calls per second with each kind of hook and a minimal BPF program" },
	{ "latency", bench_latency, "run time of a function with each kind of hook on it, percentiles" },
	{ "parallel", bench_parallel, "calls per second on 1 to all CPUs" },
	{ "hit_count", bench_hit_count, "does a kprobe count every call made on 1 to all CPUs?" },
};

#define BENCHMARKS (sizeof(benchmarks) / sizeof(*benchmarks))

static volatile pid_t runner;

static void usage(FILE *out)
{
	fprintf(out,
		"usage: fetchbpf-bench [--rounds N] [--loops N] [--slow-calls N] BENCHMARK\n"
		"       fetchbpf-bench --sweep | --clock | --list\n\n"
		"Prints raw samples as JSON. Needs root.\n\n"
		"  --rounds N      samples of each variant, interleaved over the variants (default %u)\n"
		"  --loops N       calls per sample (default %u)\n"
		"  --slow-calls N  calls per sample of the latency at 100 calls/s (default %u)\n"
		"  --sweep         only remove what a killed run left\n"
		"  --clock         only say whether the clock counts instructions\n"
		"  --list          only list the benchmarks\n\n",
		opt.rounds, opt.loops, opt.slow_calls);
	for (size_t i = 0; i < BENCHMARKS; i++)
		fprintf(out, "  %-14s  %s\n", benchmarks[i].name, benchmarks[i].what);
}

static unsigned int number(const char *option, const char *text, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || text[0] == '-' || value < 1 || value > most)
		fail("--%s wants a number from 1 to %lu, not '%s'", option, most, text);
	return value;
}

static void clean(void)
{
	jit_restore();
	sweep();
}

/* The guard is told to end, or its parent died. */
static void guard_ends(int signal)
{
	if (runner > 0) {
		kill(runner, SIGKILL);
		waitpid(runner, NULL, 0);
	}
	clean();
	_exit(128 + signal);
}

/* The guard was killed: there is nobody but us. */
static void runner_ends(int signal)
{
	clean();
	_exit(128 + signal);
}

static void on_signals(void (*handler)(int), bool keyboard)
{
	static const int ends[] = { SIGTERM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT };
	struct sigaction action = { .sa_handler = handler };

	sigfillset(&action.sa_mask);
	for (int i = 0; i < 5; i++) {
		/* Ctrl-C comes to both processes: the guard deals with it. */
		if (!keyboard && (ends[i] == SIGINT || ends[i] == SIGQUIT || ends[i] == SIGHUP))
			signal(ends[i], SIG_IGN);
		else
			sigaction(ends[i], &action, NULL);
	}
}

static void lock(void)
{
	/* Kept open by all our processes: free when the last of them is gone. */
	int fd = open(LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("cannot open %s: %s", LOCK, strerror(errno));
	/* Those of a run that was killed take a moment to go. */
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB); tries++) {
		if (tries == 100)
			fail("another fetchbpf-bench is running (%s is locked)", LOCK);
		usleep(100000);
	}
}

static void run(void (*benchmark)(void))
{
	pid_t guard = getpid();
	int status;

	/* No signal may come between the fork and the note of whom it made. */
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	runner = fork();
	if (runner < 0)
		fail("fork: %s", strerror(errno));
	if (!runner) {
		on_signals(runner_ends, false);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (getppid() != guard)
			_exit(1);
		benchmark();
		print_result();
		_exit(0);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	while (waitpid(runner, &status, 0) < 0 && errno == EINTR)
		;
	clean();
	if (WIFSIGNALED(status))
		fail("the measuring process was killed by signal %d", WTERMSIG(status));
	exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' }, { "loops", required_argument, NULL, 'l' },
		{ "slow-calls", required_argument, NULL, 's' }, { "sweep", no_argument, NULL, 'S' },
		{ "clock", no_argument, NULL, 'c' }, { "list", no_argument, NULL, 'L' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	bool only_sweep = false;
	char how[REASON_LEN];
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'r': opt.rounds = number("rounds", optarg, MAX_ROUNDS); break;
		case 'l': opt.loops = number("loops", optarg, MAX_LOOPS); break;
		case 's': opt.slow_calls = number("slow-calls", optarg, MAX_LOOPS); break;
		case 'S': only_sweep = true; break;
		case 'c':
			clock_counts_instructions(how, sizeof(how));
			puts(how);
			return 0;
		case 'L':
			for (size_t i = 0; i < BENCHMARKS; i++)
				puts(benchmarks[i].name);
			return 0;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (only_sweep ? optind != argc : optind != argc - 1) {
		usage(stderr);
		return 2;
	}
	if (geteuid())
		fail("must run as root");
	lock();
	if (!find_tracefs())
		fail("this kernel has no tracefs");
	on_signals(guard_ends, true);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	clean();
	if (only_sweep)
		return 0;
	opt.benchmark = argv[optind];
	for (size_t i = 0; i < BENCHMARKS; i++)
		if (!strcmp(benchmarks[i].name, opt.benchmark))
			run(benchmarks[i].run);
	fail("no benchmark '%s'; see --list", opt.benchmark);
}
