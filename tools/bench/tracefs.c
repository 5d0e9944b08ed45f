// SPDX-License-Identifier: GPL-3.0-or-later
/* Our events and our tracing instance, and nobody else's. What cleans up uses no malloc: it runs in signal handlers. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

char tracing[64];
char instance[128];

bool tracing_file(char *path, size_t size, const char *fmt, ...)
{
	va_list args;
	int len;

	len = snprintf(path, size, "%s/", tracing);
	va_start(args, fmt);
	vsnprintf(path + len, size - len, fmt, args);
	va_end(args);
	return !access(path, F_OK);
}

bool find_tracefs(void)
{
	static const char *const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[128];

	for (int i = 0; i < 2; i++) {
		snprintf(tracing, sizeof(tracing), "%s", places[i]);
		if (i == 0 && !tracing_file(path, sizeof(path), "README"))
			mount("nodev", places[0], "tracefs", 0, NULL);
		if (tracing_file(path, sizeof(path), "README")) {
			snprintf(instance, sizeof(instance), "%s/instances/" GROUP, tracing);
			return true;
		}
	}
	return false;
}

void make_instance(void)
{
	char path[192];

	if (mkdir(instance, 0700) && errno != EEXIST)
		fail("cannot create the tracing instance %s: %s", instance, strerror(errno));
	snprintf(path, sizeof(path), "%s/buffer_size_kb", instance);
	write_small(path, "256");
}

int event_define(const char *definition)
{
	char path[128];

	tracing_file(path, sizeof(path), "dynamic_events");
	return write_small(path, definition);
}

int event_enable(const char *event, bool on)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/" GROUP "/%s/enable", instance, event);
	return write_small(path, on ? "1" : "0");
}

int event_delete(const char *event)
{
	char text[128];

	snprintf(text, sizeof(text), "-:" GROUP "/%s", event);
	return event_define(text);
}

/* Takes the next "LETTER:GROUP/EVENT " of our group out of the list. */
static bool next_event(char *list, char *event, size_t size)
{
	char *start, *end;

	start = strstr(list, ":" GROUP "/");
	if (!start)
		return false;
	*start = ' ';
	start += strlen(":" GROUP "/");
	end = start + strcspn(start, " \n");
	if ((size_t)(end - start) >= size)
		return false;
	memcpy(event, start, end - start);
	event[end - start] = '\0';
	return true;
}

/* Removes all events of our group and our instance, also those of a run that was killed. */
void sweep(void)
{
	static char list[1 << 18];
	char path[192], event[65];

	if (!tracing[0])
		return;
	snprintf(path, sizeof(path), "%s/events/" GROUP "/enable", instance);
	write_small(path, "0");
	tracing_file(path, sizeof(path), "dynamic_events");
	if (read_small(path, list, sizeof(list)) > 0)
		while (next_event(list, event, sizeof(event)))
			event_delete(event);
	rmdir(instance);
}
