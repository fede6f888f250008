// SPDX-License-Identifier: GPL-2.0
/* Tests with the facilities of a debugging kernel; on others they are not run. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "guest.h"

#define DEBUG	"/sys/kernel/debug/"

/* Whether this kernel has a file of debugfs. */
static bool debugs(const char *path)
{
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (!access(path, W_OK))
		return true;
	printf("  not run: this kernel has no %s\n", path);
	return false;
}

/* Lets one in fifty allocations of threads that ask for it fail, or none. */
static void fail_allocations(bool fail)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc" };
	unsigned int i;
	char path[64];

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		snprintf(path, sizeof(path), DEBUG "%s/task-filter", kinds[i]);
		write_to(path, "Y");
		snprintf(path, sizeof(path), DEBUG "%s/ignore-gfp-wait", kinds[i]);
		write_to(path, "N");
		snprintf(path, sizeof(path), DEBUG "%s/verbose", kinds[i]);
		write_to(path, "0");
		snprintf(path, sizeof(path), DEBUG "%s/times", kinds[i]);
		write_to(path, "-1");
		snprintf(path, sizeof(path), DEBUG "%s/probability", kinds[i]);
		write_to(path, fail ? "2" : "0");
	}
}

/* With every allocation failing the device cannot be opened: the failures do happen. */
static void failures_happen(void)
{
	int fd, task = open("/proc/thread-self/make-it-fail", O_WRONLY);

	write_to(DEBUG "failslab/probability", "100");
	check(pwrite(task, "1", 1, 0) == 1, "make-it-fail: %s", strerror(errno));
	fd = open("/dev/fathom", O_RDWR | O_CLOEXEC);
	check(fd < 0 && errno == ENOMEM, "an opening without memory: %s", fd < 0 ? strerror(errno) : "done");
	check(pwrite(task, "0", 1, 0) == 1, "make-it-fail: %s", strerror(errno));
	close(fd);
	close(task);
}

/* The fuzz while allocations fail: each failure is returned, and nothing stays held. */
void test_fuzz_failing(void)
{
	int fd;

	if (!debugs(DEBUG "failslab/probability"))
		return;
	fail_allocations(true);
	failures_happen();
	fail_allocations(true);
	fuzz_failing();
	fail_allocations(false);
	fd = device_open();
	expect_nothing_held(fd, "the fuzz with failing allocations");
	close(fd);
}

/* Searches for memory that nothing refers to any more; returns the number of bytes of the reports. */
static size_t leaks(char *text, size_t most)
{
	size_t all = 0;
	ssize_t got;
	int i, fd;

	/* The first search finds what is moving, and objects have to be 5 s old. */
	for (i = 0; i < 2; i++) {
		sleep(6);
		write_to(DEBUG "kmemleak", "scan");
	}
	fd = open(DEBUG "kmemleak", O_RDONLY | O_CLOEXEC);
	do {
		got = fd < 0 ? -1 : read(fd, text + all, most - 1 - all);
		check(got >= 0, "kmemleak: %s", strerror(errno));
		all += got > 0 ? got : 0;
	} while (got > 0 && all < most - 1);
	close(fd);
	text[all] = 0;
	return all;
}

/* Memory that nothing refers to any more, by the kernel's own search. */
void test_kmemleak(void)
{
	static char text[65536];

	if (!debugs(DEBUG "kmemleak"))
		return;
	printf("  %zu bytes of reports\n", leaks(text, sizeof(text)));
	/* Objects of other parts of the kernel do not name the module. */
	check(!strstr(text, "fathom"), "%s", text);
}

/* Whether the kernel's log has a line with these words since the last look. */
static bool logged(int log, const char *words)
{
	char record[8192];
	bool found = false;
	ssize_t got;

	for (;;) {
		got = read(log, record, sizeof(record) - 1);
		if (got < 0 && errno == EPIPE)
			continue;	/* older ones were overwritten */
		if (got <= 0)
			return found;
		record[got] = 0;
		found |= strstr(record, words) != NULL;
	}
}

/* The checkers stop, some without a word, after a report that the kernel may be damaged. */
static void expect_checkers(void)
{
	char stats[16384], taint[32];
	ssize_t got;
	int fd;

	fd = open("/proc/sys/kernel/tainted", O_RDONLY | O_CLOEXEC);
	got = read(fd, taint, sizeof(taint) - 1);
	taint[got > 0 ? got : 0] = 0;
	close(fd);
	fd = open("/proc/lockdep_stats", O_RDONLY | O_CLOEXEC);
	got = read(fd, stats, sizeof(stats) - 1);
	stats[got > 0 ? got : 0] = 0;
	close(fd);
	/* kernel/locking/lockdep_proc.c: " debug_locks:                             1" */
	fd = 0;
	if (strstr(stats, "debug_locks:"))
		sscanf(strstr(stats, "debug_locks:"), "debug_locks: %d", &fd);
	check(fd == 1, "lockdep is off before its test; tainted: %s", taint);
}

/*
 * The last test of a debugging kernel: its checkers report a defect of each kind, which
 * the test module has. After a report of one that the kernel may be damaged, lockdep
 * reports nothing more, so that it is the first.
 */
void test_checkers(void)
{
	static const char *const reports[] = {
		"possible circular locking dependency",
		"sleeping function called from invalid context",
		"BUG: KASAN: ",
	};
	static char text[65536];
	char number[2] = "0";
	unsigned int i;
	int log;

	if (!debugs(DEBUG "kmemleak"))
		return;
	expect_checkers();
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	lseek(log, 0, SEEK_END);
	for (i = 0; i < sizeof(reports) / sizeof(*reports); i++) {
		number[0] = '0' + i;
		write_to("/sys/module/fathom_test_channel/parameters/plant", number);
		check(logged(log, reports[i]), "no '%s' in the log", reports[i]);
	}
	number[0] = '0' + i;
	write_to("/sys/module/fathom_test_channel/parameters/plant", number);
	leaks(text, sizeof(text));
	check(strstr(text, "fathom_test_channel"), "no leak is reported: %s", text);
	close(log);
}
