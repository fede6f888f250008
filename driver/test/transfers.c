// SPDX-License-Identifier: GPL-2.0
/* DMA: every strategy moves every byte, and the memory is what the world makes it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

static const char *const strategies[] = { "streaming-copy", "uncached-copy", "streaming",
					  "persistent-copy", "coherent" };

/* Where the device is coherent the DMA API gives write-back memory, whatever it
 * is asked for; x86's always is.
 */
static unsigned int attribute_wanted(bool coherent_memory, bool coherent)
{
	return coherent_memory && !coherent ? FATHOM_NORMAL_NC : FATHOM_WRITE_BACK;
}

static void one_run(int fd, struct fathom_dma_run run, bool coherent)
{
	struct fathom_dma_sample samples[4];
	unsigned int i, wanted;
	bool in_memory = run.strategy == FATHOM_UNCACHED_COPY || run.strategy == FATHOM_COHERENT;
	bool copies = run.strategy != FATHOM_STREAMING && run.strategy != FATHOM_COHERENT;
	bool unproven = run.engine == FATHOM_ENGINE_NONE && run.direction == FATHOM_FROM_DEVICE;
	int error;

	memset(samples, 0xff, sizeof(samples));
	run.samples = (uintptr_t)samples;
	error = call(fd, FATHOM_IOC_DMA_RUN, &run);
	check(!error && run.done == run.count, "%s %u engine %u, %llu bytes: %s, %u done",
	      strategies[run.strategy], run.direction, run.engine, (unsigned long long)run.bytes,
	      strerror(-error), run.done);
	if (error)
		return;
	check(!run.wrong, "%s %u engine %u, %llu bytes: %llu wrong", strategies[run.strategy],
	      run.direction, run.engine, (unsigned long long)run.bytes,
	      (unsigned long long)run.wrong);
	check(run.chunks == (run.engine ? (run.bytes + 2047) / 2048 : 0), "%u chunks of %llu bytes",
	      run.chunks, (unsigned long long)run.bytes);
	check(run.coherent == coherent, "coherent %u", run.coherent);
	wanted = attribute_wanted(in_memory, coherent);
	check(run.attribute == wanted, "%s: buffer of attribute %u instead of %u (raw %#llx)",
	      strategies[run.strategy], run.attribute, wanted, (unsigned long long)run.raw);
	for (i = 0; i < run.count; i++) {
		check(!!(samples[i].flags & FATHOM_SAMPLE_UNPROVEN) == unproven, "flags %#x",
		      samples[i].flags);
		check(!samples[i].wrong, "%u wrong bytes in a sample", samples[i].wrong);
		check(!!samples[i].copy == copies || run.bytes < 64, "copy took %llu",
		      (unsigned long long)samples[i].copy);
		check(!!samples[i].engine == !!run.engine, "the engine took %llu",
		      (unsigned long long)samples[i].engine);
	}
	for (i = run.count; i < 4; i++)
		check(samples[i].use == ~0ULL, "a sample too many");
}

void test_dma(void)
{
	static const uint64_t sizes[] = { 1, 64, 100, 1500, 2047, 2048, 2049, 4096, 9000, 65536 };
	struct fathom_dma_run run;
	struct fathom_dma_sample sample;
	int fd = device_open();
	unsigned int i, engine, strategy, direction, runs = 0;
	uint32_t coherent = info_of(fd).coherent;
	uint64_t bytes = 0;

	for (engine = 0; engine < FATHOM_ENGINES; engine++)
		for (strategy = 0; strategy < FATHOM_STRATEGIES; strategy++)
			for (direction = 0; direction <= FATHOM_FROM_DEVICE; direction++)
				for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
					if (world.slow && engine && sizes[i] > 2048)
						continue;
					memset(&run, 0, sizeof(run));
					run.strategy = strategy;
					run.direction = direction;
					run.engine = engine;
					run.bytes = sizes[i];
					run.count = sizes[i] > 10000 ? 1 : 2;
					run.seed = world.seed + i;
					one_run(fd, run, coherent >> engine & 1);
					runs++;
					bytes += engine ? run.count * run.bytes : 0;
				}
	printf("  %u runs, %llu bytes through edu\n", runs, (unsigned long long)bytes);
	/* The largest there is, without an engine. */
	for (strategy = 0; strategy < FATHOM_STRATEGIES; strategy++) {
		memset(&run, 0, sizeof(run));
		run.strategy = strategy;
		run.bytes = FATHOM_DMA_MOST_BYTES;
		run.count = 1;
		one_run(fd, run, coherent & 1);
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
	static const uint64_t sizes[] = { 1, 4096, 8192, 300000, FATHOM_DMA_MOST_BYTES };
	struct fathom_alloc_sample samples[3];
	struct fathom_dma_alloc alloc;
	int fd = device_open();
	uint32_t coherent = info_of(fd).coherent;
	long cma = meminfo("CmaFree");
	unsigned int i, j, engine, kind, wanted;

	for (engine = 0; engine < FATHOM_ENGINES; engine++)
		for (kind = 0; kind < FATHOM_ALLOCS; kind++)
			for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
				memset(&alloc, 0, sizeof(alloc));
				memset(samples, 0, sizeof(samples));
				alloc.kind = kind;
				alloc.engine = engine;
				alloc.bytes = sizes[i];
				alloc.count = 3;
				alloc.samples = (uintptr_t)samples;
				expect(fd, FATHOM_IOC_DMA_ALLOC, &alloc, 0, "allocation");
				wanted = attribute_wanted(kind != FATHOM_ALLOC_NONCOHERENT,
							  coherent >> engine & 1);
				check(alloc.attribute == wanted && alloc.done == 3,
				      "kind %u, engine %u: attribute %u instead of %u", kind,
				      engine, alloc.attribute, wanted);
				for (j = 0; j < 3; j++)
					check(samples[j].alloc && samples[j].free,
					      "an allocation took no time");
			}
	check(meminfo("CmaFree") > cma - CMA_OTHERS, "CmaFree was %ld kB and is %ld kB", cma,
	      meminfo("CmaFree"));
	expect_nothing_held(fd, "allocations");
	close(fd);
}
