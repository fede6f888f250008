// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: memory with an attribute or a colour, mapped by user space.
 *
 * Handle and mappings each hold a reference to a region, so mapped memory is never
 * freed, in any order of release.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver.h"

struct region {
	struct kref held;
	u32 count;		/* pages */
	bool by_colour;
	struct fathom_memory memory;	/* contiguous memory, */
	struct page *coloured[];	/* or single pages */
};

atomic_t fathom_regions_alive = ATOMIC_INIT(0);

static size_t region_bytes(const struct region *region)
{
	return (size_t)region->count << PAGE_SHIFT;
}

static void end_region(struct kref *held)
{
	struct region *region = container_of(held, struct region, held);
	u32 at;

	fathom_memory_put(&region->memory);
	for (at = 0; region->by_colour && at < region->count; at++)
		if (region->coloured[at])
			__free_page(region->coloured[at]);
	fathom_uncharge(region_bytes(region));
	kvfree(region);
	atomic_dec(&fathom_regions_alive);
}

static void put_region(struct region *region)
{
	kref_put(&region->held, end_region);
}

/*
 * A block of as many pages as there are colours has one page of each. While one page is
 * kept, the rest cannot merge into a block again, so the next block is new.
 */
static int fill_coloured(struct region *region, u32 colour, u32 colours)
{
	unsigned int order = ilog2(colours);
	struct page *page;
	u32 at, other;

	for (at = 0; at < region->count; at++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		page = alloc_pages(GFP_FATHOM, order);
		if (!page)
			return -ENOMEM;
		split_page(page, order);
		for (other = 0; other < colours; other++)
			if (other != colour)
				__free_page(page + other);
		region->coloured[at] = page + colour;
		cond_resched();
	}
	return 0;
}

static int fill(struct region *region, const struct fathom_region *req)
{
	if (req->colours)
		return fill_coloured(region, req->colour, req->colours);
	return fathom_memory_get(&region->memory, req->attribute, region->count, false);
}

static int check(const struct fathom_region *req)
{
	if (!req->bytes || req->bytes > FATHOM_REGION_MAX_BYTES || req->flags || req->reserved)
		return -EINVAL;
	if (req->attribute >= FATHOM_ATTRIBUTES)
		return -EINVAL;
	if (req->colours) {
		if (!is_power_of_2(req->colours) || req->colours > FATHOM_COLOURS_MOST)
			return -EINVAL;
		if (req->colour >= req->colours)
			return -EINVAL;
		/* Without a cache a colour has no meaning. */
		if (req->attribute != FATHOM_WRITE_BACK)
			return -EOPNOTSUPP;
	} else if (req->colour) {
		return -EINVAL;
	}
	return fathom_memory_attributes() & 1U << req->attribute ? 0 : -EOPNOTSUPP;
}

static struct region *new_region(const struct fathom_region *req)
{
	struct region *region;
	u32 count = DIV_ROUND_UP_ULL(req->bytes, PAGE_SIZE);
	int error = fathom_charge((u64)count << PAGE_SHIFT);

	if (error)
		return ERR_PTR(error);
	region = kvzalloc(struct_size(region, coloured, req->colours ? count : 0),
			  GFP_KERNEL_ACCOUNT);
	if (!region) {
		fathom_uncharge((u64)count << PAGE_SHIFT);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&region->held);
	region->count = count;
	region->by_colour = req->colours;
	atomic_inc(&fathom_regions_alive);
	error = fill(region, req);
	if (error) {
		put_region(region);
		return ERR_PTR(error);
	}
	return region;
}

/*
 * The handle exists from the last step on: until the caller knows it, another thread that
 * guesses it neither frees nor maps the region.
 */
long fathom_region_new(struct fathom_file *file, struct fathom_region *req, void __user *user)
{
	struct region *region;
	u32 handle;
	int error = check(req);

	if (error)
		return error;
	region = new_region(req);
	if (IS_ERR(region))
		return PTR_ERR(region);
	req->bytes = region_bytes(region);
	req->pa = PFN_PHYS(region->by_colour ? page_to_pfn(region->coloured[0]) :
						region->memory.pfn);
	req->flags = region->memory.from == FATHOM_MEMORY_RESERVED ? FATHOM_REGION_RESERVED : 0;
	/* Reserves the handle. */
	error = xa_alloc(&file->regions, &handle, NULL, XA_LIMIT(0, FATHOM_REGIONS_MOST - 1),
			 GFP_KERNEL_ACCOUNT);
	if (error) {
		put_region(region);
		return error == -EBUSY ? -ENOMEM : error;
	}
	req->handle = handle;
	req->offset = (u64)handle << FATHOM_OFFSET_SHIFT;
	if (copy_to_user(user, req, sizeof(*req))) {
		xa_release(&file->regions, handle);
		put_region(region);
		return -EFAULT;
	}
	/* A reserved entry needs no memory. */
	xa_store(&file->regions, handle, region, GFP_KERNEL_ACCOUNT);
	return 0;
}

long fathom_region_free(struct fathom_file *file, struct fathom_handle *handle)
{
	struct region *region;

	if (handle->reserved || handle->handle >= FATHOM_REGIONS_MOST)
		return -EINVAL;
	xa_lock(&file->regions);
	region = xa_load(&file->regions, handle->handle);
	/* A handle that is only reserved stays so. */
	if (region)
		__xa_erase(&file->regions, handle->handle);
	xa_unlock(&file->regions);
	if (!region)
		return -ENOENT;
	put_region(region);
	return 0;
}

void fathom_regions_end(struct fathom_file *file)
{
	struct region *region;
	unsigned long at;

	xa_for_each(&file->regions, at, region)
		put_region(region);
	xa_destroy(&file->regions);
}

static void mapping_opened(struct vm_area_struct *vma)
{
	struct region *region = vma->vm_private_data;

	kref_get(&region->held);
}

static void mapping_closed(struct vm_area_struct *vma)
{
	put_region(vma->vm_private_data);
}

static const struct vm_operations_struct mapping = {
	.open = mapping_opened,
	.close = mapping_closed,
};

static int map_coloured(struct region *region, struct vm_area_struct *vma, u32 from)
{
	unsigned long va;
	int error;

	for (va = vma->vm_start; va < vma->vm_end; va += PAGE_SIZE) {
		error = vm_insert_page(vma, va, region->coloured[from++]);
		if (error)
			return error;
	}
	return 0;
}

static int map_region(struct region *region, struct vm_area_struct *vma, u32 from)
{
	int error;

	if (region->by_colour)
		return map_coloured(region, vma, from);
	if (region->memory.attribute == FATHOM_NORMAL_NC)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	else if (region->memory.attribute == FATHOM_DEVICE)
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	error = remap_pfn_range(vma, vma->vm_start, region->memory.pfn + from,
				vma->vm_end - vma->vm_start, vma->vm_page_prot);
	/* Older kernels leave what they have mapped, and the memory may be freed before it is unmapped. */
	if (error)
		zap_vma_ptes(vma, vma->vm_start, vma->vm_end - vma->vm_start);
	return error;
}

int fathom_region_mmap(struct fathom_file *file, struct vm_area_struct *vma)
{
	u32 handle = vma->vm_pgoff >> (FATHOM_OFFSET_SHIFT - PAGE_SHIFT);
	u32 from = vma->vm_pgoff & ((1UL << (FATHOM_OFFSET_SHIFT - PAGE_SHIFT)) - 1);
	unsigned long count = vma_pages(vma);
	struct region *region;
	int error;

	xa_lock(&file->regions);
	region = xa_load(&file->regions, handle);
	/* The handle holds a reference. */
	if (region)
		kref_get(&region->held);
	xa_unlock(&file->regions);
	if (!region)
		return -ENOENT;
	if (from >= region->count || count > region->count - from)
		error = -EINVAL;
	else
		error = map_region(region, vma, from);
	if (error) {
		put_region(region);
		return error;
	}
	vma->vm_private_data = region;
	vma->vm_ops = &mapping;
	return 0;
}

long fathom_region_translate(struct file *filp, struct fathom_translate *translate)
{
	unsigned long va = translate->va;
	struct vm_area_struct *vma;
	long error = -ENOENT;

	if (translate->reserved || translate->va != va)
		return -EINVAL;
	/* Only user threads get here, so current->mm is set. */
	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	vma = find_vma(current->mm, va);
	if (vma && vma->vm_start <= va && vma->vm_file == filp && vma->vm_ops == &mapping &&
	    fathom_arch_user(va, translate))
		error = 0;
	mmap_read_unlock(current->mm);
	return error;
}
