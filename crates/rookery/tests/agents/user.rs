//! A user of this machine: a home with the configuration of every program, and a `PATH` with the programs.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rookery_testkit::daemon::Daemon;
use rookery_testkit::model::ModelServer;
use rookery_testkit::wait::eventually;
use serde_json::json;
use tempfile::TempDir;

use crate::programs::program;

/// A stand-in for Cursor's program.
const FAKE_CURSOR: &str = include_str!("fake-cursor-agent.py");
/// The user's editor configuration in the project.
const PROJECT_SERVERS: &str = "{\r\n  \"mcpServers\": { \"mine\": { \"command\": \"false\" } }\r\n}";

pub struct User {
    home: TempDir,
    /// The content of each configuration file of the user.
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl User {
    /// A user whose programs call the scripted model, and whose own MCP servers must not be started.
    pub fn new(daemon: &Daemon, model: &ModelServer) -> User {
        let home = tempfile::tempdir().unwrap();
        let mut user = User { home, before: BTreeMap::new() };
        let url = model.url();
        user.write_config(".claude/settings.json", "{\n  // mine\n  \"theme\": \"dark\" }");
        user.write_config(".claude/CLAUDE.md", "Speak plainly.\n");
        user.write_config(".codex/config.toml", &codex_config(url));
        user.write_config(".codex/AGENTS.md", "Speak plainly.\n");
        user.write_config(".config/opencode/opencode.json", &opencode_config(url));
        user.write_config(".gemini/settings.json", GEMINI_SETTINGS);
        user.write_config(".cursor/mcp.json", "{\"mcpServers\": {}}");
        user.write_config(".cursor/cli-config.json", "{ \"version\": 1 }");
        let project = daemon.root().join(".cursor/mcp.json");
        write(&project, PROJECT_SERVERS);
        user.before.insert(project, PROJECT_SERVERS.into());
        user.install();
        user
    }

    fn write_config(&mut self, path: &str, text: &str) {
        let path = self.home.path().join(path);
        write(&path, text);
        self.before.insert(path, text.into());
    }

    fn install(&self) {
        let bin = self.home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let programs = [
            ("claude", "ROOKERY_TEST_CLAUDE"),
            ("codex", "ROOKERY_TEST_CODEX"),
            ("opencode", "ROOKERY_TEST_OPENCODE"),
            ("gemini", "ROOKERY_TEST_GEMINI"),
        ];
        for (name, variable) in programs {
            symlink(program(variable), bin.join(name)).unwrap();
        }
        let fake = bin.join("fake-cursor-agent");
        write(&fake, FAKE_CURSOR);
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&fake, bin.join("cursor-agent")).unwrap();
    }

    /// Fails unless all files of the user are unchanged, byte for byte.
    pub fn assert_untouched(&self) {
        for (path, before) in &self.before {
            let now = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(now == *before, "{} was\n{}\nand is\n{}", path.display(), shown(before), shown(&now));
        }
        let cursor = self.before.keys().find(|path| !path.starts_with(self.home.path())).unwrap();
        let beside = std::fs::read_dir(cursor.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "something is left beside {}", cursor.display());
    }

    /// Starts `rookery` in the project as this user.
    #[expect(clippy::disallowed_methods, reason = "the program under test is started here")]
    pub fn start(&self, daemon: &Daemon, arguments: &[&str]) -> Running {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.home.path().join("bin").display());
        let temp = self.home.path().join("tmp");
        std::fs::create_dir_all(&temp).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rookery"));
        command.args(arguments).current_dir(daemon.root()).env_clear();
        command.env("PATH", path).env("HOME", self.home.path()).env("TMPDIR", temp);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, "http://127.0.0.1:9");
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        let output = self.home.path().join("output");
        let file = || std::fs::OpenOptions::new().create(true).append(true).open(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file()).stderr(file());
        Running { child: command.spawn().unwrap(), output }
    }

    /// Runs a workflow file and fails unless it succeeds.
    pub async fn run_ok(&self, daemon: &Daemon, workflow: &str) {
        let result = self.run(daemon, workflow).await;
        assert_eq!(result.0, Some(0), "{}", result.1);
    }

    /// Runs a workflow file; returns the exit code and the output.
    pub async fn run(&self, daemon: &Daemon, workflow: &str) -> (Option<i32>, String) {
        write(&daemon.root().join("team.yaml"), workflow);
        let mut running = self.start(daemon, &["run", "team.yaml", "--verbose", "--timeout", "170s"]);
        let code = running.wait().await;
        (code, running.printed())
    }
}

/// A process of `rookery` that is killed with the test.
pub struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Kills the process, like a power cut.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the exit code; several programs that call models are slow on a busy machine.
    pub async fn wait(&mut self) -> Option<i32> {
        for _ in 0..3 {
            let child = &mut self.child;
            let mut exit_status = || child.try_wait().unwrap();
            if let Ok(status) = eventually("the command ends", || std::future::ready(Ok(exit_status()))).await {
                return status.code();
            }
        }
        panic!("the command did not exit before the deadline:\n{}", self.printed());
    }

    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn codex_config(url: &str) -> String {
    format!(
        "# mine\nmodel = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"MODEL_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n\n\
         [mcp_servers.mine]\ncommand = \"false\"\nrequired = true\n"
    )
}

fn opencode_config(url: &str) -> String {
    let options = json!({"baseURL": format!("{url}/v1"), "apiKey": "{env:MODEL_KEY}"});
    let provider = json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}});
    let config = json!({
        "$schema": "https://opencode.ai/config.json",
        "model": "scripted/scripted",
        "provider": {"scripted": provider},
    });
    config.to_string()
}

const GEMINI_SETTINGS: &str = "{\n  // mine\n  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}},\n  \
     \"privacy\": {\"usageStatisticsEnabled\": false},\n  \"mcpServers\": {\"mine\": {\"command\": \"false\"}}\n}\n";
