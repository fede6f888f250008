// SPDX-License-Identifier: GPL-2.0
/*
 * 32-bit ARM: ARMv7 (DDI 0406), and ARMv6 of the ARM1176 (DDI 0301). Run in guests only.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/io.h>
#include <linux/ktime.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <asm/barrier.h>
#include <asm/cacheflush.h>
#include <asm/cachetype.h>
#include <asm/cp15.h>
#include <asm/cputype.h>
#include <asm/outercache.h>

#include "compat.h"
#include "driver.h"

#define PAR_FAULT	BIT(0)
#define PAR_SUPERSECTION BIT(1)
#define CYCLE_COUNTER	BIT(31)	/* of PMCNTENSET */
#define V6_ENABLE	BIT(0)	/* of the ARM1176's performance monitor control */

/* The ARM1176 (ARMv6) has another PMU. */
static bool is_v7(void)
{
	return read_cpuid_part() != ARM_CPU_PART_ARM1176;
}

/* PAR in the short format: inner attribute in bits 6:4, outer in 3:2. */
static u32 attribute_short(u32 par)
{
	switch (par >> 2 & 0x1f) {
	case 0x04:	/* inner 001, outer 00: strongly-ordered */
		return FATHOM_DEVICE;
	case 0x00:
		return FATHOM_NORMAL_NC;
	case 0x1a:	/* inner 110, outer 10 */
		return FATHOM_WRITE_THROUGH;
	case 0x15:	/* inner 101, outer 01: write-back, allocating */
	case 0x1f:	/* inner 111, outer 11: write-back */
		return FATHOM_WRITE_BACK;
	default:
		return FATHOM_OTHER_ATTRIBUTE;
	}
}

static bool fill_translation(struct fathom_translate *translate, u64 par, u32 offset)
{
	if (par & PAR_FAULT)
		return false;
	translate->raw = par;
	translate->raw_types = 0;
	if (IS_ENABLED(CONFIG_ARM_LPAE)) {
		translate->pa = (par & GENMASK_ULL(39, 12)) | offset;
		translate->attribute = fathom_attribute_of_mair(par >> 56);
	} else {
		/* The address of a supersection has another layout. */
		translate->pa = par & PAR_SUPERSECTION ? 0 : (par & 0xfffff000) | offset;
		translate->attribute = attribute_short(par);
	}
	return true;
}

/* Reads the result of the last translation. */
static u64 par(void)
{
	u64 value;
#ifdef CONFIG_ARM_LPAE
	asm volatile("mrrc p15, 0, %Q0, %R0, c7" : "=r" (value));
#else
	u32 low;

	asm volatile("mrc p15, 0, %0, c7, c4, 0" : "=r" (low));
	value = low;
#endif
	return value;
}

/* Interrupts are disabled from the operation to the read: a handler might translate too. */
#define TRANSLATE(operation, va) ({ \
	unsigned long flags_; \
	u64 value_; \
	\
	local_irq_save(flags_); \
	asm volatile("mcr p15, 0, %0, c7, c8, " #operation : : "r" (va) : "memory"); \
	isb(); \
	value_ = par(); \
	local_irq_restore(flags_); \
	value_; })

/*
 * V2PCWUR, later ATS1CUR: translates a read of user space. A kernel with
 * CONFIG_CPU_SW_DOMAIN_PAN has no access to user space outside of such a section, and the
 * translation would fail too.
 */
bool fathom_arch_user(unsigned long va, struct fathom_translate *translate)
{
	unsigned int kept = uaccess_save_and_enable();
	u64 result = TRANSLATE(2, va);

	uaccess_restore(kept);
	return fill_translation(translate, result, va & 0xfff);
}

/* V2PCWPR, or ATS1CPR: translates a read of the kernel. */
bool fathom_arch_kernel(const void *va, struct fathom_translate *translate)
{
	return fill_translation(translate, TRANSLATE(0, va), (unsigned long)va & 0xfff);
}

u32 fathom_arch_clock(u64 *hz)
{
	*hz = 1000000000;
	return FATHOM_CLOCK_NS;
}

u64 fathom_arch_now(u32 clock)
{
	u32 cycles;

	if (clock != FATHOM_CLOCK_CYCLES)
		return ktime_get_ns();
	isb();
	if (is_v7())
		asm volatile("mrc p15, 0, %0, c9, c13, 0" : "=r" (cycles));
	else
		asm volatile("mrc p15, 0, %0, c15, c12, 1" : "=r" (cycles));
	isb();
	return cycles;
}

long fathom_arch_cache_id(struct fathom_cache_id *id)
{
	unsigned long flags;
	u32 at, value;

	local_irq_save(flags);
	id->cpu = smp_processor_id();
	id->ctr = read_cpuid_cachetype();
	/* The format field shows whether there is a CLIDR. */
	if (id->ctr >> 29 == 4) {
		id->count = FATHOM_CACHES_MOST;
		asm volatile("mrc p15, 1, %0, c0, c0, 1" : "=r" (value));
		id->clidr = value;
		for (at = 0; at < FATHOM_CACHES_MOST; at++) {
			if (!fathom_cache_named(id->clidr, at))
				continue;
			asm volatile("mcr p15, 2, %0, c0, c0, 0" : : "r" (at));
			isb();
			asm volatile("mrc p15, 1, %0, c0, c0, 0" : "=r" (value));
			id->ccsidr[at] = value;
		}
	}
	local_irq_restore(flags);
	return 0;
}

bool fathom_arch_counter(void)
{
	u32 version = read_cpuid_ext(CPUID_EXT_DFR0) >> 24 & 15;

	/* ID_DFR0, "Performance Monitors Extension": 0 none, 15 not architectural. */
	return !is_v7() || (version && version != 15);
}

bool fathom_arch_counter_runs(void)
{
	u32 value;

	if (is_v7()) {
		asm volatile("mrc p15, 0, %0, c9, c12, 1" : "=r" (value));
		return value & CYCLE_COUNTER;
	}
	asm volatile("mrc p15, 0, %0, c15, c12, 0" : "=r" (value));
	return value & V6_ENABLE;
}

/* One bit for all counters, which also permits writing. */
void fathom_arch_counter_user(bool allowed)
{
	if (is_v7())
		asm volatile("mcr p15, 0, %0, c9, c14, 0" : : "r" (allowed));
	else
		asm volatile("mcr p15, 0, %0, c15, c9, 0" : : "r" (allowed));
	isb();
}

bool fathom_arch_counter_allowed(void)
{
	u32 value;

	if (is_v7())
		asm volatile("mrc p15, 0, %0, c9, c14, 0" : "=r" (value));
	else
		asm volatile("mrc p15, 0, %0, c15, c9, 0" : "=r" (value));
	return value & 1;
}

/* The ARM1176's counters are perf's first three (drivers/perf/arm_v6_pmu.c), cycles first. */
void fathom_arch_register(int index, u32 *kind, u32 *number)
{
	if (!is_v7()) {
		*kind = FATHOM_COUNTER_ARM1176;
		*number = index + 1;
	} else if (index == FATHOM_V7_CYCLES) {
		*kind = FATHOM_COUNTER_V7_CYCLES;
		*number = 0;
	} else {
		*kind = FATHOM_COUNTER_V7_EVENTS;
		*number = index - FATHOM_V7_FIRST;
	}
}

u32 fathom_arch_read(u32 kind, u32 number)
{
	u32 value;

	isb();
	if (kind == FATHOM_COUNTER_V7_CYCLES) {
		asm volatile("mrc p15, 0, %0, c9, c13, 0" : "=r" (value));
	} else if (kind == FATHOM_COUNTER_V7_EVENTS) {
		asm volatile("mcr p15, 0, %0, c9, c12, 5" : : "r" (number));
		isb();
		asm volatile("mrc p15, 0, %0, c9, c13, 2" : "=r" (value));
	} else if (number == 1) {
		asm volatile("mrc p15, 0, %0, c15, c12, 1" : "=r" (value));
	} else if (number == 2) {
		asm volatile("mrc p15, 0, %0, c15, c12, 2" : "=r" (value));
	} else {
		asm volatile("mrc p15, 0, %0, c15, c12, 3" : "=r" (value));
	}
	return value;
}

bool fathom_arch_aliases(void)
{
	return cache_is_vipt_aliasing() || cache_is_vivt();
}

/* An outer cache uses physical addresses only. */
void fathom_arch_clean(void *memory, size_t bytes)
{
	struct fathom_translate translate = { };
	char *at;

	__cpuc_flush_dcache_area(memory, bytes);
	for (at = memory; at < (char *)memory + bytes; at += PAGE_SIZE)
		if (fathom_arch_kernel(at, &translate))
			outer_flush_range(translate.pa, translate.pa + PAGE_SIZE);
}
