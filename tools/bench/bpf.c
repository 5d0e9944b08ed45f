// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Minimal BPF programs, written down instruction by instruction, and the
 * places they are attached to. Everything here lives as long as its file
 * descriptor: nothing of it can stay behind.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROBE_PMU "/sys/bus/event_source/devices/kprobe"

const char *const hook_name[] = {
	[HOOK_BASE] = "base", [HOOK_KPROBE] = "kprobe", [HOOK_KRETPROBE] = "kretprobe",
	[HOOK_RAW_TRACEPOINT] = "raw_tracepoint", [HOOK_TRACEPOINT] = "tracepoint", [HOOK_FENTRY] = "fentry",
	[HOOK_FEXIT] = "fexit", [HOOK_FMOD_RET] = "fmod_ret", [HOOK_HARNESS] = "harness",
};

#define INSN(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define RETURN_0 INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0), INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* r1 = address of the map's value */
#define VALUE(map) INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_VALUE, 0, (map)), INSN(0, 0, 0, 0, 0)
#define LOAD(d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_DW, (d), (s), (o), 0)
#define STORE(d, o, s) INSN(BPF_STX | BPF_MEM | BPF_DW, (d), (s), (o), 0)
#define CALL(helper) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, (helper))
#define ARRAY_LEN(array) (sizeof(array) / sizeof(*(array)))

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* An array of one value of 64 bytes, which user space sees too. */
int counter_map(uint64_t **value)
{
	static const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 64, .max_entries = 1,
		.map_flags = BPF_F_MMAPABLE,
	};
	int fd;

	/* Before 5.11 maps count as locked memory. */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	fd = bpf(BPF_MAP_CREATE, &attr);
	if (fd < 0)
		fail("this kernel makes no BPF map: %s", strerror(errno));
	*value = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*value == MAP_FAILED)
		fail("the BPF map cannot be mapped: %s", strerror(errno));
	return fd;
}

/* Keeps of the verifier's log the line that says why, which is the last but its statistics. */
static void reason_of(const char *log, int error, char *why, size_t size)
{
	const char *line = log, *end, *best = NULL;
	int len = 0;

	for (; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (end > line && strncmp(line, "processed ", 10) && strncmp(line, "verification time", 17)) {
			best = line;
			len = end - line;
		}
	}
	if (best)
		snprintf(why, size, "%.*s (%s)", len, best, strerror(error));
	else
		snprintf(why, size, "%s", strerror(error));
}

static int load(enum bpf_prog_type type, enum bpf_attach_type attach_type, int btf_id, const struct bpf_insn *insns,
		unsigned int count, char *why, size_t size)
{
	static char log[1 << 16];
	union bpf_attr attr = {
		.prog_type = type, .expected_attach_type = attach_type, .attach_btf_id = btf_id,
		.insns = (uintptr_t)insns, .insn_cnt = count, .license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log, .log_size = sizeof(log), .log_level = 1,
	};
	int fd;

	log[0] = '\0';
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0) {
		char reason[256];

		reason_of(log, errno, reason, sizeof(reason));
		snprintf(why, size, "%s: the kernel says: %s",
			 attach_type == BPF_MODIFY_RETURN ? "not allowed on this function" :
							    "not supported on this kernel", reason);
	}
	return fd;
}

/* The program that does nothing, or counts the times it ran in ``counter``. */
static int load_plain(enum bpf_prog_type type, enum bpf_attach_type attach_type, int btf_id, int counter, char *why,
		      size_t size)
{
	const struct bpf_insn nothing[] = { RETURN_0 };
	const struct bpf_insn counting[] = {
		VALUE(counter),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 2, 0, BPF_ADD),
		RETURN_0,
	};

	if (counter < 0)
		return load(type, attach_type, btf_id, nothing, ARRAY_LEN(nothing), why, size);
	return load(type, attach_type, btf_id, counting, ARRAY_LEN(counting), why, size);
}

static long number_in(const char *path, const char *before)
{
	char text[64], *start = text;

	if (read_small(path, text, sizeof(text)) <= 0)
		return -1;
	if (before) {
		start = strstr(text, before);
		start = start ? start + strlen(before) : text;
	}
	return strtol(start, NULL, 10);
}

/* Opens the perf event and lets it run the program; closing the returned fd ends both. */
static int perf_attach(struct perf_event_attr *attr, int prog, const char *what, char *why, size_t size)
{
	int fd;

	attr->size = sizeof(*attr);
	attr->sample_period = 1;
	attr->wakeup_events = 1;
	fd = syscall(SYS_perf_event_open, attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		snprintf(why, size, "not supported on this kernel: %s: %s", what, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static int attach_kprobe(const char *function, bool at_return, int prog, char *why, size_t size)
{
	long type = number_in(PROBE_PMU "/type", NULL);
	long bit = number_in(PROBE_PMU "/format/retprobe", "config:");
	struct perf_event_attr attr = { 0 };

	if (type < 0) {
		snprintf(why, size, "not supported on this kernel: no kprobes for perf (" PROBE_PMU ")");
		return -1;
	}
	attr.type = type;
	attr.config = at_return ? 1ULL << (bit < 0 ? 0 : bit) : 0;
	attr.config1 = (uintptr_t)function;
	return perf_attach(&attr, prog, function, why, size);
}

static int attach_tracepoint(const char *tracepoint, int prog, char *why, size_t size)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT };
	char path[256], name[128], *event;
	long id;

	snprintf(name, sizeof(name), "%s", tracepoint);
	event = strchr(name, ':');
	*event++ = '\0';
	tracing_file(path, sizeof(path), "events/%s/%s/id", name, event);
	id = number_in(path, NULL);
	if (id < 0) {
		snprintf(why, size, "not supported on this kernel: it has no tracepoint %s", tracepoint);
		return -1;
	}
	attr.config = id;
	return perf_attach(&attr, prog, tracepoint, why, size);
}

static int attach_raw(const char *name, int prog, char *why, size_t size)
{
	union bpf_attr attr = { 0 };
	int fd;

	attr.raw_tracepoint.name = (uintptr_t)name;
	attr.raw_tracepoint.prog_fd = prog;
	fd = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
	if (fd < 0)
		snprintf(why, size, "not supported on this kernel: %s", strerror(errno));
	return fd;
}

/* Returns the function's id for a BPF trampoline, or 0 with the reason. */
static int trampoline_id(const char *function, char *why, size_t size)
{
	int id = btf_function(function);

	if (id == -2)
		snprintf(why, size, "not supported on this kernel: it has no BTF (CONFIG_DEBUG_INFO_BTF)");
	else if (id == -1)
		snprintf(why, size, "not supported on this kernel: %s is not in its BTF", function);
	return id < 0 ? 0 : id;
}

/* Attaches a program; a hook without one (base, harness) succeeds with nothing done. */
bool attach(enum hook hook, const struct place *place, int counter, struct link *link, char *why, size_t size)
{
	static const enum bpf_attach_type trampoline[] = {
		[HOOK_FENTRY] = BPF_TRACE_FENTRY, [HOOK_FEXIT] = BPF_TRACE_FEXIT, [HOOK_FMOD_RET] = BPF_MODIFY_RETURN,
	};
	int prog = -1, id, held = -1;

	link->fd[0] = link->fd[1] = -1;
	if (hook == HOOK_BASE || hook == HOOK_HARNESS)
		return true;
	if (hook != HOOK_TRACEPOINT && hook != HOOK_RAW_TRACEPOINT && !place->function[0]) {
		snprintf(why, size, "not supported on this kernel: it has no such function that takes a kprobe");
		return false;
	}
	switch (hook) {
	case HOOK_KPROBE:
	case HOOK_KRETPROBE:
		prog = load_plain(BPF_PROG_TYPE_KPROBE, 0, 0, counter, why, size);
		if (prog >= 0)
			held = attach_kprobe(place->function, hook == HOOK_KRETPROBE, prog, why, size);
		break;
	case HOOK_TRACEPOINT:
		prog = load_plain(BPF_PROG_TYPE_TRACEPOINT, 0, 0, counter, why, size);
		if (prog >= 0)
			held = attach_tracepoint(place->tracepoint, prog, why, size);
		break;
	case HOOK_RAW_TRACEPOINT:
		prog = load_plain(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0, counter, why, size);
		if (prog >= 0)
			held = attach_raw(strchr(place->tracepoint, ':') + 1, prog, why, size);
		break;
	default:
		id = trampoline_id(place->function, why, size);
		if (!id)
			return false;
		prog = load_plain(BPF_PROG_TYPE_TRACING, trampoline[hook], id, counter, why, size);
		if (prog >= 0)
			held = attach_raw(NULL, prog, why, size);
	}
	link->fd[0] = held;
	link->fd[1] = prog;
	if (held < 0)
		detach(link);
	return held >= 0;
}

void detach(struct link *link)
{
	for (int i = 0; i < 2; i++) {
		if (link->fd[i] >= 0)
			close(link->fd[i]);
		link->fd[i] = -1;
	}
}

/*
 * Times every run of ``function``: a program at its entry keeps the time, one
 * at its exit writes the nanoseconds since to the map's second word and counts
 * in the third. What is attached to functions that it calls is inside.
 */
bool attach_timer(const char *function, int map, struct link *entry, struct link *exit_, char *why, size_t size)
{
	const struct bpf_insn at_entry[] = {
		CALL(BPF_FUNC_ktime_get_ns), VALUE(map), STORE(1, 0, 0), RETURN_0,
	};
	const struct bpf_insn at_exit[] = {
		CALL(BPF_FUNC_ktime_get_ns), VALUE(map), LOAD(2, 1, 0),
		INSN(BPF_ALU64 | BPF_SUB | BPF_X, 0, 2, 0, 0), STORE(1, 8, 0),
		LOAD(2, 1, 16), INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, 1), STORE(1, 16, 2), RETURN_0,
	};
	int id = trampoline_id(function, why, size);

	entry->fd[0] = entry->fd[1] = exit_->fd[0] = exit_->fd[1] = -1;
	if (!id)
		return false;
	exit_->fd[1] = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, id, at_exit, ARRAY_LEN(at_exit), why, size);
	if (exit_->fd[1] >= 0)
		exit_->fd[0] = attach_raw(NULL, exit_->fd[1], why, size);
	if (exit_->fd[0] >= 0)
		entry->fd[1] = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, id, at_entry, ARRAY_LEN(at_entry), why, size);
	if (entry->fd[1] >= 0)
		entry->fd[0] = attach_raw(NULL, entry->fd[1], why, size);
	if (entry->fd[0] >= 0)
		return true;
	detach(entry);
	detach(exit_);
	return false;
}

/* Is the function really run by the call? A name alone does not say so: it may be inlined there. */
static bool runs_in(enum work work, const char *function)
{
	const struct place place = { .function = function, .tracepoint = "" };
	const uint64_t calls = 16;
	struct link link;
	uint64_t *hits;
	char why[REASON_LEN];
	int map = counter_map(&hits);
	bool runs = false;

	if (attach(HOOK_KPROBE, &place, map, &link, why, sizeof(why))) {
		for (uint64_t i = 0; i < calls; i++)
			work_once(work);
		runs = *hits >= calls;
		detach(&link);
	}
	munmap(hits, sysconf(_SC_PAGESIZE));
	close(map);
	return runs;
}

/* Finds the first function of the list (ended by NULL) that this kernel has and that the call goes through. */
bool function_of(enum work work, const char *const *names, char *found, size_t size)
{
	for (; *names; names++)
		if (kernel_function(*names, found, size) && runs_in(work, found))
			return true;
	found[0] = '\0';
	return false;
}
