//! Sending messages.

use super::Family;
use crate::act::MessageCall::*;
use crate::act::Who::*;
use crate::act::{Act, MessageCall, Who};

const NAMES_TASK: &str = "an envelope always names a task";
const JOINS: &str = "context tools register the caller on the spot; an envelope always names a task";
const MUST_BE_KNOWN: &str = "every recipient of an envelope must be known";

pub fn family() -> Family {
    let send = |name, by: Who, call: MessageCall| Act::new(name, &[], by, call);
    let acts = vec![
        send("say_mentioning_agent", Ada, SayMentioning(Ben)).differs(NAMES_TASK),
        send("say_mentioning_agent_as_person", Person, SayMentioning(Ben)).differs(NAMES_TASK),
        send("say_mentioning_agent_as_unregistered_agent", Stranger, SayMentioning(Ben)).differs(JOINS),
        send("say_mentioning_unregistered_agent", Ada, SayMentioning(Stranger)).differs(MUST_BE_KNOWN),
        send("direct_to_agent", Ada, Direct(Ben)),
        send("direct_to_unregistered_agent", Ada, Direct(Stranger)),
        send("publish_to_agent", Ada, Publish(Ben)),
        send("publish_to_unregistered_agent", Ada, Publish(Stranger)),
    ];
    Family { name: "message", acts }
}
