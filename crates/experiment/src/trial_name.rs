//! Name of a trial in refusals.

use fathom_probe::machine::Attribute;
use fathom_probe::pattern::Trial;
use fathom_units::size;

/// Returns the pattern, the size, the attribute unless it is write-back, and the number: `wake of 64 B (trial 5)`.
pub(crate) fn trial_name(trial: &Trial) -> String {
    let attribute = match trial.memory.attribute {
        Attribute::WriteBack => String::new(),
        other => format!(", {}", other.token()),
    };
    format!("{} of {}{attribute} (trial {})", trial.kind().token(), size(trial.memory.bytes as f64), trial.id)
}
