//! Gemini CLI: `gemini --output-format stream-json`, in a private home, because it reads MCP servers only from its settings.
//!
//! The settings there are the user's, with our server in place of theirs. Everything else, such as the login, is linked, so
//! that nothing of the user is copied or changed. Conversations stay in the private home.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::program::bridge::SERVER;
use super::program::dialect::{Dialect, LinkedFolder, ProgramStart, TurnInput};
use super::program::failure::{self, no_server};
use super::program::report::{ProgramReport, ReportReader, ReportedEnd, count, display_name, one_line};
use super::{BackendEvent, Usage};
use crate::file::AgentProgram;

/// The private home, in the writable part of the agent's state folder.
const HOME: &str = "home/gemini";
const FOLDER: &str = "home/gemini/.gemini";
const SETTINGS: &str = "home/gemini/.gemini/settings.json";
/// Entries of the user's folder that are not shared: the settings, and the history of projects and conversations.
const NOT_SHARED: &[&str] = &["settings.json", "projects.json", "tmp", "history"];
/// Time limit of our tools: some wait for a message.
const TOOL_MILLISECONDS: u64 = 600_000;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Gemini {
    /// The user's own folder, if there is a home.
    theirs: Option<PathBuf>,
    settings: Map<String, Value>,
}

impl Gemini {
    pub(crate) fn load(home: Option<&Path>) -> Gemini {
        let theirs = home.map(|home| home.join(".gemini"));
        let text = theirs.as_ref().and_then(|folder| std::fs::read_to_string(folder.join("settings.json")).ok());
        let settings = text.and_then(|text| serde_json::from_str(&without_comments(&text)).ok()).unwrap_or_default();
        Gemini { theirs, settings }
    }

    fn settings(&self, input: &TurnInput<'_>) -> Value {
        let mut settings = Value::Object(self.settings.clone());
        // Otherwise a file whose name contains that of a mentioned agent would be read into the prompt.
        let files = json!({"fileFiltering": {"enableRecursiveFileSearch": false}});
        merge(&mut settings, json!({"context": files, "general": {"enableAutoUpdate": false}}));
        settings["mcpServers"] = servers(input);
        settings
    }
}

impl Dialect for Gemini {
    fn program(&self) -> AgentProgram {
        AgentProgram::Gemini
    }

    fn start(&self, input: &TurnInput<'_>) -> ProgramStart {
        let exists = |path: &str| input.folder.join(path).exists();
        let mut start =
            ProgramStart { stdin: without_references(&input.prompt_with_system(), exists), ..ProgramStart::default() };
        start.args(["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"]);
        // The project's own settings may name servers too.
        start.args(["--allowed-mcp-server-names", SERVER]);
        if let Some(model) = input.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &input.resumes {
            start.args(["--resume", &conversation.id]);
        }
        start.required_env("GEMINI_CLI_HOME", input.state.join(HOME).display().to_string());
        start.files.push((SETTINGS, self.settings(input).to_string()));
        start.linked = self.theirs.clone().map(|from| LinkedFolder { from, to: FOLDER, except: NOT_SHARED });
        start
    }

    fn reader(&self, input: &TurnInput<'_>) -> Box<dyn ReportReader> {
        Box::new(GeminiReader { needs_server: input.bridge.is_some(), saying: String::new(), calls: Vec::new() })
    }

    fn unknown_conversation_phrases(&self) -> &'static [&'static str] {
        &["Error resuming session"]
    }
}

fn servers(input: &TurnInput<'_>) -> Value {
    let Some(bridge) = input.bridge else { return json!({}) };
    let mut server = json!({
        "command": bridge.command,
        "args": bridge.args,
        "env": bridge.environment(|name| format!("${name}")),
        "trust": true,
        "timeout": TOOL_MILLISECONDS,
    });
    if let Some(tools) = input.allowed {
        server["includeTools"] = json!(tools);
    }
    json!({SERVER: server})
}

/// Merges one object into another, recursively.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Removes comments, which its settings may have but JSON does not.
fn without_comments(text: &str) -> String {
    let (mut kept, mut rest, mut in_text) = (String::with_capacity(text.len()), text, false);
    while let Some(next) = rest.chars().next() {
        let skipped = match rest {
            _ if in_text => 0,
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => 0,
        };
        if skipped > 0 {
            rest = &rest[skipped..];
            continue;
        }
        let taken =
            if in_text && next == '\\' { rest.chars().take(2).map(char::len_utf8).sum() } else { next.len_utf8() };
        in_text ^= next == '"';
        kept.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    kept
}

/// Characters that end a reference after an `@`.
const REFERENCE_ENDS: [char; 14] = [' ', '\t', '\n', '\r', ',', ';', '!', '?', '(', ')', '[', ']', '{', '}'];

/// Escapes mentions that would be read as files: Gemini inserts the whole file for an `@name` if there is one. A backslash
/// before the `@` prevents that.
fn without_references(prompt: &str, exists: impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(prompt.len());
    let mut parts = prompt.split('@');
    kept.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let name = part.split(REFERENCE_ENDS).next().unwrap_or_default();
        let name = name.trim_end_matches('.');
        if !name.is_empty() && !kept.ends_with('\\') && exists(name) {
            kept.push('\\');
        }
        kept.push('@');
        kept.push_str(part);
    }
    kept
}

struct GeminiReader {
    needs_server: bool,
    /// Text received so far; it comes in pieces.
    saying: String,
    /// Calls in progress: a result names only the id of its call.
    calls: Vec<(String, String)>,
}

impl ReportReader for GeminiReader {
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        match event["type"].as_str() {
            Some("init") => {
                report.conversation = event["session_id"].as_str().map(str::to_owned);
                Vec::new()
            }
            Some("message") if event["role"] == "assistant" => {
                self.saying.push_str(event["content"].as_str().unwrap_or_default());
                Vec::new()
            }
            Some("tool_use") => {
                let name = event["tool_name"].as_str().unwrap_or_default();
                self.calls.push((event["tool_id"].as_str().unwrap_or_default().to_owned(), name.to_owned()));
                let text_event = self.take_text(report);
                text_event.into_iter().chain([report.call(name, &event["parameters"])]).collect()
            }
            Some("tool_result") if event["status"] == "error" => vec![self.read_failure(event)],
            Some("error") => {
                vec![BackendEvent::Note(format!(
                    "gemini: {}",
                    one_line(event["message"].as_str().unwrap_or_default(), 200)
                ))]
            }
            Some("result") => self.result(event, report),
            _ => Vec::new(),
        }
    }

    fn read_stderr(&mut self, line: &str, report: &mut ProgramReport) {
        // Ours is the only server that it may use.
        if self.needs_server && line.contains("MCP issues detected") {
            report.give_up(no_server(AgentProgram::Gemini));
        }
    }
}

impl GeminiReader {
    fn take_text(&mut self, report: &mut ProgramReport) -> Option<BackendEvent> {
        report.say(&std::mem::take(&mut self.saying))
    }

    fn read_failure(&self, event: &Value) -> BackendEvent {
        let call = self.calls.iter().find(|(id, _)| event["tool_id"] == id.as_str());
        let message = event["error"]["message"].as_str().or(event["output"].as_str()).unwrap_or_default();
        let name = call.map_or_else(|| "a tool".to_owned(), |(_, name)| display_name(name));
        BackendEvent::ToolFailed { name, reason: one_line(message, 200) }
    }

    fn result(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        let stats = &event["stats"];
        report.usage = Usage {
            input_tokens: count(&stats["input_tokens"]),
            output_tokens: count(&stats["output_tokens"]),
            cost_usd: None,
        };
        let text_event = self.take_text(report);
        if event["status"] == "success" && !report.hopeless {
            report.end = Some(ReportedEnd::Done);
        } else if !report.hopeless {
            let message = event["error"]["message"].as_str().unwrap_or_default();
            report.fail(failure::classify(AgentProgram::Gemini, status(message), message));
        }
        text_event.into_iter().chain([BackendEvent::Used(report.usage)]).collect()
    }
}

/// The status in the JSON that it passes on: `{"error":{"code":401,…`.
fn status(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("\"code\":")?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::super::program::testing::{bridge, input, read_lines, resumed};
    use super::*;

    #[test]
    fn gemini_home_is_private_and_the_login_is_linked() {
        let bridge = bridge();
        let gemini = Gemini { theirs: Some("/home/a/.gemini".into()), ..Gemini::default() };
        let start = gemini.start(&input(&bridge));
        assert_eq!(start.required_env["GEMINI_CLI_HOME"], "/state/home/gemini");
        let linked = start.linked.unwrap();
        assert_eq!((linked.from, linked.to), (PathBuf::from("/home/a/.gemini"), FOLDER));
        assert!(linked.except.contains(&"settings.json"));
    }

    #[test]
    fn gemini_settings_of_the_user_stay_and_their_servers_do_not() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let text = r#"{ // mine
            "security": {"auth": {"selectedType": "gemini-api-key"}}, /* "x" */
            "general": {"vimMode": true}, "note": "a // b /* c */ \" // d",
            "mcpServers": {"mine": {"command": "x"}}}"#;
        let settings = serde_json::from_str(&without_comments(text)).unwrap();
        let gemini = Gemini { settings, ..Gemini::default() };
        let settings = gemini.settings(&TurnInput { allowed: Some(&few), ..input(&bridge) });
        assert_eq!(settings["security"]["auth"]["selectedType"], "gemini-api-key");
        assert_eq!(settings["general"], json!({"vimMode": true, "enableAutoUpdate": false}));
        assert_eq!(settings["note"], "a // b /* c */ \" // d");
        assert_eq!(settings["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), [SERVER]);
        assert_eq!(settings["mcpServers"][SERVER]["env"]["ROOKERY_SESSION"], "$ROOKERY_SESSION");
        assert_eq!(settings["mcpServers"][SERVER]["includeTools"], json!(["channel_send"]));
    }

    #[test]
    fn gemini_mention_is_not_read_as_a_file() {
        let exists = |path: &str| ["docs", "src/a.rs"].contains(&path);
        for (prompt, kept) in [
            ("@coder do it", "@coder do it"),
            ("@docs: no, @docs. (@docs)", "@docs: no, \\@docs. (\\@docs)"),
            ("see @src/a.rs, mail a@b.c", "see \\@src/a.rs, mail a@b.c"),
            ("\\@docs", "\\@docs"),
            ("@", "@"),
        ] {
            assert_eq!(without_references(prompt, exists), kept);
        }
    }

    #[test]
    fn gemini_gets_the_system_prompt_once_per_conversation() {
        let bridge = bridge();
        assert_eq!(Gemini::default().start(&input(&bridge)).stdin, "You are a.\n\nwhat is new");
        let start =
            Gemini::default().start(&TurnInput { resumes: Some(resumed("g1")), model: Some("m"), ..input(&bridge) });
        assert_eq!(start.stdin, "what is new");
        assert!(start.args.ends_with(&["--model", "m", "--resume", "g1"].map(str::to_owned)), "{:?}", start.args);
    }

    #[test]
    fn gemini_turn_is_read_from_beginning_to_end() {
        let (report, events) = read_lines(
            &Gemini::default(),
            &[
                r#"{"type":"init","session_id":"g1","model":"m"}"#,
                r#"{"type":"message","role":"user","content":"go"}"#,
                r#"{"type":"message","role":"assistant","content":"I will ","delta":true}"#,
                r#"{"type":"message","role":"assistant","content":"send it.","delta":true}"#,
                r#"{"type":"tool_use","tool_name":"mcp_rookery_channel_send","tool_id":"c1","parameters":{"message":"hi"}}"#,
                r#"{"type":"tool_result","tool_id":"c1","status":"error","error":{"message":"nobody"}}"#,
                r#"{"type":"message","role":"assistant","content":"Done.","delta":true}"#,
                r#"{"type":"result","status":"success","stats":{"input_tokens":20,"output_tokens":10}}"#,
            ],
        );
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert_eq!((report.conversation.as_deref(), report.last_text.as_deref()), (Some("g1"), Some("Done.")));
        assert_eq!(report.usage, Usage { input_tokens: 20, output_tokens: 10, cost_usd: None });
        assert_eq!(events[0], BackendEvent::Said("I will send it.".into()));
        assert_eq!(events[2], BackendEvent::ToolFailed { name: "channel_send".into(), reason: "nobody".into() });
    }

    #[test]
    fn gemini_error_of_the_model_fails_the_turn() {
        let (report, _) = read_lines(
            &Gemini::default(),
            &[
                r#"{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\": 429,\"message\":\"quota\"}}]"},"stats":{}}"#,
            ],
        );
        assert!(matches!(report.end, Some(ReportedEnd::Failed(failure)) if matches!(failure.why, Why::Limited { .. })));
    }

    #[test]
    fn gemini_turn_ends_at_once_if_our_server_did_not_start() {
        let bridge = bridge();
        let mut report = ProgramReport::default();
        let mut reader = Gemini::default().reader(&input(&bridge));
        reader.read_stderr("MCP issues detected. Run /mcp list for status.", &mut report);
        reader.read_event(&json!({"type": "result", "status": "success", "stats": {}}), &mut report);
        assert!(report.hopeless && matches!(report.end, Some(ReportedEnd::Failed(_))), "{report:?}");
    }
}
