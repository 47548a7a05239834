//! Misbehaving programs, started as the runner does: by `rookery exec`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rookery_runner::process::{
    ExecShim, Finished, NotStarted, OutputStream, ProcessEnd, Program, RunLimits, end_orphans, run,
};
use rookery_testkit::wait::{eventually, within};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(600);

/// A folder to run programs in.
struct ProgramFolder {
    folder: TempDir,
}

/// The end of a program and its captured output.
#[derive(Debug)]
struct ProgramResult {
    finished: Finished,
    lines: Vec<(OutputStream, String)>,
    transcript: String,
}

impl ProgramResult {
    fn stdout(&self) -> Vec<&str> {
        self.lines.iter().filter(|(stream, _)| *stream == OutputStream::Stdout).map(|(_, line)| line.as_str()).collect()
    }
}

impl ProgramFolder {
    fn new() -> ProgramFolder {
        ProgramFolder { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn records(&self) -> PathBuf {
        self.path().join("processes")
    }

    fn program(&self, argv: &[&str]) -> Program {
        let exec_shim = ExecShim { rookery: env!("CARGO_BIN_EXE_rookery").into(), records: self.records() };
        Program::new(exec_shim, self.path(), argv.iter().copied())
    }

    fn shell(&self, script: &str) -> Program {
        self.program(&["sh", "-c", script])
    }

    async fn run(&self, program: &Program, limits: RunLimits) -> ProgramResult {
        let (transcript, cancel) = (self.path().join("transcript"), CancellationToken::new());
        let mut lines = Vec::new();
        let mut on_line = |stream, line: &str| lines.push((stream, line.to_owned()));
        let running = run(program, limits, &transcript, &cancel, &mut on_line);
        let finished = within("a program ends", running).await.unwrap().unwrap();
        assert_eq!(std::fs::read_dir(self.records()).unwrap().count(), 0, "no record of an ended process remains");
        ProgramResult { finished, lines, transcript: std::fs::read_to_string(&transcript).unwrap() }
    }

    async fn rejected(&self, program: &Program) -> NotStarted {
        let (transcript, cancel) = (self.path().join("transcript"), CancellationToken::new());
        run(program, RunLimits::within(LONG), &transcript, &cancel, &mut |_, _| {}).await.unwrap_err()
    }

    /// Waits for the process number in a file.
    async fn pid_in(&self, file: &str) -> Pid {
        let path = self.path().join(file);
        let read = || async { Ok(std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok())) };
        Pid::from_raw(eventually("a process writes its number", read).await.unwrap()).unwrap()
    }
}

/// Whether a process has ended; a zombie counts as ended.
fn is_gone(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    state.map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

async fn wait_until_gone(pid: Pid) {
    eventually("a process ends", || async { Ok(is_gone(pid).then_some(())) }).await.unwrap();
}

#[tokio::test]
async fn program_gets_its_arguments_input_and_own_environment() {
    let folder = ProgramFolder::new();
    let argument = "two words; echo $HOME `id`";
    let mut program = folder.program(&["sh", "-c", "cat; printf '%s\\n' \"$1\"; env; pwd", "sh", argument]);
    program.env = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
    let program = program.env("GIVEN", "yes").stdin("the prompt\n");
    let output = folder.run(&program, RunLimits::within(LONG)).await;
    assert_eq!(output.finished, Finished { end: ProcessEnd::Exited(0), stderr_tail: String::new() });
    let lines = output.stdout();
    assert_eq!(&lines[..2], ["the prompt", argument], "arguments are not interpreted by a shell");
    let names = lines[2..].iter().filter_map(|line| line.split_once('=').map(|(name, _)| name));
    let unexpected: Vec<&str> = names
        .filter(|name| !["PATH", "GIVEN", "ROOKERY_LAUNCH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert_eq!(lines.last().copied(), folder.path().canonicalize().unwrap().to_str());
    assert_eq!(output.transcript.lines().count(), lines.len());
}

#[tokio::test]
async fn printed_environment_of_agent_program_hides_secrets() {
    let folder = ProgramFolder::new();
    let prints = folder.shell("env; echo \"$MODEL_API_KEY\" >&2; exit 3").env("MODEL_API_KEY", "sk-1234567890abcdef");
    let open = folder.run(&prints, RunLimits::within(LONG)).await;
    assert!(open.transcript.contains("sk-1234567890abcdef"), "a person's command is not redacted: {open:?}");
    let kept = folder.run(&prints.discreet(), RunLimits::within(LONG)).await;
    assert!(kept.stdout().contains(&"MODEL_API_KEY=[secret]"), "{kept:?}");
    assert!(!format!("{kept:?}").contains("sk-1234567890abcdef"), "{kept:?}");
}

#[tokio::test]
async fn program_end_is_reported_with_its_last_errors() {
    let folder = ProgramFolder::new();
    let output = folder.run(&folder.shell("echo out; echo wrong >&2; exit 3"), RunLimits::within(LONG)).await;
    assert_eq!(output.finished, Finished { end: ProcessEnd::Exited(3), stderr_tail: "wrong".into() });
    assert!(output.transcript.contains("out\n") && output.transcript.contains("! wrong\n"), "{}", output.transcript);
    let output = folder.run(&folder.shell("kill -SEGV $$"), RunLimits::within(LONG)).await;
    assert_eq!(output.finished.end, ProcessEnd::Signalled(11));
}

#[tokio::test]
async fn program_that_cannot_start_is_reported_with_its_reason() {
    let folder = ProgramFolder::new();
    let missing = folder.rejected(&folder.program(&["no-such-program-here"])).await;
    assert!(matches!(&missing, NotStarted::NoSuchProgram { name } if name == "no-such-program-here"), "{missing:?}");
    let elsewhere = Program { folder: folder.path().join("nowhere"), ..folder.shell("true") };
    assert!(matches!(folder.rejected(&elsewhere).await, NotStarted::NoSuchFolder { .. }));
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let rejected = folder.rejected(&folder.program(&[broken.to_str().unwrap()])).await;
    assert!(matches!(&rejected, NotStarted::Refused { reason } if reason.contains("broken")), "{rejected:?}");
}

#[tokio::test]
async fn program_has_no_terminal_and_its_own_session() {
    let folder = ProgramFolder::new();
    let output = folder.run(&folder.shell("cut -d' ' -f6,7 /proc/$$/stat; echo $$"), RunLimits::within(LONG)).await;
    let [session, own] = output.stdout()[..] else { panic!("{:?}", output.lines) };
    assert_eq!(session, format!("{own} 0"));
}

#[tokio::test]
async fn program_ignoring_sigterm_is_killed_with_its_children_after_timeout() {
    let folder = ProgramFolder::new();
    let stubborn = "trap '' TERM; (trap '' TERM; echo $PPID; sh -c 'echo $PPID' >inner; while :; do sleep 1; done) & \
                    while :; do sleep 1; done";
    let limits = RunLimits::within(Duration::from_millis(300));
    let output = folder.run(&folder.shell(stubborn), limits).await;
    assert_eq!(output.finished.end, ProcessEnd::TimedOut);
    assert!(output.transcript.ends_with("[it took too long and was ended]\n"), "{}", output.transcript);
    assert!(is_gone(folder.pid_in("inner").await));
}

#[tokio::test]
async fn silent_program_ends_by_idle_timeout_and_any_output_resets_it() {
    let folder = ProgramFolder::new();
    let idle = |idle| RunLimits { idle: Some(idle), ..RunLimits::within(LONG) };
    let output = folder.run(&folder.shell("echo one; sleep 600"), idle(Duration::from_millis(200))).await;
    assert_eq!((output.finished.end, output.stdout()), (ProcessEnd::Idle, vec!["one"]));
    // Dots without a line end, each within the idle limit.
    let dots = "for i in 1 2 3 4 5 6; do printf .; sleep 0.5; done";
    let output = folder.run(&folder.shell(dots), idle(Duration::from_secs(20))).await;
    assert_eq!((output.finished.end, output.stdout()), (ProcessEnd::Exited(0), vec!["......"]));
}

#[tokio::test]
async fn output_flood_is_ended_and_its_beginning_and_end_kept() {
    let folder = ProgramFolder::new();
    let limits = RunLimits { output_bytes: 4 << 20, ..RunLimits::within(LONG) };
    let output = folder.run(&folder.shell("echo first; yes"), limits).await;
    assert_eq!(output.finished.end, ProcessEnd::Flooded);
    assert!(output.transcript.starts_with("first\ny\n") && output.transcript.contains(" bytes left out here]\n"));
    assert!(output.transcript.len() < 3 << 20, "{}", output.transcript.len());
    // One endless line.
    let output = folder.run(&folder.shell("tr '\\0' x </dev/zero"), limits).await;
    assert_eq!((output.finished.end, output.lines.len()), (ProcessEnd::Flooded, 0));
}

#[tokio::test]
async fn cancelled_program_may_clean_up_before_it_ends() {
    let folder = ProgramFolder::new();
    let script = "trap 'echo tidied; exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    let (program, cancel) = (folder.shell(script), CancellationToken::new());
    let transcript = folder.path().join("transcript");
    let mut lines = Vec::new();
    let mut on_line = |stream, line: &str| {
        // The shell reports its own end on standard error.
        if stream == OutputStream::Stdout {
            lines.push(line.to_owned());
        }
        cancel.cancel();
    };
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut on_line);
    let finished = within("a program ends", running).await.unwrap().unwrap();
    assert_eq!(finished.end, ProcessEnd::Cancelled);
    assert_eq!(lines, ["ready", "tidied"]);
}

#[tokio::test]
async fn background_processes_end_with_their_program_even_in_other_sessions() {
    let folder = ProgramFolder::new();
    let leaving = "sleep 600 & echo $! >near; \
                   setsid sh -c 'echo $$ >far; exec sleep 600' </dev/null >/dev/null 2>&1 & \
                   while ! [ -s far ]; do sleep 0.01; done; echo done";
    let output = folder.run(&folder.shell(leaving), RunLimits::within(LONG)).await;
    assert_eq!((output.finished.end, output.stdout()), (ProcessEnd::Exited(0), vec!["done"]));
    assert!(is_gone(folder.pid_in("near").await) && is_gone(folder.pid_in("far").await));
}

#[tokio::test]
async fn dropped_run_ends_its_program() {
    let folder = ProgramFolder::new();
    let program = folder.shell("sleep 600 & echo $! >inner; echo $$ >outer; wait");
    let (transcript, cancel) = (folder.path().join("transcript"), CancellationToken::new());
    let mut on_line = |_, _: &str| {};
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut on_line);
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        _pid = folder.pid_in("outer") => {}
    }
    wait_until_gone(folder.pid_in("outer").await).await;
    wait_until_gone(folder.pid_in("inner").await).await;
}

/// A program dies with the thread that spawned it, so that thread must be a lasting one.
#[test]
fn program_outlives_the_thread_that_started_it() {
    let folder = ProgramFolder::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let program = folder.shell("echo ready; while ! [ -e go ]; do sleep 0.01; done; echo got");
    let (transcript, cancel, ready) = (folder.path().join("transcript"), CancellationToken::new(), Notify::new());
    let mut lines = Vec::new();
    let mut on_line = |_, line: &str| {
        lines.push(line.to_owned());
        ready.notify_one();
    };
    let mut running = Box::pin(run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut on_line));
    std::thread::scope(|scope| {
        let asking = async {
            tokio::select! {
                ended = &mut running => panic!("{ended:?}"),
                () = ready.notified() => {}
            }
        };
        scope.spawn(|| runtime.block_on(within("the program starts", asking)).unwrap()).join().unwrap();
    });
    std::fs::write(folder.path().join("go"), "").unwrap();
    let finished = runtime.block_on(within("the program ends", running)).unwrap().unwrap();
    assert_eq!((finished.end, lines), (ProcessEnd::Exited(0), vec!["ready".to_owned(), "got".to_owned()]));
}

/// A parent process that starts a program and can be killed, like a runner.
#[expect(clippy::disallowed_methods, reason = "the parent is killed in these tests")]
fn parent(folder: &ProgramFolder, script: &str) -> std::process::Child {
    let code = "import os, subprocess, sys, time\n\
                child = subprocess.Popen([sys.argv[1], 'exec', '--parent', str(os.getpid()), '--', 'sh', '-c', sys.argv[2]])\n\
                child.wait()";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", code, env!("CARGO_BIN_EXE_rookery"), script]).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn program_dies_with_its_parent() {
    let folder = ProgramFolder::new();
    let mut parent = parent(&folder, "echo $$ >child; exec sleep 600");
    let child = folder.pid_in("child").await;
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until_gone(child).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the shim is started without a runner")]
async fn exec_shim_without_its_parent_starts_nothing() {
    let folder = ProgramFolder::new();
    let touch = ["exec", "--parent", "1", "--", "touch", "started"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rookery"));
    let output = command.args(touch).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(!folder.path().join("started").exists());
}

#[tokio::test]
async fn orphans_are_ended_and_unrelated_processes_spared() {
    let folder = ProgramFolder::new();
    // An unrelated process, and a record that names its number with another start time.
    let mut stranger = parent(&folder, "echo $$ >stranger; exec sleep 600");
    let spared = folder.pid_in("stranger").await;
    let program = folder.shell("trap '' TERM; sleep 600 & echo $! >inner; echo $$ >outer; wait");
    let (transcript, cancel) = (folder.path().join("transcript"), CancellationToken::new());
    let kept = folder.path().join("kept");
    let mut on_line = |_, _: &str| {};
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut on_line);
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        _pid = folder.pid_in("outer") => {}
    }
    let (outer, inner) = (folder.pid_in("outer").await, folder.pid_in("inner").await);
    // The records that a runner leaves if it dies at this moment.
    std::fs::create_dir(&kept).unwrap();
    let record = std::fs::read_dir(folder.records()).unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(record.path()).unwrap();
    std::fs::write(kept.join("1.process.json"), &text).unwrap();
    let mut reused: serde_json::Value = serde_json::from_str(&text).unwrap();
    reused["family"]["mark"] = "another".into();
    reused["family"]["first"]["pid"] = spared.as_raw_nonzero().get().into();
    std::fs::write(kept.join("2.process.json"), reused.to_string()).unwrap();
    // The first process of the tree is gone; the mark leads to the other.
    kill_process(outer, Signal::KILL).unwrap();
    let ended = end_orphans(&kept).await.unwrap();
    assert!(ended.iter().all(|orphan| orphan.program == "sh"), "{ended:?}");
    assert!(ended.len() <= 1, "{ended:?}");
    wait_until_gone(inner).await;
    within("a program ends", &mut running).await.unwrap().unwrap();
    assert!(
        test_kill_process(spared).is_ok() && !is_gone(spared),
        "an unrelated process with a reused number is spared"
    );
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
