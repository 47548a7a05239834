//! The reference of the command line as Markdown, made from the same definitions as the help.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use crate::config::TABLE;

/// The whole page: `docs/reference/cli.md`.
pub fn markdown() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = String::from("# The `rookery` command\n\n");
    page.push_str("<!-- Made by `rookery reference` from the program's own definitions. -->\n\n");
    push_about(&mut page, &root);
    page.push_str(
        "Data is written to stdout, talk to stderr. Exit codes: 0 done, 1 failed, 2 usage, 3 daemon not reachable.\n\n",
    );
    page.push_str("## Options of every command\n\n");
    push_arguments(&mut page, root.get_arguments());
    for command in root.get_subcommands() {
        push_command(&mut page, command, &root, 2);
    }
    push_settings(&mut page);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn push_command(page: &mut String, command: &Command, parent: &Command, level: usize) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = write!(page, "{} `{name}`\n\n", "#".repeat(level));
    push_about(page, command);
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ").trim());
    // What a command takes from the one above it is told there.
    let inherits = |argument: &Arg| parent.get_arguments().any(|known| known.get_id() == argument.get_id());
    let own = |argument: &&Arg| !argument.is_global_set() || !inherits(argument);
    push_arguments(page, command.get_arguments().filter(own));
    for inner in command.get_subcommands() {
        push_command(page, inner, command, level + 1);
    }
}

fn push_about(page: &mut String, command: &Command) {
    let long = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let (first, rest) = long.split_once("\n\n").unwrap_or((&long, ""));
    let _ = write!(page, "{}.\n\n", first.trim().trim_end_matches('.'));
    if !rest.is_empty() {
        let _ = write!(page, "{}\n\n", rest.trim());
    }
}

fn push_arguments<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let shown = |argument: &&Arg| !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version");
    let lines: Vec<String> = arguments.filter(shown).map(line).collect();
    if !lines.is_empty() {
        let _ = write!(page, "{}\n\n", lines.join("\n"));
    }
}

fn line(argument: &Arg) -> String {
    let values: Vec<&str> = argument.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
    let takes = argument.get_action().takes_values() && !values.is_empty();
    let value = if takes { format!(" <{}>", values.join("> <")) } else { String::new() };
    let short = argument.get_short().map(|letter| format!("-{letter}, ")).unwrap_or_default();
    let written = match argument.get_long() {
        Some(long) => format!("{short}--{long}{value}"),
        None if argument.is_positional() => value.trim().to_owned(),
        None => format!("{}{value}", short.trim_end_matches(", ")),
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> = match takes {
        true => argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect(),
        false => Vec::new(),
    };
    let choices = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    format!("- `{written}`: {help}{choices}")
}

fn push_settings(page: &mut String) {
    page.push_str("## Settings\n\nIn `rookery.toml` in the project's root, or in the environment. `rookery config` shows the values in force.\n\n");
    page.push_str("| setting | environment | value | default | meaning |\n|---|---|---|---|---|\n");
    for setting in TABLE {
        let default = match setting.default_text().as_str() {
            "" if setting.help.contains("Default:") => "see there".to_owned(),
            "" => "none".to_owned(),
            text => format!("`{text}`"),
        };
        let (name, env, unit, help) = (setting.name, setting.env, setting.unit, setting.help.trim());
        let _ = writeln!(page, "| `{name}` | `{env}` | {unit} | {default} | {help} |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json_schema;

    fn committed(file: &str) -> String {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        std::fs::read_to_string(folder.join(file)).unwrap_or_default()
    }

    #[test]
    fn the_committed_reference_is_fresh() {
        let fresh = committed("cli.md") == markdown();
        assert!(fresh, "it is stale: cargo run -- reference > docs/reference/cli.md");
    }

    #[test]
    fn the_committed_schema_is_fresh() {
        let schema = serde_json::from_str::<serde_json::Value>(&committed("rookery-toml.schema.json"));
        let fresh = schema.is_ok_and(|schema| schema == json_schema());
        assert!(fresh, "it is stale: cargo run -- schema config > docs/reference/rookery-toml.schema.json");
    }
}
