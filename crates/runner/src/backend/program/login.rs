//! Passes the user's login on to a program without changing the user's files: programs find their configuration in the usual
//! places, and the variables that they need are passed on by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::file::AgentProgram;

/// The parts of the user's environment and home that a program needs.
#[derive(Clone, Copy, Debug)]
struct LoginNeeds {
    /// Environment variables: keys, addresses, and the location of the configuration.
    variables: &'static [&'static str],
    /// Folders below the home with conversations and logins.
    homes: &'static [&'static str],
    /// A file of the home that the program replaces in every run and can do without. A sandbox gets a copy, because a mounted
    /// file cannot be replaced.
    copied: Option<&'static str>,
    /// The variable that names another configuration folder.
    home_variable: Option<&'static str>,
}

fn needs(program: AgentProgram) -> LoginNeeds {
    match program {
        AgentProgram::Claude => LoginNeeds {
            variables: &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "ANTHROPIC_CUSTOM_HEADERS",
                "ANTHROPIC_MODEL",
                "AWS_ACCESS_KEY_ID",
                "AWS_BEARER_TOKEN_BEDROCK",
                "AWS_PROFILE",
                "AWS_REGION",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_SESSION_TOKEN",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CONFIG_DIR",
            ],
            homes: &[".claude"],
            copied: Some(".claude.json"),
            home_variable: Some("CLAUDE_CONFIG_DIR"),
        },
        AgentProgram::Codex => LoginNeeds {
            variables: &["CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
            homes: &[".codex"],
            copied: None,
            home_variable: Some("CODEX_HOME"),
        },
        AgentProgram::Cursor => LoginNeeds {
            variables: &["CURSOR_API_KEY"],
            homes: &[".cursor", ".config/cursor"],
            copied: None,
            home_variable: None,
        },
        AgentProgram::Opencode => LoginNeeds {
            variables: &[
                "ANTHROPIC_API_KEY",
                "GEMINI_API_KEY",
                "GITHUB_TOKEN",
                "GROQ_API_KEY",
                "MISTRAL_API_KEY",
                "OPENAI_API_KEY",
                "OPENCODE_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_DIR",
                "OPENROUTER_API_KEY",
                "XAI_API_KEY",
            ],
            homes: &[".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"],
            copied: None,
            home_variable: None,
        },
        AgentProgram::Gemini => LoginNeeds {
            variables: &[
                "GEMINI_API_KEY",
                "GEMINI_MODEL",
                "GOOGLE_API_KEY",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_CLOUD_LOCATION",
                "GOOGLE_CLOUD_PROJECT",
                "GOOGLE_GEMINI_BASE_URL",
                "GOOGLE_GENAI_USE_GCA",
                "GOOGLE_GENAI_USE_VERTEXAI",
            ],
            homes: &[".gemini"],
            copied: None,
            home_variable: None,
        },
    }
}

/// The variables of the runner's own environment that a program needs for its login. `more` lists names from its configuration.
pub(crate) fn variables(
    program: AgentProgram,
    more: &[String],
    surroundings: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let names = needs(program).variables.iter().copied().chain(more.iter().map(String::as_str));
    names.filter_map(|name| Some((name.to_owned(), surroundings.get(name)?.clone()))).collect()
}

/// The folders with a program's configuration, login and conversations. The program writes to them, since logins are renewed.
/// `env` is its future environment.
pub(super) fn folders(program: AgentProgram, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let needs = needs(program);
    if let Some(home) = needs.home_variable.and_then(|name| env.get(name)) {
        return vec![PathBuf::from(home)];
    }
    let home = env.get("HOME").map(Path::new);
    home.map(|home| needs.homes.iter().map(|below| home.join(below)).collect()).unwrap_or_default()
}

/// Copies the file that a program replaces into the home inside the sandbox, once.
pub(super) fn copy(program: AgentProgram, env: &BTreeMap<String, String>, shown: &Path) {
    let Some(name) = needs(program).copied else { return };
    let Some(from) = env.get("HOME").map(|home| Path::new(home).join(name)) else { return };
    // An agent may have put a link there, which must not be written through.
    if std::fs::symlink_metadata(shown.join(name)).is_err() {
        // The program creates the file if it is missing.
        drop(std::fs::copy(from, shown.join(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_variables_that_the_program_needs_are_passed_on() {
        let ours = env(&[("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o"), ("AZURE_KEY", "z"), ("SECRET", "s")]);
        assert_eq!(variables(AgentProgram::Claude, &[], &ours), env(&[("ANTHROPIC_API_KEY", "a")]));
        let more = ["AZURE_KEY".to_owned()];
        let codex = variables(AgentProgram::Codex, &more, &ours);
        assert_eq!(codex, env(&[("OPENAI_API_KEY", "o"), ("AZURE_KEY", "z")]));
    }

    #[test]
    fn login_folders_are_those_of_the_user() {
        let usual = env(&[("HOME", "/home/a")]);
        let claude = folders(AgentProgram::Claude, &usual);
        assert_eq!(claude, [PathBuf::from("/home/a/.claude")]);
        let moved = env(&[("HOME", "/home/a"), ("CODEX_HOME", "/c")]);
        assert_eq!(folders(AgentProgram::Codex, &moved), [PathBuf::from("/c")]);
    }
}
