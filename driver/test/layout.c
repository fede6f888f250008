// SPDX-License-Identifier: GPL-2.0
/* The layout of the structures, for 32-bit and 64-bit compilers. */
#include <stddef.h>

#include "fathom.h"

#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#define AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)

SIZE(fathom_info, 72);
AT(fathom_info, clock_hz, 24);
AT(fathom_info, engine_bytes, 64);
SIZE(fathom_region, 48);
AT(fathom_region, handle, 24);
AT(fathom_region, pa, 40);
SIZE(fathom_handle, 8);
SIZE(fathom_translate, 40);
AT(fathom_translate, attribute, 32);
SIZE(fathom_dma_sample, 48);
AT(fathom_dma_sample, wrong, 40);
SIZE(fathom_dma_run, 80);
AT(fathom_dma_run, samples, 32);
AT(fathom_dma_run, wrong, 56);
AT(fathom_dma_run, attribute, 72);
SIZE(fathom_engine, 80);
AT(fathom_engine, device, 16);
SIZE(fathom_alloc_sample, 16);
SIZE(fathom_dma_alloc, 48);
AT(fathom_dma_alloc, samples, 24);
AT(fathom_dma_alloc, clock, 40);
SIZE(fathom_counters, 16);
SIZE(fathom_cache_id, 136);
AT(fathom_cache_id, ccsidr, 24);
SIZE(fathom_wake_start, 40);
AT(fathom_wake_start, offset, 24);
SIZE(fathom_wake, 24);
SIZE(fathom_wakes, 32);
AT(fathom_wakes, missed, 16);
AT(fathom_wakes, row, 32);
