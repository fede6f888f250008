//! `image:MACHINE`: executes the bare-metal image with the timing of a described machine. A separate program does it
//! (`emulate/`), because it is linked with Unicorn, whose licence is the GPL.

use std::path::PathBuf;
use std::process::Command;

use fathom_model::catalog;

use super::exec::exec_with;
use super::{Subject, config_dir, description};
use crate::failure::Failure;
use crate::image::Image;

/// Prefix of the name.
pub const PREFIX: &str = "image:";
/// Form of the name.
pub const FORM: &str = "image:MACHINE";
/// Name of the program.
const PROGRAM: &str = "fathom-emulate";
/// Environment variable with the program's file.
const VARIABLE: &str = "FATHOM_EMULATE";
/// Instruction for building it.
const BUILD: &str = "scripts/emulate builds it, in some minutes, and says where it is";

/// Returns the subject of this name; `machine` is the part after the prefix.
pub fn subject(name: &str, machine: &str) -> Result<Subject, Failure> {
    let described = description(machine)?;
    if described.core.maintain.is_none() {
        let what =
            format!("{name}: the image maintains caches, and '{machine}' does not say what that costs");
        return Err(Failure::usage(
            what,
            "describe it: `maintain` of [core]; bcm2837, bcm2711, bcm2835 and am5728 do",
        ));
    }
    program()?;
    let about = format!("the bare-metal image, executed on: {}", described.about);
    Ok(Subject {
        command: ["fathom", "serve", "image", machine].map(String::from).to_vec(),
        modelled: true,
        stays_open: true,
        needs_parent: true,
        ..Subject::named(name, about)
    })
}

/// Returns the program: named by the environment, in the directory of this program, or on the path.
fn program() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let missing = || Failure::usage(format!("{VARIABLE}={}: no such file", named.display()), BUILD);
        return if named.is_file() { Ok(named.clone()) } else { Err(missing()) };
    }
    let next_to_this = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = next_to_this.into_iter().chain(std::env::split_paths(&path));
    places.map(|dir| dir.join(PROGRAM)).find(|file| file.is_file()).ok_or_else(|| {
        let what = format!("{PROGRAM} was not found next to fathom, on PATH or through {VARIABLE}");
        Failure::new(what, BUILD)
    })
}

/// Returns the image for a machine. A description does not say what its core executes: those of 32-bit ARM are listed.
fn image_for(machine: &str) -> Image {
    match machine {
        "bcm2835" => Image::Armv6,
        "am5728" | "am5728-l2-off" | "omap3-sdio" => Image::Armv7,
        _ => Image::Aarch64,
    }
}

/// Returns the machine as an argument for that program, which knows built-in names and files, but not the user's
/// directory.
fn machine_of(machine: &str) -> Result<String, Failure> {
    description(machine)?;
    let is_file = machine.ends_with(".toml") || machine.contains('/');
    if is_file || catalog::text(machine).is_some() {
        return Ok(machine.to_owned());
    }
    let file = config_dir().unwrap_or_default().join("machines").join(format!("{machine}.toml"));
    Ok(file.display().to_string())
}

/// Replaces this process by the program.
pub fn serve(machine: &str, seed: u64, parent: Option<u32>) -> Result<(), Failure> {
    let image = image_for(&description(machine)?.name).embedded()?;
    let (program, machine) = (program()?, machine_of(machine)?);
    let emulate = |file: &str| {
        let mut emulate = Command::new(program);
        emulate.args([&machine, "--seed", &seed.to_string(), "--image", file]);
        emulate
    };
    Err(exec_with(image, parent, emulate, BUILD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_description_is_refused_with_the_key() {
        let wrong = subject("image:zen3", "zen3").unwrap_err();
        assert!(wrong.remedy.contains("`maintain` of [core]"), "{wrong}");
        assert!(subject("image:bcm2387", "bcm2387").unwrap_err().remedy.contains("bcm2837"));
        assert_eq!(machine_of("bcm2837").unwrap(), "bcm2837");
    }

    #[test]
    fn listed_machines_are_built_in_and_have_their_image() {
        for name in ["bcm2835", "am5728", "am5728-l2-off", "omap3-sdio"] {
            assert_ne!(image_for(&description(name).unwrap().name), Image::Aarch64, "{name}");
        }
        assert_eq!(image_for("bcm2837"), Image::Aarch64);
    }
}
