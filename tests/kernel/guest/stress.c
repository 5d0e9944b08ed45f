// SPDX-License-Identifier: GPL-2.0
/*
 * Lifetime of probe events: each worker defines, enables, disables and deletes events of its own, in the top instance,
 * in an instance that comes and goes, and through perf, while the others hit the same places. Some definitions are
 * refused late, when the probe has a program already. One process reads all that has names of probes and programs.
 *
 *   stress [--rounds N] [--workers N]
 *
 * Needs fetcharg_fuzz.ko. It only provokes: what the kernel makes of it is on the console.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tracefs.h"

#define HIT "/sys/module/fetcharg_fuzz/parameters/hit"
#define RING_PAGES 8

/* %1$s: the event's name, %2$s and %3$lx: this program and the offset of its target */
static const char *const events[] = {
	"p:stress/%1$s fetcharg_fuzz_target a=$arg1 b=+0($arg1):u64 c=+0(+80($arg1)):string",
	"p:stress/%1$s fetcharg_fuzz_target a=+0(+56($arg1)):u64 b=+0(+64($arg1)):string c=$comm d=+184($arg1):u64[8]",
	"p:stress/%1$s fetcharg_fuzz_target a=+120($arg1):string[4] b=+u0($arg5):x64 c=$stack3",
	"r8:stress/%1$s fetcharg_fuzz_target a=$retval b=$arg2 c=+8($retval):u32",
	"r:stress/%1$s fetcharg_fuzz_target a=$retval b=+376($retval):string",
	"f:stress/%1$s fetcharg_fuzz_target a=$arg1 b=+0($arg1):u64 c=+376($arg1):string",
	"f:stress/%1$s fetcharg_fuzz_target%%return a=$retval b=+8($retval):u32",
	"t:stress/%1$s fetcharg_fuzz a=$arg1 b=+376($arg1):string",
	"e:stress/%1$s fetcharg_fuzz/fetcharg_fuzz a=$fu32 b=$fptr c=$fstr:string d=+0($fptr):u64",
	"p:stress/%1$s %2$s:0x%3$lx a=%%di b=+0(%%di):u64 c=+0(%%di):string d=$comm",
	"r:stress/%1$s %2$s:0x%3$lx a=$retval b=+0($retval):u64",
	"p:stress/%1$s vfs_read a=$arg1 b=+0($arg1):u64 c=+0(+0($arg1)):string",
};
#define NR_EVENTS (sizeof(events) / sizeof(*events))

static char exe[256];
static unsigned long uprobe_at;
static int accepted, perf_hits;

__attribute__((noinline, noclone)) void *stress_target(void *data)
{
	asm volatile("nop; nop; nop; nop" : : "r"(data) : "memory");
	return data;
}

static void hit_all(int times)
{
	static char data[64] = "text of the user";
	char buf[64];

	while (times-- > 0) {
		put(HIT, 0, "3");
		((void *(*volatile)(void *))stress_target)(data);
		get("/proc/self/comm", buf, sizeof(buf));
	}
}

static void tracefs(const char *value, const char *fmt, ...)
{
	char path[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	put(path, 0, value);
}

/* Has perf record the event for a while; returns whether it recorded any. */
static int through_perf(const char *name)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
	struct perf_event_mmap_page *ring;
	char path[256], buf[32];
	int fd, any;
	size_t size = (RING_PAGES + 1) * 4096;

	snprintf(path, sizeof(path), T "events/stress/%s/id", name);
	if (get(path, buf, sizeof(buf)) <= 0)
		return 0;
	attr.config = atoi(buf);
	attr.sample_period = 1;
	/* The unwinder looks for each address among the symbols of programs. */
	attr.sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0)
		return 0;
	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	hit_all(5);
	any = ring != MAP_FAILED && ring->data_head > 0;
	if (ring != MAP_FAILED)
		munmap(ring, size);
	close(fd);
	return any;
}

static void reader(void)
{
	static char text[1 << 16];
	int fd;

	for (;;) {
		get(T "fetcharg_bpf", text, sizeof(text));
		fd = open("/proc/kallsyms", O_RDONLY);
		while (read(fd, text, sizeof(text)) > 0)
			get(T "fetcharg_bpf", text, sizeof(text));
		close(fd);
	}
}

static void worker(int number, int rounds)
{
	char name[32], instance[64], definition[1024], list[4096];
	unsigned int seed = number;
	int round;

	snprintf(instance, sizeof(instance), T "instances/stress%d", number);
	for (round = 0; round < rounds; round++) {
		const char *event = events[(round + number * 5) % NR_EVENTS];
		int twice = !(rand_r(&seed) % 4), how = rand_r(&seed) % 4;

		snprintf(name, sizeof(name), "w%d_%d", number, round);
		snprintf(definition, sizeof(definition), event, name, exe, uprobe_at);
		if (put(T "dynamic_events", O_APPEND, definition))
			continue;
		accepted++;
		/* Refused as it is there already, and as it is no boundary of an instruction. */
		put(T "dynamic_events", O_APPEND, definition);
		if (event[0] == 'p' && strstr(event, "fetcharg_fuzz_target")) {
			snprintf(definition, sizeof(definition), "p:stress/%s fetcharg_fuzz_target+1%s", name,
				 strchr(event, ' ') + 1 + strlen("fetcharg_fuzz_target"));
			put(T "dynamic_events", O_APPEND, definition);
		}
		/* A second probe of the same event shares all but its place. */
		if (twice && event[0] == 'p' && strstr(event, "fetcharg_fuzz_target")) {
			snprintf(definition, sizeof(definition), "p:stress/%s vfs_read%s", name,
				 strchr(event, ' ') + 1 + strlen("fetcharg_fuzz_target"));
			put(T "dynamic_events", O_APPEND, definition);
		}
		if (how & 1) {
			mkdir(instance, 0755);
			tracefs("1", "%s/options/disable_bpf", instance);
			tracefs("1", "%s/events/stress/%s/enable", instance, name);
			hit_all(2);
			tracefs("0", "%s/options/disable_bpf", instance);
		}
		tracefs("1", T "events/stress/%s/enable", name);
		hit_all(3);
		tracefs(round & 1 ? "1" : "0", T "options/disable_bpf");
		get(T "fetcharg_bpf", list, sizeof(list));
		hit_all(2);
		tracefs("0", T "events/stress/%s/enable", name);
		if (how & 2)
			perf_hits += through_perf(name);
		if (how & 1) {
			hit_all(1);
			tracefs("0", "%s/events/stress/%s/enable", instance, name);
			rmdir(instance);
		}
		snprintf(definition, sizeof(definition), "-:stress/%s", name);
		while (put(T "dynamic_events", O_APPEND, definition) == -EBUSY)
			tracefs("0", T "events/stress/%s/enable", name);
		printf("round %d of worker %d\n", round, number);
		fflush(stdout);
	}
	printf("worker %d %d events %d of them recorded by perf\n", number, accepted, perf_hits);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	int i, rounds = 100, workers = 3, status, failed = 0;
	pid_t hitter, list, pid;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rounds"))
			rounds = atoi(argv[i + 1]);
		if (!strcmp(argv[i], "--workers"))
			workers = atoi(argv[i + 1]);
	}
	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		die("/proc/self/exe");
	uprobe_at = file_offset(stress_target);
	if (put(HIT, 0, "1"))
		die("fetcharg_fuzz.ko is not loaded");

	hitter = fork();
	if (!hitter)
		for (;;)
			hit_all(100);
	list = fork();
	if (!list)
		reader();
	for (i = 0; i < workers; i++)
		if (!fork())
			worker(i, rounds);
	for (i = 0; i < workers; i++) {
		pid = wait(&status);
		failed |= pid < 0 || status;
	}
	kill(hitter, SIGKILL);
	kill(list, SIGKILL);
	waitpid(hitter, &status, 0);
	waitpid(list, &status, 0);
	put(T "options/disable_bpf", 0, "0");
	printf("stress %s\n", failed ? "failed" : "ended");
	return failed;
}
