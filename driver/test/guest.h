/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests in the guest. */
#ifndef FATHOM_GUEST_H
#define FATHOM_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "fathom.h"

/* Bytes of a page of this kernel. */
#define PAGE	((unsigned long)sysconf(_SC_PAGESIZE))

/* Properties of this guest, from the kernel's command line. */
struct world {
	bool arm;		/* of 32 or 64 bits */
	bool arm64;
	bool raw;		/* translations have the attribute; QEMU's ARMv6 has not */
	bool counters;		/* the cycle counter can be granted */
	bool recorders;		/* its caches do not alias by virtual address */
	bool pci;		/* the kernel has PCI */
	unsigned long step;	/* ns in which the kernel's clock steps */
	unsigned long engines;	/* bit n: engine n is present */
	unsigned long coherent;	/* bit n: its device is coherent */
	bool soft;		/* the memcpy channel is the test module */
	bool slow;		/* edu's 100 ms are real time */
	uint64_t reserved;	/* address of the reserved memory, or 0 */
	uint64_t reserved_bytes;	/* its size */
	int cpus;
	bool exact;		/* its PMU counts instructions, exactly */
	unsigned long calls;
	unsigned long seed;
	bool soak;		/* the fuzz only */
};

extern struct world world;

/* Records a failure; the test continues. */
void failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the number of failures. */
int failures_so_far(void);
#define check(condition, ...) ((condition) ? (void)0 : failed(__VA_ARGS__))

int device_open(void);
/* Returns 0, or the negative errno. */
int call(int fd, unsigned long command, void *argument);
void expect(int fd, unsigned long command, void *argument, int error, const char *what);
struct fathom_info info_of(int fd);
/* Waits until only the caller's opening is left, and nothing is held. */
void expect_nothing_held(int fd, const char *after);
int load_module(void);
int unload_module(void);
int load_channel(void);
int unload_channel(void);
void write_to(const char *path, const char *text);
bool pin(int cpu);
/* Returns the child's exit status, or 256 + its signal. */
int status_of(int pid);
long meminfo(const char *name);
/* Drops caches, and remembers the objects in unreclaimable slabs. */
void slabs_mark(void);
/* Drops caches, prints what grew since then, and fails if it is `kb` or more in all. */
void slabs_grew_below(long kb);
/*
 * Returns kB of free memory, including the CPUs' free lists: in a guest of 1 GiB these
 * may have 50 MiB, and MemFree excludes them.
 */
long free_memory(void);
/* Frees caches, so that meminfo shows memory in use. */
void drop_caches(void);
/* kB of memory that other allocations may take during a test. */
#define CMA_OTHERS	2048
/* Whether CMA memory is lost since it had `cma` kB free, of `free_` kB in all. Movable
 * memory of others is placed there too, which leaves the free memory as it is.
 */
bool cma_is_lost(long cma, long free_);

/* The error with which the counter is refused here, or 0. */
int counters_refused(void);
/* The error with which counters of events are refused here, or 0. */
int events_refused(void);
/* Reads the cycle counter in user space. */
uint64_t cycles(void);
/* Runs a function in a child on a CPU. Returns the child's status. */
int child(int cpu, void (*what)(void));
void read_counter(void);
/* The status of a child that has executed an illegal instruction. */
#define ILLEGAL		(256 + 4 /* SIGILL */)
/* Begins a child that uses a CPU until it is killed. */
int busy(int cpu);
/* The error with which recorders of wake-ups are refused here, or 0. */
int recorders_refused(void);
/* Whether there are no recorders, which is told. */
bool has_no_recorders(int fd);

void test_bounds(void);
void test_regions(void);
void test_reserved(void);
void test_mappings(void);
void test_killed(void);
void test_charge(void);
void test_others(void);
void test_rights(void);
void test_member(void);
void test_group(void);
void test_dofork(void);
void test_hotplug(void);
void test_unbind_busy(void);
void test_fuzz_failing(void);
void test_kmemleak(void);
void test_checkers(void);
void test_often(void);
void test_dma(void);
void test_dma_alloc(void);
void test_engines(void);
void test_channel(void);
void test_channel_lost(void);
/* A part of the fuzz, without a look at what is held. */
void fuzz_failing(void);
/* Prints its own results. */
void test_commands(void);
void test_counters(void);
void test_events(void);
void test_marks(void);
/* Does what the tests start this program again for, by its arguments. Returns whether it is one of these. */
bool started_again(int count, char **words);
void test_cache_id(void);
void test_wakes(void);
void test_fuzz(void);

#endif
