//! Paths that the guides name, and the number of files that a recipe touches.

use super::input::Input;
use super::{Finding, Found};

/// Pages whose paths must exist.
const PAGES: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/recipes.md"];

/// Endings by which a text in backticks is taken for a path.
const ENDINGS: [&str; 9] = [".rs", ".md", ".toml", ".ts", ".tsx", ".sql", ".yaml", ".tsv", "/"];

/// Paths in backticks that do not exist. A path may leave out its beginning: `task/claim.rs` is any file of that
/// ending, and `{a,b}` is each of them. Texts with spaces, `<`, `*`, `…` or a leading `/` or `.` are no paths.
pub(crate) fn missing_paths(input: &Input) -> Found {
    let mut places = Vec::new();
    for page in PAGES {
        let Some(text) = input.texts.get(page) else { continue };
        for (index, line) in text.lines().enumerate() {
            for path in quoted(line).filter(|path| is_path(path)) {
                let missing = expand(path).into_iter().filter(|path| !exists(input, path));
                places.extend(missing.map(|path| Finding::new(page, index + 1, path)));
            }
        }
    }
    places.into()
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_path(text: &str) -> bool {
    let is_plain = !text.contains([' ', '<', '*', '…', ':', '(']) && !text.starts_with(['/', '.', '$']);
    is_plain && ENDINGS.iter().any(|ending| text.ends_with(ending)) && text.len() > 3
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    match (path.find('{'), path.find('}')) {
        (Some(open), Some(close)) if open < close => {
            let each = path[open + 1..close].split(',');
            each.map(|part| format!("{}{}{}", &path[..open], part.trim(), &path[close + 1..])).collect()
        }
        _ => vec![path.to_owned()],
    }
}

fn exists(input: &Input, path: &str) -> bool {
    let ending = format!("/{path}");
    match path.strip_suffix('/') {
        Some(folder) => {
            let inside = format!("/{folder}/");
            input.paths.iter().any(|known| known.starts_with(path) || known.contains(&inside))
        }
        None => input.paths.iter().any(|known| known == path || known.ends_with(&ending)),
    }
}

/// The files that name a witness of a recipe. A witness stands for what the recipe adds: the next one touches about the
/// same files. Rust files count without comments and with string literals, and tests, samples, snapshots, Markdown and
/// generated references do not count.
pub(crate) fn files_of(input: &Input, recipe: &str) -> Found {
    let Some(witnesses) = input.witnesses.get(recipe) else { return Found::default() };
    let mut places = Vec::new();
    let mentions = |text: &str| witnesses.iter().any(|witness| text.contains(witness.as_str()));
    for file in input.tree.product().filter(|file| mentions(&file.text)) {
        let named = file.tokens.code.iter().enumerate().find(|(at, token)| {
            let text = file.text_of(token).trim_matches('"');
            !file.is_test_token(*at) && witnesses.iter().any(|witness| witness == text)
        });
        places.extend(named.map(|(_, token)| Finding::new(&file.path, token.line, file.text_of(token))));
    }
    let is_counted = |path: &str| {
        let is_source = path.ends_with(".sql") || path.starts_with("ui/src/");
        is_source || path == "docs/errors.md" || path == "docs/events.md"
    };
    for (path, text) in input.texts.iter().filter(|(path, text)| is_counted(path) && mentions(text)) {
        let found = text.lines().enumerate().find(|(_, line)| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
            words.any(|word| witnesses.iter().any(|witness| witness == word))
        });
        places.extend(found.map(|(index, _)| Finding::new(path, index + 1, witnesses[0].clone())));
    }
    places.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn paths_may_leave_out_their_beginning() {
        let input = Input::of(&[
            (
                "ARCHITECTURE.md",
                "`core/src/a.rs` `b/{c,d}.rs` `gone.rs` `src/b/` `lost/`\n`application/json` `a b.rs` `/docs/`",
            ),
            ("crates/core/src/a.rs", ""),
            ("crates/core/src/b/c.rs", ""),
        ]);
        let items: Vec<String> = missing_paths(&input).places.into_iter().map(|place| place.item).collect();
        assert_eq!(items, ["b/d.rs", "gone.rs", "lost/"]);
    }

    #[test]
    fn files_of_a_recipe_name_a_witness() {
        let mut input = Input::of(&[
            ("crates/core/src/a.rs", "struct AgentPaused;"),
            ("crates/core/src/b.rs", "// AgentPaused\nfn f() { g(\"agent.paused\") }"),
            ("crates/core/src/c.rs", "// AgentPaused\n#[cfg(test)] mod tests { use x::AgentPaused; }"),
            ("ui/src/fold.ts", "case 'agent.paused':"),
            ("docs/agents.md", "agent.paused"),
        ]);
        input.witnesses =
            BTreeMap::from([("event-kind".to_owned(), vec!["AgentPaused".to_owned(), "agent.paused".to_owned()])]);
        let files: Vec<String> = files_of(&input, "event-kind").places.into_iter().map(|place| place.file).collect();
        assert_eq!(files, ["crates/core/src/a.rs", "crates/core/src/b.rs", "ui/src/fold.ts"]);
        assert!(files_of(&input, "code").places.is_empty());
    }
}
