// SPDX-License-Identifier: GPL-3.0-or-later
/* Checks the histogram of the latency benchmark: is it as accurate as it says, and is a percentile one? */
#include "bench_latency.c"

#include <stdlib.h>

struct options opt = { .rounds = 1 };

static void check(bool holds, const char *what, uint64_t value)
{
	if (holds)
		return;
	printf("%s: %llu\n", what, (unsigned long long)value);
	exit(1);
}

static void check_value(uint64_t value)
{
	uint64_t told = value_of(bucket_of(value));
	uint64_t off = told > value ? told - value : value - told;

	check(bucket_of(value) < BUCKETS, "outside", value);
	check(value < 2 * STEPS ? off == 0 : off * 2 * STEPS <= value, "too far off", value);
	check(!value || bucket_of(value) >= bucket_of(value - 1), "not in order", value);
}

int main(void)
{
	static struct histogram histogram;

	for (uint64_t value = 0; value < 100000; value++)
		check_value(value);
	for (int bit = 17; bit < 63; bit++)
		for (int64_t near = -2; near <= 2; near++)
			check_value((1ULL << bit) + near);
	for (uint64_t value = 1; value <= 50; value++)
		add(&histogram, value);
	check(percentile(&histogram, 50) == 25, "p50", percentile(&histogram, 50));
	check(percentile(&histogram, 90) == 45, "p90", percentile(&histogram, 90));
	check(percentile(&histogram, 99) == 50, "p99", percentile(&histogram, 99));
	return 0;
}
