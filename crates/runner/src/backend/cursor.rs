//! Cursor's agent: `cursor-agent -p`. It reads MCP servers only from files, so `.cursor/mcp.json` of its folder is overridden
//! while it runs ([`super::program::override_file`]). The session key is in its environment, so that several agents can share
//! one file.
//!
//! Written from its documentation, and never run against the real program.

use serde_json::{Value, json};

use super::BackendEvent;
use super::program::bridge::SERVER;
use super::program::dialect::{Dialect, MAX_ARGUMENT_BYTES, ProgramStart, TurnInput};
use super::program::failure;
use super::program::report::{ProgramReport, ReportReader, ReportedEnd, display_name, one_line, text_of};
use crate::file::AgentProgram;

/// The file that names MCP servers.
const SERVERS: &str = ".cursor/mcp.json";
/// The file for a prompt that is too long for an argument.
const PROMPT: &str = "prompt.md";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor;

impl Dialect for Cursor {
    fn program(&self) -> AgentProgram {
        AgentProgram::Cursor
    }

    fn start(&self, input: &TurnInput<'_>) -> ProgramStart {
        let mut start = ProgramStart::default();
        start.args(["-p", "--output-format", "stream-json", "--force", "--trust", "--approve-mcps"]);
        start.args(["--workspace".to_owned(), input.folder.display().to_string()]);
        if let Some(model) = input.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &input.resumes {
            start.args(["--resume", &conversation.id]);
        }
        let text = input.prompt_with_system();
        if text.len() <= MAX_ARGUMENT_BYTES && !text.contains('\0') {
            start.args([text]);
        } else {
            let path = input.state.join(PROMPT);
            start.args([format!("Read the whole file {} and do what it says.", path.display())]);
            start.files.push((PROMPT, text));
        }
        start.overridden = input.bridge.map(|_| (input.folder.join(SERVERS), servers(input).to_string()));
        start
    }

    fn reader(&self, _input: &TurnInput<'_>) -> Box<dyn ReportReader> {
        Box::new(CursorReader { saying: String::new() })
    }

    fn unknown_conversation_phrases(&self) -> &'static [&'static str] {
        &[]
    }
}

fn servers(input: &TurnInput<'_>) -> Value {
    let Some(bridge) = input.bridge else { return json!({"mcpServers": {}}) };
    let environment = bridge.environment(|name| format!("${{env:{name}}}"));
    json!({"mcpServers": {SERVER: {"command": bridge.command, "args": bridge.args, "env": environment}}})
}

struct CursorReader {
    /// Text received so far; it comes in pieces.
    saying: String,
}

impl ReportReader for CursorReader {
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        if let Some(id) = event["session_id"].as_str() {
            report.conversation = Some(id.to_owned());
        }
        match (event["type"].as_str(), event["subtype"].as_str()) {
            (Some("assistant"), _) => {
                self.saying.push_str(&text_of(&event["message"]["content"]));
                Vec::new()
            }
            (Some("tool_call"), Some("started")) => {
                let text_event = report.say(&std::mem::take(&mut self.saying));
                let (name, call) = find_call(&event["tool_call"]);
                text_event.into_iter().chain([report.call(&name, &call["args"])]).collect()
            }
            (Some("tool_call"), Some("completed")) => read_failure(&event["tool_call"]).into_iter().collect(),
            (Some("result"), _) => self.result(event, report),
            _ => Vec::new(),
        }
    }
}

impl CursorReader {
    fn result(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        let text_event = report.say(&std::mem::take(&mut self.saying));
        let text = event["result"].as_str().unwrap_or_default();
        if event["is_error"] != false || event["subtype"] != "success" {
            report.fail(failure::classify(AgentProgram::Cursor, None, text));
            return text_event.into_iter().collect();
        }
        // The result repeats everything said in the turn; the last part is the answer if there were parts.
        if report.last_text.is_none() && !text.trim().is_empty() {
            report.last_text = Some(text.trim().to_owned());
        }
        report.end = Some(ReportedEnd::Done);
        text_event.into_iter().collect()
    }
}

/// Extracts the call and its name from `{"readToolCall": {"args": …}}`.
fn find_call(call: &Value) -> (String, &Value) {
    let one = call.as_object().and_then(|call| call.iter().find(|(_, call)| call.get("args").is_some()));
    let Some((kind, call)) = one else { return ("a tool".to_owned(), &Value::Null) };
    let own = call["args"]["toolName"].as_str().or(call["args"]["name"].as_str()).filter(|_| kind == "mcpToolCall");
    let name = own.map_or_else(|| kind.trim_end_matches("ToolCall").to_owned(), display_name);
    (name, call)
}

fn read_failure(call: &Value) -> Option<BackendEvent> {
    let (name, call) = find_call(call);
    let result = call["result"].as_object()?;
    let wrong = result.iter().find(|(kind, _)| *kind != "success");
    let refused = result.get("success").filter(|success| success["isError"] == true);
    let reason = wrong.map(|(_, why)| why).or(refused)?;
    Some(BackendEvent::ToolFailed { name, reason: one_line(&reason.to_string(), 200) })
}

#[cfg(test)]
mod tests {
    use super::super::program::testing::{bridge, input, read_lines, resumed};
    use super::*;

    #[test]
    fn cursor_servers_file_is_the_same_for_all_agents_and_holds_no_secret() {
        let bridge = bridge();
        let (file, text) = Cursor.start(&input(&bridge)).overridden.unwrap();
        assert_eq!(file.to_str(), Some("/project/.cursor/mcp.json"));
        let servers: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(servers["mcpServers"]["rookery"]["env"]["ROOKERY_SESSION"], "${env:ROOKERY_SESSION}");
        let other = TurnInput { prompt: "other", ..input(&bridge) };
        assert_eq!(Cursor.start(&other).overridden.unwrap().1, text);
        assert_eq!(Cursor.start(&TurnInput { bridge: None, ..other }).overridden, None);
    }

    #[test]
    fn cursor_prompt_comes_last() {
        let bridge = bridge();
        let start = Cursor.start(&TurnInput { resumes: Some(resumed("c1")), model: Some("m"), ..input(&bridge) });
        let end = ["--workspace", "/project", "--model", "m", "--resume", "c1", "what is new"].map(str::to_owned);
        assert!(start.args.ends_with(&end), "{:?}", start.args);
        let first = Cursor.start(&input(&bridge));
        assert_eq!(first.args.last().unwrap(), "You are a.\n\nwhat is new");
    }

    #[test]
    fn cursor_long_prompt_is_written_to_a_file() {
        let (bridge, long) = (bridge(), "x".repeat(200 << 10));
        let start = Cursor.start(&TurnInput { prompt: &long, ..input(&bridge) });
        assert!(start.args.last().unwrap().contains("/state/prompt.md"));
        assert!(start.files[0].1.ends_with(&long));
    }

    #[test]
    fn cursor_turn_is_read_from_beginning_to_end() {
        let (report, events) = read_lines(
            &Cursor,
            &[
                r#"{"type":"system","subtype":"init","session_id":"c1","model":"m"}"#,
                r#"{"type":"assistant","session_id":"c1","message":{"content":[{"type":"text","text":"I send it."}]}}"#,
                r#"{"type":"tool_call","subtype":"started","call_id":"1","tool_call":{"mcpToolCall":{"args":{"name":"rookery-channel_send","toolName":"channel_send","args":{"message":"hi"}}}}}"#,
                r#"{"type":"tool_call","subtype":"completed","call_id":"1","tool_call":{"mcpToolCall":{"args":{"toolName":"channel_send"},"result":{"rejected":{"reason":"no"}}}}}"#,
                r#"{"type":"assistant","session_id":"c1","message":{"content":[{"type":"text","text":"Done."}]}}"#,
                r#"{"type":"result","subtype":"success","is_error":false,"result":"I send it.Done.","session_id":"c1"}"#,
            ],
        );
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert_eq!((report.conversation.as_deref(), report.last_text.as_deref()), (Some("c1"), Some("Done.")));
        assert!(report.worked);
        let named = |event: &BackendEvent| matches!(event, BackendEvent::Tool { name, .. } if name == "channel_send");
        assert!(named(&events[1]), "{events:?}");
        assert!(matches!(&events[2], BackendEvent::ToolFailed { name, .. } if name == "channel_send"), "{events:?}");
    }

    #[test]
    fn cursor_error_fails_the_turn() {
        let (report, _) =
            read_lines(&Cursor, &[r#"{"type":"result","subtype":"error","is_error":true,"result":"no"}"#]);
        assert!(matches!(report.end, Some(ReportedEnd::Failed(_))));
    }
}
