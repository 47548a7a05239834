//! `rookery run-tree`

use std::collections::HashMap;

use rookery_client::wire::{self, Attempt, RunTask, RunTreeAnswer};
use rookery_client::{Client, ClientError};
use serde_json::{Value, json};

use super::runs;
use crate::cli::clock::{self, Clock};
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};

/// How many tasks are asked for at once, and how often at most.
const PAGE: usize = 1_000;
const PAGES: usize = 20;

/// Show a run as the whole tree of its tasks: who did what, how often it was tried, how long it took
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run; `rookery runs` lists them
    #[arg(value_name = "RUN")]
    run: String,

    /// First have this task begin anew, which has ended, with its subtasks and all that depends on it
    #[arg(long, value_name = "TASK")]
    retry: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    if let Some(task) = &args.retry {
        client.post(&["clutch", "v0", "runs", &args.run, "retry"], &json!({ "task_id": task })).await?;
    }
    let answer = whole(&client, &args.run).await?;
    if context.out.format() == Format::Json {
        return context.out.json(&answer);
    }
    let tree: RunTreeAnswer = wire::read(&answer)?;
    let signs = if context.out.is_terminal() { Signs::GLYPHS } else { Signs::LETTERS };
    let drawing = Drawing { signs, clock: context.out.clock(), lines: vec![] };
    for (line, tone) in drawing.draw(&tree) {
        context.out.line(&line, tone)?;
    }
    if let Some(more) = left_out(&answer) {
        context.out.note(&more);
    }
    Ok(())
}

/// All tasks, however many pages they come in, each below its parent.
async fn whole(client: &Client, run: &str) -> Result<Value, ClientError> {
    let path = ["clutch", "v0", "runs", run];
    let mut answer = client.get(&path, &[("limit", PAGE.to_string())]).await?;
    let mut tasks = answer["tasks"].take();
    for _ in 1..PAGES {
        let Some(next) = answer["next"].as_u64() else { break };
        let query = [("limit", PAGE.to_string()), ("after", next.to_string())];
        let mut page = client.get(&path, &query).await?;
        answer["next"] = page["next"].take();
        if let (Some(tasks), Some(more)) = (tasks.as_array_mut(), page["tasks"].as_array_mut()) {
            tasks.append(more);
        }
    }
    answer["tasks"] = Value::Array(nested(tasks));
    Ok(answer)
}

/// Puts tasks below their parents, whichever page each came with. One whose parent is not among them stands alone.
fn nested(tasks: Value) -> Vec<Value> {
    let mut flat = Vec::new();
    flatten(tasks, &mut flat);
    let places: HashMap<String, usize> =
        flat.iter().enumerate().map(|(at, task)| (task_id(&task["task_id"]), at)).collect();
    let mut below: Vec<Vec<Value>> = vec![vec![]; flat.len()];
    let mut roots = Vec::new();
    // From the last one on, so that each is whole before it is put below its parent, which comes before it.
    for (at, mut task) in flat.into_iter().enumerate().rev() {
        let mut children = std::mem::take(&mut below[at]);
        children.reverse();
        task["children"] = Value::Array(children);
        let parent = places.get(&task_id(&task["parent_task_id"])).filter(|parent| **parent < at);
        parent.map_or(&mut roots, |parent| &mut below[*parent]).push(task);
    }
    roots.reverse();
    roots
}

fn flatten(tasks: Value, into: &mut Vec<Value>) {
    let Value::Array(tasks) = tasks else { return };
    for mut task in tasks {
        let children = task["children"].take();
        into.push(task);
        flatten(children, into);
    }
}

fn task_id(id: &Value) -> String {
    id.as_str().unwrap_or_default().to_owned()
}

fn count(tasks: &Value) -> u64 {
    let tasks = tasks.as_array().into_iter().flatten();
    tasks.map(|task| 1 + count(&task["children"])).sum()
}

/// What to say of the tasks that are not shown, if there are any.
fn left_out(answer: &Value) -> Option<String> {
    let next = answer["next"].as_u64()?;
    let shown = count(&answer["tasks"]);
    let more = answer["task_count"].as_u64().map(|all| all.saturating_sub(shown));
    let more = more.map_or_else(|| "more".to_owned(), |more| format!("{more} more"));
    let run = answer["run_id"].as_str().unwrap_or_default();
    Some(format!("{shown} tasks are shown; there are {more}: GET /clutch/v0/runs/{run}?after={next} goes on there"))
}

/// What a tree is drawn with.
#[derive(Debug, Clone, Copy)]
struct Signs {
    fork: &'static str,
    last: &'static str,
    along: &'static str,
    waiting: &'static str,
    working: &'static str,
    paused: &'static str,
    done: &'static str,
    failed: &'static str,
    dropped: &'static str,
}

impl Signs {
    const GLYPHS: Signs = Signs {
        fork: "├─ ",
        last: "└─ ",
        along: "│  ",
        waiting: "○",
        working: "●",
        paused: "◌",
        done: "✓",
        failed: "✗",
        dropped: "–",
    };
    const LETTERS: Signs = Signs {
        fork: "|- ",
        last: "`- ",
        along: "|  ",
        waiting: "[ ]",
        working: "[>]",
        paused: "[=]",
        done: "[x]",
        failed: "[!]",
        dropped: "[-]",
    };

    fn of(self, state: &str) -> (&'static str, TextStyle) {
        match state {
            "planning" | "in_progress" | "review" => (self.working, TextStyle::Good),
            "paused" => (self.paused, TextStyle::Warning),
            "completed" => (self.done, TextStyle::Plain),
            "failed" => (self.failed, TextStyle::Bad),
            "skipped" | "cancelled" => (self.dropped, TextStyle::Dim),
            _ => (self.waiting, TextStyle::Plain),
        }
    }
}

struct Drawing<'a> {
    signs: Signs,
    clock: &'a Clock,
    lines: Vec<(String, TextStyle)>,
}

impl Drawing<'_> {
    fn draw(mut self, tree: &RunTreeAnswer) -> Vec<(String, TextStyle)> {
        let run = &tree.run;
        let title = if run.title == run.run_id { "" } else { run.title.as_str() };
        let heading = [run.run_id.as_str(), run.status.as_str(), title];
        let heading: Vec<&str> = heading.into_iter().filter(|part| !part.is_empty()).collect();
        self.lines.push((heading.join("  "), runs::tone(&run.status)));
        self.tasks(&tree.tasks, "");
        self.lines
    }

    fn tasks(&mut self, tasks: &[RunTask], indent: &str) {
        for (at, task) in tasks.iter().enumerate() {
            let is_last = at + 1 == tasks.len();
            let (branch, below) = if is_last { (self.signs.last, "   ") } else { (self.signs.fork, self.signs.along) };
            let (sign, tone) = self.signs.of(&task.state);
            self.lines.push((format!("{indent}{branch}{sign} {}", self.task(task)), tone));
            let indent = format!("{indent}{below}");
            // One attempt that went well is told by the line of the task.
            if task.attempts.len() > 1 || task.attempts.iter().any(|attempt| attempt.error.is_some()) {
                let along = if task.children.is_empty() { "   " } else { self.signs.along };
                for attempt in &task.attempts {
                    self.lines.push((format!("{indent}{along}{}", self.attempt(attempt)), TextStyle::Dim));
                }
            }
            self.tasks(&task.children, &indent);
        }
    }

    fn task(&self, task: &RunTask) -> String {
        let mut parts = vec![format!("{} ({})", task.title, task.task_id), task.state.clone()];
        parts.extend(task.agent.as_deref().map(bare));
        if !task.waiting_on.is_empty() {
            parts.push(format!("waits for {}", task.waiting_on.join(", ")));
        }
        parts.extend(task.queued_ms.map(|queued| format!("queued {}", clock::millis(queued))));
        let worked = || task.attempts.iter().filter(|attempt| attempt.outcome.as_deref() != Some("not_accepted"));
        if worked().any(|attempt| attempt.duration_ms.is_some()) {
            parts.push(format!("worked {}", clock::millis(task.working_ms)));
        }
        let open = task.attempts.last().filter(|attempt| attempt.outcome.is_none());
        let since = open.and_then(|attempt| self.clock.since(&attempt.started_at));
        parts.extend(since.map(|since| format!("at it for {since}")));
        let next = task.clocks.get("retry_backoff").and_then(|at| self.clock.until(at));
        parts.extend(next.map(|next| format!("attempt {} in {next}", task.attempt)));
        let attempts =
            task.attempts.iter().filter(|attempt| attempt.outcome.as_deref() != Some("not_accepted")).count();
        if attempts > 1 {
            parts.push(format!("{attempts} attempts"));
        }
        parts.join("  ")
    }

    fn attempt(&self, attempt: &Attempt) -> String {
        let outcome = attempt.outcome.as_deref().unwrap_or("under way").replace('_', " ");
        let time = attempt.duration_ms.map(|took| format!(" after {}", clock::millis(took))).unwrap_or_default();
        let error = attempt.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("attempt {} by {}: {outcome}{time}{error}", attempt.attempt, bare(&attempt.agent))
    }
}

fn bare(agent: &str) -> String {
    agent.strip_prefix("agent:").unwrap_or(agent).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(signs: Signs) -> String {
        let tree = json!({
            "run_id": "run_1", "title": "a report", "status": "in_progress",
            "tasks": [
                {"task_id": "t1", "title": "find", "state": "completed", "agent": "agent:mia", "queued_ms": 400,
                 "working_ms": 65_000, "attempts": [
                    {"attempt": 1, "agent": "agent:ken", "duration_ms": 5_000, "outcome": "failed", "error": "no network"},
                    {"attempt": 2, "agent": "agent:mia", "duration_ms": 60_000, "outcome": "completed"}],
                 "children": [
                    {"task_id": "t2", "title": "ask", "state": "in_progress", "agent": "agent:ken", "queued_ms": 1_250,
                     "attempts": [{"attempt": 1, "agent": "agent:ken", "started_at": "2023-11-14T22:12:50.000Z"}]}]},
                {"task_id": "t3", "title": "write", "state": "pending", "waiting_on": ["t2"]},
            ],
        });
        let clock = Clock::fixed(1_700_000_000_000);
        let lines = Drawing { signs, clock: &clock, lines: vec![] }.draw(&wire::read(&tree).unwrap());
        lines.into_iter().map(|(line, _)| line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_left_out_is_told() {
        let answer = |next: Value, all: Value| {
            json!({"run_id": "run_1", "next": next, "task_count": all,
            "tasks": [{"children": [{"children": []}]}, {}]})
        };
        assert_eq!(left_out(&answer(Value::Null, json!(3))), None);
        let told = left_out(&answer(json!(17), json!(40))).unwrap();
        assert!(
            told.starts_with("3 tasks are shown; there are 37 more: ") && told.contains("run_1?after=17"),
            "{told}"
        );
        assert!(left_out(&answer(json!(17), Value::Null)).unwrap().contains("there are more:"));
    }

    #[test]
    fn a_tree_for_people() {
        insta::assert_snapshot!(drawn(Signs::GLYPHS), @r"
        run_1  in_progress  a report
        ├─ ✓ find (t1)  completed  mia  queued 400ms  worked 65s  2 attempts
        │  │  attempt 1 by ken: failed after 5.0s: no network
        │  │  attempt 2 by mia: completed after 60s
        │  └─ ● ask (t2)  in_progress  ken  queued 1.2s  at it for 30s
        └─ ○ write (t3)  pending  waits for t2
        ");
    }

    #[test]
    fn a_tree_in_letters() {
        insta::assert_snapshot!(drawn(Signs::LETTERS), @r"
        run_1  in_progress  a report
        |- [x] find (t1)  completed  mia  queued 400ms  worked 65s  2 attempts
        |  |  attempt 1 by ken: failed after 5.0s: no network
        |  |  attempt 2 by mia: completed after 60s
        |  `- [>] ask (t2)  in_progress  ken  queued 1.2s  at it for 30s
        `- [ ] write (t3)  pending  waits for t2
        ");
    }
}
