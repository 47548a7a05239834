//! The reference of the tools as Markdown, made from what clients are shown.

use std::fmt::Write;

use rmcp::model::Tool as Listed;
use serde_json::Value;

use super::tool::{Effect, Tool};
use super::tools;
use super::toolset::Toolset;

/// Every tool with its arguments and its result.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Tools\n\nMade from the program by `rookery reference mcp`. [How to connect](../mcp.md) says what they are for.\n\n",
    );
    let tools = tools::all();
    for set in Toolset::EVERY.into_iter().filter(|set| *set != Toolset::All) {
        let names: Vec<String> =
            tools.iter().filter(|tool| tool.is_in(set)).map(|tool| format!("[{0}](#{0})", tool.name)).collect();
        let names = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
        let _ = writeln!(page, "`{}`: {names}\n", set.path());
    }
    tools.iter().for_each(|tool| describe(&mut page, tool));
    page.truncate(page.trim_end().len());
    page.push('\n');
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
    let fields = listed.output_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let fields: Vec<String> =
        fields.into_iter().flatten().map(|(name, field)| format!("`{name}` {}", kind(field))).collect();
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
    fn every_tool_is_in_it() {
        let page = markdown();
        for tool in tools::all() {
            assert!(page.contains(&format!("## {}\n", tool.name)), "{}", tool.name);
        }
    }

    #[test]
    fn the_committed_page_is_fresh() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/mcp.md");
        let fresh = std::fs::read_to_string(path).unwrap_or_default() == markdown();
        assert!(fresh, "it is stale: cargo run -- reference mcp > docs/reference/mcp.md");
    }
}
