//! Decoder for the x86-64 instructions of the loops.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::check::{Instruction, Kind};

/// Decodes `code`, which begins at `address`.
pub fn decode(code: &[u8], address: u64) -> Vec<Instruction> {
    let mut infos = InstructionInfoFactory::new();
    Decoder::with_ip(64, code, address, DecoderOptions::NONE)
        .iter()
        .map(|i| Instruction { at: i.ip(), kind: kind(&i, &mut infos) })
        .collect()
}

fn kind(i: &iced_x86::Instruction, infos: &mut InstructionInfoFactory) -> Kind {
    let plain = i.mnemonic() == Mnemonic::Mov
        && i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Memory
        && i.memory_size() == MemorySize::UInt64
        && i.memory_displacement64() == 0
        && i.memory_index_scale() == 1
        && i.memory_base() != Register::None
        && i.memory_index() != Register::None;
    if plain {
        let address = [i.memory_base() as u32, i.memory_index() as u32];
        return Kind::Load { to: i.op0_register() as u32, address };
    }
    let info = infos.info(i);
    let bytes = |kinds: &[OpAccess]| -> u32 {
        let used = info.used_memory().iter().filter(|m| kinds.contains(&m.access()));
        used.map(|m| m.memory_size().size() as u32).sum()
    };
    let both = [OpAccess::ReadWrite, OpAccess::ReadCondWrite];
    if info.used_memory().iter().any(|m| m.access() != OpAccess::NoMemAccess) {
        return Kind::Memory {
            reads: bytes(&[OpAccess::Read, OpAccess::CondRead, both[0], both[1]]),
            writes: bytes(&[OpAccess::Write, OpAccess::CondWrite, both[0], both[1]]),
        };
    }
    let immediate = |n: i64| i.op_count() == 2 && i.try_immediate(1).is_ok_and(|v| v.cast_signed() == n);
    let one_less = match i.mnemonic() {
        Mnemonic::Dec => true,
        Mnemonic::Sub => immediate(1),
        Mnemonic::Add => immediate(-1),
        _ => false,
    };
    if one_less {
        return Kind::Decrement { register: i.op0_register() as u32 };
    }
    match i.flow_control() {
        FlowControl::ConditionalBranch => Kind::Branch { to: i.near_branch_target(), conditional: true },
        FlowControl::UnconditionalBranch => Kind::Branch { to: i.near_branch_target(), conditional: false },
        _ => Kind::Other { writes: info.used_registers().iter().map(|r| r.register() as u32).collect() },
    }
}
