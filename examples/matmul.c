/* The textbook matrix multiplication, and the same with its inner loops interchanged. The rows of a matrix are 4 KiB, so the
   textbook's walk down a column of `b` is on another page, and in another line of the same sets, at every step. The first ROWS
   rows of the product are computed. */
#include <stdio.h>
#include <string.h>

#define N 1024
#define ROWS 4

static float a[ROWS][N] __attribute__((aligned(4096)));
static float b[N][N] __attribute__((aligned(4096)));
static float c[ROWS][N] __attribute__((aligned(4096)));

__attribute__((noinline)) static void textbook(void)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < N; k++) {
                float left = a[i][k];
                sum += left * b[k][j];
            }
            c[i][j] = sum;
        }
}

__attribute__((noinline)) static void interchanged(void)
{
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < N; k++) {
            float left = a[i][k];
            for (int j = 0; j < N; j++)
                c[i][j] += left * b[k][j];
        }
}

int main(int argc, char **argv)
{
    int exchange = argc == 2 && !strcmp(argv[1], "interchanged");
    if (argc != 2 || (!exchange && strcmp(argv[1], "textbook"))) {
        fprintf(stderr, "usage: %s textbook|interchanged\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < N; k++)
            a[i][k] = (float)(k % 7 + i);
    for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++)
            b[k][j] = (float)((k + j) % 5);
    if (exchange)
        interchanged();
    else
        textbook();
    printf("%.0f %.0f\n", (double)c[0][0], (double)c[ROWS - 1][N - 1]);
    return 0;
}
