// SPDX-License-Identifier: GPL-2.0
/*
 * For the guests only: a dmaengine channel that copies with memcpy in a work item. It
 * can be made to fail in every way in which a controller may fail.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/err.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

/* The fault of each transfer. */
enum {
	MODE_WELL,
	MODE_STALLS,		/* until it is terminated */
	MODE_CANNOT_BE_STOPPED,	/* stalls, and termination fails */
	MODE_FAILS,		/* and reports it */
	MODE_SPOILS,		/* corrupts the last byte, without reporting it */
	MODE_REFUSES,		/* refuses to prepare it */
};

static unsigned int mode;
module_param(mode, uint, 0644);
MODULE_PARM_DESC(mode, "what goes wrong (see the source)");

/* Defects that the checkers of a debugging kernel have to report; each once. */
enum {
	PLANT_LOCKS,		/* two locks in both orders: lockdep */
	PLANT_SLEEP,		/* sleeps with a spinlock held */
	PLANT_USE_AFTER_FREE,	/* KASAN */
	PLANT_LEAK,		/* kmemleak */
};

#define PLANTED_BYTES	100

static DEFINE_MUTEX(outer);
static DEFINE_MUTEX(inner);
static DEFINE_SPINLOCK(planted_lock);
static void *planted;

static void plant_locks(void)
{
	mutex_lock(&outer);
	mutex_lock(&inner);
	mutex_unlock(&inner);
	mutex_unlock(&outer);
	mutex_lock(&inner);
	mutex_lock(&outer);
	mutex_unlock(&outer);
	mutex_unlock(&inner);
}

static int plant(const char *value, const struct kernel_param *param)
{
	unsigned int what;
	int error = kstrtouint(value, 10, &what);

	if (error)
		return error;
	switch (what) {
	case PLANT_LOCKS:
		plant_locks();
		return 0;
	case PLANT_SLEEP:
		spin_lock(&planted_lock);
		might_sleep();
		spin_unlock(&planted_lock);
		return 0;
	case PLANT_USE_AFTER_FREE:
		WRITE_ONCE(planted, kzalloc(PLANTED_BYTES, GFP_KERNEL));
		if (!planted)
			return -ENOMEM;
		kfree(planted);
		READ_ONCE(*(u8 *)READ_ONCE(planted));
		return 0;
	case PLANT_LEAK:
		WRITE_ONCE(planted, kzalloc(PLANTED_BYTES, GFP_KERNEL));
		WRITE_ONCE(planted, NULL);
		return 0;
	default:
		return -EINVAL;
	}
}

static const struct kernel_param_ops plant_ops = { .set = plant };
module_param_cb(plant, &plant_ops, NULL, 0200);
MODULE_PARM_DESC(plant, "a defect that a debugging kernel has to report (see the source)");

struct soft_transfer {
	struct dma_async_tx_descriptor tx;
	dma_addr_t to, from;
	size_t bytes;
};

static struct dma_device engine;
static struct dma_chan channel;
static struct platform_device *platform;
static DEFINE_SPINLOCK(lock);
static struct soft_transfer *submitted;	/* at most one */
static bool issued;

static void carry_out(struct work_struct *unused);
static DECLARE_WORK(work, carry_out);

/* Memory of a 32-bit kernel may have no permanent address, so each part within two pages is mapped. */
static void *map(dma_addr_t address)
{
	phys_addr_t pa = dma_to_phys(engine.dev, address);

	return kmap_local_pfn(PHYS_PFN(pa)) + offset_in_page(pa);
}

static void copy(dma_addr_t to, dma_addr_t from, size_t bytes)
{
	void *source, *target;
	size_t part;

	for (; bytes; bytes -= part, to += part, from += part) {
		part = min3(bytes, (size_t)(PAGE_SIZE - offset_in_page(to)),
			    (size_t)(PAGE_SIZE - offset_in_page(from)));
		source = map(from);
		target = map(to);
		memcpy(target, source, part);
		kunmap_local(target);
		kunmap_local(source);
	}
}

static void spoil(dma_addr_t address)
{
	u8 *byte = map(address);

	*byte ^= 0xff;
	kunmap_local(byte);
}

static void carry_out(struct work_struct *unused)
{
	struct dmaengine_result result = { .result = DMA_TRANS_NOERROR };
	struct soft_transfer *transfer = NULL;

	spin_lock_bh(&lock);
	if (issued && mode != MODE_STALLS && mode != MODE_CANNOT_BE_STOPPED) {
		transfer = submitted;
		submitted = NULL;
		issued = false;
	}
	spin_unlock_bh(&lock);
	if (!transfer)
		return;
	if (mode == MODE_FAILS)
		result.result = DMA_TRANS_WRITE_FAILED;
	else
		copy(transfer->to, transfer->from, transfer->bytes);
	if (mode == MODE_SPOILS)
		spoil(transfer->to + transfer->bytes - 1);
	channel.completed_cookie = transfer->tx.cookie;
	transfer->tx.callback_result(transfer->tx.callback_param, &result);
	kfree(transfer);
}

static dma_cookie_t soft_submit(struct dma_async_tx_descriptor *tx)
{
	dma_cookie_t cookie = -EBUSY;

	spin_lock_bh(&lock);
	if (!submitted) {
		cookie = max(channel.cookie + 1, DMA_MIN_COOKIE);
		tx->cookie = cookie;
		channel.cookie = cookie;
		submitted = container_of(tx, struct soft_transfer, tx);
	}
	spin_unlock_bh(&lock);
	return cookie;
}

static struct dma_async_tx_descriptor *soft_prepare(struct dma_chan *chan, dma_addr_t to,
						    dma_addr_t from, size_t bytes,
						    unsigned long flags)
{
	struct soft_transfer *transfer;

	if (mode == MODE_REFUSES)
		return NULL;
	transfer = kzalloc(sizeof(*transfer), GFP_NOWAIT);
	if (!transfer)
		return NULL;
	dma_async_tx_descriptor_init(&transfer->tx, chan);
	transfer->tx.tx_submit = soft_submit;
	transfer->to = to;
	transfer->from = from;
	transfer->bytes = bytes;
	return &transfer->tx;
}

static void soft_issue(struct dma_chan *chan)
{
	spin_lock_bh(&lock);
	issued = submitted;
	spin_unlock_bh(&lock);
	schedule_work(&work);
}

static enum dma_status soft_status(struct dma_chan *chan, dma_cookie_t cookie,
				   struct dma_tx_state *state)
{
	return dma_async_is_complete(cookie, chan->completed_cookie, chan->cookie);
}

static int soft_terminate(struct dma_chan *chan)
{
	struct soft_transfer *transfer;

	if (mode == MODE_CANNOT_BE_STOPPED)
		return -EIO;
	spin_lock_bh(&lock);
	transfer = submitted;
	submitted = NULL;
	issued = false;
	spin_unlock_bh(&lock);
	kfree(transfer);
	return 0;
}

static void soft_synchronize(struct dma_chan *chan)
{
	flush_work(&work);
}

static int soft_probe(struct platform_device *device)
{
	int error = dma_set_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));

	if (error)
		return error;
	engine.dev = &device->dev;
	dma_cap_set(DMA_MEMCPY, engine.cap_mask);
	INIT_LIST_HEAD(&engine.channels);
	channel.device = &engine;
	list_add_tail(&channel.device_node, &engine.channels);
	engine.device_prep_dma_memcpy = soft_prepare;
	engine.device_issue_pending = soft_issue;
	engine.device_tx_status = soft_status;
	engine.device_terminate_all = soft_terminate;
	engine.device_synchronize = soft_synchronize;
	return dma_async_device_register(&engine);
}

static struct platform_driver soft_driver = {
	.driver = { .name = "fathom-test-channel" },
};

static int __init soft_init(void)
{
	platform = platform_create_bundle(&soft_driver, soft_probe, NULL, 0, NULL, 0);
	return PTR_ERR_OR_ZERO(platform);
}

static void __exit soft_exit(void)
{
	dma_async_device_unregister(&engine);
	platform_device_unregister(platform);
	platform_driver_unregister(&soft_driver);
	flush_work(&work);
	kfree(submitted);
}

module_init(soft_init);
module_exit(soft_exit);
MODULE_DESCRIPTION("A dmaengine channel that copies with the CPU, for tests");
MODULE_AUTHOR("The Fathom authors");
MODULE_LICENSE("GPL");
