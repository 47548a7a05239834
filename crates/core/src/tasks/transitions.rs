//! Every command on a task, in every state, by every kind of caller: one table.

use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::model::task::TaskState;
use crate::testing::{World, anna, assign, by, cancel, claim, complete, fail, moves, release, retry, skip, start};
use crate::traits::AnyCommand;

/// How a caller stands to the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Holder,
    Other,
    Lead,
    Person,
    Nobody,
}

const EVERYBODY: [Who; 5] = [Who::Holder, Who::Other, Who::Lead, Who::Person, Who::Nobody];

impl Who {
    fn caller(self) -> Caller {
        match self {
            Who::Holder => by("holder"),
            Who::Other => by("other"),
            Who::Lead => by("lead"),
            Who::Person => anna(),
            Who::Nobody => Caller::anonymous(),
        }
    }
}

/// A team, and task `t` in this state, held by `holder` as far as the state allows.
fn world(state: TaskState) -> World {
    let mut w = World::of(&["lead", "holder", "other"]);
    w.creates("t", &[]);
    let holder = by("holder");
    if state != TaskState::Skipped {
        w.claims("holder", "t");
    }
    let steps: Vec<AnyCommand> = match state {
        TaskState::Pending => vec![],
        TaskState::Planning => vec![moves("t", TaskState::Planning).into()],
        TaskState::InProgress => vec![start(None, "t").into()],
        TaskState::Review => vec![start(None, "t").into(), moves("t", TaskState::Review).into()],
        TaskState::Paused => vec![start(None, "t").into(), moves("t", TaskState::Paused).into()],
        TaskState::Completed => vec![start(None, "t").into(), complete("t").into()],
        TaskState::Failed => vec![start(None, "t").into(), fail("t").into()],
        TaskState::Skipped => vec![skip("t").into()],
        TaskState::Cancelled => vec![cancel("t").into()],
    };
    for step in steps {
        w.does(&holder, step);
    }
    assert_eq!(w.task("t").state, state);
    w
}

fn command(to: TaskState) -> AnyCommand {
    match to {
        TaskState::Pending => release("t").into(),
        TaskState::Planning | TaskState::Review | TaskState::Paused => moves("t", to).into(),
        TaskState::InProgress => start(None, "t").into(),
        TaskState::Completed => complete("t").into(),
        TaskState::Failed => fail("t").into(),
        TaskState::Skipped => skip("t").into(),
        TaskState::Cancelled => cancel("t").into(),
    }
}

/// The transitions as the reference lists them, written down a second time.
fn allowed(from: TaskState) -> &'static [TaskState] {
    use TaskState::*;
    match from {
        Pending => &[Planning, InProgress, Skipped, Cancelled],
        Planning => &[InProgress, Completed, Failed, Pending, Cancelled],
        InProgress => &[Review, Paused, Completed, Failed, Pending, Cancelled],
        Review => &[InProgress, Completed, Failed, Cancelled],
        Paused => &[InProgress, Failed, Cancelled],
        Failed => &[Pending, Skipped],
        Completed | Skipped | Cancelled => &[],
    }
}

/// Ending, pausing or reviewing a held task that was not started, or is paused, starts it first.
fn starts_first(from: TaskState, to: TaskState) -> bool {
    use TaskState::*;
    matches!(
        (from, to),
        (Pending, Completed | Failed) | (Pending | Planning, Review | Paused) | (Paused, Completed | Review)
    )
}

/// Asking for the state a task is in already changes nothing and is no error.
fn repeats(from: TaskState, to: TaskState) -> bool {
    from == to && matches!(from, TaskState::Planning | TaskState::InProgress | TaskState::Review | TaskState::Paused)
}

#[test]
fn every_transition_by_everybody() {
    for from in TaskState::ALL {
        for to in TaskState::ALL {
            for who in EVERYBODY {
                let mut w = world(from);
                let held = w.task("t").holder().is_some();
                let case = format!("{from:?} to {to:?} by {who:?}");
                let gives_back = from == TaskState::Pending && to == TaskState::Pending;
                let possible = allowed(from).contains(&to) || starts_first(from, to) || repeats(from, to) || gives_back;
                let may = !held || who != Who::Other;
                if possible && may {
                    w.does(&who.caller(), command(to));
                    assert_eq!(w.task("t").state, to, "{case}");
                    let keeps = to.is_open() && to != TaskState::Pending;
                    assert_eq!(w.holder("t").is_some(), held && keeps, "{case}");
                } else {
                    let code = w.refuses(&who.caller(), command(to));
                    let expected: &[Code] = if from.is_finished() {
                        &[Code::InvalidTransition]
                    } else if possible {
                        &[Code::NotHolder, Code::AlreadyClaimed]
                    } else if may {
                        &[Code::InvalidTransition]
                    } else {
                        &[Code::InvalidTransition, Code::NotHolder]
                    };
                    assert!(expected.contains(&code), "{case}: {code:?}");
                }
            }
        }
    }
}

#[test]
fn a_finished_task_answers_the_same_whoever_asks() {
    for state in [TaskState::Completed, TaskState::Skipped, TaskState::Cancelled] {
        for caller in [by("holder"), by("other"), by("stranger"), by("lead"), anna(), Caller::anonymous()] {
            let mut commands: Vec<AnyCommand> = TaskState::ALL.into_iter().map(command).collect();
            commands.extend([claim("other", "t").into(), claim("stranger", "t").into(), retry("t").into()]);
            commands.push(assign("t", "other").into());
            for command in commands {
                let stale = Caller { fence: Some(crate::kernel::id::Seq(1)), ..caller.clone() };
                for caller in [&caller, &stale] {
                    let code = world(state).refuses(caller, command.clone());
                    assert_eq!(code, Code::InvalidTransition, "{state:?} {command:?} {:?}", caller.actor);
                }
            }
        }
    }
}

#[test]
fn a_fence_that_is_given_must_match() {
    for from in [TaskState::Pending, TaskState::Planning, TaskState::InProgress, TaskState::Review, TaskState::Paused] {
        for to in TaskState::ALL {
            if !allowed(from).contains(&to) && !repeats(from, to) {
                continue;
            }
            let mut w = world(from);
            let fence = w.task("t").claim.as_ref().unwrap().fence;
            for who in EVERYBODY {
                let stale = Caller { fence: Some(crate::kernel::id::Seq(fence.0 - 1)), ..who.caller() };
                let code = w.refuses(&stale, command(to));
                assert!(
                    matches!(code, Code::StaleFence) || who == Who::Other,
                    "{from:?} to {to:?} by {who:?}: {code:?}"
                );
            }
            w.does(&Caller { fence: Some(fence), ..by("holder") }, command(to));
        }
    }
}

#[test]
fn a_zombie_with_an_old_fence_gets_nothing() {
    let mut w = world(TaskState::InProgress);
    let fence = w.task("t").claim.as_ref().map(|claim| claim.fence);
    let zombie = Caller { fence, ..by("holder") };
    w.does(&anna(), release("t"));
    assert_eq!(w.refuses(&zombie, start(Some("holder"), "t")), Code::StaleFence);
    assert_eq!(w.refuses(&zombie, claim("holder", "t")), Code::StaleFence);
    w.starts("holder", "t");
    assert_eq!(w.refuses(&zombie, complete("t")), Code::StaleFence, "the same holder by another grant");
    assert_eq!(w.refuses(&zombie, claim("holder", "t")), Code::StaleFence);
}

#[test]
fn a_named_agent_must_be_the_caller_unless_it_has_authority() {
    let named = |agent: &str, to: TaskState| -> AnyCommand {
        let agent = Some(agent.into());
        match to {
            TaskState::Pending => crate::tasks::ReleaseTask { agent, ..release("t") }.into(),
            TaskState::Planning | TaskState::Review | TaskState::Paused => {
                crate::tasks::SetTaskStep { agent, ..moves("t", to) }.into()
            }
            TaskState::InProgress => crate::tasks::StartTask { agent, ..start(None, "t") }.into(),
            TaskState::Completed => crate::tasks::CompleteTask { agent, ..complete("t") }.into(),
            TaskState::Failed => crate::tasks::FailTask { agent, ..fail("t") }.into(),
            TaskState::Skipped => crate::tasks::CancelTask { agent, ..skip("t") }.into(),
            TaskState::Cancelled => crate::tasks::CancelTask { agent, ..cancel("t") }.into(),
        }
    };
    for to in [
        TaskState::Review,
        TaskState::Paused,
        TaskState::Pending,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Cancelled,
    ] {
        let refused = |caller: Caller, agent: &str| world(TaskState::InProgress).refuses(&caller, named(agent, to));
        assert_eq!(refused(by("other"), "holder"), Code::Forbidden, "{to:?}");
        assert_eq!(refused(by("holder"), "other"), Code::Forbidden, "{to:?}");
        assert_eq!(refused(by("other"), "other"), Code::NotHolder, "{to:?}");
        assert_eq!(refused(Caller::anonymous(), "other"), Code::NotHolder, "{to:?}");
        for (caller, agent) in [
            (by("holder"), "holder"),
            (by("lead"), "holder"),
            (by("lead"), "lead"),
            (anna(), "other"),
            (Caller::anonymous(), "holder"),
        ] {
            let mut w = world(TaskState::InProgress);
            w.does(&caller, named(agent, to));
            assert_eq!(w.task("t").state, to, "{:?} as {agent}", caller.actor);
        }
    }
    assert_eq!(world(TaskState::Failed).refuses(&by("other"), named("holder", TaskState::Pending)), Code::Forbidden);
}

#[test]
fn unknown_tasks_are_not_found() {
    let mut w = World::of(&["a"]);
    for to in TaskState::ALL {
        assert_eq!(w.refuses(&by("a"), command(to)), Code::TaskNotFound);
    }
    assert_eq!(w.refuses(&by("a"), claim("a", "t")), Code::TaskNotFound);
    assert_eq!(w.refuses(&by("a"), retry("t")), Code::TaskNotFound);
    assert_eq!(w.refuses(&anna(), assign("t", "a")), Code::TaskNotFound);
}
