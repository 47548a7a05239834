//! Messages by run, thread, task, sender and type: each is an index of the log, and a page costs what it holds.

use rookery_core::log::LogRow;
use rookery_core::{RunId, Seq, TaskId, ThreadId, envelope};
use rookery_store::LogQuery;

use super::show::{self, Shown, shown};
use crate::engine::{Engine, EngineError};
use crate::queries::At;

/// What a page reads of the log at most, in bytes of its facts: it may hold fewer messages than were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many rows are looked at for one page, where only some of a kind are wanted.
const LOOKED_AT: usize = 10_000;
const READ_ON: u32 = 1_000;

/// Which messages; every given condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageFilter {
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub task: Option<TaskId>,
    /// The sender, as the log names authors.
    pub from: Option<String>,
    /// The type that it is shown with.
    pub message_type: Option<String>,
}

/// What lies between two places of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub after: Seq,
    /// The last place, if it is not the head.
    pub upto: Option<Seq>,
    /// How many messages at most.
    pub limit: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct MessagePage {
    pub messages: Vec<Shown>,
    /// The place to go on after, if there may be more.
    pub next: Option<Seq>,
}

impl MessageFilter {
    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        *self == MessageFilter::default()
    }

    pub fn takes(&self, row: &LogRow) -> bool {
        let run = || row.run.as_ref().map_or("run_default", RunId::as_str);
        let thread = || row.thread.as_ref().map_or("thr_default", ThreadId::as_str);
        self.run.as_ref().is_none_or(|wanted| wanted.as_str() == run())
            && self.thread.as_ref().is_none_or(|wanted| wanted.as_str() == thread())
            && self.task.as_ref().is_none_or(|wanted| row.task() == Some(wanted))
            && self.from.as_ref().is_none_or(|wanted| row.actor.to_string() == *wanted)
            && self.takes_type(row)
    }

    fn takes_type(&self, row: &LogRow) -> bool {
        self.message_type.as_ref().is_none_or(|wanted| show::type_of(row) == wanted)
    }

    fn query(&self, stretch: Stretch) -> LogQuery {
        let kinds = self.message_type.as_deref().map(envelope::kinds_shown_as);
        LogQuery {
            upto: stretch.upto,
            actor: self.from.clone(),
            kinds: kinds.map(|kinds| kinds.into_iter().map(str::to_owned).collect()),
            run: self.run.as_ref().map(ToString::to_string),
            thread: self.thread.as_ref().map(ToString::to_string),
            task: self.task.as_ref().map(ToString::to_string),
            bytes: PAGE_BYTES,
            ..LogQuery::after(stretch.after, stretch.limit.saturating_add(1))
        }
    }
}

impl Engine {
    /// The messages of a stretch in order. What is committed meanwhile is left out, so that all of it is true at the head
    /// of the first read.
    pub async fn messages(&self, filter: &MessageFilter, stretch: Stretch) -> Result<At<MessagePage>, EngineError> {
        let limit = stretch.limit as usize;
        let mut query = filter.query(stretch);
        let mut page = self.log(query.clone()).await?;
        let head = page.head.clone();
        query.upto = Some(stretch.upto.map_or(head.head, |upto| upto.min(head.head)));
        let (mut messages, mut looked_at) = (Vec::new(), 0);
        let next = loop {
            let rows = page.value;
            looked_at += rows.len();
            messages.extend(rows.iter().filter(|row| filter.takes_type(row)).map(shown));
            if messages.len() > limit {
                messages.truncate(limit);
                break messages.last().map(|message: &Shown| message.seq);
            }
            let Some(last) = rows.last().map(|row| row.seq) else { break None };
            query.after = Some(last);
            if rows.len() < query.limit as usize {
                // It ended there, or with as many bytes as a page may have.
                let more = self.log(LogQuery { limit: 1, ..query }).await?;
                break (!more.value.is_empty()).then_some(last);
            }
            if looked_at >= LOOKED_AT {
                break Some(last);
            }
            query.limit = READ_ON;
            page = self.log(query.clone()).await?;
        };
        Ok(At { value: MessagePage { messages, next }, head })
    }
}
