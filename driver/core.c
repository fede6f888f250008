// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/fathom: the device, its openings, and the dispatch of ioctls.
 *
 * All grants of an opening end with the file, however the process ends. An open file
 * holds the module.
 */
#include <linux/atomic.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "driver.h"

static unsigned int limit_mb = 64;
module_param(limit_mb, uint, 0444);
MODULE_PARM_DESC(limit_mb, "MiB that all openings together may hold (at most a quarter of memory)");

/*
 * The device for DMA measurements without an engine. It has no firmware node, so on ARM
 * it is not coherent, and cache maintenance and attributes are effective.
 */
struct device *fathom_device;
static struct platform_device *platform;

static atomic_t openings = ATOMIC_INIT(0);
static atomic64_t used = ATOMIC64_INIT(0);
static u64 limit;

int fathom_charge(u64 bytes)
{
	if (atomic64_add_return(bytes, &used) <= limit)
		return 0;
	atomic64_sub(bytes, &used);
	return -ENOMEM;
}

void fathom_uncharge(u64 bytes)
{
	atomic64_sub(bytes, &used);
}

static void info(struct fathom_info *info)
{
	u64 hz;

	info->version = FATHOM_VERSION;
	info->features = FATHOM_HAS_REGIONS | FATHOM_HAS_DMA | FATHOM_HAS_WAKES |
			 FATHOM_HAS_TRANSLATE;
	if (fathom_arch_counter())
		info->features |= FATHOM_HAS_COUNTERS;
	if (IS_ENABLED(CONFIG_ARM) && fathom_arch_counter() && !fathom_arch_aliases())
		info->features |= FATHOM_HAS_EVENTS;
	if (!IS_ENABLED(CONFIG_X86))
		info->features |= FATHOM_HAS_CACHE_ID;
	if (fathom_reserved_exists())
		info->features |= FATHOM_HAS_RESERVED;
	info->attributes = fathom_memory_attributes();
	info->engines = fathom_engines(&info->coherent);
	info->page_bytes = PAGE_SIZE;
	info->clock = fathom_arch_clock(&hz);
	info->clock_hz = hz;
	info->limit_bytes = limit;
	info->used_bytes = atomic64_read(&used);
	info->openings = atomic_read(&openings);
	info->regions = atomic_read(&fathom_regions_alive);
	info->wakes = atomic_read(&fathom_wakes_alive);
	info->engine_bytes = FATHOM_EDU_CHUNK;
}

/* The argument of any ioctl. */
union argument {
	struct fathom_info info;
	struct fathom_region region;
	struct fathom_handle handle;
	struct fathom_translate translate;
	struct fathom_dma_run run;
	struct fathom_dma_alloc alloc;
	struct fathom_counters counters;
	struct fathom_cache_id id;
	struct fathom_wake_start start;
	struct fathom_engine engine;
	struct fathom_events events;
};

static long act(struct file *filp, unsigned int command, union argument *argument, void __user *user)
{
	struct fathom_file *file = filp->private_data;

	switch (command) {
	case FATHOM_IOC_INFO:
		info(&argument->info);
		return 0;
	case FATHOM_IOC_REGION:
		return fathom_region_new(file, &argument->region, user);
	case FATHOM_IOC_REGION_FREE:
		return fathom_region_free(file, &argument->handle);
	case FATHOM_IOC_TRANSLATE:
		return fathom_region_translate(filp, &argument->translate);
	case FATHOM_IOC_DMA_RUN:
		return fathom_dma_run(file, &argument->run);
	case FATHOM_IOC_DMA_ALLOC:
		return fathom_dma_alloc(file, &argument->alloc);
	case FATHOM_IOC_COUNTERS_ON:
		return fathom_counters_on(file, &argument->counters);
	case FATHOM_IOC_COUNTERS_STATE:
		return fathom_counters_state(file, &argument->counters);
	case FATHOM_IOC_COUNTERS_OFF:
		return fathom_counters_off(file);
	case FATHOM_IOC_CACHE_ID:
		return fathom_arch_cache_id(&argument->id);
	case FATHOM_IOC_WAKE_START:
		return fathom_wakes_start(file, &argument->start);
	case FATHOM_IOC_WAKE_STOP:
		return fathom_wakes_stop(file);
	case FATHOM_IOC_ENGINE:
		return fathom_engine(&argument->engine);
	case FATHOM_IOC_EVENTS_ON:
		return fathom_counters_events(file, &argument->events);
	default:
		return -ENOTTY;
	}
}

/*
 * The size is part of the command's number, so a caller with another layout of a
 * structure uses a command that does not exist.
 */
static long fathom_ioctl(struct file *filp, unsigned int command, unsigned long address)
{
	void __user *user = (void __user *)address;
	unsigned int size = _IOC_SIZE(command);
	union argument argument;
	long result;

	if (_IOC_TYPE(command) != FATHOM_IOC_MAGIC || size > sizeof(argument))
		return -ENOTTY;
	memset(&argument, 0, sizeof(argument));
	if ((_IOC_DIR(command) & _IOC_WRITE) && copy_from_user(&argument, user, size))
		return -EFAULT;
	result = act(filp, command, &argument, user);
	if (result < 0 || command == FATHOM_IOC_REGION)
		return result;
	if ((_IOC_DIR(command) & _IOC_READ) && copy_to_user(user, &argument, size))
		return -EFAULT;
	return result;
}

static int fathom_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct fathom_file *file = filp->private_data;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* No mapping is executable. */
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	/* VM_IO: MADV_DOFORK cannot make a child inherit it. */
	vm_flags_mod(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	if ((u64)vma->vm_pgoff << PAGE_SHIFT >= FATHOM_EVENTS_OFFSET)
		return fathom_events_mmap(file, vma);
	if ((u64)vma->vm_pgoff << PAGE_SHIFT >= FATHOM_WAKES_OFFSET)
		return fathom_wakes_mmap(file, vma);
	return fathom_region_mmap(file, vma);
}

static int fathom_open(struct inode *inode, struct file *filp)
{
	struct fathom_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	spin_lock_init(&file->pointers);
	xa_init_flags(&file->regions, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	file->granted = -1;
	filp->private_data = file;
	allow_unsigned_offset(filp);
	atomic_inc(&openings);
	return 0;
}

static int fathom_release(struct inode *inode, struct file *filp)
{
	struct fathom_file *file = filp->private_data;

	fathom_counters_off(file);
	fathom_wakes_stop(file);
	fathom_regions_end(file);
	mutex_destroy(&file->lock);
	kfree(file);
	atomic_dec(&openings);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	FATHOM_OPERATIONS_FLAGS
	.open = fathom_open,
	.release = fathom_release,
	.unlocked_ioctl = fathom_ioctl,
	/* Structures and addresses are the same for 32-bit callers. */
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = fathom_mmap,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fathom",
	.fops = &operations,
	/* Root only; a udev rule gives it to a group (README.md). */
	.mode = 0600,
};

static int __init fathom_init(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct fathom_dma_sample) != 48);
	BUILD_BUG_ON(sizeof(struct fathom_wakes) != 32);
	limit = min_t(u64, (u64)limit_mb << 20, ((u64)totalram_pages() << PAGE_SHIFT) / 4);
	/* A name that no devicetree node gives to its device. */
	platform = platform_device_register_simple("fathom", PLATFORM_DEVID_AUTO, NULL, 0);
	if (IS_ERR(platform))
		return PTR_ERR(platform);
	fathom_device = &platform->dev;
	error = dma_set_mask_and_coherent(fathom_device, DMA_BIT_MASK(64));
	if (error)
		error = dma_set_mask_and_coherent(fathom_device, DMA_BIT_MASK(32));
	if (error)
		goto no_dma;
	error = fathom_counters_init();
	if (error)
		goto no_dma;
	error = fathom_edu_init();
	if (error)
		goto no_edu;
	fathom_reserved_init();
	error = misc_register(&device);
	if (error)
		goto no_device;
	return 0;

no_device:
	fathom_reserved_exit();
	fathom_edu_exit();
no_edu:
	fathom_counters_exit();
no_dma:
	platform_device_unregister(platform);
	return error;
}

static void __exit fathom_exit(void)
{
	misc_deregister(&device);
	fathom_reserved_exit();
	fathom_edu_exit();
	fathom_counters_exit();
	platform_device_unregister(platform);
	WARN_ON(atomic_read(&openings) || atomic64_read(&used) ||
		atomic_read(&fathom_regions_alive) || atomic_read(&fathom_wakes_alive));
}

module_init(fathom_init);
module_exit(fathom_exit);
MODULE_DESCRIPTION("Memory attributes, DMA buffers, cycle counter and wake-ups for measuring");
MODULE_AUTHOR("The Fathom authors");
MODULE_LICENSE("GPL");
