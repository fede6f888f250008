// SPDX-License-Identifier: GPL-2.0
/*
 * Random ioctls and mappings, valid and invalid, from four threads in two processes
 * that share openings. The seed determines the calls; the scheduler determines how they
 * interleave. Meanwhile a CPU goes offline and online, and between the parts the module is
 * unloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define PROCESSES	2
#define THREADS		2
#define MAPPINGS	8
#define COMMANDS	14
#define ENOUGH_CALLS	20000
#define PARTS		4

struct fuzzer {
	pthread_t thread;
	uint64_t state;
	uint64_t seen;		/* keeps the compiler from removing loads */
	unsigned long calls;
	int fail_fd;		/* makes allocations of this thread fail; 0 for none */
	unsigned long succeeded[COMMANDS + 1];	/* the last: mmap */
	int *fds;
	struct { void *at; size_t bytes; } mapping[MAPPINGS];
	unsigned char samples[65536];
};

static const unsigned long commands[COMMANDS] = {
	FATHOM_IOC_INFO, FATHOM_IOC_REGION, FATHOM_IOC_REGION_FREE, FATHOM_IOC_TRANSLATE,
	FATHOM_IOC_DMA_RUN, FATHOM_IOC_DMA_ALLOC, FATHOM_IOC_COUNTERS_ON,
	FATHOM_IOC_COUNTERS_STATE, FATHOM_IOC_COUNTERS_OFF, FATHOM_IOC_CACHE_ID,
	FATHOM_IOC_WAKE_START, FATHOM_IOC_WAKE_STOP, FATHOM_IOC_ENGINE, FATHOM_IOC_EVENTS_ON,
};

/* xorshift64*, Vigna 2016 */
static uint64_t draw(struct fuzzer *fuzzer)
{
	fuzzer->state ^= fuzzer->state >> 12;
	fuzzer->state ^= fuzzer->state << 25;
	fuzzer->state ^= fuzzer->state >> 27;
	return fuzzer->state * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(struct fuzzer *fuzzer, uint64_t bound)
{
	return (draw(fuzzer) >> 16) % bound;
}

static bool one_in(struct fuzzer *fuzzer, uint64_t n)
{
	return !below(fuzzer, n);
}

/* A small number, one near a power of two, or any number. */
static uint64_t wild(struct fuzzer *fuzzer)
{
	switch (below(fuzzer, 4)) {
	case 0:
		return below(fuzzer, 16);
	case 1:
		return (1ULL << below(fuzzer, 64)) + below(fuzzer, 3) - 1;
	case 2:
		return ~0ULL - below(fuzzer, 16);
	default:
		return draw(fuzzer);
	}
}

static void fill_region(struct fuzzer *fuzzer, struct fathom_region *region)
{
	region->bytes = one_in(fuzzer, 50) ? below(fuzzer, 4 << 20) + 1 : below(fuzzer, 100000) + 1;
	region->attribute = below(fuzzer, FATHOM_ATTRIBUTES);
	if (one_in(fuzzer, 3)) {
		region->attribute = 0;
		region->colours = 1 << below(fuzzer, 9);
		region->colour = below(fuzzer, region->colours);
	}
}

static void fill_dma(struct fuzzer *fuzzer, struct fathom_dma_run *run)
{
	run->strategy = below(fuzzer, FATHOM_STRATEGIES);
	run->direction = below(fuzzer, 2);
	run->bytes = below(fuzzer, 5000) + 1;
	run->count = below(fuzzer, 5) + 1;
	run->seed = draw(fuzzer);
	run->samples = (uintptr_t)fuzzer->samples;
	if (one_in(fuzzer, 8)) {
		run->engine = FATHOM_ENGINE_DMAENGINE;
		run->bytes = one_in(fuzzer, 2) ? run->bytes : run->bytes * 4;
	}
	/* One transfer of edu takes 100 ms. */
	if (one_in(fuzzer, 100)) {
		run->engine = FATHOM_ENGINE_EDU;
		run->bytes = below(fuzzer, 3000) + 1;
		run->count = 1;
	}
}

static void fill_others(struct fuzzer *fuzzer, unsigned int command, void *argument)
{
	struct fathom_dma_alloc *alloc = argument;
	struct fathom_wake_start *start = argument;
	struct fathom_translate *translate = argument;
	struct fathom_engine *engine = argument;
	struct fathom_events *events = argument;

	switch (command) {
	case 3:
		translate->va = (uintptr_t)fuzzer->mapping[below(fuzzer, MAPPINGS)].at +
				below(fuzzer, 20000);
		break;
	case 5:
		alloc->kind = below(fuzzer, FATHOM_ALLOCS);
		alloc->engine = below(fuzzer, FATHOM_ENGINES);
		alloc->bytes = below(fuzzer, 200000) + 1;
		alloc->count = below(fuzzer, 4) + 1;
		alloc->samples = (uintptr_t)fuzzer->samples;
		break;
	case 12:
		engine->engine = below(fuzzer, FATHOM_ENGINES);
		break;
	case 13:
		events->count = below(fuzzer, 3) + 1;
		for (uint32_t i = 0; i < events->count; i++) {
			events->event[i].config = below(fuzzer, 2);
			events->event[i].flags = FATHOM_EVENT_USER;
		}
		break;
	case 10:
		start->period_ns = 200000 + below(fuzzer, 5000000);
		start->cpu = below(fuzzer, 3);
		start->policy = below(fuzzer, FATHOM_POLICIES);
		start->rows = below(fuzzer, 2000) + 1;
		break;
	}
}

/* Whether the calls of the fuzz are made while allocations fail. */
static bool with_failures;

/*
 * Lets the allocations of this thread fail in the driver's calls alone: a failure to fork
 * or to map a stack would end the test.
 */
static void fail(const struct fuzzer *fuzzer, bool now)
{
	if (fuzzer->fail_fd > 0 && pwrite(fuzzer->fail_fd, now ? "1" : "0", 1, 0) != 1)
		abort();
}

/* A valid request, in which some words may be replaced. */
static void fuzz_ioctl(struct fuzzer *fuzzer, int fd)
{
	uint64_t words[24] = { 0 };	/* as large as the largest structure */
	unsigned int command = below(fuzzer, COMMANDS);
	unsigned long number = commands[command];
	void *argument = words;

	if (command == 1)
		fill_region(fuzzer, argument);
	else if (command == 2)
		((struct fathom_handle *)argument)->handle = below(fuzzer, 40);
	else if (command == 4)
		fill_dma(fuzzer, argument);
	else
		fill_others(fuzzer, command, argument);
	/* Not for long series of recorders or edu: that would be slow, but not an error. */
	while (command != 4 && one_in(fuzzer, 4))
		words[below(fuzzer, 24)] = wild(fuzzer);
	if (command == 4 && one_in(fuzzer, 4))
		words[4 + below(fuzzer, 7)] = wild(fuzzer);
	if (command == 4 && (uint32_t)words[1] == FATHOM_ENGINE_NONE && one_in(fuzzer, 8))
		words[2] = wild(fuzzer);
	if (command == 4 && one_in(fuzzer, 16))
		words[0] = wild(fuzzer);
	if (one_in(fuzzer, 20))
		number ^= 1UL << below(fuzzer, 32);
	if (one_in(fuzzer, 20))
		argument = (void *)(uintptr_t)wild(fuzzer);
	if (one_in(fuzzer, 10))
		pin(one_in(fuzzer, 3) ? -1 : (int)below(fuzzer, 2));
	fail(fuzzer, true);
	if (!ioctl(fd, number, argument))
		fuzzer->succeeded[command]++;
	fail(fuzzer, false);
}

static void fuzz_unmap(struct fuzzer *fuzzer, unsigned int slot)
{
	char *at = fuzzer->mapping[slot].at;
	size_t bytes = fuzzer->mapping[slot].bytes;
	void *elsewhere;

	if (!at)
		return;
	/* In two parts, or after a move. */
	if (bytes > PAGE && one_in(fuzzer, 3)) {
		munmap(at + PAGE, bytes - PAGE);
		bytes = PAGE;
	} else if (one_in(fuzzer, 3)) {
		elsewhere = mremap(at, bytes, one_in(fuzzer, 2) ? bytes : 2 * bytes, MREMAP_MAYMOVE);
		if (elsewhere != MAP_FAILED)
			at = elsewhere;
	}
	munmap(at, bytes);
	fuzzer->mapping[slot].at = NULL;
}

static void fuzz_mmap(struct fuzzer *fuzzer, int fd)
{
	unsigned int slot = below(fuzzer, MAPPINGS);
	uint64_t offset = one_in(fuzzer, 8) ? (256 + below(fuzzer, 2)) << 28 : below(fuzzer, 40) << 28;
	size_t bytes = (below(fuzzer, 8) + 1) * PAGE;
	int prot = below(fuzzer, 4), flags = one_in(fuzzer, 20) ? MAP_PRIVATE : MAP_SHARED;
	volatile uint64_t *at;

	fuzz_unmap(fuzzer, slot);
	if (one_in(fuzzer, 4))
		offset += below(fuzzer, 16) * PAGE;
	if (one_in(fuzzer, 20)) {
		offset = wild(fuzzer) & -(uint64_t)PAGE;
		prot = below(fuzzer, 8);
	}
	fail(fuzzer, true);
	at = mmap(NULL, bytes, prot, flags, fd, offset);
	fail(fuzzer, false);
	if (at == MAP_FAILED)
		return;
	fuzzer->succeeded[COMMANDS]++;
	fuzzer->mapping[slot].at = (void *)at;
	fuzzer->mapping[slot].bytes = bytes;
	if (prot & PROT_READ)
		fuzzer->seen += at[below(fuzzer, bytes / 8)];
	if (prot & PROT_WRITE)
		at[below(fuzzer, bytes / 8)] = offset;
}

static void *fuzz(void *data)
{
	struct fuzzer *fuzzer = data;
	unsigned long i;
	unsigned int slot;
	int *fd;

	if (with_failures)
		fuzzer->fail_fd = open("/proc/thread-self/make-it-fail", O_WRONLY);
	for (i = 0; i < fuzzer->calls; i++) {
		fd = &fuzzer->fds[below(fuzzer, 3)];
		if (one_in(fuzzer, 4))
			fuzz_mmap(fuzzer, *fd);
		else
			fuzz_ioctl(fuzzer, *fd);
		/* Replaces an opening at the same number while other threads use it. */
		if (one_in(fuzzer, 200)) {
			int fresh;

			fail(fuzzer, true);
			fresh = open("/dev/fathom", O_RDWR);
			fail(fuzzer, false);
			if (fresh >= 0) {
				dup2(fresh, *fd);
				close(fresh);
			}
		}
	}
	for (slot = 0; slot < MAPPINGS; slot++)
		if (fuzzer->mapping[slot].at)
			munmap(fuzzer->mapping[slot].at, fuzzer->mapping[slot].bytes);
	if (fuzzer->fail_fd > 0)
		close(fuzzer->fail_fd);
	return NULL;
}

/* One process: its threads share three openings, two of them with other processes. */
static void fuzz_process(unsigned int process, const int *shared, unsigned long *succeeded)
{
	static struct fuzzer fuzzers[THREADS];
	int fds[3] = { shared[0], shared[1], open("/dev/fathom", O_RDWR) };
	unsigned int i, j;

	for (i = 0; i < THREADS; i++) {
		fuzzers[i].state = (world.seed * 100 + process * THREADS + i + 1) *
				   0x9e3779b97f4a7c15ULL;
		fuzzers[i].calls = world.calls / (PROCESSES * THREADS);
		fuzzers[i].fds = fds;
		pthread_create(&fuzzers[i].thread, NULL, fuzz, &fuzzers[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(fuzzers[i].thread, NULL);
		for (j = 0; j <= COMMANDS; j++)
			__atomic_fetch_add(&succeeded[j], fuzzers[i].succeeded[j], __ATOMIC_RELAXED);
	}
	_exit(0);
}

static void fuzz_round(unsigned long *succeeded)
{
	int shared[2] = { open("/dev/fathom", O_RDWR), open("/dev/fathom", O_RDWR) };
	int i, status, pids[PROCESSES];

	for (i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (!pids[i])
			fuzz_process(i, shared, succeeded);
	}
	close(shared[0]);
	close(shared[1]);
	for (i = 0; i < PROCESSES; i++) {
		status = status_of(pids[i]);
		check(!status, "a fuzzing process ended with %d", status);
	}
}

/* Makes sure that the last CPU is online. */
static void toggle_on(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", world.cpus - 1);
	write_to(path, "1");
}

/* Takes the last CPU offline and online, until it is killed. Returns the process; 0 if no CPU can go. */
static int toggle(unsigned long *toggles)
{
	char path[64];
	int pid;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", world.cpus - 1);
	if (world.cpus < 2 || access(path, W_OK))
		return 0;
	pid = fork();
	while (!pid) {
		write_to(path, *toggles & 1 ? "1" : "0");
		++*toggles;
		usleep(20000);
	}
	return pid;
}

/* All calls, in parts with an unload between them, while a CPU comes and goes. */
static void fuzz_parts(unsigned long *succeeded)
{
	unsigned long calls = world.calls;
	unsigned long *toggles = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, pid = toggle(toggles);

	world.calls = calls / PARTS;
	for (i = 0; i < PARTS; i++) {
		fuzz_round(succeeded);
		check(!unload_module() && !load_module(), "part %d: not unloaded and loaded", i);
		world.seed++;
	}
	world.calls = calls;
	if (pid) {
		kill(pid, SIGKILL);
		status_of(pid);
		if (*toggles & 1)
			toggle_on();
	}
	printf("  a CPU went %lu times\n", (*toggles + 1) / 2);
	munmap(toggles, 4096);
}

void fuzz_failing(void)
{
	unsigned long *succeeded = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long calls = world.calls, sum = 0;
	int i;

	world.calls = calls / PARTS;
	with_failures = true;
	fuzz_round(succeeded);
	with_failures = false;
	for (i = 0; i <= COMMANDS; i++)
		sum += succeeded[i];
	printf("  %lu calls while allocations fail, %lu succeeded\n", world.calls, sum);
	check(sum, "no call succeeded");
	world.calls = calls;
	munmap(succeeded, 4096);
}

/* Whether this guest refuses a command. */
static bool never_succeeds(long command)
{
	switch (commands[command]) {
	case FATHOM_IOC_COUNTERS_ON:
	case FATHOM_IOC_COUNTERS_STATE:
	case FATHOM_IOC_COUNTERS_OFF:
		return !world.counters;
	case FATHOM_IOC_EVENTS_ON:
		return !world.arm || world.arm64 || !world.counters;
	case FATHOM_IOC_CACHE_ID:
		return !world.arm;
	case FATHOM_IOC_WAKE_START:
	case FATHOM_IOC_WAKE_STOP:
		return !world.recorders;
	default:
		return false;
	}
}

void test_fuzz(void)
{
	unsigned long *succeeded = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long calls = world.calls;
	long cma, free_, i;
	int fd;

	/* A first round, because memory that the kernel keeps after first use is not a
	 * leak.
	 */
	world.calls = calls / 10;
	fuzz_round(succeeded);
	memset(succeeded, 0, 4096);
	world.calls = calls;
	world.seed++;
	slabs_mark();
	cma = meminfo("CmaFree");
	free_ = free_memory();
	fuzz_parts(succeeded);
	printf("  %lu calls; succeeded, by command, then mmap:", calls);
	for (i = 0; i <= COMMANDS; i++)
		printf(" %lu", succeeded[i]);
	printf("\n");
	slabs_grew_below(128);
	printf("  CmaFree %ld kB to %ld kB, free %ld kB to %ld kB\n", cma, meminfo("CmaFree"), free_,
	       free_memory());
	/* A short run may not cover all of them. */
	for (i = 0; i <= COMMANDS && calls >= ENOUGH_CALLS; i++)
		check(succeeded[i] || (i < COMMANDS && never_succeeds(i)),
		      "command %ld never succeeded", i);
	check(!cma_is_lost(cma, free_), "CMA's memory was not given back");
	/* x86's linear mapping may have been split, which takes 4 KiB per 2 MiB. */
	check(free_memory() > free_ - 4096, "memory was not given back");
	fd = device_open();
	expect_nothing_held(fd, "the fuzz");
	close(fd);
}
