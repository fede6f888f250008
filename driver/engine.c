// SPDX-License-Identifier: GPL-2.0
/* Engines, and the common part of all samples for a device. */
#include <linux/device.h>
#include <linux/dma-map-ops.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "driver.h"

/* FATHOM_ENGINE_NONE: the driver's own device, without an engine. */
static struct device *none_get(void)
{
	return fathom_device;
}

static void none_put(void) { }

static void none_limits(struct fathom_engine *engine)
{
	engine->chunk_bytes = 0;
	engine->align_bytes = 1;
}

static u32 none_state(void)
{
	return FATHOM_ENGINE_PRESENT |
	       (dev_is_dma_coherent(fathom_device) ? FATHOM_ENGINE_COHERENT : 0);
}

static const struct fathom_mover none = {
	.get = none_get,
	.put = none_put,
	.limits = none_limits,
	.state = none_state,
};

/* NULL: not supported by this kernel. */
static const struct fathom_mover *const movers[FATHOM_ENGINES] = {
	[FATHOM_ENGINE_NONE] = &none,
#if IS_ENABLED(CONFIG_PCI)
	[FATHOM_ENGINE_EDU] = &fathom_edu,
#endif
#if IS_ENABLED(CONFIG_DMA_ENGINE)
	[FATHOM_ENGINE_DMAENGINE] = &fathom_channel,
#endif
};

u32 fathom_engines(u32 *coherent)
{
	u32 at, state, all = 0;

	*coherent = 0;
	for (at = 0; at < FATHOM_ENGINES; at++) {
		state = movers[at] ? movers[at]->state() : 0;
		if (state & FATHOM_ENGINE_PRESENT)
			all |= 1U << at;
		if (state & FATHOM_ENGINE_COHERENT)
			*coherent |= 1U << at;
	}
	return all;
}

static struct device *get(const struct fathom_mover *mover)
{
	struct device *device = mover ? mover->get() : NULL;

	return device ? device : ERR_PTR(-ENODEV);
}

long fathom_engine(struct fathom_engine *engine)
{
	const struct fathom_mover *mover;
	struct device *device;

	if (engine->engine >= FATHOM_ENGINES ||
	    memchr_inv(&engine->coherent, 0,
		       sizeof(*engine) - offsetof(struct fathom_engine, coherent)))
		return -EINVAL;
	mover = movers[array_index_nospec(engine->engine, FATHOM_ENGINES)];
	device = get(mover);
	if (IS_ERR(device))
		return PTR_ERR(device);
	engine->coherent = dev_is_dma_coherent(device);
	strscpy(engine->device, dev_name(device), sizeof(engine->device));
	strscpy(engine->driver, dev_driver_string(device), sizeof(engine->driver));
	mover->limits(engine);
	mover->put();
	return 0;
}

/* The cycle counter, if it is granted to this opening and the task is pinned to its CPU. */
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

void fathom_dma_attribute(const void *memory, u32 *attribute, u64 *raw)
{
	struct fathom_translate translate = { };

	*attribute = FATHOM_OTHER_ATTRIBUTE;
	if (fathom_arch_kernel(memory, &translate)) {
		*attribute = translate.attribute;
		*raw = translate.raw;
	}
}

static int check(const struct fathom_dma_job *job)
{
	if (job->engine >= FATHOM_ENGINES)
		return -EINVAL;
	if (!job->count || job->count > FATHOM_DMA_MAX_COUNT)
		return -EINVAL;
	if (!job->bytes || job->bytes > FATHOM_DMA_MAX_BYTES)
		return -EINVAL;
	if (job->bytes * job->count > FATHOM_DMA_MAX_TOTAL)
		return -EINVAL;
	return 0;
}

/* Checks the job, owns the engine while @act fills the rows, and copies them to user
 * space.
 */
long fathom_dma_job(struct fathom_file *file, struct fathom_dma_job *job,
		    long (*act)(struct fathom_dma_job *job))
{
	long error = check(job);

	if (error)
		return error;
	job->rows = kvcalloc(job->count, job->row, GFP_KERNEL_ACCOUNT);
	if (!job->rows)
		return -ENOMEM;
	*job->clock = clock_of(file);
	job->mover = movers[array_index_nospec(job->engine, FATHOM_ENGINES)];
	job->device = get(job->mover);
	if (IS_ERR(job->device)) {
		error = PTR_ERR(job->device);
	} else {
		error = act(job);
		job->mover->put();
	}
	if (!error && copy_to_user(u64_to_user_ptr(job->user), job->rows,
				   array_size(*job->done, job->row)))
		error = -EFAULT;
	kvfree(job->rows);
	return error;
}
