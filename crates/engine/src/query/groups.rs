//! Groups as surfaces ask for them.

use std::collections::BTreeSet;

use rookery_core::clutch::unknown_recipient;
use rookery_core::model::Table;
use rookery_core::model::addressee::Address;
use rookery_core::model::group::Group;
use rookery_core::model::role_group::Group as RoleGroup;
use rookery_core::{AgentId, Key, Row, Seq};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;

use crate::error::EngineError;
use crate::query::{At, QueryHandle};

/// Who is in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Members {
    Listed(Group),
    /// Everybody with a role who is here.
    OfRole(Vec<AgentId>),
}

impl QueryHandle<'_> {
    /// The members of a group; `None` if there is none of that name.
    pub async fn group(&self, name: &str) -> Result<Option<Members>, EngineError> {
        if let Some(group) = RoleGroup::named(name) {
            let here = self.agents().await?.value.into_iter().filter(|agent| agent.is_online());
            let found: BTreeSet<AgentId> =
                here.filter(|agent| group.has(agent.profile.role)).map(|agent| agent.id).collect();
            return Ok(Some(Members::OfRole(found.into_iter().collect())));
        }
        let (mut rows, _) = self.engine.store().rows(vec![Key::Group(name.to_owned())]).await?;
        Ok(rows.pop().flatten().and_then(group).map(Members::Listed))
    }

    /// Who is in the groups with a list among these recipients.
    pub(crate) async fn group_members(&self, to: &[Address]) -> Result<Vec<AgentId>, EngineError> {
        let mut found = BTreeSet::new();
        for (place, address) in to.iter().enumerate() {
            let Address::Group(name) = address else { continue };
            match self.group(name).await? {
                Some(Members::Listed(group)) => found.extend(group.members),
                Some(Members::OfRole(_)) => {}
                None => return Err(unknown_recipient(address, "group").about(&format!("/to/{place}/agent_id")).into()),
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Groups with a list in the order in which they were set, after one that was set then.
    pub async fn groups(&self, after: Option<Seq>, limit: u32) -> Result<At<Vec<Group>>, EngineError> {
        let query = RowQuery::all(Table::Groups)
            .with("changed", ColumnTest::Above(after.unwrap_or(Seq(0)).0.cast_signed()))
            .ordered_by("changed");
        let (rows, head) = self.engine.store().list(query.at_most(Some(limit))).await?;
        Ok(At { value: rows.into_iter().filter_map(group).collect(), head })
    }
}

fn group(row: Row) -> Option<Group> {
    if let Row::Group(group) = row { Some(group) } else { None }
}
