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
    fathom_1_u32 methods; /* bits: 1 by read(2), 2 by instructions, 4 by instructions that Fathom's driver grants */
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
    int by_instructions; /* 2: that Fathom's driver grants */
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
int fathom_1_moved(int file);
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

/* Returns a file with another number: a program that closes all files and opens its own does not get that one. */
FATHOM_1_FUNCTION_ int fathom_1_moved(int file)
{
    long moved = fathom_1_call(__NR_fcntl, file, 1030 /* F_DUPFD_CLOEXEC */, 512, 0, 0, 0);
    if (FATHOM_1_FAILED_(moved))
        return file;
    fathom_1_call(__NR_close, file, 0, 0, 0, 0, 0);
    return (int)moved;
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
#elif defined(__riscv)
#define FATHOM_1_READABLE_ 1
/* No instruction of RISC-V orders counters; instret is exact by definition. */
#define FATHOM_1_FENCE_() __asm__ __volatile__("" ::: "memory")
#else
#define FATHOM_1_READABLE_ 0
#endif

/* Where Fathom's driver grants counters (driver/include/uapi/fathom.h). */
#if defined(__arm__) && (!defined(__thumb__) || defined(__thumb2__))
#define FATHOM_1_GRANTED_ 1

/* struct fathom_events and struct fathom_events_page of the driver. */
#define FATHOM_1_GRANTED_EVENTS_ 8

struct fathom_1_grant {
    fathom_1_u32 count, cpu;
    struct {
        fathom_1_u32 type, user;
        fathom_1_u64 config;
    } event[FATHOM_1_GRANTED_EVENTS_];
    fathom_1_u64 offset, bytes;
};

struct fathom_1_granted {
    fathom_1_u32 version, sequence, allowed, disturbed, count, unused;
    struct {
        fathom_1_u32 kind, number;
        fathom_1_u64 count, others;
        fathom_1_u32 previous, unused;
    } event[FATHOM_1_GRANTED_EVENTS_];
};

fathom_1_u32 fathom_1_register(fathom_1_u32 kind, fathom_1_u32 number);
fathom_1_u64 fathom_1_read_granted(struct fathom_1_thread *self, fathom_1_u64 *values);
int fathom_1_open_granted(struct fathom_1_thread *self);

/* Reads a hardware counter: the kernel may select another one in between. */
FATHOM_1_FUNCTION_ fathom_1_u32 fathom_1_register(fathom_1_u32 kind, fathom_1_u32 number)
{
    fathom_1_u32 value = 0, selected = number;
    if (kind == 1)
        __asm__ __volatile__("mrc p15, 0, %0, c9, c13, 0" : "=r"(value));
    else if (kind == 2)
        do {
            __asm__ __volatile__("mcr p15, 0, %2, c9, c12, 5\n\tmcr p15, 0, %3, c7, c5, 4\n\t"
                                 "mrc p15, 0, %0, c9, c13, 2\n\tmrc p15, 0, %1, c9, c12, 5"
                                 : "=&r"(value), "=r"(selected)
                                 : "r"(number), "r"(0));
        } while ((selected & 31) != number);
    else if (number == 1)
        __asm__ __volatile__("mrc p15, 0, %0, c15, c12, 1" : "=r"(value));
    else if (number == 2)
        __asm__ __volatile__("mrc p15, 0, %0, c15, c12, 2" : "=r"(value));
    else
        __asm__ __volatile__("mrc p15, 0, %0, c15, c12, 3" : "=r"(value));
    return value;
}

/* Reads the events of the grant. Returns a number that is another one if perf has moved them; all ones if they are not allowed now. */
FATHOM_1_FUNCTION_ fathom_1_u64 fathom_1_read_granted(struct fathom_1_thread *self, fathom_1_u64 *values)
{
    volatile struct fathom_1_granted *page = (volatile struct fathom_1_granted *)self->page[0];
    fathom_1_u32 events = fathom_1_page->events, sequence, disturbed, n;
    do {
        sequence = page->sequence;
        __asm__ __volatile__("" ::: "memory");
        if (!page->allowed)
            return ~(fathom_1_u64)0;
        /* It counts what is before it: CP15ISB, which ARMv6 has too. */
        __asm__ __volatile__("mcr p15, 0, %0, c7, c5, 4" ::"r"(0) : "memory");
        for (n = 0; n < events && n < FATHOM_1_GRANTED_EVENTS_; n++) {
            fathom_1_u32 now = fathom_1_register(page->event[n].kind, page->event[n].number);
            values[n] = page->event[n].count + (now - page->event[n].previous) - page->event[n].others;
        }
        disturbed = page->disturbed;
        __asm__ __volatile__("" ::: "memory");
    } while (page->sequence != sequence);
    return disturbed;
}

/* Asks the driver for the counters. Returns whether it grants all of them: the thread is on one CPU only, and nobody else has them. */
FATHOM_1_FUNCTION_ int fathom_1_open_granted(struct fathom_1_thread *self)
{
    static const char device[] = "/dev/fathom";
    struct fathom_1_head *head = fathom_1_page;
    struct fathom_1_grant grant;
    fathom_1_u32 n;
    long file, page;
    if (head->events == 0 || head->events > FATHOM_1_GRANTED_EVENTS_)
        return 0;
    for (n = 0; n < FATHOM_1_GRANTED_EVENTS_; n++) {
        int is_asked = n < head->events;
        grant.event[n].type = is_asked ? head->event[n].type : 0;
        grant.event[n].user = is_asked ? head->event[n].flags >> 5 & 1 /* exclude_kernel */ : 0;
        grant.event[n].config = is_asked ? head->event[n].config : 0;
    }
    grant.count = head->events;
    grant.cpu = 0;
    grant.offset = grant.bytes = 0;
    /* O_RDWR | O_CLOEXEC. */
    file = fathom_1_call(__NR_open, (long)device, 02000002, 0, 0, 0, 0);
    if (FATHOM_1_FAILED_(file))
        return 0;
    self->file[0] = fathom_1_moved((int)file);
    /* FATHOM_IOC_EVENTS_ON. */
    if (fathom_1_call(__NR_ioctl, self->file[0], (long)(0xc000f70dul | sizeof grant << 16), (long)&grant, 0, 0, 0))
        return 0;
    /* PROT_READ, MAP_SHARED; in units of 4096 bytes. */
    page = fathom_1_call(__NR_mmap2, 0, 4096, 1, 1, self->file[0], (long)(grant.offset / 4096));
    if (FATHOM_1_FAILED_(page))
        return 0;
    self->page[0] = (volatile char *)page;
    self->by_instructions = 2;
    __sync_fetch_and_or(&head->methods, 4);
    return 1;
}
#else
#define FATHOM_1_GRANTED_ 0
#endif

#if FATHOM_1_READABLE_
fathom_1_u64 fathom_1_counter(fathom_1_u32 number);
int fathom_1_read_page(volatile char *page, fathom_1_u64 *value, fathom_1_u64 *without);

#if defined(__riscv)
/* The CSR cycle and those behind it: 2 is instret, from 3 on hpmcounter3. */
#define FATHOM_1_COUNTER_(n) case n: __asm__ __volatile__("csrr %0, %1" : "=r"(value) : "i"(0xc00 + n)); break;
#else
#define FATHOM_1_COUNTER_(n) case n: __asm__ __volatile__("mrs %0, pmevcntr" #n "_el0" : "=r"(value)); break;
#endif

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
#if defined(__riscv)
    FATHOM_1_COUNTER_(31)
#else
    /* The index of the cycle counter, ARMV8_PMU_CYCLE_IDX of the kernel. */
    case 31: __asm__ __volatile__("mrs %0, pmccntr_el0" : "=r"(value)); break;
#endif
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
#if FATHOM_1_GRANTED_
    if (self->by_instructions == 2)
        return fathom_1_read_granted(self, values);
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
        self->file[n] = fathom_1_moved((int)file);
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
