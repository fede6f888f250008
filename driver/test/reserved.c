// SPDX-License-Identifier: GPL-2.0
/* Memory that the devicetree reserves for the driver: allocation and release. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define PIECE	(512UL << 10)
#define OPENINGS	2

static bool inside(const struct fathom_region *region)
{
	return region->pa >= world.reserved &&
	       region->pa + region->bytes <= world.reserved + world.reserved_bytes;
}

static struct fathom_region piece(int fd, unsigned int attribute, const char *what)
{
	struct fathom_region region = { .bytes = PIECE, .attribute = attribute };

	expect(fd, FATHOM_IOC_REGION, &region, 0, what);
	check(!!(region.flags & FATHOM_REGION_RESERVED) == inside(&region),
	      "flags %#x of memory at %#llx", region.flags, (unsigned long long)region.pa);
	return region;
}

/* The same run with and without free reserved memory. */
static void uncached_run(int fd, int error, const char *what)
{
	struct fathom_dma_sample sample;
	struct fathom_dma_run run = { .strategy = FATHOM_UNCACHED_COPY, .engine = FATHOM_ENGINE_EDU,
				      .bytes = 3000, .count = 1, .samples = (uintptr_t)&sample };

	expect(fd, FATHOM_IOC_DMA_RUN, &run, error, what);
	if (!error)
		check(run.flags == FATHOM_RUN_RESERVED && run.attribute == FATHOM_NORMAL_NC &&
		      run.raw >> 56 == 0x44 && !run.wrong,
		      "%s: flags %#x, raw %#llx, %llu wrong", what, run.flags,
		      (unsigned long long)run.raw, (unsigned long long)run.wrong);
}

void test_reserved(void)
{
	const unsigned int all = world.reserved_bytes / PIECE;
	unsigned int i, j, attribute;
	struct fathom_region more, got[64];
	int fds[OPENINGS], fd = device_open();

	if (!world.reserved) {
		more = piece(fd, FATHOM_NORMAL_NC, "a region");
		check(!more.flags, "reserved memory where there is none");
		close(fd);
		return;
	}
	for (i = 0; i < OPENINGS; i++)
		fds[i] = device_open();
	for (i = 0; i < all && i < 64; i++) {
		attribute = i & 1 ? FATHOM_DEVICE : FATHOM_NORMAL_NC;
		got[i] = piece(fds[i % OPENINGS], attribute, "a piece");
		check(inside(&got[i]), "piece %u of %u is at %#llx", i, all,
		      (unsigned long long)got[i].pa);
		for (j = 0; j < i; j++)
			check(got[i].pa + PIECE <= got[j].pa || got[j].pa + PIECE <= got[i].pa,
			      "pieces %u and %u overlap", i, j);
	}
	/* When it is exhausted, the DMA API is used, but not for a coherent device. */
	more = piece(fd, FATHOM_NORMAL_NC, "one more");
	check(!inside(&more), "a piece of what is given away");
	uncached_run(fd, ENOMEM, "an uncached buffer with all reserved memory given away");
	close(fds[1]);
	more = piece(fd, FATHOM_DEVICE, "one again");
	check(inside(&more), "what an opening had is not to be had after it");
	uncached_run(fd, 0, "an uncached buffer in reserved memory");
	close(fds[0]);
	close(fd);
	fd = device_open();
	expect_nothing_held(fd, "reserved memory");
	printf("  %u pieces of %lu bytes in two openings, all in reserved memory\n", all, PIECE);
	close(fd);
}
