/* Times pairs of marks of include/fathom.h beside pairs of reads by perf_event_open(2) and, with -DPAPI, by PAPI, in turns, with the
   same events. Started by benches/marks. Arguments: rounds, pairs in a round, then the events: sw or hw. */
#define _GNU_SOURCE
#include <fathom.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef PAPI
#include <papi.h>
#endif

#define MAX_ROUNDS 1000

static int group = -1;
static const char *events;
#ifdef PAPI
static int papi = -1;
#endif

static int opened(unsigned type, unsigned long long config, int leader, unsigned long long format) {
    struct perf_event_attr of;
    memset(&of, 0, sizeof of);
    of.size = sizeof of;
    of.type = type;
    of.config = config;
    of.disabled = leader < 0;
    of.exclude_kernel = of.exclude_hv = 1;
    of.read_format = format;
    return (int)syscall(SYS_perf_event_open, &of, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static unsigned type(void) { return !strcmp(events, "hw") ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE; }
/* Instructions and cycles; page faults and the CPU clock. */
static unsigned long long config(int nth) { return !strcmp(events, "hw") ? (nth ? 0 : 1) : (nth ? 1 : 2); }

/* Lets the marks of this program count these events, or read the clock only. */
static int attach(int count) {
    char value[64];
    int file = memfd_create("marks", 0);
    struct fathom_1_head *head;
    if (file < 0 || ftruncate(file, 4l * FATHOM_1_PART)) exit(1);
    head = mmap(0, FATHOM_1_PART, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    head->magic = FATHOM_1_MAGIC_;
    head->nonce = 1;
    head->all = head->regions = head->ready[0] = 1;
    head->events = (unsigned)count;
    for (int n = 0; n < count; n++) {
        head->event[n].type = type();
        head->event[n].config = config(n);
        head->event[n].flags = 3 << 5;
    }
    snprintf(value, sizeof value, "%d:1", file);
    setenv("FATHOM_REGIONS", value, 1);
    fathom_1_attach();
    if (fathom_1_page && !head->uncounted) return 1;
    fprintf(stderr, "marks cannot count: error %u\n", head->error);
    return 0;
}

static void nothing(long pairs) {
    for (long n = 0; n < pairs; n++) __asm__ volatile("" ::: "memory");
}

static void marks(long pairs) {
    for (long n = 0; n < pairs; n++) {
        FATHOM_BEGIN(pair);
        FATHOM_END(pair);
    }
}

static int open_perf(void) {
    unsigned long long format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    group = opened(type(), config(0), -1, format);
    if (group >= 0 && opened(type(), config(1), group, format) >= 0) return !ioctl(group, PERF_EVENT_IOC_ENABLE, 0);
    perror("perf_event_open");
    return 0;
}

static void perf(long pairs) {
    unsigned long long words[5];
    for (long n = 0; n < 2 * pairs; n++)
        if (read(group, words, sizeof words) != sizeof words) exit(1);
}

#ifdef PAPI
static void papi_pairs(long pairs) {
    long long words[2];
    for (long n = 0; n < 2 * pairs; n++)
        if (PAPI_read(papi, words) != PAPI_OK) exit(1);
}

static int open_papi(void) {
    const char *hw[] = { "PAPI_TOT_INS", "PAPI_TOT_CYC" }, *sw[] = { "perf::PAGE-FAULTS", "perf::TASK-CLOCK" };
    int failed = PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT || PAPI_create_eventset(&papi) != PAPI_OK;
    for (int n = 0; n < 2 && !failed; n++) {
        int why = PAPI_add_named_event(papi, !strcmp(events, "hw") ? hw[n] : sw[n]);
        if (why != PAPI_OK) fprintf(stderr, "PAPI: %s: %s\n", (!strcmp(events, "hw") ? hw : sw)[n], PAPI_strerror(why));
        failed = why != PAPI_OK;
    }
    return !failed && PAPI_start(papi) == PAPI_OK;
}
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int compared(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct candidate {
    const char *name;
    /* Opens what it reads; returns whether that is possible. */
    int (*open)(void);
    void (*run)(long);
};

struct result {
    int is_there, by_instructions;
    double ns[MAX_ROUNDS], instructions;
};

/* Times a candidate in a process of its own, so that nobody else's counters are open. In round -1 its instructions are counted. */
static void one(const struct candidate *of, struct result *result, int round, long pairs) {
    unsigned long long before = 0, after = 0;
    int counter;
    double begin;
    if (!of->open()) _exit(0);
    counter = round < 0 ? opened(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0) : -1;
    of->run(pairs / 10 + 1);
    if (counter >= 0) {
        ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
        if (read(counter, &before, 8) != 8) _exit(1);
        of->run(pairs);
        if (read(counter, &after, 8) != 8) _exit(1);
        result->instructions = (double)(after - before) / (double)pairs;
    }
    begin = now();
    of->run(pairs);
    if (round >= 0) result->ns[round] = (now() - begin) / (double)pairs;
    result->by_instructions = fathom_1_page && fathom_1_page->methods == 2;
    result->is_there = 1;
    _exit(0);
}

static int nothing_to_open(void) { return 1; }
static int attach_clock(void) { return attach(0); }
static int attach_events(void) { return attach(2); }

int main(int count, char **words) {
    static const struct candidate all[] = {
        { "a loop", nothing_to_open, nothing },
        { "marks, not counted", nothing_to_open, marks },
        { "marks, the clock only", attach_clock, marks },
        { "marks, two events and clock", attach_events, marks },
        { "perf: read(2) of a group", open_perf, perf },
#ifdef PAPI
        { "PAPI: PAPI_read", open_papi, papi_pairs },
#endif
    };
    enum { ALL = sizeof all / sizeof *all };
    int rounds = count > 3 ? atoi(words[1]) : 0;
    long pairs = count > 3 ? atol(words[2]) : 0;
    struct result *results = mmap(0, ALL * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    events = count > 3 ? words[3] : "";
    if (rounds < 1 || rounds > MAX_ROUNDS || pairs < 1 || results == MAP_FAILED) return 2;
    for (int round = -1; round < rounds; round++)
        for (int n = 0; n < ALL; n++) {
            int at = (n + round + 1) % ALL, status = 1;
            pid_t child = fork();
            if (child == 0) one(all + at, results + at, round, pairs);
            if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
                fprintf(stderr, "marks: %s failed\n", all[at].name);
                return 1;
            }
        }
    printf("ns for a pair of %ld, minimum/median/maximum of %d rounds; instructions in user space\n", pairs, rounds);
    for (int n = 0; n < ALL; n++) {
        struct result *of = results + n;
        if (!of->is_there) continue;
        qsort(of->ns, (size_t)rounds, sizeof *of->ns, compared);
        printf("%-28s %9.1f %9.1f %9.1f", all[n].name, of->ns[0], of->ns[rounds / 2], of->ns[rounds - 1]);
        if (of->instructions > 0) printf(" %9.1f", of->instructions);
        puts(of->by_instructions ? "  by instructions" : "");
    }
    return 0;
}
