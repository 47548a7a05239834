//! Runs checks in processes that can be killed; `serve` is the other side.
//!
//! Matching a payload against a schema can take exponential time and memory, and no check beforehand can exclude that. A
//! thread cannot be killed, but a process can: it has a separate address space, and is killed after a timeout or when the
//! caller stops waiting.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use rookery_core::model::violation::Violation;
use rookery_store::SubmitError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use super::limits::{
    ANSWER_BYTES, CHECKS, LISTING_TIMEOUT, QUEUE_TIMEOUT, STACK_BYTES, START_TIMEOUT, VERDICT_TIMEOUT,
};
use super::serve::{CheckVerdict, READY};
use super::{Compiled, SchemaFault};
use crate::error::EngineError;

/// The outcome of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    Unusable(SchemaFault),
    Valid,
    Invalid(Vec<Violation>),
    /// The payload does not match, and listing the violations would exceed the limits.
    InvalidSomewhere,
    /// The check exceeded the limits.
    TooCostly,
}

/// Why a checking process did not answer.
enum CheckerFailure {
    Ended,
    TimedOut,
}

/// The checking processes of this daemon.
#[derive(Debug)]
pub(crate) struct Checkers {
    program: Option<PathBuf>,
    permits: Semaphore,
    idle: Mutex<Vec<Checker>>,
}

impl Checkers {
    /// Starts `program` for checks. Without one, checks run in this process, where they cannot be killed: for tests and
    /// simulations, whose schemas are known.
    pub(crate) fn new(program: Option<PathBuf>) -> Checkers {
        Checkers { program, permits: Semaphore::new(CHECKS), idle: Mutex::default() }
    }

    /// Checks a payload against a schema, or only that the schema can be used.
    pub(crate) async fn check(&self, schema: &str, payload: Option<&Value>) -> Result<Finding, EngineError> {
        let Some(program) = &self.program else { return check_here(schema.to_owned(), payload.cloned()).await };
        let permit = self.wait_for_permit().await?;
        let request = request(schema, payload)
            .map_err(|error| unavailable(&format!("cannot encode the payload for its check: {error}")))?;
        if let Some(mut reused) = self.take_idle() {
            match reused.check(&request).await {
                Ok(finding) => return Ok(self.put_back(reused, finding)),
                Err(CheckerFailure::TimedOut) => return Ok(Finding::TooCostly),
                // Its memory may have been full of other compiled schemas.
                Err(CheckerFailure::Ended) => {}
            }
        }
        let mut fresh = Checker::start(program).await?;
        let finding = match fresh.check(&request).await {
            Ok(finding) => self.put_back(fresh, finding),
            Err(CheckerFailure::TimedOut | CheckerFailure::Ended) => Finding::TooCostly,
        };
        drop(permit);
        Ok(finding)
    }

    async fn wait_for_permit(&self) -> Result<SemaphorePermit<'_>, EngineError> {
        match timeout(QUEUE_TIMEOUT, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(unavailable("too many payloads are being checked; try again")),
        }
    }

    fn take_idle(&self) -> Option<Checker> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a process for the next check, unless it still lists the violations of this one.
    fn put_back(&self, checker: Checker, finding: Finding) -> Finding {
        if finding != Finding::InvalidSomewhere {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(checker);
        }
        finding
    }
}

/// A checking process, which is killed when this is dropped.
#[derive(Debug)]
struct Checker {
    _child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Checker {
    async fn start(program: &Path) -> Result<Checker, EngineError> {
        #[expect(clippy::disallowed_methods, reason = "this module is where checking processes are started")]
        let mut command = Command::new(program);
        command.arg0("rookery").arg("check-payloads").env_clear().current_dir("/").process_group(0).kill_on_drop(true);
        // Otherwise the allocator reserves more addresses at the start than the limit allows.
        command.env("MIMALLOC_ARENA_RESERVE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let not_started = |why: &str| unavailable(&format!("cannot start a process that checks payloads: {why}"));
        let mut child = command.spawn().map_err(|error| not_started(&error.to_string()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started("it has no input or output"));
        };
        let mut checker = Checker { _child: child, requests, answers: BufReader::new(answers) };
        match timeout(START_TIMEOUT, checker.read_line::<String>()).await {
            Ok(Ok(line)) if line == READY => Ok(checker),
            Ok(_) => Err(not_started("it ended at once")),
            Err(_) => Err(not_started("it takes too long to start")),
        }
    }

    async fn check(&mut self, request: &[u8]) -> Result<Finding, CheckerFailure> {
        let verdict = timeout(VERDICT_TIMEOUT, self.ask(request)).await.map_err(|_| CheckerFailure::TimedOut)??;
        match verdict {
            CheckVerdict::Unusable(fault) => Ok(Finding::Unusable(fault)),
            CheckVerdict::Valid => Ok(Finding::Valid),
            CheckVerdict::Invalid => Ok(match timeout(LISTING_TIMEOUT, self.read_line()).await {
                Ok(Ok(violations)) => Finding::Invalid(violations),
                Ok(Err(_)) | Err(_) => Finding::InvalidSomewhere,
            }),
        }
    }

    async fn ask(&mut self, request: &[u8]) -> Result<CheckVerdict, CheckerFailure> {
        self.requests.write_all(request).await.map_err(|_| CheckerFailure::Ended)?;
        self.requests.flush().await.map_err(|_| CheckerFailure::Ended)?;
        self.read_line().await
    }

    async fn read_line<T: DeserializeOwned>(&mut self) -> Result<T, CheckerFailure> {
        let mut line = Vec::new();
        let most = (ANSWER_BYTES as u64).saturating_add(1);
        (&mut self.answers).take(most).read_until(b'\n', &mut line).await.map_err(|_| CheckerFailure::Ended)?;
        serde_json::from_slice(&line).map_err(|_| CheckerFailure::Ended)
    }
}

fn request(schema: &str, payload: Option<&Value>) -> serde_json::Result<Vec<u8>> {
    let mut request = serde_json::to_vec(schema)?;
    request.push(b'\n');
    if let Some(payload) = payload {
        serde_json::to_writer(&mut request, payload)?;
    }
    request.push(b'\n');
    Ok(request)
}

/// Checks in a thread of this process.
async fn check_here(schema: String, payload: Option<Value>) -> Result<Finding, EngineError> {
    let (done, finding) = oneshot::channel();
    let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || done.send(find(&schema, payload.as_ref())).ok());
    started.map_err(|error| unavailable(&format!("cannot start a thread to check the payload: {error}")))?;
    finding.await.map_err(|_| unavailable("the check of the payload panicked"))
}

fn find(schema: &str, payload: Option<&Value>) -> Finding {
    match (Compiled::of(schema), payload) {
        (Err(fault), _) => Finding::Unusable(fault),
        (Ok(compiled), Some(payload)) if !compiled.is_valid(payload) => Finding::Invalid(compiled.violations(payload)),
        (Ok(_), _) => Finding::Valid,
    }
}

fn unavailable(reason: &str) -> EngineError {
    SubmitError::Unavailable { reason: reason.to_owned() }.into()
}
