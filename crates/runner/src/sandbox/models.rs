//! The hosts without which an agent's own program can do nothing: those of its model.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::file::AgentProgram;

/// What the programs are known to need. Where a model is elsewhere, a variable says so.
fn known(program: AgentProgram) -> &'static [&'static str] {
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

/// The hosts of an agent's model: those that are known, and those that its environment names (`ANTHROPIC_BASE_URL` and such).
pub(super) fn hosts(program: Option<AgentProgram>, env: &BTreeMap<String, String>) -> Vec<Rule> {
    let named = env.iter().filter(|(name, _)| is_address(name)).filter_map(|(_, value)| Rule::of_url(value));
    let known = program.map(known).unwrap_or_default();
    known.iter().map(|host| Rule::needed(host)).chain(named).collect()
}

fn is_address(name: &str) -> bool {
    ["_BASE_URL", "_API_BASE", "_API_URL", "_ENDPOINT", "_HOST"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_elsewhere_is_named_by_the_environment() {
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
