// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's init process: loads the module, runs the tests, prints the results on the
 * console, and resets the guest, which ends QEMU.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

struct world world;
static int failures;

void failed(const char *format, ...)
{
	va_list list;

	failures++;
	printf("  ");
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf("\n");
}

int failures_so_far(void)
{
	return failures;
}

int device_open(void)
{
	int fd = open("/dev/fathom", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		failed("/dev/fathom: %s", strerror(errno));
	return fd;
}

int call(int fd, unsigned long command, void *argument)
{
	return ioctl(fd, command, argument) < 0 ? -errno : 0;
}

void expect(int fd, unsigned long command, void *argument, int error, const char *what)
{
	int got = call(fd, command, argument);

	check(got == -error, "%s: %s instead of %s", what, got ? strerror(-got) : "done",
	      error ? strerror(error) : "done");
}

struct fathom_info info_of(int fd)
{
	struct fathom_info info = { 0 };

	expect(fd, FATHOM_IOC_INFO, &info, 0, "info");
	return info;
}

void expect_nothing_held(int fd, const char *after)
{
	struct timespec moment = { .tv_nsec = 10000000 };
	struct fathom_info info = info_of(fd);
	int i;

	for (i = 0; i < 100 && (info.openings != 1 || info.used_bytes); i++) {
		nanosleep(&moment, NULL);
		info = info_of(fd);
	}
	check(info.openings == 1 && !info.used_bytes && !info.regions && !info.wakes,
	      "after %s: %u openings, %llu bytes, %u regions, %u recorders", after, info.openings,
	      (unsigned long long)info.used_bytes, info.regions, info.wakes);
}

static int load(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long result = syscall(SYS_finit_module, fd, parameters, 0);
	int error = errno;

	close(fd);
	return result < 0 ? -error : 0;
}

static int unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) < 0 ? -errno : 0;
}

/*
 * QEMU's Raspberry Pi copies until a word count is zero, which a size that is not a
 * multiple of a word never reaches.
 */
int load_module(void)
{
	if (world.soft)
		return load("/fathom.ko", "edu_dma_bits=32 dmaengine_ms=2000");
	/* A kernel without PCI has no parameters for edu. */
	return load("/fathom.ko", world.pci ? "edu_dma_bits=32 dmaengine_align=4" : "dmaengine_align=4");
}

int unload_module(void)
{
	return unload("fathom");
}

int load_channel(void)
{
	return load("/channel.ko", "");
}

int unload_channel(void)
{
	return unload("fathom_test_channel");
}

bool pin(int cpu)
{
	cpu_set_t set;
	int i;

	CPU_ZERO(&set);
	for (i = 0; i < CPU_SETSIZE; i++)
		if (cpu < 0 || i == cpu)
			CPU_SET(i, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

int status_of(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

long meminfo(const char *name)
{
	char line[128];
	long value = 0, found;
	size_t length = strlen(name);
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':' &&
		    sscanf(line + length + 1, "%ld", &found) == 1)
			value = found;
	if (file)
		fclose(file);
	return value;
}

long free_memory(void)
{
	char line[128];
	long kept, pages = 0;
	FILE *file = fopen("/proc/zoneinfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &kept) == 1)
			pages += kept;
	if (file)
		fclose(file);
	return meminfo("MemFree") + pages * (sysconf(_SC_PAGESIZE) / 1024);
}

bool cma_is_lost(long cma, long free_)
{
	return meminfo("CmaFree") <= cma - CMA_OTHERS && free_memory() <= free_ - CMA_OTHERS;
}

void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
	      strerror(errno));
	close(fd);
}

/* Releases empty slabs that CPUs still keep. */
static void shrink_slabs(void)
{
	DIR *caches = opendir("/sys/kernel/slab");
	struct dirent *entry;
	char path[320];

	while (caches) {
		entry = readdir(caches);
		if (!entry)
			break;
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", entry->d_name);
		write_to(path, "1");
	}
	check(caches, "/sys/kernel/slab: %s", strerror(errno));
	if (caches)
		closedir(caches);
}

void drop_caches(void)
{
	sync();
	write_to("/proc/sys/vm/drop_caches", "3");
	/* RCU frees memory in batches, after 5 s (KFREE_DRAIN_JIFFIES). */
	sleep(6);
	shrink_slabs();
}

/* The kernel's log, from the start of the tests. */
static int log_fd;

/*
 * Returns whether a line is a warning or worse. Exceptions: the kernel's messages for
 * out-of-tree modules, for interrupts without ACPI, for tasks on a CPU that goes offline,
 * for slow emulation (a guest without its CPU for a second), of kmemleak and of the DMA
 * API's checker, which then ends (kernel/dma/debug.c, add_dma_entry), while allocations
 * fail, and the driver's message for a stalled channel. Lockdep tells in a message for debugging that it has ended
 * (kernel/locking/lockdep.c, print_lockdep_off).
 */
static bool alarming(const char *line)
{
	static const char *const expected[] = {
		"out-of-tree module", "module verification failed", "can't find IRQ",
		"was not done in time", "no longer affine to cpu", "select_fallback_rq",
		"hrtimer: interrupt took", "RT throttling activated",
		"kmemleak: Cannot allocate a scan area", "cacheline tracking ENOMEM, dma-debug disabled",
	};
	unsigned int priority, i;

	if (strstr(line, "turning off the locking correctness validator"))
		return true;
	/* Documentation/ABI/testing/dev-kmsg: "priority,sequence,time,flags;text" */
	if (sscanf(line, "%u,", &priority) != 1 || (priority & 7) > 4)
		return false;
	for (i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		if (strstr(line, expected[i]))
			return false;
	return true;
}

static void test_log(void)
{
	char record[8192];
	ssize_t got;
	int lines = 0, overwritten = 0;

	for (;;) {
		got = read(log_fd, record, sizeof(record) - 1);
		if (got < 0 && errno == EPIPE) {
			overwritten++;
			continue;
		}
		if (got <= 0)
			break;
		record[got] = 0;
		lines++;
		check(!alarming(record), "%s", record);
	}
	/* What is not there any more may have been a warning. */
	check(!overwritten, "older lines were overwritten: log_buf_len= is too small");
	printf("  %d lines since the tests began\n", lines);
}

static void test_load(void)
{
	struct fathom_info info;
	int error = load_module();
	int fd;

	check(!error, "loading: %s", strerror(-error));
	if (world.soft) {
		fd = device_open();
		check(info_of(fd).engines == (world.engines & ~(1UL << FATHOM_ENGINE_DMAENGINE)),
		      "engines %#x without a channel", info_of(fd).engines);
		close(fd);
		error = load_channel();
		check(!error, "loading the channel: %s", strerror(-error));
	}
	fd = device_open();
	if (fd < 0)
		return;
	info = info_of(fd);
	printf("  features %#x, attributes %#x, engines %#x, coherent %#x, clock %u at %llu Hz, limit %llu\n",
	       info.features, info.attributes, info.engines, info.coherent, info.clock,
	       (unsigned long long)info.clock_hz, (unsigned long long)info.limit_bytes);
	check(info.version == FATHOM_VERSION, "version %u", info.version);
	check(info.engines == world.engines, "engines %#x instead of %#lx", info.engines,
	      world.engines);
	check(info.coherent == world.coherent, "coherent %#x instead of %#lx", info.coherent,
	      world.coherent);
	check(!(info.features & FATHOM_HAS_RESERVED) == !world.reserved, "features %#x",
	      info.features);
	check(info.openings == 1, "%u openings", info.openings);
	close(fd);
}

/* The engine's device is removed and added while the driver is open. */
static void test_unbind(void)
{
	struct fathom_dma_sample sample;
	struct fathom_dma_run run = { .engine = FATHOM_ENGINE_EDU, .bytes = 100, .count = 1,
				      .samples = (uintptr_t)&sample };
	struct fathom_dma_run again = run;
	DIR *devices = opendir("/sys/bus/pci/drivers/fathom");
	struct dirent *entry;
	int fd = device_open();

	if (!(world.engines & 1 << FATHOM_ENGINE_EDU)) {
		expect(fd, FATHOM_IOC_DMA_RUN, &run, ENODEV, "a run without a device");
		if (devices)
			closedir(devices);
		close(fd);
		return;
	}
	do {
		entry = devices ? readdir(devices) : NULL;
	} while (entry && strncmp(entry->d_name, "0000:", 5));
	if (entry) {
		write_to("/sys/bus/pci/drivers/fathom/unbind", entry->d_name);
		check(!(info_of(fd).engines & 1 << FATHOM_ENGINE_EDU),
		      "edu is there without a driver");
		expect(fd, FATHOM_IOC_DMA_RUN, &run, ENODEV, "a run without a device");
		write_to("/sys/bus/pci/drivers/fathom/bind", entry->d_name);
		expect(fd, FATHOM_IOC_DMA_RUN, &again, 0, "a run with it again");
	} else {
		failed("the driver has no PCI device");
	}
	if (devices)
		closedir(devices);
	close(fd);
}

static void test_unload_in_use(void)
{
	int fd = device_open();
	int error = unload_module();

	check(error == -EWOULDBLOCK, "unloading while open: %s", strerror(-error));
	close(fd);
	error = unload_module();
	check(!error, "unloading: %s", strerror(-error));
	check(access("/dev/fathom", F_OK), "the device is there without the module");
	error = load_module();
	check(!error, "loading again: %s", strerror(-error));
}

static void test_load_often(void)
{
	int i, error;

	for (i = 0; i < 100; i++) {
		error = unload_module();
		check(!error, "unloading %d: %s", i, strerror(-error));
		error = load_module();
		check(!error, "loading %d: %s", i, strerror(-error));
		if (i == 9)
			slabs_mark();
	}
	slabs_grew_below(64);
}

static void run(const char *name, void (*test)(void))
{
	int before = failures;
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	test();
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("@driver %s %s %ld ms\n", failures == before ? "ok" : "FAILED", name,
	       (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
}

static unsigned long parameter(const char *line, const char *name, unsigned long otherwise)
{
	const char *at = strstr(line, name);

	return at ? strtoul(at + strlen(name), NULL, 10) : otherwise;
}

static void prepare(void)
{
	char line[4096] = "";
	FILE *file;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("tmp", "/tmp", "tmpfs", 0, "mode=1777");
	file = fopen("/proc/cmdline", "re");
	if (file) {
		if (!fgets(line, sizeof(line), file))
			line[0] = 0;
		fclose(file);
	}
	world.calls = parameter(line, "fathom.calls=", 100000);
	world.seed = parameter(line, "fathom.seed=", 1);
	world.slow = parameter(line, "fathom.slow=", 0);
	world.cpus = sysconf(_SC_NPROCESSORS_ONLN);
	world.engines = parameter(line, "fathom.engines=", 3);
	world.coherent = parameter(line, "fathom.coherent=", 3);
	world.soft = parameter(line, "fathom.soft=", 0);
	world.soak = parameter(line, "fathom.soak=", 0);
	world.reserved = parameter(line, "fathom.reserved=", 0);
	world.reserved_bytes = parameter(line, "fathom.reserved_bytes=", 0);
#ifdef __aarch64__
	world.arm64 = true;
#endif
#if defined(__aarch64__) || defined(__arm__)
	world.arm = true;
#endif
	world.raw = parameter(line, "fathom.raw=", 1);
	world.counters = parameter(line, "fathom.counters=", world.arm);
	world.recorders = parameter(line, "fathom.recorders=", 1);
	world.pci = parameter(line, "fathom.pci=", 1);
	world.step = parameter(line, "fathom.step=", 1);
	world.exact = parameter(line, "fathom.exact=", 0);
	log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	lseek(log_fd, 0, SEEK_END);
}

/* What comes before the fuzz. */
static void before(void)
{
	run("other-users", test_others);
	run("unload-in-use", test_unload_in_use);
	run("unbind", test_unbind);
	run("bounds", test_bounds);
	run("regions", test_regions);
	run("reserved", test_reserved);
	run("mappings", test_mappings);
	run("killed", test_killed);
	run("often", test_often);
	run("dma", test_dma);
	run("dma-alloc", test_dma_alloc);
	run("engines", test_engines);
	run("channel", test_channel);
	run("counters", test_counters);
	run("events", test_events);
	run("marks", test_marks);
	run("cache-id", test_cache_id);
	run("wakes", test_wakes);
	run("charge", test_charge);
	run("rights", test_rights);
	run("member", test_member);
	run("group", test_group);
	run("dofork", test_dofork);
	run("hotplug", test_hotplug);
	run("unbind-busy", test_unbind_busy);
}

int main(int count, char **words)
{
	if (count > 1 && started_again(count, words))
		return 0;
	setvbuf(stdout, NULL, _IONBF, 0);
	prepare();
	run("load", test_load);
	if (!world.soak)
		before();
	run("fuzz", test_fuzz);
	if (!world.soak) {
		run("load-often", test_load_often);
		test_commands();
	}
	/* Late, because the DMA API's checker may end there. */
	run("fuzz-failing", test_fuzz_failing);
	if (!world.soak)
		run("channel-lost", test_channel_lost);
	run("kmemleak", test_kmemleak);
	run("log", test_log);
	run("checkers", test_checkers);
	printf("@driver done %d\n", failures);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
