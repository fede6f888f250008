//! Boards that the image supports, and the addresses of their devices.
//!
//! Sources: BCM2835 ARM Peripherals (Broadcom), BCM2837 ARM Peripherals (the same with the bases of the Pi 2 and 3), ARM
//! Quad A7 core (QA7_rev3.4, the local interrupt controller), BCM2711 ARM Peripherals (2022), QEMU's hw/arm/virt.c for
//! `virt`, whose documentation guarantees a stable memory map, and CoreTile Express A15x2 (DUI 0604) with the
//! motherboard's Cortex-A series memory map (DUI 0447).

/// A board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// Raspberry Pi 1 and Zero: BCM2835, ARM1176JZF-S.
    Pi1,
    /// Raspberry Pi 2: BCM2836, Cortex-A7. Its devices are those of the Pi 3.
    Pi2,
    /// Raspberry Pi 3: BCM2837, Cortex-A53.
    Pi3,
    /// Raspberry Pi 4: BCM2711, Cortex-A72.
    Pi4,
    /// QEMU's virtual machine `virt`.
    Virt,
    /// Versatile Express with a CoreTile Express A15x2.
    Vexpress,
}

/// Size of the blocks that contain devices ([`Board::devices`]), bytes.
pub const DEVICE_BYTES: u64 = 2 << 20;

/// Interrupt controller through which the timer interrupts core 0.
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
    /// The interrupt controller of BCM2835 alone.
    Legacy {
        /// Address of its first register.
        base: u64,
    },
}

/// `MIDR_EL1` (on 32-bit ARM `MIDR`) without variant and revision: implementer Arm and the part number.
pub const CORTEX_A53: u64 = 0x4100_d030;
/// See [`CORTEX_A53`].
pub const CORTEX_A72: u64 = 0x4100_d080;
/// See [`CORTEX_A53`].
pub const CORTEX_A7: u64 = 0x4100_c070;
/// See [`CORTEX_A53`].
pub const CORTEX_A15: u64 = 0x4100_c0f0;
/// See [`CORTEX_A53`].
pub const ARM1176: u64 = 0x4100_b760;

/// Returns implementer (31:24) and part number (15:4) of `MIDR_EL1`.
#[must_use]
pub fn part(midr: u64) -> u64 {
    midr & 0xff00_fff0
}

impl Board {
    /// Every board.
    pub const ALL: [Board; 6] =
        [Board::Pi1, Board::Pi2, Board::Pi3, Board::Pi4, Board::Virt, Board::Vexpress];

    /// Determines the board by the load address of the image and the core.
    ///
    /// RAM of `virt` begins at 1 GiB and that of Versatile Express at 2 GiB, where the Pis have devices (2 and 3) or,
    /// with more than 1 GiB of RAM, memory into which their firmware loads no kernel (4). Below that, each Pi has
    /// another core. Any other core is assumed to be that of a Pi 3, except for the Cortex-A15, which has no board there:
    /// fathom-emulate has it on the devices of a Pi 2.
    #[must_use]
    pub fn find(loaded_at: u64, midr: u64) -> Board {
        match part(midr) {
            CORTEX_A15 if loaded_at >= 0x8000_0000 => Board::Vexpress,
            _ if loaded_at >= 0x4000_0000 => Board::Virt,
            ARM1176 => Board::Pi1,
            CORTEX_A7 | CORTEX_A15 => Board::Pi2,
            CORTEX_A72 => Board::Pi4,
            _ => Board::Pi3,
        }
    }

    /// Returns the common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Board::Pi1 => "Raspberry Pi 1 or Zero (BCM2835)",
            Board::Pi2 => "Raspberry Pi 2 (BCM2836)",
            Board::Pi3 => "Raspberry Pi 3 (BCM2837)",
            Board::Pi4 => "Raspberry Pi 4 (BCM2711)",
            Board::Virt => "QEMU virt",
            Board::Vexpress => "Versatile Express A15",
        }
    }

    /// Returns the base of the Pis' peripherals.
    fn peripherals(self) -> Option<u64> {
        match self {
            Board::Pi1 => Some(0x2000_0000),
            Board::Pi2 | Board::Pi3 => Some(0x3f00_0000),
            Board::Pi4 => Some(0xfe00_0000),
            Board::Virt | Board::Vexpress => None,
        }
    }

    /// Returns the address of the PL011 UART: UART0 of the Pis, the first of the others.
    #[must_use]
    pub fn uart(self) -> u64 {
        match (self, self.peripherals()) {
            (_, Some(base)) => base + 0x20_1000,
            (Board::Vexpress, None) => 0x1c09_0000,
            (_, None) => 0x0900_0000,
        }
    }

    /// Returns the UART's input clock, Hz: `init_uart_clock` of config.txt, whose default since 2014 is 48 MHz, and
    /// the fixed clocks in the devicetrees of `virt` and of Versatile Express.
    #[must_use]
    pub fn uart_hz(self) -> u32 {
        if self.peripherals().is_some() { 48_000_000 } else { 24_000_000 }
    }

    /// Returns the register that selects the function of GPIO 10 to 19 (`GPFSEL1`), if the UART's pins need it.
    #[must_use]
    pub fn pins(self) -> Option<u64> {
        self.peripherals().map(|base| base + 0x20_0004)
    }

    /// Returns the interrupt controller of the timer.
    #[must_use]
    pub fn interrupts(self) -> Interrupts {
        match self {
            Board::Pi1 => Interrupts::Legacy { base: 0x2000_b200 },
            Board::Pi2 | Board::Pi3 => Interrupts::Local { base: 0x4000_0000, legacy: 0x3f00_b200 },
            // BCM2711 in its low-peripheral mode: the GIC-400 at 0xff84_0000 (BCM2711 ARM Peripherals, "GIC-400
            // interrupt controller").
            Board::Pi4 => Interrupts::Gic2 { distributor: 0xff84_1000, interface: 0xff84_2000 },
            Board::Virt => Interrupts::Gic2 { distributor: 0x0800_0000, interface: 0x0801_0000 },
            Board::Vexpress => Interrupts::Gic2 { distributor: 0x2c00_1000, interface: 0x2c00_2000 },
        }
    }

    /// Returns the system timer of BCM2835, on the board whose core has no generic timer (BCM2835 ARM Peripherals, 12).
    #[must_use]
    pub const fn system_timer(self) -> Option<u64> {
        if matches!(self, Board::Pi1) { Some(0x2000_3000) } else { None }
    }

    /// Returns the blocks of [`DEVICE_BYTES`] that contain the devices above.
    #[must_use]
    pub fn devices(self) -> &'static [u64] {
        match self {
            Board::Pi1 => &[0x2000_0000, 0x2020_0000],
            Board::Pi2 | Board::Pi3 => &[0x3f00_0000, 0x3f20_0000, 0x4000_0000],
            Board::Pi4 => &[0xfe20_0000, 0xff80_0000],
            Board::Virt => &[0x0800_0000, 0x0900_0000],
            Board::Vexpress => &[0x1c00_0000, 0x2c00_0000],
        }
    }

    /// Returns the address of the arena's memory, of [`ARENA_BYTES`](crate::windows::ARENA_BYTES) bytes. The Pis' firmware
    /// reserves the top of the first GiB for the video core, or of 512 MiB on smaller boards (Pi 3A+, Zero 2 W):
    /// `gpu_mem` of config.txt, 64 or 76 MiB by default. The loaded image is in the first few MiB. So the second 128
    /// MiB belong to the core on every board, up to a `gpu_mem` of 256 on the smallest. The first Pis 1 have 256 MiB:
    /// there it is the 128 MiB below the last 64. The image checks this with the firmware at the start
    /// (`crate::firmware`).
    #[must_use]
    pub fn arena(self) -> u64 {
        match self {
            Board::Pi1 => 0x0400_0000,
            Board::Pi2 | Board::Pi3 | Board::Pi4 => 0x0800_0000,
            Board::Virt => 0x5000_0000,
            Board::Vexpress => 0x9000_0000,
        }
    }

    /// Returns the address of the mailboxes to the Pis' firmware, if any (its wiki, "Accessing mailboxes": no manual
    /// describes them).
    #[must_use]
    pub fn mailbox(self) -> Option<u64> {
        self.peripherals().map(|base| base + 0xb880)
    }

    /// Returns the alias through which the video core must access memory to read what the core has written. BCM2835
    /// sends the core's accesses through the video core's L2, which the alias at 0x4000_0000 reads too; later ones do
    /// not (BCM2835 ARM Peripherals, 1.2.3; Linux's devicetrees bcm2835.dtsi and bcm2836.dtsi, `dma-ranges`).
    #[must_use]
    pub fn video_alias(self) -> u32 {
        if self == Board::Pi1 { 0x4000_0000 } else { 0xc000_0000 }
    }

    /// Returns the rate of the system counter, Hz, if no register has it: before any software has written `CNTFRQ_EL0`,
    /// the crystals of the Pis (armstub8.S of the Raspberry Pi tools: 19.2 MHz, 54 MHz), QEMU's 62.5 MHz, the 24 MHz of
    /// Versatile Express (DUI 0604, "SYS_24MHZ"); the system timer of BCM2835 counts microseconds.
    #[must_use]
    pub fn counter_hz(self) -> u64 {
        match self {
            Board::Pi1 => 1_000_000,
            Board::Pi2 | Board::Pi3 => 19_200_000,
            Board::Pi4 => 54_000_000,
            Board::Virt => 62_500_000,
            Board::Vexpress => 24_000_000,
        }
    }

    /// Returns the addresses of `LOCAL_CONTROL` and `LOCAL_PRESCALER` of the system counter (QA7 3.1, armstub8.S),
    /// which must be written before it counts at its rate.
    #[must_use]
    pub fn counter_control(self) -> Option<(u64, u64)> {
        match self {
            Board::Pi2 | Board::Pi3 => Some((0x4000_0000, 0x4000_0008)),
            Board::Pi4 => Some((0xff80_0000, 0xff80_0008)),
            Board::Pi1 | Board::Virt | Board::Vexpress => None,
        }
    }

    /// Returns whether it exists as an emulated machine only.
    #[must_use]
    pub fn is_virtual(self) -> bool {
        self == Board::Virt
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
        assert_eq!(Board::find(0x8000, 0x410f_b767), Board::Pi1);
        assert_eq!(Board::find(0x8000, 0x410f_c075), Board::Pi2);
        assert_eq!(Board::find(0x8001_0000, 0x412f_c0f1), Board::Vexpress);
        assert_eq!(Board::find(0x4001_0000, 0x412f_c0f1), Board::Virt);
    }

    #[test]
    fn every_device_is_mapped() {
        for board in Board::ALL {
            let mapped =
                |at: u64| board.devices().iter().any(|block| (*block..block + DEVICE_BYTES).contains(&at));
            assert!(mapped(board.uart()));
            assert!(board.pins().is_none_or(mapped));
            assert!(board.counter_control().is_none_or(|(a, b)| mapped(a) && mapped(b)));
            match board.interrupts() {
                Interrupts::Gic2 { distributor, interface } => {
                    assert!(mapped(distributor + 0xfff) && mapped(interface + 0x10))
                }
                Interrupts::Local { base, legacy } => assert!(mapped(base + 0x60) && mapped(legacy + 0x24)),
                Interrupts::Legacy { base } => assert!(mapped(base) && mapped(base + 0x24)),
            }
            assert!(board.system_timer().is_none_or(|base| mapped(base) && mapped(base + 0x18)));
            assert!(board.arena().is_multiple_of(2 << 20));
        }
    }

    #[test]
    fn arena_fits_the_smallest_board() {
        // 512 MiB, of which the video core has 256; the image and its memory are below the arena.
        for board in [Board::Pi2, Board::Pi3, Board::Pi4] {
            assert!(board.arena() >= 64 << 20 && board.arena() + ARENA_BYTES <= (512 - 256) << 20);
        }
        // The first Pi 1: 256 MiB, of which the video core has 64 by default.
        assert!(Board::Pi1.arena() >= 64 << 20 && Board::Pi1.arena() + ARENA_BYTES <= (256 - 64) << 20);
        // `virt` with 512 MiB from 1 GiB on.
        assert!(Board::Virt.arena() + ARENA_BYTES <= (1 << 30) + (512 << 20));
        assert!(Board::Vexpress.arena() + ARENA_BYTES <= (2 << 30) + (512 << 20));
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
