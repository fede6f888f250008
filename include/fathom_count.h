/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Not for use: what the marks of fathom.h do while `fathom count --region` runs the program. That has put the number of an open file and
 * a number that only this run has into the environment. The file is memory that both share (`memfd_create`): what is to be
 * counted, and what was. Each thread opens its own counters at its first mark, and writes to its own part of the file.
 *
 * Names have the version of the file's layout, so that programs and libraries of different versions keep apart. They are weak:
 * those of all files and libraries of a program are one. There are no static variables, and no calls of the C library but
 * clock_gettime, so that marks change no errno and may be in a signal's handler.
 */

#ifndef FATHOM_COUNT_H
#define FATHOM_COUNT_H

#include "fathom_counters.h"

#ifdef __cplusplus
extern "C" {
#endif

extern char **fathom_1_environ __asm__("environ") __attribute__((weak));

long fathom_1_index(struct fathom_1_thread *self, const char *name);
int fathom_1_is_file(long file, fathom_1_u64 nonce);
struct fathom_1_thread *fathom_1_new(int process, int number);
struct fathom_1_thread *fathom_1_take_part(void);
struct fathom_1_thread *fathom_1_enter(void);
void fathom_1_begin(const char *name);
void fathom_1_end(const char *name);
void fathom_1_attach(void);

/* Where a name's number is kept. */
#define FATHOM_1_PLACE_(name) ((fathom_1_u32)((unsigned long)(name) >> 2) % FATHOM_1_CACHED)

/* Returns the number of a region; -1 if it does not count. */
FATHOM_1_FUNCTION_ long fathom_1_index(struct fathom_1_thread *self, const char *name)
{
    struct fathom_1_head *head = fathom_1_page;
    fathom_1_u32 at = FATHOM_1_PLACE_(name), n, c, listed = head->regions;
    /* Where a library was unloaded, there may be another name now. */
    if (self->cached[at] == name) {
        const char *known = head->name[self->index[at]];
        for (c = 0; name[c] && name[c] == known[c]; c++) {
        }
        if (name[c] == known[c])
            return (long)self->index[at];
    }
    for (n = 0;; n++) {
        if (n >= listed || n >= FATHOM_1_REGIONS) {
            if (!head->all)
                return -1;
            for (c = 0; name[c]; c++) {
            }
            n = c < FATHOM_1_NAME ? __sync_fetch_and_add(&head->regions, 1) : FATHOM_1_REGIONS;
            if (n >= FATHOM_1_REGIONS) {
                if (c < FATHOM_1_NAME)
                    __sync_fetch_and_sub(&head->regions, 1);
                __sync_fetch_and_add(&head->overflow, 1);
                return -1;
            }
            for (c = 0; name[c]; c++)
                head->name[n][c] = name[c];
            __sync_synchronize();
            head->ready[n] = 1;
            break;
        }
        for (c = 0; c < FATHOM_1_NAME && name[c] && name[c] == head->name[n][c]; c++) {
        }
        if (c < FATHOM_1_NAME && head->ready[n] && name[c] == head->name[n][c])
            break;
    }
    self->cached[at] = name;
    self->index[at] = n;
    return (long)n;
}

#ifdef __NR_mmap2
#define FATHOM_1_MAP_(length, flags, file, at) fathom_1_call(__NR_mmap2, 0, length, 3, flags, file, (at) / 4096)
#else
#define FATHOM_1_MAP_(length, flags, file, at) fathom_1_call(__NR_mmap, 0, length, 3, flags, file, at)
#endif

/* Returns whether this is the file of a run: another one may have its number. Reading at a place changes nothing. */
FATHOM_1_FUNCTION_ int fathom_1_is_file(long file, fathom_1_u64 nonce)
{
    fathom_1_u64 told[2] = { 0, 0 };
    long length = fathom_1_call(__NR_pread64, file, (long)told, 16, 0, 0, 0);
    return length == 16 && told[0] == FATHOM_1_MAGIC_ && told[1] == nonce;
}

/* Returns what a thread needs: that of one that has ended, or a new one; 0 without memory. */
FATHOM_1_FUNCTION_ struct fathom_1_thread *fathom_1_new(int process, int number)
{
    struct fathom_1_thread *self, *first;
    long memory;
    for (self = fathom_1_list; self; self = self->next) {
        int before = self->number;
        int has_ended = before == 0 || before == number ||
                        fathom_1_call(__NR_tgkill, process, before, 0, 0, 0, 0) == -3 /* ESRCH */;
        if (has_ended && __sync_bool_compare_and_swap(&self->number, before, number)) {
            fathom_1_close(self);
            self->is_ready = self->busy = 0;
            return self;
        }
    }
    memory = FATHOM_1_MAP_(sizeof *self, 0x22 /* MAP_PRIVATE | MAP_ANONYMOUS */, -1, 0);
    if (FATHOM_1_FAILED_(memory))
        return 0;
    self = (struct fathom_1_thread *)memory;
    /* MADV_WIPEONFORK, since Linux 4.14. */
    self->may_fork = fathom_1_call(__NR_madvise, memory, sizeof *self, 18, 0, 0, 0) != 0;
    self->number = number;
    do {
        first = fathom_1_list;
        self->next = first;
    } while (!__sync_bool_compare_and_swap(&fathom_1_list, first, self));
    return self;
}

/* The calling thread takes part. Returns 0 if it cannot. */
FATHOM_1_FUNCTION_ struct fathom_1_thread *fathom_1_take_part(void)
{
    struct fathom_1_head *head = fathom_1_page;
    struct fathom_1_thread *self = fathom_1_self;
    int process = (int)fathom_1_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
    int number = (int)fathom_1_call(__NR_gettid, 0, 0, 0, 0, 0, 0), n;
    void *here = (void *)&fathom_1_self;
    /* In a forked process this is known already, and zeros, which another thread may have taken. */
    if (self && self->owner != here && (self->owner || !__sync_bool_compare_and_swap(&self->number, 0, number)))
        self = 0;
    if (!self)
        self = fathom_1_new(process, number);
    if (!self) {
        __sync_fetch_and_add(&head->uncounted, 1);
        return 0;
    }
    self->number = number;
    self->owner = here;
    if (self->process != process) {
        fathom_1_u32 part = __sync_fetch_and_add(&head->threads, 1);
        long memory = -1;
        if (part < FATHOM_1_THREADS && fathom_1_is_file(fathom_1_file, head->nonce))
            memory = FATHOM_1_MAP_(FATHOM_1_PART, 1 /* MAP_SHARED */, fathom_1_file, (long)(part + 1) * FATHOM_1_PART);
        if (part >= FATHOM_1_THREADS)
            __sync_fetch_and_sub(&head->threads, 1);
        self->part = FATHOM_1_FAILED_(memory) ? 0 : (struct fathom_1_part *)memory;
        for (n = 0; n < FATHOM_1_EVENTS; n++) {
            self->file[n] = 0;
            self->page[n] = 0;
        }
        self->process = process;
    } else if (self->part) {
        /* Regions that the thread before has not left. */
        for (n = 0; n < FATHOM_1_REGIONS; n++)
            if (self->part->entry[n].depth) {
                self->part->entry[n].unmatched += 1;
                self->part->entry[n].depth = 0;
            }
    }
    self->by_instructions = 0;
    self->is_ready = 2;
    if (self->part) {
        int is_open = 0;
#if defined(__aarch64__)
        is_open = fathom_1_open(self, 2);
#elif FATHOM_1_GRANTED_
        is_open = fathom_1_open_granted(self);
#endif
        if (!is_open)
            fathom_1_close(self);
        if (is_open || fathom_1_open(self, 0))
            self->is_ready = 1;
    }
    if (self->is_ready == 2) {
        fathom_1_close(self);
        __sync_fetch_and_add(&head->uncounted, 1);
    }
    self->busy = 0;
    fathom_1_self = self;
    return self;
}

/* Returns the calling thread, which is busy then; 0 if it does not take part. */
FATHOM_1_FUNCTION_ struct fathom_1_thread *fathom_1_enter(void)
{
    struct fathom_1_thread *self = fathom_1_self;
    if (!self || !self->is_ready || self->owner != (void *)&fathom_1_self ||
        (self->may_fork && self->process != (int)fathom_1_call(__NR_getpid, 0, 0, 0, 0, 0, 0)))
        self = fathom_1_take_part();
    if (!self || self->is_ready != 1)
        return 0;
    if (self->busy) {
        /* In the handler of a signal that came during a mark. */
        __sync_fetch_and_add(&fathom_1_page->lost, 1);
        return 0;
    }
    self->busy = 1;
    __asm__ __volatile__("" ::: "memory");
    return self;
}

FATHOM_1_FUNCTION_ void fathom_1_begin(const char *name)
{
    struct fathom_1_thread *self = fathom_1_enter();
    long index = self ? fathom_1_index(self, name) : -1;
    if (index >= 0) {
        struct fathom_1_entry *entry = self->part->entry + index;
        if (entry->depth++ == 0) {
            entry->begin_ns = fathom_1_now();
            entry->begin_without = fathom_1_read(self, entry->begin);
        }
    }
    __asm__ __volatile__("" ::: "memory");
    if (self)
        self->busy = 0;
}

FATHOM_1_FUNCTION_ void fathom_1_end(const char *name)
{
    fathom_1_u64 now[FATHOM_1_EVENTS];
    fathom_1_u64 without = 0, ns = 0;
    struct fathom_1_thread *self = fathom_1_enter();
    /* If it is a region that counts, as it seems, the look-up is not in it. */
    int is_known = self && self->cached[FATHOM_1_PLACE_(name)] == name;
    long index;
    if (is_known) {
        without = fathom_1_read(self, now);
        ns = fathom_1_now();
    }
    index = self ? fathom_1_index(self, name) : -1;
    if (index >= 0) {
        struct fathom_1_entry *entry = self->part->entry + index;
        if (entry->depth == 1) {
            fathom_1_u32 n, events = fathom_1_page->events;
            if (!is_known) {
                without = fathom_1_read(self, now);
                ns = fathom_1_now();
            }
            ns -= entry->begin_ns;
            entry->writing++;
            __sync_synchronize();
            entry->entered++;
            entry->ns += ns;
            entry->shared += without != entry->begin_without || without == ~(fathom_1_u64)0;
            for (n = 0; n < events && n < FATHOM_1_EVENTS; n++)
                entry->count[n] += now[n] - entry->begin[n];
            entry->depth = 0;
            __sync_synchronize();
            entry->writing++;
        } else if (entry->depth > 1) {
            entry->depth--;
        } else {
            entry->unmatched++;
        }
    }
    __asm__ __volatile__("" ::: "memory");
    if (self)
        self->busy = 0;
}

/* Takes part if the environment has the file of a run, and measures what empty pairs count and take. */
FATHOM_1_FUNCTION_ void fathom_1_attach(void)
{
    static const char key[] = "FATHOM_REGIONS=";
    char **of = &fathom_1_environ ? fathom_1_environ : 0;
    fathom_1_u64 nonce = 0, begin;
    long file = 0, memory;
    const char *at = 0;
    int n;
    for (; of && *of && !at; of++) {
        for (n = 0; key[n] && (*of)[n] == key[n]; n++) {
        }
        at = key[n] ? 0 : *of + n;
    }
    if (!at || fathom_1_page)
        return;
    /* Nobody lets a program with more rights than its user open counters. */
    if (fathom_1_call(__NR_getuid, 0, 0, 0, 0, 0, 0) != fathom_1_call(__NR_geteuid, 0, 0, 0, 0, 0, 0) ||
        fathom_1_call(__NR_getgid, 0, 0, 0, 0, 0, 0) != fathom_1_call(__NR_getegid, 0, 0, 0, 0, 0, 0))
        return;
    for (; *at >= '0' && *at <= '9' && file < 0x1000000; at++)
        file = file * 10 + (*at - '0');
    if (*at++ != ':')
        return;
    for (; *at; at++)
        nonce = nonce * 16 + (fathom_1_u64)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    if (!fathom_1_is_file(file, nonce))
        return;
    memory = FATHOM_1_MAP_(FATHOM_1_PART, 1 /* MAP_SHARED */, (int)file, 0);
    if (FATHOM_1_FAILED_(memory))
        return;
    fathom_1_file = (int)file;
    fathom_1_page = (struct fathom_1_head *)memory;
    if (__sync_fetch_and_add(&fathom_1_page->attached, 1) != 0)
        return;
    for (n = 0; n < 8; n++) {
        fathom_1_begin("");
        fathom_1_end("");
    }
    if (!fathom_1_self || fathom_1_self->is_ready != 1)
        return;
    {
        struct fathom_1_entry *entry = fathom_1_self->part->entry;
        entry->entered = entry->ns = entry->shared = 0;
        for (n = 0; n < FATHOM_1_EVENTS; n++)
            entry->count[n] = 0;
    }
    begin = fathom_1_now();
    for (n = 0; n < 64; n++) {
        fathom_1_begin("");
        fathom_1_end("");
    }
    fathom_1_page->pairs_ns = fathom_1_now() - begin;
    fathom_1_page->pairs = 64;
}

/* Each file of the program has one: the first one attaches. */
static __attribute__((constructor, unused)) void fathom_1_start(void)
{
    if (!fathom_1_page)
        fathom_1_attach();
}

/* A note that tells that the marks of this program or library count, too. */
__asm__(".pushsection .note.fathom,\"G\",\"note\",fathom_1_note,comdat\n"
        "\t.balign 4\n"
        "\t.4byte 7, 4, 1\n"
        "\t.asciz \"fathom\"\n"
        "\t.balign 4\n"
        "\t.4byte 1\n"
        "\t.popsection");

#ifdef __cplusplus
}
#endif

#endif
