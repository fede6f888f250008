//! Samples that a processor wrote to a trace, Arm's SPE, in a file of perf. They come in parts, each of which is told by a record after its
//! end: so the file is read once for them, before its other records tell what was in memory then.

use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::vec::IntoIter;

use fathom_host::{Gap, Sampled, SpeClock, SpeRecord, read_spe};
use linux_perf_data::linux_perf_event_reader::{
    CommonData, ContextSwitchRecord, Endianness, EventRecord, PerfEventType, RawEventRecord, RecordType,
    SamplingPolicy,
};
use linux_perf_data::{AttributeDescription, Auxtrace, PerfFile, RawUserRecord, UserRecord, UserRecordType};

/// `PERF_AUXTRACE_ARM_SPE` of perf (tools/perf/util/auxtrace.h).
const SPE: u64 = 4;
/// Bytes of its description behind the record's header, as perf wrote them before Linux 6.14 (tools/perf/util/arm-spe.h).
const INFO_BYTES: usize = 24;
/// `PERF_AUX_FLAG_TRUNCATED`, `_PARTIAL` and `_COLLISION`.
const CUT_SHORT: u64 = 1 | 4;
const COLLIDED: u64 = 8;

/// Samples of a trace, in the order of time.
pub struct Traced {
    /// Number of their event.
    pub event: usize,
    samples: Peekable<IntoIter<(u64, Sampled)>>,
}

impl Traced {
    /// Returns the next one that is not later.
    pub fn until(&mut self, time: u64) -> Option<(u64, Sampled)> {
        self.samples.next_if(|(at, _)| *at <= time)
    }

    /// Returns whether there is one.
    pub fn is_there(&mut self) -> bool {
        self.samples.peek().is_some()
    }
}

/// What the file has of a trace.
#[derive(Default)]
pub struct Gathered {
    /// `type` of the PMU.
    pmu: Option<u64>,
    clock: Option<SpeClock>,
    /// Bytes by the number of the buffer.
    buffers: BTreeMap<u32, Buffer>,
    parts: Vec<Part>,
    /// Processes of threads that were told.
    processes: HashMap<u32, u32>,
    /// Processes by CPU, each with the time from which on it ran; of all CPUs, where the whole machine was sampled.
    running: HashMap<u32, Vec<(u64, u32)>>,
}

/// A buffer of a CPU, or of a thread on any.
#[derive(Default)]
struct Buffer {
    cpu: Option<u32>,
    thread: Option<u32>,
    /// Bytes by their position.
    pieces: BTreeMap<u64, Vec<u8>>,
}

/// A part of a buffer, as the kernel told it.
struct Part {
    offset: u64,
    bytes: u64,
    flags: u64,
    of: CommonData,
}

impl Buffer {
    /// Returns these bytes, as far as there are any.
    fn bytes(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let end = offset.saturating_add(bytes);
        let mut found = Vec::new();
        let before = self.pieces.range(..=offset).next_back().map_or(offset, |(begin, _)| *begin);
        let mut pieces = self.pieces.range(before..end).peekable();
        while let Some((begin, piece)) = pieces.next() {
            // perf pads a piece to a multiple of 8: the next one has these bytes.
            let next = pieces.peek().map_or(end, |(next, _)| **next).min(end);
            let at = offset.saturating_add(found.len() as u64);
            let (from, to) = (at.saturating_sub(*begin), next.saturating_sub(*begin));
            let to = usize::try_from(to).unwrap_or(usize::MAX).min(piece.len());
            match usize::try_from(from).ok().and_then(|from| piece.get(from..to)) {
                Some(more) if *begin <= at => found.extend(more),
                _ => break,
            }
        }
        found
    }
}

impl Gathered {
    /// Takes a record of perf itself.
    pub fn user(&mut self, record: &RawUserRecord) {
        let bytes = record.data.as_slice();
        let long = |at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(match record.endian {
                Endianness::LittleEndian => u64::from_le_bytes(bytes),
                Endianness::BigEndian => u64::from_be_bytes(bytes),
            })
        };
        match record.record_type {
            // Kind, a word of 32 bits; from byte 8 on the type of the PMU, and one number more. Since Linux 6.14 these are a version and the
            // number of words that follow, and the type comes then.
            UserRecordType::PERF_AUXTRACE_INFO => {
                let kind = long(0).map(|both| match record.endian {
                    Endianness::LittleEndian => both & u64::from(u32::MAX),
                    Endianness::BigEndian => both >> 32,
                });
                let pmu = if bytes.len() > INFO_BYTES { long(24) } else { long(8) };
                self.pmu = pmu.filter(|_| kind == Some(SPE));
            }
            // Shift, factor, zero; since Linux 5.9 cycles, mask, and two bytes that tell whether the zero and these two are known.
            UserRecordType::PERF_TIME_CONV => {
                let is_short = bytes.get(41).is_some_and(|flag| *flag != 0);
                let clock = |shift: u64, factor: u64, zero| SpeClock {
                    shift: u16::try_from(shift).unwrap_or(u16::MAX),
                    factor: u32::try_from(factor).unwrap_or(u32::MAX),
                    zero,
                    short: long(24).zip(long(32)).filter(|_| is_short),
                };
                let parts = long(0).zip(long(8)).zip(long(16));
                self.clock = parts.map(|((shift, factor), zero)| clock(shift, factor, zero));
            }
            UserRecordType::PERF_AUXTRACE => {
                if let Ok(UserRecord::Auxtrace(trace)) = record.parse() {
                    self.piece(&trace);
                }
            }
            _ => {}
        }
    }

    fn piece(&mut self, trace: &Auxtrace) {
        let known = |number: u32| (number != u32::MAX).then_some(number);
        let buffer = self.buffers.entry(trace.index).or_default();
        (buffer.cpu, buffer.thread) = (known(trace.cpu), known(trace.tid));
        buffer.pieces.insert(trace.offset, trace.aux_data.as_slice().into_owned());
    }

    /// Takes a record of the kernel, in the order of time.
    pub fn event(&mut self, record: &RawEventRecord) {
        let Ok(of) = record.common_data() else { return };
        if record.record_type == RecordType::AUX {
            let bytes = record.data.as_slice();
            let long = |at: usize| {
                let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
                Some(match record.parse_info.endian {
                    Endianness::LittleEndian => u64::from_le_bytes(bytes),
                    Endianness::BigEndian => u64::from_be_bytes(bytes),
                })
            };
            if let (Some(offset), Some(bytes), Some(flags)) = (long(0), long(8), long(16)) {
                self.parts.push(Part { offset, bytes, flags, of });
            }
            return;
        }
        let mut known = |thread: i32, process: i32| self.processes.insert(thread as u32, process as u32);
        match record.parse() {
            Ok(EventRecord::Comm(comm)) => drop(known(comm.tid, comm.pid)),
            Ok(EventRecord::Fork(fork)) => drop(known(fork.tid, fork.pid)),
            Ok(EventRecord::ContextSwitch(ContextSwitchRecord::In { .. }))
                if record.record_type == RecordType::SWITCH_CPU_WIDE =>
            {
                if let (Some(cpu), Some(time), Some(process)) = (of.cpu, of.timestamp, process(&of)) {
                    self.running.entry(cpu).or_default().push((time, process));
                }
            }
            _ => {}
        }
    }

    /// Returns the samples; `None` if the file has no trace of SPE, or if it is not that of an event in it.
    pub fn finish(mut self, file: &PerfFile) -> Option<Traced> {
        let is_it = |attribute: &AttributeDescription| match attribute.attr.type_ {
            PerfEventType::DynamicPmu(pmu, ..) => Some(u64::from(pmu)) == self.pmu,
            _ => false,
        };
        let event = file.event_attributes().iter().position(is_it)?;
        let weight = match file.event_attributes()[event].attr.sampling_policy {
            SamplingPolicy::Period(operations) => operations.get(),
            _ => 1,
        };
        // `0x00000000410fd0c0`, as perf writes it on Arm.
        let midr = file.cpu_id().ok().flatten().and_then(|text| text.strip_prefix("0x"));
        let midr = midr.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.running.values_mut().for_each(|all| all.sort_unstable_by_key(|(time, _)| *time));
        let mut samples: Vec<(u64, Sampled)> = Vec::new();
        for part in &self.parts {
            self.read(part, |record, process| record.sample(process, weight, midr), &mut samples);
        }
        samples.sort_by_key(|(time, _)| *time);
        Some(Traced { event, samples: samples.into_iter().peekable() })
    }

    /// Reads a part.
    fn read(
        &self,
        part: &Part,
        sample: impl Fn(&SpeRecord, u32) -> Option<Sampled>,
        samples: &mut Vec<(u64, Sampled)>,
    ) {
        let end = part.of.timestamp.unwrap_or(u64::MAX);
        let mut gap = |gap| samples.push((end, Sampled::Gap(gap)));
        if part.flags & CUT_SHORT != 0 {
            gap(Gap::CutShort);
        }
        if part.flags & COLLIDED != 0 {
            gap(Gap::Collided);
        }
        let thread = part.of.tid.and_then(|thread| u32::try_from(thread).ok());
        let is_of_cpu = |buffer: &&Buffer| buffer.cpu.is_some() && buffer.cpu == part.of.cpu;
        let is_of_thread = |buffer: &&Buffer| buffer.thread.is_some() && buffer.thread == thread;
        let buffers = || self.buffers.values();
        // Without a CPU and a thread there is one buffer.
        let buffer = buffers().find(is_of_cpu).or_else(|| buffers().find(is_of_thread));
        let buffer = buffer.or_else(|| buffers().next().filter(|_| self.buffers.len() == 1));
        let bytes = buffer.map(|buffer| buffer.bytes(part.offset, part.bytes)).unwrap_or_default();
        let trace = read_spe(&bytes, part.offset);
        let mut unreadable = trace.unreadable + u64::from((bytes.len() as u64) < part.bytes);
        for record in &trace.records {
            let told = self.clock.zip(record.time).map(|(clock, ticks)| clock.ns(ticks));
            let time = told.map_or(end, |time| time.min(end));
            let process = self.process(record, time, part);
            match process.and_then(|process| sample(record, process)) {
                Some(sample) => samples.push((time, sample)),
                None => unreadable += 1,
            }
        }
        if unreadable > 0 {
            samples.push((end, Sampled::Gap(Gap::Unreadable(unreadable))));
        }
    }

    /// Returns the process of a record: by the thread that it names, else by who had its CPU.
    fn process(&self, record: &SpeRecord, time: u64, part: &Part) -> Option<u32> {
        let named = record.thread.and_then(|thread| self.processes.get(&thread)).copied();
        // Of a whole machine the record of a part has whatever process ran at its end.
        let of_cpu = || match self.running.is_empty() {
            true => process(&part.of),
            false => {
                let all = self.running.get(&part.of.cpu?)?;
                let before = all.partition_point(|(begin, _)| *begin <= time).checked_sub(1)?;
                Some(all[before].1)
            }
        };
        named.or_else(of_cpu)
    }
}

fn process(of: &CommonData) -> Option<u32> {
    of.pid.and_then(|process| u32::try_from(process).ok())
}
