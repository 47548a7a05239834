//! What a text says about whom it is for: mentions, and whether it is urgent.

use std::collections::BTreeSet;

use crate::kernel::id::AgentId;
use crate::kernel::instance::Instance;
use crate::kernel::limit;

/// Words that make a message urgent wherever they stand.
const URGENT: [&str; 4] = ["urgent", "asap", "blocked", "critical"];

/// Between `@` and the name of a standalone agent, where a member of `default` has the same name.
const EXACT: &str = "agent:";

/// Everybody that a text mentions, once each, in order: `@name` in the instance at hand, `@name@other` in another one, and
/// `@agent:name` for the agent with exactly this id. A name is a letter and then letters, digits, `_` and `-`. Whether they are
/// agents is not known here. Ends with the first that is one too many.
pub fn mentions(text: &str, here: &Instance) -> Vec<AgentId> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut rest = text;
    while let Some(at) = rest.find('@')
        && found.len() <= limit::LIST_ENTRIES
    {
        rest = &rest[at + 1..];
        let exact = rest.strip_prefix(EXACT).filter(|id| name_length(id) > 0);
        rest = exact.unwrap_or(rest);
        let name = &rest[..name_length(rest)];
        if name.is_empty() {
            continue;
        }
        rest = &rest[name.len()..];
        let other = rest.strip_prefix('@').map_or("", |other| &other[..instance_length(other)]);
        let agent = if other.is_empty() {
            if exact.is_some() { AgentId::from(name) } else { here.agent(name) }
        } else {
            rest = &rest[1 + other.len()..];
            Instance::new(other).agent(name)
        };
        if seen.insert(agent.clone()) {
            found.push(agent);
        }
    }
    found
}

fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) { instance_length(text) } else { 0 }
}

fn instance_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count()
}

pub(super) fn is_urgent(text: &str) -> bool {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.into_iter().any(|word| URGENT.iter().any(|urgent| word.eq_ignore_ascii_case(urgent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_found_as_the_pattern_says() {
        let found = |text: &str| {
            let ids = mentions(text, &Instance::new("pr-1"));
            ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        for (text, wanted) in [
            ("@coder please fix", "coder@pr-1"),
            ("(@a), @b: and @a again!", "a@pr-1 b@pr-1"),
            ("@a_b-C9. done", "a_b-C9@pr-1"),
            ("@a@pr-2, @b@default.", "a@pr-2 b@default"),
            ("@agent:a, @agent:a@pr-2 and @agent: b", "a a@pr-2 agent@pr-1"),
            ("@a@ @@b @", "a@pr-1 b@pr-1"),
            ("@9lives @-x @é nothing", ""),
            ("no mail to joe@example.com", "example@pr-1"),
            ("@a@b@c", "a@b c@pr-1"),
        ] {
            assert_eq!(found(text), wanted, "{text}");
        }
    }

    #[test]
    fn urgent_words_are_whole_words() {
        for text in ["this is URGENT", "asap!", "we are blocked.", "(critical)"] {
            assert!(is_urgent(text), "{text}");
        }
        for text in ["insurgent", "unblocked", "critically", "not_urgent", ""] {
            assert!(!is_urgent(text), "{text}");
        }
    }
}
