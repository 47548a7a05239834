//! An agent is part of the team by being there, without having said anything of itself.

use serde::{Deserialize, Serialize};

use super::RegisterAgent;
use crate::kernel::id::AgentId;
use crate::model::agent::{AgentRole, Metadata, Profile};
use crate::model::{Key, ReadSet, Undecided};
use crate::traits::{Command, Decision, DecisionContext};

/// Joins as a worker of which nothing else is known. What the team knows already stays as it is: whoever announces
/// itself at the same moment is not unsaid.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Join {
    pub agent: AgentId,
}

impl Command for Join {
    const NAME: &'static str = "Join";
    const SETTLES_MEMBERSHIP: bool = true;

    fn read_set(&self) -> ReadSet {
        vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let known = cx.view.find_agent(&self.agent)?.filter(|agent| !agent.has_left());
        let profile = known.map_or_else(nothing_known, |agent| agent.profile.clone());
        RegisterAgent { id: self.agent.clone(), profile }.decide(cx)
    }
}

fn nothing_known() -> Profile {
    Profile {
        tool: "custom".to_owned(),
        role: AgentRole::Worker,
        capabilities: vec![],
        name: None,
        workspace_path: None,
        metadata: Metadata::new(),
        card: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::kernel::code::Code;
    use crate::testing::{World, by, register, with_token};

    fn join(agent: &str) -> Join {
        Join { agent: agent.into() }
    }

    #[test]
    fn a_stranger_joins_and_what_is_known_stays() {
        let mut w = World::default();
        assert_eq!(w.does(&by("a"), join("a")), ["agent.registered", "lead.chosen"]);
        assert_eq!(w.agent("a").profile, nothing_known());
        w.does(&by("b"), register("b", AgentRole::Specialist));
        let said = w.agent("b").profile.clone();
        assert_eq!(w.does(&by("b"), join("b")), [""; 0]);
        assert_eq!(w.agent("b").profile, said);
        w.does(&by("b"), LeaveTeam { agent: "b".into() });
        assert_eq!(w.does(&by("b"), join("b")), ["agent.registered"]);
        assert_eq!(w.agent("b").profile, nothing_known(), "it left, and what it was with it");
    }

    #[test]
    fn it_is_checked_as_announcing_is() {
        let mut w = World::of(&["lead", "a"]);
        assert_eq!(w.refuses(&by("a"), join("b")), Code::Forbidden);
        assert_eq!(w.refuses(&by("a"), join("two words")), Code::Invalid);
        w.does(&with_token("b"), join("b"));
        assert!(w.agent("b").has_credential);
        assert_eq!(w.refuses(&by("b"), join("b")), Code::CredentialRequired);
    }
}
