//! Where a connection reads from: what was, by the indexes of its filter, and then what is.

use rookery_core::log::LogRow;
use rookery_core::{LogId, Position};
use rookery_engine::clutch::{MessageFilter, Rendered, Stretch, shown};
use rookery_engine::{Chunk, Subscription, subscribe};

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

    /// The last place that was looked at.
    pub(super) fn position(&self) -> Position {
        match self {
            Source::Past { log, stretch } => Position { log: Some(log.clone()), seq: stretch.after },
            Source::Live(subscription) => subscription.position(),
        }
    }

    /// The next messages; waits until there are some. Safe to drop while it waits.
    pub(super) async fn next(&mut self, app: &App, filter: &MessageFilter) -> Result<Portion, ClutchError> {
        loop {
            let portion = match self {
                Source::Live(subscription) => live(&subscription.next().await?, filter),
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

/// Of a live batch only the places are picked: it is rendered once for everybody.
fn live(chunk: &Chunk, filter: &MessageFilter) -> Portion {
    match chunk {
        Chunk::Live(batch) => {
            let wanted = |(_, row): &(usize, &LogRow)| filter.takes(row);
            let picked = (!filter.is_open())
                .then(|| batch.rows().iter().enumerate().filter(wanted).map(|(at, _)| at).collect::<Vec<_>>());
            if picked.as_ref().is_some_and(Vec::is_empty) {
                return Portion { rendered: Rendered::of([]), picked };
            }
            Portion { rendered: Rendered::of_batch(batch), picked }
        }
        Chunk::Read(rows) => {
            let wanted = rows.iter().filter(|row| filter.takes(row));
            Portion { rendered: Rendered::of(wanted.map(shown)), picked: None }
        }
    }
}
