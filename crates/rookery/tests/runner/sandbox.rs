//! The limits of a sandbox on files, network and processes: real programs in real sandboxes, with a real daemon.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::SessionIssuer;
use rookery_runner::backend::{BackendEvent, Events};
use rookery_runner::file::{InFile, Sandbox as SandboxSetting, SandboxLimits, SourceLocation};
use rookery_runner::process::{ExecShim, OutputStream, ProcessEnd, Program, RunLimits, run};
use rookery_runner::sandbox::{Sandbox, SandboxRequest, SandboxSupport};
use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::wait::within;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const ROOKERY: &str = env!("CARGO_BIN_EXE_rookery");
const AGENT: &str = "coder@pr-1";

/// Whether this machine supports sandboxes. If not, standard error says that the tests were skipped.
fn sandbox_supported() -> bool {
    let available = SandboxSupport::of_this_machine();
    if let Some(hint) = available.fix_hint() {
        use std::io::Write;
        let mut stderr = std::io::stderr();
        writeln!(stderr, "NOT TESTED: {available}; to test it, {hint}").unwrap();
    }
    available.fix_hint().is_none()
}

/// A project with a daemon, an agent's folders, and a person's home.
struct Project {
    daemon: Daemon,
    home: TempDir,
}

/// The output of a program, its end, and the notes of the sandbox.
#[derive(Debug)]
struct SandboxedResult {
    end: ProcessEnd,
    out: Vec<String>,
    #[expect(dead_code, reason = "shown where a test fails")]
    err: Vec<String>,
    notes: Vec<String>,
}

impl Project {
    fn new() -> Project {
        let daemon = Setup::new(ROOKERY).start().unwrap();
        std::fs::create_dir_all(daemon.root().join(".rookery/run/t/coder")).unwrap();
        std::fs::write(daemon.root().join("readme"), "read me").unwrap();
        Project { daemon, home: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> &Path {
        self.daemon.root()
    }

    fn sandbox(&self, network: &[&str], write: &[&str]) -> Arc<Sandbox> {
        self.sandbox_of(self.root(), network, write, &BTreeMap::new())
    }

    fn sandbox_of(
        &self,
        folder: &Path,
        network: &[&str],
        write: &[&str],
        env: &BTreeMap<String, String>,
    ) -> Arc<Sandbox> {
        let entries = |all: &[&str]| {
            all.iter().map(|text| InFile { value: (*text).to_owned(), place: source_location() }).collect()
        };
        let request = SandboxRequest {
            agent: AGENT,
            project: self.root(),
            folder,
            state: &self.root().join(".rookery/run/t/coder"),
            own: &[],
            rookery: Path::new(ROOKERY),
            url: self.daemon.url(),
            socket: Some(&self.root().join(".rookery/rookery.sock")),
            session: &SessionIssuer::new(self.daemon.person_key().unwrap(), AGENT.into(), None),
            settings: &SandboxSetting::On {
                network: entries(network),
                write: entries(write),
                limits: SandboxLimits::default(),
            },
            program: None,
            env,
        };
        Sandbox::open(&request).unwrap().unwrap()
    }

    fn program(&self, sandbox: &Arc<Sandbox>, argv: &[&str]) -> Program {
        let exec_shim = ExecShim { rookery: ROOKERY.into(), records: self.root().join(".rookery/run/t/processes") };
        Program::new(exec_shim, self.root(), argv.iter().copied())
            .env("ROOKERY", ROOKERY)
            .env("ROOKERY_AGENT_ID", AGENT)
            .env("ROOKERY_DIR", self.root())
            .env("ROOKERY_URL", self.daemon.url())
            .sandbox(Some(sandbox.clone()))
    }

    async fn shell(&self, sandbox: &Arc<Sandbox>, script: &str) -> SandboxedResult {
        self.run(sandbox, &self.program(sandbox, &["sh", "-c", script])).await
    }

    async fn run(&self, sandbox: &Arc<Sandbox>, program: &Program) -> SandboxedResult {
        let (events, mut notes_of_run) = Events::with_capacity(100);
        sandbox.report_to(&events);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut on_line = |stream, line: &str| match stream {
            OutputStream::Stdout => out.push(line.to_owned()),
            OutputStream::Stderr => err.push(line.to_owned()),
        };
        let (transcript, cancel) = (self.home.path().join("transcript"), CancellationToken::new());
        let limits = RunLimits::within(Duration::from_secs(50));
        let finished = run(program, limits, &transcript, &cancel, &mut on_line);
        let finished = within("a program in a sandbox ends", finished).await.unwrap().unwrap();
        let mut notes = Vec::new();
        while let Ok(BackendEvent::Note(note)) = notes_of_run.try_recv() {
            notes.push(note);
        }
        SandboxedResult { end: finished.end, out, err, notes }
    }
}

fn source_location() -> SourceLocation {
    SourceLocation { file: "team.yaml".into(), line: 1, column: 1, path: String::new() }
}

/// Starts a server on this machine that answers every request with its name.
async fn start_server(name: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut client = BufReader::new(client);
            let mut line = String::new();
            while client.read_line(&mut line).await.is_ok_and(|read| read > 2) {}
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", name.len());
            drop(client.write_all(format!("{head}{name}").as_bytes()).await);
        }
    });
    port
}

/// Fetches a page like any program unaware of the sandbox.
const FETCH: &str = "import sys, urllib.request\n\
                     try:\n    print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())\n\
                     except Exception as error:\n    print('error', error)";

#[tokio::test]
async fn sandboxed_program_writes_only_to_its_folders() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let outside = project.home.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let given = project.home.path().join("given");
    std::fs::create_dir(&given).unwrap();
    let sandbox = project.sandbox(&[], &[given.to_str().unwrap()]);
    let script = format!(
        "echo a >mine && echo b >{given}/theirs && cat readme; echo; echo x >/tmp/private && cat /tmp/private; \
         for folder in {outside} /usr/bin /etc /var /; do echo x 2>/dev/null >$folder/rookery-was-here && echo wrote $folder; done; \
         echo key=$(cat .rookery/person.key 2>/dev/null); ls .rookery; echo x >.rookery/new; \
         echo home=$(ls -A ~ | grep -c ssh); echo ok >~/kept",
        given = given.display(),
        outside = outside.display(),
    );
    let output = project.shell(&sandbox, &script).await;
    assert_eq!(output.out, ["read me", "x", "key=", "daemon.json", "run", "home=0"], "{output:?}");
    assert_eq!(std::fs::read_to_string(project.root().join("mine")).unwrap(), "a\n");
    assert_eq!(std::fs::read_to_string(given.join("theirs")).unwrap(), "b\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!Path::new("/tmp/private").exists() && !project.root().join(".rookery/new").exists());
    let again = project.shell(&sandbox, "cat ~/kept; ls /proc | grep -c '^[0-9]*$'").await;
    assert_eq!(again.out[0], "ok", "the home folder is kept between turns");
    assert!(again.out[1].parse::<u32>().unwrap() < 10, "processes outside are invisible: {again:?}");
}

#[tokio::test]
async fn sandboxed_program_reaches_only_named_hosts() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let (open, closed) = (start_server("open").await, start_server("closed").await);
    let sandbox = project.sandbox(&[&format!("localhost:{open}")], &[]);
    let fetch = |url: String| project.program(&sandbox, &["python3", "-c", FETCH, &url]);
    // Through the sandbox's own loopback.
    let direct = project.run(&sandbox, &fetch(format!("http://localhost:{open}/"))).await;
    assert_eq!(direct.out, ["open"], "{direct:?}");
    let rejected = project.run(&sandbox, &fetch(format!("http://localhost:{closed}/"))).await;
    assert!(rejected.out[0].contains("refused"), "the sandbox has its own loopback: {rejected:?}");
    // Through the proxy, like any program for other hosts.
    let by_proxy = |port: u16| {
        project.program(&sandbox, &["python3", "-c", FETCH, &format!("http://localhost:{port}/")]).env("BY_PROXY", "1")
    };
    let python = "import os; os.environ['no_proxy'] = ''; os.environ['NO_PROXY'] = ''\n";
    let forced = |port: u16| {
        let mut program = by_proxy(port);
        program.argv[2] = format!("{python}{FETCH}").into();
        program
    };
    let reached = project.run(&sandbox, &forced(open)).await;
    assert_eq!((reached.out, reached.notes), (vec!["open".to_owned()], vec![]));
    let kept = project.run(&sandbox, &forced(closed)).await;
    assert!(kept.out[0].contains("403"), "{kept:?}");
    assert!(kept.notes[0].starts_with(&format!("{AGENT} was kept from reaching localhost:{closed}: ")), "{kept:?}");
    let far = project.run(&sandbox, &fetch("http://far.invalid/".to_owned())).await;
    assert!(far.out[0].contains("403") && far.notes[0].contains("far.invalid:80"), "{far:?}");
}

#[tokio::test]
async fn local_model_is_reachable_when_its_address_is_configured() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let port = start_server("model").await;
    let env = BTreeMap::from([("ANTHROPIC_BASE_URL".to_owned(), format!("http://127.0.0.1:{port}"))]);
    let sandbox = project.sandbox_of(project.root(), &[], &[], &env);
    let program = project.program(&sandbox, &["python3", "-c", FETCH, &format!("http://127.0.0.1:{port}/v1/messages")]);
    assert_eq!(project.run(&sandbox, &program).await.out, ["model"]);
}

#[tokio::test]
async fn sandboxed_agent_uses_commands_mcp_and_http() {
    if !sandbox_supported() {
        return;
    }
    let mut project = Project::new();
    let sandbox = project.sandbox(&[], &[]);
    let output = project.shell(&sandbox, "$ROOKERY context send 'hello from inside' && $ROOKERY context read").await;
    assert_eq!(output.end, ProcessEnd::Exited(0), "{output:?}");
    assert!(output.out.iter().any(|line| line.contains("hello from inside")), "{output:?}");
    // The bridge, spoken to directly.
    let talk = r#"import json, os, subprocess
bridge = subprocess.Popen([os.environ['ROOKERY'], 'mcp', '--tools', 'team'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def call(number, method, params):
    bridge.stdin.write(json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}) + '\n')
    bridge.stdin.flush()
    while True:
        answer = json.loads(bridge.stdout.readline())
        if answer.get('id') == number:
            return answer['result']
call(1, 'initialize', {'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': {'name': 't', 'version': '1'}})
bridge.stdin.write(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/initialized'}) + '\n')
print(call(2, 'tools/call', {'name': 'channel_send', 'arguments': {'message': 'by the bridge'}})['isError'])
bridge.stdin.close()
bridge.wait()
"#;
    let bridged = project.run(&sandbox, &project.program(&sandbox, &["python3", "-c", talk])).await;
    assert_eq!(bridged.out, ["False"], "{bridged:?}");
    let fetched = project
        .run(
            &sandbox,
            &project.program(&sandbox, &["python3", "-c", FETCH, &format!("{}/status", project.daemon.url())]),
        )
        .await;
    assert!(fetched.out[0].contains("agents"), "{fetched:?}");
    // The agent is the one of its session, and no other credential is in reach.
    let sent = project.daemon.export().unwrap().into_iter().filter(|row| row["kind"] == "message.sent");
    let actors: Vec<String> = sent.map(|row| row["actor"].to_string()).collect();
    assert_eq!(actors.len(), 2, "{actors:?}");
    assert!(actors.iter().all(|actor| actor.contains(AGENT)), "{actors:?}");
    let person = project.shell(&sandbox, "$ROOKERY token create --agent x").await;
    assert_ne!(person.end, ProcessEnd::Exited(0), "{person:?}");
    // A restart replaces the daemon's socket; the sandbox keeps working.
    project.daemon.restart().unwrap();
    let again = project.shell(&sandbox, "$ROOKERY context send 'after the restart'").await;
    assert_eq!(again.end, ProcessEnd::Exited(0), "{again:?}");
    // Without a daemon, none is started inside.
    project.daemon.kill().unwrap();
    let alone = project.shell(&sandbox, "$ROOKERY context send 'to nobody'").await;
    assert_eq!(alone.end, ProcessEnd::Exited(3), "{alone:?}");
}

#[tokio::test]
async fn sandboxed_worktree_accepts_commits_and_protects_hooks_and_config() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let git = "git -c user.name=t -c user.email=t@example.com -c init.defaultBranch=main";
    let setup = format!(
        "{git} init -q && {git} add readme && {git} commit -qm first && {git} worktree add -q .worktrees/fix 2>&1 && mkdir -p .git/hooks"
    );
    run_shell(project.root(), &setup);
    let worktree = project.root().join(".worktrees/fix");
    let sandbox = project.sandbox_of(&worktree, &[], &[], &BTreeMap::new());
    let script = format!(
        "cd {} && echo new >file && {git} add file && {git} commit -qm second && {git} log --oneline | wc -l; \
         echo evil 2>/dev/null >{root}/.git/hooks/post-checkout && echo hooked; \
         echo evil 2>/dev/null >>{root}/.git/config && echo configured; \
         echo x 2>/dev/null >{root}/readme && echo wrote",
        worktree.display(),
        root = project.root().display(),
    );
    let output = project.shell(&sandbox, &script).await;
    assert_eq!(output.out, ["2"], "{output:?}");
    assert!(worktree.join("file").exists());
    let shared = project.sandbox(&[], &[]);
    let script = "for path in .git .git/hooks .git/config; do mv $path elsewhere 2>/dev/null && echo moved $path; done; \
                  rm -rf .git/hooks 2>/dev/null && echo removed; git status --short | head -1";
    let output = project.shell(&shared, script).await;
    assert_eq!(output.out.len(), 1, "{output:?}");
    assert!(output.out[0].starts_with("?? "), "git works inside: {output:?}");
}

#[expect(clippy::disallowed_methods, reason = "sets up the project before an agent works")]
fn run_shell(folder: &Path, script: &str) {
    let status = std::process::Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap();
    assert!(status.success(), "{script}");
}

#[tokio::test]
async fn sandboxed_program_may_clean_up_and_leaves_no_process() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let sandbox = project.sandbox(&[], &[]);
    let script = "trap 'echo tidied; exit 0' TERM; setsid sleep 654321 & echo ready; while :; do sleep 0.1; done";
    let program = project.program(&sandbox, &["sh", "-c", script]);
    let (transcript, cancel) = (project.home.path().join("transcript"), CancellationToken::new());
    let mut lines = Vec::new();
    let mut on_line = |stream, line: &str| {
        if stream == OutputStream::Stdout {
            lines.push(line.to_owned());
        }
        cancel.cancel();
    };
    let running = run(&program, RunLimits::within(Duration::from_secs(600)), &transcript, &cancel, &mut on_line);
    let finished = within("the program ends", running).await.unwrap().unwrap();
    assert_eq!((finished.end, lines), (ProcessEnd::Cancelled, vec!["ready".to_owned(), "tidied".to_owned()]));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let remaining = processes.filter(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == b"654321"))
    });
    assert_eq!(remaining.count(), 0);
}

#[tokio::test]
async fn program_missing_inside_the_sandbox_is_reported_as_not_started() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let sandbox = project.sandbox(&[], &[]);
    let broken = project.root().join("broken");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = project.program(&sandbox, &[broken.to_str().unwrap()]);
    let (transcript, cancel) = (project.home.path().join("transcript"), CancellationToken::new());
    let rejected =
        run(&program, RunLimits::within(Duration::from_secs(50)), &transcript, &cancel, &mut |_, _| {}).await;
    assert!(rejected.unwrap_err().to_string().contains("broken"));
}

/// The script of a team's agent.
const WORK: &str = r#"cat >/dev/null
echo made >made
echo "key: $(cat .rookery/person.key 2>/dev/null)"
python3 fetch.py "$NEAR"
python3 fetch.py http://far.invalid/
"$ROOKERY" context send 'from inside'
"#;

#[tokio::test]
async fn team_file_agents_work_in_their_sandboxes() {
    if !sandbox_supported() {
        return;
    }
    let project = Project::new();
    let near = start_server("near").await;
    let team = format!(
        "agents:\n  worker:\n    backend: command\n    command: [sh, work.sh]\n    sandbox:\n      network: ['localhost:{near}']\n    \
         env: {{NEAR: 'http://localhost:{near}/', OURS: '{ROOKERY}'}}\nkickoff: '@worker begin'\n"
    );
    for (name, text) in
        [("team.yaml", team.as_str()), ("work.sh", &WORK.replace("ROOKERY", "OURS")), ("fetch.py", FETCH)]
    {
        std::fs::write(project.root().join(name), text).unwrap();
    }
    let output = run_program(project.root(), &[ROOKERY, "run", "team.yaml", "--instance", "pr-1", "--verbose"]).await;
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("worker@pr-1 was kept from reaching far.invalid:80"), "{printed}");
    assert_eq!(std::fs::read_to_string(project.root().join("made")).unwrap(), "made\n");
    let transcript = std::fs::read_to_string(project.root().join(".rookery/run/@pr-1/worker/transcript.txt")).unwrap();
    assert!(transcript.starts_with("key: \nnear\nerror HTTP Error 403"), "{transcript}");
    let rows = project.daemon.export().unwrap();
    let sent = |row: &&serde_json::Value| row["kind"] == "message.sent" && row.to_string().contains("from inside");
    assert_eq!(rows.iter().filter(sent).count(), 1);
}

#[expect(clippy::disallowed_methods, reason = "the program under test is started here")]
async fn run_program(folder: &Path, argv: &[&str]) -> std::process::Output {
    let mut command = tokio::process::Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(folder).kill_on_drop(true);
    within("a team ends", command.output()).await.unwrap().unwrap()
}
