//! `qemu:MACHINE`: the bare-metal image under QEMU. It proves that the image works, and never how fast anything is.

use std::process::Command;

use fathom_metal::parameters::Parameters;
use fathom_model::description::nearest;

use super::Subject;
use super::exec::exec_with;
use crate::failure::Failure;
use crate::image::embedded;

/// What the name begins with.
pub const PREFIX: &str = "qemu:";
/// The program.
const PROGRAM: &str = "qemu-system-aarch64";
const INSTALL: &str = "sudo apt-get install qemu-system-arm";

/// A machine of QEMU's that the image knows: its name, what it is, and QEMU's options.
struct Emulated {
    name: &'static str,
    about: &'static str,
    options: &'static [&'static str],
}

/// `virt` has no CPU of its own: the Pi 3's. The image's arena is the second half of 512 MiB (crate::image).
const MACHINES: [Emulated; 2] = [
    Emulated {
        name: "raspi3b",
        about: "Raspberry Pi 3, emulated: shows that the image works, never how fast it is",
        options: &["-M", "raspi3b"],
    },
    Emulated {
        name: "virt",
        about: "QEMU's own machine with a Cortex-A53, emulated: the same",
        options: &["-M", "virt", "-cpu", "cortex-a53", "-m", "512"],
    },
];

/// What every machine gets. Counters follow the instructions executed, one a nanosecond, and not the host's time:
/// so the same image counts the same. Nothing of the user's is shared: no configuration, no network, no disk, no
/// monitor; the first serial port is the stream.
const OPTIONS: [&str; 12] = [
    "-icount",
    "shift=0,sleep=off",
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-monitor",
    "none",
    "-nic",
    "none",
    "-serial",
    "stdio",
];

/// The subjects, for the list.
pub fn all() -> Vec<Subject> {
    MACHINES.iter().map(|m| named(&format!("{PREFIX}{}", m.name), m)).collect()
}

fn named(name: &str, machine: &Emulated) -> Subject {
    Subject {
        command: ["fathom", "serve", "qemu", machine.name].map(String::from).to_vec(),
        lossy: true,
        stays: true,
        attended: true,
        ..Subject::named(name, machine.about.to_owned())
    }
}

/// The subject of this name, behind its prefix.
pub fn subject(name: &str, rest: &str) -> Result<Subject, Failure> {
    let machine = find(rest)?;
    let there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(PROGRAM).is_file()));
    if !there {
        return Err(Failure::new(format!("{name}: there is no {PROGRAM} here"), INSTALL));
    }
    Ok(named(name, machine))
}

fn find(name: &str) -> Result<&'static Emulated, Failure> {
    MACHINES.iter().find(|m| m.name == name).ok_or_else(|| {
        let known = || MACHINES.iter().map(|m| m.name);
        let list = known().map(|name| format!("{PREFIX}{name}")).collect::<Vec<_>>().join(", ");
        let remedy = match nearest(name, known()) {
            Some(near) => format!("did you mean {PREFIX}{near}? There are: {list}"),
            None => format!("there are: {list}"),
        };
        Failure::usage(format!("the image knows no machine '{name}' of QEMU's"), remedy)
    })
}

/// The image, which here is to do nothing by itself: nobody looks at what it says to humans.
fn image() -> Result<Vec<u8>, Failure> {
    let mut image = embedded()?.to_vec();
    let set = Parameters::of(&image).and_then(|p| Parameters { silence_ms: 0, ..p }.patch(&mut image));
    set.map_err(|why| Failure::new(why, "build fathom again"))?;
    Ok(image)
}

/// Becomes QEMU.
pub fn serve(name: &str, parent: Option<u32>) -> Result<(), Failure> {
    let machine = find(name)?;
    let qemu = |file: &str| {
        let mut qemu = Command::new(PROGRAM);
        qemu.args(machine.options).args(OPTIONS).args(["-kernel", file]);
        qemu
    };
    Err(exec_with(&image()?, parent, qemu, INSTALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_qemu_machine_is_refused_with_the_known_ones() {
        let wrong = find("rapsi3b").err().expect("a mistake");
        assert!(wrong.remedy.contains("did you mean qemu:raspi3b?"), "{wrong}");
        let wrong = find("vexpress").err().expect("no board of ours");
        assert!(wrong.remedy.contains("there are: qemu:raspi3b, qemu:virt"), "{wrong}");
        assert!(OPTIONS.contains(&"-icount"));
    }
}
