/* SPDX-License-Identifier: GPL-2.0 */
/* Names that have changed since Linux 6.1. No other file tests the version. */
#ifndef FATHOM_COMPAT_H
#define FATHOM_COMPAT_H

#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_mod(struct vm_area_struct *vma, unsigned long set,
				unsigned long clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/*
 * perf's numbers of the counters of ARMv7 (drivers/perf/arm_v7_pmu.c): since 6.12 those of PMCNTENSET, before them
 * the cycle counter was the first one.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define FATHOM_V7_CYCLES	0
#define FATHOM_V7_FIRST		1
#else
#define FATHOM_V7_CYCLES	31
#define FATHOM_V7_FIRST		0
#endif

/*
 * Lets a 32-bit kernel map offsets beyond 4 GiB, as those of the sixteenth region and of the
 * recorders are. Since 6.12 it is a flag of the operations.
 */
#ifdef FOP_UNSIGNED_OFFSET
#define FATHOM_OPERATIONS_FLAGS .fop_flags = FOP_UNSIGNED_OFFSET,
static inline void allow_unsigned_offset(struct file *filp)
{
}
#else
#define FATHOM_OPERATIONS_FLAGS
static inline void allow_unsigned_offset(struct file *filp)
{
	filp->f_mode |= FMODE_UNSIGNED_OFFSET;
}
#endif

#endif
