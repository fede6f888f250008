//! The command as a user meets it: what it prints and where, its exit statuses, and that it survives
//! whatever a subject, a file, a terminal or a kill does to it.
#![cfg(target_os = "linux")]

mod common;
mod compare;
mod conflict;
mod death;
mod describe;
mod dma;
mod doctor;
mod emulated;
mod faults;
mod import;
mod kills;
mod latency;
mod limits;
mod load;
mod lossy;
mod output;
mod progress;
mod qemu;
mod records;
mod serial;
mod serving;
mod share;
mod ssh;
mod status;
mod strangers;
mod stride;
