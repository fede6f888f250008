//! The first instructions: from the entry level to EL1, on one core, with a stack.
//!
//! The entry state is that of Linux (Documentation/arch/arm64/booting.rst): translation and data caches off, the
//! image in memory and no dirty lines of it in any cache. The Pis' firmware (armstub8.S) enters at EL2, with the
//! other cores waiting in its own loop. So does QEMU's raspi3b. QEMU's virt enters at EL1, or at EL2 or EL3 if
//! configured.

use core::arch::global_asm;

use super::{cpu, mrs, msr};
use crate::aarch64::registers;
use crate::board::{self, Board, Interrupts};
use crate::hardware::{Image, main};
use crate::identification::event_counters;
use crate::parameters::{DEFAULTS, MAGIC, VERSION};

global_asm!(
    r#"
    .section .head, "ax"
    .global start
start:
    // The header of an arm64 Linux image: a branch, the load offset from the start of memory, the size in
    // memory, little-endian with 4 KiB pages (flags), the magic number.
    b       enter
    .word   0
    .quad   0x80000
    .quad   __end - start
    .quad   2
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .word   0
    // The parameters.
    .byte   {m0}, {m1}, {m2}, {m3}, {m4}, {m5}, {m6}, {m7}
    .word   {version}, {baud}, {silence}, {watch}
    .word   __rodata - start, 0

enter:
    msr     daifset, #15
    // Every core but the first of the first cluster sleeps forever.
    mrs     x1, mpidr_el1
    and     x1, x1, #0xffffff
    cbz     x1, 1f
0:  wfe
    b       0b
1:  mrs     x19, CurrentEL
    lsr     x19, x19, #2
    msr     spsel, #1
    isb

    // At EL3 no software has run before: caches are cleaned and invalidated by set and way, which affects all lines
    // at any address (DDI 0487, "Example code for cache maintenance instructions"). At lower levels, other
    // software may have lines in them, and maintenance by set and way could lose or restore them.
    cmp     x19, #3
    b.ne    7f
    // Before that the core must be coherent: CPUECTLR_EL1.SMPEN (DDI 0500J and 100095, "CPU Extended Control
    // Register"). That register is implementation defined: it is written on the
    // Pis only (below 1 GiB), and on cores that have it.
    adrp    x0, start
    lsr     x0, x0, #30
    cbnz    x0, 5f
    mrs     x0, midr_el1
    mov     w1, #0xfff0
    movk    w1, #0xff00, lsl #16    // implementer, part
    and     w0, w0, w1
    mov     w1, #{a53_low}
    movk    w1, #{a53_high}, lsl #16
    cmp     w0, w1
    mov     w1, #{a72_low}
    movk    w1, #{a72_high}, lsl #16
    ccmp    w0, w1, #4, ne          // one of the two
    b.ne    5f
    mrs     x0, S3_1_C15_C2_1
    orr     x0, x0, #{smpen}
    msr     S3_1_C15_C2_1, x0
    isb
5:  mrs     x0, clidr_el1
    ubfx    w3, w0, #24, #3         // level of coherency
    cbz     w3, 7f
    mov     w10, #0                 // level x 2
2:  add     w2, w10, w10, lsr #1    // level x 3
    lsr     w1, w0, w2
    and     w1, w1, #7
    cmp     w1, #2
    b.lt    6f                      // no data cache
    msr     csselr_el1, x10
    isb
    mrs     x1, ccsidr_el1
    and     w2, w1, #7
    add     w2, w2, #4              // log2 of the line
    ubfx    w4, w1, #3, #10         // ways - 1
    clz     w5, w4                  // shift of the way
    ubfx    w7, w1, #13, #15        // sets - 1
3:  mov     w9, w4
4:  lsl     w6, w9, w5
    orr     w11, w10, w6
    lsl     w6, w7, w2
    orr     w11, w11, w6
    dc      cisw, x11
    subs    w9, w9, #1
    b.ge    4b
    subs    w7, w7, #1
    b.ge    3b
6:  add     w10, w10, #2
    cmp     w10, w3, lsl #1
    b.lt    2b
    dsb     sy

    // By address, at every level: the loaded image is clean by the boot protocol, and memory that will be
    // written with caches off must not have lines in them.
7:  mrs     x2, ctr_el0
    ubfx    x2, x2, #16, #4
    mov     x3, #4
    lsl     x2, x3, x2              // smallest data cache line, bytes
    adrp    x0, start
    adrp    x1, __loaded_end
8:  dc      civac, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    8b
    adrp    x1, __end
9:  dc      ivac, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    9b
    dsb     sy
    ic      iallu
    dsb     sy
    isb

    adrp    x0, __stack
    mov     sp, x0
    // The image was linked at 0: its absolute addresses are relocated. They are listed in words of SHT_RELR (ELF gABI):
    // an even one is the place of an address; bits 1 to 63 of an odd one tell which of the next 63 words are addresses.
    adrp    x0, start
    adrp    x1, __relr
    add     x1, x1, :lo12:__relr
    adrp    x2, __relr_end
    add     x2, x2, :lo12:__relr_end
10: cmp     x1, x2
    b.hs    11f
    ldr     x3, [x1], #8
    tbnz    x3, #0, 30f
    add     x5, x0, x3
    ldr     x4, [x5]
    add     x4, x4, x0
    str     x4, [x5], #8
    b       10b
30: mov     x6, x5
31: lsr     x3, x3, #1
    cbz     x3, 33f
    tbz     x3, #0, 32f
    ldr     x4, [x6]
    add     x4, x4, x0
    str     x4, [x6]
32: add     x6, x6, #8
    b       31b
33: add     x5, x5, #504
    b       10b
11: adrp    x1, __bss
    add     x1, x1, :lo12:__bss
    adrp    x2, __bss_end
    add     x2, x2, :lo12:__bss_end
12: cmp     x1, x2
    b.hs    13f
    stp     xzr, xzr, [x1], #16
    b       12b

13: bl      {prepare}
    mov     x0, #{spsr}
    adr     x1, 20f
    cmp     x19, #2
    b.lo    20f
    b.eq    14f
    msr     spsr_el3, x0
    msr     elr_el3, x1
    isb
    eret
14: msr     spsr_el2, x0
    msr     elr_el2, x1
    isb
    eret
20: msr     spsel, #1
    adrp    x0, __stack
    mov     sp, x0
    mov     x0, x19
    mov     x29, xzr
    mov     x30, xzr
    b       {main}
"#,
    m0 = const MAGIC[0], m1 = const MAGIC[1], m2 = const MAGIC[2], m3 = const MAGIC[3],
    m4 = const MAGIC[4], m5 = const MAGIC[5], m6 = const MAGIC[6], m7 = const MAGIC[7],
    version = const VERSION,
    baud = const DEFAULTS.baud,
    silence = const DEFAULTS.silence_ms,
    watch = const DEFAULTS.watch_ms,
    spsr = const registers::SPSR_EL1H,
    a53_low = const board::CORTEX_A53 & 0xffff,
    a53_high = const board::CORTEX_A53 >> 16,
    a72_low = const board::CORTEX_A72 & 0xffff,
    a72_high = const board::CORTEX_A72 >> 16,
    smpen = const registers::SMPEN,
    prepare = sym prepare,
    main = sym main,
);

/// Sets up everything that EL1 needs from the higher levels, at the entry level, with translation off: no unaligned
/// accesses, no atomics.
extern "C" fn prepare() {
    let level = mrs!("CurrentEL") >> 2 & 3;
    // ID_AA64PFR0_EL1.EL2, bits 11:8: without EL2 its registers do not exist.
    let has_el2 = mrs!("id_aa64pfr0_el1") >> 8 & 0xf != 0;
    if level == 3 {
        prepare_at_el3();
    }
    if level >= 2 && has_el2 {
        prepare_el2();
    }
    // SAFETY: translation at EL1 must be off until `mmu::enable`, which the reset value of SCTLR_EL1 does not
    // guarantee (it is partly unknown). If entered at EL1, everything is already off.
    unsafe { msr!("sctlr_el1", registers::SCTLR_EL1_OFF) };
}

fn prepare_at_el3() {
    let board = Board::find(Image::here().start, mrs!("midr_el1"));
    let is_a_pi = !board.is_virtual();
    // SAFETY: registers of EL3, written at EL3 (DDI 0487, each under its name): the lower levels are non-secure
    // AArch64 and nothing is trapped. ACTLR_EL3 and L2CTLR_EL1 are written on known cores only. The second is written
    // while no cache is on (100095, "L2 Control Register"), as in the Pis' own armstub8.S, which has not run if this
    // is entered at EL3. CNTFRQ_EL0 only informs other software, and only the highest level may write it. Its reset
    // value is unknown on the Pis, and QEMU's on `virt`.
    unsafe {
        msr!("scr_el3", registers::SCR_EL3);
        msr!("cptr_el3", 0u64);
        msr!("mdcr_el3", 0u64);
        if cpu::is_known() {
            msr!("actlr_el3", registers::ACTLR_EL1_WRITES);
        }
        if cpu::is_known() && is_a_pi {
            msr!("S3_1_C11_C0_2", mrs!("S3_1_C11_C0_2") | registers::L2_LATENCIES);
            core::arch::asm!("isb", options(nostack, preserves_flags));
        }
        if is_a_pi || mrs!("cntfrq_el0") == 0 {
            msr!("cntfrq_el0", board.counter_hz());
        }
    }
    let write = |at: u64, value: u32| {
        // SAFETY: device registers of this board (crate::board), 32 bits wide and aligned; translation is off, so the
        // access has the device attribute ("The effects of disabling an address translation stage").
        unsafe { (at as *mut u32).write_volatile(value) };
    };
    if let Some((control, prescaler)) = board.counter_control() {
        // The crystal as source, one count per tick: armstub8.S writes the same.
        write(control, 0);
        write(prescaler, 0x8000_0000);
    }
    if let Interrupts::Gic2 { distributor, interface } = board.interrupts() {
        // The private interrupts belong to the non-secure side (GICD_IGROUPR0), which may mask any priority
        // (GICC_PMR): GICv2 architecture, IHI 0048B, 4.3.4 and 4.4.2.
        write(distributor + 0x80, u32::MAX);
        write(interface + 0x04, 0xff);
    }
}

fn prepare_el2() {
    // PMCR_EL0.N event counters are for EL1 (MDCR_EL2.HPMN), whose reset value is not N on every core.
    let counters = match registers::has_pmu(mrs!("id_aa64dfr0_el1")) {
        true => event_counters(mrs!("pmcr_el0")),
        false => 0,
    };
    // SAFETY: registers of EL2, written at EL2 or EL3 (each under its name): EL1 is AArch64 with one stage of
    // translation, and nothing is trapped. EL1 reads VPIDR and VMPIDR as MIDR and MPIDR; their reset values are
    // unknown.
    unsafe {
        msr!("hcr_el2", registers::HCR_EL2);
        msr!("cptr_el2", registers::CPTR_EL2);
        msr!("hstr_el2", 0u64);
        msr!("cnthctl_el2", registers::CNTHCTL_EL2);
        msr!("cntvoff_el2", 0u64);
        msr!("mdcr_el2", counters);
        msr!("vpidr_el2", mrs!("midr_el1"));
        msr!("vmpidr_el2", mrs!("mpidr_el1"));
        if cpu::is_known() {
            msr!("actlr_el2", registers::ACTLR_EL1_WRITES);
        }
    }
}
