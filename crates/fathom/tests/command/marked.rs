//! Regions that the crate `fathom-mark` marks, whose page faults and entries are known. The first argument chooses what is done.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, file: i32, offset: isize) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32;
    fn munmap(at: *mut u8, bytes: usize) -> i32;
    fn fork() -> i32;
    fn wait(status: *mut i32) -> i32;
    fn _exit(status: i32) -> !;
    fn raise(signal: i32) -> i32;
    fn signal(signal: i32, handler: extern "C" fn(i32)) -> usize;
    fn setitimer(which: i32, new: *const [isize; 4], old: *mut [isize; 4]) -> i32;
}

const PAGE: usize = 4096;

/// Touches so many new pages.
fn touch(pages: usize) {
    // SAFETY: new memory, which only this function has. PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, MADV_NOHUGEPAGE.
    unsafe {
        let memory = mmap(std::ptr::null_mut(), pages * PAGE, 3, 0x22, -1, 0);
        assert!(memory as isize != -1);
        madvise(memory, pages * PAGE, 15);
        fathom_mark::begin!("touch");
        for page in 0..pages {
            memory.add(page * PAGE).write_volatile(1);
        }
        fathom_mark::end!("touch");
        munmap(memory, pages * PAGE);
    }
}

fn spin(times: u64) {
    fathom_mark::region!("spin");
    (0..times).for_each(|n| {
        black_box(n);
    });
}

fn recurse(left: u32) {
    fathom_mark::region!("recursive");
    if left > 0 {
        recurse(left - 1);
    }
}

/// A panic that unwinds leaves a region.
fn panics(when: bool) {
    fathom_mark::region!("panics");
    assert!(!black_box(when), "planted");
}

static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn tick(_: i32) {
    fathom_mark::region!("tick");
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// Marks inner regions while a timer's handler does, too. Tells how often that was.
fn handlers() {
    let [each, none] = [[0, 200, 0, 200], [0; 4]];
    // SAFETY: SIGALRM has a handler that does nothing but count; ITIMER_REAL, with its times as `struct itimerval` has them.
    unsafe {
        signal(14, tick);
        setitimer(0, &each, std::ptr::null_mut());
        while TICKS.load(Ordering::Relaxed) < 1000 {
            fathom_mark::region!("inner");
        }
        setitimer(0, &none, std::ptr::null_mut());
    }
    println!("{}", TICKS.load(Ordering::Relaxed));
}

fn threads(pairs: usize) {
    for _ in 0..pairs {
        let two = [(); 2].map(|()| std::thread::spawn(|| touch(100)));
        two.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    match what.as_str() {
        "threads" => threads(50),
        "fork" => {
            touch(500);
            // SAFETY: this process has one thread; the child ends itself.
            unsafe {
                if fork() == 0 {
                    threads(1);
                    touch(300);
                    _exit(0);
                }
                wait(std::ptr::null_mut());
            }
            touch(20);
        }
        "handlers" => handlers(),
        "killed" => {
            touch(500);
            fathom_mark::begin!("cut");
            // SAFETY: SIGKILL ends this process.
            unsafe { raise(9) };
        }
        _ => {
            touch(500);
            spin(100_000);
            touch(20);
            recurse(5);
            std::panic::set_hook(Box::new(|_| {}));
            let ends = [false, true].map(|when| std::panic::catch_unwind(|| panics(when)).is_ok());
            assert_eq!(ends, [true, false]);
        }
    }
}
