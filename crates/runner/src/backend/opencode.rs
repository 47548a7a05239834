//! opencode: `opencode run --format json`, everything of ours in one variable of its environment that is laid over the
//! user's own configuration. The login stays where it is.

use serde_json::{Map, Value, json};

use super::program::bridge::SERVER;
use super::program::dialect::{Asked, Dialect, Start};
use super::program::failure::{self, no_server};
use super::program::report::{Heard, Reader, ReportedEnd, count, one_line, plain};
use super::{BackendEvent, Usage};
use crate::file::AgentProgram;

/// What the agent is told about itself, as a file of instructions.
const INSTRUCTIONS: &str = "instructions.md";
/// How long our server may take to tell its tools; the machine may be busy.
const START_MILLISECONDS: u64 = 60_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opencode;

impl Dialect for Opencode {
    fn program(&self) -> AgentProgram {
        AgentProgram::Opencode
    }

    fn start(&self, asked: &Asked<'_>) -> Start {
        let mut start = Start { stdin: asked.prompt.to_owned(), ..Start::default() };
        // Whether our server started is told by its log and nothing else.
        start.args(["run", "--format", "json", "--print-logs", "--log-level", "WARN"]);
        if let Some(model) = asked.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &asked.resumes {
            start.args(["--session", &conversation.id]);
        }
        start.fixed("OPENCODE_CONFIG_CONTENT", config(asked).to_string());
        start.usual("OPENCODE_DISABLE_AUTOUPDATE", "1");
        start.files.push((INSTRUCTIONS, asked.system.to_owned()));
        start
    }

    fn reader(&self, _asked: &Asked<'_>) -> Box<dyn Reader> {
        Box::new(Listening)
    }

    fn forgot(&self) -> &'static [&'static str] {
        &["Session not found"]
    }
}

fn config(asked: &Asked<'_>) -> Value {
    let mut config = json!({
        "autoupdate": false,
        "share": "disabled",
        "instructions": [asked.state.join(INSTRUCTIONS)],
        "permission": permission(asked),
    });
    if let Some(bridge) = asked.bridge {
        config["mcp"] = json!({SERVER: {
            "type": "local",
            "command": bridge.argv(),
            "environment": bridge.environment(|name| format!("{{env:{name}}}")),
            "enabled": true,
            "timeout": START_MILLISECONDS,
        }});
    }
    config
}

/// Nobody is there to be asked, so all is allowed, and the sandbox keeps it inside. The last rule that fits counts.
fn permission(asked: &Asked<'_>) -> Value {
    let mut rules = Map::from_iter([("*".to_owned(), json!("allow"))]);
    if let Some(tools) = asked.allowed {
        rules.insert(format!("{SERVER}_*"), json!("deny"));
        rules.extend(tools.iter().map(|tool| (format!("{SERVER}_{tool}"), json!("allow"))));
    }
    Value::Object(rules)
}

struct Listening;

impl Reader for Listening {
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        if let Some(id) = event["sessionID"].as_str() {
            heard.conversation = Some(id.to_owned());
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("text") => heard.say(part["text"].as_str().unwrap_or_default()).into_iter().collect(),
            Some("tool_use") => tool(part, heard),
            Some("step_finish") => finished(part, heard),
            Some("error") => {
                let error = &event["error"];
                let said = error["data"]["message"].as_str().or(error["name"].as_str()).unwrap_or_default();
                let status = error["data"]["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
                let named = format!("{} {said}", error["name"].as_str().unwrap_or_default());
                let mut failure = failure::failure(AgentProgram::Opencode, status, &named);
                failure.reason = one_line(said, 400);
                heard.fail(failure);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn overhear(&mut self, line: &str, heard: &mut Heard) {
        let ours = line.contains(&format!("key={SERVER} "));
        if ours && line.contains("server unavailable") {
            heard.give_up(no_server(AgentProgram::Opencode));
        }
    }
}

/// Calls are told when they are over.
fn tool(part: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
    let name = part["tool"].as_str().unwrap_or_default();
    let called = heard.call(name, &part["state"]["input"]);
    let failed = (part["state"]["status"] == "error").then(|| {
        let reason = one_line(part["state"]["error"].as_str().unwrap_or_default(), 200);
        BackendEvent::ToolFailed { name: plain(name), reason }
    });
    std::iter::once(called).chain(failed).collect()
}

/// Each step tells what it used; the last one is that after which no tool is called.
fn finished(part: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
    let (tokens, before) = (&part["tokens"], heard.usage);
    let read = count(&tokens["input"]) + count(&tokens["cache"]["read"]) + count(&tokens["cache"]["write"]);
    let cost = before.cost_usd.unwrap_or_default() + part["cost"].as_f64().unwrap_or_default();
    heard.usage = Usage {
        input_tokens: before.input_tokens.saturating_add(read),
        output_tokens: before.output_tokens.saturating_add(count(&tokens["output"]) + count(&tokens["reasoning"])),
        // It says 0 for a model whose price it does not know.
        cost_usd: (cost > 0.0).then_some(cost),
    };
    let failed = matches!(heard.end, Some(ReportedEnd::Failed(_)));
    if part["reason"] != "tool-calls" && !failed {
        heard.end = Some(ReportedEnd::Done);
    }
    vec![BackendEvent::Used(heard.usage)]
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::super::program::testing::{asked, bridge, hear, resumed};
    use super::*;

    fn content(asked: &Asked<'_>) -> Value {
        serde_json::from_str(&Opencode.start(asked).fixed["OPENCODE_CONFIG_CONTENT"]).unwrap()
    }

    #[test]
    fn our_server_is_configured_without_a_file_and_without_a_secret() {
        let bridge = bridge();
        let content = content(&asked(&bridge));
        let server = &content["mcp"]["rookery"];
        assert_eq!((&server["type"], &server["command"][1]), (&json!("local"), &json!("mcp")));
        assert_eq!(server["environment"]["ROOKERY_SESSION"], "{env:ROOKERY_SESSION}");
        assert_eq!(content["instructions"][0], "/state/instructions.md");
        assert_eq!(content["permission"], json!({"*": "allow"}));
    }

    #[test]
    fn tools_of_ours_that_are_not_allowed_are_denied() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let content = content(&Asked { allowed: Some(&few), ..asked(&bridge) });
        let rules = content["permission"].as_object().unwrap();
        let rules: Vec<(&str, &str)> =
            rules.iter().map(|(rule, what)| (rule.as_str(), what.as_str().unwrap())).collect();
        assert_eq!(rules, [("*", "allow"), ("rookery_*", "deny"), ("rookery_channel_send", "allow")]);
    }

    #[test]
    fn the_prompt_is_on_stdin_and_the_conversation_is_named() {
        let bridge = bridge();
        let start = Opencode.start(&Asked { resumes: Some(resumed("ses_1")), model: Some("a/b"), ..asked(&bridge) });
        assert!(start.args.starts_with(&["run", "--format", "json"].map(str::to_owned)));
        assert!(start.args.ends_with(&["--model", "a/b", "--session", "ses_1"].map(str::to_owned)), "{:?}", start.args);
        assert_eq!(start.stdin, "what is new");
        assert_eq!(start.files, [(INSTRUCTIONS, "You are a.".to_owned())]);
    }

    #[test]
    fn a_turn_is_heard_from_beginning_to_end() {
        let (heard, events) = hear(
            &Opencode,
            &[
                r#"{"type":"step_start","sessionID":"ses_1","part":{}}"#,
                r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"rookery_channel_send","state":{"status":"completed","input":{"message":"hi"},"output":"sent"}}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","tokens":{"input":10,"output":5,"reasoning":1,"cache":{"read":2,"write":1}},"cost":0.25}}"#,
                r#"{"type":"text","sessionID":"ses_1","part":{"text":"Done."}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":10,"output":5},"cost":0.25}}"#,
            ],
        );
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert_eq!((heard.conversation.as_deref(), heard.said.as_deref()), (Some("ses_1"), Some("Done.")));
        assert_eq!(heard.usage, Usage { input_tokens: 23, output_tokens: 11, cost_usd: Some(0.5) });
        assert!(heard.worked);
        assert_eq!(events[0], BackendEvent::Tool { name: "channel_send".into(), input: r#"{"message":"hi"}"#.into() });
    }

    #[test]
    fn an_error_fails_whatever_comes_after_it() {
        let (heard, _) = hear(
            &Opencode,
            &[
                r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{}}}"#,
            ],
        );
        let Some(ReportedEnd::Failed(failure)) = heard.end else { panic!("{heard:?}") };
        assert_eq!((failure.why, failure.reason.as_str()), (Why::Hopeless, "no"));
        let (heard, _) = hear(
            &Opencode,
            &[r#"{"type":"error","sessionID":"s","error":{"name":"ProviderModelNotFoundError","data":{}}}"#],
        );
        assert!(matches!(heard.end, Some(ReportedEnd::Failed(failure)) if failure.why == Why::Hopeless));
    }

    #[test]
    fn a_server_that_did_not_start_ends_the_turn_at_once() {
        let mut heard = Heard::default();
        let other = r#"level=WARN message="server unavailable" key=mine type=local status=failed"#;
        Listening.overhear(other, &mut heard);
        assert!(!heard.hopeless);
        let ours = r#"level=WARN message="server unavailable" key=rookery type=local status=failed"#;
        Listening.overhear(ours, &mut heard);
        assert!(heard.hopeless && matches!(heard.end, Some(ReportedEnd::Failed(_))));
    }

    #[test]
    fn one_that_stops_after_a_tool_has_not_ended_its_turn() {
        let (heard, _) = hear(&Opencode, &[r#"{"type":"step_finish","part":{"reason":"tool-calls","tokens":{}}}"#]);
        assert_eq!(heard.end, None);
    }
}
