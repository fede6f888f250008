// SPDX-License-Identifier: GPL-2.0
/* Objects in unreclaimable slabs, and which caches of them grew: a leak in the module shows there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

/*
 * Caches that grow without a leak. vmap_area: the kernel keeps thousands of freed addresses of
 * vmalloc and frees all at once. The others belong to the checkers: debugging of objects keeps
 * a pool of them, kmemleak one for each allocation of the kernel's.
 */
static const char *const others[] = {
	"vmap_area", "debug_objects_cache", "kmemleak_object", "kmemleak_scan_area",
};

#define CACHES		512
#define NAME_BYTES	48
#define SHOWN_KB	8

struct cache {
	char name[NAME_BYTES];
	long bytes;
};

struct table {
	struct cache caches[CACHES];
	int count;
	long bytes;
};

static struct table marked;

static bool is_other(const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(others[i], name))
			return true;
	return false;
}

/* Whether the kernel may reclaim the cache, as those of files and directories. */
static bool is_reclaimable(const char *name)
{
	char path[128];
	int answer;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/reclaim_account", name);
	file = fopen(path, "re");
	answer = file ? fgetc(file) : '0';
	if (file)
		fclose(file);
	return answer == '1';
}

/*
 * /proc/slabinfo, version 2.1: name, objects in use, all objects, bytes of an object. Not whole
 * slabs, of which the allocator may keep one half empty for a single object. Free objects of the
 * CPUs' slabs, and KASAN's quarantine, count as in use until their cache is shrunk.
 */
static void read_table(struct table *table)
{
	/*
	 * All of it first: reading reclaim_account takes memory, which KASAN's quarantine
	 * keeps when it is freed, and which would count.
	 */
	static char text[128 << 10];
	char *line, *rest = text;
	size_t length = 0;
	ssize_t got;
	long objects, size;
	struct cache *cache;
	int fd = open("/proc/slabinfo", O_RDONLY | O_CLOEXEC);

	drop_caches();
	do {
		got = fd < 0 ? -1 : read(fd, text + length, sizeof(text) - 1 - length);
		length += got > 0 ? got : 0;
	} while (got > 0);
	check(!got, "/proc/slabinfo: %s", strerror(errno));
	check(length < sizeof(text) - 1, "/proc/slabinfo has more than %zu bytes", sizeof(text));
	close(fd);
	text[length] = 0;
	table->count = 0;
	table->bytes = 0;
	while (table->count < CACHES && (line = strsep(&rest, "\n"))) {
		cache = &table->caches[table->count];
		if (sscanf(line, "%47s %ld %*d %ld", cache->name, &objects, &size) != 3 ||
		    is_other(cache->name) || is_reclaimable(cache->name))
			continue;
		cache->bytes = objects * size;
		table->bytes += cache->bytes;
		table->count++;
	}
	check(table->count > 0, "/proc/slabinfo has no caches");
}

void slabs_mark(void)
{
	read_table(&marked);
}

static long before(const struct cache *cache)
{
	int i;

	for (i = 0; i < marked.count; i++)
		if (!strcmp(marked.caches[i].name, cache->name))
			return marked.caches[i].bytes;
	return 0;
}

void slabs_grew_below(long kb)
{
	static struct table now;
	long grew;
	int i;

	read_table(&now);
	printf("  objects in slabs %ld kB to %ld kB", marked.bytes / 1024, now.bytes / 1024);
	for (i = 0; i < now.count; i++) {
		grew = (now.caches[i].bytes - before(&now.caches[i])) / 1024;
		if (grew >= SHOWN_KB)
			printf(", %s %+ld kB", now.caches[i].name, grew);
	}
	printf("\n");
	grew = (now.bytes - marked.bytes) / 1024;
	check(grew < kb, "objects in slabs grew by %ld kB; %ld may be other code's", grew, kb);
}
