//! Claude Code and Codex as somebody would start them, without a person and without the network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::external_program::{ExternalProgram, ProgramOutcome};
use rookery_testkit::model::ModelServer;
use serde_json::json;

/// What an agent may take for everything that it does in a test.
const AT_MOST: Duration = Duration::from_secs(120);
/// What the programs call us.
const SERVER: &str = "rookery";

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// How a program reaches the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By its address.
    Http,
    /// By `rookery mcp`.
    Bridge,
}

/// An agent: the id that it has for the daemon and the key that it has for its model are one.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    pub id: &'static str,
    pub way: Way,
}

impl Agent {
    /// Where its tools are: the address, or the command with its arguments.
    fn url(self, daemon: &Daemon) -> String {
        format!("{}/mcp", daemon.url())
    }

    fn bridge(self, daemon: &Daemon) -> (String, Vec<String>) {
        let root = daemon.root().to_string_lossy().into_owned();
        (env!("CARGO_BIN_EXE_rookery").to_owned(), vec!["mcp".into(), "--dir".into(), root])
    }
}

/// The program that a variable names. Without it a test fails: one that is not run must not look as if it had passed.
pub fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    let path = path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test --only agents`"));
    PathBuf::from(path)
}

pub async fn claude(agent: Agent, daemon: &Daemon, model: &ModelServer, prompt: &str) -> ProgramOutcome {
    let server = match agent.way {
        Way::Http => json!({"type": "http", "url": agent.url(daemon), "headers": {"X-Agent-Id": agent.id}}),
        Way::Bridge => {
            let (command, args) = agent.bridge(daemon);
            json!({"type": "stdio", "command": command, "args": args, "env": {"ROOKERY_AGENT_ID": agent.id}})
        }
    };
    let program = ExternalProgram::new(&program("ROOKERY_TEST_CLAUDE")).unwrap();
    let config = written(program.home(), &json!({"mcpServers": {SERVER: server}}).to_string());
    let program = program
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", agent.id)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        // Otherwise it shows a model the tools only when that has searched for them.
        .env("ENABLE_TOOL_SEARCH", "false")
        .args(["-p", "--strict-mcp-config", "--mcp-config", &config])
        .args(["--allowedTools", &format!("mcp__{SERVER}__*"), "--tools", "", "--model", "claude-sonnet-4-5"])
        .args(["--output-format", "stream-json", "--verbose", "--", prompt]);
    program.run(AT_MOST).await.unwrap()
}

fn written(home: &Path, config: &str) -> String {
    let path = home.join("mcp.json");
    std::fs::write(&path, config).unwrap();
    path.to_string_lossy().into_owned()
}

pub async fn codex(agent: Agent, daemon: &Daemon, model: &ModelServer, prompt: &str) -> ProgramOutcome {
    // TOML writes texts and lists of texts as JSON does.
    let server = match agent.way {
        Way::Http => {
            format!("url={},http_headers={{\"X-Agent-Id\"={}}}", json!(agent.url(daemon)), json!(agent.id))
        }
        Way::Bridge => {
            let (command, args) = agent.bridge(daemon);
            format!("command={},args={},env={{ROOKERY_AGENT_ID={}}}", json!(command), json!(args), json!(agent.id))
        }
    };
    let provider = format!(
        "{{name=\"scripted\",base_url={},wire_api=\"responses\",env_key=\"MODEL_KEY\",request_max_retries=0,\
         stream_max_retries=0}}",
        json!(format!("{}/v1", model.url()))
    );
    let settings = [
        "model=scripted".to_owned(),
        "model_provider=scripted".to_owned(),
        "check_for_update_on_startup=false".to_owned(),
        "analytics.enabled=false".to_owned(),
        format!("model_providers.scripted={provider}"),
        format!("mcp_servers.{SERVER}={{{server},default_tools_approval_mode=\"approve\",required=true}}"),
    ];
    let program = ExternalProgram::new(&program("ROOKERY_TEST_CODEX")).unwrap();
    let home = program.home().join("codex");
    std::fs::create_dir(&home).unwrap();
    let program = program
        .env("CODEX_HOME", home)
        .env("MODEL_KEY", agent.id)
        .args(["exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config"])
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args([prompt]);
    program.run(AT_MOST).await.unwrap()
}
