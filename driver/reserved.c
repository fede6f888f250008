// SPDX-License-Identifier: GPL-2.0
/*
 * A region of memory that the devicetree reserves, on ARM. It has no linear
 * mapping, so its only attribute is the one that the driver maps it with.
 *
 *	reserved-memory {
 *		fathom@58000000 {
 *			compatible = "fathom,memory";
 *			reg = <0x0 0x58000000 0x0 0x800000>;
 *			no-map;
 *		};
 *	};
 *
 * Another node with that compatible may point to the region by "memory-region".
 * The driver never maps it as write-back for use.
 */
#include <linux/bitmap.h>
#include <linux/dma-direct.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "driver.h"

/* Maximum size: 32-bit kernels have few addresses for mappings. */
#define RESERVED_MAX_BYTES	SZ_64M

static phys_addr_t base;
static u32 pages;		/* 0: no region */
static unsigned long *taken;	/* by page, protected by taken_lock */
static DEFINE_SPINLOCK(taken_lock);

bool fathom_reserved_exists(void)
{
	return pages;
}

static void give_back(struct fathom_memory *memory)
{
	spin_lock(&taken_lock);
	bitmap_clear(taken, memory->pfn - PHYS_PFN(base), memory->count);
	spin_unlock(&taken_lock);
}

static void unmap(struct fathom_memory *memory)
{
	if (memory->kernel)
		memunmap(memory->kernel);
	memory->kernel = NULL;
}

int fathom_reserved_get(struct fathom_memory *memory)
{
	size_t bytes = (size_t)memory->count << PAGE_SHIFT;
	unsigned long at;

	if (!pages)
		return -EOPNOTSUPP;
	spin_lock(&taken_lock);
	at = bitmap_find_next_zero_area(taken, pages, 0, memory->count, 0);
	if (at < pages)
		bitmap_set(taken, at, memory->count);
	spin_unlock(&taken_lock);
	if (at >= pages)
		return -ENOMEM;
	memory->pfn = PHYS_PFN(base) + at;
	memory->kernel = memremap(PFN_PHYS(memory->pfn), bytes, MEMREMAP_WC);
	if (!memory->kernel) {
		give_back(memory);
		return -ENOMEM;
	}
	/* Removes earlier data, before any other mapping of the memory. */
	memset(memory->kernel, 0, bytes);
	wmb();	/* zeros before data through another mapping */
	/* A Device mapping must be the only one: two attributes of one address are not ordered. */
	if (memory->attribute == FATHOM_DEVICE)
		unmap(memory);
	return 0;
}

void fathom_reserved_put(struct fathom_memory *memory)
{
	unmap(memory);
	give_back(memory);
}

/*
 * The DMA API maps memory with a struct page, or device registers. This is neither, so
 * the address is computed as the API does for a device's own pool. There is none behind
 * an IOMMU.
 */
int fathom_reserved_map(struct fathom_memory *memory, struct device *device)
{
	size_t bytes = (size_t)memory->count << PAGE_SHIFT;

	if (device_iommu_mapped(device))
		return -EOPNOTSUPP;
	memory->address = phys_to_dma(device, PFN_PHYS(memory->pfn));
	return dma_capable(device, memory->address, bytes, false) ? 0 : -EOPNOTSUPP;
}

/* Dirty lines left by the firmware would be written over the memory later. */
static int clean(size_t bytes)
{
	void *cached = memremap(base, bytes, MEMREMAP_WB);

	if (!cached)
		return -ENOMEM;
	fathom_arch_clean(cached, bytes);
	memunmap(cached);
	return 0;
}

static int use(size_t bytes)
{
	u32 count = bytes >> PAGE_SHIFT;
	int error;

	taken = bitmap_zalloc(count, GFP_KERNEL);
	if (!taken)
		return -ENOMEM;
	if (!request_mem_region(base, bytes, "fathom")) {
		error = -EBUSY;
		goto no_region;
	}
	error = clean(bytes);
	if (error)
		goto no_memory;
	pages = count;
	return 0;

no_memory:
	release_mem_region(base, bytes);
no_region:
	bitmap_free(taken);
	return error;
}

static int find(struct resource *resource)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "fathom,memory");
	struct device_node *region;
	bool no_map;
	int error;

	if (!node)
		return -ENOENT;
	region = of_parse_phandle(node, "memory-region", 0);
	if (!region)
		region = of_node_get(node);
	no_map = of_device_is_available(node) && of_property_read_bool(region, "no-map");
	error = of_address_to_resource(region, 0, resource);
	of_node_put(region);
	of_node_put(node);
	if (error)
		return error;
	/* Check the property, and that the kernel does not use the memory. */
	if (!no_map || region_intersects(resource->start, resource_size(resource),
					 IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) != REGION_DISJOINT)
		return -EINVAL;
	if (!PAGE_ALIGNED(resource->start) || !PAGE_ALIGNED(resource_size(resource)))
		return -EINVAL;
	return 0;
}

/* Optional: a failure is logged and not returned. */
void fathom_reserved_init(void)
{
	struct resource resource;
	size_t bytes = 0;
	int error = find(&resource);

	if (error == -ENOENT)
		return;
	if (!error) {
		base = resource.start;
		bytes = min_t(resource_size_t, resource_size(&resource), RESERVED_MAX_BYTES);
		error = use(bytes);
	}
	if (error)
		pr_notice("fathom: the devicetree's fathom,memory is not used: error %d\n", error);
	else
		pr_info("fathom: %zu KiB of reserved memory at %pa\n", bytes >> 10, &base);
}

void fathom_reserved_exit(void)
{
	if (!pages)
		return;
	WARN_ON(!bitmap_empty(taken, pages));
	release_mem_region(base, (resource_size_t)pages << PAGE_SHIFT);
	bitmap_free(taken);
	pages = 0;
}
