//! Sources of interrupts, and which of them is the watchdog's.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The physical timer of EL1 or PL1 at a GIC: private interrupt 30 (Server Base System Architecture, 5.2; BCM2711 ARM
/// Peripherals 6.3; QEMU's virt), and 29 if a 32-bit image was entered in the secure state (QEMU's vexpress-a15).
pub const TIMER_INTIDS: [u32; 2] = [30, 29];

/// Source of an interrupt, as the board's controller reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptSource {
    /// The bits of core 0's register of QA7, "Core interrupt sources".
    Local(u32),
    /// The bits of BCM2835's "IRQ pending 1" (BCM2835 ARM Peripherals, 7.5).
    Legacy(u32),
    /// The number of `GICC_IAR` (IHI 0048B 4.4.4), bits 9:0.
    Gic(u32),
}

impl InterruptSource {
    /// Returns whether the source is the watchdog on trials. `reached`: its timer has reached its time.
    #[must_use]
    pub fn is_watchdog(self, reached: bool) -> bool {
        reached && !matches!(self, InterruptSource::Gic(id) if !TIMER_INTIDS.contains(&id))
    }

    /// Returns the number by which a GIC's distributor masks it. Numbers from 1020 on are special and mean no
    /// interrupt.
    #[must_use]
    pub fn distributor_id(self) -> Option<u32> {
        match self {
            InterruptSource::Gic(id) if id < 1020 => Some(id),
            _ => None,
        }
    }

    /// Returns the text for an unexpected interrupt.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            InterruptSource::Gic(id @ 1020..) => {
                format!("an unexpected interrupt: INTID {id}, no longer pending")
            }
            InterruptSource::Gic(id) => format!("an unexpected interrupt: INTID {id}"),
            InterruptSource::Local(bits) => {
                let set = LOCAL_SOURCES.iter().enumerate().filter(|(nth, _)| bits >> nth & 1 == 1);
                let names: Vec<&str> = set.map(|(_, name)| *name).collect();
                let names =
                    if names.is_empty() { String::from("no longer pending") } else { names.join(", ") };
                format!("an unexpected interrupt: source {bits:#x}, {names}")
            }
            InterruptSource::Legacy(bits) => format!("an unexpected interrupt: IRQ pending 1 is {bits:#x}"),
        }
    }
}

/// The bits of [`InterruptSource::Local`], from 0.
const LOCAL_SOURCES: [&str; 12] = [
    "the secure physical timer",
    "the physical timer",
    "the hypervisor's timer",
    "the virtual timer",
    "mailbox 0",
    "mailbox 1",
    "mailbox 2",
    "mailbox 3",
    "a peripheral",
    "the PMU",
    "outstanding AXI transfers",
    "the local timer",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_expired_timer_is_the_watchdog() {
        for (source, reached, is) in [
            (InterruptSource::Gic(30), true, true),
            (InterruptSource::Gic(29), true, true),
            (InterruptSource::Gic(30), false, false),
            (InterruptSource::Gic(1023), true, false),
            (InterruptSource::Gic(105), true, false),
            (InterruptSource::Local(1 << 1), true, true),
            // Another pending interrupt does not matter: the time has expired.
            (InterruptSource::Local(1 << 8 | 1 << 1), true, true),
            (InterruptSource::Local(1 << 8), false, false),
            (InterruptSource::Legacy(1 << 3), true, true),
            (InterruptSource::Legacy(1 << 9), false, false),
        ] {
            assert_eq!(source.is_watchdog(reached), is, "{source:?} {reached}");
        }
    }

    #[test]
    fn unexpected_interrupts_are_named() {
        assert_eq!(InterruptSource::Gic(105).text(), "an unexpected interrupt: INTID 105");
        assert_eq!(
            InterruptSource::Local(0x110).text(),
            "an unexpected interrupt: source 0x110, mailbox 0, a peripheral"
        );
        assert!(InterruptSource::Legacy(0x200).text().ends_with("0x200"));
        assert!(
            InterruptSource::Local(0).text().contains("no longer pending")
                && InterruptSource::Gic(1023).text().contains("no longer pending")
        );
        let masked = [
            InterruptSource::Gic(105),
            InterruptSource::Gic(1019),
            InterruptSource::Gic(1020),
            InterruptSource::Gic(1023),
            InterruptSource::Local(1),
        ];
        let masked = masked.map(InterruptSource::distributor_id);
        assert_eq!(masked, [Some(105), Some(1019), None, None, None]);
    }
}
