// SPDX-License-Identifier: GPL-2.0
/*
 * The marks of include/fathom.h, which read counters that the driver grants. The test is what `fathom count --region` is: it
 * shares memory with a program and says what is to be counted.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

#if defined(__arm__)
#include "../../include/fathom.h"

#define NONCE	0xfa7404

static void loop(long steps)
{
	FATHOM_BEGIN(loop);
	asm volatile("1:\tsubs %0, %0, #1\n\tbne 1b" : "+r" (steps) : : "cc");
	FATHOM_END(loop);
}

/* Runs the program, pinned or not. Returns its head, with its first thread's part behind it. */
static struct fathom_1_head *run(long steps, int cpu)
{
	int status, file = syscall(SYS_memfd_create, "marks", 0), pid;
	size_t bytes = (FATHOM_1_THREADS + 1) * FATHOM_1_PART;
	struct fathom_1_head *head;
	char text[32];

	check(!ftruncate(file, bytes), "the marks' memory");
	head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	head->magic = FATHOM_1_MAGIC_;
	head->nonce = NONCE;
	head->events = 2;
	head->all = 1;
	/* Cycles and instructions, without the kernel and a hypervisor. */
	head->event[1].config = 1;
	head->event[0].flags = head->event[1].flags = 3 << 5;
	head->ready[0] = head->regions = 1;
	pid = fork();
	if (!pid) {
		pin(cpu);
		snprintf(text, sizeof(text), "%d:%x", file, NONCE);
		setenv("FATHOM_REGIONS", text, 1);
		snprintf(text, sizeof(text), "%ld", steps);
		execl("/proc/self/exe", "init", "marks", text, NULL);
		_exit(1);
	}
	status = status_of(pid);
	check(!status, "the program with marks: status %d", status);
	close(file);
	return head;
}

static struct fathom_1_entry *region(struct fathom_1_head *head, int number)
{
	return ((struct fathom_1_part *)((char *)head + FATHOM_1_PART))->entry + number;
}

/* Returns what the loop's region has counted, beside its steps: what of the marks is in it. */
static uint64_t counted(long steps, int cpu, unsigned int methods, uint64_t shared)
{
	struct fathom_1_head *head = run(steps, cpu);
	struct fathom_1_entry *loop = region(head, 1);
	uint64_t instructions = loop->count[1];

	check(head->attached == 1 && head->threads == 1 && head->methods == methods && !head->uncounted,
	      "attached %u, threads %u, methods %u, uncounted %u (error %u)", head->attached, head->threads,
	      head->methods, head->uncounted, head->error);
	check(head->regions == 2 && !strcmp(head->name[1], "loop") && loop->entered == 1 && !loop->unmatched,
	      "%u regions, entered %llu, unmatched %llu", head->regions, (unsigned long long)loop->entered,
	      (unsigned long long)loop->unmatched);
	check(loop->shared == shared && (shared || loop->count[0]), "shared %llu, %llu cycles", (unsigned long long)loop->shared,
	      (unsigned long long)loop->count[0]);
	printf("  %s: %ld steps, %llu instructions; 64 empty pairs %llu; %llu ns a pair\n",
	       methods == 4 ? "granted" : "read(2)", steps, (unsigned long long)instructions,
	       (unsigned long long)region(head, 0)->count[1], (unsigned long long)head->pairs_ns / 64);
	munmap(head, (FATHOM_1_THREADS + 1) * FATHOM_1_PART);
	return instructions - 2 * steps;
}

void test_marks(void)
{
	struct fathom_events events = { .count = 1 };
	uint64_t granted;
	int fd, other;

	if (events_refused())
		return;
	fd = device_open();
	granted = counted(1000, 0, 4, 0);
	counted(1000, -1, world.cpus > 1 ? 1 : 4, 0);
	/* Another task takes turns with the program, whose instructions stay its own. */
	other = busy(0);
	for (long steps = 1000000; steps <= 8000000; steps *= 2) {
		uint64_t marks = counted(steps, 0, 4, 0);

		check(!world.exact || marks == granted, "%ld steps: %llu instructions of the marks instead of %llu",
		      steps, (unsigned long long)marks, (unsigned long long)granted);
	}
	kill(other, SIGKILL);
	status_of(other);
	check(!world.exact || granted < 200, "%llu instructions of the marks", (unsigned long long)granted);
	/* Another one has the grant, and with it the only counter of cycles: read(2) tells that it has none. */
	pin(0);
	expect(fd, FATHOM_IOC_EVENTS_ON, &events, 0, "events");
	pin(-1);
	counted(1000, 0, 1, 1);
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, 0, "off");
	expect_nothing_held(fd, "marks");
	close(fd);
}
#else
static void loop(long steps)
{
	(void)steps;
}

void test_marks(void)
{
}
#endif

bool started_again(int count, char **words)
{
	bool is_reader = count == 2 && !strcmp(words[1], "read-counter");
	bool is_marked = count == 3 && !strcmp(words[1], "marks");

	if (is_reader)
		read_counter();
	if (is_marked)
		loop(atol(words[2]));
	return is_reader || is_marked;
}
