// SPDX-License-Identifier: GPL-2.0
/* AArch64. Registers have the names of the Arm ARM (DDI 0487). */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/smp.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <asm/arch_timer.h>
#include <asm/barrier.h>
#include <asm/sysreg.h>

#include "driver.h"

#define PAR_FAULT	BIT_ULL(0)
#define PAR_PA		GENMASK_ULL(47, 12)
#define PAR_ATTR_SHIFT	56

/* PMUSERENR_EL0: permits reading the cycle counter only. */
#define USERENR_CR	BIT(2)
#define CYCLE_COUNTER	BIT(31)	/* of PMCNTENSET_EL0 */

static bool fill_translation(struct fathom_translate *translate, u64 par, u64 offset)
{
	if (par & PAR_FAULT)
		return false;
	translate->raw = par;
	translate->raw_types = 0;
	translate->pa = (par & PAR_PA) | offset;
	translate->attribute = fathom_attribute_of_mair(par >> PAR_ATTR_SHIFT);
	return true;
}

bool fathom_arch_user(unsigned long va, struct fathom_translate *translate)
{
	unsigned long flags;
	u64 par;

	/* A handler might translate too, and the kernel may hide user space's tables. */
	local_irq_save(flags);
	uaccess_ttbr0_enable();
	asm volatile("at s1e0r, %0" : : "r" (va) : "memory");
	isb();
	par = read_sysreg_par();	/* with the barriers of erratum 1508412 */
	uaccess_ttbr0_disable();
	local_irq_restore(flags);
	return fill_translation(translate, par, va & 0xfff);
}

bool fathom_arch_kernel(const void *va, struct fathom_translate *translate)
{
	unsigned long flags;
	u64 par;

	local_irq_save(flags);
	asm volatile("at s1e1r, %0" : : "r" (va) : "memory");
	isb();
	par = read_sysreg_par();
	local_irq_restore(flags);
	return fill_translation(translate, par, (unsigned long)va & 0xfff);
}

u32 fathom_arch_clock(u64 *hz)
{
	*hz = arch_timer_get_cntfrq();
	return FATHOM_CLOCK_CNTVCT;
}

u64 fathom_arch_now(u32 clock)
{
	u64 now;

	isb();
	now = clock == FATHOM_CLOCK_CYCLES ? read_sysreg(pmccntr_el0) : get_cycles();
	isb();
	return now;
}

/* Runs on one core, in the order of CSSELR_EL1. */
long fathom_arch_cache_id(struct fathom_cache_id *id)
{
	unsigned long flags;
	u32 at;

	local_irq_save(flags);
	id->cpu = smp_processor_id();
	id->count = FATHOM_CACHES_MOST;
	id->ctr = read_sysreg(ctr_el0);
	id->clidr = read_sysreg(clidr_el1);
	for (at = 0; at < FATHOM_CACHES_MOST; at++) {
		if (!fathom_cache_named(id->clidr, at))
			continue;
		write_sysreg(at, csselr_el1);
		isb();
		id->ccsidr[at] = read_sysreg(ccsidr_el1);
	}
	local_irq_restore(flags);
	return 0;
}

/* ID_AA64DFR0_EL1.PMUVer: 0 none, 15 not architectural. */
bool fathom_arch_counter(void)
{
	u32 version = read_sysreg(id_aa64dfr0_el1) >> 8 & 15;

	return version && version != 15;
}

bool fathom_arch_counter_runs(void)
{
	return read_sysreg(pmcntenset_el0) & CYCLE_COUNTER;
}

void fathom_arch_counter_user(bool allowed)
{
	write_sysreg(allowed ? USERENR_CR : 0, pmuserenr_el0);
	isb();
}

bool fathom_arch_counter_allowed(void)
{
	return read_sysreg(pmuserenr_el0) & (USERENR_CR | BIT(0));
}

void fathom_arch_clean(void *memory, size_t bytes)
{
	/* CTR_EL0.DminLine: log2 of the words of the smallest line. */
	size_t line = 4UL << (read_sysreg(ctr_el0) >> 16 & 15);
	char *at;

	for (at = memory; at < (char *)memory + bytes; at += line)
		asm volatile("dc civac, %0" : : "r" (at) : "memory");
	dsb(sy);
}
