//! Where a connection reads from: what was, by the indexes of its filter, and then what is.

use rookery_core::traits::LogRow;
use rookery_core::{AgentId, LogId, Position, Seq};
use rookery_engine::history::Stretch;
use rookery_engine::message_view::{MessageFilter, PositionedMessage, RenderedBatch};
use rookery_engine::messages::{Mailbox, Parcel, Pull};
use rookery_engine::{Chunk, Published, Subscription, subscribe};

use super::frame::Subscribe;
use crate::clutch::{ClutchError, filter};
use crate::http::App;

/// How many messages of the past are read at once, and how much of what came with them. A client that does not take them
/// keeps so much in memory.
const PAGE: u32 = 200;
const PAGE_BYTES: usize = 1024 * 1024;

/// What a connection follows, and from where.
pub(super) struct Followed {
    pub(super) filter: MessageFilter,
    pub(super) source: Source,
}

pub(super) enum Source {
    /// A stretch of the past of which only some is wanted, so that the rest is not read.
    Past {
        log: LogId,
        stretch: Stretch,
    },
    Live(Box<Live>),
    /// What waits for an agent, and what comes for it.
    Inbox {
        mailbox: Box<Mailbox>,
        after: Seq,
    },
}

pub(super) struct Live {
    subscription: Subscription,
    /// What the subscription gave and was not handed on yet.
    pending: Option<Chunk>,
}

/// What comes next, and which of it is wanted.
pub(super) struct Portion {
    pub(super) rendered: RenderedBatch,
    /// The places of the wanted entries; all of them if there are none of these.
    pub(super) picked: Option<Vec<usize>>,
}

impl Followed {
    pub(super) fn is_inbox(&self) -> bool {
        matches!(self.source, Source::Inbox { .. })
    }

    /// The next messages; waits until there are some. Safe to drop while it waits.
    pub(super) async fn next(&mut self, app: &App) -> Result<Portion, ClutchError> {
        self.source.next(app, &self.filter).await
    }

    /// Follows something else, and tells after which place. What cannot be followed changes nothing.
    pub(super) async fn change(&mut self, app: &App, wanted: &Subscribe) -> Result<Seq, ClutchError> {
        let filter = wanted.wanted().filter()?;
        let position = wanted.position()?.or_else(|| self.source.position());
        let source = Source::open(app, &filter, position).await?;
        let after = source.position().map(|position| position.seq).unwrap_or_default();
        *self = Followed { filter, source };
        Ok(after)
    }
}

impl Source {
    /// Begins after a position, or now.
    pub(super) async fn open(
        app: &App,
        filter: &MessageFilter,
        position: Option<Position>,
    ) -> Result<Source, ClutchError> {
        let position = match position {
            Some(position) if !filter.is_open() => position,
            position => return Source::live(app, position).await,
        };
        let head = app.engine().query().tallies().await?.head;
        let after = subscribe::check(&position, &head)?;
        let stretch = Stretch { after, upto: Some(head.head), limit: PAGE };
        Ok(Source::Past { log: head.log, stretch })
    }

    /// What waits for an agent after a position, or all of it.
    pub(super) async fn inbox(app: &App, agent: &AgentId, after: Option<Position>) -> Result<Source, ClutchError> {
        let mailbox = Box::new(app.engine().inbox().stream(agent).await?);
        let after = match after {
            Some(position) => filter::lies_here(app, &position).await?,
            None => Seq::ZERO,
        };
        Ok(Source::Inbox { mailbox, after })
    }

    async fn live(app: &App, position: Option<Position>) -> Result<Source, ClutchError> {
        let subscription = app.engine().subscribe(position).await?;
        Ok(Source::Live(Box::new(Live { subscription, pending: None })))
    }

    /// The last place of the log that was looked at. An inbox goes by what waits, not by the log.
    fn position(&self) -> Option<Position> {
        match self {
            Source::Past { log, stretch } => Some(Position { log: Some(log.clone()), seq: stretch.after }),
            Source::Live(live) => Some(live.position()),
            Source::Inbox { .. } => None,
        }
    }

    async fn next(&mut self, app: &App, filter: &MessageFilter) -> Result<Portion, ClutchError> {
        loop {
            let portion = match self {
                Source::Live(live) => live.next(app, filter).await?,
                Source::Inbox { mailbox, after } => {
                    let pulled = mailbox.next(Pull { after: *after, most: Some(PAGE) }).await?;
                    *after = pulled.next.unwrap_or(*after);
                    let shown = pulled.messages.into_iter().map(shown);
                    Portion { rendered: RenderedBatch::of(shown), picked: None }
                }
                Source::Past { log, stretch } => {
                    let page = app.engine().history().messages(filter, *stretch).await?;
                    let position = Position { log: Some(log.clone()), seq: stretch.after };
                    // Another history, or one that was set back behind what was shown.
                    subscribe::check(&position, &page.head)?;
                    match page.value.next {
                        Some(after) => stretch.after = after,
                        None => {
                            let seq = stretch.upto.unwrap_or(page.head.head);
                            *self = Source::live(app, Some(Position { log: Some(log.clone()), seq })).await?;
                        }
                    }
                    Portion { rendered: RenderedBatch::of(page.value.messages), picked: None }
                }
            };
            if !portion.is_empty() {
                return Ok(portion);
            }
        }
    }
}

impl Live {
    fn position(&self) -> Position {
        let position = self.subscription.position();
        match self.pending.as_ref().and_then(|chunk| chunk.rows().first()) {
            Some(first) => Position { seq: Seq(first.seq.0.saturating_sub(1)), ..position },
            None => position,
        }
    }

    async fn next(&mut self, app: &App, filter: &MessageFilter) -> Result<Portion, ClutchError> {
        // Kept until it is handed on, so that nothing is lost if nobody waits for it any more.
        let chunk = match self.pending.take() {
            Some(chunk) => self.pending.insert(chunk),
            None => self.pending.insert(self.subscription.next().await?),
        };
        let (portion, rest) = match chunk {
            Chunk::Live(batch) => (live(app, batch, filter).await?, None),
            Chunk::Read(rows) => read(app, rows, filter).await?,
        };
        self.pending = rest.map(Chunk::Read);
        Ok(portion)
    }
}

/// Of a live batch only the places are picked: it is rendered once for everybody.
async fn live(app: &App, batch: &Published, filter: &MessageFilter) -> Result<Portion, ClutchError> {
    if filter.is_open() {
        return Ok(Portion { rendered: app.engine().history().render(batch).await?, picked: None });
    }
    let envelopes = app.engine().history().source_envelopes(batch.rows()).await?;
    let wanted = |(_, row): &(usize, &LogRow)| filter.takes(row, &envelopes);
    let picked: Vec<usize> = batch.rows().iter().enumerate().filter(wanted).map(|(at, _)| at).collect();
    let rendered = if picked.is_empty() { RenderedBatch::of([]) } else { app.engine().history().render(batch).await? };
    Ok(Portion { rendered, picked: Some(picked) })
}

/// As much of what was read back as may be kept for a client, and the rest of it.
async fn read(
    app: &App,
    rows: &[LogRow],
    filter: &MessageFilter,
) -> Result<(Portion, Option<Vec<LogRow>>), ClutchError> {
    let envelopes = app.engine().history().source_envelopes(rows).await?;
    let wanted: Vec<LogRow> = rows.iter().filter(|row| filter.takes(row, &envelopes)).cloned().collect();
    let mut bytes_left = PAGE_BYTES;
    let shown = app.engine().history().show_rows(&wanted, &envelopes, &mut bytes_left).await?;
    let last = shown.last().filter(|_| shown.len() < wanted.len()).map(|last| last.seq);
    let rest = last.map(|last| rows.iter().filter(|row| row.seq > last).cloned().collect());
    Ok((Portion { rendered: RenderedBatch::of(shown), picked: None }, rest))
}

impl Portion {
    fn is_empty(&self) -> bool {
        self.picked.as_ref().map_or_else(|| self.rendered.entries().is_empty(), Vec::is_empty)
    }
}

fn shown(Parcel { seq, at, message, .. }: Parcel) -> PositionedMessage {
    PositionedMessage { seq, message, at }
}
