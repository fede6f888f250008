//! The first instructions: to supervisor mode, on one core, with a stack.
//!
//! The entry state is that of Linux (Documentation/arch/arm/booting.rst): translation and data caches off, interrupts
//! masked, the image in memory and no dirty lines of it in any cache. The firmware of the Pi 2 and 3 (armstub7.S) enters in
//! Hyp mode, with the other cores waiting in its own loop; QEMU's vexpress-a15 too. The Pi 1 and QEMU's virt enter in
//! supervisor mode. At 0 is a branch, so the image may be called as a program.

use core::arch::global_asm;

use fathom_loops::arm::IS_V7;

use crate::arm::registers;
use crate::hardware::main;
use crate::parameters::{ARMV6_MAGIC, ARMV7_MAGIC, DEFAULTS, MAGIC, VERSION};

/// What identifies the image, in its header.
const HEADER_MAGIC: [u8; 4] = if IS_V7 { ARMV7_MAGIC } else { ARMV6_MAGIC };

global_asm!(
    r#"
    .section .head, "ax"
    .arm
    .global start
start:
    // The image's header: `crate::parameters`.
    b       enter
    .word   0, 0, 0
    .word   __end - start, 0
    .word   0, 0, 0, 0, 0, 0, 0, 0
    .byte   {h0}, {h1}, {h2}, {h3}
    .word   0
    // The parameters.
    .byte   {m0}, {m1}, {m2}, {m3}, {m4}, {m5}, {m6}, {m7}
    .word   {version}, {baud}, {silence}, {watch}
    .word   __rodata - start, 0

enter:
    mrs     r5, cpsr
    and     r5, r5, #0x1f
    mov     r6, #1                  // privilege level
    .if {v7}
    // Every core but the first sleeps forever. There is one cluster, whose number in MPIDR is 15 on BCM2836.
    mrc     p15, 0, r0, c0, c0, 5   // MPIDR
    lsls    r0, r0, #24
    beq     1f
0:  wfe
    b       0b
1:  cmp     r5, #0x1a               // Hyp mode
    bne     2f
    // PL2 does not translate, trap or hide anything of PL1 (DDI 0406C, B4.1, each under its name).
    mov     r6, #2
    mov     r0, #0
    mcr     p15, 4, r0, c1, c1, 0   // HCR
    mcr     p15, 4, r0, c1, c1, 3   // HSTR
    mcrr    p15, 4, r0, r0, c14     // CNTVOFF
    ldr     r0, ={hcptr}
    mcr     p15, 4, r0, c1, c1, 2   // HCPTR
    mov     r0, #{cnthctl}
    mcr     p15, 4, r0, c14, c1, 0  // CNTHCTL
    mrc     p15, 0, r0, c0, c0, 0   // MIDR
    mcr     p15, 4, r0, c0, c0, 0   // VPIDR
    mrc     p15, 0, r0, c0, c0, 5   // MPIDR
    mcr     p15, 4, r0, c0, c0, 5   // VMPIDR
    // All event counters are for PL1 (HDCR.HPMN), if there is a PMU (ID_DFR0, bits 27:24).
    mrc     p15, 0, r0, c0, c1, 2
    ubfx    r0, r0, #24, #4
    cmp     r0, #0
    cmpne   r0, #15
    mrcne   p15, 0, r0, c9, c12, 0  // PMCR
    ubfxne  r0, r0, #11, #5
    moveq   r0, #0
    mcr     p15, 4, r0, c1, c1, 1   // HDCR
    mov     r0, #{svc}
    .inst   0xe16ff000              // msr SPSR_fsxc, r0
    adr     r0, 3f
    .inst   0xe12ef300              // msr ELR_hyp, r0
    isb
    .inst   0xe160006e              // eret
    .endif
2:  cpsid   aif, #0x13
3:
    // Translation and caches are off, and not only by the entry state.
    ldr     r0, ={sctlr}
    mcr     p15, 0, r0, c1, c0, 0
    .if {v7}
    isb
    // The core is coherent before caches are on. A write that is not permitted is ignored.
    mrc     p15, 0, r0, c0, c0, 0
    ldr     r1, =0xff00fff0
    and     r0, r0, r1
    ldr     r1, ={a7}
    ldr     r2, ={a15}
    cmp     r0, r1
    cmpne   r0, r2
    bne     4f
    mrc     p15, 0, r0, c1, c0, 1   // ACTLR
    tst     r0, #{smp}
    orreq   r0, r0, #{smp}
    mcreq   p15, 0, r0, c1, c0, 1
    isb
4:  mrc     p15, 0, r0, c0, c0, 1   // CTR
    ubfx    r0, r0, #16, #4
    mov     r3, #4
    lsl     r3, r3, r0              // smallest data cache line, bytes
    .else
    mov     r0, #0
    mcr     p15, 0, r0, c7, c5, 4   // flush prefetch buffer
    // No software has used the caches of this core before. After reset their lines are not valid, unless something has
    // run; they are invalidated all the same (DDI 0301H, 3.2.22).
    mcr     p15, 0, r0, c7, c7, 0
    mov     r3, #32
    .endif

    // By address, at every level: the loaded image is clean by the boot protocol, and memory that will be written with
    // caches off must not have lines in them.
    adr     r4, start
    ldr     r1, 20f
    ldr     r2, 21f
    add     r1, r1, r4
    add     r2, r2, r4
    mov     r0, r4
5:  mcr     p15, 0, r0, c7, c14, 1  // clean and invalidate
    add     r0, r0, r3
    cmp     r0, r1
    blo     5b
6:  mcr     p15, 0, r0, c7, c6, 1   // invalidate
    add     r0, r0, r3
    cmp     r0, r2
    blo     6b
    mov     r0, #0
    .if {v7}
    dsb
    .else
    mcr     p15, 0, r0, c7, c10, 4
    .endif
    mcr     p15, 0, r0, c7, c5, 0   // instruction cache
    mcr     p15, 0, r0, c7, c5, 6   // branch predictors
    .if {v7}
    dsb
    isb
    .else
    mcr     p15, 0, r0, c7, c10, 4
    mcr     p15, 0, r0, c7, c5, 4
    .endif

    ldr     sp, 22f
    add     sp, sp, r4
    // The image was linked at 0: its absolute addresses are relocated. They are listed in words of SHT_RELR (ELF gABI):
    // an even one is the place of an address; bits 1 to 31 of an odd one tell which of the next 31 words are addresses.
    ldr     r1, 23f
    ldr     r2, 24f
    add     r1, r1, r4
    add     r2, r2, r4
7:  cmp     r1, r2
    bhs     8f
    ldr     r3, [r1], #4
    tst     r3, #1
    bne     30f
    add     r5, r4, r3
    ldr     r0, [r5]
    add     r0, r0, r4
    str     r0, [r5], #4
    b       7b
30: mov     r7, r5
31: lsrs    r3, r3, #1
    beq     33f
    tst     r3, #1
    ldrne   r0, [r7]
    addne   r0, r0, r4
    strne   r0, [r7]
    add     r7, r7, #4
    b       31b
33: add     r5, r5, #124
    b       7b
8:  ldr     r1, 25f
    ldr     r2, 26f
    add     r1, r1, r4
    add     r2, r2, r4
    mov     r0, #0
9:  cmp     r1, r2
    strlo   r0, [r1], #4
    blo     9b
    mov     r0, r6
    mov     r11, #0
    mov     lr, #0
    b       {main}
20: .word   __loaded_end - start
21: .word   __end - start
22: .word   __stack - start
23: .word   __relr - start
24: .word   __relr_end - start
25: .word   __bss - start
26: .word   __bss_end - start
    .ltorg
"#,
    h0 = const HEADER_MAGIC[0], h1 = const HEADER_MAGIC[1], h2 = const HEADER_MAGIC[2], h3 = const HEADER_MAGIC[3],
    m0 = const MAGIC[0], m1 = const MAGIC[1], m2 = const MAGIC[2], m3 = const MAGIC[3],
    m4 = const MAGIC[4], m5 = const MAGIC[5], m6 = const MAGIC[6], m7 = const MAGIC[7],
    version = const VERSION,
    baud = const DEFAULTS.baud,
    silence = const DEFAULTS.silence_ms,
    watch = const DEFAULTS.watch_ms,
    v7 = const IS_V7 as u32,
    cnthctl = const registers::CNTHCTL,
    hcptr = const registers::HCPTR,
    svc = const registers::CPSR_SVC,
    sctlr = const registers::SCTLR_OFF,
    smp = const registers::SMP,
    a7 = const crate::board::CORTEX_A7,
    a15 = const crate::board::CORTEX_A15,
    main = sym main,
);
