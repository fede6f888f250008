// SPDX-License-Identifier: GPL-2.0
/* x86-64: memory types by PAT, and the time stamp counter. */
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <asm/msr.h>
#include <asm/set_memory.h>
#include <asm/tsc.h>

#include "driver.h"

/* Types of IA32_PAT (Intel SDM volume 3, "Page Attribute Table"). */
static u32 attribute_of(u8 type)
{
	switch (type) {
	case 0:	/* UC */
	case 7:	/* UC-: an MTRR could make it WC, but MTRRs of memory are write-back */
		return FATHOM_DEVICE;
	case 1:
		return FATHOM_NORMAL_NC;
	case 4:
		return FATHOM_WRITE_THROUGH;
	case 6:
		return FATHOM_WRITE_BACK;
	default:
		return FATHOM_OTHER_ATTRIBUTE;
	}
}

static void fill_translation(struct fathom_translate *translate, u64 entry, bool large, u64 pa)
{
	unsigned int index = 0;

	rdmsrl(MSR_IA32_CR_PAT, translate->raw_types);
	if (entry & _PAGE_PWT)
		index |= 1;
	if (entry & _PAGE_PCD)
		index |= 2;
	if (entry & (large ? _PAGE_PAT_LARGE : _PAGE_PAT))
		index |= 4;
	translate->raw = entry;
	translate->pa = pa;
	translate->attribute = attribute_of(translate->raw_types >> (8 * index) & 7);
}

/* The driver's mappings use base pages; the caller holds the mmap lock. */
bool fathom_arch_user(unsigned long va, struct fathom_translate *translate)
{
	pgd_t *pgd = pgd_offset(current->mm, va);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t pte;

	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return false;
	p4d = p4d_offset(pgd, va);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return false;
	pud = pud_offset(p4d, va);
	if (pud_none(*pud) || pud_bad(*pud))
		return false;
	pmd = pmd_offset(pud, va);
	if (pmd_none(*pmd) || pmd_bad(*pmd))
		return false;
	pte = READ_ONCE(*pte_offset_kernel(pmd, va));
	if (!pte_present(pte))
		return false;
	fill_translation(translate, pte_val(pte), false,
	     ((u64)pte_pfn(pte) << PAGE_SHIFT) | (va & ~PAGE_MASK));
	return true;
}

bool fathom_arch_kernel(const void *va, struct fathom_translate *translate)
{
	unsigned int level;
	pte_t *pte = lookup_address((unsigned long)va, &level);

	if (!pte || !pte_present(*pte))
		return false;
	/* For a large page only the type is needed. */
	fill_translation(translate, pte_val(*pte), level != PG_LEVEL_4K, 0);
	return true;
}

u32 fathom_arch_clock(u64 *hz)
{
	*hz = (u64)tsc_khz * 1000;
	return FATHOM_CLOCK_TSC;
}

u64 fathom_arch_now(u32 clock)
{
	return rdtsc_ordered();
}

long fathom_arch_cache_id(struct fathom_cache_id *id)
{
	return -EOPNOTSUPP;	/* user space has CPUID */
}

/* perf grants rdpmc itself (cap_user_rdpmc). */
bool fathom_arch_counter(void) { return false; }
bool fathom_arch_counter_runs(void) { return false; }
void fathom_arch_counter_user(bool allowed) { }
bool fathom_arch_counter_allowed(void) { return false; }
