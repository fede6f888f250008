/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What /dev/fathom understands.
 *
 * Every structure has the same layout for 32-bit and 64-bit callers: fixed
 * sizes, nothing implicit between fields, addresses as __u64. Fields named
 * "reserved" and flags without a meaning must be zero; the driver refuses what
 * it does not know with EINVAL, so that they can get a meaning later. All
 * times are raw: ticks of the clock that is named beside them.
 *
 * Refusals: EINVAL what was asked is malformed, EOPNOTSUPP this machine cannot
 * do it, ENODEV the device that it needs is not there, ENOMEM no such memory or
 * the limit is reached, EBUSY somebody has it, ENOENT no such handle, EIO the
 * engine failed or was not done in time.
 */
#ifndef _UAPI_FATHOM_H
#define _UAPI_FATHOM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Grows when something is added; nothing that is here changes its meaning.
 * 2: FATHOM_ENGINE_DMAENGINE, FATHOM_IOC_ENGINE, memory from a reserved region
 */
#define FATHOM_VERSION		2

/* Attributes of memory, by behaviour. */
#define FATHOM_WRITE_BACK	0
#define FATHOM_WRITE_THROUGH	1
#define FATHOM_NORMAL_NC	2	/* arm: Normal non-cacheable; x86: WC */
#define FATHOM_DEVICE		3	/* arm: nGnRnE; x86: UC- */
#define FATHOM_ATTRIBUTES	4
#define FATHOM_OTHER_ATTRIBUTE	255	/* translated as none of these */

/* Clocks. */
#define FATHOM_CLOCK_NS		0	/* CLOCK_MONOTONIC, ns */
#define FATHOM_CLOCK_TSC	1
#define FATHOM_CLOCK_CNTVCT	2
#define FATHOM_CLOCK_CYCLES	3	/* the PMU's cycle counter */

/* What moves data. */
#define FATHOM_ENGINE_NONE	0	/* nothing: maintenance and copies only */
#define FATHOM_ENGINE_EDU	1	/* QEMU's edu device */
#define FATHOM_ENGINE_DMAENGINE	2	/* a memcpy channel of the kernel's dmaengine */
#define FATHOM_ENGINES		3

/* Bits of fathom_info.features. */
#define FATHOM_HAS_REGIONS	(1U << 0)
#define FATHOM_HAS_DMA		(1U << 1)
#define FATHOM_HAS_COUNTERS	(1U << 2)
#define FATHOM_HAS_WAKES	(1U << 3)
#define FATHOM_HAS_CACHE_ID	(1U << 4)
#define FATHOM_HAS_TRANSLATE	(1U << 5)
#define FATHOM_HAS_RESERVED	(1U << 6)	/* memory that the kernel maps nowhere else */

/**
 * struct fathom_info - what this driver can do on this machine, and its state
 * @version: FATHOM_VERSION of the driver
 * @features: FATHOM_HAS_...
 * @attributes: bit n: regions of attribute n can be had
 * @engines: bit n: engine n is there; a channel when it was last looked for, and
 *	one that was not there is looked for again
 * @page_bytes: bytes of a page
 * @clock: FATHOM_CLOCK_... that times where no cycle counter is granted
 * @clock_hz: its rate, 0 where nobody knows
 * @limit_bytes: memory that all openings together may hold
 * @used_bytes: memory that they hold
 * @openings: how often the device is open
 * @regions: regions that are alive, mapped ones without a handle included
 * @wakes: wake-up recorders that run
 * @coherent: bit n: the CPU's caches see what engine n's device does
 * @engine_bytes: the most that one transfer of the edu device moves
 */
struct fathom_info {
	__u32 version;
	__u32 features;
	__u32 attributes;
	__u32 engines;
	__u32 page_bytes;
	__u32 clock;
	__u64 clock_hz;
	__u64 limit_bytes;
	__u64 used_bytes;
	__u32 openings;
	__u32 regions;
	__u32 wakes;
	__u32 coherent;
	__u64 engine_bytes;
};

/* A region's limits, and those of an opening. */
#define FATHOM_REGION_MAX_BYTES	(64ULL << 20)
#define FATHOM_REGIONS_MOST		256
#define FATHOM_COLOURS_MOST		256

/* Bits of fathom_region.flags. */
#define FATHOM_REGION_RESERVED	(1U << 0)	/* out: it lies in the reserved memory */

/**
 * struct fathom_region - memory with an attribute, or with a colour
 * @bytes: in: wanted, 1 to FATHOM_REGION_MAX_BYTES; out: whole pages
 * @attribute: FATHOM_WRITE_BACK ...
 * @flags: in: 0; out: FATHOM_REGION_...
 * @colour: below @colours: every page's frame number modulo @colours
 * @colours: 0: physically contiguous, of no chosen colour; else a power of two
 *	up to FATHOM_COLOURS_MOST, and write-back only
 * @handle: out
 * @reserved: 0
 * @offset: out: what to give to mmap(MAP_SHARED)
 * @pa: out: physical address of the first page
 */
struct fathom_region {
	__u64 bytes;
	__u32 attribute;
	__u32 flags;
	__u32 colour;
	__u32 colours;
	__u32 handle;
	__u32 reserved;
	__u64 offset;
	__u64 pa;
};

/**
 * struct fathom_handle - a region to be given up; mapped memory stays until it
 *	is unmapped
 * @handle: which
 * @reserved: 0
 */
struct fathom_handle {
	__u32 handle;
	__u32 reserved;
};

/**
 * struct fathom_translate - what the tables say of an address of a region that
 *	the caller has mapped through this very opening
 * @va: in
 * @pa: out
 * @raw: out: arm: PAR as the core answers; x86: the page table's entry
 * @raw_types: out: x86: IA32_PAT; arm: 0
 * @attribute: out: FATHOM_WRITE_BACK ... or FATHOM_OTHER_ATTRIBUTE
 * @reserved: 0
 */
struct fathom_translate {
	__u64 va;
	__u64 pa;
	__u64 raw;
	__u64 raw_types;
	__u32 attribute;
	__u32 reserved;
};

/* How data gets to a device and back. "Packet" is the CPU's own cached memory. */
#define FATHOM_STREAMING_COPY	0	/* copy, and map a fixed cached buffer for each transfer */
#define FATHOM_UNCACHED_COPY	1	/* copy, through a write-combining buffer */
#define FATHOM_ZERO_COPY	2	/* map the packet itself */
#define FATHOM_PERSISTENT_COPY	3	/* copy, through a cached buffer mapped once, with sync */
#define FATHOM_COHERENT		4	/* the packet lies in coherent memory */
#define FATHOM_STRATEGIES	5

#define FATHOM_TO_DEVICE	0
#define FATHOM_FROM_DEVICE	1

#define FATHOM_DMA_MAX_BYTES	(1ULL << 20)
#define FATHOM_DMA_MAX_COUNT	4096
#define FATHOM_DMA_MAX_TOTAL	(64ULL << 20)	/* bytes x count */

/* Bits of fathom_dma_sample.flags. */
#define FATHOM_SAMPLE_UNPROVEN	(1U << 0)	/* nothing moved, so nothing was compared */
#define FATHOM_SAMPLE_MIGRATED	(1U << 1)	/* began and ended on two CPUs */

/* Bits of fathom_dma_run.flags. */
#define FATHOM_RUN_RESERVED	(1U << 0)	/* out: the buffer lies in the reserved memory */

/**
 * struct fathom_dma_sample - one transfer, in ticks
 * @use: the CPU writes (to the device) or reads (from it) every word of the packet
 * @copy: between packet and buffer
 * @map: before the engine: mapping, or sync for the device
 * @engine: the engine's time, all chunks, from command to interrupt handled
 * @unmap: after it: unmapping, or sync for the CPU
 * @wrong: bytes at the far end that are not those that were sent
 * @flags: FATHOM_SAMPLE_...
 */
struct fathom_dma_sample {
	__u64 use;
	__u64 copy;
	__u64 map;
	__u64 engine;
	__u64 unmap;
	__u32 wrong;
	__u32 flags;
};

/**
 * struct fathom_dma_run - transfers by one strategy
 *
 * FATHOM_UNCACHED_COPY where the device is coherent: the DMA API's memory would be
 * write-back, so the buffer is memory that has no other mapping (arm: reserved
 * memory; x86: pages whose linear mapping is changed); where there is none it is
 * refused with EOPNOTSUPP. FATHOM_COHERENT is what the DMA API calls coherent:
 * there that is write-back memory, and @attribute says so.
 *
 * @strategy: FATHOM_STREAMING_COPY ...
 * @direction: FATHOM_TO_DEVICE or FATHOM_FROM_DEVICE
 * @engine: FATHOM_ENGINE_...
 * @count: samples wanted, 1 to FATHOM_DMA_MAX_COUNT
 * @bytes: of a transfer, 1 to FATHOM_DMA_MAX_BYTES
 * @seed: of the data
 * @samples: address of @count struct fathom_dma_sample
 * @done: out: samples made; fewer than @count where a signal came
 * @clock: out: FATHOM_CLOCK_...
 * @coherent: out: 1: the CPU's caches see what the device does
 * @chunks: out: transfers of the engine a sample
 * @wrong: out: wrong bytes of all samples
 * @raw: out: PAR or page table entry of the buffer as the kernel maps it; 0 where
 *	nobody knows
 * @attribute: out: FATHOM_WRITE_BACK ... of it
 * @flags: in: 0; out: FATHOM_RUN_...
 */
struct fathom_dma_run {
	__u32 strategy;
	__u32 direction;
	__u32 engine;
	__u32 count;
	__u64 bytes;
	__u64 seed;
	__u64 samples;
	__u32 done;
	__u32 clock;
	__u32 coherent;
	__u32 chunks;
	__u64 wrong;
	__u64 raw;
	__u32 attribute;
	__u32 flags;
};

/**
 * struct fathom_engine - what is known of an engine; ENODEV where it is not there
 * @engine: in: FATHOM_ENGINE_...
 * @coherent: out: 1: the CPU's caches see what its device does
 * @chunk_bytes: out: the most that one transfer moves; 0: nothing moves, or no limit
 * @align_bytes: out: a run's bytes must be a multiple of this (else EOPNOTSUPP)
 * @device: out: its name, ended by 0; a channel's is another one when another is free
 * @driver: out: the name of the driver behind it, ended by 0
 */
struct fathom_engine {
	__u32 engine;
	__u32 coherent;
	__u32 chunk_bytes;
	__u32 align_bytes;
	char device[32];
	char driver[32];
};

/* Kinds of buffers that the DMA API allocates. */
#define FATHOM_ALLOC_COHERENT		0
#define FATHOM_ALLOC_WRITE_COMBINE	1
#define FATHOM_ALLOC_NONCOHERENT	2
#define FATHOM_ALLOCS			3

/**
 * struct fathom_alloc_sample - one allocation, in ticks
 * @alloc: getting it
 * @free: giving it back
 */
struct fathom_alloc_sample {
	__u64 alloc;
	__u64 free;
};

/**
 * struct fathom_dma_alloc - allocations, timed
 * @kind: FATHOM_ALLOC_...
 * @engine: whose device they are for
 * @bytes: 1 to FATHOM_DMA_MAX_BYTES
 * @count: samples wanted, 1 to FATHOM_DMA_MAX_COUNT
 * @done: out: samples made
 * @samples: address of @count struct fathom_alloc_sample
 * @raw: out: as in struct fathom_dma_run, of the last
 * @clock: out
 * @attribute: out
 */
struct fathom_dma_alloc {
	__u32 kind;
	__u32 engine;
	__u64 bytes;
	__u32 count;
	__u32 done;
	__u64 samples;
	__u64 raw;
	__u32 clock;
	__u32 attribute;
};

/* Who may read the counter that was granted. */
#define FATHOM_SCOPE_TASK	1	/* the task that asked, and no other */
#define FATHOM_SCOPE_CPU	2	/* whoever runs on its CPU */

/**
 * struct fathom_counters - the cycle counter, granted to user space
 *
 * For the calling task on the one CPU that it is pinned to, until
 * FATHOM_IOC_COUNTERS_OFF or until the opening ends. The kernel's perf holds the
 * counter meanwhile and may take the grant back when it starts events on that
 * CPU; the task gets it again when it is switched to. Where the kernel has
 * kernel.perf_user_access, prefer that.
 *
 * @cpu: out
 * @scope: out: FATHOM_SCOPE_...
 * @in_force: out: 1 where the core would let the caller read now
 * @reserved: 0
 */
struct fathom_counters {
	__u32 cpu;
	__u32 scope;
	__u32 in_force;
	__u32 reserved;
};

#define FATHOM_CACHES_MOST	14	/* seven levels (CLIDR), data and instruction */

/**
 * struct fathom_cache_id - what a core says of its caches; arm only
 * @cpu: out: which core was asked
 * @count: out: entries of @ccsidr, 0 or FATHOM_CACHES_MOST
 * @ctr: out: CTR
 * @clidr: out: CLIDR, 0 where there is none
 * @ccsidr: out: by CSSELR: entry 2n data or unified of level n + 1, 2n + 1
 *	instruction; 0 where CLIDR names none
 */
struct fathom_cache_id {
	__u32 cpu;
	__u32 count;
	__u64 ctr;
	__u64 clidr;
	__u64 ccsidr[FATHOM_CACHES_MOST];
};

/* How the recorder's thread is scheduled. */
#define FATHOM_POLICY_NORMAL	0
#define FATHOM_POLICY_FIFO_LOW	1	/* SCHED_FIFO, the lowest priority */
#define FATHOM_POLICY_FIFO	2	/* SCHED_FIFO, the middle one */
#define FATHOM_POLICIES		3

#define FATHOM_WAKE_MIN_NS	50000ULL
#define FATHOM_WAKE_MAX_NS	1000000000ULL
#define FATHOM_WAKE_MAX_ROWS	1000000
#define FATHOM_WAKES_MOST	4	/* recorders of all openings together; more: EBUSY */

/**
 * struct fathom_wake_start - a timer that wakes a thread of the kernel's
 * @period_ns: FATHOM_WAKE_MIN_NS to FATHOM_WAKE_MAX_NS
 * @cpu: where, online
 * @policy: FATHOM_POLICY_...
 * @rows: activations to record, 1 to FATHOM_WAKE_MAX_ROWS; then it ends
 * @reserved: 0
 * @offset: out: what to give to mmap(PROT_READ, MAP_SHARED)
 * @bytes: out: how much can be mapped
 */
struct fathom_wake_start {
	__u64 period_ns;
	__u32 cpu;
	__u32 policy;
	__u32 rows;
	__u32 reserved;
	__u64 offset;
	__u64 bytes;
};

/**
 * struct fathom_wake - one activation, in ns of CLOCK_MONOTONIC
 * @expires: what the timer was set for
 * @irq: when its handler ran
 * @task: when the thread ran
 */
struct fathom_wake {
	__u64 expires;
	__u64 irq;
	__u64 task;
};

/**
 * struct fathom_wakes - the recorder's memory, read-only for user space
 * @version: FATHOM_VERSION
 * @rows: rows that fit
 * @written: rows that are complete; only grows, and is written after the row
 * @ended: 1: no more come
 * @missed: periods that passed while the one before was not done
 * @reserved: 0
 * @row: the rows
 */
struct fathom_wakes {
	__u32 version;
	__u32 rows;
	__u32 written;
	__u32 ended;
	__u64 missed;
	__u64 reserved;
	struct fathom_wake row[];
};

#define FATHOM_IOC_MAGIC		0xF7
#define FATHOM_IOC_INFO			_IOR(FATHOM_IOC_MAGIC, 0, struct fathom_info)
#define FATHOM_IOC_REGION		_IOWR(FATHOM_IOC_MAGIC, 1, struct fathom_region)
#define FATHOM_IOC_REGION_FREE		_IOW(FATHOM_IOC_MAGIC, 2, struct fathom_handle)
#define FATHOM_IOC_TRANSLATE		_IOWR(FATHOM_IOC_MAGIC, 3, struct fathom_translate)
#define FATHOM_IOC_DMA_RUN		_IOWR(FATHOM_IOC_MAGIC, 4, struct fathom_dma_run)
#define FATHOM_IOC_DMA_ALLOC		_IOWR(FATHOM_IOC_MAGIC, 5, struct fathom_dma_alloc)
#define FATHOM_IOC_COUNTERS_ON		_IOWR(FATHOM_IOC_MAGIC, 6, struct fathom_counters)
#define FATHOM_IOC_COUNTERS_STATE	_IOWR(FATHOM_IOC_MAGIC, 7, struct fathom_counters)
#define FATHOM_IOC_COUNTERS_OFF		_IO(FATHOM_IOC_MAGIC, 8)
#define FATHOM_IOC_CACHE_ID		_IOR(FATHOM_IOC_MAGIC, 9, struct fathom_cache_id)
#define FATHOM_IOC_WAKE_START		_IOWR(FATHOM_IOC_MAGIC, 10, struct fathom_wake_start)
#define FATHOM_IOC_WAKE_STOP		_IO(FATHOM_IOC_MAGIC, 11)
#define FATHOM_IOC_ENGINE		_IOWR(FATHOM_IOC_MAGIC, 12, struct fathom_engine)

#endif /* _UAPI_FATHOM_H */
