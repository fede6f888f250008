// SPDX-License-Identifier: GPL-2.0
/* Counters of events in user space: before, while and after they are granted. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

int events_refused(void)
{
	return world.arm && !world.arm64 && world.counters ? 0 : EOPNOTSUPP;
}

#if defined(__arm__) && __ARM_ARCH >= 7
/* PERF_COUNT_HW_INSTRUCTIONS and PERF_COUNT_HW_CPU_CYCLES. */
#define INSTRUCTIONS	1
#define CYCLES		0

static uint32_t counter(const volatile struct fathom_counted *counted)
{
	uint32_t value;

	if (counted->kind == FATHOM_COUNTER_V7_CYCLES)
		asm volatile("isb\n\tmrc p15, 0, %0, c9, c13, 0" : "=r" (value));
	else
		asm volatile("mcr p15, 0, %1, c9, c12, 5\n\tisb\n\tmrc p15, 0, %0, c9, c13, 2"
			     : "=r" (value) : "r" (counted->number));
	return value;
}

/* Returns the task's own count of an event. */
static uint64_t own(const volatile struct fathom_events_page *page, int event)
{
	const volatile struct fathom_counted *counted = &page->event[event];
	uint64_t value;
	uint32_t sequence;

	do {
		sequence = page->sequence;
		value = counted->count + (uint32_t)(counter(counted) - counted->previous) - counted->others;
	} while (sequence != page->sequence);
	return value;
}

/* 2 instructions a step. */
static void __attribute__((noinline)) loop(unsigned long steps)
{
	asm volatile("1:\tsubs %0, %0, #1\n\tbne 1b" : "+r" (steps) : : "cc");
}

static uint64_t __attribute__((noinline)) counted_loop(const volatile struct fathom_events_page *page, int event, unsigned long steps)
{
	uint64_t before = own(page, event);

	loop(steps);
	return own(page, event) - before;
}

static const struct fathom_events_page *granted(int fd)
{
	struct fathom_events events = {
		.count = 2,
		.event = { { .config = INSTRUCTIONS, .flags = FATHOM_EVENT_USER },
			   { .config = CYCLES, .flags = FATHOM_EVENT_USER } },
	};
	void *page;

	pin(0);
	if (call(fd, FATHOM_IOC_EVENTS_ON, &events) || events.cpu)
		_exit(10);
	page = mmap(NULL, events.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, events.offset);
	if (page != MAP_FAILED || errno != EPERM)
		_exit(11);
	page = mmap(NULL, 2 * events.bytes, PROT_READ, MAP_SHARED, fd, events.offset);
	if (page != MAP_FAILED)
		_exit(12);
	page = mmap(NULL, events.bytes, PROT_READ, MAP_SHARED, fd, events.offset);
	if (page == MAP_FAILED || !mprotect(page, events.bytes, PROT_READ | PROT_WRITE))
		_exit(13);
	return page;
}

/* While it is granted: its own counts, and not those of a task with which it shares the CPU. */
static void counts(const volatile struct fathom_events_page *page)
{
	uint64_t exact, others = page->event[0].others, cycles_before;
	int i, other = busy(0);

	if (page->version != FATHOM_VERSION || page->count != 2 || !page->allowed)
		_exit(20);
	usleep(1000);
	cycles_before = own(page, 1);
	/* The first execution of an instruction may fault, and count twice. */
	counted_loop(page, 0, 1000);
	exact = counted_loop(page, 0, 1000);
	for (i = 0; i < 20; i++) {
		unsigned long steps = 1000 + 200000 * i;
		uint64_t found = counted_loop(page, 0, steps);

		if (world.exact && found - exact != 2 * (steps - 1000))
			_exit(21);
		usleep(100);
	}
	if (own(page, 1) <= cycles_before || page->disturbed)
		_exit(22);
	others = page->event[0].others - others;
	if (world.exact && (exact < 2000 || exact > 2100 || others < 1000000))
		_exit(23);
	/* The task itself, and nobody else. */
	if (child(0, read_counter) != ILLEGAL)
		_exit(24);
	if (world.cpus > 1 && child(1, read_counter) != ILLEGAL)
		_exit(25);
	kill(other, SIGKILL);
	status_of(other);
	/* On another CPU it is told that it may not. */
	if (world.cpus > 1) {
		pin(1);
		if (page->allowed)
			_exit(26);
		pin(0);
		if (!page->allowed)
			_exit(27);
	}
	/* All counters, for writing too. */
	asm volatile("mcr p15, 0, %0, c9, c13, 0" : : "r" (0));
	asm volatile("mcr p15, 0, %0, c9, c12, 5\n\tmcr p15, 0, %1, c9, c13, 2" : : "r" (0), "r" (0));
}

/* What ends the grant. */
enum end { OFF, CLOSED, EXECUTED, KILLED };

static int granted_child(enum end end)
{
	const volatile struct fathom_events_page *page;
	int fd, pid = fork();

	if (pid)
		return status_of(pid);
	fd = device_open();
	page = granted(fd);
	counts(page);
	switch (end) {
	case OFF:
		if (call(fd, FATHOM_IOC_COUNTERS_OFF, NULL))
			_exit(30);
		break;
	case CLOSED:
		/* A mapping is of the opening. */
		close(fd);
		cycles();
		munmap((void *)page, PAGE);
		cycles();
		_exit(34);
	case EXECUTED:
		execl("/proc/self/exe", "init", "read-counter", NULL);
		_exit(31);
	case KILLED:
		kill(getpid(), SIGKILL);
	}
	if (page->allowed)
		_exit(32);
	cycles();
	_exit(33);
}

static void one_grant(int fd)
{
	struct fathom_events events = { .count = 1 }, bad = { .count = 1 };
	struct fathom_counters counters = { 0 };

	pin(0);
	/* An event that this PMU does not have: a node's misses. */
	bad.event[0].type = 3;
	bad.event[0].config = 0x10006;
	expect(fd, FATHOM_IOC_EVENTS_ON, &bad, ENODEV, "an event that is not there");
	expect(fd, FATHOM_IOC_EVENTS_ON, &events, 0, "events");
	memset(&events, 0, sizeof(events));
	events.count = 1;
	expect(fd, FATHOM_IOC_EVENTS_ON, &events, EBUSY, "events twice");
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, EBUSY, "the cycle counter beside events");
	expect(fd, FATHOM_IOC_COUNTERS_STATE, &counters, 0, "state");
	check(counters.scope == FATHOM_SCOPE_TASK && counters.in_force, "scope %u, in force %u", counters.scope,
	      counters.in_force);
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, 0, "off");
	/* More than any PMU has, of which the cycle counter counts one. */
	memset(&events, 0, sizeof(events));
	events.count = FATHOM_EVENTS_MOST;
	for (int i = 0; i < FATHOM_EVENTS_MOST; i++)
		events.event[i].config = INSTRUCTIONS;
	expect(fd, FATHOM_IOC_EVENTS_ON, &events, EBUSY, "more events than counters");
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, ENOENT, "off, after all");
	pin(-1);
}

void test_events(void)
{
	int fd = device_open(), status;

	check(child(0, read_counter) == ILLEGAL, "the counter can be read before");
	if (!events_refused()) {
		for (enum end end = OFF; end <= KILLED; end++) {
			status = granted_child(end);
			check(status == (end == KILLED ? 256 + SIGKILL : ILLEGAL), "granted, ended by %d: status %d",
			      end, status);
			check(child(0, read_counter) == ILLEGAL, "the counter can be read after end %d", end);
			expect_nothing_held(fd, "events");
		}
		one_grant(fd);
		expect_nothing_held(fd, "all events");
	}
	close(fd);
}
#else
void test_events(void)
{
	struct fathom_events events = { .count = 1 };
	int fd = device_open();

	pin(0);
	expect(fd, FATHOM_IOC_EVENTS_ON, &events, EOPNOTSUPP, "events");
	pin(-1);
	check(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 257LL << 28) == MAP_FAILED, "a page of events");
	close(fd);
}
#endif
