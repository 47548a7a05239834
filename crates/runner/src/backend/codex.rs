//! Codex: `codex exec --json`, with all of our settings by `-c`, so that no file is written.
//!
//! The user's own configuration stays in force, because it may name the provider of the model. Its servers are switched off,
//! and approval and sandbox are set here. The approval policy is `never`, under which the tools of a server fail unless the
//! server is approved. A server that does not start is ignored unless it is required.

use std::path::Path;

use serde_json::Value;
use toml::Table;

use super::program::bridge::{Bridge, SERVER};
use super::program::conversation::ConversationUsage;
use super::program::dialect::{Dialect, OwnSandbox, ProgramStart, TurnInput};
use super::program::failure;
use super::program::report::{ProgramReport, ReportReader, ReportedEnd, count, one_line, text_of};
use super::{BackendEvent, Failure, Usage};
use crate::file::AgentProgram;

/// Time limit of our tools: some wait for a message.
const TOOL_SECONDS: i64 = 600;
/// Time limit for starting our server; the machine may be busy.
const START_SECONDS: i64 = 60;
/// Failures in a row to reach the model before the turn is ended. Codex itself retries for ever; this is about a minute.
const MAX_LOST: u32 = 8;

/// The relevant parts of the user's configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Codex {
    /// The user's own servers.
    servers: Vec<String>,
    /// Variables that hold the keys of the user's own providers.
    keys: Vec<String>,
    /// Addresses of those providers.
    addresses: Vec<String>,
}

impl Codex {
    /// Reads the configuration in a folder. An unreadable one counts as empty; Codex itself reports it.
    pub(crate) fn load(home: Option<&Path>) -> Codex {
        let text = home.and_then(|home| std::fs::read_to_string(home.join("config.toml")).ok());
        text.map(|text| Codex::read(&text)).unwrap_or_default()
    }

    fn read(config: &str) -> Codex {
        let config: Table = config.parse().unwrap_or_default();
        let table = |name: &str| config.get(name).and_then(|value| value.as_table()).cloned().unwrap_or_default();
        let text = |provider: &toml::Value, name: &str| Some(provider.get(name)?.as_str()?.to_owned());
        let is_plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        Codex {
            servers: table("mcp_servers").keys().filter(|name| is_plain(name)).cloned().collect(),
            keys: table("model_providers").values().filter_map(|provider| text(provider, "env_key")).collect(),
            addresses: table("model_providers").values().filter_map(|provider| text(provider, "base_url")).collect(),
        }
    }
}

impl Dialect for Codex {
    fn program(&self) -> AgentProgram {
        AgentProgram::Codex
    }

    fn start(&self, input: &TurnInput<'_>) -> ProgramStart {
        let mut start = ProgramStart { stdin: input.with_long_system(), ..ProgramStart::default() };
        start.args(["exec", "--json", "--skip-git-repo-check"]);
        for setting in self.settings(input) {
            start.args(["-c", setting.as_str()]);
        }
        if let Some(model) = input.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &input.resumes {
            start.args(["resume", &conversation.id]);
        }
        // The prompt is on stdin.
        start.args(["-"]);
        start
    }

    fn reader(&self, input: &TurnInput<'_>) -> Box<dyn ReportReader> {
        Box::new(CodexReader { before: input.earlier_usage(), last_error: None, lost: 0 })
    }

    fn unknown_conversation_phrases(&self) -> &'static [&'static str] {
        &["no rollout found for thread id"]
    }

    fn variables(&self) -> &[String] {
        &self.keys
    }

    fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

impl Codex {
    fn settings(&self, input: &TurnInput<'_>) -> Vec<String> {
        let sandbox = match input.own_sandbox {
            OwnSandbox::Off => "danger-full-access",
            OwnSandbox::On => "workspace-write",
        };
        let mut settings = vec![
            "check_for_update_on_startup=false".to_owned(),
            "analytics.enabled=false".to_owned(),
            "approval_policy=\"never\"".to_owned(),
            format!("sandbox_mode=\"{sandbox}\""),
        ];
        let theirs = self.servers.iter().filter(|name| *name != SERVER);
        settings.extend(theirs.map(|name| format!("mcp_servers.{name}.enabled=false")));
        settings.extend(input.bridge.map(|bridge| format!("mcp_servers.{SERVER}={}", server(bridge, input))));
        let system = input.short_system().map(toml::Value::from);
        settings.extend(system.map(|system| format!("developer_instructions={system}")));
        settings
    }
}

/// Our server, with variables by name, so that their values are not written down.
fn server(bridge: &Bridge, input: &TurnInput<'_>) -> toml::Value {
    let mut server = Table::new();
    server.insert("command".to_owned(), bridge.command.clone().into());
    server.insert("args".to_owned(), bridge.args.clone().into());
    server.insert("env_vars".to_owned(), bridge.variables.clone().into());
    server.insert("default_tools_approval_mode".to_owned(), "approve".into());
    server.insert("required".to_owned(), true.into());
    server.insert("startup_timeout_sec".to_owned(), START_SECONDS.into());
    server.insert("tool_timeout_sec".to_owned(), TOOL_SECONDS.into());
    if let Some(tools) = input.allowed {
        server.insert("enabled_tools".to_owned(), tools.to_vec().into());
    }
    toml::Value::Table(server)
}

struct CodexReader {
    before: ConversationUsage,
    /// The last reported error. Codex continues after most errors.
    last_error: Option<String>,
    /// Failures in a row to reach the model.
    lost: u32,
}

impl ReportReader for CodexReader {
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
        if event["type"] != "error" {
            self.lost = 0;
        }
        match event["type"].as_str() {
            Some("thread.started") => {
                report.conversation = event["thread_id"].as_str().map(str::to_owned);
                Vec::new()
            }
            Some("item.started") => read_start(&event["item"], report),
            Some("item.completed") => read_completion(&event["item"], report),
            Some("turn.completed") => {
                report.usage = usage(&event["usage"], self.before);
                report.end = Some(ReportedEnd::Done);
                vec![BackendEvent::Used(report.usage)]
            }
            Some("turn.failed") => {
                let message = event["error"]["message"].as_str().or(self.last_error.as_deref()).unwrap_or_default();
                report.fail(failure(message));
                Vec::new()
            }
            Some("error") => {
                let message = event["message"].as_str().unwrap_or_default();
                self.last_error = Some(message.to_owned());
                self.lost += u32::from(message.contains("waiting for network"));
                if self.lost >= MAX_LOST {
                    report.give_up(failure(message));
                }
                vec![BackendEvent::Note(format!("codex: {}", one_line(message, 200)))]
            }
            _ => Vec::new(),
        }
    }
}

fn read_start(item: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
    match item["type"].as_str() {
        Some("mcp_tool_call") => {
            vec![report.call(item["tool"].as_str().unwrap_or_default(), &item["arguments"])]
        }
        Some("command_execution") => vec![report.call("shell", &item["command"])],
        Some("web_search") => vec![report.call("web_search", &item["query"])],
        _ => Vec::new(),
    }
}

fn read_completion(item: &Value, report: &mut ProgramReport) -> Vec<BackendEvent> {
    match item["type"].as_str() {
        Some("agent_message") => report.say(item["text"].as_str().unwrap_or_default()).into_iter().collect(),
        Some("mcp_tool_call") if item["status"] == "failed" => {
            let message = item["error"]["message"].as_str().map(str::to_owned);
            let message = message.unwrap_or_else(|| text_of(&item["result"]["content"]));
            let name = item["tool"].as_str().unwrap_or_default().to_owned();
            vec![BackendEvent::ToolFailed { name, reason: one_line(&message, 200) }]
        }
        Some("file_change") => vec![report.call("edit", &item["changes"])],
        // A warning, such as missing metadata of the model. Codex continues.
        Some("error") => vec![BackendEvent::Note(format!("codex: {}", one_line(&text(item), 200)))],
        _ => Vec::new(),
    }
}

fn text(item: &Value) -> String {
    item["message"].as_str().unwrap_or_default().to_owned()
}

/// Codex reports the usage of the whole conversation.
fn usage(tokens: &Value, before: ConversationUsage) -> Usage {
    before.since(Usage {
        input_tokens: count(&tokens["input_tokens"]),
        output_tokens: count(&tokens["output_tokens"]),
        cost_usd: None,
    })
}

/// The status is only in the text: `unexpected status 401 Unauthorized: …`.
fn failure(message: &str) -> Failure {
    let status = message.split_once("status ").and_then(|(_, rest)| rest.split([' ', ':', ',']).next()?.parse().ok());
    failure::classify(AgentProgram::Codex, status, message)
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::super::program::testing::{bridge, input, kept, read_lines, read_lines_as, resumed};
    use super::*;

    fn settings(codex: &Codex, input: &TurnInput<'_>) -> Table {
        let args = codex.start(input).args;
        let pairs = args.windows(2).filter(|pair| pair[0] == "-c").map(|pair| pair[1].clone());
        pairs.collect::<Vec<_>>().join("\n").parse().unwrap()
    }

    #[test]
    fn codex_server_is_approved_and_required_and_no_secret_is_written_down() {
        let bridge = bridge();
        let settings = settings(&Codex::default(), &input(&bridge));
        let server = &settings["mcp_servers"]["rookery"];
        assert_eq!(server["default_tools_approval_mode"].as_str(), Some("approve"));
        assert_eq!(server["required"].as_bool(), Some(true));
        assert_eq!(server["env_vars"].as_array().unwrap().len(), 2);
        assert!(server.get("env").is_none() && server.get("enabled_tools").is_none());
        assert_eq!(settings["approval_policy"].as_str(), Some("never"));
    }

    #[test]
    fn codex_system_prompt_arrives_whatever_it_contains() {
        let bridge = bridge();
        let system = "He said \"\"\"no\"\"\".\n\tC:\\temp = 'x' \u{7f} ${{ y }}";
        let settings = settings(&Codex::default(), &TurnInput { system, ..input(&bridge) });
        assert_eq!(settings["developer_instructions"].as_str(), Some(system));
    }

    #[test]
    fn codex_servers_of_the_user_are_off_and_providers_stay() {
        let config = "model_provider = 'az'\n[model_providers.az]\nenv_key = 'AZURE_KEY'\nbase_url = 'https://az.example'\n[mcp_servers.mine]\ncommand = 'x'\n[mcp_servers.rookery]\ncommand = 'y'";
        let (codex, bridge) = (Codex::read(config), bridge());
        assert_eq!(
            (codex.variables(), codex.addresses()),
            (&["AZURE_KEY".to_owned()][..], &["https://az.example".to_owned()][..])
        );
        let settings = settings(&codex, &input(&bridge));
        assert_eq!(settings["mcp_servers"]["mine"]["enabled"].as_bool(), Some(false));
        assert!(settings["mcp_servers"]["rookery"].get("enabled").is_none());
        assert!(!codex.start(&input(&bridge)).args.contains(&"--ignore-user-config".to_owned()));
        assert_eq!(Codex::read("not [toml"), Codex::default());
    }

    #[test]
    fn codex_sandbox_is_used_only_without_ours() {
        let bridge = bridge();
        let mode = |own_sandbox| {
            settings(&Codex::default(), &TurnInput { own_sandbox, ..input(&bridge) })["sandbox_mode"]
                .as_str()
                .map(str::to_owned)
        };
        assert_eq!(mode(OwnSandbox::Off).as_deref(), Some("danger-full-access"));
        assert_eq!(mode(OwnSandbox::On).as_deref(), Some("workspace-write"));
    }

    #[test]
    fn codex_prompt_is_on_stdin_and_conversation_is_named() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let input = TurnInput { resumes: Some(resumed("t1")), model: Some("m"), allowed: Some(&few), ..input(&bridge) };
        let start = Codex::default().start(&input);
        assert!(start.args.ends_with(&["resume", "t1", "-"].map(str::to_owned)), "{:?}", start.args);
        assert!(start.args.windows(2).any(|pair| pair == ["--model", "m"]));
        assert_eq!(start.stdin, "what is new");
        let tools = &settings(&Codex::default(), &input)["mcp_servers"]["rookery"]["enabled_tools"];
        assert_eq!(tools.as_array().unwrap()[0].as_str(), Some("channel_send"));
    }

    const BEGUN: &str = r#"{"type":"thread.started","thread_id":"t1"}"#;

    #[test]
    fn codex_turn_is_read_from_beginning_to_end() {
        let bridge = bridge();
        let before = TurnInput { resumes: Some(kept("t1", 0.0)), ..input(&bridge) };
        let (report, events) = read_lines_as(
            &Codex::default(),
            &before,
            &[
                BEGUN,
                r#"{"type":"item.completed","item":{"type":"error","message":"Model metadata not found"}}"#,
                r#"{"type":"turn.started"}"#,
                r#"{"type":"item.started","item":{"type":"mcp_tool_call","server":"rookery","tool":"channel_send","arguments":{"message":"hi"}}}"#,
                r#"{"type":"item.completed","item":{"type":"mcp_tool_call","tool":"channel_send","status":"failed","error":{"message":"requires approval"}}}"#,
                r#"{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}"#,
                r#"{"type":"turn.completed","usage":{"input_tokens":30,"output_tokens":15}}"#,
            ],
        );
        assert_eq!(report.end, Some(ReportedEnd::Done));
        assert_eq!((report.conversation.as_deref(), report.last_text.as_deref()), (Some("t1"), Some("Done.")));
        // 20 and 10 were used before.
        assert_eq!(report.usage, Usage { input_tokens: 10, output_tokens: 5, cost_usd: None });
        assert!(report.worked);
        assert!(matches!(&events[0], BackendEvent::Note(_)));
        assert_eq!(
            events[2],
            BackendEvent::ToolFailed { name: "channel_send".into(), reason: "requires approval".into() }
        );
    }

    #[test]
    fn codex_failed_turn_has_a_reason() {
        let (report, _) = read_lines(
            &Codex::default(),
            &[
                BEGUN,
                r#"{"type":"error","message":"unexpected status 401 Unauthorized: no key"}"#,
                r#"{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no key"}}"#,
            ],
        );
        let Some(ReportedEnd::Failed(failure)) = report.end else { panic!("{report:?}") };
        assert_eq!(failure.why, Why::Hopeless);
        let (report, _) = read_lines(
            &Codex::default(),
            &[BEGUN, r#"{"type":"turn.failed","error":{"message":"We are experiencing high demand"}}"#],
        );
        assert!(matches!(report.end, Some(ReportedEnd::Failed(failure)) if failure.why == Why::Fault));
    }

    #[test]
    fn codex_error_alone_does_not_end_the_turn() {
        let (report, _) =
            read_lines(&Codex::default(), &[BEGUN, r#"{"type":"error","message":"Reconnecting... 1/5"}"#]);
        assert_eq!(report.end, None);
    }

    #[test]
    fn codex_turn_that_keeps_waiting_for_the_network_is_ended() {
        let lost = r#"{"type":"error","message":"Reconnecting... waiting for network (Connection failed)"}"#;
        let lines = |times: usize| std::iter::once(BEGUN).chain(std::iter::repeat_n(lost, times)).collect::<Vec<_>>();
        assert!(!read_lines(&Codex::default(), &lines(7)).0.hopeless);
        assert!(read_lines(&Codex::default(), &lines(8)).0.hopeless);
        let found = [lines(7), vec![r#"{"type":"turn.started"}"#], lines(7)].concat();
        assert!(!read_lines(&Codex::default(), &found).0.hopeless);
    }
}
