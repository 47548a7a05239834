//! Claude Code: `claude -p`, its tools by flags, and nothing of the user's configuration but the login.
//!
//! It ends with 0 and `subtype: success` also if a tool was denied, our server did not start, or the model answered with an
//! error; what tells is `is_error`, `permission_denials` and the state of the servers in the first event.

use serde_json::{Value, json};

use super::program::bridge::{SERVER, own_name};
use super::program::conversation::Used;
use super::program::dialect::{Asked, Dialect, Start};
use super::program::failure;
use super::program::report::{Heard, Reader, ReportedEnd, count, one_line, plain, text_of};
use super::{BackendEvent, Failure, Usage, Why};
use crate::file::AgentProgram;

/// Those of its own tools that it would ask a person for. The sandbox is what keeps them inside.
const OWN_TOOLS: [&str; 6] = ["Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch"];
/// Those by which it speaks to other sessions of itself, or wakes itself later: a turn is one process, and the team has its
/// own ways for both.
const NOT_OURS: [&str; 6] = ["SendMessage", "ListAgents", "ScheduleWakeup", "CronCreate", "CronDelete", "CronList"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claude;

impl Dialect for Claude {
    fn program(&self) -> AgentProgram {
        AgentProgram::Claude
    }

    fn start(&self, asked: &Asked<'_>) -> Start {
        let mut start = Start { stdin: asked.with_long_system(), ..Start::default() };
        // Servers of the user's own are left out also if it gets none of ours.
        let servers = json!({"mcpServers": servers(asked)}).to_string();
        start.args(["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]);
        start.args(["--mcp-config".to_owned(), servers]);
        // These take any number of values. The prompt is on stdin, so that it is none of them.
        start.args(["--allowedTools".to_owned()]).args(allowed(asked));
        start.args(["--disallowedTools"]).args(NOT_OURS);
        if let Some(model) = asked.model {
            start.args(["--model", model]);
        }
        match &asked.resumes {
            Some(conversation) => start.args(["--resume", &conversation.id]),
            None => &mut start,
        };
        if let Some(system) = asked.short_system() {
            start.args(["--append-system-prompt", system]);
        }
        // Otherwise it shows its model our tools only when that has searched for them.
        start.fixed("ENABLE_TOOL_SEARCH", "false");
        start.usual("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").usual("DISABLE_AUTOUPDATER", "1");
        // It would try ten times and take minutes; a turn that fails is tried again anyway.
        start.usual("CLAUDE_CODE_MAX_RETRIES", "3");
        start
    }

    fn reader(&self, asked: &Asked<'_>) -> Box<dyn Reader> {
        Box::new(Listening {
            needs_server: asked.bridge.is_some(),
            allowed: asked.allowed.map(<[String]>::to_vec),
            before: asked.used(),
            calls: Vec::new(),
        })
    }

    fn forgot(&self) -> &'static [&'static str] {
        &["No conversation found"]
    }
}

fn servers(asked: &Asked<'_>) -> Value {
    let Some(bridge) = asked.bridge else { return json!({}) };
    let environment = bridge.environment(|name| format!("${{{name}}}"));
    json!({SERVER: {"type": "stdio", "command": bridge.command, "args": bridge.args, "env": environment}})
}

fn allowed(asked: &Asked<'_>) -> Vec<String> {
    let ours = match asked.allowed {
        None => vec![format!("mcp__{SERVER}__*")],
        Some(tools) => tools.iter().map(|tool| format!("mcp__{SERVER}__{tool}")).collect(),
    };
    ours.into_iter().chain(OWN_TOOLS.map(str::to_owned)).collect()
}

struct Listening {
    needs_server: bool,
    /// The only tools of ours that it may use. It shows its model the others too, and denies them.
    allowed: Option<Vec<String>>,
    before: Used,
    /// Calls under way: a result names only its call.
    calls: Vec<(String, String)>,
}

impl Reader for Listening {
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        if let Some(id) = event["session_id"].as_str() {
            heard.conversation = Some(id.to_owned());
        }
        // What helpers that it starts itself say is their talk with each other.
        if event["parent_tool_use_id"].is_string() {
            return Vec::new();
        }
        match (event["type"].as_str(), event["subtype"].as_str()) {
            (Some("system"), Some("init")) => {
                self.check_server(event, heard);
                Vec::new()
            }
            (Some("system"), Some("api_retry")) => {
                vec![BackendEvent::Note(format!(
                    "claude asks its model again: {}",
                    one_line(&event["error"].to_string(), 120)
                ))]
            }
            (Some("assistant"), _) => self.assistant(&event["message"], heard),
            (Some("user"), _) => self.results(&event["message"]["content"]),
            (Some("result"), _) => self.result(event, heard),
            _ => Vec::new(),
        }
    }
}

impl Listening {
    /// Without our server it would talk to nobody and cost all the same.
    fn check_server(&self, init: &Value, heard: &mut Heard) {
        if !self.needs_server {
            return;
        }
        let servers = init["mcp_servers"].as_array().map_or(&[][..], Vec::as_slice);
        let ours = servers.iter().find(|server| server["name"] == SERVER);
        let status = ours.and_then(|server| server["status"].as_str()).unwrap_or("not there");
        if !matches!(status, "connected" | "pending") {
            heard.give_up(failure::no_server(AgentProgram::Claude));
        }
    }

    fn assistant(&mut self, message: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let mut events = Vec::new();
        for block in blocks {
            match block["type"].as_str() {
                Some("text") => events.extend(heard.say(block["text"].as_str().unwrap_or_default())),
                Some("tool_use") => {
                    let name = block["name"].as_str().unwrap_or_default();
                    self.calls.push((block["id"].as_str().unwrap_or_default().to_owned(), name.to_owned()));
                    events.push(heard.call(name, &block["input"]));
                }
                _ => {}
            }
        }
        events
    }

    fn results(&mut self, content: &Value) -> Vec<BackendEvent> {
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        let failed = blocks.iter().filter(|block| block["type"] == "tool_result" && block["is_error"] == true);
        let told = failed.map(|block| {
            let call = self.calls.iter().find(|(id, _)| block["tool_use_id"] == id.as_str());
            let name = call.map_or("a tool", |(_, name)| name);
            BackendEvent::ToolFailed { name: plain(name), reason: one_line(&text_of(&block["content"]), 200) }
        });
        told.collect()
    }

    fn result(&self, result: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        heard.usage = usage(result, self.before);
        if heard.hopeless {
            return Vec::new();
        }
        let text = result["result"].as_str().unwrap_or_default();
        if result["is_error"] == true {
            let status = result["api_error_status"].as_u64().and_then(|status| u16::try_from(status).ok());
            let errors = text_of(&result["errors"]);
            heard.fail(failure::failure(AgentProgram::Claude, status, if text.is_empty() { &errors } else { text }));
            return vec![BackendEvent::Used(heard.usage)];
        }
        if !text.trim().is_empty() {
            heard.said = Some(text.trim().to_owned());
        }
        heard.end = Some(ReportedEnd::Done);
        let denied: Vec<&str> = denials(result).collect();
        let is_meant = |tool: &&str| self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == tool));
        if let Some(ours) = denied.iter().filter_map(|tool| own_name(tool)).find(is_meant) {
            heard.fail(Failure {
                why: Why::Fault,
                reason: format!("Claude Code did not let its model use `{ours}`"),
                hint: Some(
                    "a rule in its own settings denies it, or `tools` of this agent does not name it".to_owned(),
                ),
            });
        }
        let notes = denied.iter().map(|tool| BackendEvent::Note(format!("claude denied its model the tool {tool}")));
        notes.chain([BackendEvent::Used(heard.usage)]).collect()
    }
}

fn denials(result: &Value) -> impl Iterator<Item = &str> {
    let denied = result["permission_denials"].as_array().map_or(&[][..], Vec::as_slice);
    denied.iter().filter_map(|denial| denial["tool_name"].as_str())
}

/// `usage` is of this turn. The cost is a sum over the whole conversation, unless it says itself what came since.
fn usage(result: &Value, before: Used) -> Usage {
    let tokens = &result["usage"];
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let since = result["model_usage_since_last_result"].as_object();
    // Not by `sum`, which makes -0 of nothing.
    let since = since
        .map(|models| models.values().filter_map(|model| model["costUSD"].as_f64()).fold(0.0, |sum, cost| sum + cost));
    let sum = || result["total_cost_usd"].as_f64().map(|sum| before.cost_since(sum));
    Usage {
        input_tokens: input.iter().map(|name| count(&tokens[*name])).sum(),
        output_tokens: count(&tokens["output_tokens"]),
        cost_usd: since.or_else(sum),
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::testing::{asked, bridge, hear, hear_as, kept, resumed};
    use super::*;

    fn line(asked: &Asked<'_>) -> Vec<String> {
        Claude.start(asked).args
    }

    fn after<'a>(args: &'a [String], flag: &str) -> &'a str {
        let at = args.iter().position(|arg| arg == flag).unwrap_or_else(|| panic!("{flag} is not in {args:?}"));
        &args[at + 1]
    }

    const READY: &str = r#"{"type":"system","subtype":"init","session_id":"s1","mcp_servers":[{"name":"rookery","status":"connected"}]}"#;

    #[test]
    fn the_prompt_is_never_an_argument() {
        let bridge = bridge();
        let start = Claude.start(&asked(&bridge));
        assert_eq!(start.stdin, "what is new");
        assert!(!start.args.iter().any(|arg| arg.contains("what is new")));
    }

    #[test]
    fn only_our_server_is_used_and_no_secret_is_written_down() {
        let bridge = bridge();
        let args = line(&asked(&bridge));
        assert!(args.contains(&"--strict-mcp-config".to_owned()));
        let config: Value = serde_json::from_str(after(&args, "--mcp-config")).unwrap();
        assert_eq!(config["mcpServers"]["rookery"]["env"]["ROOKERY_SESSION"], "${ROOKERY_SESSION}");
        assert_eq!(config["mcpServers"]["rookery"]["args"][0], "mcp");
        let none = Asked { bridge: None, ..asked(&bridge) };
        assert_eq!(after(&line(&none), "--mcp-config"), r#"{"mcpServers":{}}"#);
    }

    #[test]
    fn nothing_is_bypassed_and_tools_are_allowed_by_name() {
        let bridge = bridge();
        let args = line(&asked(&bridge));
        assert_eq!(after(&args, "--allowedTools"), "mcp__rookery__*");
        assert!(!args.iter().any(|arg| arg.contains("dangerously") || arg.contains("bypass")));
        let few = ["channel_send".to_owned()];
        let args = line(&Asked { allowed: Some(&few), ..asked(&bridge) });
        assert_eq!(after(&args, "--allowedTools"), "mcp__rookery__channel_send");
        assert!(!args.contains(&"mcp__rookery__*".to_owned()));
    }

    #[test]
    fn a_conversation_is_resumed_and_a_model_is_named() {
        let bridge = bridge();
        let args = line(&Asked { resumes: Some(resumed("s1")), model: Some("opus"), ..asked(&bridge) });
        assert_eq!((after(&args, "--resume"), after(&args, "--model")), ("s1", "opus"));
        assert!(!line(&asked(&bridge)).contains(&"--resume".to_owned()));
    }

    #[test]
    fn tools_are_shown_to_the_model_at_once() {
        let bridge = bridge();
        let start = Claude.start(&asked(&bridge));
        assert_eq!(start.fixed["ENABLE_TOOL_SEARCH"], "false");
        assert!(start.usual.contains_key("CLAUDE_CODE_MAX_RETRIES"));
    }

    #[test]
    fn a_long_system_prompt_goes_with_the_prompt() {
        let (bridge, long) = (bridge(), "x".repeat(200 << 10));
        let start = Claude.start(&Asked { system: &long, ..asked(&bridge) });
        assert!(start.args.iter().all(|arg| arg.len() < 128 << 10));
        assert!(start.stdin.starts_with(&long) && start.stdin.ends_with("what is new"));
    }

    #[test]
    fn a_turn_is_heard_from_beginning_to_end() {
        let (heard, events) = hear(
            &Claude,
            &[
                READY,
                r#"{"type":"assistant","session_id":"s1","message":{"content":[{"type":"tool_use","id":"t1","name":"mcp__rookery__channel_send","input":{"message":"@b hi"}}]}}"#,
                r#"{"type":"user","session_id":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"nobody is called b"}]}]}}"#,
                r#"{"type":"assistant","session_id":"s1","message":{"content":[{"type":"text","text":"All done."}]}}"#,
                r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1","result":"All done.","total_cost_usd":0.5,"usage":{"input_tokens":20,"cache_read_input_tokens":7,"output_tokens":10},"permission_denials":[]}"#,
            ],
        );
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert_eq!((heard.conversation.as_deref(), heard.said.as_deref()), (Some("s1"), Some("All done.")));
        assert!(heard.worked);
        let usage = Usage { input_tokens: 27, output_tokens: 10, cost_usd: Some(0.5) };
        assert_eq!(
            events,
            [
                BackendEvent::Tool { name: "channel_send".into(), input: r#"{"message":"@b hi"}"#.into() },
                BackendEvent::ToolFailed { name: "channel_send".into(), reason: "nobody is called b".into() },
                BackendEvent::Said("All done.".into()),
                BackendEvent::Used(usage),
            ]
        );
    }

    #[test]
    fn an_error_of_the_model_fails_although_it_is_called_a_success() {
        let said = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key","session_id":"s1"}"#;
        let (heard, _) = hear(&Claude, &[READY, said]);
        let Some(ReportedEnd::Failed(failure)) = heard.end else { panic!("{heard:?}") };
        assert_eq!(failure.why, Why::Hopeless);
        assert!(failure.hint.unwrap().contains("log in"));
    }

    #[test]
    fn a_server_that_did_not_start_ends_the_turn_at_once() {
        for state in [r#"[{"name":"rookery","status":"failed"}]"#, "[]"] {
            let init = format!(r#"{{"type":"system","subtype":"init","session_id":"s1","mcp_servers":{state}}}"#);
            let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
            let (heard, _) = hear(&Claude, &[&init, done]);
            assert!(heard.hopeless && matches!(heard.end, Some(ReportedEnd::Failed(_))), "{heard:?}");
        }
    }

    #[test]
    fn a_denied_tool_of_ours_fails_and_another_is_told() {
        let result = |tool: &str| {
            format!(
                r#"{{"type":"result","subtype":"success","is_error":false,"result":"ok","permission_denials":[{{"tool_name":"{tool}"}}]}}"#
            )
        };
        let (heard, _) = hear(&Claude, &[READY, &result("mcp__rookery__channel_send")]);
        assert!(matches!(heard.end, Some(ReportedEnd::Failed(_))), "{heard:?}");
        let (bridge, few) = (bridge(), ["inbox_check".to_owned()]);
        let limited = Asked { allowed: Some(&few), ..asked(&bridge) };
        let (heard, _) = hear_as(&Claude, &limited, &[READY, &result("mcp__rookery__channel_send")]);
        assert_eq!(heard.end, Some(ReportedEnd::Done), "what the file does not allow is denied as it should be");
        let (heard, events) = hear(&Claude, &[READY, &result("Skill")]);
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert!(matches!(&events[0], BackendEvent::Note(note) if note.contains("Skill")), "{events:?}");
    }

    #[test]
    fn the_cost_of_a_turn_is_not_that_of_the_whole_conversation() {
        let bridge = bridge();
        let result = r#"{"type":"result","is_error":false,"result":"ok","total_cost_usd":0.75,"usage":{"input_tokens":1,"output_tokens":1}}"#;
        let before = Asked { resumes: Some(kept("s1", 0.5)), ..asked(&bridge) };
        let mut heard = Heard::default();
        Claude.reader(&before).hear(&serde_json::from_str(result).unwrap(), &mut heard);
        assert_eq!(heard.usage.cost_usd, Some(0.25));
        let told = r#"{"type":"result","is_error":false,"result":"ok","total_cost_usd":9.0,"model_usage_since_last_result":{"m":{"costUSD":0.125}}}"#;
        Claude.reader(&before).hear(&serde_json::from_str(told).unwrap(), &mut heard);
        assert_eq!(heard.usage.cost_usd, Some(0.125));
        let free = r#"{"type":"result","is_error":true,"result":"no","model_usage_since_last_result":{}}"#;
        Claude.reader(&before).hear(&serde_json::from_str(free).unwrap(), &mut heard);
        assert!(heard.usage.cost_usd.is_some_and(f64::is_sign_positive));
    }
}
