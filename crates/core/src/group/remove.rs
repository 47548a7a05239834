//! Removing a group. Messages that were sent to it stay with whom they reached.

use serde::{Deserialize, Serialize};

use crate::actor::Caller;
use crate::code::Code;
use crate::command::{Decision, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::key::{Ask, Key};
use crate::refusal::Rejection;
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveGroup {
    pub group: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupRemoved {
    pub group: String,
}

impl RemoveGroup {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Group(self.group.clone()).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Undecided> {
        let Some(known) = view.group(&self.group)? else {
            return Err(Rejection::no_group(&self.group).into());
        };
        view.may_replace(caller, &known.set_by, &format!("group '{}'", self.group))?;
        let fact = AnyEvent::GroupRemoved(GroupRemoved { group: self.group.clone() });
        Ok(Decision::new(vec![fact], Reply::Done))
    }
}

impl Rejection {
    pub fn no_group(name: &str) -> Rejection {
        Rejection::new(Code::GroupNotFound, format!("there is no group '{name}'"))
            .hint("list the groups to see their names; 'workers', 'specialists' and 'leads' are always there")
    }
}
