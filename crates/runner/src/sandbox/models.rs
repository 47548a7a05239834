//! Hosts that an agent's own program needs in order to reach its model.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::file::AgentProgram;

/// Hosts of a program's default models. Variables name models elsewhere.
fn default_hosts(program: AgentProgram) -> &'static [&'static str] {
    match program {
        AgentProgram::Claude => &["api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"],
        AgentProgram::Codex => &["api.openai.com", "auth.openai.com", "chatgpt.com", "*.chatgpt.com"],
        AgentProgram::Cursor => &["cursor.com", "*.cursor.com", "cursor.sh", "*.cursor.sh"],
        AgentProgram::Gemini => &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
        ],
        AgentProgram::Opencode => &[
            "opencode.ai",
            "*.opencode.ai",
            "models.dev",
            "api.anthropic.com",
            "api.openai.com",
            "generativelanguage.googleapis.com",
            "openrouter.ai",
        ],
    }
}

/// The hosts of an agent's model: the defaults, and those that its environment names (`ANTHROPIC_BASE_URL` and similar).
pub(super) fn hosts(program: Option<AgentProgram>, env: &BTreeMap<String, String>) -> Vec<Rule> {
    let named = env.iter().filter(|(name, _)| is_address(name)).filter_map(|(_, value)| Rule::from_url(value));
    let known = program.map(default_hosts).unwrap_or_default();
    known.iter().map(|host| Rule::built_in(host)).chain(named).collect()
}

fn is_address(name: &str) -> bool {
    ["_BASE_URL", "_API_BASE", "_API_URL", "_ENDPOINT", "_HOST"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_names_the_host_of_another_model() {
        let env = BTreeMap::from([
            ("ANTHROPIC_BASE_URL".to_owned(), "http://127.0.0.1:4321".to_owned()),
            ("MODEL_HOST".to_owned(), "no address".to_owned()),
            ("TOKEN".to_owned(), "https://token.example".to_owned()),
        ]);
        let shown = |rules: Vec<Rule>| rules.iter().map(Rule::to_string).collect::<Vec<_>>();
        assert_eq!(shown(hosts(None, &env)), ["127.0.0.1:4321"]);
        let claude = shown(hosts(Some(AgentProgram::Claude), &env));
        assert!(claude.contains(&"api.anthropic.com".to_owned()) && claude.contains(&"127.0.0.1:4321".to_owned()));
    }
}
