// SPDX-License-Identifier: GPL-3.0-or-later
/* Functions of the running kernel, by name: its symbol table and its BTF. */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Finds a function by its name or by that of the clone the compiler made of
 * it (NAME.isra.0, NAME.constprop.0).
 */
bool kernel_function(const char *name, char *found, size_t size)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	char line[512], symbol[256], type;
	size_t len = strlen(name);
	bool exact = false;

	if (!file)
		fail("cannot read /proc/kallsyms");
	found[0] = '\0';
	while (!exact && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*s %c %255s", &type, symbol) != 2 || !strchr("tTwW", type))
			continue;
		if (strncmp(symbol, name, len) || (symbol[len] && symbol[len] != '.') || strstr(symbol, ".cold"))
			continue;
		exact = !symbol[len];
		if (exact || !found[0])
			snprintf(found, size, "%s", symbol);
	}
	fclose(file);
	return found[0];
}

/* Bytes that follow the common part of a type. */
static size_t tail_of(const struct btf_type *type)
{
	unsigned int members = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT: return 4;
	case BTF_KIND_ARRAY: return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION: return members * sizeof(struct btf_member);
	case BTF_KIND_ENUM: return members * sizeof(struct btf_enum);
	case BTF_KIND_FUNC_PROTO: return members * sizeof(struct btf_param);
	case BTF_KIND_VAR: return sizeof(struct btf_var);
	case BTF_KIND_DATASEC: return members * sizeof(struct btf_var_secinfo);
	case 17: return 4;			/* BTF_KIND_DECL_TAG, newer than some headers */
	case 19: return members * 12;		/* BTF_KIND_ENUM64 */
	default: return 0;
	}
}

/* Returns the id of a function in the kernel's BTF: -1 if it is not there, -2 if there is no BTF. */
int btf_function(const char *name)
{
	static char *data;
	static size_t size;
	struct btf_header *header;
	char *types, *end, *strings;
	int id = 1;

	if (!data) {
		int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
		struct stat stat;
		ssize_t got;

		if (fd < 0 || fstat(fd, &stat))
			return -2;
		data = need(malloc(stat.st_size));
		while (size < (size_t)stat.st_size && (got = read(fd, data + size, stat.st_size - size)) > 0)
			size += got;
		close(fd);
	}
	header = (struct btf_header *)data;
	if (size < sizeof(*header) || header->magic != BTF_MAGIC)
		return -2;
	types = data + header->hdr_len + header->type_off;
	end = types + header->type_len;
	strings = data + header->hdr_len + header->str_off;
	while (types < end) {
		struct btf_type *type = (struct btf_type *)types;

		if (BTF_INFO_KIND(type->info) == BTF_KIND_FUNC && !strcmp(strings + type->name_off, name))
			return id;
		types += sizeof(*type) + tail_of(type);
		id++;
	}
	return -1;
}
