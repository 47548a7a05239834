//! What the runner of a team tells it: that a limit is reached, that agents go round in circles.

use super::by_system;
use crate::kernel::caller::Caller;
use crate::kernel::id::{MessageId, TeamId};
use crate::messages::{SendMessage, What};
use crate::model::message::Message;
use crate::model::team::needs_person;
use crate::model::{Key, ReadSet, Undecided};
use crate::traits::{Command, Decision, DecisionContext};

/// A message by the system in the channel of the team's instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnounceToTeam {
    pub team: TeamId,
    pub message: MessageId,
    pub text: String,
}

impl Command for AnnounceToTeam {
    const NAME: &'static str = "AnnounceToTeam";

    type Reply = Message;

    fn read_set(&self) -> ReadSet {
        std::iter::once(Key::Team(self.team.clone()).into()).chain(self.post().read_set()).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Message>, Undecided> {
        needs_person(cx.caller, "speak for the system")?;
        cx.view.team_known(&self.team)?;
        self.post().decide(&DecisionContext { caller: &Caller::system(), ..*cx })
    }
}

impl AnnounceToTeam {
    fn post(&self) -> SendMessage {
        by_system(&self.message, &self.team.instance(), What::Entry, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::code::Code;
    use crate::testing::{anna, by, runs_in};

    #[test]
    fn the_system_speaks_in_the_channel_of_the_team() {
        let mut w = runs_in("@pr-1", &["a"]);
        let say = |team: &str| AnnounceToTeam {
            team: team.into(),
            message: "m".into(),
            text: "@a that is enough".to_owned(),
        };
        assert_eq!(w.refuses(&by("a@pr-1"), say("@pr-1")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), say("@pr-2")), Code::TeamNotFound);
        assert_eq!(w.does(&anna(), say("@pr-1")), ["message.sent"]);
        let header = &w.message("m").letter.header;
        assert_eq!((header.from.as_str(), header.thread.as_str()), ("system", "thr_pr-1"));
        assert_eq!(w.pending("a@pr-1"), ["m"]);
    }
}
