//! Checks of loops, independent of the architecture.

/// Effect of one instruction, as far as it matters here. Registers are numbers of the architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An 8-byte load from the sum of two registers, without displacement.
    Load { to: u32, address: [u32; 2] },
    /// Any other access to memory: the bytes read and the bytes written.
    Memory { reads: u32, writes: u32 },
    /// A subtraction of 1 from a register.
    Decrement { register: u32 },
    /// A jump inside the code.
    Branch { to: u64, conditional: bool },
    /// Any other instruction.
    Other { writes: Vec<u32> },
}

/// An instruction and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub at: u64,
    pub kind: Kind,
}

/// Checks that the loop of `code` with most loads has exactly `loads` dependent loads, a decrement and a branch.
pub fn hot_loop(code: &[Instruction], loads: usize) -> Result<(), String> {
    let hot = loops(code).max_by_key(|body| body.iter().filter(|i| is_load(i)).count());
    let Some(body) = hot else { return Err("there is no loop".into()) };
    let found = body.iter().filter(|i| is_load(i)).count();
    if let Some(bad) = body.iter().find(|i| matches!(i.kind, Kind::Memory { .. })) {
        return Err(format!("another memory access in the loop, at {:#x}", bad.at));
    }
    if found != loads {
        return Err(format!("{found} loads in a turn and not {loads}"));
    }
    let count = |test: fn(&Kind) -> bool| body.iter().filter(|i| test(&i.kind)).count();
    let decrements = count(|k| matches!(k, Kind::Decrement { .. }));
    let branches = count(|k| matches!(k, Kind::Branch { .. }));
    if (decrements, branches, body.len()) != (1, 1, loads + 2) {
        return Err(format!(
            "{decrements} decrements, {branches} branches, {} instructions in all",
            body.len()
        ));
    }
    dependent(body)
}

/// One turn of a sweep's loop: words read, words written, and maximum number of other instructions.
pub type Turn = (usize, usize, usize);

/// Checks that each of `turns` has a loop with exactly its accesses, 8 bytes each. No other innermost loop may have
/// half as many accesses, because it could be the one that runs.
pub fn sweep_loops(code: &[Instruction], turns: &[Turn]) -> Result<(), String> {
    let words = |body: &[Instruction]| -> Result<(usize, usize), String> {
        let mut found = (0, 0);
        for i in body {
            let (reads, writes) = match i.kind {
                Kind::Load { .. } => (8, 0),
                Kind::Memory { reads, writes } => (reads, writes),
                _ => continue,
            };
            if [reads, writes].iter().any(|b| ![0, 8].contains(b)) {
                return Err(format!("{reads} bytes read and {writes} written at once, at {:#x}", i.at));
            }
            found = (found.0 + reads as usize / 8, found.1 + writes as usize / 8);
        }
        Ok(found)
    };
    let accesses = |body: &[Instruction]| {
        body.iter().filter(|i| matches!(i.kind, Kind::Load { .. } | Kind::Memory { .. })).count()
    };
    let largest = turns.iter().map(|t| t.0.max(t.1)).max().unwrap_or(0);
    let mut left: Vec<Turn> = turns.to_vec();
    for body in innermost(code) {
        // Remaining accesses have a separate loop with fewer accesses per turn. A jump back to the function's return
        // looks like a loop with the restored registers.
        if accesses(body) <= largest / 2 {
            continue;
        }
        let (reads, writes) = words(body)?;
        let at = body[0].at;
        let Some(nth) = left.iter().position(|t| (t.0, t.1) == (reads, writes)) else {
            return Err(format!("{reads} reads and {writes} writes in a turn of the loop at {at:#x}"));
        };
        let others = body.len() - accesses(body);
        let (_, _, may) = left.remove(nth);
        if others > may {
            return Err(format!("{others} instructions beside the accesses and not {may}, at {at:#x}"));
        }
    }
    if left.is_empty() { Ok(()) } else { Err(format!("no loop does this in a turn: {left:?}")) }
}

/// Returns the loops without inner loops.
fn innermost(code: &[Instruction]) -> impl Iterator<Item = &[Instruction]> {
    loops(code).filter(|body| {
        let (first, last) = (body[0].at, body[body.len() - 1].at);
        let back = |i: &&Instruction| match i.kind {
            Kind::Branch { to, .. } => to >= first && to <= i.at,
            _ => false,
        };
        body.iter().filter(back).all(|i| i.at == last)
    })
}

fn is_load(instruction: &Instruction) -> bool {
    matches!(instruction.kind, Kind::Load { .. })
}

/// Returns the bodies of loops: from the destination of each conditional backward jump to the jump.
fn loops(code: &[Instruction]) -> impl Iterator<Item = &[Instruction]> {
    code.iter().enumerate().filter_map(move |(end, instruction)| match instruction.kind {
        Kind::Branch { to, conditional: true } if to <= instruction.at => {
            let start = code.iter().position(|i| i.at == to)?;
            Some(&code[start..=end])
        }
        _ => None,
    })
}

/// Checks that each load's address depends on the previous load, around the loop, plus a constant register.
fn dependent(body: &[Instruction]) -> Result<(), String> {
    let loads: Vec<(u64, u32, [u32; 2])> = body
        .iter()
        .filter_map(|i| match i.kind {
            Kind::Load { to, address } => Some((i.at, to, address)),
            _ => None,
        })
        .collect();
    let mut before = loads[loads.len() - 1].1;
    let mut base = None;
    for &(at, to, address) in &loads {
        let other = match address {
            [a, b] if a == before => b,
            [a, b] if b == before => a,
            _ => return Err(format!("the load at {at:#x} does not depend on the one before it")),
        };
        if *base.get_or_insert(other) != other || other == to {
            return Err(format!("the load at {at:#x} has another base, or overwrites it"));
        }
        before = to;
    }
    let counter = body.iter().find_map(|i| match i.kind {
        Kind::Decrement { register } => Some(register),
        _ => None,
    });
    if counter == base || loads.iter().any(|&(_, to, _)| Some(to) == counter) {
        return Err("the counter is one of the chain's registers".into());
    }
    Ok(())
}
