//! Records of the kernel's rings (perf_event_open(2), "MMAP layout").

use super::Callers;
use super::access::{DataSource, SampledAccess};
use crate::arch::{Architecture as _, Cpu, Registers};

/// `PERF_RECORD_*`.
const LOST: u32 = 2;
const COMM: u32 = 3;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const AUX: u32 = 11;
const LOST_SAMPLES: u32 = 13;
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;
/// `PERF_RECORD_MISC_COMM_EXEC`.
const BY_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`.
const WITH_BUILD: u16 = 1 << 14;
/// `PERF_AUX_FLAG_TRUNCATED`, `_PARTIAL` and `_COLLISION`.
const CUT_SHORT: u64 = 1 | 4;
const COLLIDED: u64 = 8;
/// Longest build id of a mapping, bytes.
const MAX_BUILD: usize = 20;
/// Bytes of a record's header: type, misc, size.
pub(super) const HEADER: usize = 8;
/// Return addresses from here on are marks: `PERF_CONTEXT_MAX`.
const CONTEXTS: u64 = -4095_i64 as u64;
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;
/// Where a sample's callers begin.
const CALLERS: usize = 40;
/// Bytes at the end of every record but samples: process, thread, time (`sample_id_all`).
const ID: usize = 16;

/// What happened, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledEvent {
    /// Time, ns of the kernel's clock.
    pub time: u64,
    /// What.
    pub what: Sampled,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// A sample.
    Sample {
        /// Process.
        process: u32,
        /// Address of the instruction.
        address: u64,
        /// Events since the sample before, or ns.
        weight: u64,
        /// What tells its callers.
        stack: Stack,
        /// Address of the data, if samples have it.
        data: Option<u64>,
        /// What is known of the access, if samples have it.
        access: Option<SampledAccess>,
    },
    /// A process has mapped code; where samples have addresses of data: any memory.
    Mapped {
        /// Process.
        process: u32,
        /// First address.
        start: u64,
        /// Bytes.
        bytes: u64,
        /// Offset in the file.
        offset: u64,
        /// The file, or a name in brackets; `//anon` for memory of no file.
        file: String,
        /// Whether it may be executed.
        is_code: bool,
        /// Build id of the file, if it has one and the kernel tells it.
        build: Option<Vec<u8>>,
    },
    /// A process has become another program.
    Executed {
        /// Process.
        process: u32,
    },
    /// A process was started with the memory of another one.
    Started {
        /// Process.
        process: u32,
        /// The other one.
        parent: u32,
    },
    /// Records were lost, so many: samples, or mappings and starts of processes.
    Lost(u64),
    /// The kernel stopped sampling for a while.
    Throttled,
    /// A trace of samples is not whole.
    Gap(Gap),
}

/// What a part of a trace of samples does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Its end: there was no room.
    CutShort,
    /// Some samples: each began before the one before it had ended.
    Collided,
    /// So many records: they could not be read.
    Unreadable(u64),
}

/// What a sample tells of the callers of its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Nothing: not asked for, or a program of 32 bits on a kernel of 64.
    Unknown,
    /// Return addresses, the nearest first, as far as there are frame pointers.
    Callers(Vec<u64>),
    /// What they can be computed from.
    Memory(Box<StackMemory>),
}

impl Stack {
    /// Returns that of a call chain of the kernel: with marks, and the sample's own instruction before its callers.
    pub fn of_chain(chain: impl Iterator<Item = u64>) -> Stack {
        Stack::Callers(chain.filter(|address| *address < CONTEXTS).skip(1).collect())
    }
}

/// Registers and stack of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackMemory {
    /// Registers.
    pub registers: Registers,
    /// Bytes from the stack pointer on.
    pub bytes: Vec<u8>,
}

fn word(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?))
}

fn long(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(record.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Returns what a sample tells of its callers, which it has behind its other parts.
fn stack(record: &[u8], callers: Callers) -> Option<Stack> {
    let long = |at: usize| long(record, at);
    match callers {
        Callers::Unknown => Some(Stack::Unknown),
        // Number, addresses; the first is that of the instruction.
        Callers::FramePointers => {
            let most = usize::try_from(long(CALLERS)?).unwrap_or(usize::MAX);
            let all = record.get(CALLERS + 8..)?.chunks_exact(8).take(most);
            Some(Stack::of_chain(all.map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or_default()))))
        }
        // ABI, registers, bytes of the stack, the stack, those of them that were read.
        Callers::Tables => {
            let count = Cpu::SAMPLED_REGISTERS.count_ones() as usize;
            if long(CALLERS)? != ABI_64 {
                return Some(Stack::Unknown);
            }
            let values: Option<Vec<u64>> = (0..count).map(|n| long(CALLERS + 8 + 8 * n)).collect();
            let registers = Cpu::sampled_registers(&values?)?;
            let at = CALLERS + 8 + 8 * count;
            let bytes: usize = long(at)?.try_into().ok()?;
            if bytes == 0 {
                return Some(Stack::Unknown);
            }
            let read = usize::try_from(long(at.checked_add(8)?.checked_add(bytes)?)?).unwrap_or(usize::MAX);
            let bytes = record.get(at + 8..at + 8 + read.min(bytes))?.to_vec();
            Some(Stack::Memory(Box::new(StackMemory { registers, bytes })))
        }
    }
}

/// What samples have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) callers: Callers,
    /// Events of each sample, if that is fixed: then they have an address in place of it.
    pub(super) each: Option<u64>,
    /// Whether that is the address of data.
    pub(super) has_data: bool,
    /// Whether latency and source of the access follow all else.
    pub(super) has_access: bool,
}

/// Mode of the CPU in `misc` (`PERF_RECORD_MISC_CPUMODE_MASK`), and that of user space.
const MODE: u16 = 7;
const USER: u16 = 2;

/// Reads a record with its header. Returns nothing for one of a kind that is not used here, or shorter than its kind.
pub(super) fn read(record: &[u8], format: Format) -> Option<SampledEvent> {
    let word = |at: usize| word(record, at);
    let long = |at: usize| long(record, at);
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let kind = word(0)?;
    let end = record.len().checked_sub(ID)?;
    let what = match kind {
        // What a PMU that cannot leave out the kernel has sampled there.
        SAMPLE if format.has_access && misc & MODE != USER => return None,
        // Address, process and thread, time, period or address of the data, callers, latency and source of an access.
        SAMPLE => {
            let (stack, last) = (stack(record, format.callers)?, long(32)?);
            let weight = format.each.unwrap_or(last);
            let data = (format.each.is_some() && format.has_data).then_some(last);
            let access = |end: usize| {
                Some(SampledAccess {
                    latency: long(end.checked_sub(16)?)?,
                    source: DataSource::Kernel(long(end - 8)?),
                })
            };
            let access = if format.has_access { Some(access(record.len())?) } else { None };
            Sampled::Sample { address: long(HEADER)?, process: word(16)?, weight, stack, data, access }
        }
        // Process, thread, start, bytes, offset, build id or device and inode, protection, flags, name.
        MMAP2 => Sampled::Mapped {
            process: word(8)?,
            start: long(16)?,
            bytes: long(24)?,
            offset: long(32)?,
            file: text(record.get(72..end)?),
            is_code: word(64)? & EXECUTABLE != 0,
            build: (misc & WITH_BUILD != 0).then(|| build(record)).flatten(),
        },
        COMM if misc & BY_EXEC != 0 => Sampled::Executed { process: word(8)? },
        // Process, its parent, thread, its parent, time. A thread has the process of its parent.
        FORK if word(8)? != word(12)? => Sampled::Started { process: word(8)?, parent: word(12)? },
        LOST => Sampled::Lost(long(16)?),
        LOST_SAMPLES => Sampled::Lost(long(HEADER)?),
        THROTTLE => Sampled::Throttled,
        _ => return None,
    };
    let time = if kind == SAMPLE { long(24)? } else { long(record.len() - 8)? };
    Some(SampledEvent { time, what })
}

/// A part of a trace that was written beside the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Position of its begin, and its bytes.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) is_cut_short: bool,
    pub(super) has_collided: bool,
    /// Process that had the CPU.
    pub(super) process: u32,
    /// When it ended, ns.
    pub(super) time: u64,
}

/// Returns what a record tells of a trace: position, bytes, flags, process, thread, time. `None` of another one.
pub(super) fn part(record: &[u8]) -> Option<Part> {
    if word(record, 0)? != AUX {
        return None;
    }
    let (end, flags) = (record.len().checked_sub(ID).filter(|end| *end >= 32)?, long(record, 24)?);
    Some(Part {
        offset: long(record, 8)?,
        bytes: long(record, 16)?,
        is_cut_short: flags & CUT_SHORT != 0,
        has_collided: flags & COLLIDED != 0,
        process: word(record, end)?,
        time: long(record, record.len() - 8)?,
    })
}

/// Returns the build id of a mapping: its length, three bytes, the id.
fn build(record: &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(*record.get(40)?);
    (1..=MAX_BUILD).contains(&length).then(|| record.get(44..44 + length).map(<[u8]>::to_vec)).flatten()
}

/// Returns a text that ends with a 0.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let mut all = kind.to_ne_bytes().to_vec();
        all.extend(misc.to_ne_bytes());
        all.extend(((HEADER + body.len()) as u16).to_ne_bytes());
        all.extend(body);
        all
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn longs(longs: &[u64]) -> Vec<u8> {
        longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
    }

    /// Every record that is used, with what it says.
    fn all() -> Vec<(Vec<u8>, SampledEvent)> {
        let id = [words(&[7, 8]), longs(&[99])].concat();
        let at = |what| SampledEvent { time: 99, what };
        let name = b"/bin/x\0\0".to_vec();
        let places = longs(&[0x1000, 0x2000, 0x3000]);
        let mapping = [words(&[7, 8]), places.clone(), longs(&[0, 0, 0]), words(&[3, 2]), name.clone()];
        let with_build = [words(&[7, 8]), places, vec![20, 0, 0, 0], vec![0xab; 20], words(&[5, 2]), name];
        vec![
            (
                record(SAMPLE, 2, &[longs(&[0x1234]), words(&[7, 8]), longs(&[99, 1000])].concat()),
                at(Sampled::Sample {
                    process: 7,
                    address: 0x1234,
                    weight: 1000,
                    stack: Stack::Unknown,
                    data: None,
                    access: None,
                }),
            ),
            (
                record(MMAP2, 2, &[mapping.concat(), id.clone()].concat()),
                at(Sampled::Mapped {
                    process: 7,
                    start: 0x1000,
                    bytes: 0x2000,
                    offset: 0x3000,
                    file: "/bin/x".into(),
                    is_code: false,
                    build: None,
                }),
            ),
            (
                record(MMAP2, 2 | WITH_BUILD, &[with_build.concat(), id.clone()].concat()),
                at(Sampled::Mapped {
                    process: 7,
                    start: 0x1000,
                    bytes: 0x2000,
                    offset: 0x3000,
                    file: "/bin/x".into(),
                    is_code: true,
                    build: Some(vec![0xab; 20]),
                }),
            ),
            (
                record(COMM, BY_EXEC, &[words(&[7, 8]), b"x\0\0\0\0\0\0\0".to_vec(), id.clone()].concat()),
                at(Sampled::Executed { process: 7 }),
            ),
            (
                record(FORK, 0, &[words(&[9, 7, 9, 7]), longs(&[99]), id.clone()].concat()),
                at(Sampled::Started { process: 9, parent: 7 }),
            ),
            (record(LOST, 0, &[longs(&[1, 12]), id.clone()].concat()), at(Sampled::Lost(12))),
            (record(LOST_SAMPLES, 0, &[longs(&[3]), id.clone()].concat()), at(Sampled::Lost(3))),
            (record(THROTTLE, 0, &[longs(&[99, 0, 0]), id].concat()), at(Sampled::Throttled)),
        ]
    }

    fn format(callers: Callers) -> Format {
        Format { callers, each: None, has_data: false, has_access: false }
    }

    /// In place of their number, samples have an address, which is one of data or means nothing.
    #[test]
    fn fixed_numbers_of_events_are_not_in_the_record() {
        let (sample, _) = all().remove(0);
        for (has_data, expected) in [(false, None), (true, Some(1000))] {
            let format = Format { each: Some(97), has_data, ..format(Callers::Unknown) };
            let Some(Sampled::Sample { weight, data, .. }) = read(&sample, format).map(|event| event.what)
            else {
                panic!("no sample");
            };
            assert_eq!((weight, data), (97, expected));
        }
    }

    /// A load of 0x5000 that took 230 cycles, from memory on this node; with callers in between, and in the kernel.
    #[test]
    fn accesses_are_at_the_end() {
        let source = 0x1_0000_0000 | 0x80 << 5 | 2;
        let planted = SampledAccess { latency: 230, source: DataSource::Kernel(source) };
        let head = [longs(&[0x1234]), words(&[7, 8]), longs(&[99, 0x5000])].concat();
        let ends = [230, source];
        let all = Format { each: Some(1009), has_data: true, has_access: true, ..format(Callers::Unknown) };
        let chain = Format { callers: Callers::FramePointers, ..all };
        let user = -512_i64 as u64;
        for (format, middle) in [(all, vec![]), (chain, vec![3, user, 0x1234, 0x2000])] {
            let body = [head.clone(), longs(&middle), longs(&ends)].concat();
            let read = read(&record(SAMPLE, 2, &body), format).map(|event| event.what);
            let Some(Sampled::Sample { weight, data, access, .. }) = read else {
                panic!("no sample: {read:?}")
            };
            assert_eq!((weight, data, access), (1009, Some(0x5000), Some(planted)));
            assert_eq!(super::read(&record(SAMPLE, 1, &body), format), None, "in the kernel");
        }
        assert_eq!(super::read(&record(SAMPLE, 2, &head[..24]), all), None);
    }

    #[test]
    fn records_are_read() {
        for (record, event) in all() {
            assert_eq!(read(&record, format(Callers::Unknown)), Some(event));
        }
        let id = [words(&[7, 8]), longs(&[99])].concat();
        // A thread, a new name without exec, and an unknown kind.
        assert_eq!(
            read(
                &record(FORK, 0, &[words(&[7, 7, 9, 7]), longs(&[99]), id.clone()].concat()),
                format(Callers::Unknown)
            ),
            None
        );
        assert_eq!(
            read(&record(COMM, 0, &[words(&[7, 8, 0, 0]), id.clone()].concat()), format(Callers::Unknown)),
            None
        );
        assert_eq!(read(&record(77, 0, &id), format(Callers::Unknown)), None);
    }

    /// Returns a sample with what follows its period.
    fn with(more: &[u64]) -> Vec<u8> {
        record(SAMPLE, 2, &[longs(&[0x1234]), words(&[7, 8]), longs(&[99, 1000]), longs(more)].concat())
    }

    fn stack_of(more: &[u64], callers: Callers) -> Option<Stack> {
        match read(&with(more), format(callers))?.what {
            Sampled::Sample { stack, .. } => Some(stack),
            _ => None,
        }
    }

    #[test]
    fn callers_are_read_without_the_marks_and_the_instruction() {
        let user = -512_i64 as u64;
        let found = |more: &[u64]| stack_of(more, Callers::FramePointers);
        assert_eq!(found(&[3, user, 0x1234, 0x2000]), Some(Stack::Callers(vec![0x2000])));
        assert_eq!(found(&[1, user]), Some(Stack::Callers(Vec::new())));
        // More than there are.
        assert_eq!(found(&[u64::MAX, user, 0x1234]), Some(Stack::Callers(Vec::new())));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn stack_is_read_as_far_as_it_was_copied() {
        let found = |more: &[u64]| stack_of(more, Callers::Tables);
        let registers: Vec<u64> = (1..=u64::from(Cpu::SAMPLED_REGISTERS.count_ones())).collect();
        let Some(known) = Cpu::sampled_registers(&registers) else {
            return assert_eq!(Callers::BEST, Callers::FramePointers);
        };
        let memory = |bytes: Vec<u8>| Some(Stack::Memory(Box::new(StackMemory { registers: known, bytes })));
        let of = |tail: &[u64]| [&[ABI_64][..], &registers, tail].concat();
        assert_eq!(found(&of(&[16, 5, 6, 8])), memory(longs(&[5])));
        assert_eq!(found(&of(&[16, 5, 6, 16])), memory(longs(&[5, 6])));
        // More than there are.
        assert_eq!(found(&of(&[8, 5, u64::MAX])), memory(longs(&[5])));
        assert_eq!(found(&of(&[u64::MAX, 5, 8])), None);
        assert_eq!((found(&of(&[0])), found(&[0, 0])), (Some(Stack::Unknown), Some(Stack::Unknown)));
    }

    /// None is trusted to be as long as its kind.
    #[test]
    fn shortened_records_are_left_out_without_panic() {
        let registers = vec![1; Cpu::SAMPLED_REGISTERS.count_ones() as usize];
        let stacks =
            [with(&[2, 0x1234, 0x2000]), with(&[vec![ABI_64], registers, vec![16, 5, 6, 16]].concat())];
        for record in all().into_iter().map(|(record, _)| record).chain(stacks) {
            for callers in [Callers::Unknown, Callers::FramePointers, Callers::Tables] {
                for length in 0..record.len() {
                    let _ = read(&record[..length], format(callers));
                }
            }
        }
        assert_eq!(read(&[], format(Callers::Unknown)), None);
    }
}
