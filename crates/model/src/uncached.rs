//! Memory that is not write-back: its addresses in the arena, its behaviour on a core, and the buffers of gathering
//! stores.
//!
//! An offset in the arena is a place in its memory plus the number of a window in the higher bits. The same place
//! through another window is the same memory with another attribute, at another virtual address.

use std::collections::VecDeque;

use fathom_probe::machine::{Attribute, Refusal};
use fathom_probe::mair::{Meaning, byte_of};

use crate::description::{Description, Mixed, Through, Uncached};
use crate::time::Scale;

/// Windows start at multiples of this number of bytes. No described memory is larger.
pub(crate) const WINDOW: u64 = 1 << 40;
/// The window for memory with a given byte of `MAIR_EL1`, after those of [`Attribute::ALL`].
pub(crate) const RAW: usize = Attribute::ALL.len();
/// Number of windows.
pub(crate) const WINDOWS: usize = RAW + 1;

/// Returns the place in the arena's memory of an offset.
#[inline(always)]
pub(crate) fn place(offset: u64) -> u64 {
    offset & (WINDOW - 1)
}

/// Returns the window of an offset.
#[inline(always)]
pub(crate) fn window(offset: u64) -> usize {
    (offset / WINDOW) as usize
}

/// Returns the window of an attribute.
pub(crate) fn window_of(attribute: Attribute) -> usize {
    Attribute::ALL.iter().position(|a| *a == attribute).unwrap_or(0)
}

/// Cost of accesses that are not write-back, in units; 0 for those that are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub load: u64,
    pub store: u64,
    pub drain: u64,
    pub device_load: u64,
    pub device_store: u64,
    /// log2 of the bytes in a gathering block.
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

/// The windows in force.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    /// Behaviour of each window, once something has been mapped there.
    pub behaves: [Option<Attribute>; WINDOWS],
    /// The byte of `MAIR_EL1` that each is mapped with.
    pub bytes: [u8; WINDOWS],
    /// Mapped places, and the byte that they were last used with. Disjoint.
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

    /// Uses places `start..end` with `byte` from now on. Returns the parts that were used with another byte before.
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

/// Returns the behaviour of a description's core for memory that is requested with `attribute`.
///
/// # Errors
/// A [`Refusal`] that names the keys that the description lacks.
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
    let reason = format!("the description has no cost of {} memory", attribute.token());
    let remedy = format!("add to [uncached]: `{}`", missing.join("`, `"));
    Err(Refusal::new(reason, remedy))
}

/// Returns the behaviour for memory with a byte of `MAIR_EL1`. All kinds of device memory behave the same.
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
            let reason = "this byte of MAIR_EL1 is reserved";
            return Err(Refusal::new(reason, "use a byte that DDI 0487, MAIR_EL1, defines"));
        }
    };
    behaviour(uncached, attribute)
}

/// The gathering blocks of one CPU, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    blocks: VecDeque<u64>,
}

impl Buffers {
    /// Stores to a block. Returns the number of blocks that were written out for it.
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

    /// Waits for a block. Returns the number of blocks that were written out.
    pub fn wait(&mut self, block: u64) -> u64 {
        let at = self.blocks.iter().position(|b| *b == block);
        u64::from(at.and_then(|at| self.blocks.remove(at)).is_some())
    }

    /// Writes out all blocks and returns their number.
    pub fn empty(&mut self) -> u64 {
        std::mem::take(&mut self.blocks).len() as u64
    }
}
