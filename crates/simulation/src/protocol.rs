//! The lines between the command and the plugin, each a JSON document.
//!
//! The command sends one [`Request`]. The plugin sends [`Message`]s. When the command closes its sending side, the plugin
//! ends the program and sends the answer. A plugin whose program has closed the socket connects again for the answer.

use serde::{Deserialize, Serialize};

use crate::calls::CallTree;
use crate::counts::MachineCounts;

/// Environment variable of QEMU with what LD_PRELOAD was before the plugin was put into it.
pub const PRELOADED: &str = "FATHOM_PRELOADED";

/// A machine to simulate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name, for errors and results.
    pub name: String,
    /// Its description.
    pub text: String,
}

/// What the command asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The machines.
    pub machines: Vec<Machine>,
    /// Seed of the machines.
    pub seed: u64,
    /// Threads that simulate, if there are several machines.
    pub threads: usize,
    /// Whether instruction fetches are simulated too.
    pub fetches: bool,
    /// Whether the reasons of misses are asked for.
    pub why: bool,
    /// Whether calls are asked for.
    pub calls: bool,
    /// A file to which the accesses are written as a trace.
    pub trace: Option<String>,
    /// Name of the program, for the trace.
    pub program: String,
    /// What is asked about a guest, if a whole machine is emulated instead of a program.
    pub guest: Option<GuestRequest>,
}

/// What is asked about a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestRequest {
    /// First address of the kernel's code: what is executed below it are programs.
    pub kernel: u64,
    /// File of a program of the guest, whose code is told apart from that of others, and whose regions count.
    pub program: Option<String>,
    /// What is timed between entries of addresses.
    pub spans: Vec<Span>,
    /// By what its calls are told, if they are asked for.
    pub calls: Option<GuestCalls>,
    /// The address of the function that switches tasks, if those are told apart.
    pub tasks: Option<u64>,
    /// The file of a page of memory of the guest in which it reads the first machine's counts (`include/fathom_guest.h`), if it may.
    pub counters: Option<String>,
}

/// Addresses of a guest's kernel (AArch64's Linux) by which calls of the kernel and of its programs are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCalls {
    /// First addresses of its functions, in their order.
    pub functions: Vec<u64>,
    /// The table of exceptions' vectors.
    pub vectors: u64,
    /// The function that goes from the task of its first argument to that of its second one.
    pub switch: u64,
    /// Where new tasks begin, if that is known.
    pub new_task: Option<u64>,
    /// The function by which a task becomes another program, if that is known.
    pub new_program: Option<u64>,
}

/// From the entry of one address to the next entry of another on the same CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its name among the regions.
    pub name: String,
    /// The address at which it begins.
    pub from: u64,
    /// The address at which it ends.
    pub to: u64,
}

/// What is told about a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestAnswer {
    /// First address of the kernel's code, as in [`GuestRequest`].
    pub kernel: u64,
    /// What the addresses of the program that is told apart were moved by from those in its file where its code was executed: the first
    /// two different ones.
    pub moved: Vec<u64>,
    /// Loads from devices and stores to them, which no machine gets.
    pub devices: [u64; 2],
    /// Accesses whose physical address is not known, which no machine gets.
    pub unplaced: u64,
}

/// What the plugin tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// It cannot begin, and why.
    Refused(String),
    /// Accesses so far, fetches included.
    Progress(u64),
    /// The program is about to do what may end it, without the plugin's knowledge: the result if nothing follows.
    SoFar(Box<Answer>),
    /// It has not ended: the message before is void.
    GoesOn,
    /// The result; nothing follows.
    Answer(Box<Answer>),
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With the program.
    Complete,
    /// By the user, before the program's end.
    Interrupted,
    /// By a signal.
    Killed,
    /// It became another program, which is not simulated.
    Replaced,
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// How it ended.
    pub end: End,
    /// How the program ended, as waitpid(2) tells it; 0 as long as that is not known, and for traces that do not tell it.
    pub status: i32,
    /// Name of the instruction set, in QEMU's words.
    pub target: String,
    /// Threads that the program has started, itself included; CPUs of a guest.
    pub threads: u32,
    /// Instructions that have been executed and whose accesses the source cannot see, by name.
    pub unseen: Vec<(String, u64)>,
    /// The program's instructions.
    pub places: Vec<Place>,
    /// What is in the program's memory at its end.
    pub mappings: Vec<Mapping>,
    /// Names of the program's regions, by number.
    pub regions: Vec<String>,
    /// Its allocation sites, if they are asked for.
    pub heap: HeapSites,
    /// Its calls, if they are asked for.
    pub calls: Option<Box<CallTree>>,
    /// What is told about a guest, if a whole machine was emulated.
    pub guest: Option<GuestAnswer>,
    /// The machines' counts, in the order of the request.
    pub machines: Vec<MachineCounts>,
}

/// The instructions that have called the program's allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapSites {
    /// The addresses to which the calls return, by number of the site.
    pub returns: Vec<u64>,
    /// Why blocks are not told apart, or not all of them.
    pub problem: Option<String>,
}

/// Address of what is executed by no known instruction.
pub const NO_ADDRESS: u64 = u64::MAX;

/// Address of code of a guest's programs that are not told apart.
pub const OTHER_PROGRAMS: u64 = u64::MAX - 1;

/// An instruction of the program. Its number in [`Answer::places`] is the `pc` of its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Virtual address.
    pub pc: u64,
    /// Times that it was executed.
    pub executed: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

/// Name of the memory of the program's first stack, in place of a file's.
pub const STACK: &str = "[stack]";

/// A part of the program's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First virtual address.
    pub start: u64,
    /// End.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Path of the file; empty for memory without one, [`STACK`] for the stack.
    pub file: String,
    /// CRC-32 of the file, if it may have changed before its symbols are read.
    pub checksum: Option<u32>,
}

/// Returns a message or request as a line.
///
/// # Panics
/// Never: its maps have text keys.
#[must_use]
pub fn line(of: &impl Serialize) -> String {
    let mut text = serde_json::to_string(of).expect("plain data");
    text.push('\n');
    text
}

/// Reads a line.
///
/// # Errors
/// Says what is wrong, with line and column.
pub fn read<T: for<'a> Deserialize<'a>>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| e.to_string())
}
