//! Modules depend on one another in one direction: a parent and its children may know each other, and nothing else may
//! form a circle.
//!
//! Each crate's sources are parsed, each path in them is followed to the module that it names, through re-exports, and
//! the graph of modules is searched for circles. Test modules are left out.

mod graph;
mod source;

use std::path::{Path, PathBuf};

use graph::Graph;
use source::Module;

/// The sources of every crate of the workspace, by the crate's name.
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

/// Every module of a crate: its library's, or its program's where it has no library.
fn modules(source: &Path) -> Vec<Module> {
    let root = ["lib.rs", "main.rs"].iter().map(|name| source.join(name)).find(|path| path.is_file());
    source::read(&root.expect("lib.rs or main.rs"))
}

#[test]
fn modules_form_no_circle_but_parent_and_child() {
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

/// The check itself must be able to fail.
#[test]
fn a_circle_is_found_through_a_re_export_too() {
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
    // Parent and child alone are none.
    let family = [module(&[], "mod a; use a::A;"), module(&["a"], "use super::f; pub struct A;")];
    assert!(Graph::of(&family).circles().is_empty());
}
