//! Detects whether the clock is that of hardware, an emulator or a model.

use alloc::string::String;

use fathom_probe::machine::ClockTrust;

use crate::board::Board;

/// What the registers of the core show, with the values as text (`crate::aarch64::registers`,
/// `crate::arm::registers`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// They have values that an emulator does not have.
    RealCore(String),
    /// They have values that no real core has, or nothing is known of the core.
    Emulator(String),
}

/// Returns the clock trust, and the evidence as text. The registers do not reveal a described machine; only the image's
/// parameters do (`modelled`).
#[must_use]
pub fn judge(board: Board, evidence: Evidence, modelled: bool) -> (ClockTrust, String) {
    if modelled {
        let evidence = "by the image's parameters, a described machine provides the time";
        return (ClockTrust::Modelled, evidence.into());
    }
    match evidence {
        _ if board.is_virtual() => (
            ClockTrust::Emulated,
            "loaded at 0x40000000 or above, as on QEMU's virt: no supported board loads there".into(),
        ),
        Evidence::RealCore(text) => (ClockTrust::Real, text),
        Evidence::Emulator(text) => (ClockTrust::Emulated, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_cores_on_boards_are_real() {
        let real = Evidence::RealCore("a".into());
        for (board, evidence, trust) in [
            (Board::Pi3, real.clone(), ClockTrust::Real),
            (Board::Vexpress, real.clone(), ClockTrust::Real),
            (Board::Virt, real, ClockTrust::Emulated),
            (Board::Pi4, Evidence::Emulator("b".into()), ClockTrust::Emulated),
        ] {
            assert_eq!(judge(board, evidence.clone(), true).0, ClockTrust::Modelled);
            let (found, why) = judge(board, evidence, false);
            assert_eq!(found, trust, "{board:?}: {why}");
            assert!(!why.is_empty());
        }
    }
}
