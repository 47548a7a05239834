//! Requests a task for each workflow step that names an agent, on behalf of the person who runs the team. The daemon checks
//! the task's result against the step contract.

use jiff::Zoned;
use rookery_client::{Client, ClientError};
use serde_json::{Value, json};

use crate::file::{Ready, StepConfig};

/// Requests the tasks of all steps that have an agent. Requests that were sent in this generation before are not repeated.
pub async fn request_all(client: &Client, ready: &Ready, generation: u64) -> Result<(), ClientError> {
    for step in &ready.workflow.steps {
        let Some(agent) = &step.agent else { continue };
        let task = task_id(ready, step, generation);
        match client.get(&["tasks", &task], &[]).await {
            Ok(_) => continue,
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error),
        }
        let agent = ready.variables.instance.agent(&agent.value);
        client.post(&["clutch", "v0", "messages"], &request(ready, step, &task, agent.as_str())).await?;
    }
    Ok(())
}

/// The task id of a step, which is the same within a generation.
fn task_id(ready: &Ready, step: &StepConfig, generation: u64) -> String {
    format!("task_{}_{generation}_{}", ready.variables.instance.name(), step.rule.id)
}

fn request(ready: &Ready, step: &StepConfig, task: &str, agent: &str) -> Value {
    let instance = &ready.variables.instance;
    let expects = &step.rule.expects;
    let mut fields: Vec<&str> = expects.required.iter().map(String::as_str).collect();
    fields.sort_unstable();
    json!({
        "v": "clutch/0.1",
        "id": format!("msg_{task}"),
        "ts": Zoned::now().timestamp().to_string(),
        "type": "task.request",
        "run_id": instance.run().as_str(),
        "thread_id": instance.thread().as_str(),
        "task_id": task,
        "from": {"agent_id": "person:local"},
        "to": [{"agent_id": format!("agent:{agent}")}],
        "meta": {"workflow": ready.name, "step": step.rule.id},
        "payload": {
            "title": format!("{} of {}", step.rule.id, ready.name),
            "payload_type": expects.payload_type.as_str(),
            "required": fields,
        },
    })
}
