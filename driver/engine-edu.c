// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU's edu device (docs/specs/edu.rst), for guests: real DMA between memory and its 4
 * KiB buffer. It waits 100 ms of the guest's time before each transfer, so its
 * throughput has no meaning.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>

#include "driver.h"

#define EDU_VENDOR	0x1234
#define EDU_DEVICE	0x11e8
#define EDU_BUFFER	0x40000	/* device address of its buffer */

#define EDU_STATUS	0x24	/* interrupt status */
#define EDU_ACK		0x64
#define EDU_SOURCE	0x80
#define EDU_TARGET	0x88
#define EDU_COUNT	0x90
#define EDU_COMMAND	0x98
#define EDU_START	BIT(0)
#define EDU_TO_RAM	BIT(1)
#define EDU_INTERRUPT	BIT(2)
#define EDU_DONE	0x100	/* interrupt at the end of a transfer */

static unsigned int edu_dma_bits = 28;
module_param(edu_dma_bits, uint, 0444);
MODULE_PARM_DESC(edu_dma_bits, "address bits of QEMU's edu device (28, or by its property dma_mask)");

/* Held from get to put, so that the device is not removed in between. */
static DEFINE_MUTEX(edu_lock);
static struct pci_dev *edu;
static void __iomem *registers;
static bool edu_stuck;
static bool edu_leaving;	/* its removal waits for the lock */
static u32 edu_state_flags;	/* FATHOM_ENGINE_..., read without the lock */
static DECLARE_COMPLETION(edu_done);

static irqreturn_t edu_interrupt(int irq, void *data)
{
	u32 status = readl(registers + EDU_STATUS);

	/* All bits: the device is not there any more. */
	if (!status || status == ~0U)
		return IRQ_NONE;
	writel(status, registers + EDU_ACK);
	if (status & EDU_DONE)
		complete(&edu_done);
	return IRQ_HANDLED;
}

static struct device *edu_get(void)
{
	if (mutex_lock_killable(&edu_lock))
		return ERR_PTR(-EINTR);
	if (edu && !edu_stuck)
		return &edu->dev;
	mutex_unlock(&edu_lock);
	return NULL;
}

static void edu_put(void)
{
	mutex_unlock(&edu_lock);
}

static u32 edu_state(void)
{
	return READ_ONCE(edu_state_flags);
}

static void edu_limits(struct fathom_engine *engine)
{
	engine->chunk_bytes = FATHOM_EDU_CHUNK;
	engine->align_bytes = 1;
}

/* Transfers between memory and the device's buffer. */
static int edu_move_ram(dma_addr_t ram, u32 bytes, bool to_ram)
{
	if (!bytes || bytes > FATHOM_EDU_CHUNK)
		return -EINVAL;
	/* Ends the run, which may be of hours. */
	if (READ_ONCE(edu_leaving))
		return -ENODEV;
	reinit_completion(&edu_done);
	/* 32-bit writes suffice: its DMA mask allows no higher address. */
	writel(to_ram ? EDU_BUFFER : ram, registers + EDU_SOURCE);
	writel(to_ram ? ram : EDU_BUFFER, registers + EDU_TARGET);
	writel(bytes, registers + EDU_COUNT);
	writel(EDU_START | EDU_INTERRUPT | (to_ram ? EDU_TO_RAM : 0), registers + EDU_COMMAND);
	/* Not interruptible: the device owns the memory until the transfer ends. */
	if (wait_for_completion_timeout(&edu_done, 10 * HZ))
		return 0;
	/* It must not write to memory that has been freed. */
	pci_clear_master(edu);
	edu_stuck = true;
	WRITE_ONCE(edu_state_flags, 0);
	dev_err(&edu->dev, "no interrupt after a transfer; not used any more\n");
	return -EIO;
}

static int edu_move(dma_addr_t buffer, dma_addr_t far, u32 bytes, bool to_ram)
{
	return edu_move_ram(buffer, bytes, to_ram);
}

const struct fathom_mover fathom_edu = {
	.get = edu_get,
	.put = edu_put,
	.move = edu_move,
	.prove = edu_move_ram,
	.limits = edu_limits,
	.state = edu_state,
};

static int edu_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	int error;

	if (edu)
		return -EBUSY;
	error = pcim_enable_device(pci);
	if (error)
		return error;
	error = pcim_iomap_regions(pci, BIT(0), "fathom");
	if (error)
		return error;
	error = dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(clamp(edu_dma_bits, 24U, 32U)));
	if (error)
		return error;
	registers = pcim_iomap_table(pci)[0];
	pci_set_master(pci);
	error = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_ALL_TYPES);
	if (error < 0)
		return error;
	error = request_irq(pci_irq_vector(pci, 0), edu_interrupt, IRQF_SHARED, "fathom", pci);
	if (error) {
		pci_free_irq_vectors(pci);
		return error;
	}
	mutex_lock(&edu_lock);
	edu_stuck = false;
	edu = pci;
	WRITE_ONCE(edu_state_flags, FATHOM_ENGINE_PRESENT |
			      (dev_is_dma_coherent(&pci->dev) ? FATHOM_ENGINE_COHERENT : 0));
	mutex_unlock(&edu_lock);
	return 0;
}

static void edu_remove(struct pci_dev *pci)
{
	/* At most the transfer in progress is waited for. */
	WRITE_ONCE(edu_leaving, true);
	mutex_lock(&edu_lock);
	WRITE_ONCE(edu_leaving, false);
	edu = NULL;
	WRITE_ONCE(edu_state_flags, 0);
	mutex_unlock(&edu_lock);
	pci_clear_master(pci);
	free_irq(pci_irq_vector(pci, 0), pci);
	pci_free_irq_vectors(pci);
}

static const struct pci_device_id edu_ids[] = {
	{ PCI_DEVICE(EDU_VENDOR, EDU_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, edu_ids);

static struct pci_driver edu_driver = {
	.name = "fathom",
	.id_table = edu_ids,
	.probe = edu_probe,
	.remove = edu_remove,
};

int fathom_edu_init(void)
{
	return pci_register_driver(&edu_driver);
}

void fathom_edu_exit(void)
{
	pci_unregister_driver(&edu_driver);
}
