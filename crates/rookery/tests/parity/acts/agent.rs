//! Registering, status, leaving, pausing and resuming of agents.

use super::Family;
use crate::act::AgentCall::*;
use crate::act::Given::{AgentCard, AgentLeft, AgentPaused, AgentWorking, FileClaimed, Started, Task};
use crate::act::Who::*;
use crate::act::{Act, AgentCall, Given, Who};

const CARD_OR_PROFILE: &str =
    "a card states capabilities and leaves the profile alone; a profile leaves the card alone";
const OWN_ENDPOINT: &str =
    "a card states capabilities, a profile does not; and `agents add` is for agents with an endpoint";
const NO_404_OF_REST: &str = "REST v0.1 lists no 404 for a DELETE of an agent: one that is not here is out of the team";

pub fn family() -> Family {
    Family { name: "agent", acts: [registrations(), statuses(), departures(), pauses()].concat() }
}

fn act(name: &'static str, given: &[Given], by: Who, call: AgentCall) -> Act {
    Act::new(name, given, by, call)
}

fn registrations() -> Vec<Act> {
    vec![
        act("register_new", &[], Stranger, Register).differs(CARD_OR_PROFILE),
        act("register_again_unchanged", &[], Ada, Register).differs(CARD_OR_PROFILE),
        act("register_again_with_card_unchanged", &[AgentCard(Ada)], Ada, Register).differs(CARD_OR_PROFILE),
        act("register_again_changed", &[], Ada, RegisterWithOtherCapability).differs(CARD_OR_PROFILE),
        act("register_after_leaving", &[AgentLeft(Ada)], Ada, Register).differs(CARD_OR_PROFILE),
        act("register_with_taken_name", &[], Stranger, RegisterWithNameOf(Ada)),
        act("register_other_agent", &[], Ben, RegisterAs(Ada)),
        act("register_other_agent_as_person", &[], Person, RegisterAs(Ada)).differs(OWN_ENDPOINT),
        act("register_new_agent_as_person", &[], Person, RegisterAs(Stranger)).differs(OWN_ENDPOINT),
        act("set_workspace_path", &[], Ada, SetWorkspacePath),
        act("set_workspace_path_as_unregistered_agent", &[], Stranger, SetWorkspacePath),
        act("update_capabilities", &[], Ada, UpdateCapabilities),
        act("update_capabilities_as_unregistered_agent", &[], Stranger, UpdateCapabilities),
    ]
}

fn statuses() -> Vec<Act> {
    vec![
        act("set_working", &[], Ada, SetWorking(Ada)),
        act("set_working_unchanged", &[AgentWorking(Ada)], Ada, SetWorking(Ada)),
        act("set_idle_after_working", &[AgentWorking(Ada)], Ada, SetIdle(Ada)),
        act("set_blocked", &[], Ada, SetBlocked(Ada)),
        act("set_working_on_task", &[Task, Started(Ada)], Ada, SetWorkingOnTask(Ada)),
        act("set_working_on_unclaimed_task", &[Task], Ada, SetWorkingOnTask(Ada)),
        act("set_working_of_other", &[], Ben, SetWorking(Ada)),
        act("set_working_of_other_as_lead", &[], Lead, SetWorking(Ada)),
        act("set_working_as_unregistered_agent", &[], Stranger, SetWorking(Stranger)),
        act("heartbeat", &[], Ada, Heartbeat),
        act("heartbeat_as_unregistered_agent", &[], Stranger, Heartbeat),
    ]
}

fn departures() -> Vec<Act> {
    vec![
        act("leave", &[], Ada, Leave(Ada)),
        act("leave_holding_task_and_file", &[Task, Started(Ada), FileClaimed(Ada)], Ada, Leave(Ada)),
        act("leave_twice", &[AgentLeft(Ada)], Ada, Leave(Ada)),
        act("leave_as_unregistered_agent", &[], Stranger, Leave(Stranger)).differs(NO_404_OF_REST),
        act("remove_other", &[], Ben, Leave(Ada)),
        act("remove_other_as_lead", &[], Lead, Leave(Ada)),
        act("remove_other_as_person", &[], Person, Leave(Ada)),
    ]
}

fn pauses() -> Vec<Act> {
    vec![
        act("pause_as_person", &[], Person, Pause(Ada)),
        act("pause_as_lead", &[], Lead, Pause(Ada)),
        act("pause_as_other", &[], Ben, Pause(Ada)),
        act("pause_itself", &[], Ada, Pause(Ada)),
        act("pause_paused_as_person", &[AgentPaused(Ada)], Person, Pause(Ada)),
        act("pause_unregistered_agent_as_person", &[], Person, Pause(Stranger)),
        act("resume_as_person", &[AgentPaused(Ada)], Person, Resume(Ada)),
        act("resume_as_other", &[AgentPaused(Ada)], Ben, Resume(Ada)),
        act("resume_not_paused_as_person", &[], Person, Resume(Ada)),
    ]
}
