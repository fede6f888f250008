/* A region with 2 instructions for each of so many steps, on AArch64, on two threads if a second argument is given; and pairs of
   marks with nothing in between within a region. */
#include <fathom.h>
#include <pthread.h>
#include <stdlib.h>

static long steps;

static void *loop(void *of) {
    FATHOM_BEGIN(loop);
    __asm__ volatile("mov x9, %0\n1:\tsubs x9, x9, #1\n\tb.ne 1b" ::"r"(steps) : "x9", "cc");
    FATHOM_END(loop);
    return of;
}

int main(int count, char **words) {
    pthread_t other;
    steps = count > 1 ? atol(words[1]) : 1;
    if (count > 2 && pthread_create(&other, 0, loop, 0)) abort();
    loop(0);
    if (count > 2) pthread_join(other, 0);
    FATHOM_BEGIN(pairs);
    for (int n = 0; n < 1000; n++) {
        FATHOM_BEGIN(pair);
        FATHOM_END(pair);
    }
    FATHOM_END(pairs);
    return 0;
}
