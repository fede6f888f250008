//! Accesses that no machine has to answer, because they repeat the one before.

/// No line: lines are multiples of their length.
const NONE: u64 = u64::MAX;

/// Finds loads and stores of one thread that touch the same line as its access before, with nothing in between that a machine
/// answers. They hit, and change nothing; their number is told to [`crate::Machines::add_hits`].
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Bits of an address that are its line's; none if no access may be left out.
    mask: u64,
    /// The line of the access before.
    last: u64,
    /// Whether that line has been stored to since it became the last one.
    stored: bool,
}

impl Repeats {
    /// `shift` is log2 of the shortest line of all machines; `None` if a repeated access changes one of them.
    pub(crate) fn new(shift: Option<u32>) -> Repeats {
        Repeats { mask: shift.map_or(0, |shift| u64::MAX << shift), last: NONE, stored: false }
    }

    /// Leaves no access out.
    #[must_use]
    pub fn none() -> Repeats {
        Repeats::new(None)
    }

    /// Returns whether an access may be left out. If not, it is the one before the next.
    #[inline(always)]
    pub fn repeats(&mut self, address: u64, bytes: u16, store: bool) -> bool {
        let line = address & self.mask;
        let whole = (address.wrapping_add(u64::from(bytes) - 1)) & self.mask == line;
        if line == self.last && whole && (!store || self.stored) {
            return true;
        }
        self.stored = store;
        self.last = if whole && self.mask != 0 { line } else { NONE };
        false
    }

    /// Another access follows, or that of another thread: the next one is no repetition.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.last = NONE;
    }
}
