// SPDX-License-Identifier: GPL-2.0
/*
 * Target of the differential fuzzer: writing N to parameters/hit hits it N
 * times, and parameters/elapsed_ns says how long that took.
 */
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

/* Offsets are known to fuzz.c: keep the two alike. */
struct fz_data {
	u64 u64v;		/* 0 */
	u32 u32v;		/* 8 */
	u16 u16v;		/* 12 */
	u8 u8v;			/* 14 */
	s8 s8v;			/* 15 */
	s16 s16v;		/* 16 */
	s16 pad;		/* 18 */
	s32 s32v;		/* 20 */
	s64 s64v;		/* 24 */
	u64 zero;		/* 32 */
	struct fz_data *self;	/* 40 */
	struct fz_data *next;	/* 48 */
	struct fz_data *null;	/* 56 */
	void *bad;		/* 64 */
	void *user;		/* 72 */
	char *str;		/* 80 */
	char *longstr;		/* 88 */
	void *ubad;		/* 96 */
	void *edge;		/* 104: 12 bytes before unmapped memory */
	void *noncanon;		/* 112 */
	char *strs[8];		/* 120 */
	u64 arr[16];		/* 184 */
	u8 bytes[64];		/* 312 */
	char text[40];		/* 376 */
	char big[300];		/* 416 */
};

#define CREATE_TRACE_POINTS
#include "fetcharg_fuzz_trace.h"

static struct fz_data d1, d2;
static char *guarded;
static unsigned long user;
module_param(user, ulong, 0644);

noinline struct fz_data *fetcharg_fuzz_target(struct fz_data *d, u64 a, u32 b,
					      s16 c, void *u, char *s, u64 g,
					      void *h);
noinline struct fz_data *fetcharg_fuzz_target(struct fz_data *d, u64 a, u32 b,
					      s16 c, void *u, char *s, u64 g,
					      void *h)
{
	trace_fetcharg_fuzz(d, a);
	barrier_data(d);
	return d->next;
}

static u64 elapsed_ns;
module_param(elapsed_ns, ullong, 0444);

static int hit_set(const char *val, const struct kernel_param *kp)
{
	unsigned long flags;
	unsigned int times;
	u64 start;
	int ret;

	ret = kstrtouint(val, 0, &times);
	if (ret)
		return ret;
	d1.user = d2.user = (void *)user;
	/* A timer tick in the middle would count as cost of the probe. */
	local_irq_save(flags);
	start = ktime_get_ns();
	while (times--)
		fetcharg_fuzz_target(&d1, 0x8877665544332211ULL, 0xdeadbeef, -5,
				     (void *)user, d1.text,
				     0x1234567890abcdefULL, &d2);
	elapsed_ns = ktime_get_ns() - start;
	local_irq_restore(flags);

	return 0;
}

static int hit_get(char *buf, const struct kernel_param *kp)
{
	return sprintf(buf, "%px\n", &d1);
}

static const struct kernel_param_ops hit_ops = { .set = hit_set, .get = hit_get };
module_param_cb(hit, &hit_ops, NULL, 0600);

static void fill(struct fz_data *d, struct fz_data *other, int salt)
{
	int i;

	d->u64v = 0xf1e2d3c4b5a69788ULL + salt;
	d->u32v = 0x89abcdef + salt;
	d->u16v = 0xfedc - salt;
	d->u8v = 0x9a + salt;
	d->s8v = -7 - salt;
	d->s16v = -300 - salt;
	d->s32v = -70000 - salt;
	d->s64v = -5000000000LL - salt;
	d->self = d;
	d->next = other;
	d->bad = guarded + PAGE_SIZE + 64 * salt;
	d->str = d->text;
	d->longstr = d->big;
	d->ubad = (void *)0x10000;
	d->edge = guarded + PAGE_SIZE - 12;
	d->noncanon = (void *)0x1234567890abcdefUL;
	for (i = 0; i < 16; i++)
		d->arr[i] = i * 0x0101010101010101ULL + salt;
	for (i = 0; i < 64; i++)
		d->bytes[i] = 255 - i;
	snprintf(d->text, sizeof(d->text), "text of %d", salt);
	memset(d->big, 'x', sizeof(d->big) - 1);
	d->strs[0] = d->text;
	d->strs[1] = NULL;
	d->strs[2] = d->bad;
	d->strs[3] = d->big;
	d->strs[4] = other->text;
	d->strs[5] = d->edge;
	d->strs[6] = d->text + 3;
	d->strs[7] = d->text;
}

static int __init fz_init(void)
{
	BUILD_BUG_ON(offsetof(struct fz_data, big) != 416);
	guarded = vmalloc(PAGE_SIZE);
	if (!guarded)
		return -ENOMEM;
	memset(guarded, 'e', PAGE_SIZE);
	fill(&d1, &d2, 1);
	fill(&d2, &d1, 2);
	fill(&d1, &d2, 1);
	return 0;
}

static void __exit fz_exit(void)
{
	vfree(guarded);
}

module_init(fz_init);
module_exit(fz_exit);
MODULE_DESCRIPTION("Target of the fetch argument fuzzer");
MODULE_LICENSE("GPL");
