//! The CLI: the program, run in the project's folder. It acts as the owner of the project; `context` also as an agent.

use serde_json::{Value, json};

use super::Lacks;
use crate::act::{Act, AgentCall, Call, FileCall, MessageCall, TaskCall, Who};
use crate::answer::Answer;
use crate::scene::{Scene, Stage};

/// The address of an agent that the CLI registers. Nothing listens there and nothing is sent to it.
const ENDPOINT: &str = "http://127.0.0.1:9/clutch";

const PERSON_ONLY: Lacks = Lacks("this command acts as the owner of the project, never as an agent");

pub fn request(act: &Act, scene: &Scene) -> Result<Vec<String>, Lacks> {
    let arguments: Vec<String> = match act.call {
        Call::Task(call) => task(call, scene),
        Call::Agent(call) => agent(call, act.by, scene),
        Call::File(call) => file(call, scene),
        Call::Handoff(_) => Err(Lacks("`handoffs` lists handoffs and changes none")),
        Call::Message(call) => return Ok(message(call, act.by, scene)),
    }?;
    if act.by == Who::Person { Ok(arguments) } else { Err(PERSON_ONLY) }
}

fn task(call: TaskCall, scene: &Scene) -> Result<Vec<String>, Lacks> {
    match call {
        TaskCall::Retry => Ok(arguments(&["retry", &scene.task])),
        TaskCall::Reopen => Ok(arguments(&["retry", &scene.task, "--reopen"])),
        TaskCall::Cancel => Ok(arguments(&["cancel", &scene.task, "--reason", "enough"])),
        TaskCall::Assign(to) => Ok(arguments(&["assign", &scene.task, &scene.name(to)])),
        TaskCall::Claim => Err(Lacks("no command claims a task")),
        TaskCall::Start => Err(Lacks("no command starts a task")),
        TaskCall::Complete | TaskCall::CompleteWithoutOutcome | TaskCall::CompleteTwice => {
            Err(Lacks("no command completes a task"))
        }
        TaskCall::Fail | TaskCall::FailWithoutError | TaskCall::FailRetryable => Err(Lacks("no command fails a task")),
        TaskCall::Pause | TaskCall::PauseForInput | TaskCall::Review | TaskCall::Plan => {
            Err(Lacks("no command sets the step of a task; `pause` is about agents"))
        }
        TaskCall::Release | TaskCall::SetPending => Err(Lacks("no command releases a task; `release` is about files")),
        TaskCall::Skip => Err(Lacks("no command skips a task; `cancel` is the nearest")),
        TaskCall::Create(_) => Err(Lacks("no command creates a task")),
        TaskCall::AddCheckpoint => Err(Lacks("no command adds a checkpoint")),
        TaskCall::SetPlan => Err(Lacks("no command sets the plan of a task")),
    }
}

fn agent(call: AgentCall, by: Who, scene: &Scene) -> Result<Vec<String>, Lacks> {
    match call {
        AgentCall::RegisterAs(who) => {
            Ok(arguments(&["agents", "add", &scene.name(who), "--url", ENDPOINT, "--capability", "code"]))
        }
        AgentCall::Register | AgentCall::RegisterWithOtherCapability if by == Who::Person => {
            Err(Lacks("a person is no agent"))
        }
        AgentCall::Register | AgentCall::RegisterWithOtherCapability => Err(PERSON_ONLY),
        AgentCall::RegisterWithNameOf(_) => Err(Lacks("`agents add` takes no name beside the agent's id")),
        AgentCall::SetWorkspacePath | AgentCall::UpdateCapabilities => Err(Lacks("no command changes a profile")),
        AgentCall::SetWorking(_)
        | AgentCall::SetIdle(_)
        | AgentCall::SetBlocked(_)
        | AgentCall::SetWorkingOnTask(_)
        | AgentCall::Heartbeat => Err(Lacks("no command sets the status of an agent")),
        AgentCall::Leave(_) => Err(Lacks("`stop` ends agents that a runner started; no command removes others")),
        AgentCall::Pause(who) => Ok(arguments(&["pause", &scene.name(who), "--reason", "lunch"])),
        AgentCall::Resume(who) => Ok(arguments(&["resume", &scene.name(who)])),
    }
}

fn file(call: FileCall, scene: &Scene) -> Result<Vec<String>, Lacks> {
    match call {
        FileCall::Release => Ok(arguments(&["release", &scene.file()])),
        FileCall::ResolveFor(winner) => Ok(arguments(&["resolve", &scene.file(), "--pick", &scene.name(winner)])),
        FileCall::Claim | FileCall::ClaimFolderAbove | FileCall::ForceClaim => Err(Lacks("no command claims a file")),
        FileCall::Lock | FileCall::Unlock => Err(Lacks("no command locks or unlocks a file")),
    }
}

fn message(call: MessageCall, by: Who, scene: &Scene) -> Vec<String> {
    let own = scene.name(by);
    let speaker: &[&str] = if by == Who::Person { &["context"] } else { &["context", "--agent", &own] };
    let rest = match call {
        MessageCall::SayMentioning(who) => arguments(&["send", &format!("hi @{}", scene.name(who))]),
        MessageCall::Direct(who) => arguments(&["send", "hi", "--to", &scene.name(who)]),
        MessageCall::Publish(who) => {
            arguments(&["coord", "publish", "GENERAL", "news", "hi", "--to", &scene.name(who)])
        }
    };
    [arguments(speaker), rest].concat()
}

fn arguments(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

pub fn run(stage: &Stage, arguments: Vec<String>) -> Answer {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    command.envs(stage.daemon.store().map(|store| ("ROOKERY_STORE", store)));
    let output = command.current_dir(stage.daemon.root()).args(arguments).arg("--json").output().unwrap();
    let form = format!("exit {}", output.status.code().unwrap());
    if output.status.success() {
        return Answer::done(form);
    }
    let stderr = String::from_utf8(output.stderr).unwrap();
    let error: Option<Value> = stderr.lines().find_map(|line| serde_json::from_str(line).ok());
    Answer::rejected(form, &error.unwrap_or_else(|| json!({"error": stderr})))
}
