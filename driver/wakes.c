// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups inside the kernel: a timer on one CPU wakes a kernel thread there, and both
 * record when they ran. For kernels without the timerlat tracer and without
 * tracepoints.
 *
 * The timer is set again when the thread is done. So there is at most one activation at
 * a time, and a thread that is too slow misses periods instead of starving its CPU.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "driver.h"

struct fathom_wakes_run {
	struct kref held;	/* held by the opening, and by a running mmap */
	struct hrtimer timer;
	struct task_struct *thread;
	u64 period;
	u64 expires;
	u64 irq;
	bool fired;
	u32 rows;
	size_t bytes;
	struct fathom_wakes *memory;	/* mapped read-only by user space */
};

atomic_t fathom_wakes_alive = ATOMIC_INIT(0);

static enum hrtimer_restart fired(struct hrtimer *timer)
{
	struct fathom_wakes_run *run = container_of(timer, struct fathom_wakes_run, timer);

	run->irq = ktime_get_ns();
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

static int record(void *data)
{
	struct fathom_wakes_run *run = data;
	struct fathom_wakes *memory = run->memory;
	u32 at;

	run->expires = ktime_get_ns();
	for (at = 0; at < run->rows; at++) {
		next(run);
		if (!wait(run))
			break;
		memory->row[at].task = ktime_get_ns();
		memory->row[at].irq = run->irq;
		memory->row[at].expires = run->expires;
		/* The row is stored before its number, because user space reads
		 * concurrently.
		 */
		smp_store_release(&memory->written, at + 1);
	}
	hrtimer_cancel(&run->timer);
	WRITE_ONCE(memory->ended, 1);
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

	/* User mappings hold references to their pages. */
	vfree(run->memory);
	fathom_uncharge(run->bytes);
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

static struct fathom_wakes_run *new_run(const struct fathom_wake_start *start)
{
	struct fathom_wakes_run *run = kzalloc(sizeof(*run), GFP_KERNEL_ACCOUNT);
	int error;

	if (!run)
		return ERR_PTR(-ENOMEM);
	run->bytes = PAGE_ALIGN(struct_size(run->memory, row, start->rows));
	error = fathom_charge(run->bytes);
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
	run->memory = vmalloc_user(run->bytes);
	if (!run->memory) {
		put_run(run);
		return ERR_PTR(-ENOMEM);
	}
	run->memory->version = FATHOM_VERSION;
	run->memory->rows = start->rows;
	run->period = start->period_ns;
	run->rows = start->rows;
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

	if (error)
		return error;
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
	start->bytes = run->bytes;
	spin_lock(&file->wakes_lock);
	file->wakes = run;
	spin_unlock(&file->wakes_lock);
	wake_up_process(run->thread);
	mutex_unlock(&file->lock);
	return 0;
}

long fathom_wakes_stop(struct fathom_file *file)
{
	struct fathom_wakes_run *run;

	mutex_lock(&file->lock);
	spin_lock(&file->wakes_lock);
	run = file->wakes;
	file->wakes = NULL;
	spin_unlock(&file->wakes_lock);
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

int fathom_wakes_mmap(struct fathom_file *file, struct vm_area_struct *vma)
{
	struct fathom_wakes_run *run;
	int error;

	if (vma->vm_pgoff != FATHOM_WAKES_OFFSET >> PAGE_SHIFT)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_mod(vma, 0, VM_MAYWRITE);
	spin_lock(&file->wakes_lock);
	run = file->wakes;
	if (run)
		kref_get(&run->held);
	spin_unlock(&file->wakes_lock);
	if (!run)
		return -ENOENT;
	error = remap_vmalloc_range(vma, run->memory, 0);
	put_run(run);
	return error;
}
