//! `qemu:MACHINE`: the bare-metal image under QEMU. It shows that the image works; its times are meaningless.

use std::process::Command;

use fathom_metal::parameters::Parameters;
use fathom_model::description::nearest;

use super::Subject;
use super::exec::exec_with;
use crate::failure::Failure;
use crate::image::Image;

/// Prefix of the name.
pub const PREFIX: &str = "qemu:";
const INSTALL: &str = "sudo apt-get install qemu-system-arm";

/// A QEMU machine that an image supports: name, description, QEMU's program and its options.
struct Emulated {
    name: &'static str,
    about: &'static str,
    image: Image,
    options: &'static [&'static str],
}

/// `virt` has no default CPU: that of the Pi 3 is used. The image's arena is the second half of 512 MiB (crate::image) on
/// `virt` and `vexpress-a15`, whose sound is not wanted.
const MACHINES: [Emulated; 4] = [
    Emulated {
        name: "raspi3b",
        about: "Raspberry Pi 3, emulated: shows that the image works; times are meaningless",
        image: Image::Aarch64,
        options: &["-M", "raspi3b"],
    },
    Emulated {
        name: "virt",
        about: "QEMU's own machine with a Cortex-A53, emulated: the same",
        image: Image::Aarch64,
        options: &["-M", "virt", "-cpu", "cortex-a53", "-m", "512"],
    },
    Emulated {
        name: "raspi0",
        about: "Raspberry Pi Zero with the ARMv6 image, emulated: the same",
        image: Image::Armv6,
        options: &["-M", "raspi0"],
    },
    Emulated {
        name: "vexpress-a15",
        about: "Versatile Express with a Cortex-A15 and the ARMv7 image, emulated: the same",
        image: Image::Armv7,
        options: &[
            "-M",
            "vexpress-a15",
            "-m",
            "512",
            "-audiodev",
            "none,id=none",
            "-global",
            "pl041.audiodev=none",
        ],
    },
];

impl Emulated {
    /// Returns the name of QEMU's program for its processor.
    fn program(&self) -> &'static str {
        match self.image {
            Image::Aarch64 => "qemu-system-aarch64",
            Image::Armv7 | Image::Armv6 => "qemu-system-arm",
        }
    }
}

/// Options of every machine. Counters follow the instructions executed, one per nanosecond, and not the host's time, so
/// results are reproducible. Nothing is shared with the user: no configuration, network, disk or monitor; the first
/// serial port is the stream.
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

/// Returns the subjects for the list.
pub fn all() -> Vec<Subject> {
    MACHINES.iter().map(|m| named(&format!("{PREFIX}{}", m.name), m)).collect()
}

fn named(name: &str, machine: &Emulated) -> Subject {
    Subject {
        command: ["fathom", "serve", "qemu", machine.name].map(String::from).to_vec(),
        lossy: true,
        stays_open: true,
        needs_parent: true,
        ..Subject::named(name, machine.about.to_owned())
    }
}

/// Returns the subject of this name; `rest` is the part after the prefix.
pub fn subject(name: &str, rest: &str) -> Result<Subject, Failure> {
    let machine = find(rest)?;
    let program = machine.program();
    let installed = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    if !installed {
        return Err(Failure::new(format!("{name}: {program} is not installed"), INSTALL));
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
        Failure::usage(format!("the image does not support QEMU's machine '{name}'"), remedy)
    })
}

/// Returns the image without its automatic output for humans, which is not read here.
fn bytes(image: Image) -> Result<Vec<u8>, Failure> {
    let mut image = image.embedded()?.to_vec();
    let set = Parameters::of(&image).and_then(|p| Parameters { silence_ms: 0, ..p }.patch(&mut image));
    set.map_err(|why| Failure::new(why, "build fathom again"))?;
    Ok(image)
}

/// Replaces this process by QEMU.
pub fn serve(name: &str, parent: Option<u32>) -> Result<(), Failure> {
    let machine = find(name)?;
    let qemu = |file: &str| {
        let mut qemu = Command::new(machine.program());
        qemu.args(machine.options).args(OPTIONS).args(["-kernel", file]);
        qemu
    };
    Err(exec_with(&bytes(machine.image)?, parent, qemu, INSTALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_qemu_machine_is_refused_with_the_known_ones() {
        let wrong = find("rapsi3b").err().expect("a mistake");
        assert!(wrong.remedy.contains("did you mean qemu:raspi3b?"), "{wrong}");
        let wrong = find("sabrelite").err().expect("no board of ours");
        let list = "there are: qemu:raspi3b, qemu:virt, qemu:raspi0, qemu:vexpress-a15";
        assert!(wrong.remedy.contains(list), "{wrong}");
        assert!(OPTIONS.contains(&"-icount"));
    }
}
