/* For AArch64: a region with 6 instructions, 2 loads and a store for each of so many steps, twice. Its steps go along an array that
   has been touched, so nothing in it calls the kernel. */
#include <fathom.h>
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

int main(void) {
    memset(array, 1, sizeof array);
    pass();
    pass();
    return 0;
}
