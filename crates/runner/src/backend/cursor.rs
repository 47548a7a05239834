//! Cursor's agent: `cursor-agent -p`. It takes servers from files alone, so `.cursor/mcp.json` of its folder is another one
//! while it runs ([`super::program::lend`]). What proves who speaks is in its environment, so that one file does for several
//! agents.
//!
//! Written by its documentation, and never run against the real program.

use serde_json::{Value, json};

use super::BackendEvent;
use super::program::bridge::SERVER;
use super::program::dialect::{ARGUMENT, Asked, Dialect, Start};
use super::program::failure;
use super::program::report::{Heard, Reader, ReportedEnd, one_line, plain, text_of};
use crate::file::AgentProgram;

/// Where it looks for servers.
const SERVERS: &str = ".cursor/mcp.json";
/// A prompt that is too long for an argument.
const PROMPT: &str = "prompt.md";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor;

impl Dialect for Cursor {
    fn program(&self) -> AgentProgram {
        AgentProgram::Cursor
    }

    fn start(&self, asked: &Asked<'_>) -> Start {
        let mut start = Start::default();
        start.args(["-p", "--output-format", "stream-json", "--force", "--trust", "--approve-mcps"]);
        start.args(["--workspace".to_owned(), asked.folder.display().to_string()]);
        if let Some(model) = asked.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &asked.resumes {
            start.args(["--resume", &conversation.id]);
        }
        let told = asked.told();
        if told.len() <= ARGUMENT && !told.contains('\0') {
            start.args([told]);
        } else {
            let path = asked.state.join(PROMPT);
            start.args([format!("Read the whole file {} and do what it says.", path.display())]);
            start.files.push((PROMPT, told));
        }
        start.lent = asked.bridge.map(|_| (asked.folder.join(SERVERS), servers(asked).to_string()));
        start
    }

    fn reader(&self, _asked: &Asked<'_>) -> Box<dyn Reader> {
        Box::new(Listening { saying: String::new() })
    }

    fn forgot(&self) -> &'static [&'static str] {
        &[]
    }
}

fn servers(asked: &Asked<'_>) -> Value {
    let Some(bridge) = asked.bridge else { return json!({"mcpServers": {}}) };
    let environment = bridge.environment(|name| format!("${{env:{name}}}"));
    json!({"mcpServers": {SERVER: {"command": bridge.command, "args": bridge.args, "env": environment}}})
}

struct Listening {
    /// What it says comes in pieces.
    saying: String,
}

impl Reader for Listening {
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        if let Some(id) = event["session_id"].as_str() {
            heard.conversation = Some(id.to_owned());
        }
        match (event["type"].as_str(), event["subtype"].as_str()) {
            (Some("assistant"), _) => {
                self.saying.push_str(&text_of(&event["message"]["content"]));
                Vec::new()
            }
            (Some("tool_call"), Some("started")) => {
                let said = heard.say(&std::mem::take(&mut self.saying));
                let (name, call) = called(&event["tool_call"]);
                said.into_iter().chain([heard.call(&name, &call["args"])]).collect()
            }
            (Some("tool_call"), Some("completed")) => failed(&event["tool_call"]).into_iter().collect(),
            (Some("result"), _) => self.result(event, heard),
            _ => Vec::new(),
        }
    }
}

impl Listening {
    fn result(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        let said = heard.say(&std::mem::take(&mut self.saying));
        let text = event["result"].as_str().unwrap_or_default();
        if event["is_error"] != false || event["subtype"] != "success" {
            heard.fail(failure::failure(AgentProgram::Cursor, None, text));
            return said.into_iter().collect();
        }
        // All that it said in the turn stands there; if its parts were told, the last one is the answer.
        if heard.said.is_none() && !text.trim().is_empty() {
            heard.said = Some(text.trim().to_owned());
        }
        heard.end = Some(ReportedEnd::Done);
        said.into_iter().collect()
    }
}

/// The one call in `{"readToolCall": {"args": …}}`, with its name.
fn called(call: &Value) -> (String, &Value) {
    let one = call.as_object().and_then(|call| call.iter().find(|(_, call)| call.get("args").is_some()));
    let Some((kind, call)) = one else { return ("a tool".to_owned(), &Value::Null) };
    let own = call["args"]["toolName"].as_str().or(call["args"]["name"].as_str()).filter(|_| kind == "mcpToolCall");
    let name = own.map_or_else(|| kind.trim_end_matches("ToolCall").to_owned(), plain);
    (name, call)
}

fn failed(call: &Value) -> Option<BackendEvent> {
    let (name, call) = called(call);
    let result = call["result"].as_object()?;
    let wrong = result.iter().find(|(kind, _)| *kind != "success");
    let refused = result.get("success").filter(|success| success["isError"] == true);
    let said = wrong.map(|(_, why)| why).or(refused)?;
    Some(BackendEvent::ToolFailed { name, reason: one_line(&said.to_string(), 200) })
}

#[cfg(test)]
mod tests {
    use super::super::program::testing::{asked, bridge, hear, resumed};
    use super::*;

    #[test]
    fn one_file_does_for_all_agents_of_a_folder_and_holds_no_secret() {
        let bridge = bridge();
        let (file, text) = Cursor.start(&asked(&bridge)).lent.unwrap();
        assert_eq!(file.to_str(), Some("/project/.cursor/mcp.json"));
        let servers: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(servers["mcpServers"]["rookery"]["env"]["ROOKERY_SESSION"], "${env:ROOKERY_SESSION}");
        let other = Asked { prompt: "other", ..asked(&bridge) };
        assert_eq!(Cursor.start(&other).lent.unwrap().1, text);
        assert_eq!(Cursor.start(&Asked { bridge: None, ..other }).lent, None);
    }

    #[test]
    fn the_prompt_comes_last() {
        let bridge = bridge();
        let start = Cursor.start(&Asked { resumes: Some(resumed("c1")), model: Some("m"), ..asked(&bridge) });
        let end = ["--workspace", "/project", "--model", "m", "--resume", "c1", "what is new"].map(str::to_owned);
        assert!(start.args.ends_with(&end), "{:?}", start.args);
        let first = Cursor.start(&asked(&bridge));
        assert_eq!(first.args.last().unwrap(), "You are a.\n\nwhat is new");
    }

    #[test]
    fn a_prompt_that_is_too_long_is_a_file() {
        let (bridge, long) = (bridge(), "x".repeat(200 << 10));
        let start = Cursor.start(&Asked { prompt: &long, ..asked(&bridge) });
        assert!(start.args.last().unwrap().contains("/state/prompt.md"));
        assert!(start.files[0].1.ends_with(&long));
    }

    #[test]
    fn a_turn_is_heard_from_beginning_to_end() {
        let (heard, events) = hear(
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
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert_eq!((heard.conversation.as_deref(), heard.said.as_deref()), (Some("c1"), Some("Done.")));
        assert!(heard.worked);
        let named = |event: &BackendEvent| matches!(event, BackendEvent::Tool { name, .. } if name == "channel_send");
        assert!(named(&events[1]), "{events:?}");
        assert!(matches!(&events[2], BackendEvent::ToolFailed { name, .. } if name == "channel_send"), "{events:?}");
    }

    #[test]
    fn an_error_fails() {
        let (heard, _) = hear(&Cursor, &[r#"{"type":"result","subtype":"error","is_error":true,"result":"no"}"#]);
        assert!(matches!(heard.end, Some(ReportedEnd::Failed(_))));
    }
}
