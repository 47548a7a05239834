//! Teams that runners run, and the turns of their agents, as surfaces ask for them.

mod start;
mod turn_activity;

use rookery_core::model::Table;
use rookery_core::model::team::Team;
use rookery_core::model::turn::Turn;
use rookery_core::{AgentId, Key, Row, TeamId, TurnId};
use rookery_store::RowQuery;
use rookery_store::query::{ColumnTest, Order};

pub use start::TEAM_START_TIMEOUT;
pub use turn_activity::{MAX_TURN_ACTIVITY, TurnActivity};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::{At, QueryHandle};

/// Starts teams from team files, and tells what happened in a turn.
#[derive(Clone, Copy, Debug)]
pub struct TeamsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`TeamsHandle`].
    pub fn teams(&self) -> TeamsHandle<'_> {
        TeamsHandle { engine: self }
    }
}

/// Teams and turns come in pages of so many unless asked otherwise.
const PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// Which turns; every given condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TurnFilter {
    pub agent: Option<AgentId>,
    pub team: Option<TeamId>,
    pub limit: Option<u32>,
}

/// Which teams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TeamFilter {
    All,
    Live,
    Ended,
}

impl TeamsHandle<'_> {
    pub fn mint_turn(&self) -> TurnId {
        TurnId::new(self.engine.mint("turn_"))
    }
}

impl QueryHandle<'_> {
    pub async fn team(&self, id: &TeamId) -> Result<At<Option<Team>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![Key::Team(id.clone())]).await?;
        Ok(At { value: rows.pop().flatten().and_then(team_of), head })
    }

    /// Those that somebody runs first, and the newest first of either.
    pub async fn teams(&self, filter: TeamFilter, limit: Option<u32>) -> Result<At<Vec<Team>>, EngineError> {
        let limit = page(limit);
        let wanted = match filter {
            TeamFilter::All => &[true, false][..],
            TeamFilter::Live => &[true],
            TeamFilter::Ended => &[false],
        };
        let list = |live: &bool| {
            let of_kind = RowQuery::all(Table::Teams).with("live", ColumnTest::Is((*live).into()));
            newest_first(of_kind).at_most(Some(limit))
        };
        let (lists, head) = self.engine.store().lists(wanted.iter().map(list).collect()).await?;
        let mut teams: Vec<Team> = lists.into_iter().flatten().filter_map(team_of).collect();
        teams.truncate(limit as usize);
        Ok(At { value: teams, head })
    }

    pub async fn turn(&self, id: &TurnId) -> Result<At<Option<Turn>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![Key::Turn(id.clone())]).await?;
        Ok(At { value: rows.pop().flatten().and_then(turn_of), head })
    }

    /// Those of these ids that there are, in order.
    pub async fn turns_by_id(&self, ids: &[TurnId]) -> Result<Vec<Turn>, EngineError> {
        let (rows, _) = self.engine.store().rows(ids.iter().cloned().map(Key::Turn).collect()).await?;
        Ok(rows.into_iter().flatten().filter_map(turn_of).collect())
    }

    /// The newest first.
    pub async fn turns(&self, filter: &TurnFilter) -> Result<At<Vec<Turn>>, EngineError> {
        let mut query = newest_first(RowQuery::all(Table::Turns)).at_most(Some(page(filter.limit)));
        if let Some(agent) = &filter.agent {
            query = query.with("agent", ColumnTest::Is(agent.as_str().into()));
        }
        if let Some(team) = &filter.team {
            query = query.with("team", ColumnTest::Is(team.as_str().into()));
        }
        let (rows, head) = self.engine.store().list(query).await?;
        Ok(At { value: rows.into_iter().filter_map(turn_of).collect(), head })
    }
}

fn page(limit: Option<u32>) -> u32 {
    limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)
}

fn newest_first(query: RowQuery) -> RowQuery {
    RowQuery { order: Order::Descending, ..query.ordered_by("started") }
}

fn team_of(row: Row) -> Option<Team> {
    if let Row::Team(team) = row { Some(team) } else { None }
}

fn turn_of(row: Row) -> Option<Turn> {
    if let Row::Turn(turn) = row { Some(turn) } else { None }
}
