//! Programs that misbehave, started as the runner starts them: by `rookery exec`.

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

/// A program that ran, and what was heard of it.
#[derive(Debug)]
struct Ran {
    finished: Finished,
    lines: Vec<(OutputStream, String)>,
    transcript: String,
}

impl Ran {
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

    async fn run(&self, program: &Program, limits: RunLimits) -> Ran {
        let (transcript, cancel) = (self.path().join("transcript"), CancellationToken::new());
        let mut lines = Vec::new();
        let mut hear = |stream, line: &str| lines.push((stream, line.to_owned()));
        let running = run(program, limits, &transcript, &cancel, &mut hear);
        let finished = within("a program ends", running).await.unwrap().unwrap();
        assert_eq!(std::fs::read_dir(self.records()).unwrap().count(), 0, "nothing is written down that does not run");
        Ran { finished, lines, transcript: std::fs::read_to_string(&transcript).unwrap() }
    }

    async fn refused(&self, program: &Program) -> NotStarted {
        let (transcript, cancel) = (self.path().join("transcript"), CancellationToken::new());
        run(program, RunLimits::within(LONG), &transcript, &cancel, &mut |_, _| {}).await.unwrap_err()
    }

    /// The number that a process wrote down.
    async fn pid_in(&self, file: &str) -> Pid {
        let path = self.path().join(file);
        let read = || async { Ok(std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok())) };
        Pid::from_raw(eventually("a process writes down its number", read).await.unwrap()).unwrap()
    }
}

/// Neither running nor waiting to be taken note of by somebody else than the system.
fn is_gone(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    state.map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

async fn goes(pid: Pid) {
    eventually("a process ends", || async { Ok(is_gone(pid).then_some(())) }).await.unwrap();
}

#[tokio::test]
async fn a_program_gets_its_arguments_its_input_and_an_environment_of_its_own() {
    let place = ProgramFolder::new();
    let argument = "two words; echo $HOME `id`";
    let mut program = place.program(&["sh", "-c", "cat; printf '%s\\n' \"$1\"; env; pwd", "sh", argument]);
    program.env = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
    let program = program.env("GIVEN", "yes").stdin("the prompt\n");
    let ran = place.run(&program, RunLimits::within(LONG)).await;
    assert_eq!(ran.finished, Finished { end: ProcessEnd::Exited(0), stderr_tail: String::new() });
    let lines = ran.stdout();
    assert_eq!(&lines[..2], ["the prompt", argument], "nothing becomes a part of a command");
    let names = lines[2..].iter().filter_map(|line| line.split_once('=').map(|(name, _)| name));
    let unexpected: Vec<&str> = names
        .filter(|name| !["PATH", "GIVEN", "ROOKERY_LAUNCH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert_eq!(lines.last().copied(), place.path().canonicalize().unwrap().to_str());
    assert_eq!(ran.transcript.lines().count(), lines.len());
}

#[tokio::test]
async fn an_agents_program_that_prints_its_environment_tells_no_secret() {
    let place = ProgramFolder::new();
    let prints = place.shell("env; echo \"$MODEL_API_KEY\" >&2; exit 3").env("MODEL_API_KEY", "sk-1234567890abcdef");
    let open = place.run(&prints, RunLimits::within(LONG)).await;
    assert!(open.transcript.contains("sk-1234567890abcdef"), "a person's own command: {open:?}");
    let kept = place.run(&prints.discreet(), RunLimits::within(LONG)).await;
    assert!(kept.stdout().contains(&"MODEL_API_KEY=[secret]"), "{kept:?}");
    assert!(!format!("{kept:?}").contains("sk-1234567890abcdef"), "{kept:?}");
}

#[tokio::test]
async fn how_it_ended_is_told_with_what_it_complained_about() {
    let place = ProgramFolder::new();
    let ran = place.run(&place.shell("echo out; echo wrong >&2; exit 3"), RunLimits::within(LONG)).await;
    assert_eq!(ran.finished, Finished { end: ProcessEnd::Exited(3), stderr_tail: "wrong".into() });
    assert!(ran.transcript.contains("out\n") && ran.transcript.contains("! wrong\n"), "{}", ran.transcript);
    let ran = place.run(&place.shell("kill -SEGV $$"), RunLimits::within(LONG)).await;
    assert_eq!(ran.finished.end, ProcessEnd::Signalled(11));
}

#[tokio::test]
async fn what_cannot_be_started_is_told() {
    let place = ProgramFolder::new();
    let missing = place.refused(&place.program(&["no-such-program-here"])).await;
    assert!(matches!(&missing, NotStarted::NoSuchProgram { name } if name == "no-such-program-here"), "{missing:?}");
    let elsewhere = Program { folder: place.path().join("nowhere"), ..place.shell("true") };
    assert!(matches!(place.refused(&elsewhere).await, NotStarted::NoSuchFolder { .. }));
    let broken = place.path().join("broken");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused = place.refused(&place.program(&[broken.to_str().unwrap()])).await;
    assert!(matches!(&refused, NotStarted::Refused { reason } if reason.contains("broken")), "{refused:?}");
}

#[tokio::test]
async fn a_program_has_no_terminal_and_a_session_of_its_own() {
    let place = ProgramFolder::new();
    let ran = place.run(&place.shell("cut -d' ' -f6,7 /proc/$$/stat; echo $$"), RunLimits::within(LONG)).await;
    let [session, own] = ran.stdout()[..] else { panic!("{:?}", ran.lines) };
    assert_eq!(session, format!("{own} 0"));
}

#[tokio::test]
async fn one_that_ignores_being_asked_is_ended_by_force_with_its_children() {
    let place = ProgramFolder::new();
    let stubborn = "trap '' TERM; (trap '' TERM; echo $PPID; sh -c 'echo $PPID' >inner; while :; do sleep 1; done) & \
                    while :; do sleep 1; done";
    let limits = RunLimits::within(Duration::from_millis(300));
    let ran = place.run(&place.shell(stubborn), limits).await;
    assert_eq!(ran.finished.end, ProcessEnd::TimedOut);
    assert!(ran.transcript.ends_with("[it took too long and was ended]\n"), "{}", ran.transcript);
    assert!(is_gone(place.pid_in("inner").await));
}

#[tokio::test]
async fn one_that_says_nothing_is_ended_and_a_sign_of_life_is_enough() {
    let place = ProgramFolder::new();
    let idle = |idle| RunLimits { idle: Some(idle), ..RunLimits::within(LONG) };
    let ran = place.run(&place.shell("echo one; sleep 600"), idle(Duration::from_millis(200))).await;
    assert_eq!((ran.finished.end, ran.stdout()), (ProcessEnd::Idle, vec!["one"]));
    // Dots without an end of the line, each within the time.
    let dots = "for i in 1 2 3 4 5 6; do printf .; sleep 0.5; done";
    let ran = place.run(&place.shell(dots), idle(Duration::from_secs(20))).await;
    assert_eq!((ran.finished.end, ran.stdout()), (ProcessEnd::Exited(0), vec!["......"]));
}

#[tokio::test]
async fn a_flood_is_ended_and_beginning_and_end_are_kept() {
    let place = ProgramFolder::new();
    let limits = RunLimits { output_bytes: 4 << 20, ..RunLimits::within(LONG) };
    let ran = place.run(&place.shell("echo first; yes"), limits).await;
    assert_eq!(ran.finished.end, ProcessEnd::Flooded);
    assert!(ran.transcript.starts_with("first\ny\n") && ran.transcript.contains(" bytes left out here]\n"));
    assert!(ran.transcript.len() < 3 << 20, "{}", ran.transcript.len());
    // One line without an end.
    let ran = place.run(&place.shell("tr '\\0' x </dev/zero"), limits).await;
    assert_eq!((ran.finished.end, ran.lines.len()), (ProcessEnd::Flooded, 0));
}

#[tokio::test]
async fn who_asks_for_its_end_gets_it_and_the_program_may_tidy_up() {
    let place = ProgramFolder::new();
    let tidy = "trap 'echo tidied; exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    let (program, cancel) = (place.shell(tidy), CancellationToken::new());
    let transcript = place.path().join("transcript");
    let mut lines = Vec::new();
    let mut hear = |stream, line: &str| {
        // The shell has its own to say about it, as a complaint.
        if stream == OutputStream::Stdout {
            lines.push(line.to_owned());
        }
        cancel.cancel();
    };
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut hear);
    let finished = within("a program ends", running).await.unwrap().unwrap();
    assert_eq!(finished.end, ProcessEnd::Cancelled);
    assert_eq!(lines, ["ready", "tidied"]);
}

#[tokio::test]
async fn what_it_leaves_behind_ends_with_it_also_outside_of_its_session() {
    let place = ProgramFolder::new();
    let leaving = "sleep 600 & echo $! >near; \
                   setsid sh -c 'echo $$ >far; exec sleep 600' </dev/null >/dev/null 2>&1 & \
                   while ! [ -s far ]; do sleep 0.01; done; echo done";
    let ran = place.run(&place.shell(leaving), RunLimits::within(LONG)).await;
    assert_eq!((ran.finished.end, ran.stdout()), (ProcessEnd::Exited(0), vec!["done"]));
    assert!(is_gone(place.pid_in("near").await) && is_gone(place.pid_in("far").await));
}

#[tokio::test]
async fn whoever_does_not_wait_ends_it() {
    let place = ProgramFolder::new();
    let program = place.shell("sleep 600 & echo $! >inner; echo $$ >outer; wait");
    let (transcript, cancel) = (place.path().join("transcript"), CancellationToken::new());
    let mut hear = |_, _: &str| {};
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut hear);
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        _started = place.pid_in("outer") => {}
    }
    goes(place.pid_in("outer").await).await;
    goes(place.pid_in("inner").await).await;
}

/// A program dies with the thread that started it, so that must be one that stays.
#[test]
fn a_program_outlives_the_thread_that_asked_for_it() {
    let place = ProgramFolder::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let program = place.shell("echo ready; while ! [ -e go ]; do sleep 0.01; done; echo got");
    let (transcript, cancel, ready) = (place.path().join("transcript"), CancellationToken::new(), Notify::new());
    let mut lines = Vec::new();
    let mut hear = |_, line: &str| {
        lines.push(line.to_owned());
        ready.notify_one();
    };
    let mut running = Box::pin(run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut hear));
    std::thread::scope(|scope| {
        let asking = async {
            tokio::select! {
                ended = &mut running => panic!("{ended:?}"),
                () = ready.notified() => {}
            }
        };
        scope.spawn(|| runtime.block_on(within("it starts", asking)).unwrap()).join().unwrap();
    });
    std::fs::write(place.path().join("go"), "").unwrap();
    let finished = runtime.block_on(within("it ends", running)).unwrap().unwrap();
    assert_eq!((finished.end, lines), (ProcessEnd::Exited(0), vec!["ready".to_owned(), "got".to_owned()]));
}

/// What starts a program and can be ended: the part of a runner that matters here.
#[expect(clippy::disallowed_methods, reason = "the one who starts is what is ended in these tests")]
fn parent(place: &ProgramFolder, script: &str) -> std::process::Child {
    let code = "import os, subprocess, sys, time\n\
                child = subprocess.Popen([sys.argv[1], 'exec', '--parent', str(os.getpid()), '--', 'sh', '-c', sys.argv[2]])\n\
                child.wait()";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", code, env!("CARGO_BIN_EXE_rookery"), script]).current_dir(place.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn a_program_dies_with_the_one_who_started_it() {
    let place = ProgramFolder::new();
    let mut parent = parent(&place, "echo $$ >child; exec sleep 600");
    let child = place.pid_in("child").await;
    parent.kill().unwrap();
    parent.wait().unwrap();
    goes(child).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a launcher by hand")]
async fn a_launcher_whose_parent_is_gone_starts_nothing() {
    let place = ProgramFolder::new();
    let touch = ["exec", "--parent", "1", "--", "touch", "started"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rookery"));
    let output = command.args(touch).current_dir(place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(!place.path().join("started").exists());
}

#[tokio::test]
async fn orphans_are_found_and_ended_and_nobody_else() {
    let place = ProgramFolder::new();
    // A stranger, and a record that names its number at another time.
    let mut stranger = parent(&place, "echo $$ >stranger; exec sleep 600");
    let spared = place.pid_in("stranger").await;
    let program = place.shell("trap '' TERM; sleep 600 & echo $! >inner; echo $$ >outer; wait");
    let (transcript, cancel) = (place.path().join("transcript"), CancellationToken::new());
    let kept = place.path().join("kept");
    let mut hear = |_, _: &str| {};
    let running = run(&program, RunLimits::within(LONG), &transcript, &cancel, &mut hear);
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        _started = place.pid_in("outer") => {}
    }
    let (outer, inner) = (place.pid_in("outer").await, place.pid_in("inner").await);
    // What a runner would have left that died at this moment.
    std::fs::create_dir(&kept).unwrap();
    let record = std::fs::read_dir(place.records()).unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(record.path()).unwrap();
    std::fs::write(kept.join("1.process.json"), &text).unwrap();
    let mut reused: serde_json::Value = serde_json::from_str(&text).unwrap();
    reused["family"]["mark"] = "another".into();
    reused["family"]["first"]["pid"] = spared.as_raw_nonzero().get().into();
    std::fs::write(kept.join("2.process.json"), reused.to_string()).unwrap();
    // The first of the family is gone already; the mark leads to the other.
    kill_process(outer, Signal::KILL).unwrap();
    let ended = end_orphans(&kept).await.unwrap();
    assert!(ended.iter().all(|orphan| orphan.program == "sh"), "{ended:?}");
    assert!(ended.len() <= 1, "{ended:?}");
    goes(inner).await;
    within("a program ends", &mut running).await.unwrap().unwrap();
    assert!(test_kill_process(spared).is_ok() && !is_gone(spared), "a stranger with a number of ours is spared");
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
