//! The command as a user runs it: output, exit statuses, and robustness against faulty subjects, files, terminals and
//! kills.
#![cfg(target_os = "linux")]

mod common;
mod compare;
mod conflict;
mod death;
mod describe;
mod dma;
mod doctor;
mod emulated;
mod events;
mod faults;
mod faulty_calls;
mod hostile;
mod import;
mod kills;
mod large;
mod latency;
mod limits;
mod load;
mod lossy;
mod output;
mod packages;
mod progress;
mod qemu;
mod record_files;
mod records;
mod sensitivity;
mod serial;
mod serving;
mod share;
mod soak;
mod ssh;
mod status;
mod strangers;
mod stride;
