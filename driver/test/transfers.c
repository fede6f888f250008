// SPDX-License-Identifier: GPL-2.0
/* DMA: every strategy moves every byte, and buffers have the expected attribute. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

static const char *const strategies[] = { "streaming-copy", "uncached-copy", "zero-copy",
					  "persistent-copy", "coherent" };

/*
 * For a coherent device the DMA API always returns write-back memory. On x86 all
 * devices are coherent.
 */
static unsigned int attribute_expected(bool coherent_memory, bool coherent)
{
	return coherent_memory && !coherent ? FATHOM_NORMAL_NC : FATHOM_WRITE_BACK;
}

/*
 * An uncached buffer for a coherent device: x86 changes the linear mapping, ARM has
 * it in reserved memory only.
 */
static bool is_possible(const struct fathom_dma_run *run, bool coherent)
{
	return run->strategy != FATHOM_UNCACHED_COPY || !coherent || !world.arm ||
	       world.reserved;
}

static void check_samples(const struct fathom_dma_run *run,
			    const struct fathom_dma_sample *samples, unsigned int capacity)
{
	bool copies = run->strategy != FATHOM_ZERO_COPY && run->strategy != FATHOM_COHERENT;
	bool unverified = run->engine == FATHOM_ENGINE_NONE && run->direction == FATHOM_FROM_DEVICE;
	unsigned int i;

	for (i = 0; i < run->count; i++) {
		check(!!(samples[i].flags & FATHOM_SAMPLE_UNVERIFIED) == unverified, "flags %#x",
		      samples[i].flags);
		check(!samples[i].wrong, "%u wrong bytes in a sample", samples[i].wrong);
		check(!!samples[i].copy == copies || run->bytes < 64 || world.step > 1, "copy took %llu",
		      (unsigned long long)samples[i].copy);
		check(!!samples[i].engine == !!run->engine, "the engine took %llu",
		      (unsigned long long)samples[i].engine);
	}
	for (i = run->count; i < capacity; i++)
		check(samples[i].use == ~0ULL, "a sample too many");
}

/* Returns true if it ran. */
static bool one_run(int fd, struct fathom_dma_run run, const struct fathom_engine *engine)
{
	struct fathom_dma_sample samples[4];
	unsigned int expected, chunk = engine->chunk_bytes < run.bytes ? engine->chunk_bytes : run.bytes;
	bool uncached = run.strategy == FATHOM_UNCACHED_COPY;
	bool own = uncached && engine->coherent;
	int error;

	memset(samples, 0xff, sizeof(samples));
	run.samples = (uintptr_t)samples;
	if (run.bytes % engine->align_bytes || !is_possible(&run, engine->coherent)) {
		expect(fd, FATHOM_IOC_DMA_RUN, &run, EOPNOTSUPP, "a run that cannot be");
		return false;
	}
	error = call(fd, FATHOM_IOC_DMA_RUN, &run);
	check(!error && run.done == run.count, "%s %u engine %u, %llu bytes: %s, %u done",
	      strategies[run.strategy], run.direction, run.engine, (unsigned long long)run.bytes,
	      strerror(-error), run.done);
	if (error)
		return false;
	check(!run.wrong, "%s %u engine %u, %llu bytes: %llu wrong", strategies[run.strategy],
	      run.direction, run.engine, (unsigned long long)run.bytes,
	      (unsigned long long)run.wrong);
	check(run.chunks == (run.engine ? (run.bytes + chunk - 1) / chunk : 0),
	      "%u chunks of %llu bytes", run.chunks, (unsigned long long)run.bytes);
	check(run.coherent == engine->coherent, "coherent %u", run.coherent);
	expected = own ? FATHOM_NORMAL_NC :
		 attribute_expected(uncached || run.strategy == FATHOM_COHERENT, engine->coherent);
	check(run.attribute == expected || !world.raw, "%s: buffer of attribute %u instead of %u (raw %#llx)",
	      strategies[run.strategy], run.attribute, expected, (unsigned long long)run.raw);
	check(run.flags == (own && world.arm64 ? FATHOM_RUN_RESERVED : 0), "%s: flags %#x",
	      strategies[run.strategy], run.flags);
	check_samples(&run, samples, sizeof(samples) / sizeof(*samples));
	return true;
}

static struct fathom_engine engine_of(int fd, unsigned int engine)
{
	struct fathom_engine what = { .engine = engine };

	expect(fd, FATHOM_IOC_ENGINE, &what, 0, "an engine");
	return what;
}

/* Every strategy and direction, in all sizes. */
static void all_runs(int fd, unsigned int number)
{
	static const uint64_t sizes[] = { 1, 64, 100, 1500, 2047, 2048, 2049, 4096, 9000, 65536 };
	struct fathom_engine engine = engine_of(fd, number);
	unsigned int i, strategy, direction, runs = 0, refused = 0;
	struct fathom_dma_run run;
	uint64_t bytes = 0;

	for (strategy = 0; strategy < FATHOM_STRATEGIES; strategy++)
		for (direction = 0; direction <= FATHOM_FROM_DEVICE; direction++)
			for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
				if (world.slow && number == FATHOM_ENGINE_EDU && sizes[i] > 2048)
					continue;
				memset(&run, 0, sizeof(run));
				run.strategy = strategy;
				run.direction = direction;
				run.engine = number;
				run.bytes = sizes[i];
				run.count = sizes[i] > 10000 ? 1 : 2;
				run.seed = world.seed + i;
				if (one_run(fd, run, &engine)) {
					runs++;
					bytes += number ? run.count * run.bytes : 0;
				} else {
					refused++;
				}
			}
	printf("  engine %u: %u runs, %u refused, %llu bytes moved\n", number, runs, refused,
	       (unsigned long long)bytes);
}

void test_dma(void)
{
	struct fathom_dma_run run;
	struct fathom_dma_sample sample;
	struct fathom_engine engine;
	int fd = device_open();
	unsigned int number, strategy;

	for (number = 0; number < FATHOM_ENGINES; number++) {
		if (!(world.engines >> number & 1))
			continue;
		all_runs(fd, number);
		if (number == FATHOM_ENGINE_EDU)
			continue;
		/* The maximum size; edu would take minutes. */
		engine = engine_of(fd, number);
		for (strategy = 0; strategy < FATHOM_STRATEGIES; strategy++) {
			memset(&run, 0, sizeof(run));
			run.strategy = strategy;
			run.engine = number;
			run.bytes = FATHOM_DMA_MAX_BYTES;
			run.count = 1;
			one_run(fd, run, &engine);
		}
	}
	memset(&run, 0, sizeof(run));
	run.bytes = 64;
	run.count = 1;
	expect(fd, FATHOM_IOC_DMA_RUN, &run, EFAULT, "samples at no address");
	run.samples = (uintptr_t)&sample;
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "one sample");
	expect_nothing_held(fd, "transfers");
	close(fd);
}

void test_dma_alloc(void)
{
	static const uint64_t sizes[] = { 1, 4096, 8192, 300000, FATHOM_DMA_MAX_BYTES };
	struct fathom_alloc_sample samples[3];
	struct fathom_dma_alloc alloc;
	int fd = device_open();
	uint32_t coherent = info_of(fd).coherent;
	long cma = meminfo("CmaFree");
	unsigned int i, j, engine, kind, expected;

	for (engine = 0; engine < FATHOM_ENGINES; engine++)
		for (kind = 0; kind < FATHOM_ALLOCS && world.engines >> engine & 1; kind++)
			for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
				memset(&alloc, 0, sizeof(alloc));
				memset(samples, 0, sizeof(samples));
				alloc.kind = kind;
				alloc.engine = engine;
				alloc.bytes = sizes[i];
				alloc.count = 3;
				alloc.samples = (uintptr_t)samples;
				expect(fd, FATHOM_IOC_DMA_ALLOC, &alloc, 0, "allocation");
				expected = attribute_expected(kind != FATHOM_ALLOC_NONCOHERENT,
							  coherent >> engine & 1);
				check((alloc.attribute == expected || !world.raw) && alloc.done == 3,
				      "kind %u, engine %u: attribute %u instead of %u", kind,
				      engine, alloc.attribute, expected);
				for (j = 0; j < 3; j++)
					check(samples[j].alloc && samples[j].free,
					      "an allocation took no time");
			}
	check(meminfo("CmaFree") > cma - CMA_OTHERS, "CmaFree was %ld kB and is %ld kB", cma,
	      meminfo("CmaFree"));
	expect_nothing_held(fd, "allocations");
	close(fd);
}
