/* Reads an array of 1 MiB twice: along its rows of 4 KiB, 4 x 16384 words, and down the columns, 16 x 256 words. Each half
   is a region, within the region of both. */
#include <fathom.h>
#include <stdio.h>

#define ROWS 256
#define WORDS 1024

static volatile int array[ROWS][WORDS] __attribute__((aligned(4096)));

int main(void)
{
    int sum = 0;
    FATHOM_BEGIN(both);
    for (int part = 0; part < 4; part++) {
        FATHOM_BEGIN(rows);
        for (int row = part * ROWS / 4; row < (part + 1) * ROWS / 4; row++)
            for (int word = 0; word < WORDS; word += 4)
                sum += array[row][word];
        FATHOM_END(rows);
    }
    FATHOM_BEGIN(columns);
    for (int word = 0; word < 16; word++)
        for (int row = 0; row < ROWS; row++)
            sum += array[row][word * 64];
    FATHOM_END(columns);
    FATHOM_END(both);
    printf("%d\n", sum);
    return 0;
}
