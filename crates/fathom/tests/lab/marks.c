/* Does for a program with marks what `fathom count --region` does, without fathom: shares memory with it, and prints what was counted in a
   region with 2 instructions for each of so many steps, on RISC-V 64:

       marks STEPS...      a line for each: methods, steps, instructions, entries that had no counters all the time */
#include <fathom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONCE 0xfa7404

static void loop(long steps) {
    FATHOM_BEGIN(loop);
    __asm__ volatile("1:\taddi %0, %0, -1\n\tbnez %0, 1b" : "+r"(steps));
    FATHOM_END(loop);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void count(const char *steps) {
    int file = syscall(SYS_memfd_create, "marks", 0), status;
    size_t bytes = (FATHOM_1_THREADS + 1) * FATHOM_1_PART;
    if (file < 0 || ftruncate(file, bytes)) fail("memory");
    struct fathom_1_head *head = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (head == MAP_FAILED) fail("memory");
    head->magic = FATHOM_1_MAGIC_;
    head->nonce = NONCE;
    head->events = 2;
    head->all = 1;
    /* Cycles and instructions, in the kernel too: QEMU's PMU for RISC-V cannot leave it out. */
    head->event[1].config = 1;
    head->ready[0] = head->regions = 1;
    pid_t program = fork();
    if (program == 0) {
        char text[32];
        snprintf(text, sizeof text, "%d:%x", file, NONCE);
        setenv("FATHOM_REGIONS", text, 1);
        execl("/proc/self/exe", "marks", "-", steps, (char *)0);
        fail("the program");
    }
    if (waitpid(program, &status, 0) != program || status) fail("the program");
    struct fathom_1_entry *entry = ((struct fathom_1_part *)((char *)head + FATHOM_1_PART))->entry + 1;
    printf("%u %s %llu %llu\n", head->methods, steps, (unsigned long long)entry->count[1], (unsigned long long)entry->shared);
    munmap(head, bytes);
    close(file);
}

int main(int words, char **word) {
    if (words == 3 && !strcmp(word[1], "-")) {
        loop(atol(word[2]));
        return 0;
    }
    for (int n = 1; n < words; n++) count(word[n]);
    return 0;
}
