// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tells a clock that counts the instructions of an emulated CPU (QEMU's
 * -icount shift=0, one instruction = 1 ns) from one that counts time.
 *
 * Two loops of a known number of instructions, one of cheap and one of dear
 * ones, are timed. Where both take 1 ns an instruction, to within a percent,
 * the clock counts instructions: on hardware a division takes many times an
 * addition, and plain emulation has no reason to hit 1 ns twice.
 */
#include "bench.h"

#include <stdio.h>

#define TURNS 200000
#define TRIES 7

#if defined(__x86_64__)
#define CHEAP 3
#define DEAR 5
static void cheap(void)
{
	unsigned long turns = TURNS, sum = 0;

	asm volatile("1: add $1, %0; dec %1; jnz 1b" : "+r"(sum), "+r"(turns) : : "cc");
}

static void dear(void)
{
	unsigned long turns = TURNS, divisor = 7;

	asm volatile("1: mov $1000003, %%eax; xor %%edx, %%edx; div %1; dec %0; jnz 1b"
		     : "+r"(turns) : "r"(divisor) : "rax", "rdx", "cc");
}
#elif defined(__aarch64__)
#define CHEAP 3
#define DEAR 3
static void cheap(void)
{
	unsigned long turns = TURNS, sum = 0;

	asm volatile("1: add %0, %0, #1; subs %1, %1, #1; b.ne 1b" : "+r"(sum), "+r"(turns) : : "cc");
}

static void dear(void)
{
	unsigned long turns = TURNS, value = 1000003, divisor = 7;

	asm volatile("1: udiv %1, %1, %2; subs %0, %0, #1; b.ne 1b" : "+r"(turns), "+r"(value) : "r"(divisor) : "cc");
}
#else
#define CHEAP 1
#define DEAR 1
static void cheap(void) { }
static void dear(void) { }
#endif

static double per_instruction(void (*loop)(void), unsigned int instructions)
{
	uint64_t best = UINT64_MAX, start, took;

	/* The least disturbed of some tries. */
	for (int i = 0; i < TRIES; i++) {
		start = now_ns();
		loop();
		took = now_ns() - start;
		if (took < best)
			best = took;
	}
	return (double)best / ((double)TURNS * instructions);
}

bool clock_counts_instructions(char *how, size_t size)
{
	double add = per_instruction(cheap, CHEAP);
	double divide = per_instruction(dear, DEAR);
	bool counts = add > 0.99 && add < 1.01 && divide > 0.99 && divide < 1.01;

	snprintf(how, size, "a loop of additions takes %.3f ns an instruction, one of divisions %.3f ns: the clock counts %s",
		 add, divide, counts ? "instructions" : "time");
	return counts;
}
