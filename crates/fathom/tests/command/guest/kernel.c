/* A kernel for QEMU's virt machine (AArch64) that is small enough to know what it does. It maps the pages of one program, whose file is
   in memory at FILE, starts it, and answers its system calls: 0 ends, 1 reads the caller's buffer and its own table, 2 has the worker
   work, 3 stops the timer and returns the address of the page with counters, if there is one, 4 prints a number. The timer interrupts
   everything every 20000 instructions or so.

   The program's page n is the physical page 4n after PAGES: all have one colour in a cache whose ways have 16 KiB. */
typedef unsigned long word;
typedef unsigned char byte;

#define FILE 0x48000000ul
#define PAGES 0x44000000ul
#define START 0x400000ul
#define PAGE 4096ul
/* QEMU's virt machine with highmem=off: the configuration of PCI's bus 0, a place for its memory, the serial port. */
#define PCI 0x3f000000ul
#define BAR 0x10000000ul
#define PORT 0x09000000ul
/* Where the program finds the page. */
#define COUNTERS 0x500000ul

enum { LINE = 64, TABLE_LINES = 1024, BUFFER_LINES = 64, JOBS = 3 };

/* What a task is: where it has stopped. */
struct task {
    word registers[13];
    word number;
    char name[16];
};

static word level1[512] __attribute__((aligned(4096)));
static word level2[512] __attribute__((aligned(4096)));
static word level3[512] __attribute__((aligned(4096)));
byte table[TABLE_LINES * LINE] __attribute__((aligned(4096)));
byte worker_stack[8192] __attribute__((aligned(16)));
byte kernel_stack[8192] __attribute__((aligned(16)));
struct task first = { .number = 0, .name = "swapper/0" }, worker = { .number = 8, .name = "worker" };
volatile word ticks;
static int counters;

void cpu_switch_to(struct task *from, struct task *to);

__asm__(".text\n"
        ".global start\n"
        /* A load from the page of the code tells where both are. */
        "start:\tldr w0, start\n"
        "\tadrp x0, kernel_stack + 8192\n"
        "\tadd sp, x0, :lo12:kernel_stack + 8192\n"
        "\tadrp x0, vectors\n"
        "\tadd x0, x0, :lo12:vectors\n"
        "\tmsr vbar_el1, x0\n"
        "\tb boot\n"

        ".macro entry of\n"
        "\t.balign 128\n"
        "\tsub sp, sp, #272\n"
        "\tstp x0, x1, [sp]\n"
        "\tb \\of\n"
        ".endm\n"
        ".balign 2048\n"
        ".global vectors\n"
        "vectors:\n"
        "\tentry stop\n\tentry stop\n\tentry stop\n\tentry stop\n"
        "\tentry stop\n\tentry interrupted\n\tentry stop\n\tentry stop\n"
        "\tentry called\n\tentry interrupted\n\tentry stop\n\tentry stop\n"
        "\tentry stop\n\tentry stop\n\tentry stop\n\tentry stop\n"
        ".macro save\n"
        "\tstp x2, x3, [sp, #16]\n\tstp x4, x5, [sp, #32]\n\tstp x6, x7, [sp, #48]\n\tstp x8, x9, [sp, #64]\n"
        "\tstp x10, x11, [sp, #80]\n\tstp x12, x13, [sp, #96]\n\tstp x14, x15, [sp, #112]\n"
        "\tstp x16, x17, [sp, #128]\n\tstp x18, x19, [sp, #144]\n\tstp x29, x30, [sp, #160]\n"
        "\tmrs x2, elr_el1\n\tmrs x3, spsr_el1\n\tmrs x4, sp_el0\n\tstp x2, x3, [sp, #176]\n\tstr x4, [sp, #192]\n"
        ".endm\n"
        "called:\tsave\n"
        "\tldp x0, x1, [sp]\n"
        "\tbl answer\n"
        "\tstr x0, [sp]\n"
        "\tb resume\n"
        "interrupted:\tsave\n"
        "\tbl tick\n"
        "resume:\n"
        "\tldp x2, x3, [sp, #176]\n\tldr x4, [sp, #192]\n"
        "\tmsr elr_el1, x2\n\tmsr spsr_el1, x3\n\tmsr sp_el0, x4\n"
        "\tldp x2, x3, [sp, #16]\n\tldp x4, x5, [sp, #32]\n\tldp x6, x7, [sp, #48]\n\tldp x8, x9, [sp, #64]\n"
        "\tldp x10, x11, [sp, #80]\n\tldp x12, x13, [sp, #96]\n\tldp x14, x15, [sp, #112]\n"
        "\tldp x16, x17, [sp, #128]\n\tldp x18, x19, [sp, #144]\n\tldp x29, x30, [sp, #160]\n"
        "\tldp x0, x1, [sp]\n"
        "\tadd sp, sp, #272\n"
        "\teret\n"

        ".global cpu_switch_to\n"
        ".type cpu_switch_to, %function\n"
        "cpu_switch_to:\n"
        "\tmov x9, sp\n"
        "\tstp x19, x20, [x0]\n\tstp x21, x22, [x0, #16]\n\tstp x23, x24, [x0, #32]\n\tstp x25, x26, [x0, #48]\n"
        "\tstp x27, x28, [x0, #64]\n\tstp x29, x9, [x0, #80]\n\tstr x30, [x0, #96]\n"
        "\tldp x19, x20, [x1]\n\tldp x21, x22, [x1, #16]\n\tldp x23, x24, [x1, #32]\n\tldp x25, x26, [x1, #48]\n"
        "\tldp x27, x28, [x1, #64]\n\tldp x29, x9, [x1, #80]\n\tldr x30, [x1, #96]\n"
        "\tmov sp, x9\n"
        "\tret\n"

        ".global leave\n"
        "leave:\tmsr elr_el1, x0\n\tmsr sp_el0, x1\n\tmsr spsr_el1, xzr\n\teret\n");
void leave(word entry, word stack);

/* PSCI's SYSTEM_OFF. */
void stop(void) {
    register word what __asm__("x0") = 0x84000008;
    __asm__ volatile("hvc #0" : : "r"(what));
    for (;;) {}
}

static volatile unsigned *device(word address) { return (volatile unsigned *)address; }

static void next_tick(void) {
    __asm__ volatile("msr cntp_tval_el0, %0\n\tmsr cntp_ctl_el0, %1" : : "r"(5000ul), "r"(1ul));
}

__attribute__((noinline)) void count_tick(void) { ticks++; }

/* The interrupt controller's interface is after it (QEMU's virt with version 2): interrupt 30 is the timer's. */
void tick(void) {
    unsigned number = *device(0x0801000c);
    if (number == 30) {
        count_tick();
        next_tick();
    }
    *device(0x08010010) = number;
}

static void begin_ticks(void) {
    *device(0x08000000) = 1;
    *device(0x08000100) = 1u << 30;
    *device(0x08010004) = 0xff;
    *device(0x08010000) = 1;
    next_tick();
}

__attribute__((noinline)) void read_table(void) {
    for (word at = 0; at < sizeof table; at += LINE)
        (void)*(volatile byte *)&table[at];
}

__attribute__((noinline)) void read_buffer(const volatile byte *buffer) {
    for (word at = 0; at < BUFFER_LINES * LINE; at += LINE)
        (void)buffer[at];
}

/* 1000 steps of two instructions. */
__attribute__((noinline)) void job(void) {
    word left = 1000;
    __asm__ volatile("1:\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
}

/* As Linux does: the number of the task is told before. */
__attribute__((always_inline)) static inline void switch_to(struct task *from, struct task *to) {
    __asm__ volatile("msr contextidr_el1, %0" : : "r"(to->number));
    cpu_switch_to(from, to);
}

/* The worker's first function: does its jobs whenever it is switched to. */
__attribute__((noinline)) void work(void) {
    for (;;) {
        for (int n = 0; n < JOBS; n++)
            job();
        switch_to(&worker, &first);
    }
}

__attribute__((noinline)) void switch_to_worker(void) {
    /* As Linux does between tasks. */
    __asm__ volatile("msr daifset, #2");
    switch_to(&first, &worker);
}

/* Returns whether there is a device with a page for counters, whose memory is then at BAR. */
static int has_counters(void) {
    for (word slot = 0; slot < 32; slot++) {
        volatile unsigned *of = device(PCI + slot * 8 * PAGE);
        if (of[0] != 0x11101af4)
            continue;
        of[6] = BAR;
        of[7] = 0;
        of[1] |= 2;
        return 1;
    }
    return 0;
}

static void print(word number) {
    char digits[24];
    int count = 0;
    do
        digits[count++] = '0' + number % 10;
    while (number /= 10);
    while (count)
        *device(PORT) = digits[--count];
    *device(PORT) = '\n';
}

word answer(word what, word argument) {
    if (what == 0)
        stop();
    if (what == 1) {
        read_buffer((const byte *)argument);
        read_table();
    }
    if (what == 2)
        switch_to_worker();
    if (what == 3) {
        __asm__ volatile("msr cntp_ctl_el0, %0" : : "r"(0ul));
        return counters ? COUNTERS : 0;
    }
    if (what == 4)
        print(argument);
    return 0;
}

static word get(word at, int bytes) {
    word value = 0;
    for (int n = 0; n < bytes; n++)
        value |= (word)((byte *)(FILE + at))[n] << (8 * n);
    return value;
}

static word *physical(word virtual) { return (word *)(PAGES + 4 * (virtual - START) / PAGE * PAGE + virtual % PAGE); }

/* Copies the pages of the file's segments, whole, as Linux maps them. */
static word load(void) {
    word headers = get(32, 8);
    for (word n = 0; n < get(56, 2); n++) {
        word at = headers + n * get(54, 2);
        if (get(at, 4) != 1)
            continue;
        word offset = get(at + 8, 8) / PAGE * PAGE, virtual = get(at + 16, 8) / PAGE * PAGE;
        word bytes = get(at + 16, 8) % PAGE + get(at + 32, 8);
        for (word of = 0; of < bytes; of += PAGE)
            for (word in = 0; in < PAGE; in += 8)
                *(word *)((word)physical(virtual + of) + in) = *(word *)(FILE + offset + of + in);
    }
    return get(24, 8);
}

void boot(void) {
    word entry = load();
    for (word n = 0; n < 512; n++)
        /* Normal memory, inner shareable, for the program and the kernel. */
        level3[n] = (word)physical(START + n * PAGE) | 0x743;
    level2[START >> 21] = (word)level3 | 3;
    /* Devices: the interrupt controller, the serial port. */
    level2[0x08000000ul >> 21] = 0x08000000ul | 0x405 | 3ul << 53;
    level2[PORT >> 21] = PORT | 0x405 | 3ul << 53;
    counters = has_counters();
    if (counters)
        level3[(COUNTERS - START) / PAGE] = BAR | 0x447;
    level1[0] = (word)level2 | 3;
    level1[1] = 0x40000000ul | 0x701;
    worker.registers[11] = (word)worker_stack + sizeof worker_stack;
    worker.registers[12] = (word)work;
    __asm__ volatile("msr mair_el1, %0\n\tmsr tcr_el1, %1\n\tmsr ttbr0_el1, %2\n\tisb\n"
                     "\tmrs x9, sctlr_el1\n\torr x9, x9, #1\n\torr x9, x9, #4\n\torr x9, x9, #4096\n\tmsr sctlr_el1, x9\n\tisb\n"
                     :
                     : "r"(0x00fful), "r"(0x80803519ul), "r"((word)level1)
                     : "x9", "memory");
    __asm__ volatile("msr contextidr_el1, %0" : : "r"(first.number));
    begin_ticks();
    leave(entry, START + 512 * PAGE);
}
