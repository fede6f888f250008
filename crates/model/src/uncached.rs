//! Memory that is not write-back: where it lies among the arena's addresses, what a core makes of it, and the
//! buffers in which stores gather.
//!
//! An offset in the arena is a place in its memory and, above that, the number of a window: the same place through
//! another window is the same memory under another attribute, at another virtual address.

use std::collections::VecDeque;

use fathom_probe::machine::{Attribute, Refusal};
use fathom_probe::mair::{Meaning, byte_of};

use crate::description::{Description, Mixed, Through, Uncached};
use crate::time::Scale;

/// Windows begin at multiples of this many bytes; no described memory is larger.
pub(crate) const WINDOW: u64 = 1 << 40;
/// The window for memory by a byte of `MAIR_EL1`, behind those of [`Attribute::ALL`].
pub(crate) const RAW: usize = Attribute::ALL.len();
/// Windows in all.
pub(crate) const WINDOWS: usize = RAW + 1;

/// The place in the arena's memory that an offset stands for.
#[inline(always)]
pub(crate) fn place(offset: u64) -> u64 {
    offset & (WINDOW - 1)
}

/// The window of an offset.
#[inline(always)]
pub(crate) fn window(offset: u64) -> usize {
    (offset / WINDOW) as usize
}

/// The window of an attribute.
pub(crate) fn window_of(attribute: Attribute) -> usize {
    Attribute::ALL.iter().position(|a| *a == attribute).unwrap_or(0)
}

/// What accesses cost that are not write-back, in units; nothing where they are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub load: u64,
    pub store: u64,
    pub drain: u64,
    pub device_load: u64,
    pub device_store: u64,
    /// log2 of the bytes in a block that gathers.
    pub gather: u32,
    pub buffers: usize,
}

impl Costs {
    pub fn new(description: &Description, scale: Scale) -> Costs {
        let uncached = &description.uncached;
        let mut costs = Costs { load: uncached.load.map_or(0, |t| scale.units(t)), ..Costs::default() };
        if let Some(gathering) = &uncached.gathering {
            costs.store = scale.units(gathering.store);
            costs.drain = scale.units(gathering.drain);
            costs.gather = gathering.gather.trailing_zeros();
            costs.buffers = gathering.buffers as usize;
        }
        if let Some(device) = &uncached.device {
            costs.device_load = scale.units(device.load);
            costs.device_store = scale.units(device.store);
        }
        costs
    }
}

/// The windows as they are in force.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    /// How each behaves, once something has been mapped there.
    pub behaves: [Option<Attribute>; WINDOWS],
    /// The byte of `MAIR_EL1` that each is mapped with.
    pub bytes: [u8; WINDOWS],
    /// What was mapped, by place, and the byte that it was used with last. Apart from each other.
    used: Vec<(u64, u64, u8)>,
}

impl Windows {
    pub fn new() -> Windows {
        let mut bytes = [0; WINDOWS];
        for (byte, attribute) in bytes.iter_mut().zip(Attribute::ALL) {
            *byte = byte_of(*attribute);
        }
        let mut behaves = [None; WINDOWS];
        behaves[0] = Some(Attribute::WriteBack);
        Windows { behaves, bytes, used: Vec::new() }
    }

    /// Places `start..end` are used with `byte` from now on; the parts that were used with another before.
    pub fn take(&mut self, start: u64, end: u64, byte: u8) -> Vec<(u64, u64)> {
        let mut others = Vec::new();
        let mut kept = vec![(start, end, byte)];
        for &(s, e, was) in &self.used {
            let (from, to) = (s.max(start), e.min(end));
            if from >= to {
                kept.push((s, e, was));
                continue;
            }
            if was != byte {
                others.push((from, to));
            }
            kept.extend([(s, from, was), (to, e, was)].into_iter().filter(|part| part.0 < part.1));
        }
        self.used = kept;
        others
    }
}

/// How the core of a description behaves for memory that is asked for with `attribute`.
///
/// # Errors
/// A [`Refusal`] that names the keys without which it is not described.
pub(crate) fn behaviour(uncached: &Uncached, attribute: Attribute) -> Result<Attribute, Refusal> {
    let mut missing = Vec::new();
    let mut behaves = attribute;
    if attribute == Attribute::WriteThrough {
        match uncached.write_through {
            Some(Through::NormalNc) => behaves = Attribute::NormalNc,
            Some(Through::WriteThrough) => {}
            None => missing.push("write_through"),
        }
    }
    if behaves == Attribute::NormalNc && uncached.load.is_none() {
        missing.push("load");
    }
    if matches!(behaves, Attribute::NormalNc | Attribute::WriteThrough) && uncached.gathering.is_none() {
        missing.extend(["store", "buffers", "gather", "drain"]);
    }
    if behaves == Attribute::Device && uncached.device.is_none() {
        missing.extend(["device_load", "device_store"]);
    }
    if missing.is_empty() {
        return Ok(behaves);
    }
    let reason = format!("the description does not say what {} memory costs", attribute.token());
    let remedy = format!("describe it in [uncached]: `{}`", missing.join("`, `"));
    Err(Refusal::new(reason, remedy))
}

/// How it behaves for memory with a byte of `MAIR_EL1`. All kinds of device memory are alike.
///
/// # Errors
/// A [`Refusal`] of a reserved byte, or as for an attribute.
pub(crate) fn behaviour_of_byte(uncached: &Uncached, byte: u8) -> Result<Attribute, Refusal> {
    let attribute = match Meaning::of(byte) {
        Meaning::Device(_) => Attribute::Device,
        Meaning::Normal { outer, inner } if outer.attribute() == inner.attribute() => inner.attribute(),
        Meaning::Normal { inner, .. } => match uncached.mixed {
            Mixed::NormalNc => Attribute::NormalNc,
            Mixed::Inner => inner.attribute(),
        },
        Meaning::Reserved => {
            let reason = "bytes of MAIR_EL1 that are reserved say nothing";
            return Err(Refusal::new(reason, "DDI 0487, MAIR_EL1, lists those that say something"));
        }
    };
    behaviour(uncached, attribute)
}

/// The blocks of one CPU that gather, the one that began first in front.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    blocks: VecDeque<u64>,
}

impl Buffers {
    /// A store to a block; how many blocks had to leave for it.
    pub fn store(&mut self, block: u64, buffers: usize) -> u64 {
        if self.blocks.contains(&block) {
            return 0;
        }
        let full = self.blocks.len() >= buffers;
        if full {
            self.blocks.pop_front();
        }
        self.blocks.push_back(block);
        u64::from(full)
    }

    /// A block is waited for; how many left.
    pub fn wait(&mut self, block: u64) -> u64 {
        let at = self.blocks.iter().position(|b| *b == block);
        u64::from(at.and_then(|at| self.blocks.remove(at)).is_some())
    }

    /// All leave; how many.
    pub fn empty(&mut self) -> u64 {
        std::mem::take(&mut self.blocks).len() as u64
    }
}
