//! Putting away the channel of an instance, so that the conversations of two runs in it do not mix.
//!
//! Entries stay where they are: the instance shows those after the archive, and the archive those until then. What its agents did not
//! acknowledge is superseded, so that it reaches no agent of the next run.

use serde::{Deserialize, Serialize};

use super::Receipt;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, ThreadId, Timestamp};
use crate::kernel::instance::{Instance, check_name};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::message::{Delivery, Thread};
use crate::model::team::needs_person;
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, Row, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveChannel {
    pub instance: Instance,
    /// The instance that shows the entries from now on. It has no channel yet.
    pub archive: Instance,
    /// The agents of the next run.
    pub agents: Vec<AgentId>,
}

/// The entries of a channel are shown in another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChannelArchived {
    pub thread: ThreadId,
    pub archive: ThreadId,
    /// The time of the newest entry that was archived before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The time of the newest entry.
    pub until: Timestamp,
    pub messages: u64,
}

impl Event for ChannelArchived {
    const KIND: &'static str = "channel.archived";

    fn subject(&self) -> Subject<'_> {
        Subject { thread: Some(&self.thread), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Thread(self.thread.clone()), Key::Thread(self.archive.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        let ChannelArchived { thread, archive, after, until, messages } = self.clone();
        rows.update(thread.clone(), |thread: &mut Thread| thread.begin_after(until));
        rows.put(archive.clone(), Thread::archive(archive, thread, after, until, messages));
    }
}

/// Messages that an agent is not given any more: they offer a task that was withdrawn, or are of an earlier run. A late
/// acknowledgement still counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessagesSuperseded(pub Receipt);

impl Event for MessagesSuperseded {
    const KIND: &'static str = "message.superseded";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.0.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        for id in self.0.deliveries() {
            rows.replace(id, |open: Option<Delivery>| open.map(|open| open.supersede(stamp.at)));
        }
    }
}

impl Command for ArchiveChannel {
    const NAME: &'static str = "ArchiveChannel";

    type Reply = Thread;

    fn read_set(&self) -> ReadSet {
        let threads = [&self.instance, &self.archive].map(|instance| ReadItem::from(Key::Thread(instance.thread())));
        threads.into_iter().chain(self.agents.iter().map(|agent| Lookup::pending_deliveries(agent).into())).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Thread>, Undecided> {
        needs_person(cx.caller, "archive a channel")?;
        self.check()?;
        let (thread, archive) = (self.instance.thread(), self.archive.thread());
        let reply = ReplySource::row(archive.clone());
        if let Some(known) = cx.view.thread(&archive)? {
            return match known.archive_of() {
                // The answer was lost.
                Some(of) if *of == thread => Ok(Decision::unchanged(reply)),
                _ => Err(self.is_taken().into()),
            };
        }
        let begun = cx.view.thread(&thread)?.filter(|thread| thread.archive_of().is_none() && thread.messages > 0);
        let Some(known) = begun else {
            return Err(Rejection::new(Code::InvalidState, format!("nothing was said in '{}'", self.instance))
                .hint("there is nothing to archive")
                .into());
        };
        let mut events = vec![AnyEvent::new(ChannelArchived {
            thread,
            archive,
            after: known.archived_until,
            until: known.last_at,
            messages: known.messages,
        })];
        for agent in &self.agents {
            let rows = cx.view.all(&Lookup::pending_deliveries(agent))?;
            let open = |row: &Row| if let Row::Delivery(open) = row { Some(open.message.clone()) } else { None };
            let messages: Vec<_> = rows.into_iter().filter_map(open).collect();
            events.extend(messages.chunks(limit::LIST_ENTRIES).map(|messages| {
                let messages = messages.to_vec();
                AnyEvent::new(MessagesSuperseded(Receipt { agent: agent.clone(), messages, broadcasts: vec![] }))
            }));
        }
        Ok(Decision::new(events, reply))
    }
}

impl ArchiveChannel {
    fn check(&self) -> Result<(), Rejection> {
        check_name("archive", &format!("x@{}", self.archive))?;
        if self.agents.len() > limit::TEAM_AGENTS {
            return Err(Rejection::new(Code::TooLarge, format!("more than {} agents", limit::TEAM_AGENTS)));
        }
        match self.agents.iter().find(|agent| self.instance.member(agent.as_str()) != **agent) {
            Some(other) => {
                Err(Rejection::new(Code::Invalid, format!("agents: '{other}' is written with its instance")))
            }
            None => Ok(()),
        }
    }

    fn is_taken(&self) -> Rejection {
        Rejection::new(Code::AlreadyExists, format!("there is a channel '{}' already", self.archive))
            .hint("choose a name that is free")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, anna, by, coord, direct, entry};

    fn archives(archive: &str, agents: &[&str]) -> ArchiveChannel {
        let agents = agents.iter().map(|agent| AgentId::from(*agent)).collect();
        ArchiveChannel { instance: Instance::default(), archive: Instance::new(archive), agents }
    }

    fn thread(w: &World, id: &str) -> Thread {
        match w.rows().get(&Key::Thread(id.into())) {
            Some(Row::Thread(thread)) => thread.clone(),
            _ => panic!("no thread {id}"),
        }
    }

    #[test]
    fn archived_channel_begins_empty_and_its_entries_are_shown_elsewhere() {
        let mut w = World::of(&["a@default", "b@default"]);
        w.now = 1_000;
        w.does(&by("a@default"), entry("m1", "a@default", "first"));
        assert_eq!(w.does(&anna(), archives("default.1", &[])), ["channel.archived"]);
        assert_eq!(w.does(&anna(), archives("default.1", &[])), [""; 0], "the answer was lost");
        w.now = 500;
        w.does(&by("b@default"), entry("m2", "b@default", "second"));
        let (now, first) = (thread(&w, "thr_default"), thread(&w, "thr_default.1"));
        assert_eq!((now.messages, first.messages), (1, 1));
        let (m1, m2) = (w.message("m1").at, w.message("m2").at);
        assert!(m1 < m2, "times increase although the clock went back");
        assert_eq!(first.entries(), ("thr_default".into(), None, Some(m1)));
        assert_eq!(now.entries(), ("thr_default".into(), Some(m1), None));
        w.does(&anna(), archives("default.2", &[]));
        assert_eq!(thread(&w, "thr_default.2").entries(), ("thr_default".into(), Some(m1), Some(m2)));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn unread_messages_of_archived_channel_do_not_reach_the_next_run() {
        let mut w = World::of(&["a@default", "b@default", "b"]);
        w.does(&by("a@default"), entry("m1", "a@default", "@b and @agent:b"));
        w.does(&by("a@default"), direct("m2", "a@default", &["b@default"]));
        w.does(&by("a@default"), coord("m3", "a@default", "GENERAL", &["b@default"]));
        let agents = ["a@default", "b@default"];
        assert_eq!(w.does(&anna(), archives("default.1", &agents)), ["channel.archived", "message.superseded"]);
        assert_eq!(
            (w.pending("b@default"), w.pending("b")),
            (vec![], vec!["m1"]),
            "a standalone agent keeps its inbox"
        );
        w.does(&by("a@default"), entry("m4", "a@default", "@b again"));
        assert_eq!(w.pending("b@default"), ["m4"]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn archive_needs_a_person_a_free_name_and_something_said() {
        let mut w = World::of(&["a@default"]);
        assert_eq!(w.refuses(&anna(), archives("default.1", &[])), Code::InvalidState);
        w.does(&by("a@default"), entry("m1", "a@default", "first"));
        w.does(&by("a@x"), entry("m2", "a@x", "elsewhere"));
        assert_eq!(w.refuses(&by("a@default"), archives("default.1", &[])), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), archives("x", &[])), Code::AlreadyExists);
        assert_eq!(w.refuses(&anna(), archives("a b", &[])), Code::Invalid);
        assert_eq!(w.refuses(&anna(), archives("default.1", &["a"])), Code::Invalid);
        w.does(&anna(), archives("default.1", &[]));
        assert_eq!(w.refuses(&anna(), archives("default.2", &[])), Code::InvalidState, "nothing was said since");
    }

    #[test]
    fn message_to_archived_channel_is_rejected() {
        let mut w = World::of(&["a@default"]);
        w.does(&by("a@default"), entry("m1", "a@default", "first"));
        w.does(&anna(), archives("default.1", &[]));
        let late = entry("m2", "person:anna", "late");
        let late = super::super::SendMessage { run: "run_default.1".into(), thread: "thr_default.1".into(), ..late };
        assert_eq!(w.refuses(&anna(), late), Code::InvalidState);
    }
}
