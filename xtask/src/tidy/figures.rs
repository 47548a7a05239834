//! Figures to compare the code before and after a change of its structure.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::input::Input;
use super::{cycles, imports, lengths, names, recipes, registry, unused};
use crate::say;

/// Counts without ceilings, by the same definitions as the checks.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// Arms of the files that have more than 40 over one enum, and those files with their enums.
    registry_arms: usize,
    registries: BTreeMap<String, usize>,
    /// Members of the largest module cycle of a crate.
    cycles: BTreeMap<String, usize>,
    engine_public_methods: usize,
    engine_methods: usize,
    store_imports_in_surfaces: usize,
    files_per_recipe: BTreeMap<String, usize>,
    /// Lines of product files, without test modules.
    product_lines: BTreeMap<String, usize>,
    product_lines_in_all: usize,
    type_names: usize,
    repeated_type_names: usize,
    functions: usize,
    participle_functions: usize,
    files_over_500_lines: usize,
    functions_over_70_lines: usize,
}

impl Figures {
    pub(crate) fn count(input: &Input) -> Self {
        let found = registry::registries(input);
        let mut product_lines: BTreeMap<String, usize> = BTreeMap::new();
        for file in input.tree.product() {
            *product_lines.entry(file.package.clone()).or_default() += lengths::own_lines(file);
        }
        let types = names::repeated_types(input);
        let mut repeated: Vec<&str> = types.places.iter().map(|place| place.item.as_str()).collect();
        repeated.sort_unstable();
        repeated.dedup();
        let participles = names::participles(input);
        Self {
            registry_arms: found.iter().map(|(.., arms)| arms).sum(),
            registries: found.iter().map(|(file, of, arms)| (format!("{} {of}", file.path), *arms)).collect(),
            cycles: product_lines
                .keys()
                .map(|name| (name.clone(), cycles::largest(input, name).places.len()))
                .collect(),
            engine_public_methods: unused::engine_methods(input).places.len(),
            engine_methods: unused::methods(input, |_| true).len(),
            store_imports_in_surfaces: imports::store_in_surfaces(input).places.len(),
            files_per_recipe: input
                .witnesses
                .keys()
                .map(|recipe| (recipe.clone(), recipes::files_of(input, recipe).places.len()))
                .collect(),
            product_lines_in_all: product_lines.values().sum(),
            product_lines,
            type_names: types.total.unwrap_or_default(),
            repeated_type_names: repeated.len(),
            functions: participles.total.unwrap_or_default(),
            participle_functions: participles.places.len(),
            files_over_500_lines: lengths::files_over(input, 500).len(),
            functions_over_70_lines: lengths::functions_over(input, 70).len(),
        }
    }

    pub(crate) fn print(&self, json: bool) -> Result<()> {
        let value = serde_json::to_value(self)?;
        if json {
            say::data(serde_json::to_string_pretty(&value)?);
            return Ok(());
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let name = name.replace('_', " ");
            match value.as_object() {
                Some(parts) => {
                    say::data(format_args!("{name}"));
                    parts.iter().for_each(|(part, value)| say::data(format_args!("  {part:<58}{value:>8}")));
                }
                None => say::data(format_args!("{name:<60}{value:>8}")),
            }
        }
        Ok(())
    }
}
