// SPDX-License-Identifier: GPL-2.0
/* Present and absent engines, and faults of a memcpy channel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

/* The modes of driver/test/channel. */
enum { WELL, STALLS, CANNOT_BE_STOPPED, FAILS, SPOILS, REFUSES };

static void goes_wrong(int how)
{
	char text[2] = { '0' + how, 0 };

	write_to("/sys/module/fathom_test_channel/parameters/mode", text);
}

void test_engines(void)
{
	struct fathom_engine engine;
	int fd = device_open();
	unsigned int number;

	for (number = 0; number < FATHOM_ENGINES; number++) {
		memset(&engine, 0, sizeof(engine));
		engine.engine = number;
		if (!(world.engines >> number & 1)) {
			expect(fd, FATHOM_IOC_ENGINE, &engine, ENODEV, "an absent engine");
			continue;
		}
		expect(fd, FATHOM_IOC_ENGINE, &engine, 0, "an engine");
		printf("  engine %u: %.32s of %.32s, coherent %u, chunks of %u, multiples of %u\n",
		       number, engine.device, engine.driver, engine.coherent, engine.chunk_bytes,
		       engine.align_bytes);
		check(engine.coherent == (world.coherent >> number & 1), "coherent %u",
		      engine.coherent);
		check(!engine.device[31] && !engine.driver[31] && engine.device[0] &&
		      engine.driver[0], "a name has no end, or no beginning");
		check(engine.align_bytes && !(engine.align_bytes & (engine.align_bytes - 1)),
		      "multiples of %u", engine.align_bytes);
		check(!engine.chunk_bytes == (number == FATHOM_ENGINE_NONE), "at most %u bytes",
		      engine.chunk_bytes);
	}
	close(fd);
}

static struct fathom_dma_run channel_run(struct fathom_dma_sample *samples)
{
	struct fathom_dma_run run = { .engine = FATHOM_ENGINE_DMAENGINE, .bytes = 4096, .count = 2,
				      .seed = 7, .samples = (uintptr_t)samples };

	return run;
}

/* All strategies and directions: the run returns the expected error and releases
 * everything.
 */
static void wrong_way(int fd, int how, int error, const char *what)
{
	struct fathom_dma_sample samples[2];
	unsigned int strategy, direction;
	struct fathom_dma_run run;

	goes_wrong(how);
	for (strategy = 0; strategy < FATHOM_STRATEGIES; strategy++)
		for (direction = 0; direction <= FATHOM_FROM_DEVICE; direction++) {
			run = channel_run(samples);
			run.strategy = strategy;
			run.direction = direction;
			expect(fd, FATHOM_IOC_DMA_RUN, &run, error, what);
			/* One byte of each sample was corrupted, and must be detected. */
			if (how == SPOILS)
				check(run.wrong == 2 && samples[0].wrong == 1 &&
				      samples[1].wrong == 1,
				      "strategy %u, direction %u: %llu bytes seen wrong", strategy,
				      direction, (unsigned long long)run.wrong);
		}
	expect_nothing_held(fd, what);
}

void test_channel(void)
{
	struct fathom_dma_sample samples[2];
	struct fathom_dma_run run = channel_run(samples);
	const uint32_t bit = 1 << FATHOM_ENGINE_DMAENGINE;
	int fd = device_open();

	if (!world.soft) {
		printf("  no channel of the tests' own: what goes wrong is tried elsewhere\n");
		close(fd);
		return;
	}
	wrong_way(fd, STALLS, EIO, "a channel that stalls");
	wrong_way(fd, FAILS, EIO, "a channel that fails");
	wrong_way(fd, REFUSES, EIO, "a channel that refuses");
	wrong_way(fd, SPOILS, 0, "a channel that spoils a byte");
	goes_wrong(WELL);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "a run afterwards");
	check(!run.wrong, "%llu bytes wrong afterwards", (unsigned long long)run.wrong);
	/* The channel is removed and added while the driver is open. */
	check(!unload_channel(), "the channel cannot be unloaded");
	run = channel_run(samples);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, ENODEV, "a run without a channel");
	check(!(info_of(fd).engines & bit), "a channel is there without its module");
	check(!load_channel(), "the channel cannot be loaded");
	check(info_of(fd).engines & bit, "the channel is not there again");
	run = channel_run(samples);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "a run with it again");
	expect_nothing_held(fd, "channels");
	close(fd);
}

/* Runs last: a channel that cannot be stopped keeps its memory and the module. */
void test_channel_lost(void)
{
	struct fathom_dma_sample samples[2];
	struct fathom_dma_run run = channel_run(samples);
	struct fathom_info info;
	int fd = device_open();

	if (!world.soft) {
		close(fd);
		return;
	}
	goes_wrong(CANNOT_BE_STOPPED);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, EIO, "a channel that cannot be stopped");
	goes_wrong(WELL);
	run = channel_run(samples);
	expect(fd, FATHOM_IOC_DMA_RUN, &run, ENODEV, "a run by a channel that was lost");
	info = info_of(fd);
	check(!(info.engines & 1 << FATHOM_ENGINE_DMAENGINE), "a channel that was lost is there");
	check(info.used_bytes == 3 * 4096, "%llu bytes held by a channel that was lost",
	      (unsigned long long)info.used_bytes);
	run = channel_run(samples);
	run.engine = FATHOM_ENGINE_NONE;
	expect(fd, FATHOM_IOC_DMA_RUN, &run, 0, "a run without it");
	close(fd);
	check(unload_module() == -EWOULDBLOCK, "the module can be unloaded under a lost channel");
}
