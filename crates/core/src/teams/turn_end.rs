//! The end of a turn, and what becomes of its messages by it.

use serde::{Deserialize, Serialize};

use super::by_system;
use crate::artifacts::is_sha256;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, Seq, Timestamp, TurnId};
use crate::kernel::instance::Instance;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::messages;
use crate::messages::{Cause, Open, SendMessage, StormGuard, What};
use crate::model::team::{LastTurn, Team, TeamRef, needs_person};
use crate::model::turn::{Failure, Turn, TurnConclusion, TurnEnd, Unsaid, Usage, not_found};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, NamedArtifacts, ReplySource, Subject};

impl Team {
    pub(crate) fn end_turn(&mut self, ended: &TurnEnded, at: Timestamp) {
        if let Some(member) = self.member_mut(&ended.agent) {
            member.turn = None;
            member.turns = member.turns.saturating_add(1);
            member.failed = member.failed.saturating_add(u64::from(ended.how == TurnConclusion::Failed));
            member.usage = member.usage.plus(&ended.usage);
            member.last = Some(LastTurn { how: ended.how, gave_up: ended.gave_up, at });
        }
    }
}

/// What follows a text that is longer than a message may be.
const CUT: &str = "\n… (cut here; the turn's transcript has the rest)";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndTurn {
    pub turn: TurnId,
    pub how: TurnConclusion,
    /// With a failure: whether no further attempt follows.
    pub last: bool,
    pub failure: Option<Failure>,
    pub usage: Usage,
    pub notes: Notes,
    /// What the agent said last, if it shall be posted for it.
    pub said: Option<String>,
    /// The id of what is posted.
    pub message: MessageId,
    /// People that it names, as in [`SendMessage`].
    pub people: Vec<String>,
    pub guard: StormGuard,
}

/// What is kept of a turn for those who look at it later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notes {
    pub conversation: Option<String>,
    pub transcript: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnEnded {
    pub turn: TurnId,
    #[serde(flatten)]
    pub of: TeamRef,
    pub agent: AgentId,
    pub how: TurnConclusion,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// What was posted by the same decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<MessageId>,
    /// Why what the agent said could not be posted for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaid: Option<Unsaid>,
}

impl TurnEnded {
    pub(super) fn end(&self, seq: Seq, at: Timestamp) -> TurnEnd {
        TurnEnd {
            how: self.how,
            gave_up: self.gave_up,
            failure: self.failure.clone(),
            usage: self.usage,
            conversation: self.conversation.clone(),
            transcript: self.transcript.clone(),
            posted: self.posted.clone(),
            unsaid: self.unsaid.clone(),
            ended: seq,
            at,
        }
    }
}

impl Event for TurnEnded {
    const KIND: &'static str = "turn.ended";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.agent), ..Subject::team(&self.of) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Turn(self.turn.clone()), self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.turn.clone(), |turn: &mut Turn| turn.end = Some(self.end(stamp.seq, stamp.at)));
        rows.update(self.of.team.clone(), |team: &mut Team| team.end_turn(self, stamp.at));
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("turn", &self.turn, &self.transcript)
    }
}

/// The turns of a team that are over because nobody is at them any more.
pub(crate) fn interrupted(team: &Team) -> Vec<AnyEvent> {
    let ended = |(agent, turn): (&AgentId, &TurnId)| {
        AnyEvent::new(TurnEnded {
            turn: turn.clone(),
            of: team.of.clone(),
            agent: agent.clone(),
            how: TurnConclusion::Interrupted,
            gave_up: false,
            failure: None,
            usage: Usage::default(),
            conversation: None,
            transcript: None,
            posted: None,
            unsaid: None,
        })
    };
    team.open_turns().map(ended).collect()
}

impl Command for EndTurn {
    const NAME: &'static str = "EndTurn";

    type Reply = Turn;

    fn read_set(&self) -> ReadSet {
        vec![Key::Turn(self.turn.clone()).into()]
    }

    /// Told twice, it is the same end; another one is refused.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Turn>, Undecided> {
        needs_person(cx.caller, "end a turn")?;
        self.check()?;
        let turn = cx.view.turn(&self.turn)?.ok_or_else(|| not_found(&self.turn))?;
        let reply = ReplySource::row(self.turn.clone());
        match &turn.end {
            Some(end) if end.how == self.how && end.gave_up == self.gives_up() => {
                return Ok(Decision::unchanged(reply));
            }
            Some(end) => return Err(ended_as(end).into()),
            None => {}
        }
        let open = Open::of(cx.view, &turn.agent, &turn.messages)?;
        let settled = match self.how {
            TurnConclusion::Done => open.acked().into_iter().collect(),
            TurnConclusion::Failed if self.gives_up() => open.given_up(turn.attempt, &self.why()),
            TurnConclusion::Failed | TurnConclusion::Interrupted => vec![],
        };
        let (posted, unsaid) = self.posts(cx, turn, settled.len())?;
        let posted_id = posted.first().map(|_| self.message.clone());
        let ended = AnyEvent::new(self.ended(turn, posted_id, unsaid));
        let facts = std::iter::once(ended).chain(settled).chain(posted).collect();
        Ok(Decision::new(facts, reply))
    }
}

impl EndTurn {
    fn ended(&self, turn: &Turn, posted: Option<MessageId>, unsaid: Option<Unsaid>) -> TurnEnded {
        TurnEnded {
            turn: self.turn.clone(),
            of: turn.of.clone(),
            agent: turn.agent.clone(),
            how: self.how,
            gave_up: self.gives_up(),
            failure: self.failure.clone().filter(|_| self.how != TurnConclusion::Done),
            usage: self.usage,
            conversation: self.notes.conversation.clone(),
            transcript: self.notes.transcript.clone(),
            posted,
            unsaid,
        }
    }

    fn gives_up(&self) -> bool {
        self.last && self.how == TurnConclusion::Failed
    }

    fn why(&self) -> String {
        self.failure
            .as_ref()
            .map_or_else(|| "it failed, and nobody said why".to_owned(), |failure| failure.reason.clone())
    }

    fn check(&self) -> Result<(), Rejection> {
        if let Some(failure) = &self.failure {
            limit::text("error.kind", &failure.kind, limit::NAME_BYTES)?;
            limit::text("error.message", &failure.reason, limit::TEXT_BYTES)?;
            limit::text("error.hint", failure.detail.as_deref().unwrap_or(""), limit::TITLE_BYTES)?;
        }
        limit::text("conversation", self.notes.conversation.as_deref().unwrap_or(""), limit::TITLE_BYTES)?;
        match &self.notes.transcript {
            Some(hash) if !is_sha256(hash) => {
                Err(Rejection::new(Code::Invalid, "transcript must be the hash of an artifact")
                    .hint("upload it first, and give 'sha256:' and the hash that is answered"))
            }
            _ => Ok(()),
        }
    }

    /// What is said in the channel by this. It is no reason not to end the turn that it cannot be.
    fn posts(
        &self,
        cx: &DecisionContext<'_>,
        turn: &Turn,
        given_up: usize,
    ) -> Result<(Vec<AnyEvent>, Option<Unsaid>), Undecided> {
        let (post, speaker) = match self.post(turn, given_up) {
            Some(post) if post.from == turn.agent => (post, cx.caller.clone()),
            Some(post) => (post, Caller::system()),
            None => return Ok((vec![], None)),
        };
        cx.view.ensure_loaded(post.read_set())?;
        match messages::posted(&DecisionContext { caller: &speaker, ..*cx }, std::slice::from_ref(&post)) {
            Ok(facts) => Ok((facts, None)),
            Err(Undecided::Rejected(refusal)) => {
                Ok((vec![], Some(Unsaid { text: post.text, reason: refusal.message })))
            }
            Err(missing) => Err(missing),
        }
    }

    fn post(&self, turn: &Turn, given_up: usize) -> Option<SendMessage> {
        let instance = Instance::of(&turn.agent);
        match self.how {
            TurnConclusion::Done => {
                let said = self.said.as_deref().filter(|said| !said.trim().is_empty())?;
                Some(SendMessage {
                    from: turn.agent.clone(),
                    cause: turn.messages.last().map_or(Cause::Nothing, |message| Cause::Shown(message.clone())),
                    people: self.people.clone(),
                    guard: self.guard,
                    ..by_system(&self.message, &instance, What::Entry, &cut(said))
                })
            }
            TurnConclusion::Failed if self.gives_up() => {
                let text = self.notice(&instance.calls(&turn.agent), turn.attempt, given_up);
                Some(by_system(&self.message, &instance, What::Notice, &text))
            }
            TurnConclusion::Failed | TurnConclusion::Interrupted => None,
        }
    }

    fn notice(&self, name: &str, attempts: u32, messages: usize) -> String {
        let why = self.why();
        let why = why[..why.floor_char_boundary(limit::TITLE_BYTES)].trim();
        let tried = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
        let lost = match messages {
            0 => String::new(),
            1 => "\n1 message was given up on: 'rookery deliveries --state dead' lists it, 'rookery deliveries retry' \
                  brings it back."
                .to_owned(),
            many => format!(
                "\n{many} messages were given up on: 'rookery deliveries --state dead' lists them, 'rookery deliveries \
                 retry' brings them back."
            ),
        };
        format!("{name} failed, tried {tried}: {why}{lost}")
    }
}

fn cut(said: &str) -> String {
    if said.len() <= limit::TEXT_BYTES {
        return said.to_owned();
    }
    format!("{}{CUT}", &said[..said.floor_char_boundary(limit::TEXT_BYTES - CUT.len())])
}

fn ended_as(end: &TurnEnd) -> Rejection {
    Rejection::new(Code::AlreadyAnswered, format!("the turn has ended already, as {}", end.how.as_str()))
        .hint("somebody else ended it: look at the turn before going on")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{MessagesAcked, RetryDelivery};
    use crate::model::message::{Fate, Standing};
    use crate::model::team::MemberState;
    use crate::model::{ArtifactRefId, DeliveryId};
    use crate::registry::EventRef;
    use crate::teams::StartTurn;
    use crate::testing::{World, anna, by, coord, direct, ends_turn, entry, fails, runs_in, wakes};

    const A: &str = "a@pr-1";

    /// `a` is at a turn with three messages, of which it has acknowledged one itself; a fourth came later.
    fn under_way() -> World {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        w.does(&by("b@pr-1"), entry("m1", "b@pr-1", "@a look"));
        w.does(&by("b@pr-1"), direct("m2", "b@pr-1", &[A]));
        w.does(&by("b@pr-1"), coord("all", "b@pr-1", "GENERAL", &[]));
        w.does(&anna(), wakes("t", "@pr-1", A, &["m1", "m2", "all"]));
        w.acks(A, &["m2"]);
        w.does(&by("b@pr-1"), entry("later", "b@pr-1", "@a one more"));
        w
    }

    fn is_dead(w: &World, message: &str) -> bool {
        let key = Key::Delivery(DeliveryId { message: message.into(), agent: A.into() });
        matches!(w.rows().get(&key), Some(crate::model::Row::Delivery(delivery)) if delivery.is_dead())
    }

    fn state(w: &World) -> MemberState {
        let team = w.team("@pr-1");
        team.state_of(team.member(&A.into()).unwrap())
    }

    #[test]
    fn done_acknowledges_what_is_open_of_the_turn_and_nothing_else() {
        let mut w = under_way();
        assert_eq!(state(&w), MemberState::Working);
        assert_eq!(w.does(&anna(), ends_turn("t", TurnConclusion::Done)), ["turn.ended", "message.acked"]);
        let Some(EventRef::MessagesAcked(MessagesAcked(receipt))) = w.log.last().map(|row| row.event.typed()) else {
            panic!()
        };
        assert_eq!((receipt.messages.as_slice(), receipt.agent.as_str()), (&["m1".into(), "all".into()][..], A));
        assert_eq!((w.pending(A), w.standing("later", A)), (vec!["later"], Some(Standing::Queued)));
        assert_eq!((state(&w), w.team("@pr-1").usage().cost_micros), (MemberState::Idle, Some(5)));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn the_last_failure_gives_up_what_is_open_and_says_so_to_nobody_in_particular() {
        let mut w = under_way();
        let facts = w.does(&anna(), fails("t", "@b is to blame"));
        assert_eq!(facts, ["turn.ended", "delivery.abandoned", "delivery.abandoned", "message.sent"]);
        assert_eq!(["m1", "m2", "all", "later"].map(|message| is_dead(&w, message)), [true, false, true, false]);
        assert_eq!((w.standing("m2", A), w.standing("m1", A)), (Some(Standing::Acked), Some(Standing::Read)));
        let notice = w.message("by_t");
        assert_eq!(notice.letter.header.from.as_str(), "system");
        assert!(notice.letter.text.starts_with("a failed, tried once: @b is to blame\n2 messages"), "{notice:?}");
        assert_eq!((notice.letter.header.mentions.len(), w.pending("b@pr-1")), (0, vec![]), "b is not told");
        assert_eq!(state(&w), MemberState::Failed);
        let retry = RetryDelivery { message: "m1".into(), agent: A.into() };
        assert_eq!(w.does(&anna(), retry), ["delivery.retried"]);
        w.does(&anna(), wakes("t2", "@pr-1", A, &["m1"]));
        w.does(&anna(), ends_turn("t2", TurnConclusion::Done));
        assert_eq!((w.standing("m1", A), state(&w)), (Some(Standing::Acked), MemberState::Idle));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_is_tried_again_is_left_as_it_was() {
        for how in [TurnConclusion::Failed, TurnConclusion::Interrupted] {
            let mut w = under_way();
            assert_eq!(w.does(&anna(), ends_turn("t", how)), ["turn.ended"]);
            assert_eq!((w.pending(A), state(&w)), (vec!["m1", "later"], MemberState::Waiting));
            let again = StartTurn { attempt: 2, ..wakes("t2", "@pr-1", A, &["m1", "all", "later"]) };
            w.does(&anna(), again);
            assert_eq!(w.does(&anna(), ends_turn("t2", TurnConclusion::Done)), ["turn.ended", "message.acked"]);
            assert_eq!(w.pending(A), [""; 0]);
        }
    }

    #[test]
    fn the_same_end_twice_is_one_and_another_is_refused() {
        let ends = [
            ends_turn("t", TurnConclusion::Done),
            ends_turn("t", TurnConclusion::Failed),
            fails("t", "no"),
            ends_turn("t", TurnConclusion::Interrupted),
        ];
        for (at, first) in ends.iter().enumerate() {
            let mut w = under_way();
            w.does(&anna(), first.clone());
            for (second_at, second) in ends.iter().enumerate() {
                if at == second_at {
                    assert_eq!(w.does(&anna(), second.clone()), [""; 0]);
                } else {
                    assert_eq!(w.refuses(&anna(), second.clone()), Code::AlreadyAnswered, "{first:?} {second:?}");
                }
            }
        }
        let mut w = under_way();
        assert_eq!(w.refuses(&anna(), ends_turn("x", TurnConclusion::Done)), Code::TurnNotFound);
        assert_eq!(w.refuses(&by(A), ends_turn("t", TurnConclusion::Done)), Code::Forbidden);
        let notes = Notes { transcript: Some("abc".to_owned()), ..Notes::default() };
        assert_eq!(w.refuses(&anna(), EndTurn { notes, ..ends_turn("t", TurnConclusion::Done) }), Code::Invalid);
    }

    #[test]
    fn what_the_agent_said_is_posted_for_it() {
        let says = |text: &str, how: TurnConclusion| EndTurn { said: Some(text.to_owned()), ..ends_turn("t", how) };
        let mut w = under_way();
        let facts = w.does(&anna(), says("@b all is well", TurnConclusion::Done));
        assert_eq!(facts, ["turn.ended", "message.acked", "message.sent"]);
        let said = &w.message("by_t").letter;
        assert_eq!((said.header.from.as_str(), said.text.as_str()), (A, "@b all is well"));
        assert_eq!(said.header.cause, Some("all".into()), "it is an answer to what the turn was for");
        assert_eq!(
            (w.pending("b@pr-1"), w.turn("t").end.as_ref().unwrap().posted.clone()),
            (vec!["by_t"], Some("by_t".into()))
        );
        assert_eq!(under_way().does(&anna(), says("  ", TurnConclusion::Done)), ["turn.ended", "message.acked"]);
        assert_eq!(
            under_way().does(&anna(), says("well", TurnConclusion::Failed)),
            ["turn.ended"],
            "it is tried again"
        );
        let mut w = under_way();
        w.does(&anna(), says(&"ü".repeat(limit::TEXT_BYTES), TurnConclusion::Done));
        let text = &w.message("by_t").letter.text;
        assert!(text.len() <= limit::TEXT_BYTES && text.ends_with(CUT));
    }

    #[test]
    fn agents_that_answer_each_other_by_turns_are_held_in_the_end() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        w.does(&anna(), crate::testing::kickoff("@pr-1", 1, Some("@a begin")));
        let guard = StormGuard { hops: 3, ..StormGuard::default() };
        let (mut last, names) = ("kickoff1".to_owned(), ["a", "b"]);
        for round in 0..5 {
            let (me, other) = (names[round % 2], names[(round + 1) % 2]);
            let turn = format!("t{round}");
            w.does(&anna(), wakes(&turn, "@pr-1", &format!("{me}@pr-1"), &[&last]));
            let said = Some(format!("@{other} and you?"));
            w.does(&anna(), EndTurn { said, guard, ..ends_turn(&turn, TurnConclusion::Done) });
            last = format!("by_{turn}");
            if matches!(w.message(&last).fate, Fate::Held(_)) {
                assert_eq!(round, 3);
                return;
            }
        }
        panic!("nobody held them");
    }

    #[test]
    fn what_cannot_be_said_does_not_keep_a_turn_from_its_end() {
        use crate::contexts::ConfigureContext;
        use crate::model::context_settings::{ContextSettings, Provider, Scope};
        let mut w = under_way();
        let settings = ContextSettings { provider: Some(Provider::Off), ..ContextSettings::default() };
        w.does(&anna(), ConfigureContext { scope: Scope::of(&Instance::new("pr-1")), settings, site: None });
        let said = Some("all is well".to_owned());
        assert_eq!(
            w.does(&anna(), EndTurn { said, ..ends_turn("t", TurnConclusion::Done) }),
            ["turn.ended", "message.acked"]
        );
        let end = w.turn("t").end.clone().unwrap();
        assert_eq!(end.unsaid.map(|unsaid| unsaid.text).as_deref(), Some("all is well"));
        assert_eq!(end.posted, None);
    }

    #[test]
    fn a_transcript_is_named_as_long_as_its_turn_is() {
        let mut w = under_way();
        let hash = "ab".repeat(32);
        let notes = Notes { transcript: Some(hash.clone()), conversation: Some("c".to_owned()) };
        w.does(&anna(), EndTurn { notes, ..ends_turn("t", TurnConclusion::Done) });
        assert!(w.rows().contains_key(&Key::ArtifactRef(ArtifactRefId { sha256: hash, by: "turn:t".to_owned() })));
    }
}
