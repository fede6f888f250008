/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the marks of fathom.h have of the system: the shared file, system calls, the clock and counters. See fathom_count.h. */
#ifndef FATHOM_COUNTERS_H
#define FATHOM_COUNTERS_H

#include <asm/unistd.h>

#define FATHOM_1_EVENTS 16
#define FATHOM_1_REGIONS 192
#define FATHOM_1_NAME 64
#define FATHOM_1_THREADS 1023
/* Length of a part of the file: the first one is the head, then those of threads. A multiple of every page. */
#define FATHOM_1_PART 65536
#define FATHOM_1_MAGIC_ ((fathom_1_u64)0x66746d68 << 32 | 0x72656731)
#define FATHOM_1_CACHED 16

typedef unsigned int fathom_1_u32;
typedef unsigned int fathom_1_u64 __attribute__((mode(DI)));
typedef int fathom_1_s64 __attribute__((mode(DI)));

struct fathom_1_event {
    fathom_1_u64 config;
    fathom_1_u64 flags; /* the bits of perf_event_attr */
    fathom_1_u32 type;
    fathom_1_u32 unused;
};

/* The head of the file. */
struct fathom_1_head {
    fathom_1_u64 magic;
    fathom_1_u64 nonce;
    /* What is asked. */
    fathom_1_u32 events;
    fathom_1_u32 all; /* whether regions count that are not in the list yet */
    struct fathom_1_event event[FATHOM_1_EVENTS];
    /* What is answered. */
    fathom_1_u32 attached; /* processes and libraries that take part */
    fathom_1_u32 threads;  /* parts that are taken */
    fathom_1_u32 uncounted; /* threads without a part or without counters */
    fathom_1_u32 error;    /* why: errno of the event of the next number; 0 without a part */
    fathom_1_u32 error_event;
    fathom_1_u32 methods; /* bits: 1 by read(2), 2 by instructions */
    fathom_1_u32 lost;    /* marks within a mark of the same thread */
    fathom_1_u32 regions; /* length of the list */
    fathom_1_u32 overflow; /* entries of regions for which the list is too short, or the name too long */
    fathom_1_u32 pairs;   /* pairs of marks of region 0 that were timed */
    fathom_1_u64 pairs_ns; /* time of all of them */
    fathom_1_u32 ready[FATHOM_1_REGIONS];
    char name[FATHOM_1_REGIONS][FATHOM_1_NAME]; /* region 0 has no name: that of empty pairs */
};

/* A region on a thread. */
struct fathom_1_entry {
    fathom_1_u32 writing; /* odd while it is changed */
    fathom_1_u32 depth;
    fathom_1_u64 entered; /* times that it was entered from outside, and left */
    fathom_1_u64 unmatched;
    fathom_1_u64 ns;
    fathom_1_u64 shared; /* of these times: those in which the counters were not all the time those of this thread */
    fathom_1_u64 count[FATHOM_1_EVENTS];
    fathom_1_u64 begin_ns;
    fathom_1_u64 begin_without; /* time until then without hardware counters, ns */
    fathom_1_u64 begin[FATHOM_1_EVENTS];
};

/* A thread's part of the file. */
struct fathom_1_part {
    fathom_1_u64 unused[8];
    struct fathom_1_entry entry[FATHOM_1_REGIONS];
};

/* What a thread knows, in memory that is zeros in a process that it forks. */
struct fathom_1_thread {
    struct fathom_1_thread *next;
    void *owner; /* the variable of the thread that has it */
    int number;
    int process;
    int is_ready; /* 1; 2: it does not take part */
    int may_fork; /* whether this memory stays in such a process */
    int busy;
    int by_instructions;
    int file[FATHOM_1_EVENTS];
    volatile char *page[FATHOM_1_EVENTS];
    struct fathom_1_part *part;
    const char *cached[FATHOM_1_CACHED];
    fathom_1_u32 index[FATHOM_1_CACHED];
};

/* struct perf_event_attr, of its first version. */
struct fathom_1_attributes {
    fathom_1_u32 type, size;
    fathom_1_u64 config, sample_period, sample_type, read_format, flags;
    fathom_1_u32 wakeup_events, bp_type;
    fathom_1_u64 config1;
};

struct fathom_1_time {
    long s, ns;
};

#ifdef __cplusplus
extern "C" {
#endif

#define FATHOM_1_ONE_ __attribute__((weak, visibility("default")))
#define FATHOM_1_FUNCTION_ __attribute__((weak, visibility("default"), noinline, cold))

FATHOM_1_ONE_ struct fathom_1_head *volatile fathom_1_page = 0;
FATHOM_1_ONE_ struct fathom_1_thread *volatile fathom_1_list = 0;
FATHOM_1_ONE_ int fathom_1_file = 0;
__extension__ FATHOM_1_ONE_ __thread struct fathom_1_thread *fathom_1_self __attribute__((tls_model("initial-exec"))) = 0;

#if __SIZEOF_POINTER__ == 8
extern int fathom_1_gettime(int, struct fathom_1_time *) __asm__("clock_gettime");
#else
/* With times of 64 bits it has another name. */
extern int fathom_1_gettime(int, struct fathom_1_time *) __asm__("clock_gettime") __attribute__((weak));
#endif

long fathom_1_call(long number, long a, long b, long c, long d, long e, long f);
fathom_1_u64 fathom_1_now(void);
fathom_1_u64 fathom_1_read(struct fathom_1_thread *self, fathom_1_u64 *values);
fathom_1_u64 fathom_1_read_file(struct fathom_1_thread *self, fathom_1_u64 *values);
int fathom_1_open(struct fathom_1_thread *self, int config1);
void fathom_1_close(struct fathom_1_thread *self);

/* A system call. The result of a failed one is -errno. */
FATHOM_1_FUNCTION_ long fathom_1_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ __volatile__("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#elif defined(__arm__)
    /* Thumb code may have its frame in r7. */
    long kept;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    register long r5 __asm__("r5") = f;
    __asm__ __volatile__("mov %1, r7\n\tmov r7, %2\n\tsvc 0\n\tmov r7, %1"
                         : "+r"(r0), "=&r"(kept)
                         : "r"(number), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                         : "memory");
    return r0;
#else
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ __volatile__("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
#endif
}

#define FATHOM_1_FAILED_(result) ((unsigned long)(result) > -4096ul)

/* CLOCK_MONOTONIC, ns. */
FATHOM_1_FUNCTION_ fathom_1_u64 fathom_1_now(void)
{
    struct fathom_1_time now = { 0, 0 };
#if __SIZEOF_POINTER__ == 8
    fathom_1_gettime(1, &now);
#else
    if (fathom_1_gettime)
        fathom_1_gettime(1, &now);
    else
        fathom_1_call(__NR_clock_gettime, 1, (long)&now, 0, 0, 0, 0);
#endif
    return (fathom_1_u64)now.s * 1000000000 + (fathom_1_u64)now.ns;
}

/* Reads the group. Returns the time in which it had no hardware counters, ns. */
FATHOM_1_FUNCTION_ fathom_1_u64 fathom_1_read_file(struct fathom_1_thread *self, fathom_1_u64 *values)
{
    /* Number, time enabled and running, counts. */
    fathom_1_u64 words[3 + FATHOM_1_EVENTS];
    fathom_1_u32 events = fathom_1_page->events, n;
    long length = fathom_1_call(__NR_read, self->file[0], (long)words, (long)sizeof words, 0, 0, 0);
    if (events > FATHOM_1_EVENTS || length != (long)(8 * (3 + events)))
        return ~(fathom_1_u64)0;
    for (n = 0; n < events; n++)
        values[n] = words[3 + n];
    return words[1] - words[2];
}

#if defined(__x86_64__)
#define FATHOM_1_READABLE_ 1
/* Counts what is before it. */
#define FATHOM_1_FENCE_() __asm__ __volatile__("lfence" ::: "memory")
#elif defined(__aarch64__)
#define FATHOM_1_READABLE_ 1
#define FATHOM_1_FENCE_() __asm__ __volatile__("isb" ::: "memory")
#else
#define FATHOM_1_READABLE_ 0
#endif

#if FATHOM_1_READABLE_
fathom_1_u64 fathom_1_counter(fathom_1_u32 number);
int fathom_1_read_page(volatile char *page, fathom_1_u64 *value, fathom_1_u64 *without);

#define FATHOM_1_COUNTER_(n) case n: __asm__ __volatile__("mrs %0, pmevcntr" #n "_el0" : "=r"(value)); break;

/* Reads a hardware counter. */
FATHOM_1_FUNCTION_ fathom_1_u64 fathom_1_counter(fathom_1_u32 number)
{
#if defined(__x86_64__)
    fathom_1_u32 low, high;
    __asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(number));
    return low | (fathom_1_u64)high << 32;
#else
    fathom_1_u64 value = 0;
    switch (number) {
    FATHOM_1_COUNTER_(0) FATHOM_1_COUNTER_(1) FATHOM_1_COUNTER_(2) FATHOM_1_COUNTER_(3) FATHOM_1_COUNTER_(4)
    FATHOM_1_COUNTER_(5) FATHOM_1_COUNTER_(6) FATHOM_1_COUNTER_(7) FATHOM_1_COUNTER_(8) FATHOM_1_COUNTER_(9)
    FATHOM_1_COUNTER_(10) FATHOM_1_COUNTER_(11) FATHOM_1_COUNTER_(12) FATHOM_1_COUNTER_(13) FATHOM_1_COUNTER_(14)
    FATHOM_1_COUNTER_(15) FATHOM_1_COUNTER_(16) FATHOM_1_COUNTER_(17) FATHOM_1_COUNTER_(18) FATHOM_1_COUNTER_(19)
    FATHOM_1_COUNTER_(20) FATHOM_1_COUNTER_(21) FATHOM_1_COUNTER_(22) FATHOM_1_COUNTER_(23) FATHOM_1_COUNTER_(24)
    FATHOM_1_COUNTER_(25) FATHOM_1_COUNTER_(26) FATHOM_1_COUNTER_(27) FATHOM_1_COUNTER_(28) FATHOM_1_COUNTER_(29)
    FATHOM_1_COUNTER_(30)
    /* The index of the cycle counter, ARMV8_PMU_CYCLE_IDX of the kernel. */
    case 31: __asm__ __volatile__("mrs %0, pmccntr_el0" : "=r"(value)); break;
    default: break;
    }
    return value;
#endif
}

/* Reads an event as struct perf_event_mmap_page describes. Returns whether it has a counter now. */
FATHOM_1_FUNCTION_ int fathom_1_read_page(volatile char *page, fathom_1_u64 *value, fathom_1_u64 *without)
{
    fathom_1_u32 lock, index;
    do {
        fathom_1_u32 width;
        fathom_1_u64 count = 0;
        lock = *(volatile fathom_1_u32 *)(page + 8);
        __asm__ __volatile__("" ::: "memory");
        index = *(volatile fathom_1_u32 *)(page + 12);
        *value = *(volatile fathom_1_u64 *)(page + 16);
        *without = *(volatile fathom_1_u64 *)(page + 24) - *(volatile fathom_1_u64 *)(page + 32);
        width = *(volatile unsigned short *)(page + 48);
        if (index && width >= 1 && width <= 64) {
            count = fathom_1_counter(index - 1) << (64 - width);
            *value += (fathom_1_u64)((fathom_1_s64)count >> (64 - width));
        }
        __asm__ __volatile__("" ::: "memory");
    } while (*(volatile fathom_1_u32 *)(page + 8) != lock);
    return index != 0;
}
#endif

/* Reads the events, with the time in which they had no hardware counters. */
FATHOM_1_FUNCTION_ fathom_1_u64 fathom_1_read(struct fathom_1_thread *self, fathom_1_u64 *values)
{
    fathom_1_u32 events = fathom_1_page->events;
    if (events == 0 || events > FATHOM_1_EVENTS)
        return 0;
#if FATHOM_1_READABLE_
    if (self->by_instructions) {
        fathom_1_u64 without = 0;
        fathom_1_u32 n;
        FATHOM_1_FENCE_();
        for (n = 0; n < events && fathom_1_read_page(self->page[n], values + n, &without); n++) {
        }
        if (n == events)
            return without;
    }
#endif
    return fathom_1_read_file(self, values);
}

/* Opens the counters. config1 of arm64: 2 asks for reads by instructions. Returns whether all are open. */
FATHOM_1_FUNCTION_ int fathom_1_open(struct fathom_1_thread *self, int config1)
{
    struct fathom_1_head *head = fathom_1_page;
    fathom_1_u32 events = head->events, n;
    for (n = 0; n < events && n < FATHOM_1_EVENTS; n++) {
        struct fathom_1_attributes of = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        long file;
        of.type = head->event[n].type;
        of.size = sizeof of;
        of.config = head->event[n].config;
        /* One that joins a group that counts already would count later: the first one begins disabled. */
        of.flags = head->event[n].flags | (n == 0);
        of.read_format = 1 | 2 | 8; /* times, and the whole group */
        of.config1 = (fathom_1_u64)config1;
        /* This thread, every CPU; the flag closes it at exec(2). */
        file = fathom_1_call(__NR_perf_event_open, (long)&of, 0, -1, n ? self->file[0] : -1, 8, 0);
        if (FATHOM_1_FAILED_(file)) {
            if (!config1) {
                head->error = (fathom_1_u32)-file;
                head->error_event = n;
            }
            return 0;
        }
        self->file[n] = (int)file;
        /* A program that closes all files and opens its own does not get this number: F_DUPFD_CLOEXEC. */
        file = fathom_1_call(__NR_fcntl, file, 1030, 512, 0, 0, 0);
        if (!FATHOM_1_FAILED_(file)) {
            fathom_1_call(__NR_close, self->file[n], 0, 0, 0, 0, 0);
            self->file[n] = (int)file;
        }
    }
    if (events == 0)
        return 1;
    fathom_1_call(__NR_ioctl, self->file[0], 0x2400 /* PERF_EVENT_IOC_ENABLE */, 0, 0, 0, 0);
#if FATHOM_1_READABLE_
    self->by_instructions = 1;
    for (n = 0; n < events; n++) {
        /* A page: PROT_READ, MAP_SHARED. */
        long page = fathom_1_call(__NR_mmap, 0, 4096, 1, 1, self->file[n], 0);
        self->page[n] = FATHOM_1_FAILED_(page) ? 0 : (volatile char *)page;
        /* cap_user_rdpmc, and the number of a counter. */
        if (!self->page[n] || !(*(volatile fathom_1_u64 *)(self->page[n] + 40) & 4) ||
            !*(volatile fathom_1_u32 *)(self->page[n] + 12))
            self->by_instructions = 0;
    }
#endif
    __sync_fetch_and_or(&head->methods, self->by_instructions ? 2 : 1);
    return 1;
}

FATHOM_1_FUNCTION_ void fathom_1_close(struct fathom_1_thread *self)
{
    int n;
    for (n = 0; n < FATHOM_1_EVENTS; n++) {
        if (self->page[n])
            fathom_1_call(__NR_munmap, (long)self->page[n], 4096, 0, 0, 0, 0);
        if (self->file[n] > 0)
            fathom_1_call(__NR_close, self->file[n], 0, 0, 0, 0, 0);
        self->page[n] = 0;
        self->file[n] = 0;
    }
}

#ifdef __cplusplus
}
#endif

#endif
