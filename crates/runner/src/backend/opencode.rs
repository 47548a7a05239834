//! opencode: `opencode run --format json`, with all of our settings in one environment variable, which opencode merges over
//! the user's own configuration. The login stays in its place.

use serde_json::{Map, Value, json};

use super::program::bridge::SERVER;
use super::program::dialect::{Dialect, ProgramStart, TurnInput};
use super::program::failure::{self, no_server};
use super::program::report::{ProgramReport, ReportReader, ReportedEnd, count, display_name, one_line};
use super::{BackendEvent, Usage};
use crate::file::AgentProgram;

/// The file with the agent's instructions.
const INSTRUCTIONS: &str = "instructions.md";
/// Time limit for our server to list its tools; the machine may be busy.
const START_MILLISECONDS: u64 = 60_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opencode;

impl Dialect for Opencode {
    fn program(&self) -> AgentProgram {
        AgentProgram::Opencode
    }

    fn start(&self, input: &TurnInput<'_>) -> ProgramStart {
        let mut start = ProgramStart { stdin: input.prompt.to_owned(), ..ProgramStart::default() };
        // Only the log tells whether our server started.
        start.args(["run", "--format", "json", "--print-logs", "--log-level", "WARN"]);
        if let Some(model) = input.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &input.resumes {
            start.args(["--session", &conversation.id]);
        }
        start.required_env("OPENCODE_CONFIG_CONTENT", config(input).to_string());
        start.default_env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        start.files.push((INSTRUCTIONS, input.system.to_owned()));
        start
    }

    fn reader(&self, _input: &TurnInput<'_>) -> Box<dyn ReportReader> {
        Box::new(OpencodeReader)
    }

    fn unknown_conversation_phrases(&self) -> &'static [&'static str] {
        &["Session not found"]
    }
}

fn config(input: &TurnInput<'_>) -> Value {
    let mut config = json!({
        "autoupdate": false,
        "share": "disabled",
        "instructions": [input.state.join(INSTRUCTIONS)],
        "permission": permission(input),
    });
    if let Some(bridge) = input.bridge {
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

/// Allows everything, because no person can be asked; the sandbox confines it. The last matching rule counts.
fn permission(input: &TurnInput<'_>) -> Value {
    let mut rules = Map::from_iter([("*".to_owned(), json!("allow"))]);
    if let Some(tools) = input.allowed {
        rules.insert(format!("{SERVER}_*"), json!("deny"));
        rules.extend(tools.iter().map(|tool| (format!("{SERVER}_{tool}"), json!("allow"))));
    }
    Value::Object(rules)
}

struct OpencodeReader;

impl ReportReader for OpencodeReader {
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        if let Some(id) = event["sessionID"].as_str() {
            report.conversation = Some(id.to_owned());
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("text") => report.say(part["text"].as_str().unwrap_or_default()).into_iter().collect(),
            Some("tool_use") => tool(part, report),
            Some("step_finish") => read_step_end(part, report),
            Some("error") => {
                let error = &event["error"];
                let message = error["data"]["message"].as_str().or(error["name"].as_str()).unwrap_or_default();
                let status = error["data"]["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
                let named = format!("{} {message}", error["name"].as_str().unwrap_or_default());
                let mut failure = failure::classify(AgentProgram::Opencode, status, &named);
                failure.reason = one_line(message, 400);
                report.fail(failure);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn read_stderr(&mut self, line: &str, report: &mut ProgramReport) {
        let ours = line.contains(&format!("key={SERVER} "));
        if ours && line.contains("server unavailable") {
            report.give_up(no_server(AgentProgram::Opencode));
        }
    }
}

/// opencode reports a call when it has ended.
fn tool(part: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
    let name = part["tool"].as_str().unwrap_or_default();
    let call = report.call(name, &part["state"]["input"]);
    let failed = (part["state"]["status"] == "error").then(|| {
        let reason = one_line(part["state"]["error"].as_str().unwrap_or_default(), 200);
        BackendEvent::ToolFailed { name: display_name(name), reason }
    });
    std::iter::once(call).chain(failed).collect()
}

/// Each step reports its usage. The last step is one after which no tool is called.
fn read_step_end(part: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
    let (tokens, before) = (&part["tokens"], report.usage);
    let read = count(&tokens["input"]) + count(&tokens["cache"]["read"]) + count(&tokens["cache"]["write"]);
    let cost = before.cost_usd.unwrap_or_default() + part["cost"].as_f64().unwrap_or_default();
    report.usage = Usage {
        input_tokens: before.input_tokens.saturating_add(read),
        output_tokens: before.output_tokens.saturating_add(count(&tokens["output"]) + count(&tokens["reasoning"])),
        // opencode reports 0 for a model with an unknown price.
        cost_usd: (cost > 0.0).then_some(cost),
    };
    let failed = matches!(report.end, Some(ReportedEnd::Failed(_)));
    if part["reason"] != "tool-calls" && !failed {
        report.end = Some(ReportedEnd::Done);
    }
    vec![BackendEvent::Used(report.usage)]
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::super::program::testing::{bridge, input, read_lines, resumed};
    use super::*;

    fn content(input: &TurnInput<'_>) -> Value {
        serde_json::from_str(&Opencode.start(input).required_env["OPENCODE_CONFIG_CONTENT"]).unwrap()
    }

    #[test]
    fn opencode_server_is_configured_without_a_file_or_a_secret() {
        let bridge = bridge();
        let content = content(&input(&bridge));
        let server = &content["mcp"]["rookery"];
        assert_eq!((&server["type"], &server["command"][1]), (&json!("local"), &json!("mcp")));
        assert_eq!(server["environment"]["ROOKERY_SESSION"], "{env:ROOKERY_SESSION}");
        assert_eq!(content["instructions"][0], "/state/instructions.md");
        assert_eq!(content["permission"], json!({"*": "allow"}));
    }

    #[test]
    fn opencode_tools_that_are_not_allowed_are_denied() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let content = content(&TurnInput { allowed: Some(&few), ..input(&bridge) });
        let rules = content["permission"].as_object().unwrap();
        let rules: Vec<(&str, &str)> =
            rules.iter().map(|(rule, what)| (rule.as_str(), what.as_str().unwrap())).collect();
        assert_eq!(rules, [("*", "allow"), ("rookery_*", "deny"), ("rookery_channel_send", "allow")]);
    }

    #[test]
    fn opencode_prompt_is_on_stdin_and_conversation_is_named() {
        let bridge = bridge();
        let start =
            Opencode.start(&TurnInput { resumes: Some(resumed("ses_1")), model: Some("a/b"), ..input(&bridge) });
        assert!(start.args.starts_with(&["run", "--format", "json"].map(str::to_owned)));
        assert!(start.args.ends_with(&["--model", "a/b", "--session", "ses_1"].map(str::to_owned)), "{:?}", start.args);
        assert_eq!(start.stdin, "what is new");
        assert_eq!(start.files, [(INSTRUCTIONS, "You are a.".to_owned())]);
    }

    #[test]
    fn opencode_turn_is_read_from_beginning_to_end() {
        let (report, events) = read_lines(
            &Opencode,
            &[
                r#"{"type":"step_start","sessionID":"ses_1","part":{}}"#,
                r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"rookery_channel_send","state":{"status":"completed","input":{"message":"hi"},"output":"sent"}}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","tokens":{"input":10,"output":5,"reasoning":1,"cache":{"read":2,"write":1}},"cost":0.25}}"#,
                r#"{"type":"text","sessionID":"ses_1","part":{"text":"Done."}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":10,"output":5},"cost":0.25}}"#,
            ],
        );
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert_eq!((report.conversation.as_deref(), report.last_text.as_deref()), (Some("ses_1"), Some("Done.")));
        assert_eq!(report.usage, Usage { input_tokens: 23, output_tokens: 11, cost_usd: Some(0.5) });
        assert!(report.worked);
        assert_eq!(events[0], BackendEvent::Tool { name: "channel_send".into(), input: r#"{"message":"hi"}"#.into() });
    }

    #[test]
    fn opencode_error_fails_the_turn_whatever_follows() {
        let (report, _) = read_lines(
            &Opencode,
            &[
                r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}"#,
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{}}}"#,
            ],
        );
        let Some(ReportedEnd::Failed(failure)) = report.end else { panic!("{report:?}") };
        assert_eq!((failure.why, failure.reason.as_str()), (Why::Hopeless, "no"));
        let (report, _) = read_lines(
            &Opencode,
            &[r#"{"type":"error","sessionID":"s","error":{"name":"ProviderModelNotFoundError","data":{}}}"#],
        );
        assert!(matches!(report.end, Some(ReportedEnd::Failed(failure)) if failure.why == Why::Hopeless));
    }

    #[test]
    fn opencode_turn_ends_at_once_if_our_server_did_not_start() {
        let mut report = ProgramReport::default();
        let other = r#"level=WARN message="server unavailable" key=mine type=local status=failed"#;
        OpencodeReader.read_stderr(other, &mut report);
        assert!(!report.hopeless);
        let ours = r#"level=WARN message="server unavailable" key=rookery type=local status=failed"#;
        OpencodeReader.read_stderr(ours, &mut report);
        assert!(report.hopeless && matches!(report.end, Some(ReportedEnd::Failed(_))));
    }

    #[test]
    fn opencode_stop_after_a_tool_does_not_end_the_turn() {
        let (report, _) =
            read_lines(&Opencode, &[r#"{"type":"step_finish","part":{"reason":"tool-calls","tokens":{}}}"#]);
        assert_eq!(report.end, None);
    }
}
