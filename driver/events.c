// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of events that a task of 32-bit ARM reads itself.
 *
 * perf's events of a task are rebased at each switch, and no kernel of 32-bit ARM tells user space which register has
 * which event. So these are pinned events of the CPU, whose registers go on while other tasks run, and the page
 * tells what they counted: the difference between the switch from the owner and the one to it. perf moves a register
 * when it overflows, after 2^31 - 1 events; its handler writes the page again.
 */
#include <linux/kref.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "compat.h"
#include "driver.h"

/* Events between two interrupts: what drivers/perf/arm_pmu.c takes for events that are not sampled. */
#define PERIOD		0x7fffffff
/* Events in which perf and this file read one register; more: it is another one. */
#define SAME_REGISTER	(1U << 20)

/**
 * struct fathom_events_run - the events of a grant
 * @held: by the grant, and by each mapping
 * @page: what user space maps
 * @count: events
 * @event: perf's
 * @left: counts when the owner was switched from
 * @attr: what is to be created
 */
struct fathom_events_run {
	struct kref held;
	struct fathom_events_page *page;
	u32 count;
	struct perf_event *event[FATHOM_EVENTS_MOST];
	u64 left[FATHOM_EVENTS_MOST];
	struct perf_event_attr attr[FATHOM_EVENTS_MOST];
};

static void free_run(struct kref *held)
{
	struct fathom_events_run *run = container_of(held, struct fathom_events_run, held);

	free_page((unsigned long)run->page);
	fathom_uncharge(PAGE_SIZE);
	kfree(run);
}

void fathom_events_put(struct fathom_events_run *run)
{
	kref_put(&run->held, free_run);
}

/* perf reads the rest of the configuration, and an event that it does not know is an error there. */
static int fill_attr(struct perf_event_attr *attr, const struct fathom_event *event)
{
	if (event->type != PERF_TYPE_HARDWARE && event->type != PERF_TYPE_HW_CACHE && event->type != PERF_TYPE_RAW)
		return -EINVAL;
	if (event->flags & ~FATHOM_EVENT_USER)
		return -EINVAL;
	attr->type = event->type;
	attr->config = event->config;
	attr->size = sizeof(*attr);
	attr->pinned = 1;
	attr->sample_period = PERIOD;
	attr->exclude_kernel = event->flags & FATHOM_EVENT_USER;
	attr->exclude_hv = attr->exclude_kernel;
	return 0;
}

struct fathom_events_run *fathom_events_new(const struct fathom_events *events)
{
	struct fathom_events_run *run;
	int error = 0;
	u32 i;

	/* User space would read other lines than the kernel writes. */
	if (!fathom_arch_counter() || fathom_arch_aliases())
		return ERR_PTR(-EOPNOTSUPP);
	if (!events->count || events->count > FATHOM_EVENTS_MOST || events->cpu || events->offset || events->bytes)
		return ERR_PTR(-EINVAL);
	for (i = events->count; i < FATHOM_EVENTS_MOST; i++)
		if (events->event[i].type || events->event[i].flags || events->event[i].config)
			return ERR_PTR(-EINVAL);
	if (fathom_charge(PAGE_SIZE))
		return ERR_PTR(-ENOMEM);
	run = kzalloc(sizeof(*run), GFP_FATHOM);
	if (!run) {
		fathom_uncharge(PAGE_SIZE);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&run->held);
	run->count = events->count;
	for (i = 0; i < run->count && !error; i++)
		error = fill_attr(&run->attr[i], &events->event[i]);
	run->page = (struct fathom_events_page *)__get_free_page(GFP_FATHOM);
	if (!error && !run->page)
		error = -ENOMEM;
	if (error) {
		fathom_events_put(run);
		return ERR_PTR(error);
	}
	run->page->version = FATHOM_VERSION;
	run->page->count = run->count;
	return run;
}

/* The owner may have a mapping already, and no other CPU writes. */
static void change(struct fathom_events_page *page)
{
	barrier();
	WRITE_ONCE(page->sequence, page->sequence + 1);
}

static u32 previous(struct perf_event *event)
{
	return local64_read(&event->hw.prev_count);
}

static void publish(struct fathom_events_run *run, u32 i)
{
	struct fathom_counted *counted = &run->page->event[i];
	struct perf_event *event = run->event[i];

	fathom_arch_register(event->hw.idx, &counted->kind, &counted->number);
	counted->count = local64_read(&event->count);
	counted->previous = previous(event);
}

/* Returns the count of all tasks, from a register that perf has not moved. */
static u64 total(struct fathom_events_run *run, u32 i)
{
	struct fathom_counted *counted = &run->page->event[i];

	return counted->count + (u32)(fathom_arch_read(counted->kind, counted->number) - counted->previous);
}

/* perf has just moved the register. */
static void overflowed(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct fathom_events_run *run = event->overflow_handler_context;
	u32 i;

	for (i = 0; i < run->count; i++)
		if (READ_ONCE(run->event[i]) == event && event->hw.idx >= 0)
			publish(run, i);
	change(run->page);
}

int fathom_events_create(struct fathom_events_run *run, int cpu)
{
	struct perf_event *event;
	u32 i;

	for (i = 0; i < run->count; i++) {
		event = perf_event_create_kernel_counter(&run->attr[i], cpu, NULL, overflowed, run);
		if (IS_ERR(event)) {
			fathom_events_release(run);
			/* A kernel without this machine's PMU, and a PMU without this event or mode. */
			return PTR_ERR(event) == -ENOENT || PTR_ERR(event) == -ENODEV ? -ENODEV : -EINVAL;
		}
		WRITE_ONCE(run->event[i], event);
	}
	return 0;
}

void fathom_events_release(struct fathom_events_run *run)
{
	u32 i;

	for (i = 0; i < run->count; i++) {
		if (run->event[i])
			perf_event_release_kernel(run->event[i]);
		run->event[i] = NULL;
	}
}

int fathom_events_begin(struct fathom_events_run *run)
{
	struct perf_event *event;
	u32 i;

	for (i = 0; i < run->count; i++) {
		event = run->event[i];
		/* Without a counter a pinned event has an error. */
		if (event->state != PERF_EVENT_STATE_ACTIVE || event->hw.idx < 0)
			return -EBUSY;
		event->pmu->read(event);
		publish(run, i);
		run->left[i] = total(run, i);
		if (run->left[i] - run->page->event[i].count >= SAME_REGISTER)
			return -EOPNOTSUPP;
	}
	change(run->page);
	return 0;
}

/* Whether perf has moved an event without an overflow. */
static bool is_moved(struct fathom_events_run *run, u32 i)
{
	const struct fathom_counted *counted = &run->page->event[i];
	struct perf_event *event = run->event[i];
	u32 kind, number;

	fathom_arch_register(event->hw.idx, &kind, &number);
	return event->hw.idx < 0 || kind != counted->kind || number != counted->number ||
	       previous(event) != counted->previous;
}

void fathom_events_switched(struct fathom_events_run *run, bool runs)
{
	struct fathom_events_page *page = run->page;
	bool moved = false, allowed = runs;
	u32 i;

	for (i = 0; i < run->count; i++) {
		/* perf stops and starts events when a CPU is idle, and the owner is not running then. */
		if (!runs)
			moved |= is_moved(run, i);
		if (run->event[i]->hw.idx < 0) {
			allowed = false;
			continue;
		}
		publish(run, i);
		if (runs)
			page->event[i].others += total(run, i) - run->left[i];
		else
			run->left[i] = total(run, i);
	}
	page->disturbed += moved;
	page->allowed = allowed;
	change(page);
}

void fathom_events_end(struct fathom_events_run *run)
{
	run->page->allowed = 0;
	change(run->page);
}

static void mapping_opened(struct vm_area_struct *vma)
{
	struct fathom_events_run *run = vma->vm_private_data;

	kref_get(&run->held);
}

static void mapping_closed(struct vm_area_struct *vma)
{
	fathom_events_put(vma->vm_private_data);
}

/* A mapping keeps the page, and so its charge. */
static const struct vm_operations_struct mapping = {
	.open = mapping_opened,
	.close = mapping_closed,
};

int fathom_events_mmap(struct fathom_file *file, struct vm_area_struct *vma)
{
	struct fathom_events_run *run;
	struct page *page;
	int error;

	if (vma->vm_pgoff != FATHOM_EVENTS_OFFSET >> PAGE_SHIFT || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_mod(vma, 0, VM_MAYWRITE);
	spin_lock(&file->pointers);
	run = file->events;
	if (run)
		kref_get(&run->held);
	spin_unlock(&file->pointers);
	if (!run)
		return -ENOENT;
	page = virt_to_page(run->page);
	error = vm_map_pages_zero(vma, &page, 1);
	if (error) {
		fathom_events_put(run);
		return error;
	}
	vma->vm_private_data = run;
	vma->vm_ops = &mapping;
	return 0;
}
