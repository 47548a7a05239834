//! The reference of the tools as Markdown, made from what clients are shown: a page for each toolset, and one that lists them.

use std::fmt::Write;

use rmcp::model::Tool as Listed;
use serde_json::Value;

use super::schema::NOTES;
use super::tool::{Effect, Tool};
use super::toolset::Toolset;
use super::{examples, tools};

/// The sets that have a page.
const PAGES: [Toolset; 4] = [Toolset::Workflow, Toolset::Context, Toolset::Coord, Toolset::Team];

/// The page of a set; for all tools, the page that lists the others.
pub fn markdown(set: Toolset) -> String {
    let mut page = if set == Toolset::All { index() } else { tools_of(set) };
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Where the page of a set is, beside the others.
fn file(set: Toolset) -> &'static str {
    match set {
        Toolset::All => "mcp.md",
        Toolset::Workflow => "mcp-workflow.md",
        Toolset::Context => "mcp-context.md",
        Toolset::Coord => "mcp-coord.md",
        Toolset::Team => "mcp-team.md",
    }
}

fn index() -> String {
    let mut page = String::from(
        "# Tools\n\nMade from the program by `rookery reference mcp`. [How to connect](../mcp.md) says what they are for.\n",
    );
    for set in PAGES {
        let _ = writeln!(page, "\n## [{}]({})\n\n{}\n", set.path(), file(set), set.about());
        for tool in tools::all().iter().filter(|tool| tool.is_in(set)) {
            let first = tool.description.split_once(". ").map_or(tool.description, |(first, _)| first);
            let _ = writeln!(page, "- [{0}]({1}#{0}): {2}.", tool.name, file(set), first.trim_end_matches('.'));
        }
    }
    page
}

fn tools_of(set: Toolset) -> String {
    let mut page = format!(
        "# The tools at `{}`\n\nMade from the program by `rookery reference mcp --tools {}`. {} [All sets](mcp.md).\n\n",
        set.path(),
        set.word(),
        set.about(),
    );
    tools::all().iter().filter(|tool| tool.is_in(set)).for_each(|tool| describe(&mut page, tool));
    page
}

fn describe(page: &mut String, tool: &Tool) {
    let listed = tool.listed(Toolset::All);
    let effect = match tool.effect {
        Effect::Reads => "Reads only.",
        Effect::Adds => "May add something with every call.",
        Effect::Sets => "Calling it again with the same arguments changes nothing more.",
        Effect::Ends => "Ends or gives away something.",
    };
    let _ = writeln!(page, "## {}\n\n{} {effect}\n", tool.name, tool.description);
    arguments(page, &listed);
    if let Some(example) = examples::shown(tool.name) {
        let _ = writeln!(page, "For example:\n\n```json\n{example}\n```\n");
    }
    let fields = listed.output_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let fields: Vec<String> = fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != NOTES)
        .map(|(name, field)| format!("`{name}` {}", kind(field)))
        .collect();
    let _ = writeln!(page, "Result: {}.\n", fields.join(", "));
}

fn arguments(page: &mut String, listed: &Listed) {
    let Some(fields) = listed.input_schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        return;
    };
    let required = |name: &str| {
        let all = listed.input_schema.get("required").and_then(Value::as_array);
        all.is_some_and(|all| all.iter().any(|field| field == name))
    };
    page.push_str("| argument | type | |\n|---|---|---|\n");
    for (name, field) in fields {
        let said = field["description"].as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ");
        let need = if required(name) { "Required. " } else { "" };
        let _ = writeln!(page, "| `{name}` | {} | {need}{said} |", kind(field));
    }
    page.push('\n');
}

/// The type of a field in a word or two.
fn kind(field: &Value) -> String {
    if let Some(choices) = field["enum"].as_array() {
        return choices.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    }
    match &field["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", self::kind(&field["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_on_the_page_of_its_set() {
        for set in PAGES {
            let page = markdown(set);
            for tool in tools::all().iter().filter(|tool| tool.is_in(set)) {
                assert!(page.contains(&format!("## {}\n", tool.name)), "{} of {}", tool.name, set.path());
            }
        }
        let somewhere = |tool: &Tool| PAGES.iter().any(|set| tool.is_in(*set));
        assert!(tools::all().iter().all(somewhere), "a tool is on no page");
    }

    #[test]
    fn the_committed_pages_are_fresh() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for set in Toolset::EVERY {
            let committed = std::fs::read_to_string(folder.join(file(set))).unwrap_or_default();
            assert!(committed == markdown(set), "docs/reference/{} is stale: cargo xtask codegen", file(set));
        }
    }
}
