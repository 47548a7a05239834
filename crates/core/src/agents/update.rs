//! Changing a part of what the team knows of an agent, and leaving the rest as it is.

use serde::{Deserialize, Serialize};

use super::RegisterAgent;
use crate::kernel::id::AgentId;
use crate::model::agent::Metadata;
use crate::model::{Key, ReadSet, Undecided};
use crate::traits::{Command, Decision, DecisionContext};

/// What changes, and nothing else: two that change different things at once both come to pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UpdateProfile {
    pub agent: AgentId,
    pub workspace_path: Option<String>,
    /// Added to what is there; a key that is there already gets the new value.
    pub metadata: Metadata,
}

impl Command for UpdateProfile {
    const NAME: &'static str = "UpdateProfile";
    const SETTLES_MEMBERSHIP: bool = true;

    fn read_set(&self) -> ReadSet {
        vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()]
    }

    /// The agent announces itself again, with what is known of it and the change.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let mut profile = cx.view.agent(&self.agent)?.profile.clone();
        profile.workspace_path = self.workspace_path.clone().or(profile.workspace_path);
        profile.metadata.extend(self.metadata.clone());
        RegisterAgent { id: self.agent.clone(), profile }.decide(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::code::Code;
    use crate::kernel::limit;
    use crate::testing::{World, anna, by};

    fn noting(agent: &str, key: &str, value: &str) -> UpdateProfile {
        let metadata = [(key.to_owned(), value.into())].into_iter().collect();
        UpdateProfile { agent: agent.into(), workspace_path: None, metadata }
    }

    #[test]
    fn what_is_not_named_stays() {
        let mut w = World::of(&["lead", "a"]);
        assert_eq!(w.does(&by("a"), noting("a", "one", "1")), ["agent.updated"]);
        w.does(&anna(), UpdateProfile { workspace_path: Some("/w".to_owned()), ..noting("a", "two", "2") });
        w.does(&by("lead"), noting("a", "one", "3"));
        let profile = &w.agent("a").profile;
        assert_eq!(serde_json::to_value(&profile.metadata).unwrap(), serde_json::json!({"one": "3", "two": "2"}));
        assert_eq!((profile.workspace_path.as_deref(), profile.tool.as_str()), (Some("/w"), "claude-code"));
        assert_eq!(w.does(&by("a"), noting("a", "two", "2")), [""; 0], "nothing new was said");
    }

    #[test]
    fn it_is_checked_as_announcing_is() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), noting("a", "one", "1")), Code::Forbidden);
        assert_eq!(w.refuses(&by("b"), noting("unknown", "one", "1")), Code::AgentNotFound);
        w.does(&by("b"), crate::agents::LeaveTeam { agent: "b".into() });
        assert_eq!(w.refuses(&by("b"), noting("b", "one", "1")), Code::AgentNotFound, "one that left registers anew");
        let much = "x".repeat(limit::METADATA_BYTES);
        assert_eq!(w.refuses(&by("a"), noting("a", "one", &much)), Code::TooLarge);
    }
}
