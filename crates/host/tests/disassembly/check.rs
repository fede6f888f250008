//! What a bare loop is, in terms of neither architecture.

/// What one instruction does, as far as it matters here. Registers are numbers of the architecture's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An 8-byte load from the sum of two registers, nothing added.
    Load { to: u32, address: [u32; 2] },
    /// Any other access to memory.
    Memory,
    /// One subtracted from a register.
    Decrement { register: u32 },
    /// A jump inside the code.
    Branch { to: u64, conditional: bool },
    /// Anything else.
    Other { writes: Vec<u32> },
}

/// One instruction and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub at: u64,
    pub kind: Kind,
}

/// Is the loop of `code` that has most loads the bare loop of `loads` dependent loads?
pub fn hot_loop(code: &[Instruction], loads: usize) -> Result<(), String> {
    let hot = loops(code).max_by_key(|body| body.iter().filter(|i| is_load(i)).count());
    let Some(body) = hot else { return Err("there is no loop".into()) };
    let found = body.iter().filter(|i| is_load(i)).count();
    if let Some(bad) = body.iter().find(|i| i.kind == Kind::Memory) {
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

fn is_load(instruction: &Instruction) -> bool {
    matches!(instruction.kind, Kind::Load { .. })
}

/// The bodies of loops: from the destination of each conditional jump backwards up to the jump.
fn loops(code: &[Instruction]) -> impl Iterator<Item = &[Instruction]> {
    code.iter().enumerate().filter_map(move |(end, instruction)| match instruction.kind {
        Kind::Branch { to, conditional: true } if to <= instruction.at => {
            let start = code.iter().position(|i| i.at == to)?;
            Some(&code[start..=end])
        }
        _ => None,
    })
}

/// Each load's address must need the load before it, round the loop, plus a register that stays.
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
