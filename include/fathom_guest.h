/* Counters of a guest under `fathom simulate --system --counters`: what the described machine has counted, read within the guest.
 *
 *     struct fathom_guest_page *page = fathom_guest_open();
 *     struct fathom_guest_counts before, after, all;
 *     fathom_guest_read(page, &before, &all);
 *     ...
 *     fathom_guest_read(page, &after, &all);
 *
 * They are in a page of memory that the guest and the simulation share: the BAR 2 of a PCI device (QEMU's ivshmem-plain). A store to its
 * `ask` has the simulation write what is counted up to that store, of the CPU that has made it and of all, before the next instruction.
 *
 * - What they are: counts of the first machine of --on, exact for its description, of kernel and programs together. What is read is neither
 *   disturbed by the reading of others nor estimated.
 * - What they are not: the guest's time. Its clock counts instructions and does not wait for misses: `units` is what the machine would
 *   have taken.
 * - Accesses to the page are no accesses of the machine. The instructions that read it count, and so do their stores to the caller's
 *   memory: the difference of two reads has those of one read.
 *
 * Each function returns 0 or a page; else -1 or a null pointer. fathom_guest_open needs Linux and root. */
#ifndef FATHOM_GUEST_H
#define FATHOM_GUEST_H

#include <stdint.h>

#define FATHOM_GUEST_MAGIC 0x70676d6f68746166ull /* "fathomgp", little endian */
#define FATHOM_GUEST_VERSION 1
#define FATHOM_GUEST_LEVELS 8

/* Counts since the guest has begun. */
struct fathom_guest_counts {
    uint64_t instructions;
    /* Time as `fathom simulate` reports it if every access waits, in parts of a cycle: units_per_cycle of the page. */
    uint64_t units;
    uint64_t loads, stores, fetches;
    uint64_t walks;
    /* Accesses that memory served. */
    uint64_t memory;
    /* Accesses that reached each level, and that it did not serve, in the order of the description: names of the page. */
    uint64_t accesses[FATHOM_GUEST_LEVELS], misses[FATHOM_GUEST_LEVELS];
};

/* The page. */
struct fathom_guest_page {
    uint64_t magic, version;
    /* The guest stores any number but 0, at once. */
    volatile uint32_t ask;
    /* Then this is that number, and ask is 0. */
    volatile uint32_t answered;
    /* The CPU that has asked. */
    volatile uint64_t cpu;
    uint64_t levels, units_per_cycle, clock_hz;
    /* Counts of that CPU, and of all. */
    volatile struct fathom_guest_counts of_cpu, of_all;
    char names[FATHOM_GUEST_LEVELS][16];
};

/* Copies counts by words, as device memory needs it. */
static inline void fathom_guest_copy(struct fathom_guest_counts *to, const volatile struct fathom_guest_counts *from) {
    const volatile uint64_t *words = (const volatile uint64_t *)from;
    for (unsigned at = 0; at < sizeof *to / sizeof *words; at++)
        ((uint64_t *)to)[at] = words[at];
}

/* Reads the counts of the calling CPU up to now, and those of all. `token` is any number but 0 that no other thread uses at the same
   time. Fails if nothing answers, or others read without a pause. */
static inline int fathom_guest_read_as(struct fathom_guest_page *page, uint32_t token,
                                       struct fathom_guest_counts *of_cpu, struct fathom_guest_counts *of_all) {
    for (int tries = 0; tries < 1000; tries++) {
        page->ask = token;
        __sync_synchronize();
        fathom_guest_copy(of_cpu, &page->of_cpu);
        fathom_guest_copy(of_all, &page->of_all);
        __sync_synchronize();
        /* Another thread may have asked in between. */
        if (page->answered == token)
            return 0;
    }
    return -1;
}

#if defined(__linux__) && __STDC_HOSTED__
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The same with a token of this thread. */
static inline int fathom_guest_read(struct fathom_guest_page *page, struct fathom_guest_counts *of_cpu,
                                    struct fathom_guest_counts *of_all) {
    uint32_t token = (uint32_t)getpid() * 2654435761u ^ (uint32_t)((uintptr_t)&token >> 4);
    return fathom_guest_read_as(page, token ? token : 1, of_cpu, of_all);
}

/* Whether a file of a device in /sys has a text. */
static inline int fathom_guest_is(const char *device, const char *file, const char *text) {
    char path[512], read_text[16] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device, file);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return 0;
    ssize_t got = read(from, read_text, sizeof read_text - 1);
    close(from);
    return got > 0 && strncmp(read_text, text, strlen(text)) == 0;
}

/* Maps the page of a device, if it is one of the simulation. */
static inline struct fathom_guest_page *fathom_guest_map(const char *device) {
    char path[512];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", device);
    int enable = open(path, O_WRONLY | O_CLOEXEC);
    if (enable >= 0) {
        if (write(enable, "1", 1) != 1) {
            close(enable);
            return 0;
        }
        close(enable);
    }
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource2", device);
    int memory = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
    if (memory < 0)
        return 0;
    struct fathom_guest_page *page =
        (struct fathom_guest_page *)mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    if (page == MAP_FAILED)
        return 0;
    if (page->magic == FATHOM_GUEST_MAGIC && page->version == FATHOM_GUEST_VERSION)
        return page;
    munmap(page, sizeof *page);
    return 0;
}

/* Finds the page: that of the PCI device 1af4:1110 whose contents are those of the simulation. */
static inline struct fathom_guest_page *fathom_guest_open(void) {
    DIR *devices = opendir("/sys/bus/pci/devices");
    struct fathom_guest_page *page = 0;
    struct dirent *entry;
    while (devices && !page && (entry = readdir(devices)))
        if (fathom_guest_is(entry->d_name, "vendor", "0x1af4") && fathom_guest_is(entry->d_name, "device", "0x1110"))
            page = fathom_guest_map(entry->d_name);
    if (devices)
        closedir(devices);
    return page;
}
#endif

#endif
