// SPDX-License-Identifier: GPL-3.0-or-later
/* The rows of the result and their way out, as JSON. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SERIES 4
#define MAX_ROWS 512
#define MAX_NOTES 16

struct row {
	char labels[160];		/* the inside of a JSON object */
	char target[128];
	char reason[REASON_LEN];
	struct {
		const char *name;
		uint64_t *values;
	} series[MAX_SERIES];
};

static struct row *rows[MAX_ROWS];
static unsigned int row_count;
static char notes[MAX_NOTES][REASON_LEN];
static unsigned int note_count;

struct row *row_new(const char *target, const char *labels_fmt, ...)
{
	struct row *row = need(calloc(1, sizeof(*row)));
	va_list args;

	if (row_count == MAX_ROWS)
		fail("more than %d rows", MAX_ROWS);
	va_start(args, labels_fmt);
	vsnprintf(row->labels, sizeof(row->labels), labels_fmt, args);
	va_end(args);
	snprintf(row->target, sizeof(row->target), "%s", target);
	rows[row_count++] = row;
	return row;
}

void row_put(struct row *row, const char *series, unsigned int round, uint64_t value)
{
	for (int i = 0; i < MAX_SERIES; i++) {
		if (!row->series[i].name) {
			row->series[i].name = series;
			row->series[i].values = need(calloc(opt.rounds, sizeof(uint64_t)));
		}
		if (!strcmp(row->series[i].name, series)) {
			row->series[i].values[round] = value;
			return;
		}
	}
	fail("more than %d series in a row", MAX_SERIES);
}

void row_unsupported(struct row *row, const char *reason)
{
	if (!row->reason[0])
		snprintf(row->reason, sizeof(row->reason), "%s", reason);
}

bool row_supported(const struct row *row)
{
	return !row->reason[0];
}

void note(const char *fmt, ...)
{
	va_list args;

	if (note_count == MAX_NOTES)
		return;
	va_start(args, fmt);
	vsnprintf(notes[note_count++], REASON_LEN, fmt, args);
	va_end(args);
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

void print_result(void)
{
	printf("{\"schema\":1,\"benchmark\":\"%s\",\"rounds\":%u,\"loops\":%u,\n\"notes\":[", opt.benchmark,
	       opt.rounds, opt.loops);
	for (unsigned int i = 0; i < note_count; i++) {
		if (i)
			putchar(',');
		print_text(notes[i]);
	}
	printf("],\n\"rows\":[");
	for (unsigned int i = 0; i < row_count; i++) {
		struct row *row = rows[i];

		printf("%s\n{\"labels\":{%s},\"target\":", i ? "," : "", row->labels);
		print_text(row->target);
		printf(",\"reason\":");
		print_text(row->reason);
		printf(",\"series\":{");
		for (int s = 0; !row->reason[0] && s < MAX_SERIES && row->series[s].name; s++) {
			printf("%s\"%s\":[", s ? "," : "", row->series[s].name);
			for (unsigned int r = 0; r < opt.rounds; r++)
				printf("%s%llu", r ? "," : "", (unsigned long long)row->series[s].values[r]);
			putchar(']');
		}
		printf("}}");
	}
	printf("\n]}\n");
	if (fflush(stdout) || ferror(stdout))
		fail("cannot write the result");
}
