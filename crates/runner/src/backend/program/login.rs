//! How the user's own login reaches a program, without a file of theirs being changed: programs find their configuration
//! where they always do, and what they take from the environment is handed on by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::file::AgentProgram;

/// What a program takes from the user besides its own files.
#[derive(Clone, Copy, Debug)]
struct Wants {
    /// Variables of the environment: keys, addresses, and where the configuration is.
    variables: &'static [&'static str],
    /// What it keeps conversations and logins in, below the home.
    homes: &'static [&'static str],
    /// A file of its home that it replaces whenever it runs, and that holds nothing it could not do without. A sandbox gets a
    /// copy, because a file that is shown there cannot be replaced.
    copied: Option<&'static str>,
    /// The variable that says otherwise.
    home_variable: Option<&'static str>,
}

fn wants(program: AgentProgram) -> Wants {
    match program {
        AgentProgram::Claude => Wants {
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
        AgentProgram::Codex => Wants {
            variables: &["CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
            homes: &[".codex"],
            copied: None,
            home_variable: Some("CODEX_HOME"),
        },
        AgentProgram::Cursor => Wants {
            variables: &["CURSOR_API_KEY"],
            homes: &[".cursor", ".config/cursor"],
            copied: None,
            home_variable: None,
        },
        AgentProgram::Opencode => Wants {
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
        AgentProgram::Gemini => Wants {
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

/// What of the runner's own environment a program is given for its login. `more` are names that its configuration adds.
pub(crate) fn variables(
    program: AgentProgram,
    more: &[String],
    surroundings: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let names = wants(program).variables.iter().copied().chain(more.iter().map(String::as_str));
    names.filter_map(|name| Some((name.to_owned(), surroundings.get(name)?.clone()))).collect()
}

/// Where a program's configuration, its login and its conversations are. It writes there too: logins are renewed. `env` is
/// the environment that it will have.
pub(super) fn folders(program: AgentProgram, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let wants = wants(program);
    if let Some(home) = wants.home_variable.and_then(|name| env.get(name)) {
        return vec![PathBuf::from(home)];
    }
    let home = env.get("HOME").map(Path::new);
    home.map(|home| wants.homes.iter().map(|below| home.join(below)).collect()).unwrap_or_default()
}

/// Copies what a program would replace into the home that a sandbox shows it, once.
pub(super) fn copy(program: AgentProgram, env: &BTreeMap<String, String>, shown: &Path) {
    let Some(name) = wants(program).copied else { return };
    let Some(from) = env.get("HOME").map(|home| Path::new(home).join(name)) else { return };
    // Nothing is written through a link that an agent may have made there.
    if std::fs::symlink_metadata(shown.join(name)).is_err() {
        // The program makes it anew if it is not there.
        let _absent = std::fs::copy(from, shown.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_what_the_program_needs_is_handed_on() {
        let ours = env(&[("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o"), ("AZURE_KEY", "z"), ("SECRET", "s")]);
        assert_eq!(variables(AgentProgram::Claude, &[], &ours), env(&[("ANTHROPIC_API_KEY", "a")]));
        let more = ["AZURE_KEY".to_owned()];
        let codex = variables(AgentProgram::Codex, &more, &ours);
        assert_eq!(codex, env(&[("OPENAI_API_KEY", "o"), ("AZURE_KEY", "z")]));
    }

    #[test]
    fn logins_are_where_the_user_has_them() {
        let usual = env(&[("HOME", "/home/a")]);
        let claude = folders(AgentProgram::Claude, &usual);
        assert_eq!(claude, [PathBuf::from("/home/a/.claude")]);
        let moved = env(&[("HOME", "/home/a"), ("CODEX_HOME", "/c")]);
        assert_eq!(folders(AgentProgram::Codex, &moved), [PathBuf::from("/c")]);
    }
}
