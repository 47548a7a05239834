//! Cards and what agents say by other faces: one agent, told in two vocabularies.
//!
//! | card | profile |
//! |---|---|
//! | capability `skill:x` | capability `x`; every other id as it is |
//! | `display.name` | name |
//! | `meta.framework`, `meta.role` | tool and role |

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Capability, Card, Display, Endpoints, Limits, Rest, Security, VERSION};
use crate::kernel::id::AgentId;
use crate::kernel::limit;
use crate::model::agent::{Agent, AgentRole, Profile};
use crate::model::version::CapabilityVersion;

/// The tool of an agent that does not say what it runs in.
const UNSAID_TOOL: &str = "custom";

impl Card {
    /// The card of an agent: the one it sent, or one made from what it said otherwise.
    pub fn of(agent: &Agent) -> Card {
        match &agent.profile.card {
            Some(card) => Card::clone(card),
            None => Card::made(&agent.id, &agent.profile),
        }
    }

    pub(crate) fn made(id: &AgentId, profile: &Profile) -> Card {
        let meta = json!({ "framework": profile.tool, "role": profile.shown_role() });
        Card {
            v: VERSION.to_owned(),
            agent_id: id.clone(),
            display: Display { name: profile.name.clone(), ..Display::default() },
            endpoints: Endpoints::default(),
            capabilities: profile.capabilities.iter().filter_map(|word| Capability::said(word)).collect(),
            limits: Limits::default(),
            security: Security::default(),
            rest: Rest::from_iter([("meta".to_owned(), meta)]),
        }
    }

    /// What the other faces show of an agent that sends this card. What it said there and a card cannot say stays.
    pub fn profile(self, known: Option<&Profile>) -> Profile {
        let meta = self.rest.get("meta").and_then(Value::as_object);
        let said = |name| meta.and_then(|meta| meta.get(name)).and_then(Value::as_str);
        let tool = said("framework").filter(|tool| !tool.is_empty() && tool.len() <= limit::NAME_BYTES);
        let role = said("role").and_then(AgentRole::from_name);
        let role_name =
            said("role").filter(|name| role.is_none() && !name.is_empty() && name.len() <= limit::NAME_BYTES);
        let tool = tool.map(str::to_owned).or_else(|| known.map(|known| known.tool.clone()));
        Profile {
            tool: tool.unwrap_or_else(|| UNSAID_TOOL.to_owned()),
            role: role.or_else(|| known.map(|known| known.role)).unwrap_or(AgentRole::Worker),
            role_name: role_name.map(str::to_owned),
            session_id: known.and_then(|known| known.session_id.clone()),
            capabilities: self.words(),
            name: self.display.name.clone(),
            workspace_path: known.and_then(|known| known.workspace_path.clone()),
            metadata: known.map(|known| known.metadata.clone()).unwrap_or_default(),
            card: Some(Arc::new(self)),
        }
    }

    /// Its capabilities as the other faces word them.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::with_capacity(self.capabilities.len());
        for capability in &self.capabilities {
            let word = capability.word();
            if !words.iter().any(|known| known == word) {
                words.push(word.to_owned());
            }
        }
        words
    }

    /// The card after its agent said by another face what it is. What that face cannot say stays as it was.
    #[must_use]
    pub fn restated(&self, profile: &Profile) -> Card {
        let mut card = self.clone();
        card.capabilities.retain(|capability| profile.capabilities.iter().any(|word| names(word, capability)));
        for word in &profile.capabilities {
            if !card.capabilities.iter().any(|capability| names(word, capability)) {
                card.capabilities.extend(Capability::said(word));
            }
        }
        card.display.name = profile.name.clone().or(card.display.name);
        if let Some(Value::Object(meta)) = card.rest.get_mut("meta") {
            restate(meta, "framework", json!(profile.tool));
            restate(meta, "role", json!(profile.shown_role()));
        }
        card
    }
}

fn restate(meta: &mut Map<String, Value>, name: &str, value: Value) {
    if let Some(said) = meta.get_mut(name) {
        *said = value;
    }
}

fn names(word: &str, capability: &Capability) -> bool {
    capability.word() == word || Capability::said(word).is_some_and(|said| said.id == capability.id)
}

impl Capability {
    /// What an agent said that it can do: a skill unless it says what else, with a version if one follows. Faces that
    /// take any text take what no id can have; a dash stands for it.
    fn said(word: &str) -> Option<Capability> {
        let (name, version) = match word.rsplit_once('@') {
            Some((name, version)) if CapabilityVersion::parse(version).is_ok() => (name, Some(version.to_owned())),
            _ => (word, None),
        };
        let fits = |c: char| !(c.is_control() || c.is_whitespace() || c == '@');
        let name: String = name.trim().chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let (kind, name) = match name.split_once(':') {
            Some((kind @ ("skill" | "tool"), name)) => (kind, name),
            _ => ("skill", name.as_str()),
        };
        (!name.is_empty()).then(|| Capability { version, ..Capability::of(format!("{kind}:{name}")) })
    }

    /// How the other faces word it.
    fn word(&self) -> &str {
        self.id.strip_prefix("skill:").unwrap_or(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::RegisterAgent;
    use crate::testing::{World, by, profile};

    fn skills(card: &Card) -> Vec<(&str, Option<&str>)> {
        card.capabilities.iter().map(|skill| (skill.id.as_str(), skill.version.as_deref())).collect()
    }

    #[test]
    fn agent_without_a_card_gets_one_from_its_profile() {
        let mut w = World::default();
        let mut stated = profile(AgentRole::Specialist);
        stated.name = Some("Ada".to_owned());
        stated.capabilities =
            ["code", "research@1.2", "code review", "tool:shell", "a@b", " ", "skill:x"].map(str::to_owned).to_vec();
        w.does(&by("ada"), RegisterAgent::with_profile("ada".into(), stated));
        let card = Card::of(w.agent("ada"));
        let expected = [
            ("skill:code", None),
            ("skill:research", Some("1.2")),
            ("skill:code-review", None),
            ("tool:shell", None),
            ("skill:a-b", None),
            ("skill:x", None),
        ];
        assert_eq!(skills(&card), expected);
        assert_eq!((card.agent_id.as_str(), card.display.name.as_deref()), ("ada", Some("Ada")));
        assert_eq!(card.rest["meta"], json!({ "framework": "claude-code", "role": "specialist" }));
        let read = Card::read(&serde_json::to_value(&card).unwrap());
        assert_eq!(read, Ok(card), "it could be sent as it is");
    }
}
