//! Removing a group. Messages that were sent to it stay with whom they reached.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::rejection::Rejection;
use crate::model::group::Group;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveGroup {
    pub group: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupRemoved {
    pub group: String,
}

impl Event for GroupRemoved {
    const KIND: &'static str = "group.removed";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Group(self.group.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.remove::<Group>(self.group.clone());
    }
}

impl Command for RemoveGroup {
    const NAME: &'static str = "RemoveGroup";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Group(self.group.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let Some(known) = cx.view.group(&self.group)? else {
            return Err(Rejection::no_group(&self.group).into());
        };
        cx.view.may_replace(cx.caller, &known.set_by, &format!("group '{}'", self.group))?;
        let fact = AnyEvent::new(GroupRemoved { group: self.group.clone() });
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}

impl Rejection {
    pub fn no_group(name: &str) -> Rejection {
        Rejection::new(Code::GroupNotFound, format!("there is no group '{name}'"))
            .hint("list the groups to see their names; 'workers', 'specialists' and 'leads' are always there")
    }
}
