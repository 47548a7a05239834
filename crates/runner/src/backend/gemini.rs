//! Gemini CLI: `gemini --output-format stream-json`, in a private home, because it takes servers from its settings alone.
//!
//! The settings in there are the user's with our server in place of theirs; everything else, such as the login, is linked, so
//! that nothing of the user's is copied or changed. Its conversations stay in the private home.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::program::bridge::SERVER;
use super::program::dialect::{Asked, Dialect, Linked, Start};
use super::program::failure::{self, no_server};
use super::program::report::{Heard, Reader, ReportedEnd, count, one_line, plain};
use super::{BackendEvent, Usage};
use crate::file::AgentProgram;

/// The private home, in the part of the agent's state folder that its programs may write to.
const HOME: &str = "home/gemini";
const FOLDER: &str = "home/gemini/.gemini";
const SETTINGS: &str = "home/gemini/.gemini/settings.json";
/// What of the user's folder is not shared: the settings, and what it remembers of projects and conversations.
const OWN: &[&str] = &["settings.json", "projects.json", "tmp", "history"];
/// How long a tool of ours may take: some wait for a message.
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

    fn settings(&self, asked: &Asked<'_>) -> Value {
        let mut settings = Value::Object(self.settings.clone());
        // What is found by a part of its name would be read in for every mention of an agent.
        let files = json!({"fileFiltering": {"enableRecursiveFileSearch": false}});
        merge(&mut settings, json!({"context": files, "general": {"enableAutoUpdate": false}}));
        settings["mcpServers"] = servers(asked);
        settings
    }
}

impl Dialect for Gemini {
    fn program(&self) -> AgentProgram {
        AgentProgram::Gemini
    }

    fn start(&self, asked: &Asked<'_>) -> Start {
        let exists = |path: &str| asked.folder.join(path).exists();
        let mut start = Start { stdin: without_references(&asked.told(), exists), ..Start::default() };
        start.args(["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"]);
        // A project's own settings may name servers too.
        start.args(["--allowed-mcp-server-names", SERVER]);
        if let Some(model) = asked.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &asked.resumes {
            start.args(["--resume", &conversation.id]);
        }
        start.fixed("GEMINI_CLI_HOME", asked.state.join(HOME).display().to_string());
        start.files.push((SETTINGS, self.settings(asked).to_string()));
        start.linked = self.theirs.clone().map(|from| Linked { from, to: FOLDER, except: OWN });
        start
    }

    fn reader(&self, asked: &Asked<'_>) -> Box<dyn Reader> {
        Box::new(Listening { needs_server: asked.bridge.is_some(), saying: String::new(), calls: Vec::new() })
    }

    fn forgot(&self) -> &'static [&'static str] {
        &["Error resuming session"]
    }
}

fn servers(asked: &Asked<'_>) -> Value {
    let Some(bridge) = asked.bridge else { return json!({}) };
    let mut server = json!({
        "command": bridge.command,
        "args": bridge.args,
        "env": bridge.environment(|name| format!("${name}")),
        "trust": true,
        "timeout": TOOL_MILLISECONDS,
    });
    if let Some(tools) = asked.allowed {
        server["includeTools"] = json!(tools);
    }
    json!({SERVER: server})
}

/// Lays one object over another, table by table.
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

/// Its settings may have comments, which JSON has not.
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

/// Where a word after an `@` ends for it.
const ENDS: [char; 14] = [' ', '\t', '\n', '\r', ',', ';', '!', '?', '(', ')', '[', ']', '{', '}'];

/// It takes `@name` for a file, and puts all of it into the prompt if there is one. Mentions that happen to be called like a
/// file or a folder get a backslash, which keeps it from that.
fn without_references(prompt: &str, exists: impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(prompt.len());
    let mut parts = prompt.split('@');
    kept.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let word = part.split(ENDS).next().unwrap_or_default();
        let word = word.trim_end_matches('.');
        if !word.is_empty() && !kept.ends_with('\\') && exists(word) {
            kept.push('\\');
        }
        kept.push('@');
        kept.push_str(part);
    }
    kept
}

struct Listening {
    needs_server: bool,
    /// What it says comes in pieces.
    saying: String,
    /// Calls under way: a result names only its call.
    calls: Vec<(String, String)>,
}

impl Reader for Listening {
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        match event["type"].as_str() {
            Some("init") => {
                heard.conversation = event["session_id"].as_str().map(str::to_owned);
                Vec::new()
            }
            Some("message") if event["role"] == "assistant" => {
                self.saying.push_str(event["content"].as_str().unwrap_or_default());
                Vec::new()
            }
            Some("tool_use") => {
                let name = event["tool_name"].as_str().unwrap_or_default();
                self.calls.push((event["tool_id"].as_str().unwrap_or_default().to_owned(), name.to_owned()));
                let said = self.said(heard);
                said.into_iter().chain([heard.call(name, &event["parameters"])]).collect()
            }
            Some("tool_result") if event["status"] == "error" => vec![self.failed(event)],
            Some("error") => {
                vec![BackendEvent::Note(format!(
                    "gemini: {}",
                    one_line(event["message"].as_str().unwrap_or_default(), 200)
                ))]
            }
            Some("result") => self.result(event, heard),
            _ => Vec::new(),
        }
    }

    fn overhear(&mut self, line: &str, heard: &mut Heard) {
        // Ours is the only server that it may use.
        if self.needs_server && line.contains("MCP issues detected") {
            heard.give_up(no_server(AgentProgram::Gemini));
        }
    }
}

impl Listening {
    fn said(&mut self, heard: &mut Heard) -> Option<BackendEvent> {
        heard.say(&std::mem::take(&mut self.saying))
    }

    fn failed(&self, event: &Value) -> BackendEvent {
        let call = self.calls.iter().find(|(id, _)| event["tool_id"] == id.as_str());
        let said = event["error"]["message"].as_str().or(event["output"].as_str()).unwrap_or_default();
        let name = call.map_or_else(|| "a tool".to_owned(), |(_, name)| plain(name));
        BackendEvent::ToolFailed { name, reason: one_line(said, 200) }
    }

    fn result(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        let stats = &event["stats"];
        heard.usage = Usage {
            input_tokens: count(&stats["input_tokens"]),
            output_tokens: count(&stats["output_tokens"]),
            cost_usd: None,
        };
        let said = self.said(heard);
        if event["status"] == "success" && !heard.hopeless {
            heard.end = Some(ReportedEnd::Done);
        } else if !heard.hopeless {
            let message = event["error"]["message"].as_str().unwrap_or_default();
            heard.fail(failure::failure(AgentProgram::Gemini, status(message), message));
        }
        said.into_iter().chain([BackendEvent::Used(heard.usage)]).collect()
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
    use super::super::program::testing::{asked, bridge, hear, resumed};
    use super::*;

    #[test]
    fn its_home_is_private_and_the_login_is_linked() {
        let bridge = bridge();
        let gemini = Gemini { theirs: Some("/home/a/.gemini".into()), ..Gemini::default() };
        let start = gemini.start(&asked(&bridge));
        assert_eq!(start.fixed["GEMINI_CLI_HOME"], "/state/home/gemini");
        let linked = start.linked.unwrap();
        assert_eq!((linked.from, linked.to), (PathBuf::from("/home/a/.gemini"), FOLDER));
        assert!(linked.except.contains(&"settings.json"));
    }

    #[test]
    fn the_users_settings_stay_and_their_servers_do_not() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let text = r#"{ // mine
            "security": {"auth": {"selectedType": "gemini-api-key"}}, /* "x" */
            "general": {"vimMode": true}, "note": "a // b /* c */ \" // d",
            "mcpServers": {"mine": {"command": "x"}}}"#;
        let settings = serde_json::from_str(&without_comments(text)).unwrap();
        let gemini = Gemini { settings, ..Gemini::default() };
        let settings = gemini.settings(&Asked { allowed: Some(&few), ..asked(&bridge) });
        assert_eq!(settings["security"]["auth"]["selectedType"], "gemini-api-key");
        assert_eq!(settings["general"], json!({"vimMode": true, "enableAutoUpdate": false}));
        assert_eq!(settings["note"], "a // b /* c */ \" // d");
        assert_eq!(settings["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), [SERVER]);
        assert_eq!(settings["mcpServers"][SERVER]["env"]["ROOKERY_SESSION"], "$ROOKERY_SESSION");
        assert_eq!(settings["mcpServers"][SERVER]["includeTools"], json!(["channel_send"]));
    }

    #[test]
    fn a_mention_is_not_taken_for_a_file() {
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
    fn what_it_is_about_is_told_once() {
        let bridge = bridge();
        assert_eq!(Gemini::default().start(&asked(&bridge)).stdin, "You are a.\n\nwhat is new");
        let start =
            Gemini::default().start(&Asked { resumes: Some(resumed("g1")), model: Some("m"), ..asked(&bridge) });
        assert_eq!(start.stdin, "what is new");
        assert!(start.args.ends_with(&["--model", "m", "--resume", "g1"].map(str::to_owned)), "{:?}", start.args);
    }

    #[test]
    fn a_turn_is_heard_from_beginning_to_end() {
        let (heard, events) = hear(
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
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert_eq!((heard.conversation.as_deref(), heard.said.as_deref()), (Some("g1"), Some("Done.")));
        assert_eq!(heard.usage, Usage { input_tokens: 20, output_tokens: 10, cost_usd: None });
        assert_eq!(events[0], BackendEvent::Said("I will send it.".into()));
        assert_eq!(events[2], BackendEvent::ToolFailed { name: "channel_send".into(), reason: "nobody".into() });
    }

    #[test]
    fn an_error_of_the_model_fails() {
        let (heard, _) = hear(
            &Gemini::default(),
            &[
                r#"{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\": 429,\"message\":\"quota\"}}]"},"stats":{}}"#,
            ],
        );
        assert!(matches!(heard.end, Some(ReportedEnd::Failed(failure)) if matches!(failure.why, Why::Limited { .. })));
    }

    #[test]
    fn a_server_that_did_not_start_ends_the_turn_at_once() {
        let bridge = bridge();
        let mut heard = Heard::default();
        let mut reader = Gemini::default().reader(&asked(&bridge));
        reader.overhear("MCP issues detected. Run /mcp list for status.", &mut heard);
        reader.hear(&json!({"type": "result", "status": "success", "stats": {}}), &mut heard);
        assert!(heard.hopeless && matches!(heard.end, Some(ReportedEnd::Failed(_))), "{heard:?}");
    }
}
