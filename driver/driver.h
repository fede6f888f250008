/* SPDX-License-Identifier: GPL-2.0 */
/* Internal interfaces between the module's files. */
#ifndef FATHOM_DRIVER_H
#define FATHOM_DRIVER_H

#include <linux/bits.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "fathom.h"

struct device;
struct fathom_events_run;
struct fathom_wakes_run;

/* Allocations of unlimited size on request: no warnings, and no OOM kills. */
#define GFP_QUIET	(GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)
#define GFP_FATHOM	(GFP_QUIET | __GFP_ACCOUNT | __GFP_ZERO)

/**
 * struct fathom_file - one opening
 * @lock: serialises the ioctls that change grant or recorder; not held during
 *	copies from or to user space, and not taken by mmap
 * @regions: by handle
 * @granted: the CPU whose cycle counter is granted, or -1
 * @events: the granted events, with a kref; protected by @pointers, because mmap reads it
 * @wakes: the recorder, likewise
 * @pointers: protects the two pointers only
 */
struct fathom_file {
	struct mutex lock;	/* grant and recorder */
	struct xarray regions;
	int granted;
	struct fathom_events_run *events;
	struct fathom_wakes_run *wakes;
	spinlock_t pointers;	/* protects events, wakes */
};

/* File offset of a handle's mapping, and after those of all handles the recorder's and the events'. */
#define FATHOM_OFFSET_SHIFT	28
#define FATHOM_WAKES_OFFSET	((u64)FATHOM_REGIONS_MOST << FATHOM_OFFSET_SHIFT)
#define FATHOM_EVENTS_OFFSET	((u64)(FATHOM_REGIONS_MOST + 1) << FATHOM_OFFSET_SHIFT)

/* core.c */
extern struct device *fathom_device;
int fathom_charge(u64 bytes);
void fathom_uncharge(u64 bytes);

/* regions.c */
extern atomic_t fathom_regions_alive;
/* Copies the result to @user itself. */
long fathom_region_new(struct fathom_file *file, struct fathom_region *region, void __user *user);
long fathom_region_free(struct fathom_file *file, struct fathom_handle *handle);
long fathom_region_translate(struct file *filp, struct fathom_translate *translate);
int fathom_region_mmap(struct fathom_file *file, struct vm_area_struct *vma);
void fathom_regions_end(struct fathom_file *file);

/* memory.c */
enum fathom_memory_from {
	FATHOM_MEMORY_NONE,
	FATHOM_MEMORY_PAGES,
	FATHOM_MEMORY_DMA_API,	/* allocated for the driver's own device */
	FATHOM_MEMORY_RESERVED,
};

/**
 * struct fathom_memory - contiguous memory with an attribute, zeroed
 * @from: its allocator
 * @attribute: FATHOM_WRITE_BACK ...
 * @count: pages
 * @pfn: of the first page
 * @kernel: kernel mapping with that attribute, except for a device region
 * @address: DMA address, while it is mapped for a device
 */
struct fathom_memory {
	enum fathom_memory_from from;
	u32 attribute;
	u32 count;
	unsigned long pfn;
	void *kernel;
	dma_addr_t address;
};

/* @exclusive: memory without a mapping of another attribute only. */
int fathom_memory_get(struct fathom_memory *memory, u32 attribute, u32 count, bool exclusive);
void fathom_memory_put(struct fathom_memory *memory);
int fathom_memory_map(struct fathom_memory *memory, struct device *device);
void fathom_memory_unmap(struct fathom_memory *memory, struct device *device);
u32 fathom_memory_attributes(void);

/* reserved.c */
#if IS_ENABLED(CONFIG_ARM) || IS_ENABLED(CONFIG_ARM64)
void fathom_reserved_init(void);
void fathom_reserved_exit(void);
bool fathom_reserved_exists(void);
int fathom_reserved_get(struct fathom_memory *memory);
void fathom_reserved_put(struct fathom_memory *memory);
int fathom_reserved_map(struct fathom_memory *memory, struct device *device);
#else
static inline void fathom_reserved_init(void) { }
static inline void fathom_reserved_exit(void) { }
static inline bool fathom_reserved_exists(void) { return false; }
static inline int fathom_reserved_get(struct fathom_memory *memory) { return -EOPNOTSUPP; }
static inline void fathom_reserved_put(struct fathom_memory *memory) { }
static inline int fathom_reserved_map(struct fathom_memory *memory, struct device *device)
{
	return -EOPNOTSUPP;
}
#endif

/* dma.c, dma-alloc.c */
long fathom_dma_run(struct fathom_file *file, struct fathom_dma_run *run);
long fathom_dma_alloc(struct fathom_file *file, struct fathom_dma_alloc *alloc);

/* engine.c */
/**
 * struct fathom_mover - an engine that moves data; owned by one caller from get to put
 * @get: returns the device that memory is mapped for, NULL if there is none
 * @put: ends get
 * @move: makes one transfer between a buffer and the far end, not interruptible.
 *	-EIO: it failed, and nothing writes any more; -ENOTRECOVERABLE: the engine
 *	may still write, so the memory of both must never be freed
 * @prove: transfers between the far buffer and the far end, if these differ
 * @limits: returns chunk_bytes and align_bytes, between get and put
 * @state: returns FATHOM_ENGINE_PRESENT and other flags, without waiting for transfers
 */
struct fathom_mover {
	struct device *(*get)(void);
	void (*put)(void);
	int (*move)(dma_addr_t buffer, dma_addr_t far, u32 bytes, bool to_ram);
	int (*prove)(dma_addr_t far, u32 bytes, bool to_ram);
	void (*limits)(struct fathom_engine *engine);
	u32 (*state)(void);
};

#define FATHOM_ENGINE_PRESENT	BIT(0)
#define FATHOM_ENGINE_COHERENT	BIT(1)

/**
 * struct fathom_dma_job - common part of all samples for a device
 * @rows: samples, @row bytes each, for @user; @done of them are complete
 */
struct fathom_dma_job {
	u32 engine;
	u32 count;
	u64 bytes;
	u64 user;
	size_t row;
	u32 *done;
	u32 *clock;
	const struct fathom_mover *mover;
	struct device *device;
	void *rows;
	void *what;
};

u32 fathom_engines(u32 *coherent);
long fathom_engine(struct fathom_engine *engine);
long fathom_dma_job(struct fathom_file *file, struct fathom_dma_job *job,
		    long (*act)(struct fathom_dma_job *job));
/* Reads the attribute of a kernel mapping. */
void fathom_dma_attribute(const void *memory, u32 *attribute, u64 *raw);

/* engine-edu.c */
/* The first half of its buffer: QEMU stops at a transfer that touches the last byte. */
#define FATHOM_EDU_CHUNK	2048U
#if IS_ENABLED(CONFIG_PCI)
extern const struct fathom_mover fathom_edu;
int fathom_edu_init(void);
void fathom_edu_exit(void);
#else
static inline int fathom_edu_init(void) { return 0; }
static inline void fathom_edu_exit(void) { }
#endif

/* engine-channel.c */
#if IS_ENABLED(CONFIG_DMA_ENGINE)
extern const struct fathom_mover fathom_channel;
#endif

/* counters.c */
int fathom_counters_init(void);
void fathom_counters_exit(void);
long fathom_counters_on(struct fathom_file *file, struct fathom_counters *counters);
long fathom_counters_state(struct fathom_file *file, struct fathom_counters *counters);
long fathom_counters_off(struct fathom_file *file);
long fathom_counters_events(struct fathom_file *file, struct fathom_events *events);

/* events.c: counters of events, for a grant; 32-bit ARM only */
#ifdef CONFIG_ARM
/* Returns a run with its page, and without counters; an ERR_PTR if what is asked is not valid. */
struct fathom_events_run *fathom_events_new(const struct fathom_events *events);
void fathom_events_put(struct fathom_events_run *run);
/* Counts on @cpu from now on; and not any more. */
int fathom_events_create(struct fathom_events_run *run, int cpu);
void fathom_events_release(struct fathom_events_run *run);
/*
 * These run on that CPU with interrupts off: the counters are found; the owner is switched to
 * (@runs) or from; nobody has the grant any more.
 */
int fathom_events_begin(struct fathom_events_run *run);
void fathom_events_switched(struct fathom_events_run *run, bool runs);
void fathom_events_end(struct fathom_events_run *run);
int fathom_events_mmap(struct fathom_file *file, struct vm_area_struct *vma);
#else
static inline struct fathom_events_run *fathom_events_new(const struct fathom_events *events)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void fathom_events_put(struct fathom_events_run *run) { }
static inline int fathom_events_create(struct fathom_events_run *run, int cpu) { return -EOPNOTSUPP; }
static inline void fathom_events_release(struct fathom_events_run *run) { }
static inline int fathom_events_begin(struct fathom_events_run *run) { return -EOPNOTSUPP; }
static inline void fathom_events_switched(struct fathom_events_run *run, bool runs) { }
static inline void fathom_events_end(struct fathom_events_run *run) { }
static inline int fathom_events_mmap(struct fathom_file *file, struct vm_area_struct *vma)
{
	return -EINVAL;
}
#endif

/* wakes.c */
extern atomic_t fathom_wakes_alive;
long fathom_wakes_start(struct fathom_file *file, struct fathom_wake_start *start);
long fathom_wakes_stop(struct fathom_file *file);
int fathom_wakes_mmap(struct fathom_file *file, struct vm_area_struct *vma);

/* arch-*.c */
/* Fills in the raw entry or PAR and its decoding; false if the address is not mapped. */
bool fathom_arch_user(unsigned long va, struct fathom_translate *translate);
bool fathom_arch_kernel(const void *va, struct fathom_translate *translate);
/* The machine's clock: its kind and rate, and a reading. */
u32 fathom_arch_clock(u64 *hz);
u64 fathom_arch_now(u32 clock);

/* Ticks from a reading to now. The cycle counter of 32-bit ARM has 32 bits, and wraps in seconds. */
static inline u64 fathom_since(u32 clock, u64 began)
{
	u64 ticks = fathom_arch_now(clock) - began;

	return IS_ENABLED(CONFIG_ARM) && clock == FATHOM_CLOCK_CYCLES ? (u32)ticks : ticks;
}

long fathom_arch_cache_id(struct fathom_cache_id *id);
/*
 * The cycle counter: whether the driver may grant user space access to it, whether it
 * counts, setting and reading the access of this CPU. All but the first run on that
 * CPU.
 */
bool fathom_arch_counter(void);
bool fathom_arch_counter_runs(void);
void fathom_arch_counter_user(bool allowed);
bool fathom_arch_counter_allowed(void);
/*
 * The register of perf's counter @index: its FATHOM_COUNTER_... and number; its value, on this CPU
 * with interrupts off. arm only.
 */
void fathom_arch_register(int index, u32 *kind, u32 *number);
u32 fathom_arch_read(u32 kind, u32 number);
/* Whether a data cache may hold one address in two places, by virtual addresses. */
#ifdef CONFIG_ARM
bool fathom_arch_aliases(void);
#else
static inline bool fathom_arch_aliases(void) { return false; }
#endif
/* Cleans and invalidates the lines of memory without a linear mapping; arm only. */
void fathom_arch_clean(void *memory, size_t bytes);

/* Decodes a byte of ARM's MAIR; PAR encodes attributes in the same way. */
static inline u32 fathom_attribute_of_mair(u8 attr)
{
	switch (attr) {
	case 0x00:
		return FATHOM_DEVICE;
	case 0x44:
		return FATHOM_NORMAL_NC;
	case 0xaa:
	case 0xbb:
		return FATHOM_WRITE_THROUGH;
	case 0xee:
	case 0xff:
		return FATHOM_WRITE_BACK;
	default:
		return FATHOM_OTHER_ATTRIBUTE;
	}
}

/*
 * Whether ARM's CLIDR lists the cache that a CSSELR value selects: level from bit 1 on,
 * instruction bit 0. CLIDR: 1 instruction only, 2 data only, 3 both, 4 unified.
 */
static inline bool fathom_cache_named(u64 clidr, u32 at)
{
	u32 kind = clidr >> (3 * (at / 2)) & 7;

	return at & 1 ? kind == 1 || kind == 3 : kind >= 2 && kind <= 4;
}

#endif
