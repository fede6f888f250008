//! Tasks of a guest: which one a CPU executes, by number and name. Each is a region.
//!
//! AArch64's Linux writes the number of the next task to CONTEXTIDR_EL1 (CONFIG_PID_IN_CONTEXTIDR), and then calls `cpu_switch_to`, whose
//! arguments are the two tasks. The write ends QEMU's block, so that its register is known when the next block begins. Names are in the
//! tasks; where, is found by that of the first task, which begins with "swapper". What cannot be found is not named.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

use fathom_simulation::{Event, MAX_REGIONS};

use crate::registers::{Memory, Registers};
use crate::session::lock;

/// MSR CONTEXTIDR_EL1, Xt without its register (DDI 0487, C5.2.9 and D13.2.27: op0 3, op1 0, CRn 13, CRm 0, op2 1).
const WRITES_NUMBER: u32 = 0xd518_d020;
/// Numbers of the registers that have a function's first two arguments (AAPCS64 6.4).
const ARGUMENTS: [c_int; 2] = [0, 1];
/// How the names of the idle tasks begin (init_task of Linux), and bytes of a name (TASK_COMM_LEN).
const FIRST: &[u8] = b"swapper";
const NAME: usize = 16;
/// Bytes of a task in which the name is looked for, and those that are read at once.
const LOOKED_AT: u64 = 16 << 10;
const PIECE: usize = 1024;

/// A task.
#[derive(Debug)]
struct Task {
    /// Its number, if the kernel tells it.
    number: Option<u64>,
    name: Option<String>,
}

/// What a CPU executes.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The number that was written last.
    written: Option<u64>,
    /// Position of its task.
    task: Option<usize>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the name is in a task.
    offset: Option<u64>,
    tasks: Vec<Task>,
    /// By the kernel's pointer and the number.
    positions: HashMap<(u64, Option<u64>), usize>,
    cpus: HashMap<u32, Cpu>,
}

/// The tasks.
#[derive(Debug)]
pub struct Tasks {
    /// Address of `cpu_switch_to`.
    switch: u64,
    /// Number of the first one's region.
    first: u32,
    registers: Registers,
    memory: Memory,
    state: Mutex<State>,
}

impl Tasks {
    /// Begins without tasks, whose regions have the numbers from `first` on. `target` is QEMU's name of the instruction set.
    ///
    /// # Errors
    /// QEMU does not tell registers or memory.
    pub fn begin(switch: u64, first: usize, target: &str) -> Result<Tasks, String> {
        let (registers, memory) = (Registers::of(target)?, Memory::find()?);
        Ok(Tasks { switch, first: first as u32, registers, memory, state: Mutex::default() })
    }

    /// Returns whether the block that begins at an address switches tasks.
    pub fn switches(&self, pc: u64) -> bool {
        pc == self.switch
    }

    /// Returns the register of which an instruction writes a task's number.
    pub fn written(code: &[u8]) -> Option<c_int> {
        let word = u32::from_le_bytes(*code.first_chunk()?);
        // Number 31 is no register.
        (word & !31 == WRITES_NUMBER && word & 31 != 31).then_some((word & 31) as c_int)
    }

    /// A CPU has written a task's number, which a register has. Called when a block begins.
    pub fn write(&self, cpu: u32, register: c_int) {
        let number = self.registers.get(cpu, [register]).map(|[number]| number);
        lock(&self.state).cpus.entry(cpu).or_default().written = number;
    }

    /// A CPU switches tasks. Returns which regions end and begin. Called when the block begins that does so.
    pub fn switch(&self, cpu: u32) -> Vec<Event> {
        let Some([from, to]) = self.registers.get(cpu, ARGUMENTS) else { return Vec::new() };
        let state = &mut *lock(&self.state);
        if state.offset.is_none() {
            state.offset = self.offset(cpu, from);
        }
        let name = |task: u64| self.name(cpu, task.checked_add(state.offset?)?);
        let Cpu { written, task: old } = state.cpus.get(&cpu).copied().unwrap_or_default();
        // It may have become another program since.
        let most = MAX_REGIONS.saturating_sub(self.first as usize + 1);
        if let Some((old, name)) = old.zip(name(from)).filter(|(old, _)| *old < most) {
            state.tasks[old].name = Some(name);
        }
        let next = state.tasks.len();
        let position = *state.positions.entry((to, written)).or_insert(next.min(most));
        if position == next && next < most {
            state.tasks.push(Task { number: written, name: name(to) });
        } else if position == most && next == most {
            state.tasks.push(Task { number: None, name: Some("(all further ones)".to_owned()) });
        }
        state.cpus.entry(cpu).or_default().task = Some(position);
        let region = |position: usize| self.first + position as u32;
        let ended = old.map(|old| Event::To(region(old)));
        ended.into_iter().chain([Event::From(region(position))]).collect()
    }

    /// Returns the names of their regions.
    pub fn names(&self) -> Vec<String> {
        let state = lock(&self.state);
        let named = |of: &Task| match (of.number, &of.name) {
            (Some(number), Some(name)) => format!("task {number} {name}"),
            (Some(number), None) => format!("task {number}"),
            (None, Some(name)) => format!("task {name}"),
            (None, None) => "task".to_owned(),
        };
        state.tasks.iter().map(named).collect()
    }

    /// Looks for the name of the first task in it.
    fn offset(&self, cpu: u32, task: u64) -> Option<u64> {
        let mut piece = [0; PIECE + NAME];
        (0..LOOKED_AT).step_by(PIECE).find_map(|at| {
            let read = self.memory.read(cpu, task.checked_add(at)?, &mut piece);
            let found = piece.windows(FIRST.len()).position(|of| of == FIRST).filter(|_| read)?;
            Some(at + found as u64)
        })
    }

    fn name(&self, cpu: u32, at: u64) -> Option<String> {
        let mut bytes = [0; NAME];
        let text = bytes.as_mut_slice();
        self.memory.read(cpu, at, text).then_some(())?;
        let end = text.iter().position(|&byte| byte == 0)?;
        let is_text = end > 0 && text[..end].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        is_text.then(|| String::from_utf8_lossy(&text[..end]).into_owned())
    }
}
