//! Modules as parsed from sources: the paths that they use, and the names that they import.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// A path from the crate's root.
pub type Names = Vec<String>;

/// A module of a crate.
pub struct Module {
    /// Path of the module; empty for the root.
    pub path: Names,
    /// Every used path inside of the crate, from the root.
    pub uses: Vec<Names>,
    /// Names that `use` brings into scope, each with its path.
    pub names: HashMap<String, Names>,
    /// Child modules in separate files: name, and the path of an attribute.
    children: Vec<(String, Option<String>)>,
}

impl Module {
    /// Parses a module's text.
    pub fn parse(path: Names, text: &str) -> Module {
        let file = syn::parse_file(text).unwrap_or_else(|e| panic!("{}: {e}", path.join("::")));
        let mut module = Module { path, uses: Vec::new(), names: HashMap::new(), children: Vec::new() };
        module.visit_file(&file);
        module
    }

    /// Returns a path from the root, if it begins inside of the crate.
    fn rooted(&self, parts: &[String]) -> Option<Names> {
        let mut base = self.path.clone();
        let mut rest = parts;
        match parts.first().map(String::as_str)? {
            "crate" => {
                base.clear();
                rest = &parts[1..];
            }
            "self" => rest = &parts[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first if self.children.iter().any(|(name, _)| name == first) => {}
            first => {
                let mut named = self.names.get(first)?.clone();
                named.extend_from_slice(&parts[1..]);
                return Some(named);
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn add_use_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use_tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.add_name(last, before);
            }
            syn::UseTree::Name(name) => self.add_name(name.ident.to_string(), &with(&name.ident)),
            syn::UseTree::Rename(rename) => self.add_name(rename.rename.to_string(), &with(&rename.ident)),
            syn::UseTree::Glob(_) => self.add_name(String::new(), before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use_tree(tree, before)),
        }
    }

    fn add_name(&mut self, name: String, parts: &[String]) {
        if let Some(path) = self.rooted(parts) {
            self.names.insert(name, path.clone());
            self.uses.push(path);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    })
}

impl<'a> Visit<'a> for Module {
    fn visit_file(&mut self, file: &'a syn::File) {
        // Names first: a path may precede the `use` that brings it into scope.
        for item in &file.items {
            if let syn::Item::Mod(module) = item
                && !is_for_tests(&module.attrs)
            {
                let path = module.attrs.iter().find(|a| a.path().is_ident("path")).and_then(literal);
                self.children.push((module.ident.to_string(), path));
            }
        }
        for item in &file.items {
            if let syn::Item::Use(item) = item
                && !is_for_tests(&item.attrs)
            {
                self.add_use_tree(&item.tree, &[]);
            }
        }
        file.items.iter().for_each(|item| self.visit_item(item));
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, _: &'a syn::ItemUse) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.uses.extend(self.rooted(&parts));
        syn::visit::visit_path(self, path);
    }
}

/// Returns the text of `name = "text"`.
fn literal(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    Some(text.value())
}

/// Returns the modules of the crate with this root file.
pub fn read(root: &Path) -> Vec<Module> {
    let mut all = Vec::new();
    let mut open: Vec<(Names, PathBuf, PathBuf)> =
        vec![(Vec::new(), root.to_owned(), root.parent().expect("a directory").to_owned())];
    while let Some((path, file, below)) = open.pop() {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let module = Module::parse(path, &text);
        for (name, named) in &module.children {
            let found = match named {
                Some(named) => file.parent().map(|directory| directory.join(named)),
                None => [below.join(format!("{name}.rs")), below.join(name).join("mod.rs")]
                    .into_iter()
                    .find(|path| path.is_file()),
            };
            // A module inside its parent's file is a part of the parent.
            let Some(found) = found else { continue };
            open.push(([&module.path[..], std::slice::from_ref(name)].concat(), found, below.join(name)));
        }
        all.push(module);
    }
    all
}
