//! Samples in a file of perf (`perf record`), read by the maintained parser.
//!
//! It believes lengths in the file, and a hostile one could make it ask for more memory than there is, which ends the process. So a
//! process of its own reads the file, with a limit of memory ([`super::perf_data`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::SystemTime;

use fathom_experiment::record::Profile;
use fathom_host::{Callers, DataSource, Registers, Sampled, SampledAccess, Stack, StackMemory};
use linux_perf_data::linux_perf_event_reader::{
    Endianness, EventRecord, Mmap2FileId, PerfEventAttr, RawEventRecord, RecordType, Regs, SampleFormat,
    SampleRecord, SamplingPolicy,
};
use linux_perf_data::{AttributeDescription, Error, Feature, PerfFile, PerfFileReader, PerfFileRecord};

use super::traced::{Gathered, Traced};
use crate::failure::Failure;
use crate::program::samples::Places;

/// Remedy for a file that cannot be read.
pub const RECORD_AGAIN: &str =
    "does perf report -i FILE read it? If so, record it without -z; else record it again";
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;

/// Returns the samples of an event; without a name, of the only one that has any.
pub fn read(path: &Path, event: Option<&str>) -> Result<Profile, Failure> {
    let shown = path.display();
    let failed = |e: Error| Failure::usage(format!("{shown}: {e}"), RECORD_AGAIN);
    let file = File::open(path).map_err(|e| Failure::usage(format!("{shown}: {e}"), ""))?;
    let since = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(BufReader::new(file)).map_err(failed)?;
    let asked = asked(perf_file.event_attributes(), event, &shown.to_string())?;
    let traced = traced(path, &perf_file, asked).map_err(failed)?;
    let mut sampled = asked.or(traced.as_ref().map(|traced| traced.event));
    let mut reader = Reader::of(&perf_file, sampled, traced, since);
    while let Some(record) = record_iter.next_record(&mut perf_file).map_err(failed)? {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let time = record.timestamp();
        let access = sampled_access(&record);
        let record = record.parse().map_err(|e| failed(e.into()))?;
        if matches!(record, EventRecord::Sample(_)) {
            match sampled {
                None => {
                    sampled = Some(attr_index);
                    let attribute = &perf_file.event_attributes()[attr_index];
                    reader.attribute = attribute.attr;
                    reader.places.set_callers(callers(&attribute.attr));
                }
                Some(one) if one == attr_index => {}
                Some(_) if asked.is_some() => continue,
                Some(_) => return Err(several(perf_file.event_attributes(), &shown.to_string())),
            }
        }
        reader.take_traced(time.unwrap_or(0));
        reader.take(record, time, access);
    }
    reader.take_traced(u64::MAX);
    let attribute = &perf_file.event_attributes()[sampled.unwrap_or(0)];
    Ok(reader.finish(name(attribute), path))
}

/// Returns the samples that the processor wrote to a trace, of the event that is asked for, if that is given: `None` without any.
fn traced(path: &Path, perf_file: &PerfFile, asked: Option<usize>) -> Result<Option<Traced>, Error> {
    if !perf_file.features().has_feature(Feature::AUXTRACE) {
        return Ok(None);
    }
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(BufReader::new(File::open(path)?))?;
    let mut gathered = Gathered::default();
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        match record {
            PerfFileRecord::EventRecord { record, .. } => gathered.event(&record),
            PerfFileRecord::UserRecord(record) => gathered.user(&record),
        }
    }
    let is_asked = |traced: &Traced| asked.is_none_or(|asked| asked == traced.event);
    let traced = gathered.finish(&perf_file).filter(is_asked);
    Ok(traced.and_then(|mut traced| traced.is_there().then_some(traced)))
}

fn name(attribute: &AttributeDescription) -> String {
    attribute.name().unwrap_or("?").to_owned()
}

/// Returns the number of the event with this name.
fn asked(all: &[AttributeDescription], event: Option<&str>, shown: &str) -> Result<Option<usize>, Failure> {
    let Some(event) = event else { return Ok(None) };
    match all.iter().position(|attribute| attribute.name() == Some(event)) {
        Some(found) => Ok(Some(found)),
        None => {
            Err(Failure::usage(format!("{shown}: no event {event}"), format!("name one of: {}", names(all))))
        }
    }
}

fn names(all: &[AttributeDescription]) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn several(all: &[AttributeDescription], shown: &str) -> Failure {
    Failure::usage(
        format!("{shown}: samples of several events, and a profile has one"),
        format!("choose one by --event: {}", names(all)),
    )
}

/// Returns what samples of an event have about callers.
fn callers(attribute: &PerfEventAttr) -> Callers {
    let has = |format| attribute.sample_format.contains(format);
    if has(SampleFormat::REGS_USER) && has(SampleFormat::STACK_USER) {
        Callers::Tables
    } else if has(SampleFormat::CALLCHAIN) {
        Callers::FramePointers
    } else {
        Callers::Unknown
    }
}

/// Returns the build ids of files by their paths, for mappings that do not tell them.
fn builds(file: &PerfFile) -> HashMap<Vec<u8>, Vec<u8>> {
    let all = file.build_ids().unwrap_or_default();
    all.into_values().map(|info| (info.path, info.build_id)).collect()
}

/// Returns latency and source of a sample's access, which the parser leaves out. They are found from the sample's end: what may follow them
/// has a fixed length, but for registers at the interrupt and parts of a trace.
fn sampled_access(record: &RawEventRecord) -> Option<SampledAccess> {
    let format = record.parse_info.sample_format;
    let has = |of: SampleFormat| format.contains(of);
    let is_known = has(SampleFormat::DATA_SRC) && !has(SampleFormat::REGS_INTR | SampleFormat::AUX);
    if record.record_type != RecordType::SAMPLE || !is_known {
        return None;
    }
    let behind = [
        SampleFormat::TRANSACTION,
        SampleFormat::PHYS_ADDR,
        SampleFormat::CGROUP,
        SampleFormat::DATA_PAGE_SIZE,
        SampleFormat::CODE_PAGE_SIZE,
    ];
    let bytes = record.data.as_slice();
    let end = bytes.len().checked_sub(8 * behind.into_iter().filter(|of| has(*of)).count())?;
    let word = |end: usize| bytes.get(end.checked_sub(8)?..end)?.try_into().ok();
    let long = |bytes: [u8; 8]| match record.parse_info.endian {
        Endianness::LittleEndian => u64::from_le_bytes(bytes),
        Endianness::BigEndian => u64::from_be_bytes(bytes),
    };
    let source = long(word(end)?);
    // Of a structure (`PERF_SAMPLE_WEIGHT_STRUCT`) the lower half is the latency.
    let latency = match (has(SampleFormat::WEIGHT), has(SampleFormat::WEIGHT_STRUCT)) {
        (true, _) => long(word(end - 8)?),
        (_, true) => long(word(end - 8)?) & u64::from(u32::MAX),
        _ => 0,
    };
    Some(SampledAccess { latency, source: DataSource::Kernel(source) })
}

/// What is read so far.
struct Reader {
    /// `uname -m` of the machine.
    architecture: Option<String>,
    builds: HashMap<Vec<u8>, Vec<u8>>,
    attribute: PerfEventAttr,
    places: Places,
    traced: Option<Traced>,
    /// Whether samples of an event have addresses of data.
    has_data: bool,
    /// First program that was executed.
    program: Option<String>,
    /// Times of the first and last sample.
    times: Option<(u64, u64)>,
    with_kernel: bool,
}

impl Reader {
    /// Begins with samples of an event, if it is known already.
    fn of(
        file: &PerfFile,
        event: Option<usize>,
        traced: Option<Traced>,
        since: Option<SystemTime>,
    ) -> Reader {
        let all = file.event_attributes();
        let attribute = all[event.unwrap_or(0)].attr;
        // Mappings come before the first sample tells the event.
        let tells = |of: &AttributeDescription| of.attr.sample_format.contains(SampleFormat::ADDR);
        let has_data = traced.is_some() || all.iter().any(tells);
        let callers = if traced.is_some() { Callers::Unknown } else { callers(&attribute) };
        Reader {
            architecture: file.arch().ok().flatten().map(str::to_owned),
            builds: builds(file),
            attribute,
            places: Places::new(since, callers).with_data(has_data),
            traced,
            has_data,
            program: None,
            times: None,
            with_kernel: false,
        }
    }

    /// Takes the samples of a trace up to a time.
    fn take_traced(&mut self, until: u64) {
        while let Some((time, what)) = self.traced.as_mut().and_then(|traced| traced.until(until)) {
            if let Sampled::Sample { address, .. } = what {
                self.sampled_at(time, address);
            }
            self.places.add(what);
        }
    }

    /// Notes when a sample was, and whether it is the kernel's.
    fn sampled_at(&mut self, time: u64, address: u64) {
        self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        self.with_kernel |= Places::is_kernel(address);
    }

    /// Takes a record, in the order of time.
    fn take(&mut self, record: EventRecord, time: Option<u64>, access: Option<SampledAccess>) {
        let process = |pid: i32| pid as u32;
        let what = match record {
            EventRecord::Sample(sample) => {
                let (Some(address), Some(pid)) = (sample.ip, sample.pid) else { return };
                let time = sample.timestamp.or(time).unwrap_or(0);
                self.sampled_at(time, address);
                let (weight, stack) = (self.weight(&sample), self.stack(&sample));
                let data = sample.addr;
                Sampled::Sample { process: process(pid), address, weight, stack, data, access }
            }
            EventRecord::Mmap2(map)
                if map.pid >= 0 && (self.has_data || map.protection & EXECUTABLE != 0) =>
            {
                let path = map.path.as_slice();
                let build = match map.file_id {
                    Mmap2FileId::BuildId(id) => Some(id),
                    Mmap2FileId::InodeAndVersion(_) => self.builds.get(&*path).cloned(),
                };
                let file = String::from_utf8_lossy(&path).into_owned();
                let (start, bytes, offset) = (map.address, map.length, map.page_offset);
                let is_code = map.protection & EXECUTABLE != 0;
                Sampled::Mapped { process: process(map.pid), start, bytes, offset, file, is_code, build }
            }
            EventRecord::Comm(comm) if comm.is_execve => {
                let name = || String::from_utf8_lossy(&comm.name.as_slice()).into_owned();
                self.program.get_or_insert_with(name);
                Sampled::Executed { process: process(comm.pid) }
            }
            EventRecord::Fork(fork) if fork.pid != fork.ppid => {
                Sampled::Started { process: process(fork.pid), parent: process(fork.ppid) }
            }
            EventRecord::Lost(lost) => Sampled::Lost(lost.count),
            EventRecord::Throttle(_) => Sampled::Throttled,
            _ => return,
        };
        self.places.add(what);
    }

    fn weight(&self, sample: &SampleRecord) -> u64 {
        sample.period.unwrap_or(match self.attribute.sampling_policy {
            SamplingPolicy::Period(events) => events.get(),
            _ => 1,
        })
    }

    fn stack(&self, sample: &SampleRecord) -> Stack {
        match callers(&self.attribute) {
            Callers::Unknown => Stack::Unknown,
            Callers::FramePointers => Stack::of_chain(
                sample.callchain.iter().flat_map(|chain| (0..chain.len()).map_while(|at| chain.get(at))),
            ),
            Callers::Tables => {
                self.memory(sample).map_or(Stack::Unknown, |memory| Stack::Memory(Box::new(memory)))
            }
        }
    }

    fn memory(&self, sample: &SampleRecord) -> Option<StackMemory> {
        let registers = registers(self.architecture.as_deref()?, sample.user_regs.as_ref()?)?;
        let (stack, read) = sample.user_stack.as_ref()?;
        let bytes = stack.as_slice();
        let read = usize::try_from(*read).unwrap_or(usize::MAX).min(bytes.len());
        Some(StackMemory { registers, bytes: bytes[..read].to_vec() })
    }

    fn finish(self, event: String, path: &Path) -> Profile {
        let file = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rate = match self.attribute.sampling_policy {
            SamplingPolicy::Frequency(rate) => rate,
            _ => 0,
        };
        Profile {
            program: self.program.unwrap_or_else(file),
            event,
            rate,
            wall_ns: self.times.map_or(0, |(first, last)| last.saturating_sub(first)),
            imported: true,
            with_kernel: self.with_kernel,
            ..self.places.finish()
        }
    }
}

/// Returns the registers of a sample of a machine with this `uname -m`.
fn registers(machine: &str, of: &Regs) -> Option<Registers> {
    let values = |numbers: &[u64]| numbers.iter().map(|number| of.get(*number)).collect::<Option<Vec<u64>>>();
    match machine {
        "x86_64" => values(&Registers::OF_X86_64)?.try_into().ok().map(Registers::of_x86_64),
        "aarch64" => values(&Registers::OF_AARCH64)?.try_into().ok().map(Registers::of_aarch64),
        _ => None,
    }
}
