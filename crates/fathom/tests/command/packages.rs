//! What packages need of the command: what it says is inside, and one list of programs in all that names them.

use std::path::Path;

use fathom_host::PROGRAMS;
use fathom_model::catalog;

use crate::common::User;

/// Returns a file of the repository.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn verbose_version_says_what_is_inside() {
    let user = User::new();
    let text = user.run(&["--version", "--verbose"]).ended(0).to_owned();
    let values = |name: &str| -> Vec<String> {
        // A value goes on in lines that begin with spaces.
        let joined = text.replace("\n          ", " ");
        let named = joined.lines().filter_map(|line| line.strip_prefix(&format!("{name} ")));
        named.map(|value| value.trim().to_owned()).collect()
    };
    assert_eq!(values("fathom"), [env!("CARGO_PKG_VERSION")]);
    for name in ["wire", "record", "findings"] {
        assert_eq!(values(name), ["1"], "{text}");
    }
    let machines: Vec<&str> = catalog::names().collect();
    assert_eq!(values("machines"), [format!("{}: {}", machines.len(), machines.join(", "))], "{text}");
    assert!(values("events")[0].contains("arm1176"), "{text}");
    for name in ["revision", "target", "features", "build"] {
        assert!(values(name).len() == 1 && !values(name)[0].is_empty(), "{name}: {text}");
    }
    let images = values("image");
    for (image, name) in images.iter().zip(["AArch64", "ARMv7", "ARMv6"]) {
        assert!(image.starts_with(name), "{text}");
        assert!(image.ends_with(" bytes") || image.contains("no bare-metal image"), "{text}");
    }
    assert_eq!(images.len(), 3, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    user.run(&["--verbose"]).failed(2, &["--version"]);
    assert_eq!(user.run(&["-V"]).ended(0), concat!("fathom ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn every_list_of_static_programs_has_the_same_names_and_targets() {
    let script = file("scripts/package");
    let container = file("packages/Containerfile");
    let manifest: toml::Table = file("crates/fathom/Cargo.toml").parse().expect("TOML");
    let overrides = manifest["package"]["metadata"]["binstall"]["overrides"].as_table().expect("a table");
    for program in PROGRAMS {
        let (name, target) = (program.uname, program.target);
        let row =
            |line: &str| line.trim_start_matches("programs=\"").starts_with(&format!("{name} {target} "));
        assert_eq!(script.lines().filter(|line| row(line)).count(), 1, "scripts/package: {name} {target}");
        assert!(container.contains(&format!("COPY fathom-{name} /fathom\n")), "Containerfile: {name}");
        let url = overrides[target]["pkg-url"].as_str().expect("a string");
        assert_eq!(url, format!("{{ repo }}/releases/download/v{{ version }}/fathom-{name}"));
    }
    // Names for other C libraries of a processor lead to one of these files.
    for (target, entry) in overrides {
        let url = entry["pkg-url"].as_str().expect("a string");
        let (_, named) = url.rsplit_once("/fathom-").expect("a program");
        let program = PROGRAMS.iter().find(|program| program.uname == named).expect("a program");
        assert_eq!(target.split('-').next(), program.target.split('-').next(), "{target}: {url}");
    }
    assert_eq!(container.matches("\nCOPY ").count(), PROGRAMS.len());
}
