//! `fathom --version --verbose`: what this program is, and what is inside.

use fathom_experiment::record;
use fathom_model::catalog;
use fathom_probe::wire;
use fathom_report::page::{Page, TextRole};
use fathom_report::{Style, schema};

use crate::build_id;
use crate::image::Image;

/// The version, as every program prints it.
pub const LINE: &str = concat!("fathom ", env!("CARGO_PKG_VERSION"), "\n");

/// Columns of the names.
const INDENT: usize = 10;

/// Returns the version and what this program contains, as lines of a name and its value.
pub fn verbose(style: &Style) -> String {
    let mut page = Page::new(*style);
    page.line(TextRole::Plain, LINE.trim_end());
    for (name, value) in contents() {
        let first = format!("{name:INDENT$}");
        page.text(TextRole::Plain, &value, &first, &" ".repeat(INDENT));
    }
    page.finish()
}

fn contents() -> Vec<(&'static str, String)> {
    let machines: Vec<&str> = catalog::names().collect();
    let tables: Vec<&str> = fathom_events::TABLES.iter().map(|table| table.name).collect();
    let mut contents = vec![
        ("revision", env!("FATHOM_REVISION").to_owned()),
        ("build", build_id::id()),
        ("target", env!("FATHOM_TARGET").to_owned()),
        ("features", features().join(", ")),
        ("wire", wire::VERSION.to_string()),
        ("record", record::VERSION.to_string()),
        ("findings", schema::VERSION.to_string()),
        ("machines", format!("{}: {}", machines.len(), machines.join(", "))),
        ("events", format!("{} tables: {}", tables.len(), tables.join(", "))),
    ];
    contents.extend(Image::ALL.map(|image| ("image", describe(image))));
    contents
}

/// Returns how this program was built, as far as it differs between builds.
fn features() -> Vec<&'static str> {
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamically linked" };
    let optimised = if env!("FATHOM_OPTIMISED") == "release" { "optimised" } else { "for development" };
    vec![linked, optimised]
}

/// Describes a bare-metal image: its size, or why this program has none.
fn describe(image: Image) -> String {
    match image.embedded() {
        Ok(bytes) => format!("{}, {} bytes", image.name(), bytes.len()),
        Err(failure) => format!("{}: {}", image.name(), failure.what),
    }
}
