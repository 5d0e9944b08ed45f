// SPDX-License-Identifier: GPL-2.0
/*
 * Differential fuzzer for fetch arguments: defines random probe events, hits
 * each once, and compares what an instance with disable_bpf set recorded with
 * what an instance without it recorded, argument by argument.
 *
 *   fuzz [--seed N] [--count N] [--kinds kprobe,kretprobe,fprobe,fexit,tprobe,eprobe,uprobe,uretprobe] [--perf | --cost]
 *        [--no-stack] [-v]
 *
 * With --perf, what perf records takes the place of the latter: perf knows no
 * such option. With --cost it times both instead, and compares what a hit takes; that makes
 * sense where the clock counts instructions. --no-stack leaves out $stackN, which KASAN objects to where the kernel
 * reads it like any memory.
 *
 * Needs fetcharg_fuzz.ko. Exit status 0: no mismatch.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tracefs.h"

#define GROUP "fetchbpf_fuzz"
#define MAX_ARGS 128

enum obj { O_D, O_U, O_NULL, O_BAD, O_UBAD, O_STR, O_USTR, O_EDGE, O_INT, O_KSYM };

struct arg {
	char text[512];
	char name[8];
	int maybe_fault;	/* a fixed-size element may be 0 instead of stale */
	int chain_fault;	/* a string's address may not be readable */
	int is_string;
	int count, offset, size;	/* from the format file */
};

static struct arg args[MAX_ARGS];
static int nargs, verbose, kernel_kind, deref_max, arg_max, no_deref, no_stack;
/* Hit once with both instances on? Otherwise once in each of them. */
static int one_hit;
static const char *kind;
static uint64_t rng = 1;
static char *ubuf, *exe;
static unsigned long uprobe_off;

static uint64_t rnd(void)
{
	rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17;
	return rng * 0x2545f4914f6cdd1dULL;
}
static int pick(int n) { return (rnd() >> 33) % n; }

/* The target in user space: uprobes go here. */
struct udata { uint64_t w[52]; char text[40]; };
__attribute__((noinline, noclone)) void *fuzz_utarget(void *d, uint64_t a, uint32_t b, char *s)
{
	asm volatile("nop; nop; nop; nop" : : "r"(d), "r"(a), "r"(b), "r"(s) : "memory");
	return d;
}

/* Pointer fields of both the kernel's and the user's data: offset -> object */
static const struct { int off; enum obj k, u; } ptrs[] = {
	{ 40, O_D, O_U }, { 48, O_D, O_U }, { 56, O_NULL, O_NULL }, { 64, O_BAD, O_UBAD },
	{ 72, O_U, O_U }, { 80, O_STR, O_USTR }, { 88, O_STR, O_USTR }, { 96, O_UBAD, O_UBAD },
	{ 104, O_EDGE, O_UBAD }, { 112, O_BAD, O_BAD }, { 32, O_NULL, O_NULL }, { 40, O_D, O_U },
};

static enum obj first(char *t)
{
	static const char *const kints[] = { "$arg2", "$arg3", "$arg4", "$arg7" };
	int k;

	if (!strcmp(kind, "eprobe")) {
		static const char *const f[] = { "fu8", "fs8", "fu16", "fs16", "fu32", "fs32", "fu64", "fs64" };
		switch (pick(5)) {
		case 0: case 1: strcpy(t, "$fptr"); return O_D;
		case 2: strcpy(t, "$fuser"); return O_U;
		case 3: strcpy(t, "$fcstr"); return O_STR;
		default: sprintf(t, "$%s", f[pick(8)]); return O_INT;
		}
	}
	if (!strncmp(kind, "u", 1)) {
		k = pick(6);
		if (!strcmp(kind, "uretprobe")) {
			if (k < 4) { strcpy(t, "$retval"); return O_U; }
		} else {
			if (k < 3) { strcpy(t, "%di"); return O_U; }
			if (k == 3) { strcpy(t, "%cx"); return O_USTR; }
			if (k == 4) { strcpy(t, pick(2) ? "%si" : "%dx"); return O_INT; }
		}
		/* what is in the stack changes from hit to hit */
		strcpy(t, "$stack");
		no_deref = 1;
		return O_INT;
	}
	k = pick(12);
	if (!strcmp(kind, "tprobe")) {
		switch (k % 3) { case 0: strcpy(t, "$arg2"); return O_INT; }
		strcpy(t, "$arg1"); return O_D;
	}
	if (!strcmp(kind, "kretprobe") || !strcmp(kind, "fexit")) {
		if (k < 5) { strcpy(t, "$retval"); return O_D; }
	}
	switch (k) {
	case 0: case 5: case 6: case 7: case 8: strcpy(t, "$arg1"); return O_D;
	case 1: strcpy(t, "$arg5"); return O_U;
	case 2: strcpy(t, "$arg6"); return O_STR;
	case 3: strcpy(t, kints[pick(4)]); return O_INT;
	case 4:
		if (!strcmp(kind, "kprobe")) { strcpy(t, pick(2) ? "%di" : "%sp"); return t[1] == 'd' ? O_D : O_INT; }
		strcpy(t, "$arg1"); return O_D;
	case 9:
		if (!no_stack) { sprintf(t, "$stack%d", pick(12)); return O_INT; }
		/* fallthrough */
	case 10: strcpy(t, "$stack"); return O_INT;
	default:
		if (!strcmp(kind, "kprobe") || !strcmp(kind, "fprobe")) { strcpy(t, "$arg8"); return O_D; }
		strcpy(t, "$arg1"); return O_D;
	}
}

static int gen_arg(struct arg *a, int i)
{
	static const char *const ints[] = { "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
					    "x8", "x16", "x32", "x64", "char", "symbol" };
	static const int sizes[] = { 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 8 };
	char e[512], n[600];
	enum obj o;
	int depth, fault = 0, ty, off, k, bits, user;

	memset(a, 0, sizeof(*a));
	sprintf(a->name, "a%d", i);

	if (arg_max > 63 && kernel_kind && !pick(12)) {	/* new in 7.3 */
		static const char *const p[] = { "$current:x64", "+0($current):x64", "this_cpu_ptr(@runqueues)",
			"this_cpu_read(@__preempt_count):u32", "+8(this_cpu_ptr(@cpu_info)):u8[12]",
			"this_cpu_ptr(@cpu_info):x64", "+0(+16($current)):u32", "+4(this_cpu_ptr(+40(@linux_banner))):u16" };
		k = pick(7);
		sprintf(a->text, "a%d=%s", i, p[k]);
		a->maybe_fault = 1;
		return 1;
	}
	/* things that are no chain */
	k = pick(24);
	if (k == 0) { sprintf(a->text, "a%d=\\%d:%s", i, pick(100000) - 50000, ints[pick(12)]); return 1; }
	if (k == 1 && strcmp(kind, "eprobe")) { sprintf(a->text, "a%d=$comm", i); a->is_string = 1; return 1; }
	if (k == 2 && strcmp(kind, "eprobe")) { sprintf(a->text, "a%d=\\\"lit%d\"", i, i); a->is_string = 1; return 1; }
	if (k == 3 && kernel_kind) {
		if (pick(2)) { sprintf(a->text, "a%d=@linux_banner+%d:string", i, pick(8)); a->is_string = 1; }
		else sprintf(a->text, "a%d=@linux_banner+%d:%s", i, pick(8), ints[pick(12)]);
		return 1;
	}
	if (k <= 6 && !strcmp(kind, "eprobe")) {
		static const char *const s[] = { "$fstr:string", "$fchars:string", "$fcstr:string", "$frel:string",
						 "$fptr:symstr", "$fcstr", "$comm:string", "$fuser:x64" };
		k = pick(8);
		sprintf(a->text, "a%d=%s", i, s[k]);
		a->is_string = !!strstr(s[k], ":s");
		return 1;
	}

	no_deref = 0;
	o = first(e);
	if (no_deref) {
		sprintf(a->text, "a%d=%s:%s", i, e, ints[pick(12)]);
		return 1;
	}
	depth = pick(4) ? pick(4) : pick(deref_max);
	for (; depth > 0; depth--) {
		if (o != O_D && o != O_U && o != O_NULL && o != O_BAD && !pick(2))
			break;
		k = pick(12);
		off = ptrs[k].off;
		if (!pick(40))
			off = pick(2) ? 0x12348 : -40000;
		user = !kernel_kind ? !pick(3) : (o == O_U || o == O_USTR || !pick(30)) ? pick(2) : 0;
		snprintf(n, sizeof(n), "+%s%d(%s)", user ? "u" : "", off, e);
		if (off < 0)
			snprintf(n, sizeof(n), "%s%d(%s)", user ? "-u" : "-", -off, e);
		strcpy(e, n);
		if (off != ptrs[k].off || (o != O_D && o != O_U) || (user && o == O_D))
			fault = 1;
		if (fault)
			o = O_INT;
		else
			o = o == O_D ? ptrs[k].k : ptrs[k].u;
	}

	a->chain_fault = fault;
	a->maybe_fault = fault;
	ty = pick(14);
	switch (pick(10)) {
	case 0:		/* the value itself */
		sprintf(n, "%s:%s", e, ints[ty]);
		break;
	case 1:		/* no type */
		sprintf(n, "%s", e);
		break;
	case 2: case 3:	/* a string */
		off = o == O_D || o == O_U ? 376 + pick(4) : pick(6);
		user = o == O_U || o == O_USTR ? pick(2) : !pick(12);
		k = pick(8);
		if (k == 0)
			sprintf(n, "%s:symstr", e);
		else if (k == 1)
			sprintf(n, "+%d(%s):symstr", off, e);
		else if (k == 2 && (o == O_D || fault)) {
			sprintf(n, "+120(%s):%s[%d]", e, pick(3) ? "string" : "ustring", 1 + pick(8));
			a->chain_fault = 1;
		} else if (k == 3)
			sprintf(n, "+%d(%s):ustring", off, e);
		else
			sprintf(n, "+%s%d(%s):string", user ? "u" : "", off, e);
		a->is_string = 1;
		break;
	case 4:		/* bitfield */
		off = o == O_D || o == O_U ? 8 * pick(5) : pick(8);
		bits = 1 + pick(sizes[ty % 12] * 8);
		sprintf(n, "+%d(%s):b%d@%d/%d", off, e, bits, pick(sizes[ty % 12] * 8 - bits + 1), sizes[ty % 12] * 8);
		if (!pick(4)) sprintf(n, "%s:b%d@%d/%d", e, bits, 0, sizes[ty % 12] * 8);
		a->maybe_fault |= o != O_D && o != O_U;
		break;
	case 5: case 6:	/* array */
		off = o == O_D || o == O_U ? 184 + pick(60) : pick(30);
		k = pick(3) ? 1 + pick(6) : 1 + pick(64);
		if (!pick(5) )
			sprintf(n, "+%d(%s):b3@2/%d[%d]", off, e, sizes[ty % 12] * 8, k);
		else
			sprintf(n, "+%d(%s):%s[%d]", off, e, ints[ty], k);
		a->maybe_fault |= o != O_D && o != O_U;
		break;
	default:	/* something in memory */
		off = o == O_D || o == O_U ? pick(64) : pick(16);
		if (!pick(60)) { off = 70000; a->maybe_fault = 1; }
		user = o == O_U || o == O_USTR ? pick(2) : !pick(20);
		sprintf(n, "+%s%d(%s):%s", user ? "u" : "", off, e, ints[ty]);
		a->maybe_fault |= (o != O_D && o != O_U) || (user && o == O_D);
	}
	snprintf(a->text, sizeof(a->text), "a%d=%s", i, n);
	return strlen(n) <= (size_t)arg_max;
}

static void head(char *s)
{
	if (!strcmp(kind, "kprobe")) strcpy(s, "p:" GROUP "/ev fetcharg_fuzz_target");
	if (!strcmp(kind, "kretprobe")) strcpy(s, "r:" GROUP "/ev fetcharg_fuzz_target");
	if (!strcmp(kind, "fprobe")) strcpy(s, "f:" GROUP "/ev fetcharg_fuzz_target");
	if (!strcmp(kind, "fexit")) strcpy(s, "f:" GROUP "/ev fetcharg_fuzz_target%return");
	if (!strcmp(kind, "tprobe")) strcpy(s, "t:" GROUP "/ev fetcharg_fuzz");
	if (!strcmp(kind, "eprobe")) strcpy(s, "e:" GROUP "/ev fetcharg_fuzz/fetcharg_fuzz");
	if (!strcmp(kind, "uprobe")) sprintf(s, "p:" GROUP "/ev %s:0x%lx", exe, uprobe_off);
	if (!strcmp(kind, "uretprobe")) sprintf(s, "r:" GROUP "/ev %s:0x%lx", exe, uprobe_off);
}

static void format(void)
{
	static char buf[65536];
	char *l, *save, *p;
	int i = -1;

	get(T "events/" GROUP "/ev/format", buf, sizeof(buf));
	for (l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		int off, size, n = -1, is_loc = !!strstr(l, "__data_loc");
		char *semi, *br;

		if (strncmp(l, "\tfield:", 7))
			continue;
		semi = strchr(l, ';');
		if (sscanf(semi, ";\toffset:%d;\tsize:%d;", &off, &size) != 2)
			continue;
		*semi = 0;
		br = strrchr(l, '[');
		p = strrchr(l, ' ');
		if (br && br > p) *br = 0;
		if (sscanf(p, " a%d", &n) != 1)
			continue;
		i = n;
		args[i].offset = off;
		args[i].size = size;
		args[i].is_string = is_loc;
	}
	if (i != nargs - 1)
		fprintf(stderr, "format: %d of %d args\n", i + 1, nargs), exit(2);
}

static unsigned char *record(const char *inst, unsigned char *page, int id, int *len, int *nrec)
{
	char path[128];
	unsigned char *p, *end, *found = NULL;
	int fd, n, cpu;

	*nrec = 0;
	for (cpu = 0; cpu < 2; cpu++) {
		sprintf(path, T "instances/%s/per_cpu/cpu%d/trace_pipe_raw", inst, cpu);
		fd = open(path, O_RDONLY | O_NONBLOCK);
		if (fd < 0)
			continue;
		while (!found && (n = read(fd, page, 4096)) > 16) {
			end = page + 16 + (*(uint64_t *)(page + 8) & 0xfffff);
			for (p = page + 16; p < end;) {
				uint32_t h = *(uint32_t *)p, tl = h & 31;
				int l;
				unsigned char *d = p + 4;

				if (tl == 29) { if (!(h >> 5)) break; p += 4 + *(uint32_t *)d; continue; }
				if (tl == 30 || tl == 31) { p += 8; continue; }
				if (tl == 0) { l = *(uint32_t *)d - 4; d += 4; } else l = tl * 4;
				if (*(uint16_t *)d == id && !found) { found = d; *len = l; }
				if (*(uint16_t *)d == id) (*nrec)++;
				p = d + l;
			}
		}
		close(fd);
		if (found)
			break;
	}
	return found;
}

static unsigned char page[2][65536] __attribute__((aligned(4096)));

/* perf as the second recorder: its ring buffer, one page of which is the head */
#define PERF_RING (1 << 17)

static int perf, perf_fd = -1;
static struct perf_event_mmap_page *perf_ring;

static int perf_start(int id)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .config = id,
		.sample_period = 1, .sample_type = PERF_SAMPLE_RAW,
	};

	perf_fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (perf_fd < 0)
		return -errno;
	perf_ring = mmap(NULL, PERF_RING + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, perf_fd, 0);
	if (perf_ring == MAP_FAILED)
		die("perf ring buffer");
	return 0;
}

/* Ends the recording; returns the first sample's data. */
static unsigned char *perf_stop(unsigned char *buf, int *len, int *nrec)
{
	unsigned char *data = (unsigned char *)perf_ring + 4096, *found = NULL;
	uint64_t at = 0, head = perf_ring->data_head;

	__sync_synchronize();
	*nrec = 0;
	while (at < head && head < PERF_RING) {
		struct perf_event_header *h = (void *)(data + at);

		if (h->type == PERF_RECORD_SAMPLE && !(*nrec)++) {
			*len = *(uint32_t *)(h + 1);
			memcpy(buf, (char *)(h + 1) + 4, *len);
			found = buf;
		}
		at += h->size;
	}
	munmap(perf_ring, PERF_RING + 4096);
	close(perf_fd);
	return found;
}

/* Returns how long the hits took, in nanoseconds. */
static uint64_t hits(int times)
{
	void *(*volatile target)(void *, uint64_t, uint32_t, char *) = fuzz_utarget;
	uint64_t start;
	char buf[32];

	if (kernel_kind) {
		sprintf(buf, "%d", times);
		if (put("/sys/module/fetcharg_fuzz/parameters/hit", 0, buf))
			die("hit");
		get("/sys/module/fetcharg_fuzz/parameters/elapsed_ns", buf, sizeof(buf));
		return strtoull(buf, NULL, 10);
	}
	start = now_ns();
	while (times-- > 0)
		target(ubuf, 0x8877665544332211ULL, 0xdeadbeef, ubuf + 376);
	return now_ns() - start;
}

/* Bytes before and behind the target's data */
#define AROUND (1 << 17)

#define COST_HITS 512
/* More than this and one percent more than legacy is a mismatch. */
#define COST_SLACK 3

static double cost_of(const char *instance)
{
	uint64_t best = UINT64_MAX, took;
	char path[128];
	int i;

	sprintf(path, T "instances/%s/events/" GROUP "/ev/enable", instance);
	if (put(path, 0, "1"))
		die("enable");
	hits(8);
	for (i = 0; i < 3; i++) {
		took = hits(COST_HITS);
		if (took < best)
			best = took;
	}
	put(path, 0, "0");
	return (double)best / COST_HITS;
}

static double worst_ratio;

static int compare_cost(int n, const char *def)
{
	double legacy = cost_of("fzl"), bpf = cost_of("fzb");

	if (bpf / legacy > worst_ratio)
		worst_ratio = bpf / legacy;
	if (bpf <= legacy * 1.01 + COST_SLACK)
		return 0;
	printf("SLOWER %d: legacy %.1f bpf %.1f: %.400s\n", n, legacy, bpf, def);
	return 1;
}

/* Records a hit both ways: where it is, how long, how many there are. */
static void record_both(int id, unsigned char **r, int *len, int *nrec)
{
	int tries = 5;

	/* A return probe misses a hit at times; then there is no record at all. */
	do {
		r[0] = r[1] = NULL;
		put(T "instances/fzl/events/" GROUP "/ev/enable", 0, "1");
		if (!one_hit) {
			hits(1);
			put(T "instances/fzl/events/" GROUP "/ev/enable", 0, "0");
		}
		if (perf ? perf_start(id) : put(T "instances/fzb/events/" GROUP "/ev/enable", 0, "1"))
			die("enable");
		hits(1);
		if (perf)
			r[1] = perf_stop(page[1], &len[1], &nrec[1]);
		put(T "instances/fzl/events/" GROUP "/ev/enable", 0, "0");
		put(T "instances/fzb/events/" GROUP "/ev/enable", 0, "0");
		r[0] = record("fzl", page[0], id, &len[0], &nrec[0]);
		if (!perf)
			r[1] = record("fzb", page[1], id, &len[1], &nrec[1]);
	} while (!r[0] && !r[1] && --tries);
}

static int compare(int n, const char *def)
{
	unsigned char *r[2] = {};
	int len[2] = {}, nrec[2], i, j, id, bad = 0;
	char buf[64];

	get(T "events/" GROUP "/ev/id", buf, sizeof(buf));
	id = atoi(buf);
	format();
	record_both(id, r, len, nrec);
	if (!r[0] || !r[1] || nrec[0] != 1 || nrec[1] != 1) {
		printf("MISMATCH %d: records legacy %d bpf %d: %s\n", n, nrec[0], nrec[1], def);
		return 1;
	}
	/* perf pads in another way */
	if (perf ? len[1] + 8 < len[0] : len[0] != len[1]) {
		printf("MISMATCH %d: length legacy %d bpf %d: %s\n", n, len[0], len[1], def);
		return 1;
	}
	for (i = 0; i < nargs; i++) {
		struct arg *a = &args[i];
		unsigned char *l = r[0] + a->offset, *b = r[1] + a->offset;
		int why = 0;

		if (a->is_string) {
			for (j = 0; j < a->size && !why; j += 4) {
				uint32_t ll = *(uint32_t *)(l + j), bl = *(uint32_t *)(b + j);
				int so = ll & 0xffff, sl = ll >> 16;

				if (ll != bl)	/* the rest of a failed array is stale */
					why = !(j && a->chain_fault);
				else if (!a->chain_fault && so + sl <= len[0] &&
					 strncmp((char *)r[0] + so, (char *)r[1] + so, sl))
					why = 2;
			}
		} else if (memcmp(l, b, a->size)) {
			int es = a->maybe_fault ? 1 : 0;

			why = 3;
			if (es) {	/* each byte equal or 0 */
				why = 0;
				for (j = 0; j < a->size; j++)
					if (l[j] != b[j] && b[j])
						why = 4;
			}
		}
		if (why) {
			bad = 1;
			printf("MISMATCH %d (%d): %s\n legacy", n, why, a->text);
			for (j = 0; j < a->size && j < 32; j++) printf(" %02x", l[j]);
			printf("\n bpf   ");
			for (j = 0; j < a->size && j < 32; j++) printf(" %02x", b[j]);
			printf("\n");
		}
	}
	if (bad)
		printf("  of: %.300s\n", def);
	return bad;
}

static int supported(void)
{
	char s[600];
	int ret;
	head(s);
	ret = put(T "dynamic_events", O_APPEND, s);
	if (!ret) put(T "dynamic_events", O_APPEND, "-:" GROUP "/ev");
	return ret;
}

int main(int argc, char **argv)
{
	static char def[80000], buf[8192];
	char kinds[256] = "kprobe,kretprobe,fprobe,fexit,tprobe,eprobe,uprobe,uretprobe";
	char *k, *save;
	int i, count = 200, bad = 0, done, all = 0, rejected, progs, cost = 0;
	uint64_t seed = 1;
	struct udata *u;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], 0, 0);
		else if (!strcmp(argv[i], "--count")) count = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--kinds")) strcpy(kinds, argv[++i]);
		else if (!strcmp(argv[i], "--cost")) cost = 1;
		else if (!strcmp(argv[i], "--perf")) perf = 1;
		else if (!strcmp(argv[i], "--no-stack")) no_stack = 1;
		else if (!strcmp(argv[i], "-v")) verbose = 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	exe = realpath("/proc/self/exe", NULL);
	uprobe_off = file_offset(fuzz_utarget);
	/* What the largest offsets reach must not change either, as perf's ring buffer does when it comes to lie there. */
	ubuf = mmap(NULL, 8192 + 2 * AROUND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ubuf == MAP_FAILED)
		die("memory");
	for (i = 0; i < 8192 + 2 * AROUND; i++) ubuf[i] = i * 7;
	ubuf += AROUND;
	u = (struct udata *)ubuf;
	u->w[4] = 0;
	u->w[5] = u->w[6] = u->w[9] = (uint64_t)ubuf;
	u->w[7] = 0;
	u->w[8] = u->w[12] = u->w[13] = 0x10000;
	u->w[10] = (uint64_t)ubuf + 376;
	u->w[11] = (uint64_t)ubuf + 1000;
	u->w[14] = 0x1234567890abcdefUL;
	strcpy(ubuf + 376, "user text");
	memset(ubuf + 1000, 'y', 700); ubuf[1700] = 0;
	for (i = 0; i < 8; i++) ((uint64_t *)(ubuf + 120))[i] = i & 1 ? 0x10000 : (uint64_t)ubuf + 376;
	sprintf(buf, "%lu", (unsigned long)ubuf);
	if (put("/sys/module/fetcharg_fuzz/parameters/user", 0, buf))
		die("fetcharg_fuzz.ko is not loaded");
	get(T "README", buf, sizeof(buf));
	arg_max = strstr(buf, "this_cpu") ? 250 : 63;
	deref_max = strstr(buf, "this_cpu") ? 7 : 10;
	mkdir(T "instances/fzl", 0755);
	mkdir(T "instances/fzb", 0755);
	if (put(T "instances/fzl/options/disable_bpf", 0, "1"))
		die("no option disable_bpf");
	put(T "instances/fzb/options/disable_bpf", 0, "0");

	for (k = strtok_r(kinds, ",", &save); k; k = strtok_r(NULL, ",", &save)) {
		int kbad = 0;

		kind = k;
		kernel_kind = kind[0] != 'u';
		/*
		 * A uprobe's arguments are fetched once for all instances, and
		 * an eprobe works in the first instance only (6.12).
		 */
		one_hit = kernel_kind && strcmp(kind, "eprobe");
		rng = seed * 0x9e3779b97f4a7c15ULL + kind[0] * 131 + kind[1] * 17 + kind[strlen(kind) - 1];
		for (i = 0; i < 10; i++) rnd();
		if (supported() || (perf && !strcmp(kind, "eprobe"))) {
			printf("fuzz %s not supported\n", kind);
			continue;
		}
		rejected = 0; progs = 0;
		for (done = 0; done < count && rejected < count * 20;) {
			char *p;

			nargs = pick(10) ? 1 + pick(5) : 1 + pick(40);
			if (!pick(100)) nargs = MAX_ARGS;
			head(def);
			p = def + strlen(def);
			for (i = 0; i < nargs; i++) {
				while (!gen_arg(&args[i], i)) ;
				p += sprintf(p, " %s", args[i].text);
			}
			if (strlen(def) > 4000) continue;
			/* 6.12 itself clears the byte 511 behind a symbol's start, which many hits get past a page's end. */
			if (cost && strstr(def, "symstr")) continue;
			i = put(T "dynamic_events", O_APPEND, def);
			if (i) {
				rejected++;
				if (verbose > 0 && i != -EINVAL && i != -E2BIG) printf("rejected %d: %s\n", i, def);
				continue;
			}
			if (verbose) printf("%s\n", def);
			kbad += cost ? compare_cost(done, def) : compare(done, def);
			done++;
			if (get(T "fetcharg_bpf", buf, sizeof(buf)) > 0 && strstr(buf, "jited=1")) progs++;
			if (put(T "dynamic_events", O_APPEND, "-:" GROUP "/ev"))
				die("delete");
		}
		printf("fuzz %s %d definitions, %d with a program, %d mismatches, %d rejected\n", kind, done, progs, kbad, rejected);
		if (cost) { printf("cost %s: at worst %.2f %% of legacy\n", kind, worst_ratio * 100); worst_ratio = 0; }
		bad += kbad; all += done;
	}
	rmdir(T "instances/fzl");
	rmdir(T "instances/fzb");
	printf("fuzz total: seed %llu, %d definitions, %d mismatches\n", (unsigned long long)seed, all, bad);
	return !!bad;
}
