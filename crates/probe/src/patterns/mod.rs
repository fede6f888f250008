//! The inner loops, one file each, written once and generic over the machine.

pub mod chase;
