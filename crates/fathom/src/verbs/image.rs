//! `fathom image`: writes the files of an SD card that makes a board a subject, with one page of instructions.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use fathom_metal::parameters::Parameters;

use super::{Context, Verb};
use crate::cli::baud;
use crate::failure::{Exit, Failure};
use crate::image::Image;
use crate::output::shell;
use crate::subjects;

/// Statement that the image was never tested on hardware.
const NEVER_TESTED: &str = "This image was never run on hardware; it was tested only under emulators.";
/// First bytes of the files written by `fathom image`, which may be overwritten.
const CONFIG: &str = "# Written by `fathom image`";
const README: &str = "Fathom on ";

/// Options of the image.
#[derive(Debug, Args)]
struct Options {
    /// The board.
    #[arg(long, value_enum)]
    board: Board,
    /// Output directory; created if necessary.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Baud rate of the serial port.
    #[arg(long, default_value_t = subjects::serial::BAUD, value_parser = baud())]
    baud: u32,
    /// Overwrite files that `fathom image` did not write.
    #[arg(long)]
    force: bool,
}

/// A supported board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Board {
    /// Raspberry Pi 1, Zero and Zero W.
    Pi1,
    /// Raspberry Pi 2.
    Pi2,
    /// Raspberry Pi 3.
    Pi3,
    /// Raspberry Pi 3 in its 32-bit state.
    #[value(name = "pi3-32")]
    Pi3In32Bits,
    /// Raspberry Pi 4.
    Pi4,
    /// QEMU's machine virt.
    Virt,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        "image",
        "Writes the bare-metal image, the other files of its SD card, and a page of instructions",
        "Examples:
  fathom image --board pi3 -o card             kernel8.img, config.txt, README.txt
  fathom image --board pi1 -o card             kernel.img, for a Raspberry Pi 1 or Zero
  fathom survey --on serial:/dev/ttyUSB0       the board, once it has booted
  fathom survey --on qemu:virt                 the same image, without a board

The image was never run on hardware. Exit status: 0 written, 1 failed, 2 wrong command line, or a file \
         exists that `fathom image` did not write",
        run,
    )
}

/// Name of a board, its image, the name by which the firmware loads it, and the firmware files on the card.
struct Kit {
    name: &'static str,
    image: Image,
    kernel: &'static str,
    firmware: &'static str,
    /// The memory that is measured, and the largest `gpu_mem`.
    memory: &'static str,
}

/// Where the arena is on the boards other than the first.
const SECOND_128_MIB: &str = "256 at most: what is measured is the second 128 MiB of memory";

fn kit(board: Board) -> Kit {
    let pi3 = Kit {
        name: "Raspberry Pi 3",
        image: Image::Aarch64,
        kernel: "kernel8.img",
        firmware: "bootcode.bin, start.elf, fixup.dat, overlays/disable-bt.dtbo, and the board's\n  \
                   devicetree: bcm2710-rpi-3-b.dtb, for a 3B+ bcm2710-rpi-3-b-plus.dtb (the folder\n  \
                   has one for each board)",
        memory: SECOND_128_MIB,
    };
    match board {
        // Raspberry Pi documentation, "Boot folder contents" and "GPIO and the 40-pin header".
        Board::Pi1 => Kit {
            name: "Raspberry Pi 1 or Zero",
            image: Image::Armv6,
            kernel: "kernel.img",
            firmware: "bootcode.bin, start.elf, fixup.dat, overlays/disable-bt.dtbo (for a Zero W), and the\n  \
                       board's devicetree: bcm2708-rpi-b.dtb, for a B+ bcm2708-rpi-b-plus.dtb, for a\n  \
                       Zero bcm2708-rpi-zero.dtb (the folder has one for each board)",
            memory: "64 at most on a board with 256 MiB, 320 with 512: what is measured is the 128 MiB\n\
                     after the first 64",
        },
        Board::Pi2 => Kit {
            name: "Raspberry Pi 2",
            image: Image::Armv7,
            kernel: "kernel7.img",
            firmware: "bootcode.bin, start.elf, fixup.dat, and the board's devicetree:\n  \
                       bcm2709-rpi-2-b.dtb, for version 1.2 bcm2710-rpi-2-b.dtb",
            memory: SECOND_128_MIB,
        },
        Board::Pi3 => pi3,
        Board::Pi3In32Bits => {
            Kit { name: "Raspberry Pi 3 in 32 bits", image: Image::Armv7, kernel: "kernel7.img", ..pi3 }
        }
        Board::Pi4 => Kit {
            name: "Raspberry Pi 4",
            firmware: "start4.elf, fixup4.dat, overlays/disable-bt.dtbo, and the board's devicetree:\n  \
                       bcm2711-rpi-4-b.dtb, for a 400 bcm2711-rpi-400.dtb, for a CM4\n  \
                       bcm2711-rpi-cm4.dtb (the folder has one for each board)",
            ..pi3
        },
        Board::Virt => Kit { name: "QEMU's machine virt", firmware: "", ..pi3 },
    }
}

/// Writes the files, and prints their names.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let mut image = kit(options.board).image.embedded()?.to_vec();
    let set = Parameters::of(&image).and_then(|p| Parameters { baud: options.baud, ..p }.patch(&mut image));
    set.map_err(|why| Failure::new(why, "build fathom again"))?;
    let dir = &options.output;
    let files = files(options, image);
    let failed = |path: &Path, e: std::io::Error| {
        Failure::usage(format!("{}: {e}", path.display()), "name a directory that can be written: -o DIR")
    };
    std::fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
    for (name, _) in &files {
        let path = dir.join(name);
        if !options.force && !may_overwrite(&path).map_err(|e| failed(&path, e))? {
            let what = format!("{}: the file exists and was not written by `fathom image`", path.display());
            return Err(Failure::usage(what, "name an empty directory, or use --force"));
        }
    }
    for (name, bytes) in &files {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|e| failed(&path, e))?;
    }
    out.text(&summary(options, &files))
}

/// Returns whether the file may be written: it does not exist, or this verb wrote it.
fn may_overwrite(path: &Path) -> std::io::Result<bool> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(e),
    };
    Ok(bytes.starts_with(CONFIG.as_bytes())
        || bytes.starts_with(README.as_bytes())
        || Parameters::of(&bytes).is_ok())
}

fn files(options: &Options, image: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![(kit(options.board).kernel, image)];
    if options.board != Board::Virt {
        files.push(("config.txt", config(options).into_bytes()));
    }
    files.push(("README.txt", readme(options).into_bytes()));
    files
}

/// Returns the firmware's configuration: only these keys (Raspberry Pi documentation, "config.txt").
fn config(options: &Options) -> String {
    let Kit { name, image, kernel, .. } = kit(options.board);
    let (bits, is_64) = if image == Image::Aarch64 { (64, 1) } else { (32, 0) };
    format!(
        "{CONFIG} for the {name}.\n\
         # {bits} bits, and this kernel.\narm_64bit={is_64}\nkernel={kernel}\n\
         # The serial port on GPIO 14 and 15, using the UART with its own clock.\n\
         enable_uart=1\ndtoverlay=disable-bt\n"
    )
}

fn readme(options: &Options) -> String {
    let Options { board, baud, .. } = options;
    let Kit { name, firmware, kernel, memory, .. } = kit(*board);
    let title = format!("{README}{name}");
    let head = format!("{title}\n{}\n\n{NEVER_TESTED}\n\n", "=".repeat(title.len()));
    if *board == Board::Virt {
        return format!(
            "{head}\
             Fathom starts it automatically:\n\n  fathom survey --on qemu:virt\n\n\
             By hand, with the protocol on the terminal (type: facts):\n\n  \
             qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512 -icount shift=0 -nic none \\\n    \
             -display none -monitor none -serial stdio -kernel kernel8.img\n\n\
             Its times are those of an emulator and are meaningless.\n"
        );
    }
    format!(
        "{head}\
         The card\n--------\n\
         One FAT partition, with {kernel} and config.txt from this directory, and the\n\
         firmware from https://github.com/raspberrypi/firmware, folder boot:\n\n  \
         {firmware}\n\n\
         Back up the card first: config.txt is replaced. gpu_mem may be\n\
         added to it, {memory}.\n\n\
         The wires\n---------\n\
         A USB serial adapter of 3.3 V (5 V destroys the board), on the 40-pin header:\n\n  \
         adapter GND to pin 6 (ground)\n  \
         adapter RX  to pin 8 (GPIO 14, TX of the board)\n  \
         adapter TX  to pin 10 (GPIO 15, RX of the board)\n\n\
         Leave the adapter's supply unconnected; the board has its own.\n\n\
         The line\n--------\n\
         {baud} baud, 8 bits, no parity, 1 stop bit, no flow control. If the port may not be\n\
         opened: sudo usermod -aG dialout $USER, then log in again.\n\n\
         Measuring\n---------\n  \
         fathom doctor --on serial:/dev/ttyUSB0@{baud}\n  \
         fathom survey --on serial:/dev/ttyUSB0@{baud} --record board.fathom\n\n\
         The order does not matter: a board that is already on is detected too.\n\n\
         By hand\n-------\n  \
         fathom serve serial /dev/ttyUSB0 --baud {baud}\n\n\
         and type: facts, or: trial bytes=8192. Without input for a few seconds after it is\n\
         switched on, the board measures memory through different attributes and prints\n\
         the result, for any terminal program.\n"
    )
}

/// Returns the summary for the terminal.
fn summary(options: &Options, files: &[(&str, Vec<u8>)]) -> String {
    let dir = shell(&options.output.display().to_string());
    let mut text = String::new();
    for (name, bytes) in files {
        let sum = if *name == kit(options.board).kernel {
            format!(", CRC-32 {:08x}", crc32fast::hash(bytes))
        } else {
            String::new()
        };
        text += &format!("{dir}/{name}: {} bytes{sum}\n", bytes.len());
    }
    text + &format!("{NEVER_TESTED}\nNext: {dir}/README.txt\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_name_speed_and_untested_boards() {
        for &board in Board::value_variants() {
            let options = Options { board, output: "x".into(), baud: 921_600, force: false };
            let page = readme(&options);
            assert!(page.starts_with(README) && page.contains("never run on hardware"), "{page}");
            assert!(page.lines().count() < 60 && page.lines().all(|l| l.chars().count() <= 112), "{page}");
            assert_eq!(page.contains("serial:/dev/ttyUSB0@921600"), board != Board::Virt, "{page}");
            assert!(config(&options).starts_with(CONFIG));
            assert!(config(&options).contains(&format!("kernel={}\n", kit(board).kernel)));
        }
    }
}
