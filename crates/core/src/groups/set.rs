//! Setting who is in a group. The new list takes the place of the one before.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::group::Group;
use crate::model::role_group::Group as RoleGroup;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetGroup {
    pub group: String,
    pub members: Vec<AgentId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSet {
    pub group: String,
    pub members: Vec<AgentId>,
    pub set_by: String,
}

impl Command for SetGroup {
    const NAME: &'static str = "SetGroup";

    type Reply = Group;

    fn read_set(&self) -> ReadSet {
        vec![Key::Group(self.group.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Group>, Undecided> {
        self.check()?;
        let mut members = self.members.clone();
        members.sort();
        members.dedup();
        let row = ReplySource::row(self.group.clone());
        if let Some(known) = cx.view.group(&self.group)? {
            if known.members == members {
                return Ok(Decision::unchanged(row));
            }
            cx.view.may_replace(cx.caller, &known.set_by, &format!("group '{}'", self.group))?;
        }
        let set_by = cx.caller.actor.to_string();
        let fact = AnyEvent::new(GroupSet { group: self.group.clone(), members, set_by });
        Ok(Decision::new(vec![fact], row))
    }
}

impl SetGroup {
    fn check(&self) -> Result<(), Rejection> {
        limit::name("a group's name", &self.group, limit::AGENT_ID_BYTES)?;
        if RoleGroup::named(&self.group).is_some() {
            let message = format!("'{}' is everybody with a role, or everybody, and cannot be a list", self.group);
            return Err(Rejection::new(Code::Invalid, message).hint("choose another name"));
        }
        if self.group.contains(':') {
            let message = format!("'{}' cannot be a group's name: it must have no ':'", self.group);
            return Err(Rejection::new(Code::Invalid, message)
                .hint("leave out 'group:'; it is put in front where a message names it"));
        }
        limit::list("members", &self.members)?;
        self.members.iter().try_for_each(|id| limit::name("a member's id", id.as_str(), limit::AGENT_ID_BYTES))
    }
}

impl GroupSet {
    pub(super) fn group(&self, seq: Seq, at: Timestamp) -> Group {
        Group {
            name: self.group.clone(),
            members: self.members.clone(),
            set_by: self.set_by.clone(),
            set: seq,
            set_at: at,
        }
    }
}

impl Event for GroupSet {
    const KIND: &'static str = "group.set";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Group(self.group.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.group.clone(), self.group(stamp.seq, stamp.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::RemoveGroup;
    use crate::testing::{World, anna, by};

    fn set(group: &str, members: &[&str]) -> SetGroup {
        SetGroup { group: group.to_owned(), members: members.iter().map(|id| AgentId::from(*id)).collect() }
    }

    fn remove(group: &str) -> RemoveGroup {
        RemoveGroup { group: group.to_owned() }
    }

    #[test]
    fn a_list_is_set_replaced_and_removed() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.does(&by("a"), set("team", &["b", "a", "b"])), ["group.set"]);
        assert_eq!(w.does(&by("b"), set("team", &["a", "b"])), [""; 0], "the same again is fine");
        assert_eq!(w.refuses(&by("b"), set("team", &["b"])), Code::Forbidden);
        assert_eq!(w.refuses(&by("b"), remove("team")), Code::Forbidden);
        assert_eq!(w.does(&by("lead"), set("team", &[])), ["group.set"]);
        assert_eq!(w.does(&anna(), remove("team")), ["group.removed"]);
        assert_eq!(w.refuses(&anna(), remove("team")), Code::GroupNotFound);
        assert_eq!(w.does(&by("b"), set("team", &["b"])), ["group.set"], "the name is free again");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn names_of_roles_and_names_that_no_message_can_say_are_refused() {
        let mut w = World::of(&["a"]);
        for name in ["workers", "worker", "leads", "everyone", "specialist", "", "a b", "group:x"] {
            assert_eq!(w.refuses(&by("a"), set(name, &["a"])), Code::Invalid, "{name}");
        }
        assert_eq!(w.refuses(&by("a"), set("team", &["a b"])), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), set("team", &vec!["a"; limit::LIST_ENTRIES + 1])), Code::TooLarge);
        assert_eq!(w.refuses(&by("a"), remove("workers")), Code::GroupNotFound);
    }
}
