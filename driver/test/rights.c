// SPDX-License-Identifier: GPL-2.0
/*
 * What a caller may hold and cause: memory as long as it is charged, CPUs and priorities
 * that it has itself; and what happens when a CPU or a device goes away.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#ifndef MADV_DOFORK
#define MADV_DOFORK 11
#endif

/* kB by which the free memory of the guest varies by itself. */
#define FREE_VARIES	8192
/* An ordinary user. */
#define NOBODY	65534

/*
 * Recorders are started, mapped and stopped: what is mapped is alive, and charged. Counts
 * both: the driver's charge, and the memory that is missing from the guest's.
 */
void test_charge(void)
{
	struct fathom_wake_start start;
	int error = 0, count, fd = device_open();
	uint64_t limit = info_of(fd).limit_bytes, held = 0, each = 0;
	long free_ = free_memory();
	void *at[16];

	if (has_no_recorders(fd)) {
		close(fd);
		return;
	}
	for (count = 0; count < 16; count++) {
		memset(&start, 0, sizeof(start));
		start.period_ns = FATHOM_WAKE_MAX_NS;
		start.rows = FATHOM_WAKE_MAX_ROWS;
		error = call(fd, FATHOM_IOC_WAKE_START, &start);
		if (error)
			break;
		at[count] = mmap(NULL, start.bytes, PROT_READ, MAP_SHARED, fd, start.offset);
		check(at[count] != MAP_FAILED, "mmap: %s", strerror(errno));
		expect(fd, FATHOM_IOC_WAKE_STOP, NULL, 0, "stop");
		each = start.bytes;
		held += each;
		check(info_of(fd).used_bytes == held, "%llu bytes are charged, and %llu are mapped",
		      (unsigned long long)info_of(fd).used_bytes, (unsigned long long)held);
		check(free_ - free_memory() < (long)(info_of(fd).used_bytes >> 10) + FREE_VARIES,
		      "%ld kB are missing, and %llu kB are charged", free_ - free_memory(),
		      (unsigned long long)info_of(fd).used_bytes >> 10);
	}
	printf("  %d recorders, %llu of %llu bytes charged, %ld kB missing\n", count,
	       (unsigned long long)held, (unsigned long long)limit, free_ - free_memory());
	check(error == -ENOMEM && count > 0 && held <= limit, "%d recorders, then %s", count,
	      strerror(-error));
	while (count--)
		munmap(at[count], each);
	expect_nothing_held(fd, "mapped recorders");
	close(fd);
}

/* Starts a recorder as an ordinary user, pinned to CPU 0, with this limit of priority. */
static int as_nobody(int fd, unsigned int cpu, unsigned int policy, rlim_t priority)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 10, .cpu = cpu,
					   .policy = policy };
	struct rlimit limit = { priority, priority };
	int pid = fork();

	if (!pid) {
		int error;

		pin(0);
		if (setrlimit(RLIMIT_RTPRIO, &limit) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(255);
		error = -call(fd, FATHOM_IOC_WAKE_START, &start);
		if (!error)
			call(fd, FATHOM_IOC_WAKE_STOP, NULL);
		_exit(error);
	}
	return status_of(pid);
}

/* Starts a recorder as root, pinned to CPU 0, at the highest priority. */
static int as_root_of_cpu_0(int fd, unsigned int cpu)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 10, .cpu = cpu,
					   .policy = FATHOM_POLICY_FIFO };
	int pid = fork();

	if (!pid) {
		int error;

		pin(0);
		error = -call(fd, FATHOM_IOC_WAKE_START, &start);
		if (!error)
			call(fd, FATHOM_IOC_WAKE_STOP, NULL);
		_exit(error);
	}
	return status_of(pid);
}

void test_rights(void)
{
	static const struct {
		unsigned int policy;
		rlim_t priority;
		int error;
	} cases[] = {
		{ FATHOM_POLICY_NORMAL, 0, 0 },
		{ FATHOM_POLICY_FIFO_LOW, 0, EPERM },
		{ FATHOM_POLICY_FIFO_LOW, 1, 0 },
		{ FATHOM_POLICY_FIFO, 1, EPERM },
		{ FATHOM_POLICY_FIFO, 50, 0 },
	};
	unsigned int i;
	int got, fd = device_open();

	if (has_no_recorders(fd)) {
		close(fd);
		return;
	}
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		got = as_nobody(fd, 0, cases[i].policy, cases[i].priority);
		check(got == cases[i].error, "policy %u with a limit of %lu: %s", cases[i].policy,
		      (unsigned long)cases[i].priority, strerror(got));
	}
	got = as_nobody(fd, world.cpus - 1, FATHOM_POLICY_NORMAL, 0);
	check(got == (world.cpus > 1 ? EPERM : 0), "another CPU: %s", strerror(got));
	/* A cpuset leaves such an affinity to a privileged task too. */
	got = as_root_of_cpu_0(fd, world.cpus - 1);
	check(got == (world.cpus > 1 ? EPERM : 0), "another CPU, as root: %s", strerror(got));
	got = as_root_of_cpu_0(fd, 0);
	check(!got, "its own CPU, as root: %s", strerror(got));
	expect_nothing_held(fd, "recorders of another user");
	close(fd);
}

/* A mapping is not inherited, whatever the caller asks for. */
void test_dofork(void)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 10 };
	struct fathom_region region = { .bytes = 4096, .colours = 2 };
	int fd = device_open();
	void *at;

	expect(fd, FATHOM_IOC_REGION, &region, 0, "a region");
	at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, region.offset);
	check(at != MAP_FAILED && madvise(at, 4096, MADV_DOFORK) && errno == EINVAL,
	      "a region can be made to be inherited");
	munmap(at, 4096);
	if (has_no_recorders(fd)) {
		close(fd);
		return;
	}
	expect(fd, FATHOM_IOC_WAKE_START, &start, 0, "a recorder");
	at = mmap(NULL, start.bytes, PROT_READ, MAP_SHARED, fd, start.offset);
	check(at != MAP_FAILED && madvise(at, start.bytes, MADV_DOFORK) && errno == EINVAL,
	      "a recorder can be made to be inherited");
	munmap(at, start.bytes);
	close(fd);
}

/* A recorder whose CPU goes offline ends, and says so. */
void test_hotplug(void)
{
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 100000 };
	const struct fathom_wakes *memory;
	char path[64];
	int i, fd = device_open();

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", world.cpus - 1);
	if (world.cpus < 2 || access(path, W_OK)) {
		printf("  not run: no CPU of this guest can go offline\n");
		close(fd);
		return;
	}
	start.cpu = world.cpus - 1;
	expect(fd, FATHOM_IOC_WAKE_START, &start, 0, "a recorder");
	pin(0);
	memory = mmap(NULL, start.bytes, PROT_READ, MAP_SHARED, fd, start.offset);
	check(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	usleep(20000);
	check(!*(volatile uint32_t *)&memory->ended, "it has ended while its CPU was online");
	write_to(path, "0");
	for (i = 0; i < 200 && !*(volatile uint32_t *)&memory->ended; i++)
		usleep(10000);
	check(memory->ended == FATHOM_WAKES_MOVED, "ended is %u", memory->ended);
	printf("  %u rows before its CPU went offline\n", memory->written);
	write_to(path, "1");
	munmap((void *)memory, start.bytes);
	expect(fd, FATHOM_IOC_WAKE_STOP, NULL, 0, "stop");
	expect_nothing_held(fd, "a recorder without its CPU");
	close(fd);
}

static void *long_run(void *data)
{
	static struct fathom_dma_sample samples[200];
	struct fathom_dma_run run = { .engine = FATHOM_ENGINE_EDU, .bytes = 2048, .count = 200,
				      .samples = (uintptr_t)samples };

	*(int *)data = call(*(int *)data, FATHOM_IOC_DMA_RUN, &run);
	return NULL;
}

/* A device that is removed during a run of 20 s and more waits for one transfer only. */
void test_unbind_busy(void)
{
	DIR *devices = opendir("/sys/bus/pci/drivers/fathom");
	struct dirent *entry;
	struct timespec before, after;
	pthread_t thread;
	int result, fd = device_open();
	double took;

	do {
		entry = devices ? readdir(devices) : NULL;
	} while (entry && strncmp(entry->d_name, "0000:", 5));
	if (!(world.engines & 1 << FATHOM_ENGINE_EDU) || !entry) {
		printf("  not run: no edu device\n");
		goto out;
	}
	result = fd;
	pthread_create(&thread, NULL, long_run, &result);
	usleep(300000);
	clock_gettime(CLOCK_MONOTONIC, &before);
	write_to("/sys/bus/pci/drivers/fathom/unbind", entry->d_name);
	clock_gettime(CLOCK_MONOTONIC, &after);
	pthread_join(thread, NULL);
	took = after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) / 1e9;
	printf("  unbound after %.1f s; the run: %s\n", took, strerror(-result));
	check(took < 5 && result == -ENODEV, "it took %.1f s; the run: %s", took,
	      strerror(-result));
	write_to("/sys/bus/pci/drivers/fathom/bind", entry->d_name);
	expect_nothing_held(fd, "a run whose device went");
out:
	if (devices)
		closedir(devices);
	close(fd);
}

/* The group that the device is given to, and a user who is a member of it. */
#define GROUP	500
#define MEMBER	1000

/* Counts in a child what a member of the group gets; the exit status is 0, or the line of what it should not get. */
#define refused(condition) \
	do { \
		if (!(condition)) \
			_exit(__LINE__ & 255); \
	} while (0)

static void as_member(uint64_t limit, uint64_t offset, int ready, int go)
{
	struct fathom_region region = { 0 };
	struct fathom_wake_start start = { .period_ns = 1000000, .rows = 10,
					   .cpu = world.cpus - 1 };
	struct fathom_handle handle = { 0 };
	uint64_t held = 0;
	int fd, error = 0;
	char byte;

	pin(0);
	if (setgroups(1, (gid_t[]){ GROUP }) || setgid(MEMBER) || setuid(MEMBER))
		_exit(254);
	fd = open("/dev/fathom", O_RDWR);
	refused(fd >= 0);
	/* Nothing of another opening. */
	refused(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset) == MAP_FAILED &&
		errno == ENOENT);
	refused(call(fd, FATHOM_IOC_REGION_FREE, &handle) == -ENOENT);
	/* No other CPU, and no priority. */
	refused(world.cpus < 2 || call(fd, FATHOM_IOC_WAKE_START, &start) == -EPERM);
	start.cpu = 0;
	start.policy = FATHOM_POLICY_FIFO_LOW;
	refused(call(fd, FATHOM_IOC_WAKE_START, &start) == -EPERM);
	/* Not the module, nor the rights of the device. */
	refused(unload_module() == -EPERM && chmod("/dev/fathom", 0666) && errno == EPERM);
	refused(open("/sys/module/fathom/parameters/limit_mb", O_WRONLY) < 0);
	/* As much memory as the limit grants. */
	while (!error) {
		memset(&region, 0, sizeof(region));
		region.bytes = 1 << 20;
		region.colours = 2;
		error = call(fd, FATHOM_IOC_REGION, &region);
		held += error ? 0 : region.bytes;
	}
	refused(error == -ENOMEM && held > 0 && held < limit);
	refused(write(ready, "r", 1) == 1 && read(go, &byte, 1) == 0);
	_exit(0);
}

/*
 * A member of the device's group gets what the device grants, and can deny the rest of
 * the limit to others, until it ends.
 */
void test_member(void)
{
	struct fathom_region first = { .bytes = 4096 }, second = { .bytes = 2 << 20 };
	int ready[2], go[2], pid, status, fd = device_open();
	char byte;

	expect(fd, FATHOM_IOC_REGION, &first, 0, "a region of root");
	check(!pipe(ready) && !pipe(go), "pipe: %s", strerror(errno));
	check(!chown("/dev/fathom", 0, GROUP) && !chmod("/dev/fathom", 0660), "chown: %s",
	      strerror(errno));
	pid = fork();
	if (!pid) {
		/* One who is in no group. */
		if (setgroups(0, NULL) || setgid(MEMBER) || setuid(MEMBER))
			_exit(254);
		_exit(open("/dev/fathom", O_RDWR) < 0 ? errno : 0);
	}
	status = status_of(pid);
	check(status == EACCES, "the open of one who is no member: %d", status);
	pid = fork();
	if (!pid) {
		close(ready[0]);
		close(go[1]);
		as_member(info_of(fd).limit_bytes, first.offset, ready[1], go[0]);
	}
	close(ready[1]);
	close(go[0]);
	if (read(ready[0], &byte, 1) == 1) {
		expect(fd, FATHOM_IOC_REGION, &second, ENOMEM, "a region beyond the limit");
		check(info_of(fd).used_bytes <= info_of(fd).limit_bytes, "the limit is exceeded");
	}
	close(ready[0]);
	close(go[1]);
	status = status_of(pid);
	check(!status, "a member got what it should not: line %d (mod 256)", status);
	second.bytes = 2 << 20;
	expect(fd, FATHOM_IOC_REGION, &second, 0, "a region after the member has ended");
	close(fd);
	check(!chown("/dev/fathom", 0, 0) && !chmod("/dev/fathom", 0600), "chown: %s",
	      strerror(errno));
	fd = device_open();
	expect_nothing_held(fd, "a member of the group");
	close(fd);
}

#define CONTROL	"/tmp/control"
#define CHILD	CONTROL "/child"

/* Bytes that the child's control group is charged. */
static long charged(void)
{
	char text[32] = "";
	int fd = open(CHILD "/memory.current", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		failed("memory.current: %s", strerror(errno));
	close(fd);
	return strtol(text, NULL, 10);
}

/* Each CPU keeps up to 64 pages that it has charged already (MEMCG_CHARGE_BATCH). */
#define CHARGE_VARIES	(world.cpus * 64 * (long)PAGE + (512 << 10))

static void in_group(int fd)
{
	/* More than the charge varies, also with pages of 64 KiB. */
	struct fathom_region coloured = { .bytes = PAGE > 4096 ? 16 << 20 : 8 << 20, .colours = 2 };
	struct fathom_region plain = { .bytes = 4 << 20 };
	struct fathom_wake_start start = { .period_ns = FATHOM_WAKE_MAX_NS, .rows = 300000 };
	struct fathom_region beyond = { .bytes = 32 << 20, .colours = 2 };
	long before, after;
	int failures = failures_so_far();

	write_to(CHILD "/cgroup.procs", "0");
	before = charged();
	expect(fd, FATHOM_IOC_REGION, &coloured, 0, "a coloured region");
	expect(fd, FATHOM_IOC_REGION, &plain, 0, "a region");
	expect(fd, FATHOM_IOC_WAKE_START, &start, recorders_refused(), "a recorder");
	after = charged();
	printf("  %llu bytes held, and the control group is charged %ld\n",
	       (unsigned long long)info_of(fd).used_bytes, after - before);
	check(labs(after - before - (long)info_of(fd).used_bytes) < CHARGE_VARIES,
	      "the control group is charged %ld bytes", after - before);
	/* Refused, and nobody is killed. */
	write_to(CHILD "/memory.max", "33554432");
	expect(fd, FATHOM_IOC_REGION, &beyond, ENOMEM, "more than the control group has");
	expect(fd, FATHOM_IOC_WAKE_STOP, NULL, world.recorders ? 0 : ENOENT, "stop");
	_exit(failures_so_far() != failures);
}

/* What is held is accounted to the caller's memory control group, and limited by it. */
void test_group(void)
{
	int pid, status, fd = device_open();
	long before, after;

	mkdir(CONTROL, 0755);
	check(!mount("control", CONTROL, "cgroup2", 0, NULL), "cgroup2: %s", strerror(errno));
	write_to(CONTROL "/cgroup.subtree_control", "+memory");
	check(!mkdir(CHILD, 0755) && !access(CHILD "/memory.current", R_OK),
	      "no control group of memory: %s", strerror(errno));
	before = charged();
	pid = fork();
	if (!pid)
		in_group(fd);
	status = status_of(pid);
	check(!status, "the test in the control group: status %d", status);
	close(fd);
	fd = device_open();
	expect_nothing_held(fd, "a control group");
	after = charged();
	check(after - before < CHARGE_VARIES, "%ld bytes stay charged", after - before);
	close(fd);
	check(!rmdir(CHILD) && !umount(CONTROL), "the control group: %s", strerror(errno));
}

void test_others(void)
{
	struct stat stat_;
	int pid, status;

	check(!stat("/dev/fathom", &stat_) && (stat_.st_mode & 07777) == 0600 && !stat_.st_uid,
	      "mode %o of user %u", stat_.st_mode, stat_.st_uid);
	pid = fork();
	if (!pid) {
		if (setgid(1000) || setuid(1000))
			_exit(99);
		_exit(open("/dev/fathom", O_RDWR) < 0 ? errno : 0);
	}
	status = status_of(pid);
	check(status == EACCES, "another user's open: status %d", status);
}
