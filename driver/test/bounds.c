// SPDX-License-Identifier: GPL-2.0
/* Every field of every ioctl, out of its bounds. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

/* A valid request with one invalid field. */
#define BAD(fd, command, type, good, field, value, error) \
	do { \
		type bad_ = good; \
		bad_.field = (value); \
		expect(fd, command, &bad_, error, #type "." #field " = " #value); \
	} while (0)

static void bounds_region(int fd)
{
	struct fathom_region good = { .bytes = 4096 };
	struct fathom_handle handle = { 0 };

#define REGION(field, value, error) \
	BAD(fd, FATHOM_IOC_REGION, struct fathom_region, good, field, value, error)
	REGION(bytes, 0, EINVAL);
	REGION(bytes, FATHOM_REGION_MAX_BYTES + 1, EINVAL);
	REGION(bytes, ~0ULL, EINVAL);
	REGION(bytes, 1ULL << 63, EINVAL);
	REGION(attribute, FATHOM_ATTRIBUTES, EINVAL);
	REGION(attribute, ~0U, EINVAL);
	REGION(attribute, FATHOM_WRITE_THROUGH, EOPNOTSUPP);
	REGION(flags, 1, EINVAL);
	REGION(reserved, 1, EINVAL);
	REGION(colour, 1, EINVAL);
	REGION(colours, 3, EINVAL);
	REGION(colours, 2 * FATHOM_COLOURS_MOST, EINVAL);
	REGION(colours, 1U << 31, EINVAL);
	good.colours = 16;
	REGION(colour, 16, EINVAL);
	REGION(colour, ~0U, EINVAL);
	REGION(attribute, FATHOM_NORMAL_NC, EOPNOTSUPP);
	handle.handle = 0;
	expect(fd, FATHOM_IOC_REGION_FREE, &handle, ENOENT, "free of nothing");
	handle.handle = FATHOM_REGIONS_MOST;
	expect(fd, FATHOM_IOC_REGION_FREE, &handle, EINVAL, "free beyond the handles");
	handle.handle = ~0U;
	expect(fd, FATHOM_IOC_REGION_FREE, &handle, EINVAL, "free of the last number");
	handle.handle = 0;
	handle.reserved = 1;
	expect(fd, FATHOM_IOC_REGION_FREE, &handle, EINVAL, "free with reserved");
}

/* A result that cannot be returned leaves neither memory nor a handle that was never told. */
static void bounds_unreturned(int fd)
{
	struct fathom_region *region = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fathom_handle handle = { 0 };

	region->bytes = 4096;
	mprotect(region, 4096, PROT_READ);
	expect(fd, FATHOM_IOC_REGION, region, EFAULT, "a region whose structure cannot be written");
	check(!info_of(fd).used_bytes && !info_of(fd).regions, "it holds memory");
	expect(fd, FATHOM_IOC_REGION_FREE, &handle, ENOENT, "free of a handle that was not told");
	munmap(region, 4096);
}

/* The limit of all openings together, and the limit of handles per opening. */
static void bounds_limits(int fd)
{
	struct fathom_region region;
	struct fathom_info info = info_of(fd);
	int error = 0, count, other = device_open();

	for (count = 0; count <= FATHOM_REGIONS_MOST; count++) {
		memset(&region, 0, sizeof(region));
		region.bytes = 4096;
		error = call(other, FATHOM_IOC_REGION, &region);
		if (error)
			break;
	}
	check(error == -ENOMEM && count == FATHOM_REGIONS_MOST, "%d regions, then %s", count,
	      strerror(-error));
	close(other);
	expect_nothing_held(fd, "as many regions as there may be");
	other = device_open();
	for (count = 0; count < 200; count++) {
		memset(&region, 0, sizeof(region));
		region.bytes = 1 << 20;
		error = call(count & 1 ? fd : other, FATHOM_IOC_REGION, &region);
		if (error)
			break;
	}
	check(error == -ENOMEM && (uint64_t)count << 20 <= info.limit_bytes,
	      "%d MiB of %llu, then %s", count, (unsigned long long)info.limit_bytes >> 20,
	      strerror(-error));
	printf("  %d regions of 1 MiB in two openings, limit %llu MiB\n", count,
	       (unsigned long long)info.limit_bytes >> 20);
	close(other);
	for (count = 0; count < FATHOM_REGIONS_MOST; count++)
		call(fd, FATHOM_IOC_REGION_FREE, &(struct fathom_handle){ .handle = count });
	expect_nothing_held(fd, "as much as there may be");
}

static void bounds_dma(int fd)
{
	struct fathom_dma_sample sample;
	struct fathom_dma_run good = { .bytes = 64, .count = 1, .samples = (uintptr_t)&sample };
	struct fathom_alloc_sample alloc_sample;
	struct fathom_dma_alloc alloc = { .bytes = 64, .count = 1,
					  .samples = (uintptr_t)&alloc_sample };

#define RUN(field, value, error) \
	BAD(fd, FATHOM_IOC_DMA_RUN, struct fathom_dma_run, good, field, value, error)
	RUN(bytes, 64, 0);
	RUN(strategy, FATHOM_STRATEGIES, EINVAL);
	RUN(strategy, ~0U, EINVAL);
	RUN(direction, 2, EINVAL);
	RUN(engine, FATHOM_ENGINES, EINVAL);
	RUN(engine, ~0U, EINVAL);
	RUN(count, 0, EINVAL);
	RUN(count, FATHOM_DMA_MAX_COUNT + 1, EINVAL);
	RUN(count, ~0U, EINVAL);
	RUN(bytes, 0, EINVAL);
	RUN(bytes, FATHOM_DMA_MAX_BYTES + 1, EINVAL);
	RUN(bytes, ~0ULL, EINVAL);
	RUN(samples, 0, EFAULT);
	RUN(samples, ~0ULL, EFAULT);
	RUN(samples, 0xffff800000000000ULL, EFAULT);
	RUN(done, 1, EINVAL);
	RUN(clock, 1, EINVAL);
	RUN(coherent, 1, EINVAL);
	RUN(chunks, 1, EINVAL);
	RUN(wrong, 1, EINVAL);
	RUN(raw, 1, EINVAL);
	RUN(attribute, 1, EINVAL);
	RUN(flags, 1, EINVAL);
	good.bytes = FATHOM_DMA_MAX_BYTES;
	RUN(count, 65, EINVAL);
#define ALLOC(field, value, error) \
	BAD(fd, FATHOM_IOC_DMA_ALLOC, struct fathom_dma_alloc, alloc, field, value, error)
	ALLOC(kind, 0, 0);
	ALLOC(kind, FATHOM_ALLOCS, EINVAL);
	ALLOC(engine, FATHOM_ENGINES, EINVAL);
	ALLOC(bytes, 0, EINVAL);
	ALLOC(bytes, FATHOM_DMA_MAX_BYTES + 1, EINVAL);
	ALLOC(count, 0, EINVAL);
	ALLOC(count, FATHOM_DMA_MAX_COUNT + 1, EINVAL);
	ALLOC(samples, 0, EFAULT);
	ALLOC(samples, ~0ULL, EFAULT);
	ALLOC(done, 1, EINVAL);
	ALLOC(raw, 1, EINVAL);
	ALLOC(clock, 1, EINVAL);
	ALLOC(attribute, 1, EINVAL);
	alloc.bytes = FATHOM_DMA_MAX_BYTES;
	ALLOC(count, 65, EINVAL);
}

static void bounds_engine(int fd)
{
	struct fathom_engine good = { 0 };

#define ENGINE(field, value, error) \
	BAD(fd, FATHOM_IOC_ENGINE, struct fathom_engine, good, field, value, error)
	ENGINE(engine, 0, 0);
	ENGINE(engine, FATHOM_ENGINES, EINVAL);
	ENGINE(engine, ~0U, EINVAL);
	ENGINE(coherent, 1, EINVAL);
	ENGINE(chunk_bytes, 1, EINVAL);
	ENGINE(align_bytes, 1, EINVAL);
	ENGINE(device[0], 'x', EINVAL);
	ENGINE(driver[31], 'x', EINVAL);
}

static void bounds_events(int fd)
{
	struct fathom_events good = { .count = 1 };
	int error = events_refused();

#define EVENTS(field, value) \
	BAD(fd, FATHOM_IOC_EVENTS_ON, struct fathom_events, good, field, value, error ? error : EINVAL)
	pin(0);
	EVENTS(count, 0);
	EVENTS(count, FATHOM_EVENTS_MOST + 1);
	EVENTS(count, ~0U);
	EVENTS(cpu, 1);
	EVENTS(offset, 1);
	EVENTS(bytes, 1);
	/* Software, tracepoint, breakpoint, and another PMU. */
	EVENTS(event[0].type, 1);
	EVENTS(event[0].type, 2);
	EVENTS(event[0].type, 5);
	EVENTS(event[0].type, ~0U);
	EVENTS(event[0].flags, 2);
	EVENTS(event[1].type, 4);
	EVENTS(event[1].flags, FATHOM_EVENT_USER);
	EVENTS(event[7].config, 1);
	pin(-1);
	if (world.cpus > 1)
		EVENTS(event[0].config, 0);
}

static void bounds_others(int fd)
{
	struct fathom_wake_start good = { .period_ns = 1000000, .rows = 10 };
	struct fathom_counters counters = { 0 };
	struct fathom_translate translate = { .reserved = 1 };

#define WAKE(field, value, error) \
	BAD(fd, FATHOM_IOC_WAKE_START, struct fathom_wake_start, good, field, value, error)
	WAKE(period_ns, 0, EINVAL);
	WAKE(period_ns, FATHOM_WAKE_MIN_NS - 1, EINVAL);
	WAKE(period_ns, FATHOM_WAKE_MAX_NS + 1, EINVAL);
	WAKE(period_ns, ~0ULL, EINVAL);
	WAKE(cpu, 4096, EINVAL);
	WAKE(cpu, ~0U, EINVAL);
	WAKE(policy, FATHOM_POLICIES, EINVAL);
	WAKE(rows, 0, EINVAL);
	WAKE(rows, FATHOM_WAKE_MAX_ROWS + 1, EINVAL);
	WAKE(rows, ~0U, EINVAL);
	WAKE(reserved, 1, EINVAL);
	WAKE(offset, 1, EINVAL);
	WAKE(bytes, 1, EINVAL);
	expect(fd, FATHOM_IOC_WAKE_STOP, NULL, ENOENT, "stop of nothing");
	expect(fd, FATHOM_IOC_TRANSLATE, &translate, EINVAL, "translate with reserved");
	counters.reserved = 1;
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, EINVAL, "counters with reserved");
	counters.reserved = 0;
	counters.cpu = 1;
	expect(fd, FATHOM_IOC_COUNTERS_ON, &counters, EINVAL, "counters of a chosen CPU");
	expect(fd, FATHOM_IOC_COUNTERS_STATE, &counters, ENOENT, "the state of no grant");
	expect(fd, FATHOM_IOC_COUNTERS_OFF, NULL, ENOENT, "taking back no grant");
}

void test_bounds(void)
{
	static const unsigned long commands[] = {
		FATHOM_IOC_INFO, FATHOM_IOC_REGION, FATHOM_IOC_REGION_FREE, FATHOM_IOC_TRANSLATE,
		FATHOM_IOC_DMA_RUN, FATHOM_IOC_DMA_ALLOC, FATHOM_IOC_COUNTERS_ON,
		FATHOM_IOC_COUNTERS_STATE, FATHOM_IOC_CACHE_ID, FATHOM_IOC_WAKE_START,
		FATHOM_IOC_ENGINE, FATHOM_IOC_EVENTS_ON,
	};
	char space[1024] = "";
	int fd = device_open();
	unsigned int i;

	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		/* With another size it is an unknown command; without an address it
		 * fails.
		 */
		expect(fd, commands[i] + (8UL << _IOC_SIZESHIFT), space, ENOTTY, "a larger one");
		expect(fd, commands[i] & ~((unsigned long)_IOC_SIZEMASK << _IOC_SIZESHIFT), space,
		       ENOTTY, "a command without its structure");
		if (commands[i] != FATHOM_IOC_COUNTERS_STATE && commands[i] != FATHOM_IOC_CACHE_ID)
			expect(fd, commands[i], (void *)8, EFAULT, "no address");
	}
	for (i = 14; i < 256; i++)
		expect(fd, _IO(FATHOM_IOC_MAGIC, i), space, ENOTTY, "no such command");
	expect(fd, _IOWR(FATHOM_IOC_MAGIC, 1, char[16383]), space, ENOTTY, "the largest structure");
	expect(fd, _IO('T', 1), space, ENOTTY, "another driver's");
	bounds_region(fd);
	bounds_unreturned(fd);
	bounds_limits(fd);
	bounds_dma(fd);
	bounds_engine(fd);
	bounds_events(fd);
	bounds_others(fd);
	expect_nothing_held(fd, "what is out of bounds");
	close(fd);
}
