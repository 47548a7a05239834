//! Offering a task to another agent, and the answer.

use super::Family;
use crate::act::Given::{AgentCard, FileClaimed, HandoffAccepted, HandoffOffered, Started, Task};
use crate::act::HandoffCall::*;
use crate::act::Who::*;
use crate::act::{Act, Given, HandoffCall, Who};

pub fn family() -> Family {
    let handoff = |name, given: &[Given], by: Who, call: HandoffCall| Act::new(name, given, by, call);
    let to_ben = [Task, Started(Ada), HandoffOffered(Ada, Some(Ben))];
    let to_anyone = [Task, Started(Ada), HandoffOffered(Ada, None)];
    let acts = vec![
        handoff("offer_to_agent", &[Task, Started(Ada)], Ada, Offer(Some(Ben))),
        handoff("offer_to_agent_with_inbox", &[AgentCard(Ben), Task, Started(Ada)], Ada, Offer(Some(Ben))),
        handoff("offer_to_anyone", &[Task, Started(Ada)], Ada, Offer(None)),
        handoff("offer_to_unregistered_agent", &[Task, Started(Ada)], Ada, Offer(Some(Stranger))),
        handoff("offer_unclaimed_task", &[Task], Ada, Offer(Some(Ben))),
        handoff("offer_task_of_other", &[Task, Started(Ben)], Ada, Offer(Some(Ben))),
        handoff("offer_task_of_other_as_lead", &[Task, Started(Ada)], Lead, Offer(Some(Ben))),
        handoff("offer_twice", &to_ben, Ada, Offer(Some(Ben))),
        handoff("accept_as_recipient", &to_ben, Ben, Accept),
        handoff("accept_with_file", &[&[FileClaimed(Ada)], &to_ben[..]].concat(), Ben, Accept),
        handoff("accept_offer_to_anyone", &to_anyone, Ben, Accept),
        handoff("accept_as_unregistered_agent", &to_anyone, Stranger, Accept),
        handoff("accept_as_lead", &to_ben, Lead, Accept),
        handoff("accept_accepted", &[&to_ben[..], &[HandoffAccepted(Ben)]].concat(), Ben, Accept),
        handoff("accept_unknown_handoff", &[], Ben, Accept),
        handoff("reject_as_recipient", &to_ben, Ben, Reject),
        handoff("reject_as_sender", &to_ben, Ada, Reject),
        handoff("reject_accepted", &[&to_ben[..], &[HandoffAccepted(Ben)]].concat(), Ben, Reject),
    ];
    Family { name: "handoff", acts }
}
