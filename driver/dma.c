// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to give data to a device and to get it back, by five strategies.
 *
 * Every transfer through an engine is proven: what went to the device is read
 * back through memory of another buffer, what comes from it was put there that
 * way. That is not timed.
 */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#include "driver.h"

#define GFP_DMA_RUN	(GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

/* One call's work: nothing of it is shared, so it needs no lock but the engine's. */
struct transfer {
	struct device *device;
	struct fathom_dma_run *run;
	u32 clock;
	enum dma_data_direction direction;
	void *packet;		/* where the CPU makes or takes data */
	void *buffer;		/* where the device does; may be the packet */
	dma_addr_t address;	/* of buffer, while it is mapped */
	void *check;		/* a chunk that proves the rest; coherent */
	dma_addr_t check_address;
	u64 sum;		/* so that reading is not left out */
};

static bool to_device(const struct transfer *transfer)
{
	return transfer->run->direction == FATHOM_TO_DEVICE;
}

/* Data that differs from sample to sample and from place to place. */
static u64 word(u64 seed, u64 at)
{
	u64 x = seed + (at + 1) * 0x9e3779b97f4a7c15ULL;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

static void make(void *to, u64 seed, u64 from, u64 bytes)
{
	u64 *words = to;
	u64 at, last;

	for (at = 0; at < bytes / 8; at++)
		words[at] = word(seed, from / 8 + at);
	if (bytes % 8) {
		last = word(seed, from / 8 + at);
		memcpy(words + at, &last, bytes % 8);
	}
}

static u64 take(const void *from, u64 bytes)
{
	const u64 *words = from;
	u64 at, sum = 0;

	for (at = 0; at < bytes / 8; at++)
		sum += READ_ONCE(words[at]);
	return sum;
}

static u32 wrong(const void *data, u64 seed, u64 from, u64 bytes)
{
	const u8 *got = data;
	u64 at, expected = 0;
	u32 count = 0;

	for (at = 0; at < bytes; at++) {
		if (at % 8 == 0)
			expected = word(seed, (from + at) / 8);
		count += got[at] != ((const u8 *)&expected)[at % 8];
	}
	return count;
}

/* The clock of a run: the cycle counter where this opening was granted it and runs there. */
static u32 clock_of(struct fathom_file *file)
{
	u64 hz;
	u32 clock = fathom_arch_clock(&hz);
	int granted;

	mutex_lock(&file->lock);
	granted = file->granted;
	mutex_unlock(&file->lock);
	if (granted >= 0 && cpumask_weight(current->cpus_ptr) == 1 &&
	    cpumask_test_cpu(granted, current->cpus_ptr))
		return FATHOM_CLOCK_CYCLES;
	return clock;
}

/* NULL: there is none. FATHOM_ENGINE_NONE's is the driver's own. */
static struct device *device_get(u32 engine)
{
	return engine == FATHOM_ENGINE_EDU ? fathom_edu_get() : fathom_device;
}

static void device_put(u32 engine)
{
	if (engine == FATHOM_ENGINE_EDU)
		fathom_edu_put();
}

/* Without waiting for whoever transfers. */
u32 fathom_dma_engines(u32 *coherent)
{
	u32 edu = fathom_edu_there();
	u32 all = 1U << FATHOM_ENGINE_NONE;

	*coherent = dev_is_dma_coherent(fathom_device) ? 1U << FATHOM_ENGINE_NONE : 0;
	if (edu & FATHOM_EDU_THERE)
		all |= 1U << FATHOM_ENGINE_EDU;
	if (edu & FATHOM_EDU_COHERENT)
		*coherent |= 1U << FATHOM_ENGINE_EDU;
	return all;
}

static void *coherent_memory(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	if (transfer->run->strategy == FATHOM_UNCACHED_COPY)
		return dma_alloc_wc(transfer->device, bytes, &transfer->address, GFP_DMA_RUN);
	return dma_alloc_coherent(transfer->device, bytes, &transfer->address, GFP_DMA_RUN);
}

static bool is_coherent_memory(const struct transfer *transfer)
{
	return transfer->run->strategy == FATHOM_UNCACHED_COPY ||
	       transfer->run->strategy == FATHOM_COHERENT;
}

static void end(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;
	u32 strategy = transfer->run->strategy;

	if (transfer->check)
		dma_free_coherent(transfer->device, FATHOM_EDU_CHUNK, transfer->check,
				  transfer->check_address);
	if (strategy == FATHOM_PERSISTENT_COPY && transfer->address != DMA_MAPPING_ERROR)
		dma_unmap_single(transfer->device, transfer->address, bytes, transfer->direction);
	if (strategy == FATHOM_UNCACHED_COPY && transfer->buffer)
		dma_free_wc(transfer->device, bytes, transfer->buffer, transfer->address);
	else if (strategy == FATHOM_COHERENT && transfer->buffer)
		dma_free_coherent(transfer->device, bytes, transfer->buffer, transfer->address);
	else if (transfer->buffer != transfer->packet)
		kfree(transfer->buffer);
	if (transfer->packet != transfer->buffer || !is_coherent_memory(transfer))
		kfree(transfer->packet);
	fathom_uncharge(2 * bytes);
}

static int begin(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;
	u32 strategy = transfer->run->strategy;
	int error = fathom_charge(2 * bytes);

	if (error)
		return error;
	transfer->address = DMA_MAPPING_ERROR;
	if (strategy != FATHOM_COHERENT)
		transfer->packet = kzalloc(bytes, GFP_DMA_RUN);
	if (is_coherent_memory(transfer))
		transfer->buffer = coherent_memory(transfer);
	else if (strategy == FATHOM_STREAMING)
		transfer->buffer = transfer->packet;
	else
		transfer->buffer = kzalloc(bytes, GFP_DMA_RUN);
	if (strategy == FATHOM_COHERENT)
		transfer->packet = transfer->buffer;
	transfer->check = dma_alloc_coherent(transfer->device, FATHOM_EDU_CHUNK,
					     &transfer->check_address, GFP_DMA_RUN);
	if (!transfer->packet || !transfer->buffer || !transfer->check) {
		end(transfer);
		return -ENOMEM;
	}
	if (strategy == FATHOM_PERSISTENT_COPY) {
		transfer->address = dma_map_single(transfer->device, transfer->buffer, bytes,
						   transfer->direction);
		if (dma_mapping_error(transfer->device, transfer->address)) {
			transfer->address = DMA_MAPPING_ERROR;
			end(transfer);
			return -ENOMEM;
		}
	}
	return 0;
}

static bool mapped_each_time(const struct transfer *transfer)
{
	return transfer->run->strategy == FATHOM_STREAMING_COPY ||
	       transfer->run->strategy == FATHOM_STREAMING;
}

static int map(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	if (mapped_each_time(transfer)) {
		transfer->address = dma_map_single(transfer->device, transfer->buffer, bytes,
						   transfer->direction);
		if (dma_mapping_error(transfer->device, transfer->address))
			return -ENOMEM;
	} else if (transfer->run->strategy == FATHOM_PERSISTENT_COPY) {
		dma_sync_single_for_device(transfer->device, transfer->address, bytes,
					   transfer->direction);
	} else {
		/* What was written must be there before the device is told. */
		wmb();
	}
	return 0;
}

static void unmap(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	if (mapped_each_time(transfer))
		dma_unmap_single(transfer->device, transfer->address, bytes, transfer->direction);
	else if (transfer->run->strategy == FATHOM_PERSISTENT_COPY)
		dma_sync_single_for_cpu(transfer->device, transfer->address, bytes,
					transfer->direction);
	else
		dma_rmb();
}

/* Each chunk is proven before the engine's memory is written again. */
static int move_chunk(struct transfer *transfer, struct fathom_dma_sample *sample,
		      u64 seed, u64 from, u32 bytes)
{
	u64 began;
	int error;

	if (!to_device(transfer)) {
		make(transfer->check, seed, from, bytes);
		error = fathom_edu_move(transfer->check_address, bytes, false);
		if (error)
			return error;
	}
	began = fathom_arch_now(transfer->clock);
	error = fathom_edu_move(transfer->address + from, bytes, !to_device(transfer));
	sample->engine += fathom_arch_now(transfer->clock) - began;
	if (error || !to_device(transfer))
		return error;
	memset(transfer->check, 0, bytes);
	error = fathom_edu_move(transfer->check_address, bytes, true);
	if (!error)
		sample->wrong += wrong(transfer->check, seed, from, bytes);
	return error;
}

static int move(struct transfer *transfer, struct fathom_dma_sample *sample, u64 seed)
{
	u64 from, bytes = transfer->run->bytes;
	int error;

	if (transfer->run->engine == FATHOM_ENGINE_NONE) {
		/* To the device the buffer itself is looked at; nothing comes from it. */
		if (to_device(transfer))
			sample->wrong = wrong(transfer->buffer, seed, 0, bytes);
		else
			sample->flags |= FATHOM_SAMPLE_UNPROVEN;
		return 0;
	}
	for (from = 0; from < bytes; from += FATHOM_EDU_CHUNK) {
		error = move_chunk(transfer, sample, seed, from,
				   min_t(u64, bytes - from, FATHOM_EDU_CHUNK));
		if (error)
			return error;
		/* A transfer of 1 MiB takes edu minutes. */
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void use(struct transfer *transfer, struct fathom_dma_sample *sample, u64 seed)
{
	u64 bytes = transfer->run->bytes;
	u64 began = fathom_arch_now(transfer->clock);

	if (to_device(transfer))
		make(transfer->packet, seed, 0, bytes);
	else
		transfer->sum += take(transfer->packet, bytes);
	sample->use = fathom_arch_now(transfer->clock) - began;
}

static void copy(struct transfer *transfer, struct fathom_dma_sample *sample)
{
	u64 bytes = transfer->run->bytes;
	u64 began;

	if (transfer->packet == transfer->buffer)
		return;
	began = fathom_arch_now(transfer->clock);
	if (to_device(transfer))
		memcpy(transfer->buffer, transfer->packet, bytes);
	else
		memcpy(transfer->packet, transfer->buffer, bytes);
	sample->copy = fathom_arch_now(transfer->clock) - began;
}

/* What stood there before must not be taken for what should have come. */
static void spoil(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	if (transfer->run->strategy == FATHOM_PERSISTENT_COPY)
		dma_sync_single_for_cpu(transfer->device, transfer->address, bytes,
					transfer->direction);
	memset(transfer->buffer, 0x5a, bytes);
	if (transfer->packet != transfer->buffer)
		memset(transfer->packet, 0x5a, bytes);
}

static int once(struct transfer *transfer, struct fathom_dma_sample *sample, u64 seed)
{
	int cpu = raw_smp_processor_id();
	u64 began;
	int error;

	spoil(transfer);
	if (to_device(transfer)) {
		use(transfer, sample, seed);
		copy(transfer, sample);
	}
	began = fathom_arch_now(transfer->clock);
	error = map(transfer);
	sample->map = fathom_arch_now(transfer->clock) - began;
	if (error)
		return error;
	error = move(transfer, sample, seed);
	began = fathom_arch_now(transfer->clock);
	unmap(transfer);
	sample->unmap = fathom_arch_now(transfer->clock) - began;
	if (error)
		return error;
	if (!to_device(transfer)) {
		copy(transfer, sample);
		use(transfer, sample, seed);
		if (!(sample->flags & FATHOM_SAMPLE_UNPROVEN))
			sample->wrong = wrong(transfer->packet, seed, 0, transfer->run->bytes);
	}
	if (cpu != raw_smp_processor_id())
		sample->flags |= FATHOM_SAMPLE_MIGRATED;
	return 0;
}

static int samples(struct transfer *transfer, struct fathom_dma_sample *into)
{
	struct fathom_dma_run *run = transfer->run;
	u32 at;
	int error;

	for (at = 0; at < run->count; at++) {
		error = once(transfer, into + at, word(run->seed, at));
		/* What is done already is told; of the rest only the count. */
		if (error)
			return at && error == -EINTR ? 0 : error;
		run->wrong += into[at].wrong;
		run->done = at + 1;
		if (signal_pending(current))
			return 0;
		cond_resched();
	}
	return 0;
}

static int check(const struct fathom_dma_run *run)
{
	if (run->strategy >= FATHOM_STRATEGIES || run->direction > FATHOM_FROM_DEVICE ||
	    run->engine >= FATHOM_ENGINES)
		return -EINVAL;
	if (!run->count || run->count > FATHOM_DMA_MOST_COUNT)
		return -EINVAL;
	if (!run->bytes || run->bytes > FATHOM_DMA_MOST_BYTES)
		return -EINVAL;
	if (run->bytes * run->count > FATHOM_DMA_MOST_TOTAL)
		return -EINVAL;
	if (run->done || run->clock || run->coherent || run->chunks || run->wrong || run->raw ||
	    run->attribute || run->reserved)
		return -EINVAL;
	return 0;
}

static int on_device(struct transfer *transfer, struct fathom_dma_sample *into)
{
	struct fathom_dma_run *run = transfer->run;
	struct fathom_translate translate = { };
	int error = begin(transfer);

	if (error)
		return error;
	run->clock = transfer->clock;
	run->coherent = dev_is_dma_coherent(transfer->device);
	if (run->engine == FATHOM_ENGINE_EDU)
		run->chunks = DIV_ROUND_UP_ULL(run->bytes, FATHOM_EDU_CHUNK);
	run->attribute = FATHOM_OTHER_ATTRIBUTE;
	if (fathom_arch_kernel(transfer->buffer, &translate)) {
		run->attribute = translate.attribute;
		run->raw = translate.raw;
	}
	error = samples(transfer, into);
	end(transfer);
	return error;
}

long fathom_dma_run(struct fathom_file *file, struct fathom_dma_run *run)
{
	struct transfer transfer = { .run = run };
	struct fathom_dma_sample *into;
	long error = check(run);

	if (error)
		return error;
	into = kvcalloc(run->count, sizeof(*into), GFP_KERNEL_ACCOUNT);
	if (!into)
		return -ENOMEM;
	transfer.clock = clock_of(file);
	transfer.direction = to_device(&transfer) ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	transfer.device = device_get(run->engine);
	if (IS_ERR_OR_NULL(transfer.device)) {
		error = transfer.device ? PTR_ERR(transfer.device) : -ENODEV;
	} else {
		error = on_device(&transfer, into);
		device_put(run->engine);
	}
	if (!error && copy_to_user(u64_to_user_ptr(run->samples), into,
				   array_size(run->done, sizeof(*into))))
		error = -EFAULT;
	kvfree(into);
	return error;
}

static void *allocate(struct device *device, const struct fathom_dma_alloc *alloc,
		      dma_addr_t *address)
{
	switch (alloc->kind) {
	case FATHOM_ALLOC_COHERENT:
		return dma_alloc_coherent(device, alloc->bytes, address, GFP_DMA_RUN);
	case FATHOM_ALLOC_WRITE_COMBINE:
		return dma_alloc_wc(device, alloc->bytes, address, GFP_DMA_RUN);
	default:
		return dma_alloc_noncoherent(device, PAGE_ALIGN(alloc->bytes), address,
					     DMA_BIDIRECTIONAL, GFP_DMA_RUN);
	}
}

static void give_back(struct device *device, const struct fathom_dma_alloc *alloc, void *memory,
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
	struct fathom_translate translate = { };
	dma_addr_t address;
	void *memory;
	u64 began;

	began = fathom_arch_now(alloc->clock);
	memory = allocate(device, alloc, &address);
	sample->alloc = fathom_arch_now(alloc->clock) - began;
	if (!memory)
		return -ENOMEM;
	alloc->attribute = FATHOM_OTHER_ATTRIBUTE;
	if (fathom_arch_kernel(memory, &translate)) {
		alloc->attribute = translate.attribute;
		alloc->raw = translate.raw;
	}
	began = fathom_arch_now(alloc->clock);
	give_back(device, alloc, memory, address);
	sample->free = fathom_arch_now(alloc->clock) - began;
	return 0;
}

static int allocate_all(struct device *device, struct fathom_dma_alloc *alloc,
			struct fathom_alloc_sample *into)
{
	u64 bytes = PAGE_ALIGN(alloc->bytes);
	int error = fathom_charge(bytes);
	u32 at;

	if (error)
		return error;
	for (at = 0; at < alloc->count; at++) {
		error = allocate_once(device, alloc, into + at);
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

static int check_alloc(const struct fathom_dma_alloc *alloc)
{
	if (alloc->kind >= FATHOM_ALLOCS || alloc->engine >= FATHOM_ENGINES)
		return -EINVAL;
	if (!alloc->count || alloc->count > FATHOM_DMA_MOST_COUNT)
		return -EINVAL;
	if (!alloc->bytes || alloc->bytes > FATHOM_DMA_MOST_BYTES)
		return -EINVAL;
	if (alloc->bytes * alloc->count > FATHOM_DMA_MOST_TOTAL)
		return -EINVAL;
	if (alloc->done || alloc->raw || alloc->clock || alloc->attribute)
		return -EINVAL;
	return 0;
}

long fathom_dma_alloc(struct fathom_file *file, struct fathom_dma_alloc *alloc)
{
	struct fathom_alloc_sample *into;
	struct device *device;
	long error = check_alloc(alloc);

	if (error)
		return error;
	into = kvcalloc(alloc->count, sizeof(*into), GFP_KERNEL_ACCOUNT);
	if (!into)
		return -ENOMEM;
	alloc->clock = clock_of(file);
	device = device_get(alloc->engine);
	if (IS_ERR_OR_NULL(device)) {
		error = device ? PTR_ERR(device) : -ENODEV;
	} else {
		error = allocate_all(device, alloc, into);
		device_put(alloc->engine);
	}
	if (!error && copy_to_user(u64_to_user_ptr(alloc->samples), into,
				   array_size(alloc->done, sizeof(*into))))
		error = -EFAULT;
	kvfree(into);
	return error;
}
