//! Submitting commands and waiting for their effects.

use std::marker::PhantomData;
use std::time::Duration;

use rookery_core::kernel::hex::hex;
use rookery_core::model::LifeSource;
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{AnyCommand, AnyReply, Caller, Code, Command, CommandReply, IntentId, Key, Rejection};
use rookery_store::{Committed, Idempotency, Submission, SubmitError};
use sha2::{Digest, Sha256};

use crate::engine::{BODY_IN_ROW_BYTES, Engine};
use crate::error::EngineError;

/// A command as a surface hands it over, with the type of its reply.
#[derive(Clone, Debug)]
pub struct Request<R> {
    untyped: UntypedRequest,
    reply: PhantomData<fn() -> R>,
}

/// A request whatever its reply is.
#[derive(Clone, Debug)]
struct UntypedRequest {
    caller: Caller,
    command: AnyCommand,
    idempotency: Option<IdempotencyKey>,
    /// The request's body as received.
    body: Option<Vec<u8>>,
}

/// A key the caller chose, and what tells one request from another: its method, path and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdempotencyKey {
    pub key: String,
    pub fingerprint: String,
}

impl<R: CommandReply> Request<R> {
    pub fn new(caller: Caller, command: impl Command<Reply = R>) -> Request<R> {
        Request::of_any(caller, command.into())
    }

    fn of_any(caller: Caller, command: AnyCommand) -> Request<R> {
        Request { untyped: UntypedRequest { caller, command, idempotency: None, body: None }, reply: PhantomData }
    }

    #[must_use]
    pub fn with_idempotency(mut self, key: Option<IdempotencyKey>) -> Request<R> {
        self.untyped.idempotency = key;
        self
    }

    /// Keeps the request's body as received with its first event.
    #[must_use]
    pub fn with_body(mut self, body: Vec<u8>) -> Request<R> {
        self.untyped.body = Some(body);
        self
    }
}

impl Request<AnyReply> {
    /// A request whose command is known only at run time.
    pub fn untyped(caller: Caller, command: AnyCommand) -> Request<AnyReply> {
        Request::of_any(caller, command)
    }
}

/// What became of a command with effects.
#[derive(Clone, PartialEq, Debug)]
pub enum Waited<R> {
    Done(Committed<R>),
    /// The command is committed; these effects were still open at the deadline.
    Pending(Committed<R>, Vec<IntentId>),
}

impl Engine {
    /// Decides a command. The answer comes after its commit is durable.
    pub async fn submit<R: CommandReply>(&self, request: Request<R>) -> Result<Committed<R>, EngineError> {
        let command = request.untyped.command.name();
        let committed = self.submit_untyped(request.untyped).await?;
        committed.typed().ok_or_else(|| {
            tracing::error!(command, "a command gave another kind of reply than its type says");
            Rejection::new(Code::Internal, format!("command {command} gave an unexpected reply")).into()
        })
    }

    async fn submit_untyped(&self, mut request: UntypedRequest) -> Result<Committed, EngineError> {
        self.check_new_names(&request.command).await?;
        self.add_named_people(&mut request.command);
        self.contracts().check_outcome(&mut request.command).await?;
        match &request.body {
            Some(bytes) if bytes.len() > BODY_IN_ROW_BYTES => {
                // Goes on to its end even if nobody waits any more, so that its file is looked after.
                let engine = self.clone();
                let submitted = tokio::spawn(async move { engine.submit_large(request).await }).await;
                let lost = |error| SubmitError::OutcomeUnknown { reason: format!("the request ended early: {error}") };
                submitted.map_err(lost)?
            }
            Some(bytes) if !bytes.is_empty() => {
                let received = bytes.len();
                let body = request
                    .body
                    .take()
                    .map(|bytes| Body { sha256: hex(&Sha256::digest(&bytes)), bytes: BodyBytes::Here(bytes) });
                self.submit_part(request, body, received).await
            }
            _ => self.submit_part(request, None, 0).await,
        }
    }

    /// A command whose body is kept as an artifact: nobody erases it while the command that names it is on its way, and a
    /// command that came to nothing leaves none behind.
    async fn submit_large(&self, mut request: UntypedRequest) -> Result<Committed, EngineError> {
        let bytes = request.body.take().unwrap_or_default();
        let received = bytes.len();
        let held = self.store().put_artifact(bytes).await?;
        let body = Body { sha256: held.sha256.clone(), bytes: BodyBytes::Artifact };
        let outcome = self.submit_part(request, Some(body), received).await;
        // A commit of unknown outcome may still turn out to name it.
        if !matches!(outcome, Err(EngineError::Submit(SubmitError::OutcomeUnknown { .. }))) {
            self.artifacts().release_hold(held).await;
        }
        outcome
    }

    async fn submit_part(
        &self,
        request: UntypedRequest,
        body: Option<Body>,
        received: usize,
    ) -> Result<Committed, EngineError> {
        let caller = request.caller.clone();
        // Whoever calls lives now, however long its command will wait and whatever it will come to.
        if let Some(agent) = caller.itself() {
            self.liveness().record_presence(&caller, agent, LifeSource::Call)?;
            if self.roster().is_offline(agent) && !request.command.settles_membership() {
                self.liveness().return_unless_left(agent, &caller).await?;
            }
        }
        let newcomer = caller.itself().filter(|agent| !self.roster().knows(agent));
        let submission = Submission { body, received_bytes: received, ..self.admit(request) };
        let committed = match (self.commit(submission.clone()).await, caller.itself()) {
            // Declared offline a moment ago: the roster did not know yet.
            (Err(SubmitError::Refused(refusal)), Some(agent)) if refusal.code == Code::AgentOffline => {
                self.liveness().return_unless_left(agent, &caller).await?;
                self.commit(submission).await?
            }
            (outcome, _) => outcome?,
        };
        if let Some(agent) = newcomer {
            self.liveness().record_newcomer(&caller, agent);
        }
        Ok(committed)
    }

    /// Submits and waits until the named effects are done or the deadline is over.
    pub async fn submit_and_wait<R: CommandReply>(
        &self,
        request: Request<R>,
        intents: Vec<IntentId>,
        deadline: Duration,
    ) -> Result<Waited<R>, EngineError> {
        let mut published = self.store().published();
        let committed = self.submit(request).await?;
        let mut open = intents;
        let waiting = async {
            while !open.is_empty() {
                match published.recv().await {
                    Ok(batch) => {
                        open.retain(|intent| !batch.rows().iter().any(|row| row.event.closes_intent() == Some(intent)))
                    }
                    Err(_) => open = self.still_open(&open).await?,
                }
            }
            Ok::<(), EngineError>(())
        };
        match tokio::time::timeout(deadline, waiting).await {
            Ok(Ok(())) => Ok(Waited::Done(committed)),
            // What is committed is answered, even if nobody can tell what became of its effects.
            Ok(Err(_)) | Err(_) => Ok(Waited::Pending(committed, open)),
        }
    }

    async fn still_open(&self, intents: &[IntentId]) -> Result<Vec<IntentId>, EngineError> {
        let keys = intents.iter().map(|intent| Key::Intent(intent.clone())).collect();
        let (rows, _) = self.store().rows(keys).await?;
        Ok(intents.iter().zip(rows).filter(|(_, row)| row.is_some()).map(|(intent, _)| intent.clone()).collect())
    }

    /// Completes a request with what it needs to be decided the same way however often it is run.
    fn admit(&self, request: UntypedRequest) -> Submission {
        let mut submission = Submission::new(request.caller, request.command);
        let sender = submission.caller.actor.to_string();
        submission.idempotency = request.idempotency.map(|idempotency| Idempotency {
            scope: format!("run_default {sender}"),
            key: idempotency.key,
            hash: hex(&Sha256::digest(idempotency.fingerprint)),
            keep_until: self.replies_are_kept_until(),
        });
        submission
    }
}
