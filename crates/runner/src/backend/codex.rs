//! Codex: `codex exec --json`, everything of ours by `-c`, so that no file is written.
//!
//! The user's own configuration stays in force, because that is where the provider of the model may be; the servers in it are
//! switched off, and what bears on approval and sandbox is said here. Its approval policy is `never`, under which tools of a
//! server fail unless the server is approved; a server that does not start is passed over unless it is required.

use std::path::Path;

use serde_json::Value;
use toml::Table;

use super::program::bridge::{Bridge, SERVER};
use super::program::conversation::Used;
use super::program::dialect::{Asked, Dialect, Start, Walls};
use super::program::failure;
use super::program::report::{Heard, Reader, ReportedEnd, count, one_line, text_of};
use super::{BackendEvent, Failure, Usage};
use crate::file::AgentProgram;

/// How long a tool of ours may take: some wait for a message.
const TOOL_SECONDS: i64 = 600;
/// A machine may be busy.
const START_SECONDS: i64 = 60;
/// How often in a row it may fail to reach its model. By itself it goes on for ever; this is about a minute.
const LOST: u32 = 8;

/// What of the user's configuration matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Codex {
    /// The user's own servers.
    servers: Vec<String>,
    /// Variables that hold the keys of the user's own providers.
    keys: Vec<String>,
    /// Where those providers are.
    addresses: Vec<String>,
}

impl Codex {
    /// What the configuration in a folder says. One that cannot be read is for Codex to complain about.
    pub(crate) fn load(home: Option<&Path>) -> Codex {
        let text = home.and_then(|home| std::fs::read_to_string(home.join("config.toml")).ok());
        text.map(|text| Codex::read(&text)).unwrap_or_default()
    }

    fn read(config: &str) -> Codex {
        let config: Table = config.parse().unwrap_or_default();
        let table = |name: &str| config.get(name).and_then(|value| value.as_table()).cloned().unwrap_or_default();
        let text = |provider: &toml::Value, name: &str| Some(provider.get(name)?.as_str()?.to_owned());
        let plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        Codex {
            servers: table("mcp_servers").keys().filter(|name| plain(name)).cloned().collect(),
            keys: table("model_providers").values().filter_map(|provider| text(provider, "env_key")).collect(),
            addresses: table("model_providers").values().filter_map(|provider| text(provider, "base_url")).collect(),
        }
    }
}

impl Dialect for Codex {
    fn program(&self) -> AgentProgram {
        AgentProgram::Codex
    }

    fn start(&self, asked: &Asked<'_>) -> Start {
        let mut start = Start { stdin: asked.with_long_system(), ..Start::default() };
        start.args(["exec", "--json", "--skip-git-repo-check"]);
        for setting in self.settings(asked) {
            start.args(["-c", setting.as_str()]);
        }
        if let Some(model) = asked.model {
            start.args(["--model", model]);
        }
        if let Some(conversation) = &asked.resumes {
            start.args(["resume", &conversation.id]);
        }
        // The prompt is on stdin.
        start.args(["-"]);
        start
    }

    fn reader(&self, asked: &Asked<'_>) -> Box<dyn Reader> {
        Box::new(Listening { before: asked.used(), last_error: None, lost: 0 })
    }

    fn forgot(&self) -> &'static [&'static str] {
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
    fn settings(&self, asked: &Asked<'_>) -> Vec<String> {
        let sandbox = match asked.walls {
            Walls::NotItsOwn => "danger-full-access",
            Walls::ItsOwn => "workspace-write",
        };
        let mut settings = vec![
            "check_for_update_on_startup=false".to_owned(),
            "analytics.enabled=false".to_owned(),
            "approval_policy=\"never\"".to_owned(),
            format!("sandbox_mode=\"{sandbox}\""),
        ];
        let theirs = self.servers.iter().filter(|name| *name != SERVER);
        settings.extend(theirs.map(|name| format!("mcp_servers.{name}.enabled=false")));
        settings.extend(asked.bridge.map(|bridge| format!("mcp_servers.{SERVER}={}", server(bridge, asked))));
        let system = asked.short_system().map(toml::Value::from);
        settings.extend(system.map(|system| format!("developer_instructions={system}")));
        settings
    }
}

/// Our server, with the variables by name: their values are not written down.
fn server(bridge: &Bridge, asked: &Asked<'_>) -> toml::Value {
    let mut server = Table::new();
    server.insert("command".to_owned(), bridge.command.clone().into());
    server.insert("args".to_owned(), bridge.args.clone().into());
    server.insert("env_vars".to_owned(), bridge.variables.clone().into());
    server.insert("default_tools_approval_mode".to_owned(), "approve".into());
    server.insert("required".to_owned(), true.into());
    server.insert("startup_timeout_sec".to_owned(), START_SECONDS.into());
    server.insert("tool_timeout_sec".to_owned(), TOOL_SECONDS.into());
    if let Some(tools) = asked.allowed {
        server.insert("enabled_tools".to_owned(), tools.to_vec().into());
    }
    toml::Value::Table(server)
}

struct Listening {
    before: Used,
    /// What it complained of last. It goes on after most of that.
    last_error: Option<String>,
    /// How often in a row it could not reach its model.
    lost: u32,
}

impl Reader for Listening {
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
        if event["type"] != "error" {
            self.lost = 0;
        }
        match event["type"].as_str() {
            Some("thread.started") => {
                heard.conversation = event["thread_id"].as_str().map(str::to_owned);
                Vec::new()
            }
            Some("item.started") => started(&event["item"], heard),
            Some("item.completed") => completed(&event["item"], heard),
            Some("turn.completed") => {
                heard.usage = usage(&event["usage"], self.before);
                heard.end = Some(ReportedEnd::Done);
                vec![BackendEvent::Used(heard.usage)]
            }
            Some("turn.failed") => {
                let said = event["error"]["message"].as_str().or(self.last_error.as_deref()).unwrap_or_default();
                heard.fail(failure(said));
                Vec::new()
            }
            Some("error") => {
                let said = event["message"].as_str().unwrap_or_default();
                self.last_error = Some(said.to_owned());
                self.lost += u32::from(said.contains("waiting for network"));
                if self.lost >= LOST {
                    heard.give_up(failure(said));
                }
                vec![BackendEvent::Note(format!("codex: {}", one_line(said, 200)))]
            }
            _ => Vec::new(),
        }
    }
}

fn started(item: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
    match item["type"].as_str() {
        Some("mcp_tool_call") => {
            vec![heard.call(item["tool"].as_str().unwrap_or_default(), &item["arguments"])]
        }
        Some("command_execution") => vec![heard.call("shell", &item["command"])],
        Some("web_search") => vec![heard.call("web_search", &item["query"])],
        _ => Vec::new(),
    }
}

fn completed(item: &Value, heard: &mut Heard) -> Vec<BackendEvent> {
    match item["type"].as_str() {
        Some("agent_message") => heard.say(item["text"].as_str().unwrap_or_default()).into_iter().collect(),
        Some("mcp_tool_call") if item["status"] == "failed" => {
            let said = item["error"]["message"].as_str().map(str::to_owned);
            let said = said.unwrap_or_else(|| text_of(&item["result"]["content"]));
            let name = item["tool"].as_str().unwrap_or_default().to_owned();
            vec![BackendEvent::ToolFailed { name, reason: one_line(&said, 200) }]
        }
        Some("file_change") => vec![heard.call("edit", &item["changes"])],
        // A warning, such as that it knows nothing of the model. It goes on.
        Some("error") => vec![BackendEvent::Note(format!("codex: {}", one_line(&text(item), 200)))],
        _ => Vec::new(),
    }
}

fn text(item: &Value) -> String {
    item["message"].as_str().unwrap_or_default().to_owned()
}

/// It tells what the whole conversation has used.
fn usage(tokens: &Value, before: Used) -> Usage {
    before.since(Usage {
        input_tokens: count(&tokens["input_tokens"]),
        output_tokens: count(&tokens["output_tokens"]),
        cost_usd: None,
    })
}

/// Words are all there is: `unexpected status 401 Unauthorized: …`.
fn failure(said: &str) -> Failure {
    let status = said.split_once("status ").and_then(|(_, rest)| rest.split([' ', ':', ',']).next()?.parse().ok());
    failure::failure(AgentProgram::Codex, status, said)
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::super::program::testing::{asked, bridge, hear, hear_as, kept, resumed};
    use super::*;

    fn settings(codex: &Codex, asked: &Asked<'_>) -> Table {
        let args = codex.start(asked).args;
        let pairs = args.windows(2).filter(|pair| pair[0] == "-c").map(|pair| pair[1].clone());
        pairs.collect::<Vec<_>>().join("\n").parse().unwrap()
    }

    #[test]
    fn our_server_is_approved_and_required_and_no_secret_is_written_down() {
        let bridge = bridge();
        let settings = settings(&Codex::default(), &asked(&bridge));
        let server = &settings["mcp_servers"]["rookery"];
        assert_eq!(server["default_tools_approval_mode"].as_str(), Some("approve"));
        assert_eq!(server["required"].as_bool(), Some(true));
        assert_eq!(server["env_vars"].as_array().unwrap().len(), 2);
        assert!(server.get("env").is_none() && server.get("enabled_tools").is_none());
        assert_eq!(settings["approval_policy"].as_str(), Some("never"));
    }

    #[test]
    fn whatever_stands_in_a_system_prompt_arrives() {
        let bridge = bridge();
        let system = "He said \"\"\"no\"\"\".\n\tC:\\temp = 'x' \u{7f} ${{ y }}";
        let settings = settings(&Codex::default(), &Asked { system, ..asked(&bridge) });
        assert_eq!(settings["developer_instructions"].as_str(), Some(system));
    }

    #[test]
    fn servers_of_the_user_are_off_and_providers_stay() {
        let config = "model_provider = 'az'\n[model_providers.az]\nenv_key = 'AZURE_KEY'\nbase_url = 'https://az.example'\n[mcp_servers.mine]\ncommand = 'x'\n[mcp_servers.rookery]\ncommand = 'y'";
        let (codex, bridge) = (Codex::read(config), bridge());
        assert_eq!(
            (codex.variables(), codex.addresses()),
            (&["AZURE_KEY".to_owned()][..], &["https://az.example".to_owned()][..])
        );
        let settings = settings(&codex, &asked(&bridge));
        assert_eq!(settings["mcp_servers"]["mine"]["enabled"].as_bool(), Some(false));
        assert!(settings["mcp_servers"]["rookery"].get("enabled").is_none());
        assert!(!codex.start(&asked(&bridge)).args.contains(&"--ignore-user-config".to_owned()));
        assert_eq!(Codex::read("not [toml"), Codex::default());
    }

    #[test]
    fn its_own_sandbox_is_used_where_there_is_no_other() {
        let bridge = bridge();
        let mode = |walls| {
            settings(&Codex::default(), &Asked { walls, ..asked(&bridge) })["sandbox_mode"].as_str().map(str::to_owned)
        };
        assert_eq!(mode(Walls::NotItsOwn).as_deref(), Some("danger-full-access"));
        assert_eq!(mode(Walls::ItsOwn).as_deref(), Some("workspace-write"));
    }

    #[test]
    fn the_prompt_is_on_stdin_and_the_conversation_is_named() {
        let (bridge, few) = (bridge(), ["channel_send".to_owned()]);
        let asked = Asked { resumes: Some(resumed("t1")), model: Some("m"), allowed: Some(&few), ..asked(&bridge) };
        let start = Codex::default().start(&asked);
        assert!(start.args.ends_with(&["resume", "t1", "-"].map(str::to_owned)), "{:?}", start.args);
        assert!(start.args.windows(2).any(|pair| pair == ["--model", "m"]));
        assert_eq!(start.stdin, "what is new");
        let tools = &settings(&Codex::default(), &asked)["mcp_servers"]["rookery"]["enabled_tools"];
        assert_eq!(tools.as_array().unwrap()[0].as_str(), Some("channel_send"));
    }

    const BEGUN: &str = r#"{"type":"thread.started","thread_id":"t1"}"#;

    #[test]
    fn a_turn_is_heard_from_beginning_to_end() {
        let bridge = bridge();
        let before = Asked { resumes: Some(kept("t1", 0.0)), ..asked(&bridge) };
        let (heard, events) = hear_as(
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
        assert_eq!(heard.end, Some(ReportedEnd::Done));
        assert_eq!((heard.conversation.as_deref(), heard.said.as_deref()), (Some("t1"), Some("Done.")));
        // 20 and 10 were used before.
        assert_eq!(heard.usage, Usage { input_tokens: 10, output_tokens: 5, cost_usd: None });
        assert!(heard.worked);
        assert!(matches!(&events[0], BackendEvent::Note(_)));
        assert_eq!(
            events[2],
            BackendEvent::ToolFailed { name: "channel_send".into(), reason: "requires approval".into() }
        );
    }

    #[test]
    fn a_failed_turn_says_why() {
        let (heard, _) = hear(
            &Codex::default(),
            &[
                BEGUN,
                r#"{"type":"error","message":"unexpected status 401 Unauthorized: no key"}"#,
                r#"{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no key"}}"#,
            ],
        );
        let Some(ReportedEnd::Failed(failure)) = heard.end else { panic!("{heard:?}") };
        assert_eq!(failure.why, Why::Hopeless);
        let (heard, _) = hear(
            &Codex::default(),
            &[BEGUN, r#"{"type":"turn.failed","error":{"message":"We are experiencing high demand"}}"#],
        );
        assert!(matches!(heard.end, Some(ReportedEnd::Failed(failure)) if failure.why == Why::Fault));
    }

    #[test]
    fn an_error_alone_is_no_end() {
        let (heard, _) = hear(&Codex::default(), &[BEGUN, r#"{"type":"error","message":"Reconnecting... 1/5"}"#]);
        assert_eq!(heard.end, None);
    }

    #[test]
    fn one_that_waits_for_the_network_for_ever_is_given_up() {
        let lost = r#"{"type":"error","message":"Reconnecting... waiting for network (Connection failed)"}"#;
        let lines = |times: usize| std::iter::once(BEGUN).chain(std::iter::repeat_n(lost, times)).collect::<Vec<_>>();
        assert!(!hear(&Codex::default(), &lines(7)).0.hopeless);
        assert!(hear(&Codex::default(), &lines(8)).0.hopeless);
        let found = [lines(7), vec![r#"{"type":"turn.started"}"#], lines(7)].concat();
        assert!(!hear(&Codex::default(), &found).0.hopeless);
    }
}
