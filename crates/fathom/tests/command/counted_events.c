/* Loads and stores whose events are known by arithmetic: the difference between two numbers of lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096

static volatile int first[16 * MOST] __attribute__((aligned(4096)));
static volatile int second[16 * MOST] __attribute__((aligned(4096)));

int main(int argc, char **argv)
{
    int lines = argc == 3 ? atoi(argv[2]) : 0;
    if (lines < 1 || lines > MOST) {
        fprintf(stderr, "usage: %s sequential|alternating|stores LINES\n", argv[0]);
        return 2;
    }
    if (!strcmp(argv[1], "sequential")) /* each line of 32 bytes is read in 8 loads */
        for (int i = 0; i < 8 * lines; i++)
            first[i];
    if (!strcmp(argv[1], "alternating")) /* no load follows one of its line */
        for (int i = 0; i < 8 * lines; i++) {
            first[i];
            second[i];
        }
    if (!strcmp(argv[1], "stores")) /* two stores to each line of 64 bytes, in two passes */
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < lines; i++)
                first[16 * i] = pass;
    return 0;
}
