/* Traverses a list of one pointer for each line of 32 bytes, in an order that visits every line once: the list of study S4.
   usage: list BYTES TRAVERSALS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 32
#define MAX_BYTES (1u << 20)

typedef struct node {
    struct node *next;
} node;

static char memory[MAX_BYTES] __attribute__((aligned(4096)));

static node *at(uint32_t line) { return (node *)(memory + line * LINE); }

/* xorshift32 (Marsaglia, 2003). */
static uint32_t random_number(void)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Links the lines to one random cycle (Sattolo, 1986). */
__attribute__((noinline)) static void build(uint32_t lines)
{
    static uint32_t order[MAX_BYTES / LINE];
    for (uint32_t i = 0; i < lines; i++)
        order[i] = i;
    for (uint32_t i = lines - 1; i > 0; i--) {
        uint32_t j = random_number() % i, kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0; i < lines; i++)
        at(order[i])->next = at(order[(i + 1) % lines]);
}

__attribute__((noinline)) static node *traverse(node *list, uint32_t loads)
{
    for (uint32_t i = 0; i < loads; i++)
        list = list->next;
    return list;
}

int main(int argc, char **argv)
{
    uint32_t bytes = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0;
    uint32_t traversals = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
    if (bytes < 2 * LINE || bytes > MAX_BYTES || bytes % LINE || !traversals) {
        fprintf(stderr, "usage: %s BYTES TRAVERSALS, with BYTES from 64 to 1048576 in whole lines of 32\n", argv[0]);
        return 2;
    }
    build(bytes / LINE);
    node *list = at(0);
    /* The same node again, because each traversal is a whole cycle. */
    for (uint32_t i = 0; i < traversals; i++)
        list = traverse(list, bytes / LINE);
    return list == at(0) ? 0 : 1;
}
