//! Our tools for a program: `rookery mcp`, which it starts itself and speaks to by stdin and stdout.
//!
//! What proves who speaks is in the program's environment and in nothing that is written down: each program has its own way
//! to say that a variable is handed on.

use std::path::Path;

use serde_json::{Map, Value};

/// What the programs call us.
pub(crate) const SERVER: &str = "rookery";

/// How our server is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bridge {
    pub command: String,
    pub args: Vec<String>,
    /// What it finds in its environment, by name.
    pub variables: Vec<String>,
}

impl Bridge {
    /// A daemon is there already, so none is started from within an agent.
    pub(crate) fn new(program: &Path, project: &Path, variables: Vec<String>) -> Bridge {
        let args = ["mcp", "--no-start", "--dir"].map(str::to_owned).into_iter();
        let args = args.chain([project.display().to_string()]).collect();
        Bridge { command: program.display().to_string(), args, variables }
    }

    /// Its environment, where `refer` is the program's way to say that a variable is taken from its own.
    pub(crate) fn environment(&self, refer: impl Fn(&str) -> String) -> Value {
        let pairs = self.variables.iter().map(|name| (name.clone(), Value::String(refer(name))));
        Value::Object(pairs.collect::<Map<_, _>>())
    }

    pub(crate) fn argv(&self) -> Vec<&str> {
        std::iter::once(&self.command).chain(&self.args).map(String::as_str).collect()
    }
}

/// A tool of ours by the name that a program gave it: `mcp__rookery__task_claim`, `rookery_task_claim`.
pub(crate) fn own_name(tool: &str) -> Option<&str> {
    let prefixes = ["mcp__rookery__", "mcp_rookery_", "rookery__", "rookery_", "rookery-"];
    prefixes.into_iter().find_map(|prefix| tool.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_what_starts_it() {
        let bridge = Bridge::new(Path::new("/bin/rookery"), Path::new("/p"), vec!["ROOKERY_SESSION".to_owned()]);
        assert_eq!(bridge.argv(), ["/bin/rookery", "mcp", "--no-start", "--dir", "/p"]);
        let env = bridge.environment(|name| format!("${{{name}}}"));
        assert_eq!(env, serde_json::json!({"ROOKERY_SESSION": "${ROOKERY_SESSION}"}));
    }

    #[test]
    fn our_tools_are_known_by_whatever_a_program_calls_them() {
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
