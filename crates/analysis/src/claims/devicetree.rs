//! Claims of the flattened devicetree: cache properties of the boot CPU and of the nodes that its `next-level-cache`
//! chain reaches.
//!
//! Source: Devicetree Specification v0.4, 3.8 (cpus), 3.9 (multi-level caches) and chapter 5 (the flattened format).
//! Read by hand: the maintained library (dtoolkit) refuses a whole tree for one name of more than 31 letters, which
//! overlays and symbols have, and panics on trees that it did not check.

use std::collections::BTreeMap;

use super::{Claim, Decoded, Facts, Holds, Source, TlbClaim};

const FACT: &str = "devicetree.blob";
/// Maximum depth of nodes; deeper trees are refused. Real ones have about ten levels.
const MAX_DEPTH: usize = 64;
/// Maximum number of relevant properties per node; real CPU nodes have about ten. With this limit and the map of
/// phandles, reading takes time linear in the blob.
const MAX_PROPERTIES: usize = 64;

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    let Some(blob) = facts.bytes(FACT, &mut out.complaints) else { return };
    match Tree::read(blob) {
        Ok(tree) => walk(&tree, out),
        Err(why) => out.complain(FACT, why),
    }
}

/// A node and its relevant properties.
#[derive(Default)]
struct Node<'a> {
    name: &'a str,
    parent: usize,
    properties: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Node<'a> {
    fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns a property of one cell, or of two cells that form one number.
    fn cell(&self, name: &str) -> Option<Result<u64, String>> {
        let value = self.get(name)?;
        Some(match value.len() {
            4 | 8 => Ok(value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))),
            bytes => Err(format!("{name} has {bytes} bytes and not one cell")),
        })
    }
}

struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    /// Nodes by phandle.
    handles: BTreeMap<u32, usize>,
    boot_cpu: u32,
}

fn word(blob: &[u8], offset: usize) -> Option<u32> {
    let bytes = blob.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

fn string(block: &[u8], offset: usize) -> Option<&str> {
    let rest = block.get(offset..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Returns name and value of the property whose length is at offset `at`.
fn property<'a>(blob: &'a [u8], strings: &'a [u8], at: usize) -> Result<(&'a str, &'a [u8]), String> {
    let (Some(length), Some(name)) = (word(blob, at), word(blob, at + 4)) else {
        return Err(format!("ends at {at} inside a property"));
    };
    let value = blob
        .get(at + 8..)
        .and_then(|rest| rest.get(..length as usize))
        .ok_or_else(|| format!("has a property at {at} of {length} bytes that leaves it"))?;
    let name =
        string(strings, name as usize).ok_or_else(|| format!("has an unreadable property name at {at}"))?;
    Ok((name, value))
}

/// Returns whether this module reads the property. All others are skipped, to limit memory for large trees.
fn is_relevant(name: &str) -> bool {
    name.contains("cache")
        || name.contains("tlb-")
        || matches!(name, "phandle" | "linux,phandle" | "device_type" | "reg" | "compatible")
}

/// Maps phandles to nodes; reads the current and the older property name.
fn handles(nodes: &[Node]) -> BTreeMap<u32, usize> {
    let handle =
        |node: &Node| node.get("phandle").or(node.get("linux,phandle")).and_then(|value| word(value, 0));
    nodes.iter().enumerate().filter_map(|(index, node)| Some((handle(node)?, index))).collect()
}

/// Returns whether the root node is compatible with `what`; false if the blob cannot be read.
pub(super) fn compatible(blob: &[u8], what: &str) -> bool {
    let root = |tree: Tree| {
        let value = tree.nodes.first()?.get("compatible")?;
        Some(value.split(|byte| *byte == 0).any(|name| name == what.as_bytes()))
    };
    Tree::read(blob).ok().and_then(root).unwrap_or(false)
}

impl<'a> Tree<'a> {
    /// Reads the structure block in one pass. Allocations are bounded by the blob size: each node and each property
    /// takes at least twelve bytes there.
    fn read(blob: &'a [u8]) -> Result<Tree<'a>, String> {
        const MAGIC: u32 = 0xd00d_feed;
        let header = |index: usize| word(blob, 4 * index).ok_or("is shorter than its header");
        if header(0)? != MAGIC {
            return Err(format!("begins with {:#010x} and not with the magic {MAGIC:#010x}", header(0)?));
        }
        let total = header(1)? as usize;
        let blob = blob
            .get(..total)
            .ok_or_else(|| format!("is truncated: its header gives {total} bytes, it has {}", blob.len()))?;
        let (version, compatible) = (header(5)?, header(6)?);
        if version < 16 || compatible > 17 {
            return Err(format!("has version {version} (compatible with {compatible}); 16 and 17 are known"));
        }
        let boot_cpu = header(7)?;
        let strings = blob.get(header(3)? as usize..).ok_or("has a strings block beyond its end")?;
        let mut at = header(2)? as usize;
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        loop {
            let token = word(blob, at).ok_or_else(|| format!("ends at {at} inside its structure"))?;
            at += 4;
            match token {
                1 => {
                    let name =
                        string(blob, at).ok_or_else(|| format!("has an unreadable node name at {at}"))?;
                    at = (at + name.len() + 1).next_multiple_of(4);
                    let Some(&parent) = open.last().or(nodes.is_empty().then_some(&0)) else {
                        return Err(format!("has a second root at {at}"));
                    };
                    if open.len() == MAX_DEPTH {
                        return Err(format!("is deeper than {MAX_DEPTH} nodes at {at}"));
                    }
                    open.push(nodes.len());
                    nodes.push(Node { name, parent, properties: Vec::new() });
                }
                2 => drop(open.pop().ok_or_else(|| format!("closes a node at {at} that was not opened"))?),
                3 => {
                    let (name, value) = property(blob, strings, at)?;
                    let node =
                        open.last().ok_or_else(|| format!("has a property at {at} outside of a node"))?;
                    let properties = &mut nodes[*node].properties;
                    if is_relevant(name) && properties.len() == MAX_PROPERTIES {
                        return Err(format!(
                            "has a node with over {MAX_PROPERTIES} cache properties at {at}"
                        ));
                    }
                    if is_relevant(name) {
                        properties.push((name, value));
                    }
                    at = (at + 8 + value.len()).next_multiple_of(4);
                }
                4 => {}
                9 if open.is_empty() => return Ok(Tree { handles: handles(&nodes), nodes, boot_cpu }),
                9 => return Err(format!("ends at {at} with {} nodes open", open.len())),
                other => return Err(format!("has an unknown token {other:#x} at {}", at - 4)),
            }
        }
    }

    fn path(&self, mut index: usize) -> String {
        let mut path = String::new();
        while index != 0 {
            path.insert_str(0, self.nodes[index].name);
            path.insert(0, '/');
            index = self.nodes[index].parent;
        }
        path
    }

    /// Returns the CPU nodes: children of `/cpus` with device type "cpu", or with that name in newer trees.
    fn cpus(&self) -> Vec<usize> {
        let is_cpus = |node: &Node| node.parent == 0 && node.name == "cpus";
        (1..self.nodes.len())
            .filter(|index| {
                let node = &self.nodes[*index];
                node.parent != 0
                    && is_cpus(&self.nodes[node.parent])
                    && (node.get("device_type") == Some(b"cpu\0")
                        || node.name.split('@').next() == Some("cpu"))
            })
            .collect()
    }

    /// Returns the node that the property refers to by phandle; `l2-cache` is the older name.
    fn next(&self, index: usize) -> Option<Result<usize, String>> {
        let node = &self.nodes[index];
        let link = ["next-level-cache", "l2-cache"].into_iter().find(|name| node.get(name).is_some())?;
        let handle = node.get(link).and_then(|value| word(value, 0));
        let found = handle.and_then(|handle| self.handles.get(&handle).copied());
        Some(found.ok_or_else(|| format!("{link} names no node")))
    }

    /// Returns the nodes from a CPU outwards, the CPU first; errors in the chain go to `sink`.
    fn chain(&self, cpu: usize, mut sink: impl FnMut(usize, String)) -> Vec<usize> {
        let mut chain = vec![cpu];
        let mut at = cpu;
        while let Some(next) = self.next(at) {
            match next {
                Ok(next) if chain.contains(&next) => {
                    sink(at, "next-level-cache forms a cycle".to_owned());
                    break;
                }
                Ok(_) if chain.len() == 8 => {
                    sink(at, "has more than seven levels beyond it".to_owned());
                    break;
                }
                Ok(next) => {
                    chain.push(next);
                    at = next;
                }
                Err(why) => {
                    sink(at, why);
                    break;
                }
            }
        }
        chain
    }
}

fn walk(tree: &Tree, out: &mut Decoded) {
    let cpus = tree.cpus();
    // A tree without CPUs is an overlay or a fragment and makes no claims.
    let boots = |cpu: &&usize| matches!(tree.nodes[**cpu].cell("reg"), Some(Ok(reg)) if reg == u64::from(tree.boot_cpu));
    let Some(&cpu) = cpus.iter().find(boots).or(cpus.first()) else {
        out.complain(FACT, "has no CPU under /cpus");
        return;
    };
    let mut level = 0u8;
    let chain = tree.chain(cpu, |at, why| out.complain(FACT, format_args!("{}: {why}", tree.path(at))));
    let others: Vec<Vec<usize>> = cpus.iter().map(|cpu| tree.chain(*cpu, |_, _| {})).collect();
    for index in chain {
        level += 1;
        let node = &tree.nodes[index];
        if let Some(reported) = number(tree, index, "cache-level", out)
            && reported != u64::from(level)
        {
            let path = tree.path(index);
            out.complain(
                FACT,
                format_args!("{path}: cache-level is {reported}, yet it is reached as level {level}"),
            );
            match u8::try_from(reported) {
                Ok(reported @ 1..=7) => level = reported,
                _ => continue,
            }
        }
        let sharers = others.iter().filter(|chain| chain.contains(&index)).count();
        let split = ["d-cache-size", "i-cache-size", "d-cache-sets", "i-cache-sets"];
        let unified = node.get("cache-unified").is_some()
            || index != cpu && !split.into_iter().any(|name| node.get(name).is_some());
        let kinds: &[(Holds, &[&str])] = if unified {
            &[(Holds::Unified, &["", "d-"])]
        } else {
            &[(Holds::Data, &["d-"]), (Holds::Instructions, &["i-"])]
        };
        for (holds, prefixes) in kinds {
            one_cache(tree, index, level, *holds, prefixes, sharers, out);
        }
        if index == cpu {
            tlbs(tree, index, out);
        }
    }
}

fn one_cache(
    tree: &Tree,
    index: usize,
    level: u8,
    holds: Holds,
    prefixes: &[&str],
    sharers: usize,
    out: &mut Decoded,
) {
    let mut first = |names: &[&str]| {
        prefixes
            .iter()
            .flat_map(|prefix| names.iter().map(move |name| format!("{prefix}{name}")))
            .find_map(|name| number(tree, index, &name, out).filter(|value| *value != 0))
    };
    let mut claim = Claim::new(Source::Devicetree, level, holds);
    claim.size = first(&["cache-size"]);
    claim.line = first(&["cache-line-size", "cache-block-size"]);
    claim.sets = first(&["cache-sets"]);
    let nothing = claim.size.or(claim.line).or(claim.sets).is_none();
    // A split side without properties is not a claim; the existence of a level node is one.
    if nothing && holds != Holds::Unified {
        return;
    }
    // The specification has no ways property; a cache of one set is fully associative.
    claim.fully_associative = claim.sets == Some(1);
    claim.shared_by = u32::try_from(sharers).ok();
    let fact = format!("{FACT}: {}", tree.path(index));
    out.claim(&fact, claim);
}

fn number(tree: &Tree, index: usize, name: &str, out: &mut Decoded) -> Option<u64> {
    match tree.nodes[index].cell(name)? {
        Ok(number) => Some(number),
        Err(why) => {
            out.complain(FACT, format_args!("{}: {why}", tree.path(index)));
            None
        }
    }
}

/// Reads the TLBs of the CPU node: `tlb-size`, or `d-tlb-size` and `i-tlb-size`, in entries.
fn tlbs(tree: &Tree, index: usize, out: &mut Decoded) {
    for (holds, prefix) in [(Holds::Unified, ""), (Holds::Data, "d-"), (Holds::Instructions, "i-")] {
        let size = number(tree, index, &format!("{prefix}tlb-size"), out);
        let Some(entries) = size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size != 0) else {
            continue;
        };
        let sets = number(tree, index, &format!("{prefix}tlb-sets"), out);
        let ways = sets
            .and_then(|sets| u32::try_from(sets).ok())
            .filter(|sets| *sets != 0 && entries.is_multiple_of(*sets))
            .map(|sets| entries / sets);
        out.tlbs.push(TlbClaim {
            source: Source::Devicetree,
            level: 1,
            holds,
            page_bytes: Vec::new(),
            entries,
            ways,
            fully_associative: sets == Some(1),
        });
    }
}
