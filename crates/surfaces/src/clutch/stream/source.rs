//! Where a connection reads from: what was, by the indexes of its filter, and then what is.

use rookery_core::log::LogRow;
use rookery_core::{AgentId, LogId, Position, Seq, Timestamp};
use rookery_engine::clutch::{Envelopes, MessageFilter, Rendered, Shown, Stretch, is_whole};
use rookery_engine::messages::{Mailbox, Parcel, Pull};
use rookery_engine::{Chunk, Subscription, subscribe};
use rookery_store::Published;

use crate::app::App;
use crate::clutch::ClutchError;

/// How many messages of the past are read at once. A client that does not take them keeps so many in memory.
const PAGE: u32 = 200;

pub(super) enum Source {
    /// A stretch of the past of which only some is wanted, so that the rest is not read.
    Past {
        log: LogId,
        stretch: Stretch,
    },
    Live(Box<Subscription>),
    /// What waits for an agent, and what comes for it.
    Inbox {
        mailbox: Box<Mailbox>,
        after: Seq,
    },
}

/// What comes next, and which of it is wanted.
pub(super) struct Portion {
    pub(super) rendered: Rendered,
    /// The places of the wanted entries; all of them if there are none of these.
    pub(super) picked: Option<Vec<usize>>,
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
            position => return Ok(Source::Live(Box::new(app.engine().subscribe(position).await?))),
        };
        let head = app.engine().tallies().await?.head;
        let after = subscribe::check(&position, &head)?;
        let stretch = Stretch { after, upto: Some(head.head), limit: PAGE };
        Ok(Source::Past { log: head.log, stretch })
    }

    /// What waits for an agent after a position, or all of it.
    pub(super) async fn inbox(app: &App, agent: &AgentId, after: Option<Position>) -> Result<Source, ClutchError> {
        let mailbox = Box::new(app.engine().mailbox(agent).await?);
        Ok(Source::Inbox { mailbox, after: after.map(|position| position.seq).unwrap_or_default() })
    }

    /// The last place that was looked at.
    pub(super) fn position(&self) -> Position {
        match self {
            Source::Past { log, stretch } => Position { log: Some(log.clone()), seq: stretch.after },
            Source::Live(subscription) => subscription.position(),
            Source::Inbox { after, .. } => Position { log: None, seq: *after },
        }
    }

    /// The next messages; waits until there are some. Safe to drop while it waits.
    pub(super) async fn next(&mut self, app: &App, filter: &MessageFilter) -> Result<Portion, ClutchError> {
        loop {
            let portion = match self {
                Source::Live(subscription) => live(app, subscription.next().await?, filter).await?,
                Source::Inbox { mailbox, after } => {
                    let pulled = mailbox.next(Pull { after: *after, most: Some(PAGE) }).await?;
                    *after = pulled.next.unwrap_or(*after);
                    let shown = pulled.messages.into_iter().map(shown);
                    Portion { rendered: Rendered::of(shown), picked: None }
                }
                Source::Past { log, stretch } => {
                    let page = app.engine().messages(filter, *stretch).await?;
                    let position = Position { log: Some(log.clone()), seq: stretch.after };
                    // Another history, or one that was set back behind what was shown.
                    subscribe::check(&position, &page.head)?;
                    match page.value.next {
                        Some(after) => stretch.after = after,
                        None => {
                            let seq = stretch.upto.unwrap_or(page.head.head);
                            let rest = Position { log: Some(log.clone()), seq };
                            *self = Source::Live(Box::new(app.engine().subscribe(Some(rest)).await?));
                        }
                    }
                    Portion { rendered: Rendered::of(page.value.messages), picked: None }
                }
            };
            if !portion.is_empty() {
                return Ok(portion);
            }
        }
    }
}

impl Portion {
    fn is_empty(&self) -> bool {
        self.picked.as_ref().map_or_else(|| self.rendered.entries().is_empty(), Vec::is_empty)
    }
}

fn shown(Parcel { seq, message, .. }: Parcel) -> Shown {
    Shown { seq, message, at: Timestamp::default() }
}

/// Of a live batch only the places are picked: it is rendered once for everybody.
async fn live(app: &App, chunk: Chunk, filter: &MessageFilter) -> Result<Portion, ClutchError> {
    let rows = match chunk {
        Chunk::Live(batch) if batch.rows().iter().all(is_whole) => return Ok(batched(&batch, filter)),
        // What is large is not in the row.
        Chunk::Live(batch) => batch.rows().to_vec(),
        Chunk::Read(rows) => rows,
    };
    let (rows, envelopes) = app.engine().to_show(rows).await?;
    let wanted = rows.iter().filter(|row| filter.takes(row, &envelopes));
    Ok(Portion { rendered: Rendered::of(wanted.map(|row| envelopes.shown(row))), picked: None })
}

fn batched(batch: &Published, filter: &MessageFilter) -> Portion {
    let envelopes = Envelopes::among(batch.rows());
    let wanted = |(_, row): &(usize, &LogRow)| filter.takes(row, &envelopes);
    let picked = (!filter.is_open())
        .then(|| batch.rows().iter().enumerate().filter(wanted).map(|(at, _)| at).collect::<Vec<_>>());
    if picked.as_ref().is_some_and(Vec::is_empty) {
        return Portion { rendered: Rendered::of([]), picked };
    }
    Portion { rendered: Rendered::of_batch(batch), picked }
}
