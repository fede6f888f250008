/* Two threads count, each in a variable of its own. The two variables are in one line, or with `padded` 256 bytes apart. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STEPS 100000

static volatile long counters[64] __attribute__((aligned(256)));
static pthread_barrier_t begin;

static void *count(void *of)
{
    volatile long *own = of;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < STEPS; i++)
        ++*own;
    return 0;
}

int main(int argc, char **argv)
{
    int padded = argc == 2 && !strcmp(argv[1], "padded");
    volatile long *other = &counters[padded ? 32 : 1];
    pthread_t thread;
    if (pthread_barrier_init(&begin, 0, 2) || pthread_create(&thread, 0, count, (void *)other))
        return 1;
    count((void *)&counters[0]);
    pthread_join(thread, 0);
    printf("%ld\n", counters[0] + *other);
    return 0;
}
