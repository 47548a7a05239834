//! Claude Code and Codex, started without a person and without the network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::external_program::{ExternalProgram, ProgramOutcome};
use rookery_testkit::model::ModelServer;
use serde_json::json;

/// The time limit of a program for its whole part in a test.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(120);
/// The name of our MCP server in the programs.
const SERVER: &str = "rookery";

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// How a program reaches the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// By its address.
    Http,
    /// By `rookery mcp`.
    Bridge,
}

/// An agent whose id at the daemon is also its key at the model.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    pub id: &'static str,
    pub transport: Transport,
}

impl Agent {
    /// The address of its tools.
    fn url(self, daemon: &Daemon) -> String {
        format!("{}/mcp", daemon.url())
    }

    fn bridge(self, daemon: &Daemon) -> (String, Vec<String>) {
        let root = daemon.root().to_string_lossy().into_owned();
        (env!("CARGO_BIN_EXE_rookery").to_owned(), vec!["mcp".into(), "--dir".into(), root])
    }
}

/// The program named by an environment variable. Without it the test fails, so that nothing is skipped silently.
pub fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    let path = path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test --only agents`"));
    PathBuf::from(path)
}

pub async fn claude(agent: Agent, daemon: &Daemon, model: &ModelServer, prompt: &str) -> ProgramOutcome {
    let server = match agent.transport {
        Transport::Http => json!({"type": "http", "url": agent.url(daemon), "headers": {"X-Agent-Id": agent.id}}),
        Transport::Bridge => {
            let (command, args) = agent.bridge(daemon);
            json!({"type": "stdio", "command": command, "args": args, "env": {"ROOKERY_AGENT_ID": agent.id}})
        }
    };
    let program = ExternalProgram::new(&program("ROOKERY_TEST_CLAUDE")).unwrap();
    let config = write_config_file(program.home(), &json!({"mcpServers": {SERVER: server}}).to_string());
    let program = program
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", agent.id)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        // Otherwise the model gets the tools only after it searched for them.
        .env("ENABLE_TOOL_SEARCH", "false")
        .args(["-p", "--strict-mcp-config", "--mcp-config", &config])
        .args(["--allowedTools", &format!("mcp__{SERVER}__*"), "--tools", "", "--model", "claude-sonnet-4-5"])
        .args(["--output-format", "stream-json", "--verbose", "--", prompt]);
    program.run(PROGRAM_TIMEOUT).await.unwrap()
}

fn write_config_file(home: &Path, config: &str) -> String {
    let path = home.join("mcp.json");
    std::fs::write(&path, config).unwrap();
    path.to_string_lossy().into_owned()
}

pub async fn codex(agent: Agent, daemon: &Daemon, model: &ModelServer, prompt: &str) -> ProgramOutcome {
    // TOML writes strings and lists of strings as JSON does.
    let server = match agent.transport {
        Transport::Http => {
            format!("url={},http_headers={{\"X-Agent-Id\"={}}}", json!(agent.url(daemon)), json!(agent.id))
        }
        Transport::Bridge => {
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
    program.run(PROGRAM_TIMEOUT).await.unwrap()
}
