/* SPDX-License-Identifier: GPL-2.0 */
/* What the module's files know of one another. */
#ifndef FATHOM_DRIVER_H
#define FATHOM_DRIVER_H

#include <linux/bits.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "fathom.h"

struct device;
struct fathom_wakes_run;

/**
 * struct fathom_file - one opening
 * @lock: one ioctl of an opening at a time changes grant or recorder; nothing is
 *	copied from or to user space under it, and mmap does not take it
 * @regions: by handle
 * @granted: the CPU whose cycle counter is granted, or -1
 * @wakes: the recorder, by kref and under @wakes_lock, because mmap looks at it
 * @wakes_lock: for the pointer alone
 */
struct fathom_file {
	struct mutex lock;	/* grant and recorder */
	struct xarray regions;
	int granted;
	struct fathom_wakes_run *wakes;
	spinlock_t wakes_lock;	/* the pointer before */
};

/* Where a handle's mapping begins in the file, and the recorder's behind them. */
#define FATHOM_OFFSET_SHIFT	28
#define FATHOM_WAKES_OFFSET	((u64)FATHOM_REGIONS_MOST << FATHOM_OFFSET_SHIFT)

/* core.c */
extern struct device *fathom_device;
int fathom_charge(u64 bytes);
void fathom_uncharge(u64 bytes);

/* regions.c */
extern atomic_t fathom_regions_alive;
long fathom_region_new(struct fathom_file *file, struct fathom_region *region);
long fathom_region_free(struct fathom_file *file, struct fathom_handle *handle);
long fathom_region_translate(struct file *filp, struct fathom_translate *translate);
int fathom_region_mmap(struct fathom_file *file, struct vm_area_struct *vma);
void fathom_regions_end(struct fathom_file *file);
u32 fathom_region_attributes(void);

/* dma.c */
long fathom_dma_run(struct fathom_file *file, struct fathom_dma_run *run);
long fathom_dma_alloc(struct fathom_file *file, struct fathom_dma_alloc *alloc);
u32 fathom_dma_engines(u32 *coherent);

/* engine-edu.c */
/* The first half of its buffer: QEMU ends where a transfer touches the last byte. */
#define FATHOM_EDU_CHUNK	2048U
#define FATHOM_EDU_THERE	BIT(0)
#define FATHOM_EDU_COHERENT	BIT(1)
#if IS_ENABLED(CONFIG_PCI)
int fathom_edu_init(void);
void fathom_edu_exit(void);
u32 fathom_edu_there(void);
/* Between get and put the device stays; get gives NULL where there is none. */
struct device *fathom_edu_get(void);
void fathom_edu_put(void);
int fathom_edu_move(dma_addr_t ram, unsigned int bytes, bool to_ram);
#else
static inline int fathom_edu_init(void) { return 0; }
static inline void fathom_edu_exit(void) { }
static inline u32 fathom_edu_there(void) { return 0; }
static inline struct device *fathom_edu_get(void) { return NULL; }
static inline void fathom_edu_put(void) { }
static inline int fathom_edu_move(dma_addr_t ram, unsigned int bytes, bool to_ram)
{
	return -ENODEV;
}
#endif

/* counters.c */
int fathom_counters_init(void);
void fathom_counters_exit(void);
long fathom_counters_on(struct fathom_file *file, struct fathom_counters *counters);
long fathom_counters_state(struct fathom_file *file, struct fathom_counters *counters);
long fathom_counters_off(struct fathom_file *file);

/* wakes.c */
extern atomic_t fathom_wakes_alive;
long fathom_wakes_start(struct fathom_file *file, struct fathom_wake_start *start);
long fathom_wakes_stop(struct fathom_file *file);
int fathom_wakes_mmap(struct fathom_file *file, struct vm_area_struct *vma);

/* arch-*.c */
/* Raw entry or PAR, and what it says; false where the address is not mapped. */
bool fathom_arch_user(unsigned long va, struct fathom_translate *translate);
bool fathom_arch_kernel(const void *va, struct fathom_translate *translate);
/* The machine's clock: which, how fast, and now. */
u32 fathom_arch_clock(u64 *hz);
u64 fathom_arch_now(u32 clock);
long fathom_arch_cache_id(struct fathom_cache_id *id);
/* The cycle counter: whether user space's right to it is ours to give, whether it
 * counts, the right of this CPU, and now. All but the first on the CPU itself.
 */
bool fathom_arch_counter(void);
bool fathom_arch_counter_runs(void);
void fathom_arch_counter_user(bool may);
bool fathom_arch_counter_may(void);
/* Contiguous memory of another attribute than write-back. */
bool fathom_arch_attribute(u32 attribute);

#endif
