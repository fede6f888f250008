//! Names of the data of a guest: variables of the kernel and of the program that is told apart, other memory by whose it is.

use fathom_simulation::Accessor;
use fathom_simulation::protocol::{GuestAnswer, Mapping};

use super::kernel::Kernel;
use crate::failure::print_message;
use crate::program::objects::{Datum, Objects, name_of};

/// What the kernel accesses at addresses of programs: which one's is not known.
const BY_KERNEL: &str = "user memory, accessed by the kernel";
/// What programs access that are not told apart, and code before the kernel has its addresses.
const OF_OTHERS: &str = "memory of other programs";

/// Finds the objects of a guest.
pub struct GuestData<'a> {
    kernel: &'a Kernel,
    /// Name of the program that is told apart, its variables, and what their addresses are moved by; no variables if that is not one
    /// distance.
    program: String,
    variables: Option<(Objects, u64)>,
}

impl GuestData<'_> {
    /// Creates it for a guest's program, whose file is mapped as it was linked. Tells if its variables are not named.
    pub fn new<'a>(kernel: &'a Kernel, guest: &GuestAnswer, mappings: &[Mapping]) -> GuestData<'a> {
        let program = mappings.first().map(|mapping| name_of(&mapping.file)).unwrap_or_default();
        let variables = match guest.moved.as_slice() {
            [distance] => Some((Objects::new(mappings, &program), *distance)),
            [] => None,
            _ => {
                print_message(&format!(
                    "--why: {program} was executed at several addresses: its variables are not named; link it with -static -no-pie"
                ));
                None
            }
        };
        GuestData { kernel, program, variables }
    }

    /// Returns where an address is that code of an accessor has accessed.
    pub fn find(&self, address: u64, by: Accessor) -> Datum {
        if let Some(found) = self.kernel.datum(address) {
            return found;
        }
        let whole = |object: &str| Datum { object: object.to_owned(), file: String::new(), offset: address };
        match by {
            Accessor::Kernel => whole(BY_KERNEL),
            Accessor::Others => whole(OF_OTHERS),
            Accessor::Program => {
                let of = self.variables.as_ref();
                let found = of.and_then(|(objects, moved)| objects.in_file(address.wrapping_sub(*moved)));
                found.unwrap_or_else(|| whole(&format!("other memory of {}", self.program)))
            }
        }
    }
}
