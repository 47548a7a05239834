//! Programs that are agents themselves: finds them, starts them once per turn with our tools, and judges their reports.
//!
//! A [`Dialect`](dialect::Dialect) describes each program. It is pure: it returns the arguments and files of a turn as data,
//! and interprets the program's output. The user's configuration is not changed: our settings are passed by flags and by the
//! environment ([`bridge`]), or in a private home if there is no other way. The login is the user's own ([`login`]).

pub(crate) mod bridge;
pub(crate) mod conversation;
pub(crate) mod dialect;
pub(crate) mod failure;
mod find;
pub(crate) mod login;
pub(crate) mod override_file;
mod prepare;
pub(crate) mod report;
#[cfg(test)]
pub(crate) mod testing;

pub use prepare::LEDGER;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::claude::Claude;
use super::codex::Codex;
use super::cursor::Cursor;
use super::gemini::Gemini;
use super::opencode::Opencode;
use super::{Backend, BackendEvent, BackendOutcome, Events, Failure, Seat, Turn, TurnVerdict, Usage, Why, over_limit};
use crate::file::{self, AgentProgram};
use crate::process::{self, Finished, NotStarted, OutputStream, ProcessEnd, Program, RunLimits};
use crate::sandbox::Sandbox;
use bridge::Bridge;
use conversation::ProgramConversation;
use dialect::{Dialect, OwnSandbox, ProgramStart, TurnInput};
use report::{ProgramReport, ReportedEnd, one_line};

/// The attempt from which a new conversation is used: the old one may be the cause of the failures, for example by its length.
const NEW_CONVERSATION_ATTEMPT: u32 = 3;
/// Maximum output of a program in one turn. It includes all results of tools, so that a turn of an hour prints a lot; none of
/// it is kept in memory.
const MAX_OUTPUT_BYTES: u64 = 256 << 20;

/// A backend that runs an agent program.
#[derive(Debug)]
pub(super) struct ProgramAgent {
    seat: Seat,
    dialect: Box<dyn Dialect>,
    path: PathBuf,
    bridge: Option<Bridge>,
    sandbox: Option<Arc<Sandbox>>,
    own_sandbox: OwnSandbox,
    /// Variables of the runner's own environment for the program's login.
    login: super::Environment,
}

impl ProgramAgent {
    /// Fails if the program is not installed, or cannot do what the file requires.
    pub(super) fn open(program: AgentProgram, seat: &Seat) -> Result<ProgramAgent, Failure> {
        if program == AgentProgram::Cursor && seat.allowed.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return Err(unsupported_tool_limit());
        }
        let ours = own_environment();
        let at = |name: &str| seat.env.0.get(name).or_else(|| ours.get(name)).cloned();
        let path = find::find(program, &OsString::from(at("PATH").unwrap_or_default()))?;
        let home = at("HOME").map(PathBuf::from);
        let dialect: Box<dyn Dialect> = match program {
            AgentProgram::Claude => Box::new(Claude),
            AgentProgram::Codex => Box::new(Codex::load(codex_home(at("CODEX_HOME"), home.as_deref()).as_deref())),
            AgentProgram::Cursor => Box::new(Cursor),
            AgentProgram::Opencode => Box::new(Opencode),
            AgentProgram::Gemini => Box::new(Gemini::load(home.as_deref())),
        };
        let login = login::variables(program, dialect.variables(), &ours);
        let sandbox = sandbox(program, dialect.as_ref(), seat, &login)?;
        let has_tools = seat.allowed.as_ref().is_none_or(|tools| !tools.is_empty());
        let variables = || {
            // In a sandbox the gate proves the identity, and there is no key to pass on.
            seat.identity().into_keys().filter(|name| sandbox.is_none() || name != "ROOKERY_SESSION").collect()
        };
        let bridge = has_tools.then(|| Bridge::new(&seat.program, &seat.project, variables()));
        let own_sandbox = match sandbox {
            None if seat.sandbox != file::Sandbox::Off => OwnSandbox::On,
            _ => OwnSandbox::Off,
        };
        let login = super::Environment(login);
        Ok(ProgramAgent { seat: seat.clone(), dialect, path, bridge, sandbox, own_sandbox, login })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        self.sandbox.iter().for_each(|sandbox| sandbox.report_to(events));
        let absent = self.sandbox.as_ref().map(|sandbox| sandbox.absent_settings()).unwrap_or_default();
        let outcome = self.run_watched(turn, events).await;
        if let Some(sandbox) = &self.sandbox {
            sandbox.report_traps(events).await;
        }
        let name = self.dialect.program().as_str();
        for path in absent.iter().filter(|path| std::fs::symlink_metadata(path).is_ok()) {
            let path = path.display();
            let note = format!(
                "{path} was created in this turn, and your own {name} reads it: check it before you use {name}"
            );
            events.emit(BackendEvent::Note(note));
        }
        outcome
    }

    async fn run_watched(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        let kept = turn.conversation.as_deref().filter(|_| turn.attempt < NEW_CONVERSATION_ATTEMPT);
        let resumes = ProgramConversation::resume(kept, &turn.system);
        let can_forget = resumes.is_some();
        let (outcome, forgot) = self.attempt(turn, resumes, events).await;
        if !(can_forget && forgot) {
            return outcome;
        }
        let name = self.dialect.program().as_str();
        events.emit(BackendEvent::Note(format!("{name} does not know its conversation any more and starts a new one")));
        self.attempt(turn, None, events).await.0
    }

    /// Runs one attempt. Also returns whether the program did not know the conversation that it should resume.
    async fn attempt(
        &self,
        turn: &Turn,
        resumes: Option<ProgramConversation>,
        events: &Events,
    ) -> (BackendOutcome, bool) {
        let input = TurnInput {
            system: &turn.system,
            prompt: &turn.prompt,
            model: self.seat.model.as_deref(),
            resumes,
            bridge: self.bridge.as_ref(),
            allowed: self.seat.allowed.as_deref(),
            own_sandbox: self.own_sandbox,
            folder: &self.seat.folder,
            state: &self.seat.state,
        };
        let start = self.dialect.start(&input);
        let transcript = self.seat.state.join("transcript.txt");
        let prepared = match prepare::prepare(&self.seat, &start).await {
            Ok(prepared) => prepared,
            Err(failure) => return (not_run(failure), false),
        };
        let (report, finished) = self.follow(turn, &input, &start, &transcript, events).await;
        prepared.undo(events).await;
        let forgot = !report.worked && self.forgot_conversation(&report, finished.as_ref().ok());
        let before = input.earlier_usage();
        let kept = report.conversation.clone().or_else(|| input.resumes.as_ref().map(|kept| kept.id.clone()));
        let conversation = kept.map(|id| ProgramConversation::to_stored(id, &turn.system, before, report.usage));
        let usage = report.usage;
        let verdict = self.judge(report, finished, turn);
        (BackendOutcome { verdict, conversation, usage, transcript: Some(transcript) }, forgot)
    }

    async fn follow(
        &self,
        turn: &Turn,
        input: &TurnInput<'_>,
        start: &ProgramStart,
        transcript: &Path,
        events: &Events,
    ) -> (ProgramReport, Result<Finished, NotStarted>) {
        // Also cancelled by itself when the report shows that the turn is hopeless.
        let cancel = turn.cancel.child_token();
        let (mut report, mut reader) = (ProgramReport::default(), self.dialect.reader(input));
        let limits = RunLimits { timeout: turn.timeout, idle: None, output_bytes: MAX_OUTPUT_BYTES };
        let mut read = |stream: OutputStream, line: &str| {
            match (stream, serde_json::from_str::<Value>(line)) {
                (OutputStream::Stdout, Ok(event)) if event.is_object() => {
                    reader.read_event(&event, &mut report).into_iter().for_each(|event| events.emit(event));
                }
                (OutputStream::Stdout, _) => {}
                (OutputStream::Stderr, _) => reader.read_stderr(line, &mut report),
            }
            if report.hopeless {
                cancel.cancel();
            }
        };
        let finished = process::run(&self.program(turn, start), limits, transcript, &cancel, &mut read).await;
        (report, finished)
    }

    fn program(&self, turn: &Turn, start: &ProgramStart) -> Program {
        let argv = std::iter::once(self.path.clone().into_os_string()).chain(start.args.iter().map(OsString::from));
        let mut program = self.seat.program_for(argv).sandbox(self.sandbox.clone());
        // Variables of the file win, except over those that the program cannot work without.
        for (name, value) in self.login.0.iter().chain(&start.default_env) {
            program.env.entry(name.into()).or_insert_with(|| value.into());
        }
        program.envs(&start.required_env).env("ROOKERY_TURN", &turn.id).stdin(start.stdin.clone())
    }

    fn forgot_conversation(&self, report: &ProgramReport, finished: Option<&Finished>) -> bool {
        let failed = match &report.end {
            Some(ReportedEnd::Failed(failure)) => failure.reason.as_str(),
            Some(ReportedEnd::Done) => return false,
            None => "",
        };
        let tail = finished.map_or("", |finished| finished.stderr_tail.as_str());
        self.dialect
            .unknown_conversation_phrases()
            .iter()
            .any(|phrase| failed.contains(phrase) || tail.contains(phrase))
    }

    /// Judges a turn by the program's report. The way in which the process ended only explains a missing report.
    fn judge(&self, report: ProgramReport, finished: Result<Finished, NotStarted>, turn: &Turn) -> TurnVerdict {
        let name = self.dialect.program().as_str();
        let failed = |why: Why, reason: String| TurnVerdict::Failed(Failure { why, reason, hint: None });
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => return failed(Why::Hopeless, format!("{name} was not started: {error}")),
        };
        match (report.end, finished.end) {
            (Some(ReportedEnd::Failed(failure)), _) if report.hopeless => TurnVerdict::Failed(failure),
            (_, ProcessEnd::OverLimit(excess)) => TurnVerdict::Failed(over_limit(&self.seat, excess)),
            (_, ProcessEnd::Cancelled) => failed(Why::Cancelled, "it was asked to stop".to_owned()),
            (Some(ReportedEnd::Failed(failure)), _) => TurnVerdict::Failed(failure),
            (Some(ReportedEnd::Done), _) => TurnVerdict::Done { said: report.last_text, worked: report.worked },
            (None, ProcessEnd::TimedOut | ProcessEnd::Idle) => {
                failed(Why::TimedOut, format!("{name} took longer than {} s", turn.timeout.as_secs_f64()))
            }
            (None, ProcessEnd::Flooded) => {
                failed(Why::Fault, format!("{name} wrote more than {MAX_OUTPUT_BYTES} bytes"))
            }
            (None, end) => self.without_an_end(end, &finished.stderr_tail),
        }
    }

    fn without_an_end(&self, end: ProcessEnd, stderr: &str) -> TurnVerdict {
        let program = self.dialect.program();
        let mut failure = failure::classify(program, None, stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(": {}", one_line(line, 300))).unwrap_or_default();
        failure.reason = format!("{} did not finish its turn, {end}{last}", program.as_str());
        TurnVerdict::Failed(failure)
    }
}

impl Backend for ProgramAgent {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.run(turn, events))
    }

    fn account(&self) -> String {
        self.dialect.program().as_str().to_owned()
    }
}

fn not_run(failure: Failure) -> BackendOutcome {
    BackendOutcome {
        verdict: TurnVerdict::Failed(failure),
        conversation: None,
        usage: Usage::default(),
        transcript: None,
    }
}

fn unsupported_tool_limit() -> Failure {
    Failure {
        why: Why::Hopeless,
        reason: "Cursor cannot be limited to some of our tools".to_owned(),
        hint: Some("remove `tools` from this agent, or set it to `[]` for no tools at all".to_owned()),
    }
}

fn codex_home(set: Option<String>, home: Option<&Path>) -> Option<PathBuf> {
    set.map(PathBuf::from).or_else(|| home.map(|home| home.join(".codex")))
}

/// Fails if the program is not on the `PATH` of its future environment.
pub(super) fn preflight(program: AgentProgram, env: &BTreeMap<String, String>) -> Result<(), Failure> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    find::find(program, path.as_ref()).map(drop)
}

/// The runner's own environment, as far as it is text.
fn own_environment() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Opens the sandbox. The program sees its own files in the user's home, and reaches its model at any address.
fn sandbox(
    program: AgentProgram,
    dialect: &dyn Dialect,
    seat: &Seat,
    login: &BTreeMap<String, String>,
) -> Result<Option<Arc<Sandbox>>, Failure> {
    let mut env = login.clone();
    env.extend(seat.env.0.clone());
    let mut with_home = own_environment();
    with_home.extend(env.clone());
    // Addresses in the program's own configuration count like those in its environment.
    let named = dialect.addresses().iter().enumerate().map(|(at, url)| (format!("{at}_BASE_URL"), url.clone()));
    env.extend(named);
    let sandbox = Sandbox::for_seat(seat, Some(program), &env, &login::folders(program, &with_home))?;
    if sandbox.is_some() {
        login::copy(program, &with_home, &seat.state.join("home"));
    }
    Ok(sandbox)
}
