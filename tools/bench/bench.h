/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetchbpf-bench: measures what probing costs. One static binary, no library but libc. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GROUP "fetchbpf_bench_tool"	/* of our events, and our tracing instance */
#define REASON_LEN 512
#define MAX_CPUS 1024

struct options {
	const char *benchmark;
	unsigned int rounds;		/* samples of each variant */
	unsigned int loops;		/* calls per sample */
	unsigned int slow_calls;	/* calls per sample at 100 calls/s */
};

extern struct options opt;

/* util.c: errors, small files, time, CPUs */
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void progress(unsigned int round);
void *need(void *memory);
ssize_t read_small(const char *path, char *buf, size_t size);
int write_small(const char *path, const char *text);
uint64_t now_ns(void);
unsigned int usable_cpus(int *list);
void pin_to(int cpu);

/* clock.c: what does a nanosecond of this machine count? */
bool clock_counts_instructions(char *how, size_t size);

/* rows.c: the result, printed as one JSON object */
struct row;
struct row *row_new(const char *target, const char *labels_fmt, ...) __attribute__((format(printf, 2, 3)));
void row_put(struct row *row, const char *series, unsigned int round, uint64_t value);
void row_unsupported(struct row *row, const char *reason);
bool row_supported(const struct row *row);
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void print_result(void);

/* tracefs.c: our events and instance, and getting rid of them */
extern char tracing[64];
extern char instance[128];
bool find_tracefs(void);
void make_instance(void);
int event_define(const char *definition);
int event_enable(const char *event, bool on);
int event_delete(const char *event);
bool tracing_file(char *path, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void sweep(void);

/* jit.c: the JIT is off only while an event is defined to be interpreted */
bool jit_off(char *why, size_t size);
void jit_restore(void);

/* symbols.c, btf.c: what this kernel calls things */
bool kernel_function(const char *name, char *found, size_t size);
int btf_function(const char *name);

/* calls.c: what is called again and again, by this process or by one pinned process a CPU */
enum work { WORK_NOTHING, WORK_COMM, WORK_URANDOM, WORK_SYSCALL };
extern const char *const work_call[];
struct span {
	uint64_t ns;
	uint64_t calls;
};
void work_open(void);
void work_once(enum work work);
uint64_t work_time(enum work work, unsigned int loops);
void workers_start(const int *cpus, unsigned int count);
struct span workers_run(enum work work, unsigned int active, unsigned int loops, bool count);
unsigned int cpu_counts(unsigned int cpus, unsigned int *counts);

/* bpf.c: minimal programs and where they are attached */
enum hook {
	HOOK_BASE, HOOK_KPROBE, HOOK_KRETPROBE, HOOK_RAW_TRACEPOINT, HOOK_TRACEPOINT,
	HOOK_FENTRY, HOOK_FEXIT, HOOK_FMOD_RET, HOOK_HARNESS,
};
extern const char *const hook_name[];
struct place {
	const char *function;		/* "" when this kernel has none */
	const char *tracepoint;		/* "system:event", whether this kernel has it or not */
};
struct link {
	int fd[2];			/* detached in this order by closing them */
};
int counter_map(uint64_t **value);
bool attach(enum hook hook, const struct place *place, int counter, struct link *link, char *why, size_t size);
bool attach_timer(const char *function, int map, struct link *entry, struct link *exit_, char *why, size_t size);
void detach(struct link *link);
bool function_of(enum work work, const char *const *names, char *found, size_t size);

void bench_fetcharg(void);
void bench_hook_overhead(void);
void bench_latency(void);
void bench_parallel(void);
void bench_hit_count(void);

/* targets.c: the functions and tracepoints that the benchmarks of today's kernels go by */
void place_of_comm(struct place *place);
void place_of_urandom(struct place *place);
void place_of_syscall(struct place *place);

#endif
