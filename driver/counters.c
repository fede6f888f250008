// SPDX-License-Identifier: GPL-2.0
/*
 * Access to the cycle counter, or to those of events, for user space, while the file is open.
 *
 * The kernel's perf owns the PMU, so the driver creates a perf event: a pinned event of
 * cycles on the CPU keeps the counter running, through idle states and hotplug too; so do those
 * of events (events.c). The driver adds user space's permission to read it. That is a register of each CPU, which
 * perf also writes. So it is set when the task is switched to, and cleared when it is
 * switched from. If the kernel has no tracepoints, every task on the CPU has it until
 * the end.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "driver.h"

struct grant {
	struct task_struct *owner;	/* with a reference; only its CPU accesses this */
	struct fathom_events_run *run;	/* likewise; NULL: the cycle counter is granted */
	struct perf_event *event;	/* of cycles; protected by grants_lock, as is the next */
	bool taken;
};

static DEFINE_PER_CPU(struct grant, grants);
static DEFINE_MUTEX(grants_lock);
static struct tracepoint *switches;
static unsigned int watching;	/* number of grants; the tracepoint is registered while there are any */

/* Called with interrupts off, on the CPU that switches. */
static void switched(void *data, bool preempt, struct task_struct *from,
		     struct task_struct *to, unsigned int state)
{
	struct task_struct *owner = this_cpu_read(grants.owner);
	struct fathom_events_run *run = this_cpu_read(grants.run);

	if (!owner || (to != owner && from != owner))
		return;
	fathom_arch_counter_user(to == owner);
	if (run)
		fathom_events_switched(run, to == owner);
}

static void look_for_switches(struct tracepoint *tracepoint, void *data)
{
	if (!strcmp(tracepoint->name, "sched_switch"))
		switches = tracepoint;
}

int fathom_counters_init(void)
{
	if (!fathom_arch_counter())
		return 0;
	for_each_kernel_tracepoint(look_for_switches, NULL);
	return 0;
}

void fathom_counters_exit(void)
{
	/* The probe's last call may still be running. */
	tracepoint_synchronize_unregister();
}

/* Both with grants_lock held. */
static int watch(void)
{
	if (watching++ || !switches)
		return 0;
	return tracepoint_probe_register(switches, switched, NULL);
}

static void unwatch(void)
{
	if (!--watching && switches)
		tracepoint_probe_unregister(switches, switched, NULL);
}

struct grant_request {
	struct task_struct *owner;
	struct fathom_events_run *run;
	int error;
};

/*
 * In a task of that CPU, and not in an interrupt: while a CPU of a guest is loaded, KVM on
 * arm64 keeps the host's register aside, and would restore the old value.
 */
static int allow(void *data)
{
	struct grant_request *req = data;
	unsigned long flags;

	/* A switch in between would see one without the other. */
	local_irq_save(flags);
	if (req->run)
		req->error = fathom_events_begin(req->run);
	else
		/* A counter that does not run is used by another perf user. */
		req->error = fathom_arch_counter_runs() ? 0 : -EBUSY;
	if (!req->error) {
		this_cpu_write(grants.run, req->run);
		this_cpu_write(grants.owner, req->owner);
		/* The owner gets it when it is switched to: another task runs here now. */
		if (!switches)
			fathom_arch_counter_user(true);
	}
	local_irq_restore(flags);
	return 0;
}

static int revoke(void *data)
{
	struct fathom_events_run *run;
	unsigned long flags;

	local_irq_save(flags);
	run = this_cpu_read(grants.run);
	this_cpu_write(grants.owner, NULL);
	this_cpu_write(grants.run, NULL);
	fathom_arch_counter_user(false);
	if (run)
		fathom_events_end(run);
	local_irq_restore(flags);
	return 0;
}

static struct perf_event *create_event(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.size = sizeof(attr),
		.pinned = 1,
		/* arm64: 64 bits wide, so that it does not wrap at 32 bits. */
		.config1 = IS_ENABLED(CONFIG_ARM64) ? 1 : 0,
	};

	return perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
}

/* Both with grants_lock held. */
static int create(struct grant *target, int cpu, struct fathom_events_run *run)
{
	if (run)
		return fathom_events_create(run, cpu);
	target->event = create_event(cpu);
	return IS_ERR(target->event) ? -ENODEV : 0;
}

static void release(struct grant *target, struct fathom_events_run *run)
{
	if (run)
		fathom_events_release(run);
	else
		perf_event_release_kernel(target->event);
	target->event = NULL;
}

/* With grants_lock held. */
static int grant(struct grant *target, int cpu, struct fathom_events_run *run)
{
	struct grant_request req = { .owner = current, .run = run };
	int error;

	if (target->taken)
		return -EBUSY;
	error = create(target, cpu, run);
	if (error) {
		target->event = NULL;
		return error;
	}
	error = watch();
	if (error) {
		watching--;
		release(target, run);
		return error;
	}
	get_task_struct(current);
	cpus_read_lock();
	error = smp_call_on_cpu(cpu, allow, &req, false);
	cpus_read_unlock();
	if (!error)
		error = req.error;
	if (error) {
		unwatch();
		release(target, run);
		put_task_struct(current);
		return error;
	}
	target->taken = true;
	return 0;
}

/* Grants the events of a run, or without one the cycle counter. */
static long turn_on(struct fathom_file *file, struct fathom_events_run *run)
{
	long error;
	int cpu;

	/* A task that can migrate would lose it. */
	if (cpumask_weight(current->cpus_ptr) != 1)
		return -EINVAL;
	cpu = cpumask_first(current->cpus_ptr);
	mutex_lock(&file->lock);
	if (file->granted >= 0) {
		mutex_unlock(&file->lock);
		return -EBUSY;
	}
	mutex_lock(&grants_lock);
	error = grant(per_cpu_ptr(&grants, cpu), cpu, run);
	mutex_unlock(&grants_lock);
	if (!error) {
		file->granted = cpu;
		spin_lock(&file->pointers);
		file->events = run;
		spin_unlock(&file->pointers);
	}
	mutex_unlock(&file->lock);
	return error;
}

long fathom_counters_on(struct fathom_file *file, struct fathom_counters *counters)
{
	long error;

	if (counters->cpu || counters->scope || counters->in_force || counters->reserved)
		return -EINVAL;
	if (!fathom_arch_counter())
		return -EOPNOTSUPP;
	error = turn_on(file, NULL);
	return error ? error : fathom_counters_state(file, counters);
}

long fathom_counters_events(struct fathom_file *file, struct fathom_events *events)
{
	struct fathom_events_run *run = fathom_events_new(events);
	long error;

	if (IS_ERR(run))
		return PTR_ERR(run);
	/* Nothing else tells what other tasks count. */
	error = switches ? turn_on(file, run) : -EOPNOTSUPP;
	if (error) {
		fathom_events_put(run);
		return error;
	}
	events->cpu = cpumask_first(current->cpus_ptr);
	events->offset = FATHOM_EVENTS_OFFSET;
	events->bytes = PAGE_SIZE;
	return 0;
}

long fathom_counters_state(struct fathom_file *file, struct fathom_counters *counters)
{
	int granted;

	mutex_lock(&file->lock);
	granted = file->granted;
	mutex_unlock(&file->lock);
	if (granted < 0)
		return -ENOENT;
	counters->cpu = granted;
	counters->scope = switches ? FATHOM_SCOPE_TASK : FATHOM_SCOPE_CPU;
	counters->in_force = get_cpu() == granted && fathom_arch_counter_allowed();
	put_cpu();
	counters->reserved = 0;
	return 0;
}

/* Called by the last close, on any CPU. */
long fathom_counters_off(struct fathom_file *file)
{
	struct fathom_events_run *run;
	struct task_struct *owner;
	struct grant *grant;
	int cpu;

	mutex_lock(&file->lock);
	cpu = file->granted;
	file->granted = -1;
	spin_lock(&file->pointers);
	run = file->events;
	file->events = NULL;
	spin_unlock(&file->pointers);
	mutex_unlock(&file->lock);
	if (cpu < 0)
		return -ENOENT;
	grant = per_cpu_ptr(&grants, cpu);
	mutex_lock(&grants_lock);
	cpus_read_lock();
	owner = grant->owner;
	/* A CPU that is offline comes back without the permission, and without the task. */
	if (smp_call_on_cpu(cpu, revoke, NULL, false)) {
		grant->owner = NULL;
		grant->run = NULL;
	}
	cpus_read_unlock();
	unwatch();
	release(grant, run);
	grant->taken = false;
	mutex_unlock(&grants_lock);
	put_task_struct(owner);
	if (run)
		fathom_events_put(run);
	return 0;
}
