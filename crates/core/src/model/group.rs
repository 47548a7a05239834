//! Groups of agents, to be named as recipients: lists that somebody made, and everybody with a role.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::addressee::Address;
use super::role_group::Group as RoleGroup;
use super::{Column, ColumnValue, Entity, Key, Lookup, ReadItem, Row, Undecided, View};
use crate::kernel::id::{AgentId, Seq, Timestamp};

/// A list of agents with a name. They need not be here, nor even known yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub members: Vec<AgentId>,
    pub set_by: String,
    pub set: Seq,
    pub set_at: Timestamp,
}

impl Entity for Group {
    type Id = String;

    const TABLE: &'static str = "groups";
    const COLUMNS: &'static [Column] = &[Column::integer("changed")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.set.0.into()]
    }
}

/// What [`members`] needs to see.
pub fn read_set(name: &str) -> ReadItem {
    match RoleGroup::named(name) {
        Some(_) => Lookup::online_agents().into(),
        None => Key::Group(name.to_owned()).into(),
    }
}

/// Who is meant by a group, each once and in the order of their names: the agents on its list, or all with the role that are
/// here. `None` if there is no such group.
pub fn members(view: &View, name: &str) -> Result<Option<Vec<AgentId>>, Undecided> {
    let found: BTreeSet<AgentId> = match RoleGroup::named(name) {
        Some(group) => {
            let live = view.live_agents()?;
            live.into_iter().filter(|agent| group.has(agent.profile.role)).map(|agent| agent.id.clone()).collect()
        }
        None => match view.group(name)? {
            Some(group) => group.members.iter().cloned().collect(),
            None => return Ok(None),
        },
    };
    Ok(Some(found.into_iter().collect()))
}

/// The members of all lists among these recipients.
pub(crate) fn listed(view: &View, to: &[Address]) -> Result<Vec<AgentId>, Undecided> {
    let name = |address: &Address| if let Address::Group(name) = address { Some(name.clone()) } else { None };
    let lists = to.iter().filter_map(name).filter(|name| RoleGroup::named(name).is_none());
    let mut found = BTreeSet::new();
    for name in lists {
        found.extend(members(view, &name)?.unwrap_or_default());
    }
    Ok(found.into_iter().collect())
}

impl View {
    pub fn group(&self, name: &str) -> Result<Option<&Group>, Undecided> {
        Ok(match self.get(&Key::Group(name.to_owned()))? {
            Some(Row::Group(group)) => Some(group),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::SetGroup;
    use crate::model::agent::AgentRole;
    use crate::testing::{World, by};

    fn resolved(w: &World, name: &str) -> Option<Vec<String>> {
        let mut view = View::default();
        let all = w.rows().iter().map(|(key, row)| (key.clone(), row.clone()));
        match read_set(name) {
            ReadItem::Row(key) => view.load(key.clone(), w.rows().get(&key).cloned()),
            ReadItem::Rows(lookup) => {
                let found = all.filter(|(key, row)| key.table() == lookup.table() && lookup.matches(row)).collect();
                view.load_all(lookup, found);
            }
            ReadItem::Presence(_) => {}
        }
        members(&view, name).unwrap().map(|ids| ids.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_group_is_its_list_or_whoever_has_the_role_and_is_here() {
        let mut w = World::of(&["bob", "ada"]);
        w.joins("sam", AgentRole::Specialist);
        w.joins("liz", AgentRole::Lead);
        w.goes_offline("bob");
        let list = SetGroup { group: "team".to_owned(), members: vec!["zoe".into(), "bob".into(), "zoe".into()] };
        w.does(&by("ada"), list);
        for (name, expected) in [
            ("workers", Some(vec!["ada"])),
            ("worker", Some(vec!["ada"])),
            ("specialists", Some(vec!["sam"])),
            ("leads", Some(vec!["liz"])),
            ("team", Some(vec!["bob", "zoe"])),
            ("everyone", Some(vec!["ada", "liz", "sam"])),
            ("ghosts", None),
        ] {
            let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(resolved(&w, name), expected, "{name}");
        }
    }
}
