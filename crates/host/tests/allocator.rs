//! Compares the page faults per round of `stress --vm` with glibc and of the stressor `malloc`, which imitates glibc's
//! allocation.
//!
//! Without test harness: glibc uses a different heap for the first thread of a process, and `stress` works in that
//! thread.

#[allow(dead_code)]
#[path = "../src/stress/allocator.rs"]
mod allocator;
#[allow(dead_code)]
#[path = "../src/stress/block.rs"]
mod block;

fn main() {
    #[cfg(target_env = "gnu")]
    compare();
    #[cfg(not(target_env = "gnu"))]
    fathom_skip::skipped!(Unchecked, "this C library is not glibc, and its malloc another one");
}

/// Sizes of a block in MiB: below, at and above the maximum threshold of glibc.
#[cfg(target_env = "gnu")]
const MEGABYTES: [usize; 6] = [1, 16, 31, 32, 33, 64];
#[cfg(target_env = "gnu")]
const ROUNDS: usize = 6;

#[cfg(target_env = "gnu")]
fn compare() {
    if fathom_skip::emulator().is_some() {
        fathom_skip::skipped!(Unchecked, "the emulator has page faults of its own");
        return;
    }
    let page = rustix::param::page_size();
    for megabytes in MEGABYTES {
        let bytes = megabytes << 20;
        // Each size in a separate process, because earlier frees change later allocations.
        let glibc = in_a_child(|| (0..ROUNDS).map(|_| faults(|| round_of_malloc(bytes, page))).collect());
        let ours = in_a_child(|| {
            let mut allocator = allocator::Allocator::new(bytes, page);
            (0..ROUNDS).map(|_| faults(|| round_of_ours(&mut allocator, bytes, page))).collect()
        });
        println!("{megabytes} MiB: faults of each round: glibc {glibc:?}, ours {ours:?}");
        assert_eq!((glibc.len(), ours.len()), (ROUNDS, ROUNDS));
        let pages = (bytes / page) as u64;
        for (glibc, ours) in glibc.iter().zip(&ours) {
            // With huge pages enabled always, the number of faults varies for both.
            let (low, high) = if huge_pages_always() { (pages / 512, pages) } else { (pages, pages) };
            let faults_all = |faults: u64| faults >= low;
            assert_eq!(faults_all(*glibc), faults_all(*ours), "{megabytes} MiB: {glibc} and {ours}");
            // A few more than the block's own: headers, page tables, the first call of a function.
            assert!(*glibc <= high + 16 && *ours <= high + 16, "{megabytes} MiB: {glibc} and {ours}");
            assert!(faults_all(*glibc) || *glibc <= 16 && *ours <= 16, "{megabytes} MiB: {glibc} and {ours}");
        }
        let last = ours[ROUNDS - 1] >= if huge_pages_always() { pages / 512 } else { pages };
        assert_eq!(last, bytes >= allocator::MAX_BLOCK_BYTES, "{megabytes} MiB fault in the end, or do not");
    }
}

#[cfg(target_env = "gnu")]
fn huge_pages_always() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|t| t.contains("[always]"))
}

#[cfg(target_env = "gnu")]
fn faults(mut work: impl FnMut()) -> u64 {
    let now = || {
        // SAFETY: all-zero bytes are a valid `rusage`, which lives during the call that fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
            usage
        };
        usage.ru_minflt as u64 + usage.ru_majflt as u64
    };
    let before = now();
    work();
    now() - before
}

/// One round of stress.c's `hogvm` (1.0.7).
#[cfg(target_env = "gnu")]
fn round_of_malloc(bytes: usize, stride: usize) {
    // SAFETY: the block is `bytes` long, written inside and freed once.
    unsafe {
        let block = libc::malloc(bytes).cast::<u8>();
        assert!(!block.is_null());
        (0..bytes).step_by(stride).for_each(|at| block.add(at).write_volatile(b'Z'));
        assert!((0..bytes).step_by(stride).all(|at| block.add(at).read_volatile() == b'Z'));
        libc::free(block.cast());
    }
}

#[cfg(target_env = "gnu")]
fn round_of_ours(allocator: &mut allocator::Allocator, bytes: usize, stride: usize) {
    let block = allocator.allocate().expect("memory");
    block.mark(0..bytes, stride);
    assert!(block.has_marks(0..bytes, stride));
    allocator.free();
}

/// Runs the closure in a separate process and returns its result.
#[cfg(target_env = "gnu")]
fn in_a_child(work: impl Fn() -> Vec<u64>) -> Vec<u64> {
    use std::io::Read as _;
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: this process has one thread, so the child may do everything.
    match unsafe { libc::fork() } {
        0 => {
            drop(reader);
            let words: Vec<String> = work().iter().map(u64::to_string).collect();
            std::io::Write::write_all(&mut &writer, words.join(" ").as_bytes()).expect("a reader");
            // SAFETY: it ends this process, without the handlers that belong to its parent.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0, "a process");
            drop(writer);
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("its answer");
            let mut status = 0;
            // SAFETY: a child of this process; `status` lives during the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
            text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
        }
    }
}
