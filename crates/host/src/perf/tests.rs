use super::*;

/// Software events that always exist: one that always counts, one that counts nothing on these architectures.
pub(crate) const EMULATION_FAULTS: Event = Event::new(1, 8);

#[test]
#[cfg(not(target_arch = "arm"))]
fn bindings_are_those_of_the_maintained_crate() {
    use std::mem::offset_of;

    use perf_event_open_sys::bindings as kernel;
    type Theirs = kernel::perf_event_attr;
    assert_eq!(size_of::<Attributes>(), kernel::PERF_ATTR_SIZE_VER5 as usize);
    let ours = [
        offset_of!(Attributes, kind),
        offset_of!(Attributes, size),
        offset_of!(Attributes, config),
        offset_of!(Attributes, sample_type),
        offset_of!(Attributes, read_format),
        offset_of!(Attributes, config1),
        offset_of!(Attributes, sample_regs_user),
        offset_of!(Attributes, sample_stack_user),
        offset_of!(Attributes, config2),
        offset_of!(Attributes, aux_watermark),
    ];
    let theirs = [
        offset_of!(Theirs, type_),
        offset_of!(Theirs, size),
        offset_of!(Theirs, config),
        offset_of!(Theirs, sample_type),
        offset_of!(Theirs, read_format),
        offset_of!(Theirs, __bindgen_anon_3),
        offset_of!(Theirs, sample_regs_user),
        offset_of!(Theirs, sample_stack_user),
        offset_of!(Theirs, __bindgen_anon_4),
        offset_of!(Theirs, aux_watermark),
    ];
    assert_eq!(ours, theirs);
    let flags = |set: fn(&mut Theirs)| {
        let mut attributes = Theirs::default();
        set(&mut attributes);
        // The flags are one 64-bit field there too, behind `read_format`.
        let bytes = (&raw const attributes).cast::<u8>();
        // SAFETY: the field is 8 bytes of a live structure, aligned to 8.
        unsafe { bytes.add(offset_of!(Attributes, flags)).cast::<u64>().read() }
    };
    assert_eq!(flags(|a| a.set_disabled(1)), DISABLED);
    assert_eq!(flags(|a| a.set_inherit(1)), INHERIT);
    assert_eq!(flags(|a| a.set_enable_on_exec(1)), ENABLE_ON_EXEC);
    assert_eq!(flags(|a| a.set_pinned(1)), PINNED);
    assert_eq!(flags(|a| a.set_exclude_kernel(1)), EXCLUDE_KERNEL);
    assert_eq!(flags(|a| a.set_exclude_hv(1)), EXCLUDE_HYPERVISOR);
    let times = kernel::PERF_FORMAT_TOTAL_TIME_ENABLED | kernel::PERF_FORMAT_TOTAL_TIME_RUNNING;
    assert_eq!(WITH_TIMES, u64::from(times));
    assert_eq!(CLOSE_ON_EXEC, kernel::PERF_FLAG_FD_CLOEXEC.into());
    assert_eq!(ENABLE, kernel::ENABLE);
    assert_eq!(SET_OUTPUT, kernel::SET_OUTPUT);
    assert_eq!(flags(|a| a.set_mmap(1)), WITH_MAPPINGS);
    assert_eq!(flags(|a| a.set_comm(1)), WITH_NAMES);
    assert_eq!(flags(|a| a.set_freq(1)), FREQUENCY);
    assert_eq!(flags(|a| a.set_mmap_data(1)), WITH_DATA_MAPPINGS);
    assert_eq!(flags(|a| a.set_task(1)), WITH_TASKS);
    assert_eq!(flags(|a| a.set_sample_id_all(1)), ID_OF_ALL);
    assert_eq!(flags(|a| a.set_mmap2(1)), MAPPINGS_WITH_INODES);
    assert_eq!(flags(|a| a.set_comm_exec(1)), NAMES_TELL_EXEC);
    assert_eq!(flags(|a| a.set_build_id(1)), MAPPINGS_WITH_BUILDS);
    let sampled = kernel::PERF_SAMPLE_IP | kernel::PERF_SAMPLE_TID | kernel::PERF_SAMPLE_TIME;
    assert_eq!(SAMPLED, u64::from(sampled));
    assert_eq!(WITH_PERIOD, kernel::PERF_SAMPLE_PERIOD.into());
    assert_eq!(WITH_ADDRESS, kernel::PERF_SAMPLE_ADDR.into());
    assert_eq!(flags(|a| a.set_exclude_callchain_kernel(1)), NO_KERNEL_CALLERS);
    assert_eq!(WITH_CALLERS, kernel::PERF_SAMPLE_CALLCHAIN.into());
    assert_eq!(WITH_REGISTERS, kernel::PERF_SAMPLE_REGS_USER.into());
    assert_eq!(WITH_STACK, kernel::PERF_SAMPLE_STACK_USER.into());
}

#[test]
#[cfg(not(target_arch = "arm"))]
fn events_are_those_of_the_maintained_crate() {
    use perf_event_open_sys::bindings as kernel;
    let software = |config: u32| Event::new(kernel::PERF_TYPE_SOFTWARE, config.into());
    assert_eq!(Event::CPU_CLOCK, software(kernel::PERF_COUNT_SW_CPU_CLOCK));
    assert_eq!(Event::TASK_CLOCK, software(kernel::PERF_COUNT_SW_TASK_CLOCK));
    assert_eq!(Event::PAGE_FAULTS, software(kernel::PERF_COUNT_SW_PAGE_FAULTS));
    assert_eq!(Event::CONTEXT_SWITCHES, software(kernel::PERF_COUNT_SW_CONTEXT_SWITCHES));
    let hardware = |config: u32| Event::new(kernel::PERF_TYPE_HARDWARE, config.into());
    assert_eq!(Event::CPU_CYCLES, hardware(kernel::PERF_COUNT_HW_CPU_CYCLES));
    assert_eq!(Event::INSTRUCTIONS, hardware(kernel::PERF_COUNT_HW_INSTRUCTIONS));
    assert_eq!(Event::BACKEND_STALLS, hardware(kernel::PERF_COUNT_HW_STALLED_CYCLES_BACKEND));
    assert_eq!(Event::BRANCHES, hardware(kernel::PERF_COUNT_HW_BRANCH_INSTRUCTIONS));
    assert_eq!(Event::BRANCH_MISSES, hardware(kernel::PERF_COUNT_HW_BRANCH_MISSES));
    assert_eq!(Event::FRONTEND_STALLS, hardware(kernel::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND));
    let reads = |cache: u32, result: u32| {
        let config = cache | kernel::PERF_COUNT_HW_CACHE_OP_READ << 8 | result << 16;
        Event::new(kernel::PERF_TYPE_HW_CACHE, config.into())
    };
    let all = |cache| reads(cache, kernel::PERF_COUNT_HW_CACHE_RESULT_ACCESS);
    let misses = |cache| reads(cache, kernel::PERF_COUNT_HW_CACHE_RESULT_MISS);
    assert_eq!(Event::L1D_READS, all(kernel::PERF_COUNT_HW_CACHE_L1D));
    assert_eq!(Event::LAST_LEVEL_READS, all(kernel::PERF_COUNT_HW_CACHE_LL));
    for (event, cache) in [
        (Event::L1D_READ_MISSES, kernel::PERF_COUNT_HW_CACHE_L1D),
        (Event::L1I_READ_MISSES, kernel::PERF_COUNT_HW_CACHE_L1I),
        (Event::LAST_LEVEL_READ_MISSES, kernel::PERF_COUNT_HW_CACHE_LL),
        (Event::DTLB_READ_MISSES, kernel::PERF_COUNT_HW_CACHE_DTLB),
        (Event::ITLB_READ_MISSES, kernel::PERF_COUNT_HW_CACHE_ITLB),
    ] {
        assert_eq!(event, misses(cache));
    }
}

#[test]
fn counter_counts_the_time_of_its_thread() {
    let Ok(mut counter) = Counter::open(Event::TASK_CLOCK) else {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    };
    let first = counter.read().expect("it opened");
    crate::clock::alu(1 << 20);
    let second = counter.read().expect("it opened");
    assert!(second.count > first.count && second.enabled_ns > first.enabled_ns);
    assert_eq!(second.running_ns, second.enabled_ns, "a software event is never without a register");
}

#[test]
fn unknown_event_is_an_error() {
    assert!(Counter::open(Event::new(0xffff_fff0, 0)).is_err());
}
