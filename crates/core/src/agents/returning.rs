//! An agent that was declared offline shows signs of life: it is here again, with what nobody took meanwhile.

use serde::{Deserialize, Serialize};

use super::{AgentReturned, take_if_vacant};
use crate::files::FileClaimed;
use crate::kernel::id::AgentId;
use crate::model::agent::{Agent, LostFile, Membership};
use crate::model::{Key, ReadSet, Undecided, View, task};
use crate::tasks::TaskClaimed;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, ReplySource};
use crate::{eligibility, files, runs};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReturnAgent {
    pub agent: AgentId,
}

impl Command for ReturnAgent {
    const NAME: &'static str = "ReturnAgent";
    const SETTLES_MEMBERSHIP: bool = true;

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        // One that left did so on purpose: a sign of life that was still on its way takes nothing of that back.
        let agent = cx.view.agent(&self.agent)?;
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        if agent.is_online() {
            return Ok(Decision::unchanged(ReplySource::done()));
        }
        let mut facts = comes_back(cx.view, agent)?;
        facts.extend(take_if_vacant(cx.view, agent)?);
        Ok(Decision::new(facts, ReplySource::done()))
    }
}

/// Its return and what it gets again. `agent` is the agent as it comes back, with what it says of itself now: what it was
/// fit for is not given again if it is so no more. Who leads is for the caller to settle.
pub(super) fn comes_back(view: &View, agent: &Agent) -> Result<Vec<AnyEvent>, Undecided> {
    // Everything is asked for at once: an agent may have lost more than a rule may ask for one by one.
    let tasks = agent
        .claims_when_offline
        .tasks
        .iter()
        .chain(agent.claims_when_offline.files.iter().filter_map(|lost| lost.task.as_ref()));
    let mut read_set: ReadSet = tasks.map(|task| Key::Task(task.clone()).into()).collect();
    read_set.extend(agent.claims_when_offline.files.iter().flat_map(|lost| files::overlap_asks(&lost.path)));
    view.ensure_loaded(read_set)?;
    let mut facts = vec![AnyEvent::new(AgentReturned { agent: agent.id.clone() })];
    let mut regained = Vec::new();
    for id in &agent.claims_when_offline.tasks {
        if let Some(task) = view.find_task(id)?
            && task.claim.is_none()
            && task.reserved_for.is_none()
            && task.state == task::TaskState::Pending
            && is_fit_for(agent, task, regained.len())
        {
            facts.push(AnyEvent::new(TaskClaimed::new(task, &agent.id)));
            regained.push(task);
        }
    }
    facts.extend(runs::start_run(view, &regained)?);
    for lost in &agent.claims_when_offline.files {
        if may_have_again(view, agent, lost)? {
            let known = view.find_file(lost.path.key())?;
            facts.push(AnyEvent::new(FileClaimed {
                path: lost.path.clone(),
                agent: agent.id.clone(),
                task: lost.task.clone(),
                unknown_task: None,
                hash: known.map_or_else(String::new, |file| file.content_hash.clone()),
                site: known.and_then(|file| file.site.clone()),
                from: None,
            }));
        }
    }
    Ok(facts)
}

/// Whether the request of a task, if there is one, still allows it to this agent, who holds nothing else yet.
fn is_fit_for(agent: &Agent, task: &task::Task, regained: usize) -> bool {
    let here = Agent { membership: Membership::Here, ..agent.clone() };
    eligibility::blockers(task, &here, u32::try_from(regained).unwrap_or(u32::MAX)).is_none()
}

/// Nobody took or locked the path, and the task it was claimed for, if any, has not ended meanwhile.
fn may_have_again(view: &View, agent: &Agent, lost: &LostFile) -> Result<bool, Undecided> {
    if let Some(task) = &lost.task
        && view.find_task(task)?.is_none_or(|task| !task.state.is_open())
    {
        return Ok(false);
    }
    Ok(files::lock_on(view, &lost.path)?.is_none() && files::overlapping(view, &lost.path, &agent.id)?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::files::{ClaimFile, LockFile};
    use crate::kernel::code::Code;
    use crate::model::agent::{AgentRole, AgentStatus};
    use crate::testing::{World, anna, by, claim_file, complete, path};

    fn back(agent: &str) -> ReturnAgent {
        ReturnAgent { agent: agent.into() }
    }

    #[test]
    fn one_that_is_here_is_no_news_and_one_unknown_is_refused() {
        let mut w = World::of(&["a", "b", "c"]);
        assert_eq!(w.does(&by("b"), back("b")), [""; 0]);
        assert_eq!(w.refuses(&by("b"), back("x")), Code::AgentNotFound);
        assert_eq!(w.refuses(&by("b"), back("c")), Code::Forbidden);
    }

    #[test]
    fn it_gets_again_what_nobody_took() {
        let mut w = World::of(&["a", "b"]);
        for task in ["kept", "taken", "reserved", "skipped"] {
            w.creates(task, &[]);
            w.starts("b", task);
        }
        for file in ["free", "held/x", "locked", "of_ended"] {
            w.claims_file("b", file).unwrap();
        }
        w.does(&by("b"), ClaimFile { task: Some("skipped".into()), ..claim_file("b", "for_skipped") });
        w.does(&by("b"), ClaimFile { task: Some("kept".into()), ..claim_file("b", "for_kept") });
        w.goes_offline("b");
        w.claims("a", "taken");
        w.does(&anna(), crate::testing::assign("reserved", "a"));
        w.does(&anna(), crate::testing::skip("skipped"));
        w.claims_file("a", "held/").unwrap();
        w.does(&anna(), LockFile { path: path("locked") });
        let facts = w.does(&by("b"), back("b"));
        assert_eq!(facts.iter().filter(|kind| **kind == "task.claimed").count(), 1);
        let held = |w: &World, task| w.holder(task).map(str::to_owned);
        assert_eq!(held(&w, "kept").as_deref(), Some("b"));
        assert_eq!(held(&w, "taken").as_deref(), Some("a"));
        assert_eq!(w.task("reserved").held_by().unwrap().as_str(), "a");
        for (file, holder) in
            [("free", Some("b")), ("held/x", None), ("locked", None), ("for_skipped", None), ("for_kept", Some("b"))]
        {
            assert_eq!(w.file_holder(file), holder, "{file}");
        }
        let agent = w.agent("b");
        assert_eq!((agent.status, agent.holding), (AgentStatus::Working, 1));
        assert_eq!(
            (agent.claims_when_offline.tasks.len(), agent.claims_when_offline.files.len()),
            (0, 0),
            "it is given back once"
        );
    }

    #[test]
    fn however_much_it_lost() {
        let mut w = World::of(&["a", "b"]);
        for n in 0..40 {
            w.creates(&format!("t{n}"), &[]);
            w.claims("b", &format!("t{n}"));
            w.claims_file("b", &format!("dir{n}/f")).unwrap();
        }
        w.goes_offline("b");
        w.does(&by("b"), back("b"));
        assert_eq!(w.agent("b").holding, 40);
        assert_eq!(w.file_holder("dir39/f"), Some("b"));
    }

    #[test]
    fn it_is_idle_with_nothing_and_takes_the_lead_only_if_nobody_has_it() {
        let mut w = World::of(&["a", "b"]);
        w.goes_offline("a");
        assert_eq!(w.does(&by("a"), back("a")), ["agent.returned"]);
        assert_eq!((w.lead(), w.agent("a").status), (Some("b"), AgentStatus::Idle));
        w.goes_offline("a");
        w.goes_offline("b");
        assert_eq!(w.does(&by("a"), back("a")), ["agent.returned", "lead.chosen"]);
        assert_eq!(w.lead(), Some("a"));
    }

    #[test]
    fn one_that_left_comes_back_only_by_registering() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        w.starts("b", "t");
        w.does(&by("b"), LeaveTeam { agent: "b".into() });
        for caller in [by("b"), anna()] {
            assert_eq!(w.refuses(&caller, back("b")), Code::AgentNotFound, "{caller:?}");
        }
        assert!(w.agent("b").has_left());
        assert_eq!(w.joins("b", AgentRole::Worker), ["agent.registered"]);
        assert_eq!((w.does(&by("b"), back("b")), w.holder("t")), (vec![], None), "what it held went with it");
    }

    #[test]
    fn a_task_that_ended_meanwhile_stays_ended() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        w.starts("b", "t");
        w.goes_offline("b");
        w.starts("a", "t");
        w.does(&by("a"), complete("t"));
        assert_eq!(w.joins("b", AgentRole::Worker), ["agent.returned"]);
        assert_eq!(w.task("t").state, task::TaskState::Completed);
    }
}
