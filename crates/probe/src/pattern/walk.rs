//! The orders in which a chain is walked, and their tokens.

use alloc::format;

use super::keys::Keys;
use super::memory::{MAX_BYTES, Memory, wrong};
use crate::chain::Order;
use crate::tokens::token_names;
use crate::wire::WireError;

/// The order of a chain, without its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OrderKind {
    /// One random cycle.
    #[default]
    Random,
    /// Random inside windows of `window` bytes.
    Window,
    /// Ascending.
    Sequential,
    /// Descending.
    Reversed,
    /// Every second cell ascending, in interleaved passes.
    Forward2,
    /// Every third cell ascending, in interleaved passes.
    Forward3,
    /// Every fourth cell ascending, in interleaved passes.
    Forward4,
    /// Every fifth cell ascending, in interleaved passes.
    Forward5,
    /// Every sixth cell ascending, in interleaved passes.
    Forward6,
    /// Every seventh cell ascending, in interleaved passes.
    Forward7,
    /// Every eighth cell ascending, in interleaved passes.
    Forward8,
    /// Every second cell descending, in interleaved passes.
    Backward2,
    /// Every third cell descending, in interleaved passes.
    Backward3,
    /// Every fourth cell descending, in interleaved passes.
    Backward4,
    /// Every fifth cell descending, in interleaved passes.
    Backward5,
    /// Every sixth cell descending, in interleaved passes.
    Backward6,
    /// Every seventh cell descending, in interleaved passes.
    Backward7,
    /// Every eighth cell descending, in interleaved passes.
    Backward8,
    /// Random, with another cycle for each sample; no part of it is walked twice.
    Repermuted,
    /// Cells 2k and 2k + 1 one after the other, the pairs in random order.
    Pairs,
    /// Passes over all pages in one random order, each with another line of every page.
    Passes,
    /// The same passes, with two lines of every page one after the other, half a page apart.
    PassesOfPairs,
}

token_names!(OrderKind {
    Random = "random",
    Window = "window",
    Sequential = "sequential",
    Reversed = "reversed",
    Forward2 = "forward2",
    Forward3 = "forward3",
    Forward4 = "forward4",
    Forward5 = "forward5",
    Forward6 = "forward6",
    Forward7 = "forward7",
    Forward8 = "forward8",
    Backward2 = "backward2",
    Backward3 = "backward3",
    Backward4 = "backward4",
    Backward5 = "backward5",
    Backward6 = "backward6",
    Backward7 = "backward7",
    Backward8 = "backward8",
    Repermuted = "repermuted",
    Pairs = "pairs",
    Passes = "passes",
    PassesOfPairs = "passes-of-pairs",
});

impl OrderKind {
    /// Returns whether this is an order of passes over pages.
    #[must_use]
    pub fn is_of_passes(self) -> bool {
        matches!(self, OrderKind::Passes | OrderKind::PassesOfPairs)
    }

    /// Returns the orders of a working set whose lines come back after all others: those that prefetchers are measured with.
    pub fn of_single_lines() -> impl Iterator<Item = OrderKind> {
        let all = OrderKind::ALL.iter().copied();
        all.filter(|order| *order != OrderKind::Pairs && !order.is_of_passes())
    }

    /// Returns the constant stride of an order, in cells: 1 for `sequential`, -3 for `backward3`; `None` if it has
    /// none.
    #[must_use]
    pub fn stride(self) -> Option<i8> {
        Some(match self {
            OrderKind::Random | OrderKind::Window | OrderKind::Repermuted | OrderKind::Pairs => return None,
            OrderKind::Passes | OrderKind::PassesOfPairs => return None,
            OrderKind::Sequential => 1,
            OrderKind::Reversed => -1,
            OrderKind::Forward2 => 2,
            OrderKind::Forward3 => 3,
            OrderKind::Forward4 => 4,
            OrderKind::Forward5 => 5,
            OrderKind::Forward6 => 6,
            OrderKind::Forward7 => 7,
            OrderKind::Forward8 => 8,
            OrderKind::Backward2 => -2,
            OrderKind::Backward3 => -3,
            OrderKind::Backward4 => -4,
            OrderKind::Backward5 => -5,
            OrderKind::Backward6 => -6,
            OrderKind::Backward7 => -7,
            OrderKind::Backward8 => -8,
        })
    }
}

/// The order of a chain, with its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The order.
    pub order: OrderKind,
    /// Bytes of a window, for the order `window`.
    pub window: u64,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { order: OrderKind::Random, window: 4096 }
    }
}

impl Walk {
    /// Returns a random order inside windows of `window` bytes.
    #[must_use]
    pub fn windows(window: u64) -> Walk {
        Walk { order: OrderKind::Window, window }
    }

    /// Returns the order of a chain with this number of cells in each page.
    #[must_use]
    pub fn chain_order(&self, per_page: u64) -> Order {
        match self.order {
            OrderKind::Passes => Order::Passes { per: per_page, both: false },
            OrderKind::PassesOfPairs => Order::Passes { per: per_page, both: true },
            OrderKind::Random => Order::Random,
            OrderKind::Window => Order::Window(self.window),
            OrderKind::Sequential => Order::Sequential,
            OrderKind::Repermuted => Order::Once,
            OrderKind::Pairs => Order::Groups(2),
            other => Order::Strided(other.stride().unwrap_or(1)),
        }
    }

    pub(super) fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.token("order", &mut self.order)?;
        keys.int("window", &mut self.window)
    }

    /// Checks the order of a pattern that walks a chain cyclically, with this number of cells in each page.
    pub(super) fn check(&self, memory: &Memory, per_page: u64) -> Result<(), WireError> {
        if self.order == OrderKind::Repermuted {
            return wrong("order=repermuted is for pattern=chase".into());
        }
        self.check_cells(memory, per_page)
    }

    /// Checks that the order has the cells that it needs.
    pub(super) fn check_cells(&self, memory: &Memory, per_page: u64) -> Result<(), WireError> {
        let (window, min) = (self.window, memory.stride);
        if self.order == OrderKind::Window && !(min..=MAX_BYTES).contains(&window) {
            return wrong(format!("window={window} must be from {min} to {MAX_BYTES}"));
        }
        if self.order.is_of_passes() && (per_page < 2 || !per_page.is_multiple_of(2)) {
            let order = self.order.token();
            return wrong(format!("order={order} needs pattern=pages with an even per_page, not {per_page}"));
        }
        Ok(())
    }
}

impl From<OrderKind> for Walk {
    fn from(order: OrderKind) -> Walk {
        Walk { order, ..Walk::default() }
    }
}
