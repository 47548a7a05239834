//! Taking in envelopes: read, checked and decided together, so that either all of them are stored or none.

mod duplicates;
mod rate_limit;
mod sender_keys;

use std::collections::{BTreeMap, BTreeSet};

use rookery_core::clutch::{
    Act, AnswerCall, Faults, Heartbeat, Ingest, Received, Shape, Signing, SigningPolicy, Taken, read_batch, take_in,
};
use rookery_core::kernel::hex::hex;
use rookery_core::messages::Cause;
use rookery_core::model::LifeSource;
use rookery_core::model::capabilities::SigningKey;
use rookery_core::model::contract::{ContractBinding, ContractCheck};
use rookery_core::model::violation::Violations;
use rookery_core::tasks::{FailureRetry, MAX_ATTEMPTS};
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{Actor, AgentId, AnyReply, Caller, Code, Key, MessageId, Rejection, Row, Seq, TaskId};
use rookery_store::artifact::ArtifactHold;
use rookery_store::{Committed, Idempotency, Submission, SubmitError};
use sha2::{Digest, Sha256};

use crate::contracts::{Validate, Validated};
use crate::durations::millis;
use crate::engine::{BODY_IN_ROW_BYTES, Engine};
use crate::error::EngineError;

/// Takes in envelopes: checks rates, signatures and contracts, and submits them as commands.
#[derive(Clone, Copy, Debug)]
pub struct IntakeHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`IntakeHandle`].
    pub fn intake(&self) -> IntakeHandle<'_> {
        IntakeHandle { engine: self }
    }
}

/// How often envelopes are held against what is expected, if that changes all the time.
const ATTEMPTS: usize = 3;

/// What became of an envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// The message that it is: the first one, if the same was sent before.
    pub id: MessageId,
    /// Its place in the log; a heartbeat has none.
    pub seq: Option<Seq>,
    pub duplicate: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// What was sent is not what the protocol says.
    #[error("{0}")]
    Faults(Faults),
    /// It is, and one of the envelopes is not what its step of a workflow expects.
    #[error("{0}")]
    Violations(Violations),
    /// It is, and one of them cannot be done.
    #[error("{refusal}")]
    Refused { refusal: Rejection, pointer: String },
    /// A sender of one of them sends too fast.
    #[error("{refusal}")]
    RateLimited { refusal: Rejection, wait_millis: u64 },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<Faults> for IngestError {
    fn from(faults: Faults) -> IngestError {
        IngestError::Faults(faults)
    }
}

/// An envelope on its way, with its place among those that it came with.
struct Item<'a> {
    received: &'a Received<'a>,
    taken: Taken,
    caller: Caller,
    /// What became of it when the very same bytes came in before.
    known: Option<Ingested>,
}

impl Item<'_> {
    /// Takes note of what was found about its signature, for the rule.
    fn signed(&mut self, policy: SigningPolicy, by: Option<SigningKey>) {
        if let Taken::Command(ingest) = &mut self.taken {
            ingest.signing = Signing { policy, by };
        }
    }

    /// What is to be stored for it. Heartbeats are not, and neither is what was before.
    fn command(&self) -> Option<&Ingest> {
        match &self.taken {
            Taken::Command(ingest) if self.known.is_none() => Some(ingest),
            Taken::Command(_) | Taken::Heartbeat(_) => None,
        }
    }

    fn refused(&self, refusal: Rejection) -> IngestError {
        let refusal = match refusal.code {
            Code::IdempotencyMismatch => refusal.about("/idempotency_key"),
            _ => refusal,
        };
        if refusal.code == Code::SchemaViolation
            && let Taken::Command(ingest) = &self.taken
            && let Some(checked) = &ingest.checked
        {
            return IngestError::Violations(checked.violations.clone().within(&self.pointer("")));
        }
        let pointer = self.pointer(refusal.pointer.as_deref().unwrap_or_default());
        IngestError::Refused { refusal, pointer }
    }

    /// A field of it, by its place among all that was sent.
    fn pointer(&self, field: &str) -> String {
        let front = self.received.index.map(|index| format!("/{index}")).unwrap_or_default();
        format!("{front}{field}")
    }

    /// Why it was not done. What is not about the envelope stays what it is.
    fn failed(&self, error: EngineError) -> IngestError {
        match error {
            EngineError::Submit(SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. }) => {
                let pointer = match (&self.taken, refusal.code) {
                    (Taken::Heartbeat(_), Code::TaskNotFound) => "/payload/current_task_id",
                    _ => "/from/agent_id",
                };
                self.refused(refusal.about(pointer))
            }
            other => other.into(),
        }
    }
}

impl IntakeHandle<'_> {
    /// Takes in all envelopes of what was sent. `caller` makes out who calls when an envelope says that it is from somebody.
    pub async fn ingest(
        &self,
        bytes: &[u8],
        shape: Shape,
        caller: impl Fn(&Actor) -> Result<Caller, Rejection>,
    ) -> Result<Vec<Ingested>, IngestError> {
        let received = read_batch(bytes, shape)?;
        let taken = take_in(&received, self.engine.config().storm_guard())?;
        let mut items = Vec::with_capacity(received.len());
        for (received, taken) in received.iter().zip(taken) {
            let from = &received.envelope.from.actor;
            let mut item = Item { received, taken, caller: Caller::anonymous(), known: None };
            item.caller = caller(from).map_err(|refusal| item.refused(refusal.about("/from/agent_id")))?;
            items.push(item);
        }
        self.check_signatures(&mut items).await?;
        self.check_rates(&items)?;
        for item in items.iter().filter(|item| item.known.is_none()) {
            self.record_sender(item).await.map_err(|error| item.failed(error))?;
        }
        let mut stored = self.submit_checked(&mut items).await?.into_iter();
        let mut ingested = Vec::with_capacity(items.len());
        for item in &items {
            let filed = item.command().and_then(|_| stored.next());
            ingested.push(match (filed, &item.known) {
                (Some(committed), _) => self.reply_to(item, &committed)?,
                (None, Some(known)) => known.clone(),
                (None, None) => Ingested { id: item.received.envelope.id.clone(), seq: None, duplicate: false },
            });
        }
        Ok(ingested)
    }

    /// Stores them after holding each against the step of a workflow that its task is bound to; once more if what is expected
    /// there has changed meanwhile.
    async fn submit_checked(&self, items: &mut [Item<'_>]) -> Result<Vec<Committed>, IngestError> {
        for _ in 1..ATTEMPTS {
            self.check_contracts(items).await?;
            match self.submit_atomic(items).await {
                Err(IngestError::Refused { refusal, .. }) if refusal.code == Code::Stale => {}
                outcome => return outcome,
            }
        }
        self.check_contracts(items).await?;
        self.submit_atomic(items).await
    }

    async fn check_contracts(&self, items: &mut [Item<'_>]) -> Result<(), EngineError> {
        let bound = self.contract_bindings(items).await?;
        for item in items {
            let Taken::Command(ingest) = &mut item.taken else { continue };
            let Some(bound) = bound.get(&ingest.received.task) else { continue };
            if matches!(ingest.act, Act::Request(_)) {
                continue;
            }
            let contracts = self.engine.contracts();
            let validated = contracts.validate(Validate {
                workflow: &bound.workflow,
                step: &bound.step,
                message_type: &ingest.received.message_type,
                payload_type: ingest.received.payload_type.as_ref(),
                payload: item.received.envelope.payload(),
            });
            let Validated { defined, violations } = validated.await?;
            ingest.checked = Some(Box::new(ContractCheck { bound: bound.clone(), defined, violations }));
        }
        Ok(())
    }

    /// The steps that the tasks of these are bound to, by requests that came before or come along with them.
    async fn contract_bindings(&self, items: &[Item<'_>]) -> Result<BTreeMap<TaskId, ContractBinding>, EngineError> {
        let (mut bound, mut asked) = (BTreeMap::new(), BTreeSet::new());
        for item in items {
            let Taken::Command(ingest) = &item.taken else { continue };
            match &ingest.act {
                Act::Request(request) => {
                    bound.extend(request.terms.bound.clone().map(|step| (ingest.received.task.clone(), step)));
                }
                _ => {
                    asked.insert(ingest.received.task.clone());
                }
            }
        }
        if asked.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (rows, _) = self.engine.store().rows(asked.into_iter().map(Key::Task).collect()).await?;
        for row in rows.into_iter().flatten() {
            if let Row::Task(task) = row
                && let Some(step) = task.bound_to()
            {
                bound.insert(task.id.clone(), step.clone());
            }
        }
        Ok(bound)
    }

    /// Whoever sends lives now, whatever becomes of what it sends; a heartbeat is nothing else.
    async fn record_sender(&self, item: &Item<'_>) -> Result<(), EngineError> {
        match (&item.taken, item.caller.itself()) {
            (Taken::Heartbeat(beat), _) => self.heartbeat(&item.caller, beat).await,
            (Taken::Command(_), Some(agent)) => {
                self.engine.liveness().record_presence(&item.caller, agent, LifeSource::Call)?;
                if self.engine.roster().is_offline(agent) {
                    self.engine.liveness().return_agent(agent, &item.caller).await?;
                }
                Ok(())
            }
            (Taken::Command(_), None) => Ok(()),
        }
    }

    /// A sign of life, and what the agent does if it says so. It has lived even if that is refused.
    pub async fn heartbeat(&self, caller: &Caller, beat: &Heartbeat) -> Result<(), EngineError> {
        self.engine.liveness().heartbeat(caller, &beat.agent).await?;
        if !beat.says_something() {
            return Ok(());
        }
        let known = self.engine.query().agent(&beat.agent).await?.value;
        if let Some(change) = known.and_then(|known| beat.changes(&known)) {
            self.engine.commit(Submission::new(Caller { fence: None, ..caller.clone() }, change)).await?;
        }
        Ok(())
    }

    /// What became of each command, in order.
    async fn submit_atomic(&self, items: &[Item<'_>]) -> Result<Vec<Committed>, IngestError> {
        let commands: Vec<&Item<'_>> = items.iter().filter(|item| item.command().is_some()).collect();
        let mut held = Vec::new();
        // Each with the envelope that it takes in; what the daemon answers at once takes in none.
        let mut submissions = Vec::with_capacity(commands.len());
        let mut places = Vec::with_capacity(commands.len());
        for item in commands {
            let submission = match self.submission(item).await {
                Ok((mut submission, held)) => {
                    self.engine.add_named_people(&mut submission.command);
                    self.engine.check_new_names(&submission.command).await.map(|()| (submission, held))
                }
                Err(error) => Err(error),
            };
            match submission {
                Ok((submission, artifact)) => {
                    submissions.push(submission);
                    places.push(Some(item));
                    held.extend(artifact);
                    if let Some(answer) = self.answer_tool_call(item) {
                        submissions.push(answer);
                        places.push(None);
                    }
                }
                Err(error) => {
                    self.release_holds(held).await;
                    return Err(error.into());
                }
            }
        }
        let mut submissions = submissions.into_iter();
        let Some(mut first) = submissions.next() else { return Ok(vec![]) };
        first.others = submissions.collect();
        match self.submit_with(first, held).await? {
            Ok(mut committed) => {
                let others = std::mem::take(&mut committed.others);
                let all = std::iter::once(committed).chain(others).zip(places);
                Ok(all.filter(|(_, item)| item.is_some()).map(|(committed, _)| committed).collect())
            }
            Err(SubmitError::Refused(refusal)) => Err(self.reject(places.first().copied().flatten(), refusal).await),
            Err(SubmitError::RefusedOne { place, refusal }) => {
                Err(self.reject(places.get(place).copied().flatten(), refusal).await)
            }
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    async fn reject(&self, item: Option<&Item<'_>>, refusal: Rejection) -> IngestError {
        match item {
            Some(item) => {
                self.record_rejection(item, &refusal).await;
                item.refused(refusal)
            }
            None => IngestError::Refused { pointer: refusal.pointer.clone().unwrap_or_default(), refusal },
        }
    }

    /// What is answered together with taking in the call of a tool, if the rule finds that it comes to nothing.
    fn answer_tool_call(&self, item: &Item<'_>) -> Option<Submission> {
        let Taken::Command(ingest) = &item.taken else { return None };
        let Ingest { received, from, act: Act::Call(_), .. } = &**ingest else { return None };
        let answer = AnswerCall {
            call: received.message.clone(),
            message: MessageId::new(self.engine.mint("msg_")),
            to: from.clone(),
            run: received.run.clone(),
            thread: received.thread.clone(),
            task: received.task.clone(),
            trace: item.received.envelope.trace.clone(),
        };
        let mut submission = Submission::new(Caller::system(), answer);
        submission.run = Some(received.run.clone());
        submission.thread = Some(received.thread.clone());
        Some(submission)
    }

    /// Submits what names files that are held for it, and lets go of them when it is known whether they are named.
    pub(crate) async fn submit_with(
        &self,
        submission: Submission,
        held: Vec<ArtifactHold>,
    ) -> Result<Result<Committed, SubmitError>, EngineError> {
        if held.is_empty() {
            return self.submit_present(submission).await;
        }
        // Goes on to its end even if nobody waits any more, so that the files of large ones are looked after.
        let engine = self.engine.clone();
        let ended = tokio::spawn(async move {
            let outcome = engine.intake().submit_present(submission).await;
            // A commit of unknown outcome may still turn out to name them.
            if !matches!(outcome, Ok(Err(SubmitError::OutcomeUnknown { .. }))) {
                engine.intake().release_holds(held).await;
            }
            outcome
        });
        let lost = |error| SubmitError::OutcomeUnknown { reason: format!("the request ended early: {error}") };
        ended.await.map_err(lost)?
    }

    /// Submits, and once more if a sender was declared offline a moment ago, which the roster did not know yet.
    async fn submit_present(&self, submission: Submission) -> Result<Result<Committed, SubmitError>, EngineError> {
        let outcome = self.engine.commit(submission.clone()).await;
        let (place, refusal) = match &outcome {
            Err(SubmitError::Refused(refusal)) => (0, refusal),
            Err(SubmitError::RefusedOne { place, refusal }) => (*place, refusal),
            _ => return Ok(outcome),
        };
        let sender = submission.all().nth(place).map(|refused| &refused.caller);
        match sender.and_then(|caller| Some((caller, caller.itself()?))) {
            Some((caller, agent)) if refusal.code == Code::AgentOffline => {
                self.engine.liveness().return_agent(agent, caller).await?;
                Ok(self.engine.commit(submission).await)
            }
            _ => Ok(outcome),
        }
    }

    async fn release_holds(&self, held: Vec<ArtifactHold>) {
        for artifact in held {
            self.engine.artifacts().release_hold(artifact).await;
        }
    }

    /// An envelope as a command, with its body, which is a file if it is large.
    async fn submission(&self, item: &Item<'_>) -> Result<(Submission, Option<ArtifactHold>), EngineError> {
        let Item { received: Received { envelope, body, .. }, taken, caller, .. } = item;
        let mut ingest = match taken {
            Taken::Command(ingest) => Ingest::clone(ingest),
            Taken::Heartbeat(beat) => {
                return Err(Rejection::new(Code::Invalid, format!("'{}' only lives", beat.agent)).into());
            }
        };
        self.link_to_shown(&mut ingest);
        self.apply_defaults(&mut ingest);
        let mut submission = Submission::new(caller.clone(), ingest);
        submission.run = Some(envelope.run.clone());
        submission.thread = Some(envelope.thread.clone());
        submission.received_bytes = body.len();
        submission.idempotency = envelope.idempotency_key.as_ref().map(|key| Idempotency {
            scope: format!("{} {}", envelope.run, caller.actor),
            key: key.clone(),
            hash: hex(&envelope.command_hash()),
            keep_until: self.engine.replies_are_kept_until(),
        });
        let (body, held) = self.store_body(body.to_vec()).await?;
        submission.body = Some(body);
        Ok((submission, held))
    }

    /// A body as the log keeps it: large ones are files, which are held until a row names them.
    pub(crate) async fn store_body(&self, bytes: Vec<u8>) -> Result<(Body, Option<ArtifactHold>), EngineError> {
        if bytes.len() > BODY_IN_ROW_BYTES {
            let held = self.engine.store().put_artifact(bytes).await?;
            return Ok((Body { sha256: held.sha256.clone(), bytes: BodyBytes::Artifact }, Some(held)));
        }
        Ok((Body { sha256: hex(&Sha256::digest(&bytes)), bytes: BodyBytes::Here(bytes) }, None))
    }

    /// What its author was last shown in the thread led to what it says there.
    fn link_to_shown(&self, ingest: &mut Ingest) {
        let author = AgentId::new(ingest.from.to_string());
        if let Act::Say { cause, .. } = &mut ingest.act
            && let Some(message) = self.engine.shown().newest(&author, &ingest.received.thread)
        {
            *cause = Cause::Shown(message);
        }
    }

    /// What the message leaves open is as the settings say.
    fn apply_defaults(&self, ingest: &mut Ingest) {
        let settings = self.engine.settings();
        match &mut ingest.act {
            // What the rules would take anyway need not be written down.
            Act::Request(request) if settings.max_attempts != MAX_ATTEMPTS => {
                request.terms.max_attempts.get_or_insert(settings.max_attempts);
            }
            Act::Fail { retry: FailureRetry::Backoff(backoff_millis), .. } => {
                *backoff_millis = millis(settings.retry_backoff)
            }
            _ => {}
        }
    }

    /// The answer to its sender.
    fn reply_to(&self, item: &Item<'_>, committed: &Committed) -> Result<Ingested, EngineError> {
        let AnyReply::Row(_, row) = &committed.reply else { return Err(unexpected().into()) };
        let Row::Envelope(filed) = &row.0 else { return Err(unexpected().into()) };
        if let Some(agent) = item.caller.itself() {
            self.engine.liveness().record_newcomer(&item.caller, agent);
        }
        Ok(Ingested { id: filed.id.clone(), seq: Some(filed.received), duplicate: committed.duplicate })
    }
}

fn unexpected() -> Rejection {
    Rejection::new(Code::MessageNotFound, "the message was stored, and is not there any more")
}
