//! What random callers ask for, in a universe small enough that they get in each other's way.

use proptest::prelude::*;
use proptest::sample::select;
use rookery_core::actor::{Auth, Caller};
use rookery_core::agent::{ComeBack, DeclareOffline, Evidence, Leave, Profile, Register, Role, SetStatus, Status};
use rookery_core::file::{
    Case, ChangeSource, ClaimFile, FilePath, Insist, Lock, NoteChange, NoteOthers, ReleaseFile, Resolve, Unlock,
};
use rookery_core::handoff::{Accept, Initiate, Note, Reject};
use rookery_core::report::Report;
use rookery_core::task::{
    Assign, Cancel, Claim, Complete, Create, Fail, MoveTo, Outcome, Release, Retry, Skip, Start, State,
};
use rookery_core::view::LifeSource;
use rookery_core::{AgentId, Command, HandoffId, RunId, Seq, TaskId, Timestamp};

pub(crate) const AGENTS: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const TASKS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const PATHS: [&str; 7] = ["src/", "src", "src/x", "src/lib/", "src/lib/y", "src/lib/z", "doc"];
const HANDOFFS: [&str; 3] = ["h0", "h1", "h2"];
const TEXTS: [&str; 3] = ["", "one", "two"];

/// A command, or one that can only be made up when it is its turn.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ask {
        caller: Caller,
        command: Command,
        key: Option<u8>,
    },
    /// Fires the timer about a path, in the version that is set or an older one.
    Fire {
        path: FilePath,
        late: bool,
    },
    /// Redacts one of the facts so far, with or without a body on disk.
    Redact {
        pick: prop::sample::Index,
        on_disk: bool,
    },
    /// Closes the intent that was opened by redacting.
    Close {
        pick: prop::sample::Index,
    },
    /// Sends the fence of the present grant along, or a stale one.
    Fenced {
        caller: Caller,
        command: Command,
        task: TaskId,
        stale: bool,
    },
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), most / 2..most)
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![9 => Just(None), 1 => (0_u8..4).prop_map(Some)];
    let asked = prop_oneof![2 => about_agents(), 10 => about_tasks(), 8 => about_files(), 4 => about_handoffs()];
    prop_oneof![
        40 => (asked, key).prop_map(|((caller, command), key)| Step::Ask { caller, command, key }),
        24 => crate::mail::asked().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        2 => (path(), any::<bool>()).prop_map(|(path, late)| Step::Fire { path, late }),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(pick, on_disk)| Step::Redact { pick, on_disk }),
        1 => any::<prop::sample::Index>().prop_map(|pick| Step::Close { pick }),
        3 => (about_tasks(), task(), any::<bool>())
            .prop_map(|((caller, command), task, stale)| Step::Fenced { caller, command, task, stale }),
    ]
}

type Asked = (Caller, Command);

fn agent() -> impl Strategy<Value = AgentId> {
    select(&AGENTS[..]).prop_map(AgentId::from)
}

fn task() -> impl Strategy<Value = TaskId> {
    select(&TASKS[..]).prop_map(TaskId::from)
}

fn handoff() -> impl Strategy<Value = HandoffId> {
    select(&HANDOFFS[..]).prop_map(HandoffId::from)
}

fn path() -> impl Strategy<Value = FilePath> {
    select(&PATHS[..]).prop_filter_map("a path", |raw| FilePath::parse(raw, Case::Kept).ok())
}

fn text() -> impl Strategy<Value = String> {
    select(&TEXTS[..]).prop_map(str::to_owned)
}

fn anybody() -> impl Strategy<Value = Caller> {
    prop_oneof![
        4 => agent().prop_map(Caller::asserted),
        4 => Just(Caller::person("anna")),
        1 => Just(Caller::nobody()),
        1 => Just(Caller { auth: Auth::Token, ..Caller::asserted(AGENTS[3]) }),
    ]
}

/// An agent and a caller that mostly is that agent.
fn agent_and_caller() -> impl Strategy<Value = (AgentId, Caller)> {
    (agent(), anybody(), 0_u8..6)
        .prop_map(|(agent, other, own)| (agent.clone(), if own > 0 { Caller::asserted(agent) } else { other }))
}

fn about_agents() -> BoxedStrategy<Asked> {
    let role = select(vec![Role::Lead, Role::Specialist, Role::Worker]);
    let status = select(vec![Status::Idle, Status::Working, Status::Blocked, Status::WaitingReview, Status::Offline]);
    prop_oneof![
        4 => (agent_and_caller(), role, text()).prop_map(|((id, caller), role, text)| {
            let metadata = serde_json::Map::from_iter([("note".to_owned(), text.into())]);
            let profile = Profile {
                tool: "tool".to_owned(),
                role,
                capabilities: vec![],
                name: None,
                workspace_path: None,
                metadata,
            };
            (caller, Register { id, profile }.into())
        }),
        1 => (agent_and_caller(), status).prop_map(|((agent, caller), status)| {
            (caller, SetStatus { agent, status, current_task: None }.into())
        }),
        1 => agent_and_caller().prop_map(|(agent, caller)| (caller, Leave { agent }.into())),
        1 => (agent(), 0_i64..4).prop_map(|(agent, last_seen)| {
            let evidence =
                Evidence { last_seen: Timestamp(last_seen), source: Some(LifeSource::Call), limit_millis: 1 };
            (Caller::system(), DeclareOffline { agent, evidence }.into())
        }),
        3 => agent_and_caller().prop_map(|(agent, caller)| (caller, ComeBack { agent }.into())),
    ]
    .boxed()
}

fn about_tasks() -> BoxedStrategy<Asked> {
    let named = || prop_oneof![2 => Just(None), 1 => agent().prop_map(Some)];
    let step = select(vec![State::Planning, State::Review, State::Paused, State::Completed]);
    let create = (
        task(),
        prop::option::of(agent()),
        prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(task(), 1..3)],
        text(),
    )
        .prop_map(|(id, assigned_to, depends_on, text)| Create {
            id,
            run: RunId::project_default(),
            title: format!("do {text}"),
            description: text,
            assigned_by: "somebody".to_owned(),
            assigned_to,
            resources: vec!["src/lib/".to_owned()],
            depends_on,
        });
    prop_oneof![
        4 => (anybody(), create).prop_map(|(caller, create)| (caller, create.into())),
        4 => (agent_and_caller(), task()).prop_map(|((agent, caller), task)| (caller, Claim { task, agent }.into())),
        6 => (agent_and_caller(), task()).prop_map(|((agent, caller), task)| {
            (caller, Start { task, agent: Some(agent) }.into())
        }),
        2 => (anybody(), task()).prop_map(|(caller, task)| (caller, Start { task, agent: None }.into())),
        4 => (anybody(), task(), named(), step, prop::option::of(text())).prop_map(|(caller, task, agent, to, reason)| {
            (caller, MoveTo { task, agent, to, reason }.into())
        }),
        1 => (anybody(), task(), named()).prop_map(|(caller, task, agent)| (caller, Release { task, agent }.into())),
        1 => (anybody(), task(), named()).prop_map(|(caller, task, agent)| (caller, Retry { task, agent }.into())),
        2 => (anybody(), task(), agent()).prop_map(|(caller, task, to)| (caller, Assign { task, to }.into())),
        2 => (anybody(), task(), named(), prop::option::of(text())).prop_map(|(caller, task, agent, text)| {
            let detail = text.clone().map(|text| serde_json::json!({ "told": text }));
            (caller, Complete { task, agent, outcome: Outcome { text, detail } }.into())
        }),
        1 => (anybody(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, error)| (caller, Fail { task, agent, error }.into())),
        1 => (anybody(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, reason)| (caller, Cancel { task, agent, reason }.into())),
        1 => (anybody(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, reason)| (caller, Skip { task, agent, reason }.into())),
    ]
    .boxed()
}

fn about_files() -> BoxedStrategy<Asked> {
    let insist = prop_oneof![2 => Just(Insist::Ask), 1 => Just(Insist::Force)];
    let hash = || select(vec!["h0", "h1", "h2"]).prop_map(str::to_owned);
    let source = select(vec![ChangeSource::Report, ChangeSource::Watcher]);
    let changed = (anybody(), path(), prop::option::of(agent()), hash(), source, 0_u8..5);
    let report = (agent_and_caller(), prop::option::of(task()));
    prop_oneof![
        8 => (agent_and_caller(), path(), prop::option::of(task()), hash(), insist).prop_map(
            |((agent, caller), path, task, hash, insist)| {
                (caller, ClaimFile { path, agent, task, hash, site: None, insist }.into())
            }
        ),
        2 => (agent_and_caller(), path()).prop_map(|((agent, caller), path)| {
            (caller, ReleaseFile { path, agent }.into())
        }),
        1 => (anybody(), path()).prop_map(|(caller, path)| (caller, Lock { path }.into())),
        2 => (anybody(), path()).prop_map(|(caller, path)| (caller, Unlock { path }.into())),
        2 => (anybody(), path(), agent()).prop_map(|(caller, path, winner)| (caller, Resolve { path, winner }.into())),
        6 => changed.prop_map(|(caller, path, by, after, source, own)| {
            let caller = if own > 0 { Caller::watcher() } else { caller };
            let note = NoteChange {
                path,
                by,
                before: None,
                after: Some(after),
                source,
                task: None,
                metadata: serde_json::Map::new(),
                site: None,
                escalate_after_millis: 0,
            };
            (caller, note.into())
        }),
        1 => Just((Caller::watcher(), NoteOthers { changed: 2, sample: vec!["x".to_owned()], site: None }.into())),
        1 => report.prop_map(|((agent, caller), task)| {
            let report = Report {
                agent,
                action: "x.told".to_owned(),
                resource: None,
                task,
                before_hash: None,
                after_hash: None,
                metadata: serde_json::Map::new(),
            };
            (caller, report.into())
        }),
    ]
    .boxed()
}

fn about_handoffs() -> BoxedStrategy<Asked> {
    let offered = (agent_and_caller(), handoff(), prop::option::of(agent()), task(), text());
    prop_oneof![
        2 => offered.prop_map(|((from, caller), id, to, task, text)| {
            let note = Note { summary: format!("half {text}"), context: text, ..Note::default() };
            (caller, Initiate { id, from, to, task, note }.into())
        }),
        3 => (agent_and_caller(), handoff()).prop_map(|((agent, caller), handoff)| {
            (caller, Accept { handoff, agent }.into())
        }),
        1 => (agent_and_caller(), handoff(), text()).prop_map(|((agent, caller), handoff, reason)| {
            (caller, Reject { handoff, agent, reason }.into())
        }),
    ]
    .boxed()
}

/// A seq that was never granted to anybody.
pub(crate) const STALE: Seq = Seq(0);
