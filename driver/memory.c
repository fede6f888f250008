// SPDX-License-Identifier: GPL-2.0
/*
 * Contiguous memory with an attribute, for regions and for DMA buffers.
 *
 * The kernel's linear mapping of the same memory is write-back, and two attributes of
 * one memory at the same time lose coherence. On x86 the attribute of the linear
 * mapping is changed too (set_memory_*). On ARM the memory comes from a reserved region
 * without a linear mapping (reserved.c). Otherwise it comes from the DMA API, for a
 * non-coherent device: the API cleans the lines of the linear mapping once and does not
 * touch them afterwards, as for the memory of every driver.
 */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#ifdef CONFIG_X86
#include <asm/set_memory.h>
#endif

#include "driver.h"

static size_t bytes_of(const struct fathom_memory *memory)
{
	return (size_t)memory->count << PAGE_SHIFT;
}

#ifdef CONFIG_X86
static int set_attribute(struct fathom_memory *memory)
{
	unsigned long address = (unsigned long)memory->kernel;

	switch (memory->attribute) {
	case FATHOM_NORMAL_NC:
		return set_memory_wc(address, memory->count);
	case FATHOM_DEVICE:
		return set_memory_uc(address, memory->count);
	default:
		return 0;
	}
}

static int restore_attribute(struct fathom_memory *memory)
{
	if (memory->attribute == FATHOM_WRITE_BACK)
		return 0;
	return set_memory_wb((unsigned long)memory->kernel, memory->count);
}
#else
static int set_attribute(struct fathom_memory *memory) { return 0; }
static int restore_attribute(struct fathom_memory *memory) { return 0; }
#endif

static void put_pages(struct fathom_memory *memory)
{
	struct page *page = pfn_to_page(memory->pfn);
	u32 at;

	/* Memory that cannot be made write-back again must not be freed. */
	if (restore_attribute(memory)) {
		pr_err_once("fathom: memory cannot be made write-back again and is lost\n");
		return;
	}
	for (at = 0; at < memory->count; at++)
		__free_page(page + at);
}

/* Blocks are powers of two; excess pages are freed at once. */
static int get_pages(struct fathom_memory *memory)
{
	unsigned int order = get_order(bytes_of(memory));
	struct page *page = alloc_pages(GFP_FATHOM, order);
	int error;
	u32 at;

	if (!page)
		return -ENOMEM;
	split_page(page, order);
	for (at = memory->count; at < 1U << order; at++)
		__free_page(page + at);
	memory->pfn = page_to_pfn(page);
	memory->kernel = page_address(page);
	/* Where a cache indexes virtual addresses, user space would not see the zeros. */
	for (at = 0; at < memory->count; at++)
		flush_dcache_page(page + at);
	error = set_attribute(memory);
	/* Some pages may already have the attribute. */
	if (error)
		put_pages(memory);
	return error;
}

static void put_dma_api(struct fathom_memory *memory)
{
	dma_free_wc(fathom_device, bytes_of(memory), memory->kernel, memory->address);
}

static int get_dma_api(struct fathom_memory *memory)
{
	struct sg_table table;
	int error;

	memory->kernel = dma_alloc_wc(fathom_device, bytes_of(memory), &memory->address,
				      GFP_KERNEL | __GFP_NOWARN);
	if (!memory->kernel)
		return -ENOMEM;
	error = dma_get_sgtable_attrs(fathom_device, &table, memory->kernel, memory->address,
				      bytes_of(memory), DMA_ATTR_WRITE_COMBINE);
	if (!error) {
		/* One entry means contiguous. With an IOMMU there could be several. */
		if (table.orig_nents == 1)
			memory->pfn = page_to_pfn(sg_page(table.sgl));
		else
			error = -EOPNOTSUPP;
		sg_free_table(&table);
	}
	if (error)
		put_dma_api(memory);
	return error;
}

/*
 * Takes memory from the reserved region first, then from the DMA API; if exclusive,
 * from the reserved region only.
 */
static int get_uncached(struct fathom_memory *memory, bool exclusive)
{
	int error = fathom_reserved_get(memory);

	if (error && !exclusive) {
		memory->from = FATHOM_MEMORY_DMA_API;
		return dev_is_dma_coherent(fathom_device) ? error : get_dma_api(memory);
	}
	memory->from = FATHOM_MEMORY_RESERVED;
	return error;
}

int fathom_memory_get(struct fathom_memory *memory, u32 attribute, u32 count, bool exclusive)
{
	int error;

	memory->attribute = attribute;
	memory->count = count;
	memory->from = FATHOM_MEMORY_PAGES;
	if (attribute == FATHOM_WRITE_BACK || IS_ENABLED(CONFIG_X86))
		error = get_pages(memory);
	else
		error = get_uncached(memory, exclusive);
	if (error)
		memory->from = FATHOM_MEMORY_NONE;
	return error;
}

void fathom_memory_put(struct fathom_memory *memory)
{
	switch (memory->from) {
	case FATHOM_MEMORY_PAGES:
		put_pages(memory);
		break;
	case FATHOM_MEMORY_DMA_API:
		put_dma_api(memory);
		break;
	case FATHOM_MEMORY_RESERVED:
		fathom_reserved_put(memory);
		break;
	case FATHOM_MEMORY_NONE:
		break;
	}
	memory->from = FATHOM_MEMORY_NONE;
}

/*
 * For exclusive memory. It is mapped once for many transfers, so a mapping that needs a
 * sync, such as a bounce buffer, is refused.
 */
int fathom_memory_map(struct fathom_memory *memory, struct device *device)
{
	if (memory->from == FATHOM_MEMORY_RESERVED)
		return fathom_reserved_map(memory, device);
	memory->address = dma_map_page_attrs(device, pfn_to_page(memory->pfn), 0, bytes_of(memory),
					     DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(device, memory->address))
		return -ENOMEM;
	if (!dma_need_sync(device, memory->address))
		return 0;
	fathom_memory_unmap(memory, device);
	return -EOPNOTSUPP;
}

void fathom_memory_unmap(struct fathom_memory *memory, struct device *device)
{
	if (memory->from == FATHOM_MEMORY_PAGES)
		dma_unmap_page_attrs(device, memory->address, bytes_of(memory), DMA_BIDIRECTIONAL,
				     DMA_ATTR_SKIP_CPU_SYNC);
}

/* Bit n: attribute n is available. */
u32 fathom_memory_attributes(void)
{
	u32 all = 1U << FATHOM_WRITE_BACK;

	/*
	 * Write-through: Linux has no entry for it in ARM's MAIR, and exports no
	 * function for it on x86. Coherent DMA memory would be write-back.
	 */
	if (IS_ENABLED(CONFIG_X86) || fathom_reserved_exists() ||
	    !dev_is_dma_coherent(fathom_device))
		all |= 1U << FATHOM_NORMAL_NC | 1U << FATHOM_DEVICE;
	return all;
}
