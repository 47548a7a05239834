//! Crates and words that must not appear where they do.

use std::collections::BTreeSet;

use super::input::Input;
use super::{Finding, Found};
use crate::source::{Kind, SourceFile};

/// The crates of the workspace that a crate may depend on. Crates that are not listed may depend on all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("api", &[]),
    ("ui-embed", &[]),
    ("store", &["core"]),
    ("clutch", &["core"]),
    ("a2a", &["core"]),
    ("engine", &["core", "store"]),
    ("surfaces", &["core", "engine", "clutch", "a2a", "api", "ui-embed"]),
    ("client", &["core", "api"]),
    ("runner", &["core", "api", "client"]),
];

/// Crates of protocols and their schemas, which only surfaces may use.
const PROTOCOL_CRATES: [&str; 4] = ["axum", "rmcp", "utoipa", "schemars"];

/// Dependencies between crates of the workspace (`[dependencies]`, not those of tests) that the list does not allow.
pub(crate) fn crate_arrows(input: &Input) -> Found {
    let mut places = Vec::new();
    for (package, allowed) in ALLOWED {
        let path = format!("crates/{package}/Cargo.toml");
        let Some(text) = input.texts.get(&path) else { continue };
        for (line, dependency) in dependencies(text) {
            let Some(name) = dependency.strip_prefix("rookery-") else { continue };
            if !allowed.contains(&name) {
                places.push(Finding::new(&path, line, format!("{package} -> {name}")));
            }
        }
    }
    places.into()
}

/// Names in the tables `[dependencies]` and `[target.*.dependencies]` of a manifest, with their lines.
pub(crate) fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (index, line) in manifest.lines().enumerate() {
        if let Some(table) = line.trim().strip_prefix('[') {
            let table = table.trim_end_matches(']');
            is_inside = table == "dependencies" || (table.starts_with("target.") && table.ends_with(".dependencies"));
        } else if is_inside && !line.trim().is_empty() && !line.starts_with('#') {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim().trim_matches('"');
            found.push((index + 1, name.to_owned()));
        }
    }
    found
}

/// Product files of `surfaces` that name `rookery_store`.
pub(crate) fn store_in_surfaces(input: &Input) -> Found {
    files_that_name(input, &["surfaces"], &["rookery_store"])
}

/// Product files of `core`, `store` and `engine` that name a crate of a protocol.
pub(crate) fn protocol_crates(input: &Input) -> Found {
    files_that_name(input, &["core", "store", "engine"], &PROTOCOL_CRATES)
}

fn files_that_name(input: &Input, packages: &[&str], names: &[&str]) -> Found {
    let place = |file: &SourceFile| {
        let at = file.product_idents().find(|at| names.contains(&file.word(*at)))?;
        Some(Finding::new(&file.path, file.line_of(at), file.word(at)))
    };
    let files = input.tree.product().filter(|file| packages.contains(&file.package.as_str()));
    files.filter_map(place).collect::<Vec<_>>().into()
}

/// String literals of `core` that name a protocol (`mcp`, `clutch`, in any case), the program (`rookery` followed by a
/// space), or a tool of the MCP reference.
pub(crate) fn protocol_names_in_core(input: &Input) -> Found {
    let tools = tools(input);
    let mut places = Vec::new();
    for file in input.tree.product().filter(|file| file.package == "core") {
        for (at, token) in file.tokens.code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Str) {
            if file.is_test_token(at) {
                continue;
            }
            let text = file.text_of(token);
            let lower = text.to_lowercase();
            let names_tool = || text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| tools.contains(word));
            if lower.contains("mcp") || lower.contains("clutch") || lower.contains("rookery ") || names_tool() {
                places.push(Finding::new(&file.path, token.line, text.chars().take(60).collect::<String>()));
            }
        }
    }
    places.into()
}

/// The tools that the MCP reference has a heading for.
fn tools(input: &Input) -> BTreeSet<&str> {
    let pages = input.texts.iter().filter(|(path, _)| path.starts_with("docs/reference/mcp-"));
    let headings = pages.flat_map(|(_, text)| text.lines().filter_map(|line| line.strip_prefix("## ")));
    headings.map(str::trim).filter(|name| name.contains('_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_outside_the_list_are_found() {
        let manifest =
            "[dependencies]\nrookery-core.workspace = true\nrookery-store = { path = \"x\" }\nserde = \"1\"\n
                        [dev-dependencies]\nrookery-testkit.workspace = true\n";
        let found = crate_arrows(&Input::of(&[("crates/surfaces/Cargo.toml", manifest)]));
        assert_eq!(found.places, [Finding::new("crates/surfaces/Cargo.toml", 3, "surfaces -> store")]);
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let input = Input::of(&[
            ("crates/surfaces/src/a.rs", "use rookery_store::X;\nuse rookery_store::Y;"),
            ("crates/surfaces/src/b.rs", "#[cfg(test)]\nmod tests { use rookery_store::X; }"),
            ("crates/surfaces/tests/c.rs", "use rookery_store::X;"),
            ("crates/engine/src/d.rs", "// axum\nuse schemars::JsonSchema;"),
        ]);
        assert_eq!(store_in_surfaces(&input).places, [Finding::new("crates/surfaces/src/a.rs", 1, "rookery_store")]);
        assert_eq!(protocol_crates(&input).places, [Finding::new("crates/engine/src/d.rs", 2, "schemars")]);
    }

    #[test]
    fn literals_that_name_a_protocol_are_found() {
        let input = Input::of(&[
            ("docs/reference/mcp-team.md", "## task_claim\n"),
            ("crates/core/src/a.rs", "f(\"call task_claim\", \"MCP\", \"rookery up\", \"rookery\", \"task_claims\")"),
        ]);
        let found = protocol_names_in_core(&input);
        let items: Vec<&str> = found.places.iter().map(|place| place.item.as_str()).collect();
        assert_eq!(items, ["\"call task_claim\"", "\"MCP\"", "\"rookery up\""]);
    }
}
