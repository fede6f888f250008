/* The program of the small guest (kernel.c), without a library. */
#define FATHOM_MARKS_ONLY
#include <fathom.h>
#include <fathom_guest.h>

enum { PAGE = 4096, USED = 6, ROUNDS = 100 };
static volatile char pages[USED][PAGE] __attribute__((aligned(PAGE)));
static volatile char buffer[PAGE] __attribute__((aligned(PAGE)));
static volatile long counted;
/* 64 KiB that nothing else accesses, and what is read before and after. */
enum { LINE = 64, LINES = 1024 };
static char lines[LINES * LINE] __attribute__((aligned(PAGE)));
static struct fathom_guest_counts of_cpu[3] __attribute__((aligned(LINE))), of_all[3] __attribute__((aligned(LINE)));

__attribute__((always_inline)) static inline unsigned long call(unsigned long what, const volatile void *argument) {
    register unsigned long x0 __asm__("x0") = what;
    register const volatile void *x1 __asm__("x1") = argument;
    __asm__ volatile("svc #0" : "+r"(x0), "+r"(x1) : : "memory");
    return x0;
}

/* Loads one line of each page in turn. */
__attribute__((noinline)) static void read_pages(void) {
    FATHOM_BEGIN(pages);
    for (int round = 0; round < ROUNDS; round++)
        for (int page = 0; page < USED; page++)
            (void)pages[page][0];
    FATHOM_END(pages);
}

/* 100000 instructions or so without memory, which the timer interrupts. */
__attribute__((noinline)) static void spin(void) {
    unsigned long left = 50000;
    __asm__ volatile("1:\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
}

__attribute__((noinline)) static void recurse(int left) {
    if (left > 0)
        recurse(left - 1);
    counted++;
}

__attribute__((noinline)) static void ask(void) {
    for (int n = 0; n < 3; n++)
        call(1, buffer);
}

__attribute__((noinline)) static void have_worked(void) {
    call(2, 0);
    spin();
    call(2, 0);
}

/* Four instructions for each line, one of them a load. */
__attribute__((noinline)) static void walk(void) {
    char *at = lines;
    __asm__ volatile("1:\tldrb w9, [%0]\n\tadd %0, %0, #64\n\tcmp %0, %1\n\tb.ne 1b"
                     : "+r"(at)
                     : "r"(lines + sizeof lines)
                     : "x9", "cc", "memory");
}

/* Prints what walk() adds to a read of the counters. */
__attribute__((noinline)) static void read_counters(struct fathom_guest_page *page) {
    for (int n = 0; n < 3; n++) {
        if (n == 2)
            walk();
        if (fathom_guest_read_as(page, 7, &of_cpu[n], &of_all[n]))
            return;
    }
#define ADDED(field) (of_cpu[2].field - 2 * of_cpu[1].field + of_cpu[0].field)
    call(4, (void *)ADDED(instructions));
    call(4, (void *)ADDED(loads));
    call(4, (void *)ADDED(stores));
    call(4, (void *)ADDED(misses[0]));
    call(4, (void *)ADDED(memory));
    call(4, (void *)ADDED(walks));
    call(4, (void *)(ADDED(units) / page->units_per_cycle));
    call(4, (void *)(of_all[2].instructions - of_cpu[2].instructions));
    call(4, (void *)of_all[2].instructions);
    call(4, (void *)page->levels);
    call(4, (void *)(unsigned long)page->names[0][0]);
}

void _start(void) {
    read_pages();
    ask();
    recurse(4);
    spin();
    have_worked();
    struct fathom_guest_page *page = (struct fathom_guest_page *)call(3, 0);
    if (page)
        read_counters(page);
    call(0, 0);
}
