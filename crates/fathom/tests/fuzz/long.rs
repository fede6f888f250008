//! The long run: a billion mutated bytes for each parser, over as many runs as it takes.
//!
//! `FATHOM_SOAK` names the directory with what is done so far (default: the target directory's), so that a run goes on where
//! the last one ended. With `--release` it takes minutes for each parser and not hours.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::mutate::{Random, mutated};
use crate::{Target, run};

/// Bytes for each parser.
const BYTES: u64 = 1_000_000_000;
/// Inputs between two notes of what is done.
const INPUTS: u64 = 2000;

/// What is done of a target, in all runs.
#[derive(Default)]
struct Done {
    inputs: u64,
    bytes: u64,
    cpu_s: f64,
}

fn file(name: &str) -> PathBuf {
    let directory = std::env::var_os("FATHOM_SOAK")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak"), PathBuf::from);
    std::fs::create_dir_all(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    directory.join(format!("fuzz-{name}"))
}

impl Done {
    fn load(name: &str) -> Done {
        let text = std::fs::read_to_string(file(name)).unwrap_or_default();
        let mut words = text.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        Done { inputs: number() as u64, bytes: number() as u64, cpu_s: number() }
    }

    fn keep(&self, name: &str) {
        let Done { inputs, bytes, cpu_s } = self;
        std::fs::write(file(name), format!("{inputs} {bytes} {cpu_s}\n")).expect("a note of what is done");
    }
}

/// Runs mutants of a target until it has had its bytes.
pub fn pass(target: &Target) {
    let (name, _, seeds, _) = *target;
    let seeds = seeds();
    let mut done = Done::load(name);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    while done.bytes < BYTES {
        let (begin, bytes) = (Instant::now(), AtomicU64::new(0));
        let part = |thread: u64| {
            for n in (done.inputs + thread..done.inputs + INPUTS).step_by(threads as usize) {
                // Each input has a seed of its own, so that the order of the threads does not matter.
                let mut random = Random::new(n ^ (name.len() as u64) << 56);
                let [a, b] = [0; 2].map(|_| &seeds[random.below(seeds.len())]);
                let input = mutated(a, b, &mut random);
                bytes.fetch_add(input.len() as u64, Ordering::Relaxed);
                run(target, &input, &format!("long-{n}"));
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || part(thread)))));
        done.inputs += INPUTS;
        done.bytes += bytes.into_inner();
        done.cpu_s += begin.elapsed().as_secs_f64() * threads as f64;
        done.keep(name);
    }
    println!("{name}: {} inputs, {} bytes, {:.2} CPU hours", done.inputs, done.bytes, done.cpu_s / 3600.0);
}
