/* Marked regions whose page faults and entries are known. The first argument chooses what is done. */
#define _GNU_SOURCE
#include <fathom.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Touches so many new pages. */
static void touch(long pages) {
    long page = sysconf(_SC_PAGESIZE);
    volatile char *at = mmap(0, page * pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    madvise((void *)at, page * pages, MADV_NOHUGEPAGE);
    FATHOM_BEGIN(touch);
    for (long n = 0; n < pages; n++) at[page * n] = 1;
    FATHOM_END(touch);
    munmap((void *)at, page * pages);
}

static void spin(long times) {
    FATHOM_BEGIN(spin);
    for (volatile long n = 0; n < times; n++) {}
    FATHOM_END(spin);
}

static void recurse(int n) {
    FATHOM_BEGIN(recursive);
    if (n) recurse(n - 1);
    FATHOM_END(recursive);
}

static void *thread(void *of) {
    touch(100);
    return of;
}

static void *without_end(void *of) {
    FATHOM_BEGIN(open);
    return of;
}

static void threads(void *(*of)(void *), int pairs) {
    for (int n = 0; n < pairs; n++) {
        pthread_t two[2];
        for (int k = 0; k < 2; k++) if (pthread_create(two + k, 0, of, 0)) abort();
        for (int k = 0; k < 2; k++) pthread_join(two[k], 0);
    }
}

static jmp_buf back;

static void jumps(void) {
    FATHOM_BEGIN(jumped);
    longjmp(back, 1);
}

static volatile long ticks;

static void tick(int signal) {
    (void)signal;
    FATHOM_BEGIN(tick);
    ticks++;
    FATHOM_END(tick);
}

/* Marks inner regions while a timer's handler does, too. Tells how often that was. */
static void handlers(void) {
    struct itimerval each = { { 0, 200 }, { 0, 200 } }, none = { { 0, 0 }, { 0, 0 } };
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &each, 0);
    while (ticks < 1000) {
        FATHOM_BEGIN(inner);
        FATHOM_END(inner);
    }
    setitimer(ITIMER_REAL, &none, 0);
    printf("%ld\n", ticks);
}

/* Overwrites the memory in which marks count, wherever it is. */
static void overwrite(void) {
    const char *of = getenv("FATHOM_REGIONS");
    if (!of) return;
    int file = atoi(of);
    if (!ftruncate(file, 0)) puts("shorter");
    memset(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 0xa5, 1 << 20);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "work";
    if (!strcmp(what, "work")) {
        touch(500);
        spin(100000);
        touch(20);
        recurse(5);
    } else if (!strcmp(what, "threads")) {
        threads(thread, 50);
    } else if (!strcmp(what, "fork")) {
        touch(500);
        if (!fork()) { threads(thread, 1); touch(300); _exit(0); }
        wait(0);
        touch(20);
    } else if (!strcmp(what, "unmatched")) {
        threads(without_end, 5);
        if (!setjmp(back)) jumps();
        FATHOM_END(shut);
        touch(7);
    } else if (!strcmp(what, "closes")) {
        char line[8] = "";
        touch(500);
        for (int file = 3; file < 256; file++) close(file);
        if (open("data", O_RDWR) != 3) abort();
        threads(thread, 1);
        touch(20);
        if (read(3, line, 4) != 4 || strcmp(line, "data")) abort();
    } else if (!strcmp(what, "killed")) {
        touch(500);
        FATHOM_BEGIN(cut);
        raise(SIGKILL);
    } else if (!strcmp(what, "handlers")) {
        handlers();
    } else {
        touch(7);
        overwrite();
    }
    return 0;
}
