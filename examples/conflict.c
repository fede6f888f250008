/* Adds up six arrays of 1 KiB. They are 16 KiB apart, so that their lines fall into the same sets of a cache whose ways have
   16 KiB or a part of it; with `padded`, they are 1 KiB further apart. */
#include <stdio.h>
#include <string.h>

#define ARRAYS 6
#define WORDS 256
#define PASSES 100
#define APART 4096

static volatile int arrays[ARRAYS * (APART + WORDS)] __attribute__((aligned(65536)));

__attribute__((noinline)) static int sum(int apart)
{
    int all = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < WORDS; i++)
            for (int array = 0; array < ARRAYS; array++)
                all += arrays[array * apart + i];
    return all;
}

int main(int argc, char **argv)
{
    int padded = argc == 2 && !strcmp(argv[1], "padded");
    printf("%d\n", sum(padded ? APART + WORDS : APART));
    return 0;
}
