//! Boards that the image supports, and the addresses of their devices.
//!
//! Sources: BCM2837 ARM Peripherals (Broadcom, for BCM2835, with the bases of the Pi 2 and 3), ARM Quad A7 core
//! (QA7_rev3.4, the local interrupt controller), BCM2711 ARM Peripherals (2022), QEMU's hw/arm/virt.c for `virt`,
//! whose documentation guarantees a stable memory map.

/// A board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// Raspberry Pi 3: BCM2837, Cortex-A53.
    Pi3,
    /// Raspberry Pi 4: BCM2711, Cortex-A72.
    Pi4,
    /// QEMU's virtual machine `virt`.
    Virt,
}

/// Interrupt controller through which the generic timer interrupts core 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// A GIC version 2: its distributor and its CPU interface.
    Gic2 {
        /// Address of the distributor.
        distributor: u64,
        /// Address of the CPU interface.
        interface: u64,
    },
    /// The local interrupt controller of BCM2836 and BCM2837, and the one of BCM2835 that is connected to it.
    Local {
        /// Address of its first register.
        base: u64,
        /// Address of the first register of BCM2835's.
        legacy: u64,
    },
}

/// `MIDR_EL1` without variant and revision: implementer Arm and the part number.
pub const CORTEX_A53: u64 = 0x4100_d030;
/// See [`CORTEX_A53`].
pub const CORTEX_A72: u64 = 0x4100_d080;

/// Returns implementer (31:24) and part number (15:4) of `MIDR_EL1`.
#[must_use]
pub fn part(midr: u64) -> u64 {
    midr & 0xff00_fff0
}

impl Board {
    /// Determines the board by the load address of the image and the core.
    ///
    /// RAM of `virt` begins at 1 GiB, where the Pis have devices (3) or, with more than 1 GiB of RAM, memory into
    /// which their firmware loads no kernel (4). A Cortex-A72 below that is a Pi 4. Anything else is assumed to be a
    /// Pi 3, the only other board.
    #[must_use]
    pub fn find(loaded_at: u64, midr: u64) -> Board {
        match part(midr) {
            _ if loaded_at >= 0x4000_0000 => Board::Virt,
            CORTEX_A72 => Board::Pi4,
            _ => Board::Pi3,
        }
    }

    /// Returns the common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Board::Pi3 => "Raspberry Pi 3 (BCM2837)",
            Board::Pi4 => "Raspberry Pi 4 (BCM2711)",
            Board::Virt => "QEMU virt",
        }
    }

    /// Returns the address of the PL011 UART: UART0 of both Pis, the first of `virt`.
    #[must_use]
    pub fn uart(self) -> u64 {
        match self {
            Board::Pi3 => 0x3f20_1000,
            Board::Pi4 => 0xfe20_1000,
            Board::Virt => 0x0900_0000,
        }
    }

    /// Returns the UART's input clock, Hz: `init_uart_clock` of config.txt, whose default since 2014 is 48 MHz, and
    /// the fixed clock in the devicetree of `virt`.
    #[must_use]
    pub fn uart_hz(self) -> u32 {
        match self {
            Board::Pi3 | Board::Pi4 => 48_000_000,
            Board::Virt => 24_000_000,
        }
    }

    /// Returns the register that selects the function of GPIO 10 to 19 (`GPFSEL1`), if the UART's pins need it.
    #[must_use]
    pub fn pins(self) -> Option<u64> {
        match self {
            Board::Pi3 => Some(0x3f20_0004),
            Board::Pi4 => Some(0xfe20_0004),
            Board::Virt => None,
        }
    }

    /// Returns the interrupt controller of the timer.
    #[must_use]
    pub fn interrupts(self) -> Interrupts {
        match self {
            Board::Pi3 => Interrupts::Local { base: 0x4000_0000, legacy: 0x3f00_b200 },
            // BCM2711 in its low-peripheral mode: the GIC-400 at 0xff84_0000 (BCM2711 ARM Peripherals, "GIC-400
            // interrupt controller").
            Board::Pi4 => Interrupts::Gic2 { distributor: 0xff84_1000, interface: 0xff84_2000 },
            Board::Virt => Interrupts::Gic2 { distributor: 0x0800_0000, interface: 0x0801_0000 },
        }
    }

    /// Returns the 2 MiB blocks that contain the devices above.
    #[must_use]
    pub fn devices(self) -> &'static [u64] {
        match self {
            Board::Pi3 => &[0x3f00_0000, 0x3f20_0000, 0x4000_0000],
            Board::Pi4 => &[0xfe20_0000, 0xff80_0000],
            Board::Virt => &[0x0800_0000, 0x0900_0000],
        }
    }

    /// Returns the address of the arena's memory, of [`ARENA_BYTES`](crate::windows::ARENA_BYTES) bytes. The Pis' firmware
    /// reserves the top of the first GiB for the video core, or of 512 MiB on smaller boards (Pi 3A+, Zero 2 W):
    /// `gpu_mem` of config.txt, 64 or 76 MiB by default. The loaded image is in the first few MiB. So the second 128
    /// MiB belong to the core on every board, up to a `gpu_mem` of 256 on the smallest. The image checks this with
    /// the firmware at the start (`crate::firmware`).
    #[must_use]
    pub fn arena(self) -> u64 {
        match self {
            Board::Pi3 | Board::Pi4 => 0x0800_0000,
            Board::Virt => 0x5000_0000,
        }
    }

    /// Returns the address of the mailboxes to the Pis' firmware, if any (its wiki, "Accessing mailboxes": no manual
    /// describes them).
    #[must_use]
    pub fn mailbox(self) -> Option<u64> {
        match self {
            Board::Pi3 => Some(0x3f00_b880),
            Board::Pi4 => Some(0xfe00_b880),
            Board::Virt => None,
        }
    }

    /// Returns the rate of the system counter, Hz, for a start at EL3, where no software has written `CNTFRQ_EL0`
    /// yet: the crystals of the Pis (armstub8.S of the Raspberry Pi tools: 19.2 MHz, 54 MHz) and QEMU's 62.5 MHz.
    #[must_use]
    pub fn counter_hz(self) -> u64 {
        match self {
            Board::Pi3 => 19_200_000,
            Board::Pi4 => 54_000_000,
            Board::Virt => 62_500_000,
        }
    }

    /// Returns the addresses of `LOCAL_CONTROL` and `LOCAL_PRESCALER` of the system counter (QA7 3.1, armstub8.S),
    /// which must be written before it counts at its rate.
    #[must_use]
    pub fn counter_control(self) -> Option<(u64, u64)> {
        match self {
            Board::Pi3 => Some((0x4000_0000, 0x4000_0008)),
            Board::Pi4 => Some((0xff80_0000, 0xff80_0008)),
            Board::Virt => None,
        }
    }
}

/// Returns the PL011's divisor for a rate, as in `UARTIBRD` and `UARTFBRD`: 16 bits of the integer part and 6 of the
/// fraction of clock / (16 x baud), rounded (PL011 TRM, DDI 0183G, 3.3.6). Returns `None` if it is out of range: the
/// integer part is 1 to 65535.
#[must_use]
pub fn divisor(clock_hz: u32, baud: u32) -> Option<(u32, u32)> {
    let in_64ths = (u64::from(clock_hz) * 4 + u64::from(baud) / 2).checked_div(u64::from(baud))?;
    let (whole, fraction) = (in_64ths >> 6, in_64ths & 63);
    ((1..=0xffff).contains(&whole)).then_some((whole as u32, fraction as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::ARENA_BYTES;

    #[test]
    fn boards_are_identified_by_address_and_core() {
        assert_eq!(Board::find(0x4008_0000, 0x410f_d034), Board::Virt);
        assert_eq!(Board::find(0x4008_0000, 0x410f_d083), Board::Virt);
        assert_eq!(Board::find(0x8_0000, 0x410f_d034), Board::Pi3);
        assert_eq!(Board::find(0x8_0000, 0x410f_d083), Board::Pi4);
        assert_eq!(Board::find(0x20_0000, 0x410f_d083), Board::Pi4);
    }

    #[test]
    fn every_device_is_mapped() {
        for board in [Board::Pi3, Board::Pi4, Board::Virt] {
            let mapped =
                |at: u64| board.devices().iter().any(|block| (*block..block + (2 << 20)).contains(&at));
            assert!(mapped(board.uart()));
            assert!(board.pins().is_none_or(mapped));
            assert!(board.counter_control().is_none_or(|(a, b)| mapped(a) && mapped(b)));
            match board.interrupts() {
                Interrupts::Gic2 { distributor, interface } => {
                    assert!(mapped(distributor + 0xfff) && mapped(interface + 0x10))
                }
                Interrupts::Local { base, legacy } => assert!(mapped(base + 0x60) && mapped(legacy + 0x24)),
            }
            assert!(board.arena().is_multiple_of(2 << 20));
        }
    }

    #[test]
    fn arena_fits_the_smallest_board() {
        // 512 MiB, of which the video core has 256; the image and its memory are below the arena.
        for board in [Board::Pi3, Board::Pi4] {
            assert!(board.arena() >= 64 << 20 && board.arena() + ARENA_BYTES <= (512 - 256) << 20);
        }
        // `virt` with 512 MiB from 1 GiB on.
        assert!(Board::Virt.arena() + ARENA_BYTES <= (1 << 30) + (512 << 20));
    }

    #[test]
    fn divisors_follow_the_manual() {
        // 48 MHz and 115,200: 26.04, so 26 and 3 of 64.
        assert_eq!(divisor(48_000_000, 115_200), Some((26, 3)));
        assert_eq!(divisor(48_000_000, 921_600), Some((3, 16)));
        // DDI 0183G's own example: 4 MHz, 230,400: 1 and 5.
        assert_eq!(divisor(4_000_000, 230_400), Some((1, 5)));
        assert_eq!(divisor(48_000_000, 4_000_000), None);
        assert_eq!(divisor(48_000_000, 0), None);
        assert_eq!(divisor(48_000_000, 10), None);
    }
}
