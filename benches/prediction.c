/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernels whose time `fathom simulate` predicts: pairs of variants of the same work. Each run executes one of them, between marks of
 * fathom.h with its name, and prints its CPU time in ns and a checksum.
 *
 *     prediction KERNEL
 *     prediction sets WAY WAYS    independent loads by sets of an L1 with so many ways of WAY bytes: sets, ns of a miss, ns of a hit
 *     prediction branches         ms of sort_merge, and of the same on sorted numbers: as many accesses, and predicted branches
 *     prediction issue            ns for each instruction of a loop of independent ones
 *
 * Memory is in base pages, as fathom simulate has it: transparent huge pages are switched off for the process.
 */
#define _GNU_SOURCE
#include <fathom.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static uint64_t seed = 1;

static uint64_t draw(void) { /* xorshift64*, Vigna 2016 */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * 0x2545f4914f6cdd1dULL;
}

static void *memory(size_t bytes) {
    void *at = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!at) {
        fprintf(stderr, "prediction: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(at, 0, bytes);
    return at;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void shuffle(uint32_t *all, uint32_t n) {
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = draw() % (i + 1), other = all[i];
        all[i] = all[j];
        all[j] = other;
    }
}

static uint32_t *order(uint32_t n, int shuffled) {
    uint32_t *all = memory(n * sizeof *all);
    for (uint32_t i = 0; i < n; i++)
        all[i] = i;
    if (shuffled)
        shuffle(all, n);
    return all;
}

static uint64_t begun, taken;

#define KERNEL(name, work)                                                                                             \
    do {                                                                                                               \
        begun = now();                                                                                                 \
        FATHOM_BEGIN(name);                                                                                            \
        work;                                                                                                          \
        FATHOM_END(name);                                                                                              \
        taken = now() - begun;                                                                                         \
    } while (0)

/* A list of nodes of a line each, in the order of addresses or shuffled: every load depends on the one before. */
struct node {
    struct node *next;
    uint64_t value, pad[6];
};

static void chain(struct node *nodes, const uint32_t *at, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        nodes[at[i]].next = &nodes[at[(i + 1) % n]];
        nodes[at[i]].value = i;
    }
}

static struct node *list(uint32_t n, int shuffled) {
    struct node *nodes = memory(n * sizeof *nodes);
    uint32_t *at = order(n, shuffled);
    chain(nodes, at, n);
    struct node *first = &nodes[at[0]];
    free(at);
    return first;
}

static __attribute__((noinline)) uint64_t walk(const struct node *at, uint32_t steps) {
    uint64_t sum = 0;
    for (; steps > 0; steps--) {
        sum += at->value;
        at = at->next;
    }
    return sum;
}

/* The same numbers by an index, in order or shuffled: loads that do not depend on each other. */
static __attribute__((noinline)) uint64_t gather(const struct node *nodes, const uint32_t *at, uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += nodes[at[i]].value;
    return sum;
}

#define SIDE 4096u /* of a matrix of 4-byte numbers: 64 MiB */

static __attribute__((noinline)) uint64_t rows(const uint32_t *m) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SIDE; i++)
        for (uint32_t j = 0; j < SIDE; j++)
            sum += m[i * SIDE + j];
    return sum;
}

static __attribute__((noinline)) uint64_t columns(const uint32_t *m) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < SIDE; j++)
        for (uint32_t i = 0; i < SIDE; i++)
            sum += m[i * SIDE + j];
    return sum;
}

#define N 256 /* of matrices of doubles: 512 KiB each */

static __attribute__((noinline)) void ijk(double *c, const double *a, const double *b) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i * N + k] * b[k * N + j];
            c[i * N + j] = sum;
        }
}

static __attribute__((noinline)) void ikj(double *c, const double *a, const double *b) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double left = a[i * N + k];
            for (int j = 0; j < N; j++)
                c[i * N + j] += left * b[k * N + j];
        }
}

/* A hash join: a table of keys, and another relation that looks its keys up; whole, or by partitions that fit in the L2. */
struct entry {
    uint32_t key, value;
};

#define BUILD (1u << 20)
#define PROBE (1u << 21)
#define TABLE (1u << 22) /* entries: 32 MiB */
#define PARTS 128u

static uint32_t hash(uint32_t key) { return key * 2654435761u; }

static __attribute__((noinline)) void put(struct entry *table, uint32_t mask, const struct entry *of, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = hash(of[i].key) & mask;
        while (table[at].key)
            at = (at + 1) & mask;
        table[at] = of[i];
    }
}

static __attribute__((noinline)) uint64_t probe(const struct entry *table, uint32_t mask, const struct entry *of, uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t at = hash(of[i].key) & mask; table[at].key; at = (at + 1) & mask)
            if (table[at].key == of[i].key) {
                sum += table[at].value;
                break;
            }
    return sum;
}

static __attribute__((noinline)) void partition(const struct entry *of, uint32_t n, struct entry *to, uint32_t *starts) {
    uint32_t next[PARTS] = {0};
    for (uint32_t i = 0; i < n; i++)
        next[hash(of[i].key) >> 25]++;
    for (uint32_t part = 0, at = 0; part < PARTS; part++) {
        uint32_t count = next[part];
        starts[part] = next[part] = at;
        at += count;
    }
    starts[PARTS] = n;
    for (uint32_t i = 0; i < n; i++)
        to[next[hash(of[i].key) >> 25]++] = of[i];
}

static uint64_t join(struct entry *table, const struct entry *left, const struct entry *right) {
    put(table, TABLE - 1, left, BUILD);
    return probe(table, TABLE - 1, right, PROBE);
}

static uint64_t join_parts(struct entry *table, const struct entry *left, const struct entry *right, struct entry *l, struct entry *r) {
    static uint32_t ls[PARTS + 1], rs[PARTS + 1];
    uint64_t sum = 0;
    partition(left, BUILD, l, ls);
    partition(right, PROBE, r, rs);
    for (uint32_t part = 0; part < PARTS; part++) {
        struct entry *own = table + part * (TABLE / PARTS);
        put(own, TABLE / PARTS - 1, l + ls[part], ls[part + 1] - ls[part]);
        sum += probe(own, TABLE / PARTS - 1, r + rs[part], rs[part + 1] - rs[part]);
    }
    return sum;
}

/* Breadth-first search in a grid, each vertex with four neighbours; vertices numbered by rows, or at random. */
#define GRID 1400u
#define VERTICES (GRID * GRID)

static __attribute__((noinline)) uint64_t bfs(const uint32_t *edges, uint32_t *level, uint32_t *queue, uint32_t first) {
    uint32_t head = 0, tail = 0;
    uint64_t sum = 0;
    level[first] = 1;
    queue[tail++] = first;
    while (head < tail) {
        uint32_t at = queue[head++];
        sum += level[at];
        for (int e = 0; e < 4; e++) {
            uint32_t to = edges[4 * at + e];
            if (level[to] == 0) {
                level[to] = level[at] + 1;
                queue[tail++] = to;
            }
        }
    }
    return sum;
}

static uint32_t *grid(int shuffled) {
    uint32_t *name = order(VERTICES, shuffled), *edges = memory(4 * VERTICES * sizeof *edges);
    for (uint32_t i = 0; i < VERTICES; i++) {
        uint32_t row = i / GRID, column = i % GRID, *of = edges + 4 * (size_t)name[i];
        of[0] = name[(row + 1) % GRID * GRID + column];
        of[1] = name[(row + GRID - 1) % GRID * GRID + column];
        of[2] = name[row * GRID + (column + 1) % GRID];
        of[3] = name[row * GRID + (column + GRID - 1) % GRID];
    }
    free(name);
    return edges;
}

static __attribute__((noinline)) void triad(double *a, const double *b, const double *c, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0 * c[i];
}

static __attribute__((noinline)) void triad_lines(double *a, const double *b, const double *c, uint32_t n) {
    for (uint32_t first = 0; first < 512; first += 8) /* a line of each page, then the next line */
        for (uint32_t page = 0; page < n; page += 512)
            for (uint32_t i = page + first; i < page + first + 8; i++)
                a[i] = b[i] + 3.0 * c[i];
}

#define SORTED (1u << 20)

static void down(uint32_t *a, uint32_t at, uint32_t n) {
    uint32_t value = a[at], child;
    for (; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && a[child + 1] > a[child])
            child++;
        if (a[child] <= value)
            break;
        a[at] = a[child];
    }
    a[at] = value;
}

static __attribute__((noinline)) void heap_sort(uint32_t *a, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;)
        down(a, i, n);
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t first = a[0];
        a[0] = a[i];
        a[i] = first;
        down(a, 0, i);
    }
}

static __attribute__((noinline)) void merge_sort(uint32_t *a, uint32_t *b, uint32_t n) {
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t from = 0; from < n; from += 2 * width) {
            uint32_t i = from, j = from + width, ends = j, last = j + width;
            for (uint32_t k = from; k < last; k++)
                b[k] = j == last || (i < ends && a[i] <= a[j]) ? a[i++] : a[j++];
        }
        uint32_t *other = a;
        a = b;
        b = other;
    }
}

/* What a description cannot say: whether misses whose lines are in the same set of the L1 overlap like others. */

#define LOADS 4096u
#define CALLS 2000u

static __attribute__((noipa)) uint64_t load_all(const char *from, const uint32_t *at) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOADS; i++)
        sum += *(const uint64_t *)(from + at[i]);
    return sum;
}

/* Returns ns for a load of `lines` lines in each of so many sets, in random order, none of which depends on another. */
static double loads_in(uint32_t sets, uint32_t lines, uint32_t way) {
    uint32_t all = sets * lines, at[LOADS];
    char *from = memory((size_t)lines * way);
    uint32_t *order_of = order(all, 1);
    for (uint32_t i = 0; i < LOADS; i++) {
        uint32_t line = order_of[i % all];
        at[i] = line / sets * way + line % sets * 64;
    }
    uint64_t sum = 0, least = UINT64_MAX;
    for (uint32_t call = 0; call < CALLS; call++) {
        uint64_t start = now();
        sum += load_all(from, at);
        uint64_t ns = now() - start;
        least = ns < least ? ns : least;
    }
    free(from);
    free(order_of);
    return sum == 0 ? (double)least / LOADS : -1;
}

/* Eight times as many lines as the sets hold, which an L2 serves that is larger than eight L1, and half as many, which the L1 serves. */
static void same_sets(uint32_t way, uint32_t ways) {
    for (uint32_t sets = 1; sets <= way / 64; sets *= 2)
        printf("sets %u %.3f %.3f\n", sets, loads_in(sets, 8 * ways, way), loads_in(sets, ways / 2, way));
}

/* What a description needs and no survey drafts. */

#define FOUR(x) x x x x

/* Independent instructions of the kinds that programs mix: additions, loads of one line, an addition of vectors. (Instructions
   that do nothing are no measure: some cores execute two as one.) */
static void issue(void) {
    uint64_t a = 1, b = 2, c = 3, d, e, turns = 2000000, here = 7, start = now();
    for (uint64_t turn = 0; turn < turns; turn++)
#if defined(__x86_64__)
        __asm__ volatile(FOUR(FOUR("add %6, %0; mov %5, %3; add %6, %1; mov %5, %4; add %6, %2; paddd %%xmm1, %%xmm0\n"))
                         : "+r"(a), "+r"(b), "+r"(c), "=&r"(d), "=&r"(e)
                         : "m"(here), "r"(turns)
                         : "xmm0");
#else
#error "write the instructions of this processor"
#endif
    /* 96 of them, and two instructions of the loop. */
    printf("issue %.5f %llu\n", (double)(now() - start) / turns / 98, (unsigned long long)(a + b + c + d + e));
}

static uint64_t sum_of(const uint32_t *a, uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum = 31 * sum + a[i];
    return sum;
}

#define NODES (1u << 20) /* 64 MiB */

static int lists(const char *name, uint64_t *sum) {
    int shuffled = strstr(name, "shuffled") != 0;
    uint32_t *at;
    struct node *nodes;
    if (!strncmp(name, "list", 4)) {
        nodes = list(NODES, shuffled);
        if (shuffled)
            KERNEL(list_shuffled, *sum = walk(nodes, NODES));
        else
            KERNEL(list_in_order, *sum = walk(nodes, NODES));
        return 1;
    }
    if (strncmp(name, "gather", 6))
        return 0;
    nodes = list(NODES, 0);
    at = order(NODES, shuffled);
    if (shuffled)
        KERNEL(gather_shuffled, *sum = gather(nodes, at, NODES));
    else
        KERNEL(gather_in_order, *sum = gather(nodes, at, NODES));
    return 1;
}

static int matrices(const char *name, uint64_t *sum) {
    if (!strncmp(name, "sum", 3)) {
        uint32_t *m = memory((size_t)SIDE * SIDE * sizeof *m);
        for (uint32_t i = 0; i < SIDE * SIDE; i++)
            m[i] = i;
        if (strstr(name, "rows"))
            KERNEL(sum_rows, *sum = rows(m));
        else
            KERNEL(sum_columns, *sum = columns(m));
        return 1;
    }
    if (!strncmp(name, "triad", 5)) {
        uint32_t n = 1u << 22;
        double *a = memory(n * sizeof *a), *b = memory(n * sizeof *b), *c = memory(n * sizeof *c);
        for (uint32_t i = 0; i < n; i++)
            b[i] = c[i] = i;
        if (strstr(name, "lines"))
            KERNEL(triad_lines, triad_lines(a, b, c, n));
        else
            KERNEL(triad_in_order, triad(a, b, c, n));
        *sum = (uint64_t)a[n - 1];
        return 1;
    }
    if (strncmp(name, "matmul", 6))
        return 0;
    double *a = memory(N * N * sizeof *a), *b = memory(N * N * sizeof *b), *c = memory(N * N * sizeof *c);
    for (int i = 0; i < N * N; i++)
        a[i] = b[i] = i % 7;
    if (strstr(name, "ijk"))
        KERNEL(matmul_ijk, ijk(c, a, b));
    else
        KERNEL(matmul_ikj, ikj(c, a, b));
    *sum = (uint64_t)c[N * N - 1];
    return 1;
}

static int tables(const char *name, uint64_t *sum) {
    if (!strncmp(name, "join", 4)) {
        struct entry *table = memory(TABLE * sizeof *table), *left = memory(BUILD * sizeof *left);
        struct entry *right = memory(PROBE * sizeof *right);
        struct entry *l = memory(BUILD * sizeof *l), *r = memory(PROBE * sizeof *r);
        uint32_t *keys = order(BUILD, 1);
        for (uint32_t i = 0; i < BUILD; i++)
            left[i] = (struct entry){keys[i] + 1, i};
        for (uint32_t i = 0; i < PROBE; i++)
            right[i] = (struct entry){draw() % BUILD + 1, i};
        if (strstr(name, "parts"))
            KERNEL(join_parts, *sum = join_parts(table, left, right, l, r));
        else
            KERNEL(join_whole, *sum = join(table, left, right));
        return 1;
    }
    if (!strncmp(name, "bfs", 3)) {
        uint32_t *edges = grid(strstr(name, "shuffled") != 0);
        uint32_t *level = memory(VERTICES * sizeof *level), *queue = memory(VERTICES * sizeof *queue);
        if (strstr(name, "shuffled"))
            KERNEL(bfs_shuffled, *sum = bfs(edges, level, queue, 0));
        else
            KERNEL(bfs_in_order, *sum = bfs(edges, level, queue, 0));
        return 1;
    }
    if (strncmp(name, "sort", 4))
        return 0;
    uint32_t *a = memory(SORTED * sizeof *a), *b = memory(SORTED * sizeof *b);
    for (uint32_t i = 0; i < SORTED; i++)
        a[i] = (uint32_t)draw();
    if (strstr(name, "heap"))
        KERNEL(sort_heap, heap_sort(a, SORTED));
    else
        KERNEL(sort_merge, merge_sort(a, b, SORTED));
    *sum = sum_of(a, SORTED); /* an even number of passes: the result is in a */
    return 1;
}

static void branches(void) {
    double least[2] = {0};
    uint32_t *a = memory(SORTED * sizeof *a), *b = memory(SORTED * sizeof *b);
    for (int run = 0; run < 10; run++) {
        int sorted = run % 2;
        for (uint32_t i = 0; i < SORTED; i++)
            a[i] = sorted ? i : (uint32_t)draw();
        uint64_t start = now();
        merge_sort(a, b, SORTED);
        double ms = (double)(now() - start) / 1e6;
        least[sorted] = run < 2 || ms < least[sorted] ? ms : least[sorted];
    }
    printf("branches %.2f %.2f %llu\n", least[0], least[1], (unsigned long long)sum_of(a, SORTED));
}

int main(int argc, char **argv) {
    uint64_t sum = 0;
    /* Not under QEMU, which has its own pages. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (argc == 4 && !strcmp(argv[1], "sets") && atoi(argv[2]) >= 64 && atoi(argv[2]) <= 1 << 20 && atoi(argv[3]) >= 2 && atoi(argv[3]) <= 64)
        return same_sets((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3])), 0;
    if (argc == 2 && !strcmp(argv[1], "branches"))
        return branches(), 0;
    if (argc == 2 && !strcmp(argv[1], "issue"))
        return issue(), 0;
    if (argc != 2 || !(lists(argv[1], &sum) || matrices(argv[1], &sum) || tables(argv[1], &sum))) {
        fprintf(stderr, "usage: prediction KERNEL | sets WAY WAYS | branches | issue (see benches/prediction)\n");
        return 2;
    }
    printf("%s %llu %llu\n", argv[1], (unsigned long long)taken, (unsigned long long)sum);
    return 0;
}
