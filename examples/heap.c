/* A table, a list and a buffer from the heap. Each is larger than a cache of 32 KiB, and its lines come back in the same order,
   so that each of its accesses misses there. The buffer has memory that the list had. */
#include <stdio.h>
#include <stdlib.h>

#define TABLE 16384
#define NODES 1024
#define BUFFER 1024
/* The allocator's own numbers are beside a block: what is accessed is in other lines. */
#define LINE(of, n) (of)[64 + 64 * (n)]

struct node {
    char before[112];
    struct node *next;
    char after[136 - sizeof(struct node *)];
};

__attribute__((noinline)) static void fill(volatile char *of, int lines)
{
    for (int i = 0; i < lines; i++)
        LINE(of, i) = 1;
}

__attribute__((noinline)) static long sum(const volatile char *of, int lines)
{
    long all = 0;
    for (int i = 0; i < lines; i++)
        all += LINE(of, i);
    return all;
}

__attribute__((noinline)) static struct node *list(void)
{
    struct node *first = 0;
    for (int i = 0; i < NODES; i++) {
        struct node *new = malloc(sizeof *new);
        if (!new)
            exit(1);
        new->next = first;
        first = new;
    }
    return first;
}

int main(void)
{
    char *table = malloc(64 * TABLE + 128);
    if (!table)
        return 1;
    fill(table, TABLE);
    long all = sum(table, TABLE);
    struct node *first = list();
    all += sum(table, TABLE);
    for (const struct node *at = first; at; at = at->next)
        all++;
    while (first) {
        struct node *next = first->next;
        free(first);
        first = next;
    }
    all += sum(table, TABLE);
    char *buffer = malloc(64 * BUFFER + 128);
    if (!buffer)
        return 1;
    fill(buffer, BUFFER);
    all += sum(buffer, BUFFER);
    free(buffer);
    free(table);
    printf("%ld\n", all);
    return 0;
}
