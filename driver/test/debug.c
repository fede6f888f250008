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

/* The fuzz while allocations fail: each failure is returned, and nothing stays held. */
void test_fuzz_failing(void)
{
	int fd;

	if (!debugs(DEBUG "failslab/probability"))
		return;
	fail_allocations(true);
	fuzz_failing();
	fail_allocations(false);
	fd = device_open();
	expect_nothing_held(fd, "the fuzz with failing allocations");
	close(fd);
}

/* Memory that nothing refers to any more, by the kernel's own search. */
void test_kmemleak(void)
{
	char text[4096];
	ssize_t got;
	int i, fd;

	if (!debugs(DEBUG "kmemleak"))
		return;
	/* The first search finds what is moving, and objects have to be 5 s old. */
	for (i = 0; i < 2; i++) {
		sleep(6);
		write_to(DEBUG "kmemleak", "scan");
	}
	fd = open(DEBUG "kmemleak", O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	check(got >= 0, "kmemleak: %s", strerror(errno));
	if (got > 0) {
		text[got] = 0;
		/* Objects of other parts of the kernel do not name the module. */
		check(!strstr(text, "fathom"), "%s", text);
		printf("  %zd bytes of reports\n", got);
	}
	close(fd);
}
