//! Checks that modules have no cyclic dependencies, except between a parent and its descendants.
//!
//! Parses the sources of each crate, follows each path to its module, also through re-exports, and searches the graph
//! of modules for cycles. Test modules are left out.

mod graph;
mod source;

use std::path::{Path, PathBuf};

use graph::Graph;
use source::Module;

/// Returns the sources of every crate of the workspace, by the crate's name.
fn crates() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directories = std::fs::read_dir(root).expect("crates/");
    let mut all: Vec<(String, PathBuf)> = directories
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("src").is_dir())
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path.join("src")))
        .collect();
    all.sort();
    all
}

/// Returns every module of a crate: of its library, or of its program if it has no library.
fn modules(source: &Path) -> Vec<Module> {
    let root = ["lib.rs", "main.rs"].iter().map(|name| source.join(name)).find(|path| path.is_file());
    source::read(&root.expect("lib.rs or main.rs"))
}

#[test]
fn modules_have_no_cyclic_dependencies() {
    let mut circles = Vec::new();
    let mut edges = 0;
    for (name, source) in crates() {
        let graph = Graph::of(&modules(&source));
        edges += graph.edges();
        circles.extend(graph.circles().into_iter().map(|circle| format!("{name}: {}", circle.join(" <-> "))));
    }
    assert!(edges > 200, "only {edges} uses were found: are the sources read?");
    assert!(circles.is_empty(), "modules that depend on each other:\n{}", circles.join("\n"));
}

/// Checks that the check can fail.
#[test]
fn cycle_through_a_re_export_is_found() {
    let module =
        |path: &[&str], text: &str| Module::parse(path.iter().map(|part| (*part).to_owned()).collect(), text);
    let all = [
        module(&[], "mod a; mod b; mod c; pub use b::B;"),
        module(&["a"], "use crate::B; pub struct A(B);"),
        module(&["b"], "pub struct B; pub fn f(_: crate::c::C) {}"),
        module(&["c"], "pub use crate::a::A; mod inner; pub struct C;"),
        module(&["c", "inner"], "use super::C;"),
    ];
    let circles = Graph::of(&all).circles();
    assert_eq!(circles, [["a", "b", "c"].map(str::to_owned).to_vec()]);
    // Parent and child do not form a cycle.
    let family = [module(&[], "mod a; use a::A;"), module(&["a"], "use super::f; pub struct A;")];
    assert!(Graph::of(&family).circles().is_empty());
}
