/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks regions of a program, for `fathom simulate` and `fathom count --region`:
 *
 *     #include <fathom.h>
 *
 *     FATHOM_BEGIN(inner_loop);
 *     ...
 *     FATHOM_END(inner_loop);
 *
 * A mark is one instruction that does nothing, with a note in the file, which is not loaded; and a test of one flag, which only
 * `fathom count --region` sets: a load and a branch that is not taken. No library is needed. The note is that of a static
 * probe (section .note.stapsdt; `readelf --notes` shows it), with the provider fathom_begin or fathom_end and the region's name.
 *
 * - The name is an identifier, of 63 characters at most where it is counted. The same one may be marked at several places: that
 *   is one region.
 * - Regions may contain others, and themselves. Every way out needs its FATHOM_END: return, break, goto, longjmp too.
 * - The compiler moves no access to memory across a mark. It may move arithmetic.
 *
 * With FATHOM_MARKS_ONLY defined before it is included, a mark is the instruction and its note, and nothing else is compiled: for
 * programs without a C library, and where each instruction counts. This is always so without an operating system, on other
 * systems than Linux, and on other processors than x86-64, AArch64, 32-bit ARM and RISC-V 64.
 *
 * For GCC and Clang, ELF, little endian, C and C++.
 */
#ifndef FATHOM_H
#define FATHOM_H

#if !defined(__ELF__) || !(defined(__GNUC__) || defined(__clang__))
#error "fathom.h needs GCC or Clang, and a target with ELF files"
#endif

#if __SIZEOF_POINTER__ == 8
#define FATHOM_ADDRESS_ ".8byte "
#else
#define FATHOM_ADDRESS_ ".4byte "
#endif

/* Labels are local numbers, because the compiler may copy the statement. The section joins the group of its function
   ("?"), so that both are removed together. */
#define FATHOM_MARK_(what, name)                                              \
    __asm__ __volatile__("990:\tnop\n"                                        \
                         "\t.pushsection .note.stapsdt,\"?\",\"note\"\n"      \
                         "\t.balign 4\n"                                      \
                         "\t.4byte 992f-991f\n"                               \
                         "\t.4byte 994f-993f\n"                               \
                         "\t.4byte 3\n"                                       \
                         "991:\t.asciz \"stapsdt\"\n"                         \
                         "992:\t.balign 4\n"                                  \
                         "993:\t" FATHOM_ADDRESS_ "990b\n"                    \
                         "\t" FATHOM_ADDRESS_ "0\n"                           \
                         "\t" FATHOM_ADDRESS_ "0\n"                           \
                         "\t.asciz \"fathom_" what "\"\n"                     \
                         "\t.asciz \"" name "\"\n"                            \
                         "\t.asciz \"\"\n"                                    \
                         "994:\t.balign 4\n"                                  \
                         "\t.popsection\n" ::: "memory")

#if !defined(FATHOM_MARKS_ONLY) && defined(__linux__) && __STDC_HOSTED__ && \
    (defined(__aarch64__) || defined(__arm__) || (defined(__riscv) && __riscv_xlen == 64) || (defined(__x86_64__) && defined(__LP64__)))

/* Begins the region of this name. The test is not in the region. */
#define FATHOM_BEGIN(name)                                \
    do {                                                  \
        if (__builtin_expect(fathom_1_page != 0, 0))      \
            fathom_1_begin(#name);                        \
        FATHOM_MARK_("begin", #name);                     \
    } while (0)

/* Ends the region of this name. */
#define FATHOM_END(name)                                  \
    do {                                                  \
        FATHOM_MARK_("end", #name);                       \
        if (__builtin_expect(fathom_1_page != 0, 0))      \
            fathom_1_end(#name);                          \
    } while (0)

#include "fathom_count.h"

#else

#define FATHOM_BEGIN(name) FATHOM_MARK_("begin", #name)
#define FATHOM_END(name) FATHOM_MARK_("end", #name)

#endif

#endif
