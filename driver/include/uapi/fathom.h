/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The interface of /dev/fathom.
 *
 * Every structure has the same layout for 32-bit and 64-bit callers: fixed
 * sizes, no implicit padding, addresses as __u64. Fields named "reserved" and
 * flags without a meaning must be zero. The driver refuses unknown values with
 * EINVAL, so that they can get a meaning later. All times are raw: ticks of the
 * clock that is named with them.
 *
 * Errors: EINVAL the request is malformed, EOPNOTSUPP not possible on this
 * machine, ENODEV the required device is absent, ENOMEM no such memory or the
 * limit is reached, EBUSY in use by another caller, ENOENT no such handle, EIO
 * the engine failed or timed out.
 */
#ifndef _UAPI_FATHOM_H
#define _UAPI_FATHOM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Incremented when something is added; existing definitions keep their meaning.
 * 2: FATHOM_ENGINE_DMAENGINE, FATHOM_IOC_ENGINE, memory from a reserved region
 * 3: FATHOM_IOC_EVENTS_ON
 */
#define FATHOM_VERSION		3

/*
 * Attributes of memory, by behaviour. Exclusive and atomic accesses are for write-back
 * memory; in the others they may fault, or never succeed, depending on the core.
 */
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

/* Engines that move data. */
#define FATHOM_ENGINE_NONE	0	/* no engine: maintenance and copies only */
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
#define FATHOM_HAS_RESERVED	(1U << 6)	/* memory without another kernel mapping */
#define FATHOM_HAS_EVENTS	(1U << 7)

/**
 * struct fathom_info - capabilities of the driver on this machine, and its state
 * @version: FATHOM_VERSION of the driver
 * @features: FATHOM_HAS_...
 * @attributes: bit n: regions of attribute n are available
 * @engines: bit n: engine n is present; for a channel, the last known state, and
 *	an absent one is requested again
 * @page_bytes: bytes of a page
 * @clock: FATHOM_CLOCK_... used for times if no cycle counter is granted
 * @clock_hz: its rate, 0 if unknown
 * @limit_bytes: maximum memory of all openings together
 * @used_bytes: memory that they hold
 * @openings: number of open files of the device
 * @regions: existing regions, including mapped ones without a handle
 * @wakes: running wake-up recorders
 * @coherent: bit n: engine n's device is coherent with the CPU's caches
 * @engine_bytes: maximum bytes of one transfer of the edu device
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

/* Limits of a region, and of an opening. */
#define FATHOM_REGION_MAX_BYTES	(64ULL << 20)
#define FATHOM_REGIONS_MOST		256
#define FATHOM_COLOURS_MOST		256

/* Bits of fathom_region.flags. */
#define FATHOM_REGION_RESERVED	(1U << 0)	/* out: it is in the reserved memory */

/**
 * struct fathom_region - memory with an attribute, or with a colour
 * @bytes: in: 1 to FATHOM_REGION_MAX_BYTES; out: whole pages
 * @attribute: FATHOM_WRITE_BACK ...
 * @flags: in: 0; out: FATHOM_REGION_...
 * @colour: below @colours: every page's frame number modulo @colours
 * @colours: 0: physically contiguous, without a colour; else a power of two
 *	up to FATHOM_COLOURS_MOST, and write-back only
 * @handle: out
 * @reserved: 0
 * @offset: out: offset for mmap(MAP_SHARED)
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
 * struct fathom_handle - a region to be released; mapped memory stays until it
 *	is unmapped
 * @handle: handle of the region
 * @reserved: 0
 */
struct fathom_handle {
	__u32 handle;
	__u32 reserved;
};

/**
 * struct fathom_translate - translation of an address of a region that the
 *	caller has mapped through the same opening
 * @va: in
 * @pa: out
 * @raw: out: arm: PAR as returned by the core; x86: the page table entry
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

/* Strategies of passing data to a device and back. "Packet" is ordinary cached memory
 * of the CPU.
 */
#define FATHOM_STREAMING_COPY	0	/* copy, and map a fixed cached buffer for each transfer */
#define FATHOM_UNCACHED_COPY	1	/* copy, through a write-combining buffer */
#define FATHOM_ZERO_COPY	2	/* map the packet itself */
#define FATHOM_PERSISTENT_COPY	3	/* copy, through a cached buffer mapped once, with sync */
#define FATHOM_COHERENT		4	/* the packet is in coherent memory */
#define FATHOM_STRATEGIES	5

#define FATHOM_TO_DEVICE	0
#define FATHOM_FROM_DEVICE	1

#define FATHOM_DMA_MAX_BYTES	(1ULL << 20)
#define FATHOM_DMA_MAX_COUNT	4096
#define FATHOM_DMA_MAX_TOTAL	(64ULL << 20)	/* bytes x count */

/* Bits of fathom_dma_sample.flags. */
#define FATHOM_SAMPLE_UNVERIFIED	(1U << 0)	/* nothing was moved, so nothing was compared */
#define FATHOM_SAMPLE_MIGRATED	(1U << 1)	/* began and ended on different CPUs */

/* Bits of fathom_dma_run.flags. */
#define FATHOM_RUN_RESERVED	(1U << 0)	/* out: the buffer is in the reserved memory */

/**
 * struct fathom_dma_sample - one transfer, in ticks
 * @use: the CPU writes (to the device) or reads (from it) every word of the packet
 * @copy: between packet and buffer
 * @map: before the engine: mapping, or sync for the device
 * @engine: the engine's time, all chunks, from command to interrupt handled
 * @unmap: after it: unmapping, or sync for the CPU
 * @wrong: bytes at the far end that differ from those sent
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
 * FATHOM_UNCACHED_COPY with a coherent device: the DMA API's memory would be
 * write-back, so the buffer is memory without another mapping (arm: reserved
 * memory; x86: pages whose linear mapping is changed); refused with EOPNOTSUPP if
 * there is none. FATHOM_COHERENT is coherent memory of the DMA API: with a
 * coherent device that is write-back memory, as @attribute shows.
 *
 * @strategy: FATHOM_STREAMING_COPY ...
 * @direction: FATHOM_TO_DEVICE or FATHOM_FROM_DEVICE
 * @engine: FATHOM_ENGINE_...
 * @count: samples, 1 to FATHOM_DMA_MAX_COUNT
 * @bytes: of a transfer, 1 to FATHOM_DMA_MAX_BYTES
 * @seed: of the data
 * @samples: address of @count struct fathom_dma_sample
 * @done: out: completed samples; fewer than @count after a signal
 * @clock: out: FATHOM_CLOCK_...
 * @coherent: out: 1: the device is coherent with the CPU's caches
 * @chunks: out: engine transfers per sample
 * @wrong: out: wrong bytes of all samples
 * @raw: out: PAR or page table entry of the kernel's mapping of the buffer; 0 if
 *	unknown
 * @attribute: out: its FATHOM_WRITE_BACK ...
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
 * struct fathom_engine - properties of an engine; ENODEV if it is absent
 * @engine: in: FATHOM_ENGINE_...
 * @coherent: out: 1: its device is coherent with the CPU's caches
 * @chunk_bytes: out: maximum bytes of one transfer; 0: no engine, or no limit
 * @align_bytes: out: a run's bytes must be a multiple of this (else EOPNOTSUPP)
 * @device: out: its name, ended by 0; another channel may be used next time
 * @driver: out: the name of its driver, ended by 0
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
 * @alloc: allocating
 * @free: freeing
 */
struct fathom_alloc_sample {
	__u64 alloc;
	__u64 free;
};

/**
 * struct fathom_dma_alloc - allocations, timed
 * @kind: FATHOM_ALLOC_...
 * @engine: the engine for whose device they are
 * @bytes: 1 to FATHOM_DMA_MAX_BYTES
 * @count: samples, 1 to FATHOM_DMA_MAX_COUNT
 * @done: out: completed samples
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

/* Tasks that may read the granted counter. */
#define FATHOM_SCOPE_TASK	1	/* the requesting task only */
#define FATHOM_SCOPE_CPU	2	/* every task on its CPU */

/**
 * struct fathom_counters - the cycle counter, granted to user space
 *
 * For the calling task on the one CPU that it is pinned to, until
 * FATHOM_IOC_COUNTERS_OFF or the end of the opening. The kernel's perf owns the
 * counter during that time and may revoke the grant when it starts events on that
 * CPU; the task gets it again when it is switched to. If the kernel has
 * kernel.perf_user_access, prefer that.
 *
 * @cpu: out
 * @scope: out: FATHOM_SCOPE_...
 * @in_force: out: 1 if the core permits the caller to read it now
 * @reserved: 0
 */
struct fathom_counters {
	__u32 cpu;
	__u32 scope;
	__u32 in_force;
	__u32 reserved;
};

#define FATHOM_EVENTS_MOST	8	/* events of a grant */

/* Bits of fathom_event.flags. */
#define FATHOM_EVENT_USER	(1U << 0)	/* in user space only; ARMv6 and the first PMUs of ARMv7 cannot */

/**
 * struct fathom_event - an event, as struct perf_event_attr names it
 * @type: PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE or PERF_TYPE_RAW
 * @flags: FATHOM_EVENT_...
 * @config: as there
 */
struct fathom_event {
	__u32 type;
	__u32 flags;
	__u64 config;
};

/**
 * struct fathom_events - counters of events, granted to user space; 32-bit ARM only
 *
 * For the calling task on the one CPU that it is pinned to, until
 * FATHOM_IOC_COUNTERS_OFF or the end of the opening; an opening has one grant, and so
 * has a CPU. perf counts on that CPU all the time. What other tasks count there is told
 * in the mapped page, so that the task knows its own. EBUSY: another grant, or no
 * hardware counter is free. EOPNOTSUPP: this machine cannot (other architectures, no
 * tracepoints, caches that alias). EINVAL also: an event that this PMU does not have.
 *
 * @count: events, 1 to FATHOM_EVENTS_MOST
 * @cpu: out
 * @event: the first @count; the others are zero
 * @offset: out: offset for mmap(PROT_READ, MAP_SHARED)
 * @bytes: out: maximum bytes of the mapping
 */
struct fathom_events {
	__u32 count;
	__u32 cpu;
	struct fathom_event event[FATHOM_EVENTS_MOST];
	__u64 offset;
	__u64 bytes;
};

/* Registers of counters: fathom_counted.kind. */
#define FATHOM_COUNTER_V7_CYCLES	1	/* PMCCNTR: mrc p15, 0, c9, c13, 0 */
#define FATHOM_COUNTER_V7_EVENTS	2	/* PMXEVCNTR (c9, c13, 2) with @number in PMSELR (c9, c12, 5) */
#define FATHOM_COUNTER_ARM1176		3	/* c15, c12, 1 (cycles), 2 or 3: @number */

/**
 * struct fathom_counted - where an event of a grant is
 *
 * The task's own count is @count + (__u32)(register - @previous) - @others, up to a
 * constant of the grant.
 *
 * @kind: FATHOM_COUNTER_...
 * @number: of the register
 * @count: count of the event when the register had @previous
 * @others: what other tasks have counted
 * @previous: a value of the register
 * @reserved: 0
 */
struct fathom_counted {
	__u32 kind;
	__u32 number;
	__u64 count;
	__u64 others;
	__u32 previous;
	__u32 reserved;
};

/**
 * struct fathom_events_page - a grant's memory, read-only for user space
 *
 * The task reads it as perf's: sequence, fields and registers, and again if the sequence
 * is another one then.
 *
 * @version: FATHOM_VERSION
 * @sequence: changes with the fields below
 * @allowed: 1: the task runs on its CPU, where it may read and write the registers;
 *	0: an access to them is an illegal instruction
 * @disturbed: times that perf has moved an event while the task ran, because another
 *	pinned event began or ended: counts between two different values are not valid
 * @count: events
 * @reserved: 0
 * @event: as they were asked
 */
struct fathom_events_page {
	__u32 version;
	__u32 sequence;
	__u32 allowed;
	__u32 disturbed;
	__u32 count;
	__u32 reserved;
	struct fathom_counted event[FATHOM_EVENTS_MOST];
};

#define FATHOM_CACHES_MOST	14	/* seven levels (CLIDR), data and instruction */

/**
 * struct fathom_cache_id - a core's cache identification registers; arm only
 * @cpu: out: the core that was read
 * @count: out: entries of @ccsidr, 0 or FATHOM_CACHES_MOST
 * @ctr: out: CTR
 * @clidr: out: CLIDR, 0 if there is none
 * @ccsidr: out: by CSSELR: entry 2n data or unified of level n + 1, 2n + 1
 *	instruction; 0 if CLIDR lists no such cache
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
 * struct fathom_wake_start - a timer that wakes a kernel thread
 *
 * Without CAP_SYS_NICE the CPU must be one on which the caller may run, and a FIFO policy
 * needs RLIMIT_RTPRIO (1, or 50 for the middle one); else EPERM.
 *
 * @period_ns: FATHOM_WAKE_MIN_NS to FATHOM_WAKE_MAX_NS
 * @cpu: its CPU, online
 * @policy: FATHOM_POLICY_...
 * @rows: activations to record, 1 to FATHOM_WAKE_MAX_ROWS; then it ends
 * @reserved: 0
 * @offset: out: offset for mmap(PROT_READ, MAP_SHARED)
 * @bytes: out: maximum bytes of the mapping
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
 * @expires: the time for which the timer was set
 * @irq: the time at which its handler ran
 * @task: the time at which the thread ran
 */
struct fathom_wake {
	__u64 expires;
	__u64 irq;
	__u64 task;
};

#define FATHOM_WAKES_ENDED	1	/* all rows, or stopped */
#define FATHOM_WAKES_MOVED	2	/* its CPU went offline */

/**
 * struct fathom_wakes - the recorder's memory, read-only for user space
 * @version: FATHOM_VERSION
 * @rows: capacity in rows
 * @written: complete rows; only grows, and is stored after the row
 * @ended: FATHOM_WAKES_ENDED or FATHOM_WAKES_MOVED: recording has ended
 * @missed: periods that passed while the thread was not done
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
#define FATHOM_IOC_EVENTS_ON		_IOWR(FATHOM_IOC_MAGIC, 13, struct fathom_events)

#endif /* _UAPI_FATHOM_H */
