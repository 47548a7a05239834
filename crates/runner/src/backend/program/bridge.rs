//! Our tools for a program: `rookery mcp`, which the program starts itself and talks to over stdin and stdout.
//!
//! The session key is only in the program's environment, never in a file or an argument: each program has its own syntax for
//! passing a variable on.

use std::path::Path;

use serde_json::{Map, Value};

/// The name of our server in the programs' configuration.
pub(crate) const SERVER: &str = "rookery";

/// The command that starts our server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bridge {
    pub command: String,
    pub args: Vec<String>,
    /// Names of the variables in its environment.
    pub variables: Vec<String>,
}

impl Bridge {
    /// With `--no-start`: a daemon runs already, and none may be started from within an agent.
    pub(crate) fn new(program: &Path, project: &Path, variables: Vec<String>) -> Bridge {
        let args = ["mcp", "--no-start", "--dir"].map(str::to_owned).into_iter();
        let args = args.chain([project.display().to_string()]).collect();
        Bridge { command: program.display().to_string(), args, variables }
    }

    /// The server's environment, where `refer` returns the program's syntax for a reference to its own variable.
    pub(crate) fn environment(&self, refer: impl Fn(&str) -> String) -> Value {
        let pairs = self.variables.iter().map(|name| (name.clone(), Value::String(refer(name))));
        Value::Object(pairs.collect::<Map<_, _>>())
    }

    pub(crate) fn argv(&self) -> Vec<&str> {
        std::iter::once(&self.command).chain(&self.args).map(String::as_str).collect()
    }
}

/// The name of a tool of ours behind a program's name for it, such as `mcp__rookery__task_claim` or `rookery_task_claim`.
pub(crate) fn own_name(tool: &str) -> Option<&str> {
    let prefixes = ["mcp__rookery__", "mcp_rookery_", "rookery__", "rookery_", "rookery-"];
    prefixes.into_iter().find_map(|prefix| tool.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridge_command_contains_no_secret() {
        let bridge = Bridge::new(Path::new("/bin/rookery"), Path::new("/p"), vec!["ROOKERY_SESSION".to_owned()]);
        assert_eq!(bridge.argv(), ["/bin/rookery", "mcp", "--no-start", "--dir", "/p"]);
        let env = bridge.environment(|name| format!("${{{name}}}"));
        assert_eq!(env, serde_json::json!({"ROOKERY_SESSION": "${ROOKERY_SESSION}"}));
    }

    #[test]
    fn own_tool_is_recognised_by_any_programs_name_for_it() {
        for (name, own) in [
            ("mcp__rookery__channel_send", Some("channel_send")),
            ("mcp_rookery_channel_send", Some("channel_send")),
            ("rookery_channel_send", Some("channel_send")),
            ("Bash", None),
            ("mcp__other__channel_send", None),
        ] {
            assert_eq!(own_name(name), own, "{name}");
        }
    }
}
