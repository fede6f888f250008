//! Traces of memory accesses: read in each format, and what is read is written and read again.

use std::io::Cursor;

use fathom_trace::{At, Batch, Error, Format, Header, Reader, Told, Writer};

/// Accesses that are read of an input, at most.
const MOST: usize = 1 << 18;
/// Begins a trace of Fathom's own format, before its compression.
const MAGIC: &[u8] = b"fathom trace\n";
/// Bytes before the payload of a block of it.
const HEAD: usize = 17;

/// Accesses with their threads, and what is told at the end.
type Whole = (Vec<Batch>, Told);

/// Checks the readers with any bytes: once as the format that they are taken for, once as the format that the last byte names,
/// and with correct checksums.
pub fn run(data: &[u8]) {
    check(data, None);
    if let Some(last) = data.last() {
        check(data, Some(Format::ALL[usize::from(*last) % Format::ALL.len()]));
    }
    if data.starts_with(MAGIC) {
        check(&resealed(data), Some(Format::Fathom));
    }
}

fn check(data: &[u8], format: Option<Format>) {
    let (batches, told) = match read(data, format) {
        Ok(Some(whole)) => whole,
        // More than is checked here.
        Ok(None) => return,
        Err(error) => {
            assert!(!error.what.is_empty() && !error.remedy.is_empty());
            let lines = data.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            assert!(
                !matches!(error.at, At::Line(line) if line == 0 || line > lines && !data.starts_with(ZSTD)),
                "{error}"
            );
            return;
        }
    };
    let header = Header { guest: told.run.guest.is_some(), ..Header::default() };
    let mut writer = Writer::new(Vec::new(), &header).expect("memory");
    for Batch { thread, accesses, mark, heap } in &batches {
        let events = usize::from(mark.is_some()) + usize::from(heap.is_some());
        assert!(usize::from(!accesses.is_empty()) + events == 1 && accesses.len() <= 4100);
        match (mark, heap) {
            (Some(mark), _) => writer.mark(*thread, *mark).expect("memory"),
            (None, Some(event)) => writer.heap(*thread, *event).expect("memory"),
            (None, None) => writer.add(*thread, accesses).expect("memory"),
        }
    }
    let trace = writer.finish(&told.run).expect("memory");
    let (again, told_again) = read(&trace, None).expect("what has been written").expect("as many accesses");
    let flat = |all: &[Batch]| {
        all.iter().flat_map(|b| b.accesses.iter().map(|a| (b.thread, *a))).collect::<Vec<_>>()
    };
    assert!(flat(&again) == flat(&batches));
    let marks = |all: &[Batch]| all.iter().filter_map(|b| Some((b.thread, b.mark?))).collect::<Vec<_>>();
    assert_eq!(marks(&again), marks(&batches));
    let blocks = |all: &[Batch]| all.iter().filter_map(|b| Some((b.thread, b.heap?))).collect::<Vec<_>>();
    assert_eq!(blocks(&again), blocks(&batches));
    assert_eq!(told_again.run, told.run);
}

const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

fn read(data: &[u8], format: Option<Format>) -> Result<Option<Whole>, Error> {
    let mut reader = Reader::open(Cursor::new(data.to_vec()), format, Some(6))?;
    let (mut all, mut count) = (Vec::new(), 0);
    loop {
        let mut batch = Batch::default();
        if !reader.read(&mut batch)? {
            return Ok(Some((all, reader.told())));
        }
        count += batch.accesses.len() + usize::from(batch.mark.is_some() || batch.heap.is_some());
        if count > MOST {
            return Ok(None);
        }
        all.push(batch);
    }
}

/// Corrects the checksums of blocks, as far as there are whole ones.
fn resealed(data: &[u8]) -> Vec<u8> {
    let mut all = data.to_vec();
    let mut at = MAGIC.len();
    while let Some(head) = all.get(at..at + HEAD) {
        let bytes = u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
        let Some(end) = bytes.checked_add(at + HEAD).filter(|&end| end <= all.len()) else { break };
        let mut sum = crc32fast::Hasher::new();
        sum.update(&all[at..at + HEAD - 4]);
        sum.update(&all[at + HEAD..end]);
        let sum = sum.finalize().to_le_bytes();
        all[at + HEAD - 4..at + HEAD].copy_from_slice(&sum);
        at = end;
    }
    all
}

/// Returns the bytes of a trace of Fathom's own format without their compression, so that mutants reach what is inside.
pub fn plain(trace: &[u8]) -> Vec<u8> {
    let (mut rest, mut all) = (trace, Vec::new());
    while !rest.is_empty() {
        let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).expect("a frame");
        std::io::Read::read_to_end(&mut frame, &mut all).expect("a whole frame");
    }
    all
}
