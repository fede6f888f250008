// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups inside the kernel: a timer on one CPU wakes a kernel thread there, and both
 * record when they ran. For kernels without the timerlat tracer and without
 * tracepoints.
 *
 * The timer is set again when the thread is done. So there is at most one activation at
 * a time, and a thread that is too slow misses periods instead of starving its CPU.
 */
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "driver.h"

struct fathom_wakes_run {
	struct kref held;	/* held by the opening, by a running mmap, and by each mapping */
	struct hrtimer timer;
	struct task_struct *thread;
	u64 period;
	u64 expires;
	u64 irq;
	int irq_cpu;
	bool fired;
	u32 cpu;
	u32 rows;
	u32 count;		/* pages */
	struct page **pages;
	struct fathom_wakes *memory;	/* the kernel's mapping of them; user space has read-only ones */
};

atomic_t fathom_wakes_alive = ATOMIC_INIT(0);

static enum hrtimer_restart fired(struct hrtimer *timer)
{
	struct fathom_wakes_run *run = container_of(timer, struct fathom_wakes_run, timer);

	run->irq = ktime_get_ns();
	run->irq_cpu = raw_smp_processor_id();
	/* The time is stored before the flag. */
	smp_store_release(&run->fired, true);
	wake_up_process(run->thread);
	return HRTIMER_NORESTART;
}

/* Returns true once the timer has fired; false if the thread must end. */
static bool wait(struct fathom_wakes_run *run)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		/* The flag is read before the time. */
		if (kthread_should_stop() || smp_load_acquire(&run->fired))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return !kthread_should_stop();
}

static void next(struct fathom_wakes_run *run)
{
	u64 now = ktime_get_ns(), late;

	run->expires += run->period;
	if (run->expires <= now) {
		late = div64_u64(now - run->expires, run->period) + 1;
		run->memory->missed += late;
		run->expires += late * run->period;
	}
	run->fired = false;
	hrtimer_start(&run->timer, ns_to_ktime(run->expires), HRTIMER_MODE_ABS_PINNED_HARD);
}

/* Whether timer and thread were where they should be. Both move if their CPU goes offline. */
static bool in_place(const struct fathom_wakes_run *run)
{
	return run->irq_cpu == (int)run->cpu && raw_smp_processor_id() == (int)run->cpu;
}

static int record(void *data)
{
	struct fathom_wakes_run *run = data;
	struct fathom_wakes *memory = run->memory;
	u32 at, ended = FATHOM_WAKES_ENDED;

	run->expires = ktime_get_ns();
	for (at = 0; at < run->rows; at++) {
		next(run);
		if (!wait(run))
			break;
		if (!in_place(run)) {
			ended = FATHOM_WAKES_MOVED;
			break;
		}
		memory->row[at].task = ktime_get_ns();
		memory->row[at].irq = run->irq;
		memory->row[at].expires = run->expires;
		/* The row is stored before its number, because user space reads
		 * concurrently.
		 */
		smp_store_release(&memory->written, at + 1);
	}
	hrtimer_cancel(&run->timer);
	WRITE_ONCE(memory->ended, ended);
	/* Wait for kthread_stop(). */
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void end_run(struct kref *held)
{
	struct fathom_wakes_run *run = container_of(held, struct fathom_wakes_run, held);
	u32 at;

	vunmap(run->memory);
	for (at = 0; run->pages && at < run->count && run->pages[at]; at++)
		__free_page(run->pages[at]);
	kvfree(run->pages);
	fathom_uncharge((u64)run->count << PAGE_SHIFT);
	kfree(run);
	atomic_dec(&fathom_wakes_alive);
}

static void put_run(struct fathom_wakes_run *run)
{
	kref_put(&run->held, end_run);
}

static int check(const struct fathom_wake_start *start)
{
	if (start->period_ns < FATHOM_WAKE_MIN_NS || start->period_ns > FATHOM_WAKE_MAX_NS)
		return -EINVAL;
	if (start->policy >= FATHOM_POLICIES || !start->rows || start->rows > FATHOM_WAKE_MAX_ROWS)
		return -EINVAL;
	if (start->cpu >= nr_cpu_ids || start->reserved || start->offset || start->bytes)
		return -EINVAL;
	return 0;
}

/*
 * The caller may cause on a CPU, and at a priority, only what it may do itself
 * (sched_setaffinity, sched_setscheduler). A cpuset cannot be asked from a module, and
 * binds privileged callers too, so the CPU must be one on which the caller may run now:
 * whoever may go to another one does so first.
 */
static int permit(const struct fathom_wake_start *start)
{
	unsigned long priority = start->policy == FATHOM_POLICY_FIFO ? MAX_RT_PRIO / 2 : 1;

	if (!cpumask_test_cpu(start->cpu, current->cpus_ptr))
		return -EPERM;
	if (start->policy != FATHOM_POLICY_NORMAL && rlimit(RLIMIT_RTPRIO) < priority &&
	    !capable(CAP_SYS_NICE))
		return -EPERM;
	return 0;
}

/* Pages of the caller's control group, and a mapping of the kernel. */
static int get_memory(struct fathom_wakes_run *run)
{
	u32 at;

	run->pages = kvcalloc(run->count, sizeof(*run->pages), GFP_KERNEL_ACCOUNT);
	if (!run->pages)
		return -ENOMEM;
	for (at = 0; at < run->count; at++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		run->pages[at] = alloc_page(GFP_FATHOM);
		if (!run->pages[at])
			return -ENOMEM;
	}
	run->memory = vmap(run->pages, run->count, VM_MAP, PAGE_KERNEL);
	return run->memory ? 0 : -ENOMEM;
}

static struct fathom_wakes_run *new_run(const struct fathom_wake_start *start)
{
	struct fathom_wakes_run *run = kzalloc(sizeof(*run), GFP_KERNEL_ACCOUNT);
	int error;

	if (!run)
		return ERR_PTR(-ENOMEM);
	run->count = DIV_ROUND_UP(struct_size(run->memory, row, start->rows), PAGE_SIZE);
	error = fathom_charge((u64)run->count << PAGE_SHIFT);
	if (error) {
		kfree(run);
		return ERR_PTR(error);
	}
	kref_init(&run->held);
	/* Limits the timers on a CPU. */
	if (atomic_inc_return(&fathom_wakes_alive) > FATHOM_WAKES_MOST) {
		put_run(run);
		return ERR_PTR(-EBUSY);
	}
	error = get_memory(run);
	if (error) {
		put_run(run);
		return ERR_PTR(error);
	}
	run->memory->version = FATHOM_VERSION;
	run->memory->rows = start->rows;
	run->period = start->period_ns;
	run->rows = start->rows;
	run->cpu = start->cpu;
	hrtimer_setup(&run->timer, fired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	return run;
}

static int begin(struct fathom_wakes_run *run, const struct fathom_wake_start *start)
{
	int error = 0;

	cpus_read_lock();
	if (!cpu_online(start->cpu)) {
		error = -ENODEV;
		goto out;
	}
	run->thread = kthread_create(record, run, "fathom_wakes/%u", start->cpu);
	if (IS_ERR(run->thread)) {
		error = PTR_ERR(run->thread);
		goto out;
	}
	/* It may be stopped before its first run. */
	get_task_struct(run->thread);
	kthread_bind(run->thread, start->cpu);
	if (start->policy == FATHOM_POLICY_FIFO)
		sched_set_fifo(run->thread);
	else if (start->policy == FATHOM_POLICY_FIFO_LOW)
		sched_set_fifo_low(run->thread);
out:
	cpus_read_unlock();
	return error;
}

long fathom_wakes_start(struct fathom_file *file, struct fathom_wake_start *start)
{
	struct fathom_wakes_run *run;
	int error = check(start);

	if (!error) {
		start->cpu = array_index_nospec(start->cpu, nr_cpu_ids);
		error = permit(start);
	}
	if (error)
		return error;
	/* User space would read other lines than the thread writes. */
	if (fathom_arch_aliases())
		return -EOPNOTSUPP;
	run = new_run(start);
	if (IS_ERR(run))
		return PTR_ERR(run);
	mutex_lock(&file->lock);
	error = file->wakes ? -EBUSY : begin(run, start);
	if (error) {
		mutex_unlock(&file->lock);
		put_run(run);
		return error;
	}
	start->offset = FATHOM_WAKES_OFFSET;
	start->bytes = (u64)run->count << PAGE_SHIFT;
	spin_lock(&file->pointers);
	file->wakes = run;
	spin_unlock(&file->pointers);
	wake_up_process(run->thread);
	mutex_unlock(&file->lock);
	return 0;
}

long fathom_wakes_stop(struct fathom_file *file)
{
	struct fathom_wakes_run *run;

	mutex_lock(&file->lock);
	spin_lock(&file->pointers);
	run = file->wakes;
	file->wakes = NULL;
	spin_unlock(&file->pointers);
	if (run) {
		kthread_stop(run->thread);
		/* If the thread never ran, there is no timer to cancel. */
		hrtimer_cancel(&run->timer);
		put_task_struct(run->thread);
	}
	mutex_unlock(&file->lock);
	if (!run)
		return -ENOENT;
	put_run(run);
	return 0;
}

static void mapping_opened(struct vm_area_struct *vma)
{
	struct fathom_wakes_run *run = vma->vm_private_data;

	kref_get(&run->held);
}

static void mapping_closed(struct vm_area_struct *vma)
{
	put_run(vma->vm_private_data);
}

/* A mapping keeps the memory, and so its charge. */
static const struct vm_operations_struct mapping = {
	.open = mapping_opened,
	.close = mapping_closed,
};

int fathom_wakes_mmap(struct fathom_file *file, struct vm_area_struct *vma)
{
	struct fathom_wakes_run *run;
	int error;

	if (vma->vm_pgoff != FATHOM_WAKES_OFFSET >> PAGE_SHIFT)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_mod(vma, 0, VM_MAYWRITE);
	spin_lock(&file->pointers);
	run = file->wakes;
	if (run)
		kref_get(&run->held);
	spin_unlock(&file->pointers);
	if (!run)
		return -ENOENT;
	error = vm_map_pages_zero(vma, run->pages, run->count);
	if (error) {
		put_run(run);
		return error;
	}
	vma->vm_private_data = run;
	vma->vm_ops = &mapping;
	return 0;
}
