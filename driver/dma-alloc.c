// SPDX-License-Identifier: GPL-2.0
/* Times of allocating and freeing a DMA buffer. */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "driver.h"

static void *allocate(struct device *device, const struct fathom_dma_alloc *alloc,
		      dma_addr_t *address)
{
	void *memory;

	switch (alloc->kind) {
	case FATHOM_ALLOC_COHERENT:
		return dma_alloc_coherent(device, alloc->bytes, address, GFP_QUIET);
	case FATHOM_ALLOC_WRITE_COMBINE:
		return dma_alloc_wc(device, alloc->bytes, address, GFP_QUIET);
	default:
		memory = dma_alloc_noncoherent(device, PAGE_ALIGN(alloc->bytes), address,
					       DMA_BIDIRECTIONAL, GFP_QUIET);
		/* Memory that was returned is mapped. The kernel's checker wants the question. */
		if (memory)
			dma_mapping_error(device, *address);
		return memory;
	}
}

static void release(struct device *device, const struct fathom_dma_alloc *alloc, void *memory,
		      dma_addr_t address)
{
	switch (alloc->kind) {
	case FATHOM_ALLOC_COHERENT:
		dma_free_coherent(device, alloc->bytes, memory, address);
		break;
	case FATHOM_ALLOC_WRITE_COMBINE:
		dma_free_wc(device, alloc->bytes, memory, address);
		break;
	default:
		dma_free_noncoherent(device, PAGE_ALIGN(alloc->bytes), memory, address,
				     DMA_BIDIRECTIONAL);
	}
}

static int allocate_once(struct device *device, struct fathom_dma_alloc *alloc,
			 struct fathom_alloc_sample *sample)
{
	dma_addr_t address;
	void *memory;
	u64 began;

	began = fathom_arch_now(alloc->clock);
	memory = allocate(device, alloc, &address);
	sample->alloc = fathom_since(alloc->clock, began);
	if (!memory)
		return -ENOMEM;
	fathom_dma_attribute(memory, &alloc->attribute, &alloc->raw);
	began = fathom_arch_now(alloc->clock);
	release(device, alloc, memory, address);
	sample->free = fathom_since(alloc->clock, began);
	return 0;
}

static long allocate_all(struct fathom_dma_job *job)
{
	struct fathom_dma_alloc *alloc = job->what;
	struct fathom_alloc_sample *into = job->rows;
	u64 bytes = PAGE_ALIGN(alloc->bytes);
	int error = fathom_charge(bytes);
	u32 at;

	if (error)
		return error;
	for (at = 0; at < alloc->count; at++) {
		error = allocate_once(job->device, alloc, into + at);
		if (error)
			break;
		alloc->done = at + 1;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	fathom_uncharge(bytes);
	return error;
}

long fathom_dma_alloc(struct fathom_file *file, struct fathom_dma_alloc *alloc)
{
	struct fathom_dma_job job = {
		.engine = alloc->engine,
		.count = alloc->count,
		.bytes = alloc->bytes,
		.user = alloc->samples,
		.row = sizeof(struct fathom_alloc_sample),
		.done = &alloc->done,
		.clock = &alloc->clock,
		.what = alloc,
	};

	if (alloc->kind >= FATHOM_ALLOCS || alloc->done || alloc->raw || alloc->clock ||
	    alloc->attribute)
		return -EINVAL;
	return fathom_dma_job(file, &job, allocate_all);
}
