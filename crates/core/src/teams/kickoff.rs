//! The kickoff: what a team is told first, once in each generation.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::{Actor, Caller};
use crate::kernel::id::{AgentId, MessageId, TeamId};
use crate::kernel::instance::Instance;
use crate::messages;
use crate::messages::{Cause, SendMessage, StormGuard, What};
use crate::model::context_settings::{Provider, keys as context_keys};
use crate::model::team::{Kickoff, Team, TeamRef, needs_person};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// What is said before the kickoff.
pub const WORKFLOW_STARTED: &str = "Workflow started";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KickOff {
    pub team: TeamId,
    pub generation: u64,
    pub text: Option<String>,
    /// Whom the text wakes, by their names in the team. If that is not said, whomever it mentions: but a part of it may be
    /// what a program printed.
    pub mentions: Option<Vec<String>>,
    /// The ids of what is posted: that it began, and the text.
    pub messages: [MessageId; 2],
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamKickedOff {
    #[serde(flatten)]
    pub of: TeamRef,
    /// What was posted; nothing if the instance has no context to post in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageId>,
}

impl Event for TeamKickedOff {
    const KIND: &'static str = "team.kicked_off";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let kickoff = Kickoff { messages: self.messages.clone(), at: stamp.at };
        rows.update(self.of.team.clone(), |team: &mut Team| team.kickoff = Some(kickoff));
    }
}

impl Command for KickOff {
    const NAME: &'static str = "KickOff";

    type Reply = Team;

    fn read_set(&self) -> ReadSet {
        let posts = self.posts().into_iter().flat_map(|post| post.read_set());
        let context = context_keys(&self.team.instance()).map(ReadItem::from);
        std::iter::once(Key::Team(self.team.clone()).into()).chain(context).chain(posts).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Team>, Undecided> {
        needs_person(cx.caller, "kick off a team")?;
        let team = cx.view.team_live(&self.team, self.generation)?;
        let reply = ReplySource::row(self.team.clone());
        if team.kickoff.is_some() {
            return Ok(Decision::unchanged(reply));
        }
        let posts = match cx.view.team_context(&team.instance())?.provider {
            // Nobody can say anything there: the runner has to hand it over itself.
            Provider::Off => vec![],
            Provider::File | Provider::Memory => self.posts(),
        };
        let messages = posts.iter().map(|post| post.id.clone()).collect();
        let mut facts = vec![AnyEvent::new(TeamKickedOff { of: team.of.clone(), messages })];
        facts.extend(messages::posted(&DecisionContext { caller: &Caller::system(), ..*cx }, &posts)?);
        Ok(Decision::new(facts, reply))
    }
}

impl KickOff {
    fn posts(&self) -> Vec<SendMessage> {
        let instance = self.team.instance();
        let what = match &self.mentions {
            Some(names) => What::EntryFor { mentions: names.iter().map(|name| self.team.member(name)).collect() },
            None => What::Entry,
        };
        let texts = [(Some(WORKFLOW_STARTED), What::Entry), (self.text.as_deref(), what)];
        let given = self.messages.iter().zip(texts).filter_map(|(id, (text, what))| Some((id, text?, what)));
        given.map(|(id, text, what)| by_system(id, &instance, what, text)).collect()
    }
}

/// A message by the system in the channel of an instance.
pub(crate) fn by_system(id: &MessageId, instance: &Instance, what: What, text: &str) -> SendMessage {
    SendMessage {
        id: id.clone(),
        run: instance.run(),
        thread: instance.thread(),
        from: AgentId::new(Actor::System.to_string()),
        what,
        text: text.to_owned(),
        cause: Cause::Nothing,
        // What the system says is never held.
        people: vec![],
        guard: StormGuard::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::ConfigureContext;
    use crate::kernel::code::Code;
    use crate::model::context_settings::{ContextSettings, Scope};
    use crate::model::team::Conclusion;
    use crate::testing::{World, anna, by, end, kickoff, runs_in, starts};

    #[test]
    fn it_is_posted_once_in_each_generation() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        let facts = w.does(&anna(), kickoff("@pr-1", 1, Some("@a please ask @b")));
        assert_eq!(facts, ["team.kicked_off", "message.sent", "message.sent"]);
        let (began, text) = (w.message("began1"), w.message("kickoff1"));
        assert_eq!((began.letter.text.as_str(), began.letter.header.from.as_str()), (WORKFLOW_STARTED, "system"));
        assert!(began.at < text.at, "in this order");
        assert_eq!((w.pending("a@pr-1"), w.pending("b@pr-1")), (vec!["kickoff1"], vec!["kickoff1"]));
        let again = KickOff { messages: ["x".into(), "y".into()], ..kickoff("@pr-1", 1, Some("@a something else")) };
        assert_eq!(w.does(&anna(), again), [""; 0]);
        w.does(&anna(), end("@pr-1", 1, Conclusion::Completed));
        assert_eq!(w.refuses(&anna(), kickoff("@pr-1", 1, None)), Code::InvalidState);
        w.does(&anna(), starts("@pr-1", &["a"], 2));
        assert_eq!(w.refuses(&anna(), kickoff("@pr-1", 1, None)), Code::Stale);
        assert_eq!(w.does(&anna(), kickoff("@pr-1", 2, None)), ["team.kicked_off", "message.sent"]);
        assert_eq!(w.team("@pr-1").kickoff.as_ref().unwrap().messages, ["began2".into()]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_a_program_printed_wakes_nobody_if_it_is_said_who_is_woken() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        let mentions = Some(vec!["b".to_owned(), "stranger".to_owned()]);
        w.does(&anna(), KickOff { mentions, ..kickoff("@pr-1", 1, Some("+ @a in a diff\n@b please look")) });
        let header = &w.message("kickoff1").letter.header;
        assert_eq!((&header.mentions, &header.unknown), (&vec!["b@pr-1".into()], &vec!["stranger@pr-1".into()]));
        assert_eq!((w.pending("a@pr-1"), w.pending("b@pr-1")), (vec![], vec!["kickoff1"]));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_cannot_be_posted_is_no_kickoff() {
        let mut w = runs_in("@pr-1", &["a"]);
        let long = "x".repeat(crate::kernel::limit::TEXT_BYTES + 1);
        assert_eq!(w.refuses(&anna(), kickoff("@pr-1", 1, Some(&long))), Code::TooLarge);
        assert_eq!(w.refuses(&anna(), kickoff("@pr-1", 1, Some(" "))), Code::Invalid);
        let same = KickOff { messages: ["m".into(), "m".into()], ..kickoff("@pr-1", 1, Some("@a begin")) };
        assert_eq!(w.refuses(&anna(), same), Code::AlreadyExists);
        assert_eq!(w.refuses(&by("a@pr-1"), kickoff("@pr-1", 1, None)), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), kickoff("@pr-2", 1, None)), Code::TeamNotFound);
        assert_eq!(w.team("@pr-1").kickoff, None);
    }

    #[test]
    fn where_there_is_no_context_nothing_is_posted_and_it_is_out_all_the_same() {
        let mut w = World::default();
        let settings = ContextSettings { provider: Some(Provider::Off), ..ContextSettings::default() };
        let instance = Instance::new("pr-1");
        w.does(&anna(), ConfigureContext { scope: Scope::of(&instance), settings, site: None });
        w.does(&anna(), starts("@pr-1", &["a"], 1));
        assert_eq!(w.does(&anna(), kickoff("@pr-1", 1, Some("@a begin"))), ["team.kicked_off"]);
        assert_eq!(w.team("@pr-1").kickoff.as_ref().unwrap().messages, []);
    }
}
