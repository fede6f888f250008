/* For AArch64: a region with 6 instructions, 2 loads and a store for each of so many steps, twice. Its steps go along an array that
   has been touched, so nothing in it calls the kernel. Prints what a third one adds to the counters that the guest reads, if it can. */
#include <fathom.h>
#include <fathom_guest.h>
#include <stdio.h>
#include <string.h>

enum { LINES = 4096, LINE = 64 };
static char array[LINES * LINE] __attribute__((aligned(4096)));

static void pass(void) {
    FATHOM_BEGIN(loop);
    char *at = array;
    __asm__ volatile("1:\tldr x9, [%0]\n"
                     "\tldrb w10, [%0, #8]\n"
                     "\tstr x9, [%0, #16]\n"
                     "\tadd %0, %0, #64\n"
                     "\tcmp %0, %1\n"
                     "\tb.ne 1b"
                     : "+r"(at)
                     : "r"(array + sizeof array)
                     : "x9", "x10", "cc", "memory");
    FATHOM_END(loop);
}

/* The same accesses in no region. */
static void walk(void) {
    for (volatile char *at = array; at < array + sizeof array; at += LINE) {
        (void)*at;
        (void)at[8];
        at[16] = 0;
    }
}

static int count(struct fathom_guest_page *page) {
    struct fathom_guest_counts of_cpu[3], of_all;
    for (int n = 0; n < 3; n++) {
        if (n == 2)
            walk();
        if (fathom_guest_read(page, &of_cpu[n], &of_all))
            return 1;
    }
#define ADDED(field) (long)(of_cpu[2].field - 2 * of_cpu[1].field + of_cpu[0].field)
    printf("added %ld loads %ld stores %ld misses of %s\n", ADDED(loads), ADDED(stores), ADDED(misses[0]), page->names[0]);
    return 0;
}

int main(void) {
    memset(array, 1, sizeof array);
    pass();
    pass();
    struct fathom_guest_page *page = fathom_guest_open();
    return page ? count(page) : 0;
}
