// SPDX-License-Identifier: GPL-2.0
/*
 * Times of passing data to a device and back, by five strategies.
 *
 * Every transfer through an engine is verified: data sent to the device are read back
 * through the memory of another buffer, and data received were put there in the same
 * way. That is not timed.
 */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/kmemleak.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "driver.h"

/* The state of one call. It is not shared, so only the engine needs a lock. */
struct transfer {
	struct device *device;
	const struct fathom_mover *mover;
	struct fathom_dma_run *run;
	u32 chunk;		/* maximum bytes per engine transfer */
	u32 clock;
	enum dma_data_direction direction;
	void *packet;		/* memory that the CPU writes or reads */
	void *buffer;		/* memory that the device accesses; may be the packet */
	dma_addr_t address;	/* DMA address of buffer, while it is mapped */
	struct fathom_memory own;	/* the buffer, if the DMA API has no such memory */
	void *far;		/* one chunk, for verification, or the far end; coherent */
	dma_addr_t far_address;
	bool lost;		/* the engine may still write to this memory: never free it */
	u64 sum;		/* keeps the compiler from removing the reads */
};

/*
 * What is mapped: whole lines, of which a device owns all bytes anyway. Since Linux 6.5 a
 * mapping of fewer bytes from kmalloc is copied to a bounce buffer.
 */
static u64 span_of(const struct transfer *transfer)
{
	return ALIGN(transfer->run->bytes, (u64)dma_get_cache_alignment());
}

static bool to_device(const struct transfer *transfer)
{
	return transfer->run->direction == FATHOM_TO_DEVICE;
}

#define DATA_STEP	0x9e3779b97f4a7c15ULL

/* The seed of a sample, so that the data of samples are unrelated. */
static u64 seed_of(u64 seed, u64 sample)
{
	u64 x = seed + (sample + 1) * DATA_STEP;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

/* A word of a sample's data, different for each position. */
static u64 word(u64 seed, u64 at)
{
	return seed + at * DATA_STEP;
}

static void write_data(void *to, u64 seed, u64 from, u64 bytes)
{
	u64 *words = to;
	u64 at, next = word(seed, from / 8);

	/* One addition per store, so that the time is that of writing the packet. */
	for (at = 0; at < bytes / 8; at++, next += DATA_STEP)
		words[at] = next;
	if (bytes % 8)
		memcpy(words + at, &next, bytes % 8);
}

static u64 read_data(const void *from, u64 bytes)
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

static u64 charged(const struct transfer *transfer)
{
	return 2 * transfer->run->bytes + (transfer->run->engine == FATHOM_ENGINE_NONE ? 0 :
					   transfer->chunk);
}

/* Uncached memory for a coherent device. */
static int get_own(struct transfer *transfer)
{
	struct fathom_memory *own = &transfer->own;
	u32 count = DIV_ROUND_UP_ULL(transfer->run->bytes, PAGE_SIZE);
	int error = fathom_memory_get(own, FATHOM_NORMAL_NC, count, true);

	if (error)
		return error;
	error = fathom_memory_map(own, transfer->device);
	if (error) {
		fathom_memory_put(own);
		return error;
	}
	transfer->buffer = own->kernel;
	transfer->address = own->address;
	if (own->from == FATHOM_MEMORY_RESERVED)
		transfer->run->flags |= FATHOM_RUN_RESERVED;
	return 0;
}

static int get_uncached(struct transfer *transfer)
{
	u64 raw;
	u32 attribute;

	if (dev_is_dma_coherent(transfer->device)) {
		int error = get_own(transfer);

		if (error)
			return error;
	} else {
		transfer->buffer = dma_alloc_wc(transfer->device, transfer->run->bytes,
						&transfer->address, GFP_QUIET);
	}
	/* Check that the attribute is in force. */
	if (transfer->buffer) {
		fathom_dma_attribute(transfer->buffer, &attribute, &raw);
		if (attribute == FATHOM_WRITE_BACK)
			return -EOPNOTSUPP;
	}
	return 0;
}

static void put_buffer(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	switch (transfer->run->strategy) {
	case FATHOM_UNCACHED_COPY:
		if (transfer->own.from != FATHOM_MEMORY_NONE) {
			fathom_memory_unmap(&transfer->own, transfer->device);
			fathom_memory_put(&transfer->own);
		} else if (transfer->buffer) {
			dma_free_wc(transfer->device, bytes, transfer->buffer, transfer->address);
		}
		break;
	case FATHOM_COHERENT:
		if (transfer->buffer)
			dma_free_coherent(transfer->device, bytes, transfer->buffer,
					  transfer->address);
		break;
	case FATHOM_PERSISTENT_COPY:
		if (transfer->address != DMA_MAPPING_ERROR)
			dma_unmap_single(transfer->device, transfer->address, span_of(transfer),
					 transfer->direction);
		fallthrough;
	case FATHOM_STREAMING_COPY:
		kfree(transfer->buffer);
		break;
	}
}

/* Tells kmemleak that memory to which nothing refers any more is no leak. */
static void keep(const struct transfer *transfer)
{
	u32 strategy = transfer->run->strategy;

	if (strategy != FATHOM_COHERENT)
		kmemleak_not_leak(transfer->packet);
	if (strategy == FATHOM_STREAMING_COPY || strategy == FATHOM_PERSISTENT_COPY)
		kmemleak_not_leak(transfer->buffer);
}

static void end(struct transfer *transfer)
{
	/* The device may still write to the memory: it stays, and stays charged. */
	if (transfer->lost) {
		keep(transfer);
		return;
	}
	if (transfer->far)
		dma_free_coherent(transfer->device, transfer->chunk, transfer->far,
				  transfer->far_address);
	put_buffer(transfer);
	if (transfer->run->strategy != FATHOM_COHERENT)
		kfree(transfer->packet);
	fathom_uncharge(charged(transfer));
}

static int get_buffer(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	transfer->address = DMA_MAPPING_ERROR;
	switch (transfer->run->strategy) {
	case FATHOM_UNCACHED_COPY:
		return get_uncached(transfer);
	case FATHOM_COHERENT:
		transfer->buffer = dma_alloc_coherent(transfer->device, bytes, &transfer->address,
						      GFP_QUIET);
		transfer->packet = transfer->buffer;
		break;
	case FATHOM_ZERO_COPY:
		transfer->buffer = transfer->packet;
		break;
	case FATHOM_STREAMING_COPY:
		transfer->buffer = kzalloc(span_of(transfer), GFP_QUIET);
		break;
	case FATHOM_PERSISTENT_COPY:
		transfer->buffer = kzalloc(span_of(transfer), GFP_QUIET);
		if (!transfer->buffer)
			return -ENOMEM;
		transfer->address = dma_map_single(transfer->device, transfer->buffer,
						   span_of(transfer), transfer->direction);
		if (dma_mapping_error(transfer->device, transfer->address)) {
			transfer->address = DMA_MAPPING_ERROR;
			return -ENOMEM;
		}
		break;
	}
	return 0;
}

static int begin(struct transfer *transfer)
{
	int error = fathom_charge(charged(transfer));

	if (error)
		return error;
	if (transfer->run->strategy != FATHOM_COHERENT)
		transfer->packet = kzalloc(span_of(transfer), GFP_QUIET);
	error = get_buffer(transfer);
	if (transfer->run->engine != FATHOM_ENGINE_NONE)
		transfer->far = dma_alloc_coherent(transfer->device, transfer->chunk,
						   &transfer->far_address, GFP_QUIET);
	if (!error && (!transfer->packet || !transfer->buffer ||
		       (!transfer->far && transfer->run->engine != FATHOM_ENGINE_NONE)))
		error = -ENOMEM;
	if (error)
		end(transfer);
	return error;
}

static bool mapped_each_time(const struct transfer *transfer)
{
	return transfer->run->strategy == FATHOM_STREAMING_COPY ||
	       transfer->run->strategy == FATHOM_ZERO_COPY;
}

static int map(struct transfer *transfer)
{
	if (mapped_each_time(transfer)) {
		transfer->address = dma_map_single(transfer->device, transfer->buffer,
						   span_of(transfer), transfer->direction);
		if (dma_mapping_error(transfer->device, transfer->address))
			return -ENOMEM;
	} else if (transfer->run->strategy == FATHOM_PERSISTENT_COPY) {
		dma_sync_single_for_device(transfer->device, transfer->address, span_of(transfer),
					   transfer->direction);
	} else {
		/* The stores must complete before the device is started. */
		wmb();
	}
	return 0;
}

static void unmap(struct transfer *transfer)
{
	if (mapped_each_time(transfer))
		dma_unmap_single(transfer->device, transfer->address, span_of(transfer),
				 transfer->direction);
	else if (transfer->run->strategy == FATHOM_PERSISTENT_COPY)
		dma_sync_single_for_cpu(transfer->device, transfer->address, span_of(transfer),
					transfer->direction);
	else
		dma_rmb();
}

/* Each chunk is verified before the far memory is written again. */
static int move_chunk(struct transfer *transfer, struct fathom_dma_sample *sample,
		      u64 seed, u64 from, u32 bytes)
{
	const struct fathom_mover *mover = transfer->mover;
	bool to_ram = !to_device(transfer);
	u64 began;
	int error = 0;

	if (to_ram)
		write_data(transfer->far, seed, from, bytes);
	else
		memset(transfer->far, 0, bytes);
	/* Before the engine is started. */
	wmb();
	if (to_ram && mover->prove)
		error = mover->prove(transfer->far_address, bytes, false);
	if (error)
		return error;
	began = fathom_arch_now(transfer->clock);
	error = mover->move(transfer->address + from, transfer->far_address, bytes, to_ram);
	sample->engine += fathom_since(transfer->clock, began);
	if (error || to_ram)
		return error;
	if (mover->prove)
		error = mover->prove(transfer->far_address, bytes, true);
	dma_rmb();
	if (!error)
		sample->wrong += wrong(transfer->far, seed, from, bytes);
	return error;
}

static int move(struct transfer *transfer, struct fathom_dma_sample *sample, u64 seed)
{
	u64 from, bytes = transfer->run->bytes;
	int error;

	if (transfer->run->engine == FATHOM_ENGINE_NONE) {
		/* To the device: check the buffer itself. From it: nothing arrives. */
		if (to_device(transfer))
			sample->wrong = wrong(transfer->buffer, seed, 0, bytes);
		else
			sample->flags |= FATHOM_SAMPLE_UNVERIFIED;
		return 0;
	}
	for (from = 0; from < bytes; from += transfer->chunk) {
		error = move_chunk(transfer, sample, seed, from,
				   min_t(u64, bytes - from, transfer->chunk));
		if (error)
			return error;
		/* edu takes minutes for a transfer of 1 MiB. */
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
		write_data(transfer->packet, seed, 0, bytes);
	else
		transfer->sum += read_data(transfer->packet, bytes);
	sample->use = fathom_since(transfer->clock, began);
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
	sample->copy = fathom_since(transfer->clock, began);
}

/* Overwrites earlier data, so that they are not taken for received data. */
static void overwrite(struct transfer *transfer)
{
	u64 bytes = transfer->run->bytes;

	if (transfer->run->strategy == FATHOM_PERSISTENT_COPY)
		dma_sync_single_for_cpu(transfer->device, transfer->address, span_of(transfer),
					transfer->direction);
	memset(transfer->buffer, 0x5a, bytes);
	if (transfer->packet != transfer->buffer)
		memset(transfer->packet, 0x5a, bytes);
}

static int sample_once(struct transfer *transfer, struct fathom_dma_sample *sample, u64 seed)
{
	int cpu = raw_smp_processor_id();
	u64 began;
	int error;

	overwrite(transfer);
	if (to_device(transfer)) {
		use(transfer, sample, seed);
		copy(transfer, sample);
	}
	began = fathom_arch_now(transfer->clock);
	error = map(transfer);
	sample->map = fathom_since(transfer->clock, began);
	if (error)
		return error;
	error = move(transfer, sample, seed);
	if (error == -ENOTRECOVERABLE) {
		transfer->lost = true;
		return -EIO;
	}
	began = fathom_arch_now(transfer->clock);
	unmap(transfer);
	sample->unmap = fathom_since(transfer->clock, began);
	if (error)
		return error;
	if (!to_device(transfer)) {
		copy(transfer, sample);
		use(transfer, sample, seed);
		if (!(sample->flags & FATHOM_SAMPLE_UNVERIFIED))
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
		error = sample_once(transfer, into + at, seed_of(run->seed, at));
		/* Completed samples are returned; @done is their number. */
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
	if (run->strategy >= FATHOM_STRATEGIES || run->direction > FATHOM_FROM_DEVICE)
		return -EINVAL;
	if (run->done || run->clock || run->coherent || run->chunks || run->wrong || run->raw ||
	    run->attribute || run->flags)
		return -EINVAL;
	return 0;
}

static long on_device(struct fathom_dma_job *job)
{
	struct fathom_dma_run *run = job->what;
	struct fathom_engine limits = { };
	struct transfer transfer = {
		.device = job->device,
		.mover = job->mover,
		.run = run,
		.clock = run->clock,
		.direction = run->direction == FATHOM_TO_DEVICE ? DMA_TO_DEVICE : DMA_FROM_DEVICE,
	};
	int error;

	job->mover->limits(&limits);
	if (run->bytes & (limits.align_bytes - 1))
		return -EOPNOTSUPP;
	transfer.chunk = min_t(u64, limits.chunk_bytes, run->bytes);
	error = begin(&transfer);
	if (error)
		return error;
	run->coherent = dev_is_dma_coherent(job->device);
	if (transfer.chunk)
		run->chunks = DIV_ROUND_UP_ULL(run->bytes, transfer.chunk);
	fathom_dma_attribute(transfer.buffer, &run->attribute, &run->raw);
	error = samples(&transfer, job->rows);
	end(&transfer);
	return error;
}

long fathom_dma_run(struct fathom_file *file, struct fathom_dma_run *run)
{
	struct fathom_dma_job job = {
		.engine = run->engine,
		.count = run->count,
		.bytes = run->bytes,
		.user = run->samples,
		.row = sizeof(struct fathom_dma_sample),
		.done = &run->done,
		.clock = &run->clock,
		.what = run,
	};
	long error = check(run);

	return error ? error : fathom_dma_job(file, &job, on_device);
}
