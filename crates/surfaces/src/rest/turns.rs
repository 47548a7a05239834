//! Turns: each time that an agent of a team was woken, and what came of it.

use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::artifacts::referred;
use rookery_core::model::turn;
use rookery_core::model::turn::{Failure, Turn, TurnConclusion, Usage, WakeReason};
use rookery_core::teams::{EndTurn, Notes, StartTurn};
use rookery_core::{Actor, AgentId, Caller, MessageId, TeamId, TurnId};
use rookery_engine::teams::{TurnActivity, TurnFilter};
use rookery_engine::{At, Committed};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, JsonBody, Query, Segment};

const MICROS_OF_A_DOLLAR: f64 = 1_000_000.0;
/// How the hash of an artifact begins here.
const HASH: &str = "sha256:";

/// Why an agent was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnCause {
    Messages,
    Wakeup,
    Direct,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    Done,
    Failed,
    Interrupted,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnError {
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// A word for programs.
    pub kind: String,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TurnUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Null if nobody knows.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartTurnRequest {
    pub team: String,
    pub generation: u64,
    /// The agent's id.
    #[schema(example = "reviewer@pr-123")]
    pub agent: String,
    /// Which attempt it is at these messages; the first is 1.
    #[schema(minimum = 1)]
    pub attempt: u32,
    pub cause: TurnCause,
    /// The messages that it is shown: they are marked as read by this.
    #[serde(default)]
    pub messages: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndTurnRequest {
    pub outcome: TurnOutcome,
    pub error: Option<TurnError>,
    /// No further attempt follows: a failure gives its messages up, and the channel is told.
    #[serde(default)]
    pub last: bool,
    #[serde(default)]
    pub usage: TurnUsage,
    /// What the program calls its conversation, to go on with it.
    pub conversation: Option<String>,
    /// `sha256:` and the hash of the artifact that tells all of it.
    pub transcript: Option<String>,
    /// Of a turn that is done: what to post in the channel for the agent.
    pub said: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TurnsQuery {
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those of this team.
    pub team: Option<String>,
    /// 100 if left out, at most 1000.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Turns {
    /// The newest first.
    pub turns: Vec<TurnView>,
}

/// A turn as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnView {
    #[schema(example = "turn_0mfg3k1p2")]
    pub turn: String,
    pub team: String,
    pub generation: u64,
    pub agent: String,
    pub attempt: u32,
    pub cause: TurnCause,
    /// What the agent was shown by it.
    pub messages: Vec<String>,
    /// Its place in the log.
    pub seq: u64,
    /// Unix epoch milliseconds.
    pub started_at: i64,
    pub ended_at: Option<i64>,
    /// Null while it is under way.
    pub outcome: Option<TurnOutcome>,
    /// Its messages were given up on.
    pub gave_up: bool,
    pub error: Option<TurnError>,
    pub usage: TurnUsage,
    pub conversation: Option<String>,
    pub transcript: Option<String>,
    /// The message that was posted by its end.
    pub posted: Option<String>,
    /// What could not be posted, and why.
    pub unsaid: Option<TurnUnsaid>,
    /// What the log says that the agent did in it, the newest 50; only where one turn is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub did: Vec<TurnActivityView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TurnUnsaid {
    pub text: String,
    pub reason: String,
}

/// Something that an agent did.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnActivityView {
    pub seq: u64,
    pub kind: &'static str,
    /// In one line.
    pub summary: String,
}

/// Turns, the newest first.
#[utoipa::path(get, path = "/turns", operation_id = "list_turns", tag = "turns", params(TurnsQuery),
    responses((status = 200, body = Turns)))]
pub async fn list(call: Call, Query(query): Query<TurnsQuery>) -> Result<Response, HttpError> {
    call.reader().await?;
    let filter = TurnFilter {
        agent: query.agent.map(AgentId::new),
        team: query.team.as_deref().map(TeamId::parse).transpose()?,
        limit: extract::at_least_one(query.limit)?,
    };
    let found = call.app().engine().query().turns(&filter).await?;
    Ok(answer::at(found.map(|turns| Turns { turns: turns.into_iter().map(|turn| shown(turn, vec![])).collect() })))
}

/// A turn, with what its agent did in it.
#[utoipa::path(get, path = "/turns/{id}", operation_id = "get_turn", tag = "turns", params(("id" = String, Path)),
    responses((status = 200, body = TurnView)))]
pub async fn get(call: Call, Segment(id): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let id = TurnId::new(id);
    let engine = call.app().engine();
    let At { value, head } = engine.query().turn(&id).await?;
    let view = match value {
        Some(turn) => {
            let did = engine.teams().turn_activity(&turn).await?;
            Some(shown(turn, did))
        }
        None => None,
    };
    Ok(answer::at_or_else(At { value: view, head }, turn::not_found(&id)))
}

/// A runner wakes an agent. Refused while another turn of it is under way. For people.
#[utoipa::path(post, path = "/turns", operation_id = "start_turn", tag = "turns", request_body = StartTurnRequest,
    responses((status = 201, body = TurnView)))]
pub async fn start(call: Call, body: JsonBody<StartTurnRequest>) -> Result<Response, HttpError> {
    let asked = body.value;
    let command = StartTurn {
        turn: call.app().engine().teams().mint_turn(),
        team: TeamId::parse(&asked.team)?,
        generation: asked.generation,
        agent: AgentId::new(asked.agent),
        attempt: asked.attempt,
        woken: match asked.cause {
            TurnCause::Messages => WakeReason::Messages,
            TurnCause::Wakeup => WakeReason::Wakeup,
            TurnCause::Direct => WakeReason::Direct,
        },
        messages: asked.messages.into_iter().map(MessageId::new).collect(),
    };
    let caller = in_the_name_of(call.person()?, &command.agent);
    let committed = call.submit(caller, command, &body.bytes).await?;
    Ok(respond(StatusCode::CREATED, committed))
}

/// A runner tells what came of a turn. Done, its messages are acknowledged; failed for the last time, they are given up.
/// For people.
#[utoipa::path(post, path = "/turns/{id}/end", operation_id = "end_turn", tag = "turns",
    params(("id" = String, Path)), request_body = EndTurnRequest, responses((status = 200, body = TurnView)))]
pub async fn end(call: Call, Segment(id): Segment, body: JsonBody<EndTurnRequest>) -> Result<Response, HttpError> {
    let engine = call.app().engine();
    let asked = body.value;
    let command = EndTurn {
        turn: TurnId::new(id),
        how: match asked.outcome {
            TurnOutcome::Done => TurnConclusion::Done,
            TurnOutcome::Failed => TurnConclusion::Failed,
            TurnOutcome::Interrupted => TurnConclusion::Interrupted,
        },
        last: asked.last,
        failure: asked.error.map(|error| Failure { kind: error.kind, reason: error.message, detail: error.hint }),
        usage: usage(asked.usage)?,
        notes: Notes { conversation: asked.conversation, transcript: asked.transcript.as_deref().map(hash) },
        said: asked.said,
        message: engine.inbox().mint_message(),
        people: vec![],
        guard: engine.config().storm_guard(),
    };
    let runner = call.person()?;
    let known = engine.query().turn(&command.turn).await?.value;
    let caller = known.map_or(runner.clone(), |turn| in_the_name_of(runner, &turn.agent));
    let committed = call.submit(caller, command, &body.bytes).await?;
    Ok(respond(StatusCode::OK, committed))
}

/// The agent is the author of its turn's events, no matter who runs it.
fn in_the_name_of(runner: Caller, agent: &AgentId) -> Caller {
    let through = runner.acting_through.clone().or_else(|| Some(runner.actor.to_string()));
    Caller { actor: Actor::Agent(agent.clone()), acting_through: through, ..runner }
}

fn respond(status: StatusCode, committed: Committed<Turn>) -> Response {
    let (turn, committed) = committed.into_parts();
    answer::written(status, &committed, shown(turn, vec![]))
}

/// A hash as it is given here, or as a reference to an artifact; what is neither is for the rule to refuse.
fn hash(text: &str) -> String {
    text.strip_prefix(HASH).or_else(|| referred(text)).unwrap_or(text).to_owned()
}

fn usage(usage: TurnUsage) -> Result<Usage, HttpError> {
    let cost_micros = match usage.cost_usd {
        None => None,
        Some(dollars) if dollars >= 0.0 && dollars <= f64::from(u32::MAX) =>
        {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within bounds")]
            Some((dollars * MICROS_OF_A_DOLLAR).round() as u64)
        }
        Some(_) => return Err(HttpError::invalid("usage.cost_usd must be an amount of dollars")),
    };
    Ok(Usage { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens, cost_micros })
}

pub fn dollars(micros: Option<u64>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "so much money is told roughly")]
    micros.map(|micros| micros as f64 / MICROS_OF_A_DOLLAR)
}

pub fn shown(turn: Turn, did: Vec<TurnActivity>) -> TurnView {
    let end = turn.end;
    let usage = end.as_ref().map(|end| end.usage).unwrap_or_default();
    TurnView {
        turn: turn.id.to_string(),
        team: turn.of.team.to_string(),
        generation: turn.of.generation,
        agent: turn.agent.to_string(),
        attempt: turn.attempt,
        cause: match turn.woken {
            WakeReason::Messages => TurnCause::Messages,
            WakeReason::Wakeup => TurnCause::Wakeup,
            WakeReason::Direct => TurnCause::Direct,
        },
        messages: turn.messages.iter().map(ToString::to_string).collect(),
        seq: turn.started.0,
        started_at: turn.started_at.0,
        ended_at: end.as_ref().map(|end| end.at.0),
        outcome: end.as_ref().map(|end| match end.how {
            TurnConclusion::Done => TurnOutcome::Done,
            TurnConclusion::Failed => TurnOutcome::Failed,
            TurnConclusion::Interrupted => TurnOutcome::Interrupted,
        }),
        gave_up: end.as_ref().is_some_and(|end| end.gave_up),
        error: end.as_ref().and_then(|end| end.failure.clone()).map(|failure| TurnError {
            message: failure.reason,
            hint: failure.detail,
            kind: failure.kind,
        }),
        usage: TurnUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: dollars(usage.cost_micros),
        },
        conversation: end.as_ref().and_then(|end| end.conversation.clone()),
        transcript: end.as_ref().and_then(|end| end.transcript.as_ref()).map(|hash| format!("{HASH}{hash}")),
        posted: end.as_ref().and_then(|end| end.posted.as_ref()).map(ToString::to_string),
        unsaid: end.and_then(|end| end.unsaid).map(|unsaid| TurnUnsaid { text: unsaid.text, reason: unsaid.reason }),
        did: did
            .into_iter()
            .map(|activity| TurnActivityView { seq: activity.seq.0, kind: activity.kind, summary: activity.summary })
            .collect(),
    }
}
