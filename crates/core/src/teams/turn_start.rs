//! An agent is woken.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, Seq, TeamId, Timestamp, TurnId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::messages::Open;
use crate::model::agent::Agent;
use crate::model::team::{Team, TeamRef, needs_person};
use crate::model::turn::{Turn, WakeReason};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartTurn {
    pub turn: TurnId,
    pub team: TeamId,
    pub generation: u64,
    pub agent: AgentId,
    /// The first is 1.
    pub attempt: u32,
    pub woken: WakeReason,
    /// What the agent is shown: it is marked as read by this.
    pub messages: Vec<MessageId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnStarted {
    pub turn: TurnId,
    #[serde(flatten)]
    pub of: TeamRef,
    pub agent: AgentId,
    pub attempt: u32,
    pub woken: WakeReason,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageId>,
}

impl TurnStarted {
    pub(super) fn turn(&self, seq: Seq, at: Timestamp) -> Turn {
        Turn {
            id: self.turn.clone(),
            of: self.of.clone(),
            agent: self.agent.clone(),
            attempt: self.attempt,
            woken: self.woken,
            messages: self.messages.clone(),
            started: seq,
            started_at: at,
            end: None,
        }
    }
}

impl Event for TurnStarted {
    const KIND: &'static str = "turn.started";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.agent), ..Subject::team(&self.of) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Turn(self.turn.clone()), self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.turn.clone(), self.turn(stamp.seq, stamp.at));
        rows.update(self.of.team.clone(), |team: &mut Team| team.begin_turn(&self.agent, &self.turn));
    }
}

impl Command for StartTurn {
    const NAME: &'static str = "StartTurn";

    type Reply = Turn;

    fn read_set(&self) -> ReadSet {
        let own = [Key::Turn(self.turn.clone()), Key::Team(self.team.clone()), Key::Agent(self.agent.clone())];
        own.into_iter().map(ReadItem::from).chain(Open::read_set(&self.agent, &self.messages)).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Turn>, Undecided> {
        needs_person(cx.caller, "wake agents")?;
        self.check()?;
        let team = cx.view.team_live(&self.team, self.generation)?;
        self.is_idle(team)?;
        cx.view.find_agent(&self.agent)?.map_or(Ok(()), Agent::may_be_woken)?;
        if cx.view.turn(&self.turn)?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("turn {} exists", self.turn)).into());
        }
        let open = Open::of(cx.view, &self.agent, &self.messages)?.for_showing()?;
        if open.is_empty() && self.woken == WakeReason::Messages {
            return Err(Rejection::new(Code::InvalidState, "none of these messages waits for the agent any more")
                .hint("look at its inbox again; what was given up on waits until it is tried again")
                .into());
        }
        let started = AnyEvent::new(TurnStarted {
            turn: self.turn.clone(),
            of: team.of.clone(),
            agent: self.agent.clone(),
            attempt: self.attempt,
            woken: self.woken,
            messages: open.ids(),
        });
        let facts = std::iter::once(started).chain(open.read()).collect();
        Ok(Decision::new(facts, ReplySource::row(self.turn.clone())))
    }
}

impl StartTurn {
    fn check(&self) -> Result<(), Rejection> {
        limit::name("turn", self.turn.as_str(), limit::NAME_BYTES)?;
        limit::list("messages", &self.messages)?;
        match self.attempt {
            0 => Err(Rejection::new(Code::Invalid, "attempt must be at least 1")),
            _ => Ok(()),
        }
    }

    fn is_idle(&self, team: &Team) -> Result<(), Rejection> {
        match team.member(&self.agent) {
            None => Err(Rejection::new(Code::AgentNotFound, format!("'{}' is not in {}", self.agent, self.team))),
            Some(member) => match &member.turn {
                None => Ok(()),
                Some(turn) => {
                    let message = format!("'{}' is at {turn} still", self.agent);
                    Err(Rejection::new(Code::Conflict, message).hint("end that turn first"))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message::Standing;
    use crate::model::team::Conclusion;
    use crate::model::turn::TurnConclusion;
    use crate::testing::{anna, by, coord, direct, end, ends_turn, entry, fails, runs_in, wakes};

    #[test]
    fn an_agent_is_shown_its_messages_by_one_turn_at_a_time() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        w.does(&by("b@pr-1"), entry("m", "b@pr-1", "@a look"));
        w.does(&by("b@pr-1"), coord("all", "b@pr-1", "GENERAL", &[]));
        let facts = w.does(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["m", "all", "m"]));
        assert_eq!(facts, ["turn.started", "message.read"]);
        assert_eq!(
            (w.standing("m", "a@pr-1"), w.standing("all", "a@pr-1")),
            (Some(Standing::Read), Some(Standing::Read))
        );
        assert_eq!(w.turn("t1").messages, ["m".into(), "all".into()]);
        let refused = w.run(&anna(), wakes("t2", "@pr-1", "a@pr-1", &["m"])).unwrap_err();
        assert!(refused.code == Code::Conflict && refused.message.contains("t1"), "{refused:?}");
        w.does(&anna(), ends_turn("t1", TurnConclusion::Failed));
        let again = StartTurn { attempt: 2, ..wakes("t2", "@pr-1", "a@pr-1", &["m", "all"]) };
        assert_eq!(w.does(&anna(), again), ["turn.started"], "it was shown them before");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_does_not_wait_wakes_nobody() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        for id in ["acked", "dead", "open"] {
            w.does(&by("b@pr-1"), direct(id, "b@pr-1", &["a@pr-1"]));
        }
        w.reads("a@pr-1", &["acked"]);
        w.acks("a@pr-1", &["acked"]);
        w.does(&anna(), wakes("t0", "@pr-1", "a@pr-1", &["dead"]));
        w.does(&anna(), fails("t0", "it broke"));
        for gone in ["acked", "dead"] {
            assert_eq!(w.refuses(&anna(), wakes("t1", "@pr-1", "a@pr-1", &[gone])), Code::InvalidState, "{gone}");
        }
        assert_eq!(w.refuses(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["open", "nothing"])), Code::MessageNotFound);
        assert_eq!(w.refuses(&anna(), wakes("t1", "@pr-1", "b@pr-1", &["open"])), Code::MessageNotFound);
        w.does(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["acked", "open", "dead"]));
        assert_eq!(w.turn("t1").messages, ["open".into()]);
        let on_time = StartTurn { woken: WakeReason::Wakeup, ..wakes("t2", "@pr-1", "b@pr-1", &[]) };
        assert_eq!(w.does(&anna(), on_time), ["turn.started"]);
    }

    #[test]
    fn only_the_generation_that_runs_wakes_its_own_agents() {
        let mut w = runs_in("@pr-1", &["a"]);
        let woken = |team: &str, agent: &str| StartTurn { woken: WakeReason::Direct, ..wakes("t", team, agent, &[]) };
        assert_eq!(w.refuses(&by("a@pr-1"), woken("@pr-1", "a@pr-1")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), woken("@pr-2", "a@pr-1")), Code::TeamNotFound);
        assert_eq!(w.refuses(&anna(), woken("@pr-1", "b@pr-1")), Code::AgentNotFound);
        assert_eq!(w.refuses(&anna(), StartTurn { generation: 2, ..woken("@pr-1", "a@pr-1") }), Code::Stale);
        assert_eq!(w.refuses(&anna(), StartTurn { attempt: 0, ..woken("@pr-1", "a@pr-1") }), Code::Invalid);
        w.does(&anna(), woken("@pr-1", "a@pr-1"));
        w.does(&anna(), ends_turn("t", TurnConclusion::Done));
        assert_eq!(w.refuses(&anna(), woken("@pr-1", "a@pr-1")), Code::AlreadyExists);
        w.does(&anna(), end("@pr-1", 1, Conclusion::Completed));
        assert_eq!(w.refuses(&anna(), woken("@pr-1", "a@pr-1")), Code::InvalidState);
    }
}
