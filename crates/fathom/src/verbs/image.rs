//! `fathom image`: writes the files of an SD card that makes a board a subject, with one page of instructions.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use fathom_metal::parameters::Parameters;

use super::{Context, Verb};
use crate::cli::baud;
use crate::failure::{Exit, Failure};
use crate::image::embedded;
use crate::output::shell;
use crate::subjects;

/// Statement that the image was never tested on hardware.
const NEVER_TESTED: &str = "This image was never run on hardware; it was tested only under emulators.";
/// First bytes of the files written by `fathom image`, which may be overwritten.
const CONFIG: &str = "# Written by `fathom image`";
const README: &str = "Fathom on ";

/// Options of the image.
#[derive(Debug, Args)]
struct Image {
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
    /// Raspberry Pi 3.
    Pi3,
    /// Raspberry Pi 4.
    Pi4,
    /// QEMU's machine virt.
    Virt,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Image>(
        "image",
        "Writes the bare-metal image, the other files of its SD card, and a page of instructions",
        "Examples:
  fathom image --board pi3 -o card             kernel8.img, config.txt, README.txt
  fathom survey --on serial:/dev/ttyUSB0       the board, once it has booted
  fathom survey --on qemu:virt                 the same image, without a board

The image was never run on hardware. Exit status: 0 written, 1 failed, 2 wrong command line, or a file \
         exists that `fathom image` did not write",
        run,
    )
}

/// Name of a board, and the firmware files that it needs on the card.
struct Kit {
    name: &'static str,
    firmware: &'static str,
}

fn kit(board: Board) -> Kit {
    match board {
        // Raspberry Pi documentation, "Boot folder contents" and "GPIO and the 40-pin header".
        Board::Pi3 => Kit {
            name: "Raspberry Pi 3",
            firmware: "bootcode.bin, start.elf, fixup.dat, overlays/disable-bt.dtbo, and the board's\n  \
                       devicetree: bcm2710-rpi-3-b.dtb, for a 3B+ bcm2710-rpi-3-b-plus.dtb (the folder\n  \
                       has one for each board)",
        },
        Board::Pi4 => Kit {
            name: "Raspberry Pi 4",
            firmware: "start4.elf, fixup4.dat, overlays/disable-bt.dtbo, and the board's devicetree:\n  \
                       bcm2711-rpi-4-b.dtb, for a 400 bcm2711-rpi-400.dtb, for a CM4\n  \
                       bcm2711-rpi-cm4.dtb (the folder has one for each board)",
        },
        Board::Virt => Kit { name: "QEMU's machine virt", firmware: "" },
    }
}

/// Writes the files, and prints their names.
fn run(options: &Image, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let mut image = embedded()?.to_vec();
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

fn files(options: &Image, image: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![("kernel8.img", image)];
    if options.board != Board::Virt {
        files.push(("config.txt", config(options).into_bytes()));
    }
    files.push(("README.txt", readme(options).into_bytes()));
    files
}

/// Returns the firmware's configuration: only these keys (Raspberry Pi documentation, "config.txt").
fn config(options: &Image) -> String {
    format!(
        "{CONFIG} for the {}.\n\
         # 64 bits, and this kernel.\narm_64bit=1\nkernel=kernel8.img\n\
         # The serial port on GPIO 14 and 15, using the UART with its own clock.\n\
         enable_uart=1\ndtoverlay=disable-bt\n",
        kit(options.board).name
    )
}

fn readme(options: &Image) -> String {
    let Image { board, baud, .. } = options;
    let Kit { name, firmware } = kit(*board);
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
         One FAT partition, with kernel8.img and config.txt from this directory, and the\n\
         firmware from https://github.com/raspberrypi/firmware, folder boot:\n\n  \
         {firmware}\n\n\
         Back up the card first: config.txt is replaced. gpu_mem may be\n\
         added to it, 256 at most: what is measured is the second 128 MiB of memory.\n\n\
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
fn summary(options: &Image, files: &[(&str, Vec<u8>)]) -> String {
    let dir = shell(&options.output.display().to_string());
    let mut text = String::new();
    for (name, bytes) in files {
        let sum = match *name {
            "kernel8.img" => format!(", CRC-32 {:08x}", crc32fast::hash(bytes)),
            _ => String::new(),
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
        for board in [Board::Pi3, Board::Pi4, Board::Virt] {
            let options = Image { board, output: "x".into(), baud: 921_600, force: false };
            let page = readme(&options);
            assert!(page.starts_with(README) && page.contains("never run on hardware"), "{page}");
            assert!(page.lines().count() < 60 && page.lines().all(|l| l.chars().count() <= 112), "{page}");
            assert_eq!(page.contains("serial:/dev/ttyUSB0@921600"), board != Board::Virt, "{page}");
            assert!(config(&options).starts_with(CONFIG));
        }
    }
}
