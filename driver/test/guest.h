/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests in the guest share. */
#ifndef FATHOM_GUEST_H
#define FATHOM_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fathom.h"

/* Which guest this is, from the kernel's command line. */
struct world {
	bool arm64;
	unsigned long engines;	/* bit n: engine n is there */
	unsigned long coherent;	/* bit n: the CPU's caches see what it does */
	bool soft;		/* the memcpy channel is the tests' own */
	bool slow;		/* edu's 100 ms are real ones */
	uint64_t reserved;	/* where memory is reserved for the driver, if it is, */
	uint64_t reserved_bytes;	/* and how much */
	int cpus;
	unsigned long calls;
	unsigned long seed;
};

extern struct world world;

/* Ends nothing: a test tells all that it finds. */
void failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How many there were so far. */
int failures_so_far(void);
#define check(condition, ...) ((condition) ? (void)0 : failed(__VA_ARGS__))

int device_open(void);
/* 0, or the negative errno. */
int call(int fd, unsigned long command, void *argument);
void expect(int fd, unsigned long command, void *argument, int error, const char *what);
struct fathom_info info_of(int fd);
/* Waits until only the caller's openings are left, and nothing is held. */
void expect_nothing_held(int fd, const char *after);
int load_module(void);
int unload_module(void);
int load_channel(void);
int unload_channel(void);
void write_to(const char *path, const char *text);
bool pin(int cpu);
/* The child's exit status, or 256 + its signal. */
int status_of(int pid);
long meminfo(const char *name);
/* kB of slabs that cannot be reclaimed, less the kernel's own for addresses of vmalloc
 * that were given back: it keeps thousands, and forgets them all at once.
 */
long slabs_held(void);
/* kB that nobody uses, those that CPUs keep at hand included: in a guest of 1 GiB these
 * may be 50 MiB, and MemFree leaves them out.
 */
long free_memory(void);
/* So that meminfo says what is in use. */
void drop_caches(void);
/* kB of CMA's memory that others come to have meanwhile: what can be moved lies there too. */
#define CMA_OTHERS	2048

void test_bounds(void);
void test_regions(void);
void test_reserved(void);
void test_mappings(void);
void test_killed(void);
void test_often(void);
void test_dma(void);
void test_dma_alloc(void);
void test_engines(void);
void test_channel(void);
void test_channel_lost(void);
/* Says itself what came of each. */
void test_commands(void);
void test_counters(void);
void test_cache_id(void);
void test_wakes(void);
void test_fuzz(void);

#endif
