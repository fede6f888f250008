/* Works in `inner` and in `outer`, a quarter of the time, tells the CPU time of each, and has a child process that does it again. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
__attribute__((noinline)) static void inner(long n) { for (volatile long i = 0; i < n; i++); }
__attribute__((noinline)) static void outer(long n) { for (volatile long i = 0; i < n; i++); }
static void work(long n) {
    long long start = now(), middle;
    inner(3 * n);
    middle = now();
    outer(n);
    printf("took %lld %lld\n", middle - start, now() - middle);
    fflush(stdout);
}
int main(int count, char **words) {
    long n = count > 1 ? atol(words[1]) : 0;
    if (count > 2 && !fork()) { work(n); _exit(0); }
    work(n);
    wait(0);
    return count > 3;
}
