// SPDX-License-Identifier: GPL-2.0
/*
 * A memcpy channel of the kernel's dmaengine, as many SoCs have. It copies between the
 * buffer and a far buffer of the driver, so every byte can be verified. The channel is
 * requested when a run begins and released when it ends.
 */
#include <linux/completion.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "driver.h"

static bool dmaengine = true;
module_param(dmaengine, bool, 0444);
MODULE_PARM_DESC(dmaengine, "memcpy channels of the kernel's dmaengine may be used");

static unsigned int dmaengine_align = 1;
module_param(dmaengine_align, uint, 0444);
MODULE_PARM_DESC(dmaengine_align,
		 "bytes must be a multiple of this power of two, in addition to the channel driver's alignment (QEMU's Raspberry Pi: 4)");

static unsigned int dmaengine_ms = 5000;
module_param(dmaengine_ms, uint, 0444);
MODULE_PARM_DESC(dmaengine_ms, "a transfer that takes longer has failed (ms, 10 to 60000)");

/* The end of a transfer, as reported by its callback. */
struct moved {
	struct completion done;
	enum dmaengine_tx_result result;
};

/* Held from get to put: one caller has one channel. */
static DEFINE_MUTEX(channel_lock);
static struct dma_chan *channel;
static struct moved moved;
static bool stuck;	/* a channel that cannot be stopped is never released */
static u32 state_flags;	/* FATHOM_ENGINE_..., read without the lock */

/* With the lock held. NULL: no channel is available. */
static struct device *request_channel(void)
{
	struct device *device;
	dma_cap_mask_t mask;

	WRITE_ONCE(state_flags, 0);
	if (stuck || !dmaengine)
		return NULL;
	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	channel = dma_request_chan_by_mask(&mask);
	if (IS_ERR(channel))
		return NULL;
	device = dmaengine_get_dma_device(channel);
	WRITE_ONCE(state_flags, FATHOM_ENGINE_PRESENT |
			 (dev_is_dma_coherent(device) ? FATHOM_ENGINE_COHERENT : 0));
	return device;
}

static struct device *channel_get(void)
{
	struct device *device;

	if (mutex_lock_killable(&channel_lock))
		return ERR_PTR(-EINTR);
	device = request_channel();
	if (!device)
		mutex_unlock(&channel_lock);
	return device;
}

static void channel_put(void)
{
	if (!stuck)
		dma_release_channel(channel);
	mutex_unlock(&channel_lock);
}

/* The last known state; if there was no channel, requests one again. */
static u32 channel_state(void)
{
	if (!READ_ONCE(state_flags) && mutex_trylock(&channel_lock)) {
		if (request_channel())
			dma_release_channel(channel);
		mutex_unlock(&channel_lock);
	}
	return READ_ONCE(state_flags);
}

static void channel_limits(struct fathom_engine *engine)
{
	/*
	 * The API has no limit for a memcpy. Controllers also respect the limit of a
	 * scatter list's segment, 64 KiB if a driver sets none.
	 */
	unsigned int max_bytes = dma_get_max_seg_size(dmaengine_get_dma_device(channel));
	unsigned int align = is_power_of_2(dmaengine_align) ? dmaengine_align : 1;

	engine->chunk_bytes = rounddown_pow_of_two(clamp_t(u32, max_bytes, 4096, FATHOM_DMA_MAX_BYTES));
	engine->align_bytes = max(1U << channel->device->copy_align, align);
	strscpy(engine->device, dma_chan_name(channel), sizeof(engine->device));
}

static void transfer_ended(void *data, const struct dmaengine_result *result)
{
	struct moved *moved_data = data;

	/* Drivers that cannot report errors give no result. */
	moved_data->result = result ? result->result : DMA_TRANS_NOERROR;
	complete(&moved_data->done);
}

/*
 * Stops the channel, so that nothing writes any more. If that fails, channel, memory
 * and module stay: memory passed to the channel must not be freed.
 */
static int stop(void)
{
	if (!dmaengine_terminate_sync(channel)) {
		pr_err("fathom: %s was not done in time, and was stopped\n",
		       dma_chan_name(channel));
		return -EIO;
	}
	pr_err("fathom: %s was not done in time and cannot be stopped: it is not used any more\n",
	       dma_chan_name(channel));
	__module_get(THIS_MODULE);
	stuck = true;
	WRITE_ONCE(state_flags, 0);
	return -ENOTRECOVERABLE;
}

static int channel_move(dma_addr_t buffer, dma_addr_t far, u32 bytes, bool to_ram)
{
	unsigned long limit = msecs_to_jiffies(clamp(dmaengine_ms, 10U, 60000U));
	struct dma_async_tx_descriptor *transfer;
	dma_cookie_t cookie;

	transfer = dmaengine_prep_dma_memcpy(channel, to_ram ? buffer : far, to_ram ? far : buffer,
					     bytes, DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!transfer)
		return -EIO;
	init_completion(&moved.done);
	transfer->callback_result = transfer_ended;
	transfer->callback_param = &moved;
	cookie = dmaengine_submit(transfer);
	if (dma_submit_error(cookie))
		return -EIO;
	dma_async_issue_pending(channel);
	/* Not interruptible: the channel owns the memory until the transfer ends. */
	if (!wait_for_completion_timeout(&moved.done, limit))
		return stop();
	return moved.result == DMA_TRANS_NOERROR ? 0 : -EIO;
}

const struct fathom_mover fathom_channel = {
	.get = channel_get,
	.put = channel_put,
	.move = channel_move,
	.limits = channel_limits,
	.state = channel_state,
};
