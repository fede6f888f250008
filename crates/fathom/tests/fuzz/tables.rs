//! The decoders of raw facts: identification registers, firmware tables, sysfs text.

use std::ops::ControlFlow;

use fathom_analysis::claims::{FactValue, Facts};

use crate::sane::sane;

/// Names of decoded facts; `#` stands for a digit from the input.
pub const NAMES: [&str; 28] = [
    "devicetree.blob",
    "acpi.pptt",
    "cpuid.0.0",
    "cpuid.1.0",
    "cpuid.2.0",
    "cpuid.4.#",
    "cpuid.18.#",
    "cpuid.40000000.0",
    "cpuid.80000000.0",
    "cpuid.80000005.0",
    "cpuid.80000006.0",
    "cpuid.80000019.0",
    "cpuid.8000001d.#",
    "arm.ctr_el0",
    "arm.ctr",
    "arm.clidr_el1",
    "arm.ccidx",
    "arm.ccsidr_el1.#.data",
    "arm.ccsidr_el1.#.instructions",
    "sysfs.cpu0.cache.index#.level",
    "sysfs.cpu0.cache.index#.type",
    "sysfs.cpu0.cache.index#.size",
    "sysfs.cpu0.cache.index#.ways_of_associativity",
    "sysfs.cpu0.cache.index#.number_of_sets",
    "sysfs.cpu0.cache.index#.coherency_line_size",
    "sysfs.cpu0.cache.index#.shared_cpu_list",
    "described.level.#.size",
    "described.level.#.holds",
];

/// Checks the decoders with any bytes. Each fact is `NAME DIGIT KIND LENGTH LENGTH VALUE`, one byte each except the
/// value; facts repeat until the bytes end.
pub fn run(data: &[u8]) {
    let mut list = Vec::new();
    let mut rest = data;
    while let ControlFlow::Continue((fact, after)) = one(rest) {
        list.push(fact);
        rest = after;
    }
    let bytes = data.len();
    let facts: Facts = list.into_iter().collect();
    let decoded = sane(&facts);
    // The number of claims and complaints is bounded by the size of the input.
    let lines = decoded.claims.len() + decoded.tlbs.len() + decoded.complaints.len();
    assert!(lines <= 64 + bytes, "{lines} of {bytes} bytes");
}

fn one(data: &[u8]) -> ControlFlow<(), ((String, FactValue), &[u8])> {
    let [name, digit, kind, low, high, rest @ ..] = data else { return ControlFlow::Break(()) };
    let name = NAMES[usize::from(*name) % NAMES.len()].replace('#', &(digit % 10).to_string());
    let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let (value, rest) = rest.split_at(length);
    let value = match kind % 3 {
        0 => FactValue::Bytes(value.to_vec()),
        1 => FactValue::Text(String::from_utf8_lossy(value).into_owned()),
        _ => {
            let mut number = [0; 8];
            number.iter_mut().zip(value).for_each(|(n, v)| *n = *v);
            FactValue::Int(u64::from_le_bytes(number))
        }
    };
    ControlFlow::Continue(((name, value), rest))
}
