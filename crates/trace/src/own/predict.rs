//! How accesses become bytes: as what is not predicted.
//!
//! An operation is a place with a kind and a size. After each operation the one is predicted that followed it last time, with its
//! last address and its stride: the difference of addresses that has come twice in a row; and with as many instructions before it as last
//! time. What comes as predicted is counted; for anything else there are:
//!
//! - a number: accesses before it that came as predicted (LEB128, as all numbers),
//! - a byte: in bits 0 and 1 the operation ([`SAME`], [`KNOWN`], [`NEW`]), in bits 2 to 5 the bytes of the address's difference, in bit 6
//!   whether a physical page follows ([`FRAME`]), in bit 7 whether the instructions before it follow ([`BETWEEN`]),
//! - of a known operation its number, of a new one its place, its kind with whose code it is (4 times that), its size; it gets the next
//!   number, from 1,
//! - the difference to the operation's last address, zigzag, little endian; none if the address is as predicted,
//! - of a guest, the physical page, if it is not the one that the virtual page had last (`frames`),
//! - the instructions since the load or store before it ([`Access::instructions`]), if they are not as many as before the operation's last
//!   access: at first 1, and 0 of fetches.
//!
//! A block begins after no operation, and ends after its number of accesses.

use fathom_model::{Access, Kind};
use fathom_simulation::Accessor;
use fathom_simulation::origin::{accessor_of, pc_of, place_of};

use super::frames::Frames;

/// The operation is as predicted.
const SAME: u8 = 0;
/// It is another one that is known.
const KNOWN: u8 = 1;
/// It is new.
const NEW: u8 = 2;
/// The physical page is told.
const FRAME: u8 = 1 << 6;
/// The instructions before it are told.
const BETWEEN: u8 = 1 << 7;
/// Operations, at most: a bound for the memory.
const MAX_OPERATIONS: usize = 1 << 23;

#[derive(Clone, Copy, Debug)]
struct Operation {
    /// Number of the place, and whose code it is.
    pc: u64,
    bytes: u16,
    kind: Kind,
    /// The operation that followed last.
    next: u32,
    address: u64,
    stride: u64,
    /// Difference of the last two addresses.
    difference: u64,
    /// Instructions before its last access.
    instructions: u32,
}

/// All operations, with what is predicted.
#[derive(Debug)]
pub(super) struct Predictor {
    /// Number 0 is none: the beginning of a block.
    operations: Vec<Operation>,
    last: u32,
    /// Of a guest.
    frames: Option<Frames>,
}

impl Predictor {
    pub fn new(guest: bool) -> Predictor {
        let none = Operation {
            pc: 0,
            bytes: 0,
            kind: Kind::Load,
            next: 0,
            address: 0,
            stride: 0,
            difference: 0,
            instructions: 0,
        };
        Predictor { operations: vec![none], last: 0, frames: guest.then(Frames::new) }
    }

    /// Begins a block.
    pub fn begin(&mut self) {
        self.last = 0;
    }

    /// Returns the predicted operation and address.
    #[inline(always)]
    fn predicted(&self) -> (u32, u64) {
        let next = self.operations[self.last as usize].next;
        let operation = &self.operations[next as usize];
        (next, operation.address.wrapping_add(operation.stride))
    }

    /// Notes an access.
    #[inline(always)]
    fn made(&mut self, number: u32, address: u64) {
        self.operations[self.last as usize].next = number;
        let operation = &mut self.operations[number as usize];
        let difference = address.wrapping_sub(operation.address);
        if difference == operation.difference {
            operation.stride = difference;
        }
        (operation.difference, operation.address) = (difference, address);
        self.last = number;
    }

    /// Returns the physical page that is predicted for an address; that of all is 0 without a guest.
    #[inline(always)]
    fn frame(&self, address: u64) -> Option<u32> {
        self.frames.as_ref().map_or(Some(0), |frames| frames.predicted(address))
    }

    fn add(&mut self, pc: u64, bytes: u16, kind: Kind) -> u32 {
        let none = self.operations[0];
        let instructions = u32::from(kind != Kind::Fetch);
        self.operations.push(Operation { pc, bytes, kind, instructions, ..none });
        self.operations.len() as u32 - 1
    }
}

/// Numbers of operations, for the writer: by place those that it has.
#[derive(Debug, Default)]
struct Numbers {
    /// By place: the operation that it made last, or 0.
    last: Vec<u32>,
    /// By operation: another one of the same place, or 0.
    others: Vec<u32>,
}

/// Codes accesses.
#[derive(Debug)]
pub(super) struct Encoder {
    predictor: Predictor,
    numbers: Numbers,
    /// Accesses that came as predicted.
    run: u64,
}

impl Encoder {
    pub fn new(guest: bool) -> Encoder {
        let numbers = Numbers { last: Vec::new(), others: vec![0] };
        Encoder { predictor: Predictor::new(guest), numbers, run: 0 }
    }

    /// Begins a block.
    pub fn begin(&mut self) {
        self.predictor.begin();
        self.run = 0;
    }

    /// Adds an access of a place to a block.
    #[inline(always)]
    pub fn add(&mut self, access: &Access, to: &mut Vec<u8>) {
        let (number, address) = self.predictor.predicted();
        let operation = &self.predictor.operations[number as usize];
        let same = operation.pc == access.pc
            && (operation.kind, operation.bytes) == (access.kind, access.bytes)
            && number != 0;
        let as_before = operation.instructions == access.instructions;
        if same
            && as_before
            && address == access.address
            && self.predictor.frame(address) == Some(access.space)
        {
            self.run += 1;
            self.predictor.made(number, address);
        } else {
            self.add_other(access, same.then_some(number), to);
        }
    }

    #[inline(never)]
    fn add_other(&mut self, access: &Access, same: Option<u32>, to: &mut Vec<u8>) {
        push_number(to, std::mem::take(&mut self.run));
        let known = same.or_else(|| self.number(access));
        let number = known.unwrap_or_else(|| self.new_number(access));
        let operation = &self.predictor.operations[number as usize];
        let difference = access.address.wrapping_sub(operation.address);
        let as_predicted = access.address == operation.address.wrapping_add(operation.stride);
        let zigzag = (difference << 1) ^ ((difference.cast_signed() >> 63).cast_unsigned());
        let bytes = if as_predicted { 0 } else { (8 - zigzag.leading_zeros() as usize / 8).max(1) };
        let what = match (same, known) {
            (Some(_), _) => SAME,
            (None, Some(_)) => KNOWN,
            (None, None) => NEW,
        };
        let placed = self.predictor.frame(access.address) == Some(access.space);
        let as_before = operation.instructions == access.instructions;
        let follows = if placed { 0 } else { FRAME } | if as_before { 0 } else { BETWEEN };
        to.push(what | (bytes as u8) << 2 | follows);
        match what {
            SAME => {}
            KNOWN => push_number(to, number.into()),
            _ => {
                push_number(to, place_of(access.pc) as u64);
                to.push(access.kind as u8 | (accessor_of(access.pc) as u8) << 2);
                push_number(to, access.bytes.into());
            }
        }
        to.extend_from_slice(&zigzag.to_le_bytes()[..bytes]);
        if let Some(frames) = self.predictor.frames.as_mut().filter(|_| !placed) {
            push_number(to, access.space.into());
            frames.made(access.address, access.space);
        }
        if !as_before {
            push_number(to, access.instructions.into());
            self.predictor.operations[number as usize].instructions = access.instructions;
        }
        self.predictor.made(number, access.address);
    }

    /// Ends a block.
    pub fn end(&mut self, to: &mut Vec<u8>) {
        if self.run > 0 {
            push_number(to, std::mem::take(&mut self.run));
        }
    }

    /// Returns the number of the access's operation, if it is known.
    fn number(&mut self, access: &Access) -> Option<u32> {
        let mut number = self.numbers.last.get(place_of(access.pc)).copied().unwrap_or(0);
        while number != 0 {
            let operation = &self.predictor.operations[number as usize];
            if (operation.kind, operation.bytes, operation.pc) == (access.kind, access.bytes, access.pc) {
                return Some(number);
            }
            number = self.numbers.others[number as usize];
        }
        None
    }

    fn new_number(&mut self, access: &Access) -> u32 {
        let place = place_of(access.pc);
        if place >= self.numbers.last.len() {
            self.numbers.last.resize((place + 1).next_power_of_two(), 0);
        }
        let number = self.predictor.add(access.pc, access.bytes, access.kind);
        self.numbers.others.push(std::mem::replace(&mut self.numbers.last[place], number));
        number
    }
}

/// Decodes a block.
#[derive(Debug)]
pub(super) struct Decoder {
    predictor: Predictor,
    /// Accesses that come as predicted before the next other one.
    run: u64,
    other_follows: bool,
}

impl Decoder {
    pub fn new(guest: bool) -> Decoder {
        Decoder { predictor: Predictor::new(guest), run: 0, other_follows: false }
    }

    /// Begins a block.
    pub fn begin(&mut self) {
        self.predictor.begin();
        (self.run, self.other_follows) = (0, false);
    }

    /// Decodes `count` accesses from `payload[at..]`, places below `places`. Returns where the next ones begin.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(
        &mut self,
        payload: &[u8],
        mut at: usize,
        count: usize,
        places: usize,
        to: &mut Vec<Access>,
    ) -> Result<usize, (usize, &'static str)> {
        let end = to.len() + count;
        while to.len() < end {
            if self.run == 0 && self.other_follows {
                at = self.other(payload, at, places, to)?;
                self.other_follows = false;
                continue;
            }
            if self.run == 0 {
                let mut bytes = Bytes { all: payload, at };
                self.run = bytes.number().ok_or((at, "a number is cut off"))?;
                at = bytes.at;
                // The last run of a block has nothing after it.
                self.other_follows = at < payload.len();
                if self.run == 0 && !self.other_follows {
                    return Err((at, "accesses are missing"));
                }
            }
            let now = self.run.min((end - to.len()) as u64);
            for _ in 0..now {
                let (number, address) = self.predictor.predicted();
                if number == 0 {
                    return Err((at, "no operation is predicted"));
                }
                let frame = self.predictor.frame(address).ok_or((at, "no physical page is predicted"))?;
                self.predictor.made(number, address);
                to.push(self.access(number, address, frame));
            }
            self.run -= now;
        }
        Ok(at)
    }

    #[inline(always)]
    fn access(&self, number: u32, address: u64, space: u32) -> Access {
        let Operation { pc, bytes, kind, instructions, .. } = self.predictor.operations[number as usize];
        Access { address, pc, bytes, space, instructions, kind }
    }

    /// Decodes an access that is not as predicted.
    fn other(
        &mut self,
        payload: &[u8],
        at: usize,
        places: usize,
        to: &mut Vec<Access>,
    ) -> Result<usize, (usize, &'static str)> {
        let mut bytes = Bytes { all: payload, at };
        let wrong = |what| (at, what);
        let control = bytes.byte().ok_or(wrong("an access is cut off"))?;
        let number = self.operation(control, &mut bytes, places).map_err(wrong)?;
        let operation = &self.predictor.operations[number as usize];
        let difference = usize::from((control & !(FRAME | BETWEEN)) >> 2);
        let address = match difference {
            0 => operation.address.wrapping_add(operation.stride),
            1..=8 => {
                let zigzag = bytes.little_endian(difference).ok_or(wrong("an address is cut off"))?;
                operation.address.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
            }
            _ => return Err(wrong("a difference of addresses has more than 8 bytes")),
        };
        let frame = match (&mut self.predictor.frames, control & FRAME != 0) {
            (Some(frames), true) => {
                let frame = bytes.number().and_then(|frame| u32::try_from(frame).ok());
                let frame = frame.ok_or(wrong("a physical page is cut off, or no number of one"))?;
                frames.made(address, frame);
                frame
            }
            (None, true) => return Err(wrong("a program has no physical pages")),
            (_, false) => self.predictor.frame(address).ok_or(wrong("no physical page is predicted"))?,
        };
        if control & BETWEEN != 0 {
            let instructions = bytes.number().and_then(|number| u32::try_from(number).ok());
            let instructions =
                instructions.ok_or(wrong("the instructions before an access are cut off, or too many"))?;
            self.predictor.operations[number as usize].instructions = instructions;
        }
        self.predictor.made(number, address);
        to.push(self.access(number, address, frame));
        Ok(bytes.at)
    }

    /// Returns the number of the operation that makes an access, known or new.
    fn operation(&mut self, control: u8, bytes: &mut Bytes<'_>, places: usize) -> Result<u32, &'static str> {
        let number = match control & 3 {
            SAME => self.predictor.predicted().0,
            KNOWN => {
                let number = bytes.number().ok_or("a number is cut off")?;
                let known = number < self.predictor.operations.len() as u64;
                if known { number as u32 } else { 0 }
            }
            NEW => {
                let place = bytes.number().filter(|&place| place < places as u64);
                let kind = bytes.byte().and_then(kind_and_accessor);
                let size = bytes.number().and_then(|size| u16::try_from(size).ok());
                let full = self.predictor.operations.len() >= MAX_OPERATIONS;
                match (place, kind, size) {
                    (Some(place), Some((kind, by)), Some(size)) if !full => {
                        self.predictor.add(pc_of(place as u32, 0, by), size, kind)
                    }
                    _ => return Err("a new operation has no place, kind or size that is possible"),
                }
            }
            _ => 0,
        };
        if number == 0 { Err("the operation is unknown") } else { Ok(number) }
    }
}

fn kind_and_accessor(byte: u8) -> Option<(Kind, Accessor)> {
    let kind = fathom_simulation::KINDS.into_iter().find(|kind| *kind as u8 == byte & 3)?;
    Some((kind, Accessor::of((byte >> 2).into())?))
}

/// Adds a number, LEB128.
fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Bytes of a payload.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.all.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn little_endian(&mut self, count: usize) -> Option<u64> {
        let mut word = [0; 8];
        word[..count].copy_from_slice(self.all.get(self.at..self.at + count)?);
        self.at += count;
        Some(u64::from_le_bytes(word))
    }
}
