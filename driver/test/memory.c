// SPDX-License-Identifier: GPL-2.0
/* Regions: attributes in force, colours, mappings, and release of all memory. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

/* Extracts the attribute from PAR, or from the page table entry and IA32_PAT. */
static unsigned int raw_of(const struct fathom_translate *translate)
{
	unsigned int index;

	if (world.arm)
		return translate->raw >> 56;
	index = (translate->raw >> 3 & 3) | (translate->raw >> 7 & 1) << 2;
	return translate->raw_types >> (8 * index) & 7;
}

static unsigned int raw_expected(unsigned int attribute)
{
	static const unsigned int arm[] = { 0xff, 0xbb, 0x44, 0x00 };
	/* arch/arm/include/asm/pgtable-3level.h: MAIR0 and MAIR1 */
	static const unsigned int arm32[] = { 0xff, 0xaa, 0x44, 0x00 };
	static const unsigned int x86[] = { 6, 4, 1, 7 };

	if (!world.arm)
		return x86[attribute];
	return world.arm64 ? arm[attribute] : arm32[attribute];
}

static uint64_t *mapped(int fd, const struct fathom_region *region)
{
	void *memory = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    region->offset);

	check(memory != MAP_FAILED, "mmap of attribute %u: %s", region->attribute, strerror(errno));
	return memory == MAP_FAILED ? NULL : memory;
}

static void store_and_load(uint64_t *memory, uint64_t bytes, const char *what)
{
	volatile uint64_t *words = memory;
	uint64_t i, bad = 0;

	for (i = 0; i < bytes / 8; i++)
		bad += words[i] != 0;
	check(!bad, "%s: %llu words are not zero at first", what, (unsigned long long)bad);
	for (i = 0; i < bytes / 8; i++)
		words[i] = i * 0x9e3779b97f4a7c15ULL;
	for (i = 0, bad = 0; i < bytes / 8; i++)
		bad += words[i] != i * 0x9e3779b97f4a7c15ULL;
	check(!bad, "%s: %llu words are not what was stored", what, (unsigned long long)bad);
}

static void check_pages(int fd, const struct fathom_region *region, uint64_t *memory)
{
	struct fathom_translate translate;
	uint64_t page;

	for (page = 0; page < region->bytes / PAGE; page++) {
		memset(&translate, 0, sizeof(translate));
		translate.va = (uintptr_t)memory + page * PAGE + 8;
		expect(fd, FATHOM_IOC_TRANSLATE, &translate, 0, "translate");
		check(!world.raw || (translate.attribute == region->attribute &&
				     raw_of(&translate) == raw_expected(region->attribute)),
		      "attribute %u is translated as %u (raw %#llx)", region->attribute,
		      translate.attribute, (unsigned long long)translate.raw);
		if (!region->colours)
			check(translate.pa == region->pa + page * PAGE + 8,
			      "page %llu is at %#llx", (unsigned long long)page,
			      (unsigned long long)translate.pa);
		else
			check(translate.pa / PAGE % region->colours == region->colour,
			      "colour %u of %u is at %#llx", region->colour, region->colours,
			      (unsigned long long)translate.pa);
	}
	translate.va = (uintptr_t)memory;
	if (!region->colours && region->bytes == 1 << 20)
		printf("  attribute %u: raw %#x, %llu bytes\n", region->attribute,
		       raw_of(&translate), (unsigned long long)region->bytes);
}

static void one_region(int fd, struct fathom_region region, const char *what)
{
	uint64_t *memory;
	uint64_t used = info_of(fd).used_bytes;

	expect(fd, FATHOM_IOC_REGION, &region, 0, what);
	check(info_of(fd).used_bytes == used + region.bytes, "%s is not counted", what);
	memory = mapped(fd, &region);
	if (!memory)
		return;
	store_and_load(memory, region.bytes, what);
	check_pages(fd, &region, memory);
	munmap(memory, region.bytes);
	expect(fd, FATHOM_IOC_REGION_FREE, &(struct fathom_handle){ .handle = region.handle }, 0,
	       what);
	check(info_of(fd).used_bytes == used, "%s is not given back", what);
}

void test_regions(void)
{
	const uint64_t sizes[] = { 1, PAGE, PAGE + 1, 3 * PAGE, 256 << 10, 1 << 20 };
	struct fathom_region region;
	int fd = device_open();
	unsigned int attribute, i, colour;
	uint32_t attributes = info_of(fd).attributes;

	check(attributes == (1U << FATHOM_WRITE_BACK | 1U << FATHOM_NORMAL_NC | 1U << FATHOM_DEVICE),
	      "attributes %#x", attributes);
	for (attribute = 0; attribute < FATHOM_ATTRIBUTES; attribute++) {
		for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			memset(&region, 0, sizeof(region));
			region.bytes = sizes[i];
			region.attribute = attribute;
			if (attributes & 1U << attribute)
				one_region(fd, region, "a region");
			else
				expect(fd, FATHOM_IOC_REGION, &region, EOPNOTSUPP, "write-through");
		}
	}
	for (colour = 0; colour < 16; colour += 5) {
		memset(&region, 0, sizeof(region));
		region.bytes = 64 * PAGE;
		region.colours = 16;
		region.colour = colour;
		one_region(fd, region, "a coloured region");
	}
	expect_nothing_held(fd, "regions");
	close(fd);
}

static void refused(int fd, uint64_t offset, size_t bytes, int prot, int flags, int error,
		    const char *what)
{
	void *memory = mmap(NULL, bytes, prot, flags, fd, offset);

	check(memory == MAP_FAILED && errno == error, "mmap %s: %s", what,
	      memory == MAP_FAILED ? strerror(errno) : "done");
}

/* Mapped memory outlives its handle and its file. */
static void outlives(int fd)
{
	struct fathom_region region = { .bytes = 4 * PAGE, .attribute = FATHOM_NORMAL_NC };
	struct fathom_translate translate = { 0 };
	uint64_t *memory;
	int other = device_open();

	expect(other, FATHOM_IOC_REGION, &region, 0, "a region");
	memory = mapped(other, &region);
	if (!memory)
		return;
	expect(other, FATHOM_IOC_REGION_FREE, &(struct fathom_handle){ .handle = region.handle }, 0,
	       "free");
	translate.va = (uintptr_t)memory;
	expect(fd, FATHOM_IOC_TRANSLATE, &translate, ENOENT, "another opening's memory");
	close(other);
	memory[0] = 42;
	check(memory[0] == 42 && info_of(fd).regions == 1, "the mapping did not hold its memory");
	munmap((char *)memory + PAGE, PAGE);
	munmap(memory, PAGE);
	check(info_of(fd).regions == 1, "a part unmapped is all unmapped");
	munmap((char *)memory + 2 * PAGE, 2 * PAGE);
	expect_nothing_held(fd, "a mapping that outlived its file");
}

/* A child inherits the file, but not the mapping. */
static void not_inherited(int fd)
{
	struct fathom_region region = { .bytes = PAGE };
	volatile uint64_t *memory;
	int pid, status;

	expect(fd, FATHOM_IOC_REGION, &region, 0, "a region");
	memory = mapped(fd, &region);
	if (!memory)
		return;
	pid = fork();
	if (!pid)
		_exit(memory[0] ? 1 : 0);
	status = status_of(pid);
	check(status == 256 + SIGSEGV, "a child reads its parent's mapping: %d", status);
	munmap((void *)memory, PAGE);
	expect(fd, FATHOM_IOC_REGION_FREE, &(struct fathom_handle){ .handle = region.handle }, 0,
	       "free");
}

void test_mappings(void)
{
	struct fathom_region region = { .bytes = 2 * PAGE };
	struct fathom_translate translate = { 0 };
	int here, fd = device_open();
	int both = PROT_READ | PROT_WRITE;

	expect(fd, FATHOM_IOC_REGION, &region, 0, "a region");
	refused(fd, region.offset, PAGE, both, MAP_PRIVATE, EINVAL, "private");
	refused(fd, region.offset, PAGE, both | PROT_EXEC, MAP_SHARED, EPERM, "to execute");
	refused(fd, region.offset, 3 * PAGE, both, MAP_SHARED, EINVAL, "too much");
	refused(fd, region.offset + PAGE, 2 * PAGE, both, MAP_SHARED, EINVAL, "behind the end");
	refused(fd, region.offset + (1ULL << 27), PAGE, both, MAP_SHARED, EINVAL, "far behind it");
	refused(fd, (uint64_t)(region.handle + 1) << 28, PAGE, both, MAP_SHARED, ENOENT, "nothing");
	refused(fd, 256ULL << 28, PAGE, PROT_READ, MAP_SHARED, ENOENT, "no recorder");
	refused(fd, 257ULL << 28, PAGE, PROT_READ, MAP_SHARED, world.arm && !world.arm64 ? ENOENT : EINVAL,
		"no events");
	refused(fd, 258ULL << 28, PAGE, PROT_READ, MAP_SHARED, EINVAL, "behind the events");
	refused(fd, 1ULL << 62, PAGE, PROT_READ, MAP_SHARED, EINVAL, "the end of the file");
	expect(fd, FATHOM_IOC_REGION_FREE, &(struct fathom_handle){ .handle = region.handle }, 0,
	       "free");
	translate.va = (uintptr_t)&here;
	expect(fd, FATHOM_IOC_TRANSLATE, &translate, ENOENT, "memory of the process's own");
	translate.va = (uintptr_t)-0x100;
	expect(fd, FATHOM_IOC_TRANSLATE, &translate, ENOENT, "the kernel's address");
	translate.va = 0;
	expect(fd, FATHOM_IOC_TRANSLATE, &translate, ENOENT, "no address");
	outlives(fd);
	not_inherited(fd);
	expect_nothing_held(fd, "mappings");
	close(fd);
}

static void hold_and_wait(int ready)
{
	struct fathom_region region;
	struct fathom_wake_start start = { .period_ns = 200000, .rows = 100000,
					   .policy = FATHOM_POLICY_FIFO };
	struct fathom_counters counters = { 0 };
	int fd = device_open();
	unsigned int attribute;

	for (attribute = 0; attribute < FATHOM_ATTRIBUTES; attribute++) {
		memset(&region, 0, sizeof(region));
		region.bytes = 300000;
		region.attribute = attribute;
		if (!call(fd, FATHOM_IOC_REGION, &region))
			*mapped(fd, &region) = 1;
	}
	pin(0);
	call(fd, FATHOM_IOC_COUNTERS_ON, &counters);
	call(fd, FATHOM_IOC_WAKE_START, &start);
	if (write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* Each child holds about 600 kB of CMA memory, if there is CMA. */
#define KILLS	20

void test_killed(void)
{
	long cma = meminfo("CmaFree"), free_ = free_memory();
	struct fathom_info info;
	char byte;
	int ends[2], pid, i, fd = device_open();

	for (i = 0; i < KILLS; i++) {
		if (pipe(ends)) {
			failed("pipe: %s", strerror(errno));
			return;
		}
		pid = fork();
		if (!pid) {
			close(fd);
			hold_and_wait(ends[1]);
		}
		if (read(ends[0], &byte, 1) != 1)
			failed("the child said nothing");
		info = info_of(fd);
		check(info.regions == 3 && info.wakes == world.recorders && info.used_bytes > 900000,
		      "before the kill: %u regions, %u recorders, %llu bytes", info.regions,
		      info.wakes, (unsigned long long)info.used_bytes);
		kill(pid, SIGKILL);
		status_of(pid);
		close(ends[0]);
		close(ends[1]);
		expect_nothing_held(fd, "kill -9");
	}
	check(!cma_is_lost(cma, free_), "CmaFree was %ld kB and is %ld kB", cma, meminfo("CmaFree"));
	close(fd);
}

/*
 * Uses everything once with a separate opening, including a region whose handle cannot
 * be returned because the result cannot be written.
 */
static void once_more(void *read_only)
{
	uint64_t samples[8];
	struct fathom_region region = { .bytes = 5000 };
	struct fathom_region nc = { .bytes = 5000, .attribute = FATHOM_NORMAL_NC };
	struct fathom_region coloured = { .bytes = 5000, .colours = 4 };
	struct fathom_dma_run run = { .bytes = 64, .count = 1, .samples = (uintptr_t)samples };
	struct fathom_dma_alloc alloc = { .bytes = 64, .count = 1,
					  .samples = (uintptr_t)samples };
	struct fathom_wake_start start = { .period_ns = 100000000, .rows = 1 };
	struct fathom_counters counters = { 0 };
	int fd = device_open();
	void *memory;

	expect(fd, FATHOM_IOC_REGION, &region, 0, "a region");
	expect(fd, FATHOM_IOC_REGION, &nc, 0, "a region");
	expect(fd, FATHOM_IOC_REGION, &coloured, 0, "a region");
	expect(fd, FATHOM_IOC_REGION, read_only, EFAULT, "a region whose answer is lost");
	memory = mapped(fd, &region);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "a run");
	expect(fd, FATHOM_IOC_DMA_ALLOC, &alloc, 0, "an allocation");
	expect(fd, FATHOM_IOC_WAKE_START, &start, recorders_refused(), "a recorder");
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, counters_refused(), "counters");
	check(info_of(fd).regions == 3, "%u regions of 3", info_of(fd).regions);
	close(fd);
	munmap(memory, region.bytes);
}

/* 32 bytes lost per pass would be 112 kB; the kernel's own fluctuation is smaller. */
#define OFTEN		4000
#define SLABS_OTHERS	64	/* kB */

void test_often(void)
{
	struct fathom_region region = { .bytes = 5000 };
	void *read_only = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i, fd;

	memcpy(read_only, &region, sizeof(region));
	mprotect(read_only, PAGE, PROT_READ);
	pin(0);
	for (i = 0; i < OFTEN; i++) {
		if (i == OFTEN / 10)
			slabs_mark();
		once_more(read_only);
	}
	pin(-1);
	slabs_grew_below(SLABS_OTHERS);
	munmap(read_only, PAGE);
	fd = device_open();
	expect_nothing_held(fd, "all often");
	close(fd);
}
