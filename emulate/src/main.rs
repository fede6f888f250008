//! Executes Fathom's bare-metal image with Unicorn; the model of a description provides time.
//!
//! The image is identical to that of boards except for its parameters. Unicorn executes its instructions. Each access
//! goes to `fathom_model::Model` by its physical address, with the attribute of the guest's page tables. Reads of
//! counters return the model's time. See README.md.

mod a32;
mod a64;
mod block;
mod cpu;
mod guest;
mod translation;
mod uart;

use std::process::ExitCode;

use fathom_metal::board::Board;
use fathom_metal::parameters::{Parameters, code_bytes, memory_bytes};
use fathom_model::{Description, catalog};

use guest::{Core, Guest, MEMORY};

const USAGE: &str = "usage: fathom-emulate MACHINE --image FILE [--board pi3|pi4] [--seed N]

Executes Fathom's bare-metal image (written by `fathom image -o DIR`). A described machine provides the time of memory
accesses and the counters. MACHINE is a name of `fathom machines` or a description file. It talks to the harness on
stdin and stdout. `fathom survey --on image:MACHINE` starts it automatically.";

/// Command-line arguments.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    machine: String,
    image: String,
    board: Option<Board>,
    seed: u64,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut machine, mut image, mut board, mut seed) = (None, None, None, 1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--image" => image = Some(value()?),
            "--seed" => {
                let text = value()?;
                seed = text.parse().map_err(|_| format!("--seed {text}: not a number"))?;
            }
            "--board" => {
                board = Some(match value()?.as_str() {
                    "pi3" => Board::Pi3,
                    "pi4" => Board::Pi4,
                    other => return Err(format!("--board {other}: the boards are pi3 and pi4")),
                });
            }
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
            _ if machine.is_none() => machine = Some(argument),
            _ => return Err(format!("unexpected argument '{argument}': only one machine is possible")),
        }
    }
    let machine = machine.ok_or("MACHINE is missing")?;
    let image = image.ok_or("--image FILE is missing")?;
    Ok(Arguments { machine, image, board, seed })
}

fn description(machine: &str) -> Result<Description, String> {
    if let Some(found) = catalog::load(machine) {
        return found.map_err(|e| e.to_string());
    }
    let text = std::fs::read_to_string(machine)
        .map_err(|e| format!("{machine}: {e}; give a name of `fathom machines` or a description file"))?;
    Description::parse(machine, &text).map_err(|e| e.to_string())
}

/// Returns the board for an image: a Pi 4 for bcm2711 (Cortex-A72), otherwise a Pi 3; a Pi 2 for ARMv7, with the
/// Cortex-A15 of the image's `fathom_metal::board::Board::find`; a Pi 1 for ARMv6.
fn board_of(description: &Description, core: Core) -> Board {
    match core {
        Core::A64 if description.name == "bcm2711" => Board::Pi4,
        Core::A64 => Board::Pi3,
        Core::V7 => Board::Pi2,
        Core::V6 => Board::Pi1,
    }
}

/// Reads the image and sets the parameters for the clock of a description. It starts no survey on its own and no watchdog,
/// because there are no interrupts.
fn image(file: &str, description: &Description) -> Result<Vec<u8>, String> {
    let mut image = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let parameters = Parameters::of(&image).map_err(|why| format!("{file}: {why}"))?;
    let described_khz = (description.core.clock_hz / 1e3).round() as u32;
    let changed = Parameters { silence_ms: 0, watch_ms: 0, described_khz, ..parameters };
    changed.patch(&mut image)?;
    Ok(image)
}

fn run() -> Result<(), String> {
    let arguments = parse(std::env::args().skip(1)).map_err(|why| format!("{why}\n{USAGE}"))?;
    let description = description(&arguments.machine)?;
    if description.core.maintain.is_none() {
        return Err(format!(
            "{}: the image maintains caches, but the description has no `maintain` in [core]",
            arguments.machine
        ));
    }
    let image = image(&arguments.image, &description)?;
    let core = Core::of(&image).ok_or("the image has no header")?;
    if arguments.board.is_some() && core != Core::A64 {
        return Err("--board is for AArch64: an image for 32-bit ARM has one board".into());
    }
    let board = arguments.board.unwrap_or_else(|| board_of(&description, core));
    let code = code_bytes(&image).unwrap_or(0) as u64;
    let mut guest = Guest::new(&description, arguments.seed, (core, board), code);
    let fits = memory_bytes(&image).is_some_and(|bytes| core.loaded_at() + bytes <= MEMORY);
    guest.memory.load(core.loaded_at(), &image).filter(|()| fits).ok_or("the image does not fit")?;
    cpu::run(guest)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("fathom-emulate: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_parsed_and_wrong_ones_refused() {
        let plain = of("bcm2837 --image fathom.img").unwrap();
        assert_eq!((plain.machine.as_str(), plain.board, plain.seed), ("bcm2837", None, 1));
        let all = of("--seed 7 --board pi4 ./mine.toml --image x").unwrap();
        assert_eq!((all.board, all.seed), (Some(Board::Pi4), 7));
        for (line, says) in [
            ("--image x", "MACHINE is missing"),
            ("bcm2837", "--image FILE is missing"),
            ("a b --image x", "only one machine"),
            ("a --image x --board pi5", "pi3 and pi4"),
            ("a --image x --seed seven", "not a number"),
            ("a --image", "needs a value"),
            ("a --fast", "option --fast"),
        ] {
            assert!(of(line).unwrap_err().contains(says), "{line}");
        }
    }

    #[test]
    fn machines_are_found_by_name_and_have_their_board() {
        assert_eq!(board_of(&description("bcm2711").unwrap(), Core::A64), Board::Pi4);
        assert_eq!(board_of(&description("bcm2837").unwrap(), Core::A64), Board::Pi3);
        assert_eq!(board_of(&description("bcm2835").unwrap(), Core::V6), Board::Pi1);
        assert_eq!(board_of(&description("am5728").unwrap(), Core::V7), Board::Pi2);
        assert!(description("bcm2838").unwrap_err().contains("fathom machines"));
    }
}
