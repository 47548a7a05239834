//! Claude Code: `claude -p`, with its tools set by flags, and nothing of the user's configuration but the login.
//!
//! It ends with code 0 and `subtype: success` even if a tool was denied, our server did not start, or the model answered with
//! an error. The reliable fields are `is_error`, `permission_denials` and the state of the servers in the first event.

use serde_json::{Value, json};

use super::program::bridge::{SERVER, own_name};
use super::program::conversation::ConversationUsage;
use super::program::dialect::{Dialect, ProgramStart, TurnInput};
use super::program::failure;
use super::program::report::{ProgramReport, ReportReader, ReportedEnd, count, display_name, one_line, text_of};
use super::{BackendEvent, Failure, Usage, Why};
use crate::file::AgentProgram;

/// Its built-in tools that need permission by default. The sandbox confines them.
const ALLOWED_BUILT_IN_TOOLS: [&str; 6] = ["Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch"];
/// Tools that message other sessions of Claude Code, or wake it later. A turn is one process, and the team has its own ways
/// for both.
const DISALLOWED_TOOLS: [&str; 6] =
    ["SendMessage", "ListAgents", "ScheduleWakeup", "CronCreate", "CronDelete", "CronList"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claude;

impl Dialect for Claude {
    fn program(&self) -> AgentProgram {
        AgentProgram::Claude
    }

    fn start(&self, input: &TurnInput<'_>) -> ProgramStart {
        let mut start = ProgramStart { stdin: input.with_long_system(), ..ProgramStart::default() };
        // An empty list still turns off the user's servers.
        let servers = json!({"mcpServers": servers(input)}).to_string();
        start.args(["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]);
        start.args(["--mcp-config".to_owned(), servers]);
        // These flags take any number of values. The prompt is on stdin, so that it cannot become one of them.
        start.args(["--allowedTools".to_owned()]).args(allowed_tools(input));
        start.args(["--disallowedTools"]).args(DISALLOWED_TOOLS);
        if let Some(model) = input.model {
            start.args(["--model", model]);
        }
        match &input.resumes {
            Some(conversation) => start.args(["--resume", &conversation.id]),
            None => &mut start,
        };
        if let Some(system) = input.short_system() {
            start.args(["--append-system-prompt", system]);
        }
        // Otherwise the model sees our tools only after it searched for them.
        start.required_env("ENABLE_TOOL_SEARCH", "false");
        start.default_env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").default_env("DISABLE_AUTOUPDATER", "1");
        // The default of ten retries takes minutes; a failed turn is retried anyway.
        start.default_env("CLAUDE_CODE_MAX_RETRIES", "3");
        start
    }

    fn reader(&self, input: &TurnInput<'_>) -> Box<dyn ReportReader> {
        Box::new(ClaudeReader {
            needs_server: input.bridge.is_some(),
            allowed: input.allowed.map(<[String]>::to_vec),
            before: input.earlier_usage(),
            calls: Vec::new(),
        })
    }

    fn unknown_conversation_phrases(&self) -> &'static [&'static str] {
        &["No conversation found"]
    }
}

fn servers(input: &TurnInput<'_>) -> Value {
    let Some(bridge) = input.bridge else { return json!({}) };
    let environment = bridge.environment(|name| format!("${{{name}}}"));
    json!({SERVER: {"type": "stdio", "command": bridge.command, "args": bridge.args, "env": environment}})
}

fn allowed_tools(input: &TurnInput<'_>) -> Vec<String> {
    let ours = match input.allowed {
        None => vec![format!("mcp__{SERVER}__*")],
        Some(tools) => tools.iter().map(|tool| format!("mcp__{SERVER}__{tool}")).collect(),
    };
    ours.into_iter().chain(ALLOWED_BUILT_IN_TOOLS.map(str::to_owned)).collect()
}

struct ClaudeReader {
    needs_server: bool,
    /// The only tools of ours that it may use. It shows the others to its model too, and denies calls of them.
    allowed: Option<Vec<String>>,
    before: ConversationUsage,
    /// Calls in progress: a result names only the id of its call.
    calls: Vec<(String, String)>,
}

impl ReportReader for ClaudeReader {
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        if let Some(id) = event["session_id"].as_str() {
            report.conversation = Some(id.to_owned());
        }
        // Messages of helper agents that it starts are not part of its answer.
        if event["parent_tool_use_id"].is_string() {
            return Vec::new();
        }
        match (event["type"].as_str(), event["subtype"].as_str()) {
            (Some("system"), Some("init")) => {
                self.check_server(event, report);
                Vec::new()
            }
            (Some("system"), Some("api_retry")) => {
                vec![BackendEvent::Note(format!(
                    "claude retries the request to its model: {}",
                    one_line(&event["error"].to_string(), 120)
                ))]
            }
            (Some("assistant"), _) => self.assistant(&event["message"], report),
            (Some("user"), _) => self.results(&event["message"]["content"]),
            (Some("result"), _) => self.result(event, report),
            _ => Vec::new(),
        }
    }
}

impl ClaudeReader {
    /// Fails the turn if our server is missing: without its tools the agent would only cause cost.
    fn check_server(&self, init: &Value, report: &mut ProgramReport) {
        if !self.needs_server {
            return;
        }
        let servers = init["mcp_servers"].as_array().map_or(&[][..], Vec::as_slice);
        let ours = servers.iter().find(|server| server["name"] == SERVER);
        let status = ours.and_then(|server| server["status"].as_str()).unwrap_or("not there");
        if !matches!(status, "connected" | "pending") {
            report.give_up(failure::no_server(AgentProgram::Claude));
        }
    }

    fn assistant(&mut self, message: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let mut events = Vec::new();
        for block in blocks {
            match block["type"].as_str() {
                Some("text") => events.extend(report.say(block["text"].as_str().unwrap_or_default())),
                Some("tool_use") => {
                    let name = block["name"].as_str().unwrap_or_default();
                    self.calls.push((block["id"].as_str().unwrap_or_default().to_owned(), name.to_owned()));
                    events.push(report.call(name, &block["input"]));
                }
                _ => {}
            }
        }
        events
    }

    fn results(&mut self, content: &Value) -> Vec<BackendEvent> {
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        let failed = blocks.iter().filter(|block| block["type"] == "tool_result" && block["is_error"] == true);
        let events = failed.map(|block| {
            let call = self.calls.iter().find(|(id, _)| block["tool_use_id"] == id.as_str());
            let name = call.map_or("a tool", |(_, name)| name);
            BackendEvent::ToolFailed { name: display_name(name), reason: one_line(&text_of(&block["content"]), 200) }
        });
        events.collect()
    }

    fn result(&self, result: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        report.usage = usage(result, self.before);
        if report.hopeless {
            return Vec::new();
        }
        let text = result["result"].as_str().unwrap_or_default();
        if result["is_error"] == true {
            let status = result["api_error_status"].as_u64().and_then(|status| u16::try_from(status).ok());
            let errors = text_of(&result["errors"]);
            report.fail(failure::classify(AgentProgram::Claude, status, if text.is_empty() { &errors } else { text }));
            return vec![BackendEvent::Used(report.usage)];
        }
        if !text.trim().is_empty() {
            report.last_text = Some(text.trim().to_owned());
        }
        report.end = Some(ReportedEnd::Done);
        let denied: Vec<&str> = denials(result).collect();
        let is_meant = |tool: &&str| self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == tool));
        if let Some(ours) = denied.iter().filter_map(|tool| own_name(tool)).find(is_meant) {
            report.fail(Failure {
                why: Why::Fault,
                reason: format!("Claude Code denied the tool `{ours}` to its model"),
                hint: Some(
                    "a rule in its own settings denies it, or `tools` of this agent does not name it".to_owned(),
                ),
            });
        }
        let notes = denied.iter().map(|tool| BackendEvent::Note(format!("claude denied the tool {tool} to its model")));
        notes.chain([BackendEvent::Used(report.usage)]).collect()
    }
}

fn denials(result: &Value) -> impl Iterator<Item = &str> {
    let denied = result["permission_denials"].as_array().map_or(&[][..], Vec::as_slice);
    denied.iter().filter_map(|denial| denial["tool_name"].as_str())
}

/// `usage` covers this turn. The cost covers the whole conversation, unless the result also has the cost since the last one.
fn usage(result: &Value, before: ConversationUsage) -> Usage {
    let tokens = &result["usage"];
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let since = result["model_usage_since_last_result"].as_object();
    // `sum` of an empty iterator would be -0.
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
    use super::super::program::testing::{bridge, input, kept, read_lines, read_lines_as, resumed};
    use super::*;

    fn line(input: &TurnInput<'_>) -> Vec<String> {
        Claude.start(input).args
    }

    fn after<'a>(args: &'a [String], flag: &str) -> &'a str {
        let at = args.iter().position(|arg| arg == flag).unwrap_or_else(|| panic!("{flag} is not in {args:?}"));
        &args[at + 1]
    }

    const READY: &str = r#"{"type":"system","subtype":"init","session_id":"s1","mcp_servers":[{"name":"rookery","status":"connected"}]}"#;

    #[test]
    fn claude_prompt_is_never_an_argument() {
        let bridge = bridge();
        let start = Claude.start(&input(&bridge));
        assert_eq!(start.stdin, "what is new");
        assert!(!start.args.iter().any(|arg| arg.contains("what is new")));
    }

    #[test]
    fn claude_uses_only_our_server_and_no_secret_is_written_down() {
        let bridge = bridge();
        let args = line(&input(&bridge));
        assert!(args.contains(&"--strict-mcp-config".to_owned()));
        let config: Value = serde_json::from_str(after(&args, "--mcp-config")).unwrap();
        assert_eq!(config["mcpServers"]["rookery"]["env"]["ROOKERY_SESSION"], "${ROOKERY_SESSION}");
        assert_eq!(config["mcpServers"]["rookery"]["args"][0], "mcp");
        let none = TurnInput { bridge: None, ..input(&bridge) };
        assert_eq!(after(&line(&none), "--mcp-config"), r#"{"mcpServers":{}}"#);
    }

    #[test]
    fn claude_tools_are_allowed_by_name_and_nothing_is_bypassed() {
        let bridge = bridge();
        let args = line(&input(&bridge));
        assert_eq!(after(&args, "--allowedTools"), "mcp__rookery__*");
        assert!(!args.iter().any(|arg| arg.contains("dangerously") || arg.contains("bypass")));
        let few = ["channel_send".to_owned()];
        let args = line(&TurnInput { allowed: Some(&few), ..input(&bridge) });
        assert_eq!(after(&args, "--allowedTools"), "mcp__rookery__channel_send");
        assert!(!args.contains(&"mcp__rookery__*".to_owned()));
    }

    #[test]
    fn claude_resumes_a_conversation_and_names_the_model() {
        let bridge = bridge();
        let args = line(&TurnInput { resumes: Some(resumed("s1")), model: Some("opus"), ..input(&bridge) });
        assert_eq!((after(&args, "--resume"), after(&args, "--model")), ("s1", "opus"));
        assert!(!line(&input(&bridge)).contains(&"--resume".to_owned()));
    }

    #[test]
    fn claude_shows_tools_to_the_model_at_once() {
        let bridge = bridge();
        let start = Claude.start(&input(&bridge));
        assert_eq!(start.required_env["ENABLE_TOOL_SEARCH"], "false");
        assert!(start.default_env.contains_key("CLAUDE_CODE_MAX_RETRIES"));
    }

    #[test]
    fn claude_long_system_prompt_goes_with_the_prompt() {
        let (bridge, long) = (bridge(), "x".repeat(200 << 10));
        let start = Claude.start(&TurnInput { system: &long, ..input(&bridge) });
        assert!(start.args.iter().all(|arg| arg.len() < 128 << 10));
        assert!(start.stdin.starts_with(&long) && start.stdin.ends_with("what is new"));
    }

    #[test]
    fn claude_turn_is_read_from_beginning_to_end() {
        let (report, events) = read_lines(
            &Claude,
            &[
                READY,
                r#"{"type":"assistant","session_id":"s1","message":{"content":[{"type":"tool_use","id":"t1","name":"mcp__rookery__channel_send","input":{"message":"@b hi"}}]}}"#,
                r#"{"type":"user","session_id":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"nobody is called b"}]}]}}"#,
                r#"{"type":"assistant","session_id":"s1","message":{"content":[{"type":"text","text":"All done."}]}}"#,
                r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1","result":"All done.","total_cost_usd":0.5,"usage":{"input_tokens":20,"cache_read_input_tokens":7,"output_tokens":10},"permission_denials":[]}"#,
            ],
        );
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert_eq!((report.conversation.as_deref(), report.last_text.as_deref()), (Some("s1"), Some("All done.")));
        assert!(report.worked);
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
    fn claude_error_of_the_model_fails_despite_reported_success() {
        let said = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key","session_id":"s1"}"#;
        let (report, _) = read_lines(&Claude, &[READY, said]);
        let Some(ReportedEnd::Failed(failure)) = report.end else { panic!("{report:?}") };
        assert_eq!(failure.why, Why::Hopeless);
        assert!(failure.hint.unwrap().contains("log in"));
    }

    #[test]
    fn claude_turn_ends_at_once_if_our_server_did_not_start() {
        for state in [r#"[{"name":"rookery","status":"failed"}]"#, "[]"] {
            let init = format!(r#"{{"type":"system","subtype":"init","session_id":"s1","mcp_servers":{state}}}"#);
            let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
            let (report, _) = read_lines(&Claude, &[&init, done]);
            assert!(report.hopeless && matches!(report.end, Some(ReportedEnd::Failed(_))), "{report:?}");
        }
    }

    #[test]
    fn claude_denial_of_our_tool_fails_and_of_another_is_noted() {
        let result = |tool: &str| {
            format!(
                r#"{{"type":"result","subtype":"success","is_error":false,"result":"ok","permission_denials":[{{"tool_name":"{tool}"}}]}}"#
            )
        };
        let (report, _) = read_lines(&Claude, &[READY, &result("mcp__rookery__channel_send")]);
        assert!(matches!(report.end, Some(ReportedEnd::Failed(_))), "{report:?}");
        let (bridge, few) = (bridge(), ["inbox_check".to_owned()]);
        let limited = TurnInput { allowed: Some(&few), ..input(&bridge) };
        let (report, _) = read_lines_as(&Claude, &limited, &[READY, &result("mcp__rookery__channel_send")]);
        assert_eq!(report.end, Some(ReportedEnd::Done), "what the file does not allow is denied as it should be");
        let (report, events) = read_lines(&Claude, &[READY, &result("Skill")]);
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert!(matches!(&events[0], BackendEvent::Note(note) if note.contains("Skill")), "{events:?}");
    }

    #[test]
    fn claude_cost_of_a_turn_excludes_earlier_turns() {
        let bridge = bridge();
        let result = r#"{"type":"result","is_error":false,"result":"ok","total_cost_usd":0.75,"usage":{"input_tokens":1,"output_tokens":1}}"#;
        let before = TurnInput { resumes: Some(kept("s1", 0.5)), ..input(&bridge) };
        let mut report = ProgramReport::default();
        Claude.reader(&before).read_event(&serde_json::from_str(result).unwrap(), &mut report);
        assert_eq!(report.usage.cost_usd, Some(0.25));
        let with_models = r#"{"type":"result","is_error":false,"result":"ok","total_cost_usd":9.0,"model_usage_since_last_result":{"m":{"costUSD":0.125}}}"#;
        Claude.reader(&before).read_event(&serde_json::from_str(with_models).unwrap(), &mut report);
        assert_eq!(report.usage.cost_usd, Some(0.125));
        let free = r#"{"type":"result","is_error":true,"result":"no","model_usage_since_last_result":{}}"#;
        Claude.reader(&before).read_event(&serde_json::from_str(free).unwrap(), &mut report);
        assert!(report.usage.cost_usd.is_some_and(f64::is_sign_positive));
    }
}
