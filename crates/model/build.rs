//! Generates the list of `machines/*.toml` for the catalog, so that adding a file adds a machine.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo names the manifest's folder");
    let folder = Path::new(&here).join("../../machines");
    // The folder is watched for new and removed files. `include_str!` watches the contents of each file.
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_string))
        .collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in &names {
        let path = folder.join(format!("{name}.toml"));
        writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("a String");
    }
    list.push_str("]\n");
    let out = env::var("OUT_DIR").expect("cargo names the output folder");
    fs::write(Path::new(&out).join("machines.rs"), list).expect("the output folder can be written");
}
