//! The situation that an act starts from. It is built by the same HTTP calls for every surface: REST, and envelopes or
//! tools only for states that REST cannot reach.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, Setup, read};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::act::{Given, Who};
use crate::answer::refusal_flag;
use crate::drivers::{clutch, mcp};

/// The person that the project's key belongs to.
pub const PERSON: &str = "person:local";

/// A daemon for the acts of one family, with its lead.
pub struct Stage {
    pub daemon: Daemon,
    pub person_key: String,
    _folder: TempDir,
}

impl Stage {
    pub async fn start() -> Stage {
        let setup = Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch");
        // In memory, if there is such a folder: hundreds of small commits need no disk here.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let daemon = setup.start_at(folder.path()).unwrap();
        let person_key = daemon.person_key().unwrap();
        let stage = Stage { daemon, person_key, _folder: folder };
        let lead = json!({"id": "lead", "tool": "test", "role": "lead"});
        stage.call(Method::POST, "/agents/announce", Who::Lead, "lead", lead).await;
        stage
    }

    /// The position of the newest event.
    pub async fn head(&self) -> u64 {
        let reply = self.daemon.get("/status").await.unwrap();
        reply.headers["x-rookery-seq"].to_str().unwrap().parse().unwrap()
    }

    /// A REST call that is part of a situation and must succeed.
    async fn call(&self, method: Method, path: &str, by: Who, agent: &str, body: Value) -> Value {
        let request = self.daemon.request(method, path).json(&body);
        let request = match by {
            Who::Person => request.bearer_auth(&self.person_key),
            Who::Ada | Who::Ben | Who::Lead | Who::Stranger => request.header("x-agent-id", agent),
        };
        let reply = read(request).await.unwrap();
        assert!(reply.status.is_success() && refusal_flag(&reply.body).is_none(), "{path}: {body} {}", reply.body);
        reply.body
    }
}

/// The names and ids of one act on one surface. Every name carries the scene's mark, so that scenes share a daemon. If
/// a situation has no task, handoff or run, their ids are unknown to the daemon.
#[derive(Debug, Default)]
pub struct Scene {
    mark: String,
    pub task: String,
    pub dependency: String,
    pub handoff: String,
    pub run_with_plan: String,
    /// Where the scene's task is; requested tasks have their own run and thread.
    pub run: String,
    pub thread: String,
    /// Minted ids and their names in the expectations.
    pub labels: Vec<(String, &'static str)>,
}

impl Scene {
    /// A scene that only has names; enough to ask whether a surface has an act.
    pub fn new(number: usize) -> Scene {
        let mark = format!("-s{number:03}");
        let unknown = format!("unknown{mark}");
        Scene {
            mark,
            task: unknown.clone(),
            handoff: unknown.clone(),
            run_with_plan: unknown,
            run: "run_default".into(),
            thread: "thr_default".into(),
            ..Scene::default()
        }
    }

    pub async fn build(stage: &Stage, number: usize, given: &[Given]) -> Scene {
        let mut scene = Scene::new(number);
        for who in [Who::Ada, Who::Ben] {
            let id = scene.name(who);
            let body = json!({"id": id, "tool": "test", "role": "worker", "name": id, "capabilities": ["code"]});
            stage.call(Method::POST, "/agents/announce", who, &id, body).await;
        }
        for step in given {
            scene.take(stage, *step).await;
        }
        scene
    }

    /// Whether a text is about another scene and not about this one.
    pub fn is_foreign(&self, text: &str) -> bool {
        let is_marked = |text: &str| {
            text.split("-s")
                .skip(1)
                .any(|after| after.len() >= 3 && after.as_bytes()[..3].iter().all(u8::is_ascii_digit))
        };
        let is_own = text.contains(&self.mark) || self.labels.iter().any(|(id, _)| text.contains(id.as_str()));
        is_marked(text) && !is_own
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    pub fn name(&self, who: Who) -> String {
        match who {
            Who::Ada => format!("ada{}", self.mark),
            Who::Ben => format!("ben{}", self.mark),
            Who::Stranger => format!("eve{}", self.mark),
            Who::Lead => "lead".into(),
            Who::Person => PERSON.into(),
        }
    }

    /// The agent that an act is done for: a person acts for Ada.
    pub fn agent(&self, by: Who) -> String {
        match by {
            Who::Person => self.name(Who::Ada),
            Who::Ada | Who::Ben | Who::Lead | Who::Stranger => self.name(by),
        }
    }

    /// A name that is used nowhere else, such as a message id.
    pub fn unique(&self, name: &str) -> String {
        format!("{name}{}", self.mark)
    }

    pub fn folder(&self) -> String {
        format!("src{}/", self.mark)
    }

    pub fn file(&self) -> String {
        format!("{}a.rs", self.folder())
    }

    async fn take(&mut self, stage: &Stage, step: Given) {
        match step {
            Given::Task => self.task = self.post_task(stage, json!({}), "<task>").await,
            Given::TaskReservedFor(who) => {
                let reserved = json!({"assigned_to": self.name(who)});
                self.task = self.post_task(stage, reserved, "<task>").await;
            }
            Given::TaskBlocked => {
                self.dependency = self.post_task(stage, json!({}), "<dependency>").await;
                let waiting = json!({"depends_on": [self.dependency]});
                self.task = self.post_task(stage, waiting, "<task>").await;
            }
            Given::Dependent => {
                let waiting = json!({"depends_on": [self.task]});
                self.post_task(stage, waiting, "<dependent>").await;
            }
            Given::TaskRequestedBy(who) => {
                (self.run, self.thread, self.task) = (self.unique("run"), self.unique("thr"), self.unique("task"));
                self.send(stage, who, "request", "task.request", json!({"title": "work"})).await;
            }
            Given::RunWithPlan => self.plan_run(stage).await,
            Given::Claimed(who) => self.patch(stage, who, "assigned").await,
            Given::Started(who) => self.patch(stage, who, "in_progress").await,
            Given::Paused(who) => self.patch(stage, who, "blocked").await,
            Given::InReview(who) => self.patch(stage, who, "review").await,
            Given::Completed(who) => self.patch(stage, who, "done").await,
            Given::Failed(who) => {
                let error = json!({"message": "broke", "retryable": false});
                self.send(stage, who, "given-error", "task.error", error).await;
            }
            Given::Cancelled => {
                let path = format!("/tasks/{}/cancel", self.task);
                self.call(stage, Method::POST, &path, Who::Person, json!({})).await;
            }
            Given::HandoffOffered(from, to) => self.offer(stage, from, to).await,
            Given::HandoffAccepted(who) => {
                let path = format!("/handoffs/{}/accept", self.handoff);
                self.call(stage, Method::PATCH, &path, who, json!({"agent_id": self.name(who)})).await;
            }
            Given::FileClaimed(who) => self.claim_file(stage, who).await,
            Given::FileConflict(holder, intruder) => {
                self.claim_file(stage, holder).await;
                let action = "resource.modified";
                let report = json!({"agent_id": self.name(intruder), "action": action, "resource": self.file()});
                self.call(stage, Method::POST, "/events", intruder, report).await;
            }
            Given::FileLocked => {
                let body = json!({"path": self.file()});
                self.call(stage, Method::POST, "/resources/lock", Who::Lead, body).await;
            }
            Given::AgentPaused(who) => {
                let path = format!("/agents/{}/pause", self.name(who));
                self.call(stage, Method::POST, &path, Who::Person, json!({"reason": "given"})).await;
            }
            Given::AgentWorking(who) => {
                let path = format!("/agents/{}/status", self.name(who));
                self.call(stage, Method::PATCH, &path, who, json!({"status": "working"})).await;
            }
            Given::AgentLeft(who) => {
                self.call(stage, Method::DELETE, &format!("/agents/{}", self.name(who)), who, json!({})).await;
            }
            Given::AgentCard(who) => {
                let (path, card) =
                    (format!("/clutch/v0/agents/{}", self.name(who)), clutch::card(&self.name(who), "code"));
                self.call(stage, Method::PUT, &path, who, card).await;
            }
        }
    }

    async fn call(&self, stage: &Stage, method: Method, path: &str, by: Who, body: Value) -> Value {
        stage.call(method, path, by, &self.name(by), body).await
    }

    async fn post_task(&mut self, stage: &Stage, more: Value, label: &'static str) -> String {
        let mut body = json!({"title": "work", "assigned_by": self.name(Who::Stranger)});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let task = self.call(stage, Method::POST, "/tasks", Who::Stranger, body).await;
        self.label(&task["id"], label)
    }

    fn label(&mut self, id: &Value, label: &'static str) -> String {
        let id = id.as_str().unwrap().to_owned();
        self.labels.push((id.clone(), label));
        id
    }

    async fn patch(&self, stage: &Stage, who: Who, status: &str) {
        let body = json!({"status": status, "agent_id": self.name(who), "reason": "given"});
        self.call(stage, Method::PATCH, &format!("/tasks/{}", self.task), who, body).await;
    }

    /// Sends an envelope, for states that REST cannot reach.
    async fn send(&self, stage: &Stage, from: Who, id: &str, kind: &str, payload: Value) {
        let envelope = clutch::envelope(self, &self.unique(id), kind, from, payload);
        let reply = stage.daemon.post("/clutch/v0/messages", envelope).await.unwrap();
        assert_eq!(reply.status, 202, "{kind}: {}", reply.body);
    }

    /// Only MCP opens runs with a plan.
    async fn plan_run(&mut self, stage: &Stage) {
        let run = json!({"name": "a run", "source_type": "prompt", "source_content": "do it"});
        let run = mcp::prepare(stage, "workflow_create", run).await;
        self.run_with_plan = self.label(&run["id"], "<run>");
        let plan = json!({"summary": "one step", "tasks": [{"name": "first"}]});
        mcp::prepare(stage, "workflow_set_plan", json!({"id": self.run_with_plan, "plan": plan})).await;
        let planned = json!({"id": self.run_with_plan, "include_tasks": true});
        let planned = mcp::prepare(stage, "workflow_get", planned).await;
        self.label(&planned["tasks"][0]["id"], "<first>");
    }

    async fn offer(&mut self, stage: &Stage, from: Who, to: Option<Who>) {
        let (from_agent, to_agent) = (self.name(from), to.map(|to| self.name(to)));
        let body =
            json!({"from_agent": from_agent, "to_agent": to_agent, "task_id": self.task, "summary": "half done"});
        let handoff = self.call(stage, Method::POST, "/handoffs", from, body).await;
        self.handoff = self.label(&handoff["id"], "<handoff>");
    }

    async fn claim_file(&self, stage: &Stage, who: Who) {
        let body = json!({"path": self.file(), "agent_id": self.name(who)});
        self.call(stage, Method::POST, "/resources/claim", who, body).await;
    }
}
