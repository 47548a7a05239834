//! What the log says that an agent did in a turn: whoever tries the turn again is told, so that nothing is done twice.

use rookery_core::messages::MessagesAcked;
use rookery_core::model::message::{Form, Letter, Recipients};
use rookery_core::model::turn::Turn;
use rookery_core::traits::LogRow;
use rookery_core::{EventRef, Seq};
use rookery_store::LogQuery;

use crate::error::EngineError;
use crate::teams::TeamsHandle;

/// How many are told, the newest of them.
pub const MAX_TURN_ACTIVITY: usize = 50;
/// How many rows are looked through for them.
const LOOKED_AT: u32 = 500;
const LINE_CHARACTERS: usize = 200;

/// Something that an agent did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TurnActivity {
    pub seq: Seq,
    pub kind: &'static str,
    /// In one line.
    pub summary: String,
}

impl TeamsHandle<'_> {
    /// What the agent of a turn did itself, from when the turn began until it ended.
    pub async fn turn_activity(&self, turn: &Turn) -> Result<Vec<TurnActivity>, EngineError> {
        let query = LogQuery {
            after: Some(turn.started),
            upto: turn.end.as_ref().map(|end| end.ended),
            actor: Some(turn.agent.to_string()),
            ..LogQuery::newest(LOOKED_AT)
        };
        let rows = self.engine.query().log(query).await?.value;
        let mut activities: Vec<TurnActivity> = rows.iter().filter_map(activity).take(MAX_TURN_ACTIVITY).collect();
        activities.reverse();
        Ok(activities)
    }
}

fn activity(row: &LogRow) -> Option<TurnActivity> {
    let summary = match row.event.typed() {
        // That it looked and that it is here is nothing that could be done twice.
        EventRef::MessagesRead(_)
        | EventRef::AgentRegistered(_)
        | EventRef::AgentUpdated(_)
        | EventRef::AgentReturned(_)
        | EventRef::AgentStatusSet(_)
        | EventRef::TurnStarted(_)
        | EventRef::TurnEnded(_)
        | EventRef::LeadChosen(_) => return None,
        // The event that it announces is listed.
        EventRef::MessageSent(fact) if fact.letter.header.is_notification() => return None,
        EventRef::MessageSent(fact) => said(&fact.letter),
        EventRef::MessageHeld(fact) => format!("{} (held for a person)", said(&fact.letter)),
        EventRef::MessagesAcked(MessagesAcked(fact)) => {
            let count = fact.messages.len() + fact.broadcasts.len();
            format!("acknowledged {count} message{}", if count == 1 { "" } else { "s" })
        }
        EventRef::DocumentWritten(fact) => format!("wrote {}, version {}", fact.id.path, fact.version),
        EventRef::DocumentDeleted(fact) => format!("deleted {}", fact.id.path),
        EventRef::CheckpointAdded(fact) => format!("noted on {}: {}", fact.task, fact.summary),
        EventRef::TaskCreated(fact) => format!("created {}: {}", fact.task, fact.title),
        EventRef::WorkspaceCreated(fact) => format!("created workspace {} on {}", fact.workspace, fact.branch),
        _ => {
            let fact = &row.event;
            let about = fact.task().map(ToString::to_string).or_else(|| fact.path().map(ToString::to_string));
            about.map_or_else(|| fact.kind().to_owned(), |about| format!("{} {about}", fact.kind()))
        }
    };
    Some(TurnActivity { seq: row.seq, kind: row.event.kind(), summary: line(&summary) })
}

fn said(letter: &Letter) -> String {
    let text = letter.subject.as_ref().unwrap_or(&letter.text);
    match (&letter.header.form, &letter.header.to) {
        (Form::Direct | Form::Coord, Recipients::Agents(agents)) => {
            let names: Vec<&str> = agents.iter().map(rookery_core::AgentId::as_str).collect();
            format!("wrote to {}: {text}", names.join(", "))
        }
        (Form::Direct | Form::Coord | Form::Envelope, _) => format!("wrote to everybody: {text}"),
        (Form::Entry, _) => format!("said in the channel: {text}"),
    }
}

/// The beginning of a text, in one line.
fn line(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}
