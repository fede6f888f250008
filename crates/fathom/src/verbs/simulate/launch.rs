//! Starts QEMU with the plugin.

use std::ffi::{OsStr, OsString};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_simulation::protocol::{PRELOADED, Request};

use super::conversation::{Asked, Ran, Running};
use super::program::Program;
use crate::child::left;
use crate::failure::Failure;
use crate::measure::stop::Stop;

/// Name of the plugin.
const PLUGIN: &str = "libfathom_plugin.so";
/// Environment variable with the plugin's file.
const VARIABLE: &str = "FATHOM_PLUGIN";
/// The dynamic linker's variable.
const LD_PRELOAD: &str = "LD_PRELOAD";
/// Instruction for building it.
const BUILD: &str = "scripts/simulate builds it, in two minutes, and puts it next to fathom";

/// What to run.
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its name and arguments, as typed.
    pub command: &'a [OsString],
    /// QEMU's CPU, if not the default.
    pub cpu: Option<&'a str>,
    /// What is asked of the plugin.
    pub request: Request,
    /// Whether the program's stdout is sent to stderr.
    pub divert: bool,
    /// Whether progress is shown.
    pub quiet: bool,
}

/// Returns the plugin: named by the environment, or in the directory of this program.
pub fn plugin() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let missing = || Failure::usage(format!("{VARIABLE}={}: no such file", named.display()), BUILD);
        return if named.is_file() { Ok(named.clone()) } else { Err(missing()) };
    }
    let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PLUGIN)));
    own.filter(|file| file.is_file()).ok_or_else(|| {
        let what = format!(
            "{PLUGIN}, which QEMU needs for simulations, was not found next to fathom or through {VARIABLE}"
        );
        Failure::new(what, BUILD)
    })
}

impl Launch<'_> {
    /// Runs the program to its end, or until a signal.
    ///
    /// # Errors
    /// The plugin refuses, QEMU does not start, or no counts came back; with the remedy.
    pub fn run(&self) -> Result<Ran, Failure> {
        let asked = Asked {
            request: &self.request,
            qemu: self.program.isa.qemu,
            program: Some(&self.program.path),
            quiet: self.quiet,
        };
        start(&asked, &self.program.qemu, self.divert, |qemu, plugin, directory| {
            if let Some(root) = &self.program.sysroot {
                qemu.arg("-L").arg(root);
            }
            if let Some(cpu) = self.cpu.or(self.program.isa.cpu) {
                qemu.args(["-cpu", cpu]);
            }
            qemu.arg("-0").arg(&self.command[0]).arg(&self.program.path).args(&self.command[1..]);
            preload(qemu, plugin, directory);
        })
    }
}

/// Starts an emulator with the plugin, and runs it to its end or until a signal. `arguments` adds to its command line; it gets the
/// plugin and a directory for the time of the run.
///
/// # Errors
/// As [`Launch::run`].
pub fn start(
    asked: &Asked,
    emulator: &Path,
    divert: bool,
    arguments: impl FnOnce(&mut Command, &Path, &Path),
) -> Result<Ran, Failure> {
    let plugin = plugin()?;
    let stop = Stop::listen()?;
    let failed = |e: std::io::Error| {
        Failure::new(
            format!("cannot listen for the plugin: {e}"),
            "set TMPDIR to a directory that can be written",
        )
    };
    let directory = tempfile::tempdir().map_err(failed)?;
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    left::adopt();
    let mut qemu = Command::new(emulator);
    qemu.arg("-plugin").arg(plugin_option(&plugin, &socket));
    arguments(&mut qemu, &plugin, directory.path());
    if divert {
        qemu.stdout(stderr().map_err(failed)?);
    }
    let child = qemu.spawn().map_err(|e| {
        let what = format!("cannot start {}: {e}", emulator.display());
        Failure::new(what, "install QEMU: Debian's packages are qemu-user and, for guests, qemu-system-arm")
    })?;
    Running::new(child, stop).converse(asked, listener)
}

/// Has the plugin loaded before QEMU's libraries, so that it notices the program's end by a signal.
fn preload(qemu: &mut Command, plugin: &Path, directory: &Path) {
    let before = std::env::var_os(LD_PRELOAD).unwrap_or_default();
    // A path with a separator is given another name; without one, such an end has no counts.
    let link = directory.join(PLUGIN);
    let value = preloading(plugin, &before).or_else(|| {
        std::os::unix::fs::symlink(plugin.canonicalize().ok()?, &link).ok()?;
        preloading(&link, &before)
    });
    if let Some(value) = value {
        qemu.env(LD_PRELOAD, value).env(PRELOADED, before);
    }
}

/// Returns the value of LD_PRELOAD that has the plugin before `before`; `None` if its path cannot be written there.
fn preloading(plugin: &Path, before: &OsStr) -> Option<OsString> {
    let separators = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let possible = !plugin.as_os_str().as_encoded_bytes().iter().any(separators);
    let mut value = plugin.as_os_str().to_owned();
    if !before.is_empty() {
        value.push(":");
        value.push(before);
    }
    possible.then_some(value)
}

/// Returns QEMU's option. It takes a comma for the end of a value, and two for one.
fn plugin_option(plugin: &Path, socket: &Path) -> String {
    let [plugin, socket] = [plugin, socket].map(|path| path.display().to_string().replace(',', ",,"));
    format!("file={plugin},socket={socket}")
}

/// Returns a copy of stderr.
fn stderr() -> std::io::Result<Stdio> {
    use std::os::fd::AsFd as _;
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}
