//! System calls of the program that matter here, by instruction set.

use fathom_simulation::protocol::End;

/// Numbers of system calls: execve, execveat; kill, tkill, tgkill; mmap (of ARM: mmap2), munmap, mremap.
#[derive(Debug)]
pub struct Calls {
    exec: i64,
    execat: i64,
    kills: [i64; 3],
    maps: [i64; 3],
}

/// By QEMU's name of the instruction set (its linux-user/*/syscall_nr.h and syscall_*.tbl).
const CALLS: [(&str, Calls); 4] = [
    ("aarch64", Calls { exec: 221, execat: 281, kills: [129, 130, 131], maps: [222, 215, 216] }),
    ("arm", Calls { exec: 11, execat: 387, kills: [37, 238, 268], maps: [192, 91, 163] }),
    ("riscv64", Calls { exec: 221, execat: 281, kills: [129, 130, 131], maps: [222, 215, 216] }),
    ("x86_64", Calls { exec: 59, execat: 322, kills: [62, 200, 234], maps: [9, 11, 25] }),
];

impl Calls {
    /// Returns those of an instruction set.
    pub fn of(target: &str) -> Option<&'static Calls> {
        CALLS.iter().find(|(name, _)| *name == target).map(|(_, calls)| calls)
    }

    /// Returns whether a call is execve, whose first argument is a file's name.
    pub fn is_exec(&self, call: i64) -> bool {
        call == self.exec
    }

    /// Returns whether a call changes what is where in memory.
    pub fn maps(&self, call: i64) -> bool {
        self.maps.contains(&call)
    }

    /// Returns how the program may end by a call.
    pub fn end(&self, call: i64, arguments: [u64; 3]) -> Option<End> {
        if call == self.exec || call == self.execat {
            return Some(End::Replaced);
        }
        let kind = self.kills.iter().position(|number| *number == call)?;
        let signal = arguments[if kind == 2 { 2 } else { 1 }];
        (signal == libc::SIGKILL as u64).then_some(End::Killed)
    }
}
