// SPDX-License-Identifier: GPL-2.0
/* Per-CPU functions: cycle counter, cache identification, wake-ups. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#ifdef __aarch64__
uint64_t cycles(void)
{
	uint64_t value;

	asm volatile("isb\n\tmrs %0, pmccntr_el0" : "=r" (value));
	return value;
}

static void write_counter(void)
{
	asm volatile("msr pmccntr_el0, %0" : : "r" (0UL));
}

static bool is_after(uint64_t after, uint64_t before)
{
	return after > before;
}
#elif defined(__ARM_ARCH) && __ARM_ARCH >= 7
uint64_t cycles(void)
{
	uint32_t value;

	asm volatile("isb\n\tmrc p15, 0, %0, c9, c13, 0" : "=r" (value));
	return value;
}

static void write_counter(void)
{
	asm volatile("mcr p15, 0, %0, c9, c13, 0" : : "r" (0));
}

/* The counter has 32 bits, and wraps. */
static bool is_after(uint64_t after, uint64_t before)
{
	return (int32_t)((uint32_t)after - (uint32_t)before) > 0;
}
#elif defined(__arm__)
/* The ARM1176's. */
uint64_t cycles(void)
{
	uint32_t value;

	asm volatile("mrc p15, 0, %0, c15, c12, 1" : "=r" (value));
	return value;
}

static void write_counter(void)
{
	asm volatile("mcr p15, 0, %0, c15, c12, 1" : : "r" (0));
}

static bool is_after(uint64_t after, uint64_t before)
{
	return (int32_t)((uint32_t)after - (uint32_t)before) > 0;
}
#else
uint64_t cycles(void)
{
	return 0;
}

static bool is_after(uint64_t after, uint64_t before)
{
	return after > before;
}

static void write_counter(void)
{
}
#endif

int child(int cpu, void (*what)(void))
{
	int pid = fork();

	if (!pid) {
		pin(cpu);
		what();
		_exit(0);
	}
	return status_of(pid);
}

void read_counter(void)
{
	cycles();
}

int busy(int cpu)
{
	int pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(cpu);
	for (;;)
		asm volatile("");
}

/* A task that is granted the counter reads it, with many context switches in between. */
static int granted_child(bool then_off)
{
	struct fathom_counters counters = { 0 };
	uint64_t before, after = 0;
	int i, pid = fork();

	if (pid)
		return status_of(pid);
	pin(0);
	int fd = device_open();

	if (call(fd, FATHOM_IOC_COUNTERS_ON, &counters))
		_exit(10);
	if (counters.cpu || counters.scope != FATHOM_SCOPE_TASK || !counters.in_force)
		_exit(11);
	for (i = 0; i < 50; i++) {
		before = cycles();
		usleep(1000);
		sched_yield();
		after = cycles();
		if (!is_after(after, before))
			_exit(12);
	}
	/* Another task on the same CPU, while the grant is in force. */
	if (child(0, read_counter) != ILLEGAL)
		_exit(13);
	if (child(0, write_counter) != ILLEGAL)
		_exit(14);
	cycles();
	if (then_off) {
		if (call(fd, FATHOM_IOC_COUNTERS_OFF, NULL))
			_exit(15);
		cycles();
		_exit(16);
	}
	close(fd);
	cycles();
	_exit(17);
}

static void counters_by_two(int fd)
{
	struct fathom_counters counters = { 0 };
	int other;

	if (world.cpus < 2) {
		printf("  not run: this guest has one CPU\n");
		return;
	}
	other = device_open();
	pin(-1);
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, EINVAL, "counters of a task that may wander");
	pin(1);
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, 0, "counters");
	cycles();
	memset(&counters, 0, sizeof(counters));
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, EBUSY, "counters twice");
	expect(other, FATHOM_IOC_COUNTERS_ON, &counters, EBUSY, "another's counters");
	pin(0);
	expect(fd, FATHOM_IOC_COUNTERS_STATE, &counters, 0, "state");
	check(counters.cpu == 1 && !counters.in_force, "on another CPU: of %u, in force %u",
	      counters.cpu, counters.in_force);
	/* Each CPU has a separate counter. */
	memset(&counters, 0, sizeof(counters));
	expect(other, FATHOM_IOC_COUNTERS_ON, &counters, 0, "another CPU's counters");
	cycles();
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, 0, "off, from another CPU");
	cycles();
	close(other);
	check(child(0, read_counter) == ILLEGAL && child(1, read_counter) == ILLEGAL,
	      "the counter can be read after all is closed");
	pin(-1);
}

static void dma_by_cycles(int fd)
{
	struct fathom_counters counters = { 0 };
	struct fathom_dma_sample sample;
	struct fathom_dma_run run = { .bytes = 4096, .count = 1, .samples = (uintptr_t)&sample };
	struct fathom_dma_run again = run;

	pin(0);
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, 0, "counters");
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "a run");
	check(run.clock == FATHOM_CLOCK_CYCLES && sample.copy, "clock %u, copy %llu", run.clock,
	      (unsigned long long)sample.copy);
	printf("  4096 bytes zero-copy: use %llu, copy %llu, map %llu, unmap %llu cycles\n",
	       (unsigned long long)sample.use, (unsigned long long)sample.copy,
	       (unsigned long long)sample.map, (unsigned long long)sample.unmap);
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, 0, "off");
	expect(fd, FATHOM_IOC_DMA_RUN, &again, 0, "a run");
	check(again.clock == (world.arm64 ? FATHOM_CLOCK_CNTVCT : FATHOM_CLOCK_NS), "clock %u", again.clock);
	pin(-1);
}

/* An emulator without the counter leaves perf one that does not run. */
int counters_refused(void)
{
	if (world.counters)
		return 0;
	return world.arm ? EBUSY : EOPNOTSUPP;
}

int recorders_refused(void)
{
	return world.recorders ? 0 : EOPNOTSUPP;
}

bool has_no_recorders(int fd)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 10 };

	if (world.recorders)
		return false;
	expect(fd, FATHOM_IOC_WAKE_START, &start, EOPNOTSUPP, "a recorder where caches alias");
	printf("  not run: no recorders, because the caches alias by virtual address\n");
	return true;
}

void test_counters(void)
{
	struct fathom_counters counters = { 0 };
	int fd = device_open();
	int status;

	if (world.arm)
		check(child(0, read_counter) == ILLEGAL, "the counter can be read before");
	if (!world.counters) {
		pin(0);
		expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, counters_refused(), "counters");
		pin(-1);
		close(fd);
		return;
	}
	status = granted_child(true);
	check(status == ILLEGAL, "granted, then off: status %d", status);
	status = granted_child(false);
	check(status == ILLEGAL, "granted, then closed: status %d", status);
	check(child(0, read_counter) == ILLEGAL, "the counter can be read afterwards");
	counters_by_two(fd);
	dma_by_cycles(fd);
	expect_nothing_held(fd, "counters");
	close(fd);
}

void test_cache_id(void)
{
	struct fathom_cache_id id;
	int fd = device_open();
	unsigned int i, present = 0;

	memset(&id, 0xff, sizeof(id));
	expect(fd, FATHOM_IOC_CACHE_ID, &id, world.arm ? 0 : EOPNOTSUPP, "caches");
	if (world.arm) {
		for (i = 0; i < FATHOM_CACHES_MOST; i++)
			present += !!id.ccsidr[i];
		printf("  CTR %#llx, CLIDR %#llx, CCSIDR %#llx %#llx %#llx\n",
		       (unsigned long long)id.ctr, (unsigned long long)id.clidr,
		       (unsigned long long)id.ccsidr[0], (unsigned long long)id.ccsidr[1],
		       (unsigned long long)id.ccsidr[2]);
		/* Before ARMv7 there is CTR alone: its format, in the highest bits, says so. */
		check(id.ctr >> 29 == 0 && !world.arm64 ? !id.count && !present :
		      id.count == FATHOM_CACHES_MOST && id.clidr && present >= 2 && (int)id.cpu < world.cpus,
		      "count %u, %u caches", id.count, present);
	}
	close(fd);
}

static void check_rows(const struct fathom_wakes *memory, uint64_t period)
{
	const struct fathom_wake *row = memory->row;
	uint64_t irq = 0, task = 0;
	unsigned int i;

	for (i = 0; i < memory->written; i++) {
		check(row[i].expires <= row[i].irq && row[i].irq <= row[i].task,
		      "row %u: expires %llu, irq %llu, task %llu", i,
		      (unsigned long long)row[i].expires, (unsigned long long)row[i].irq,
		      (unsigned long long)row[i].task);
		check(!i || (row[i].expires > row[i - 1].expires &&
			     !((row[i].expires - row[i - 1].expires) % period)),
		      "row %u: not whole periods after the one before", i);
		if (row[i].irq - row[i].expires > irq)
			irq = row[i].irq - row[i].expires;
		if (row[i].task - row[i].expires > task)
			task = row[i].task - row[i].expires;
	}
	printf("  %u rows, missed %llu; at most %llu ns to the timer, %llu ns to the thread\n",
	       memory->written, (unsigned long long)memory->missed, (unsigned long long)irq,
	       (unsigned long long)task);
}

static void one_recorder(int fd, unsigned int cpu, unsigned int policy)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .cpu = cpu, .policy = policy,
					   .rows = 300 };
	struct fathom_wake_start second = start;
	const struct fathom_wakes *memory;
	unsigned int i;

	expect(fd, FATHOM_IOC_WAKE_START, &start, 0, "start");
	expect(fd, FATHOM_IOC_WAKE_START, &second, EBUSY, "a second recorder");
	memory = mmap(NULL, start.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start.offset);
	check(memory == MAP_FAILED && errno == EPERM, "the recorder's memory can be written");
	memory = mmap(NULL, start.bytes + PAGE, PROT_READ, MAP_SHARED, fd, start.offset);
	check(memory == MAP_FAILED, "more than the recorder's memory can be mapped");
	memory = mmap(NULL, start.bytes, PROT_READ, MAP_SHARED, fd, start.offset);
	if (memory == MAP_FAILED) {
		failed("mmap of the recorder: %s", strerror(errno));
		return;
	}
	check(mprotect((void *)memory, start.bytes, PROT_READ | PROT_WRITE),
	      "the recorder's memory can be made writable");
	for (i = 0; i < 200 && !*(volatile uint32_t *)&memory->ended; i++)
		usleep(10000);
	check(memory->ended && memory->written == 300 && memory->rows == 300,
	      "ended %u, %u rows of %u", memory->ended, memory->written, memory->rows);
	expect(fd, FATHOM_IOC_WAKE_STOP, NULL, 0, "stop");
	/* The mapping remains valid. */
	check_rows(memory, start.period_ns);
	munmap((void *)memory, start.bytes);
}

/* The maximum number of recorders, and one more. */
static void recorders(int fd)
{
	struct fathom_wake_start start;
	int i, fds[FATHOM_WAKES_MOST + 1];

	for (i = 0; i <= FATHOM_WAKES_MOST; i++) {
		fds[i] = device_open();
		memset(&start, 0, sizeof(start));
		start.period_ns = 1000000;
		start.rows = 100;
		expect(fds[i], FATHOM_IOC_WAKE_START, &start, i < FATHOM_WAKES_MOST ? 0 : EBUSY,
		       "one recorder more");
	}
	for (i = 0; i <= FATHOM_WAKES_MOST; i++)
		close(fds[i]);
	expect_nothing_held(fd, "many recorders");
}

void test_wakes(void)
{
	struct fathom_wake_start start = { .period_ns = 1000000000, .rows = 1000000 };
	int i, fd = device_open();

	if (has_no_recorders(fd)) {
		close(fd);
		return;
	}
	recorders(fd);
	one_recorder(fd, 0, FATHOM_POLICY_NORMAL);
	one_recorder(fd, world.cpus - 1, FATHOM_POLICY_FIFO_LOW);
	one_recorder(fd, world.cpus - 1, FATHOM_POLICY_FIFO);
	start.cpu = 63;
	check(call(fd, FATHOM_IOC_WAKE_START, &start), "a recorder on a CPU that is not there");
	start.cpu = 0;
	/* Stopped while it waits, and before its first run. */
	for (i = 0; i < 20; i++) {
		struct fathom_wake_start once = start;

		expect(fd, FATHOM_IOC_WAKE_START, &once, 0, "start");
		if (i & 1)
			usleep(1000);
		expect(fd, FATHOM_IOC_WAKE_STOP, NULL, 0, "stop");
	}
	expect_nothing_held(fd, "recorders");
	close(fd);
}
