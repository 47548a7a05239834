//! Teams: what runners run. A runner tells by these calls that it starts a team, kicks it off and ends it; people and other
//! programs see what it is at, and ask it to stop.

use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::kernel::instance::bare;
use rookery_core::model::team;
use rookery_core::model::team::{Conclusion, Member, Mode, Runner, Team};
use rookery_core::teams::{AnnounceToTeam, EndTeam, KickOff, NewMember, RequestTeamStop, StartTeam, Takeover};
use rookery_core::{SiteId, TeamId};
use rookery_engine::Committed;
use rookery_engine::teams::TeamFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::turns::{self, TurnView};
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, JsonBody, MaybeBody, Query, Segment};

/// How a team is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TeamMode {
    /// Until nobody has anything left to do.
    Run,
    /// Until it is stopped.
    Start,
    /// One agent, until it is stopped.
    Standalone,
}

/// What came of a team.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TeamOutcome {
    Completed,
    Failed,
    Stopped,
    Interrupted,
}

/// The process that runs a team.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct TeamRunner {
    pub host: String,
    /// Which boot of the machine.
    pub boot_id: String,
    pub pid: u32,
    /// When the process began, as its machine counts.
    pub started_at: StartTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StartTime {
    Ticks(u64),
    Text(String),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartTeamRequest {
    /// The workflow's name.
    pub workflow: String,
    /// The workflow file, as people are shown it.
    pub file: Option<String>,
    pub mode: TeamMode,
    pub agents: Vec<TeamAgentRequest>,
    pub runner: TeamRunner,
    /// Whoever asks knows that the runner in the log is gone: go on with the same generation.
    #[serde(default)]
    pub takeover: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TeamAgentRequest {
    /// Its name in the instance.
    #[schema(example = "reviewer")]
    pub name: String,
    pub backend: String,
    pub model: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TeamStart {
    pub team: String,
    /// Counted up each time that it begins anew.
    pub generation: u64,
    /// It goes on where it was.
    pub resumed: bool,
    /// Its kickoff is out, and need not be sent again.
    pub kicked_off: bool,
    /// The turns that were under way when its runner went away.
    pub interrupted: Vec<TurnView>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KickoffRequest {
    pub generation: u64,
    /// What the team is told; only that it began if left out.
    pub text: Option<String>,
    /// Whom the text wakes, by their names in the team; whomever it mentions if left out.
    pub mentions: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SayRequest {
    pub text: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Said {
    pub ok: bool,
    /// The id of the message.
    pub message: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Only this agent of the team.
    pub agent: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndTeamRequest {
    pub generation: u64,
    pub outcome: TeamOutcome,
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TeamsQuery {
    /// Only those that are run, or only those that are not.
    pub live: Option<bool>,
    /// 100 if left out, at most 1000.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Teams {
    /// Those that are run first, the newest first of either.
    pub teams: Vec<TeamView>,
}

/// A team as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub struct TeamView {
    /// `@instance`, or the id of the agent that runs alone.
    #[schema(example = "@pr-123")]
    pub id: String,
    pub instance: String,
    pub workflow: String,
    pub file: Option<String>,
    pub mode: TeamMode,
    pub generation: u64,
    /// Somebody runs it, as far as the log knows.
    pub live: bool,
    /// Its runner was a process of the machine that was asked, and is gone: starting it goes on with it, `force-end` ends it.
    pub lost: bool,
    pub kicked_off: bool,
    /// What its kickoff posted.
    pub kickoff_messages: Vec<String>,
    /// Somebody wants all of it to stop.
    pub stop_requested: bool,
    pub stop_reason: Option<String>,
    pub runner: TeamRunner,
    pub agents: Vec<TeamAgent>,
    /// Turns that have ended.
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
    pub outcome: Option<TeamOutcome>,
    pub reason: Option<String>,
    /// Where in the log this generation of it begins.
    pub started_seq: u64,
    /// Unix epoch milliseconds.
    pub started_at: i64,
    pub resumed_at: Option<i64>,
    pub ended_at: Option<i64>,
}

/// An agent of a team, and what it did in this generation.
#[derive(Debug, Serialize, ToSchema)]
pub struct TeamAgent {
    /// Its name in the instance.
    pub name: String,
    pub id: String,
    pub backend: String,
    pub model: Option<String>,
    /// idle, working, waiting (to try again), stopped or failed.
    pub state: &'static str,
    /// Turns that have ended.
    pub turns: u64,
    pub failed_turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
    /// The turn that it is at.
    pub open_turn: Option<String>,
    /// Somebody wants this agent to stop.
    pub stop_requested: bool,
    pub stop_reason: Option<String>,
}

/// The teams that are run, and those that were.
#[utoipa::path(get, path = "/teams", operation_id = "list_teams", tag = "teams", params(TeamsQuery),
    responses((status = 200, body = Teams)))]
pub async fn list(call: Call, Query(query): Query<TeamsQuery>) -> Result<Response, HttpError> {
    call.reader().await?;
    let filter = match query.live {
        None => TeamFilter::All,
        Some(true) => TeamFilter::Live,
        Some(false) => TeamFilter::Ended,
    };
    let limit = extract::at_least_one(query.limit)?;
    let found = call.app().engine().query().teams(filter, limit).await?;
    Ok(answer::at(found.map(|teams| Teams { teams: teams.into_iter().map(|team| shown(&call, team)).collect() })))
}

/// A team: what its agents are at, and what they used.
#[utoipa::path(get, path = "/teams/{id}", operation_id = "get_team", tag = "teams", params(("id" = String, Path)),
    responses((status = 200, body = TeamView)))]
pub async fn get(call: Call, Segment(id): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    shown_now(&call, &TeamId::parse(&id)?).await
}

pub async fn shown_now(call: &Call, id: &TeamId) -> Result<Response, HttpError> {
    let found = call.app().engine().query().team(id).await?;
    Ok(answer::at_or_else(found.map(|team| team.map(|team| shown(call, team))), team::not_found(id)))
}

/// A runner starts a team, or goes on with one whose runner is gone. For people.
#[utoipa::path(post, path = "/teams/{id}/start", operation_id = "start_team", tag = "teams",
    params(("id" = String, Path)), request_body = StartTeamRequest, responses((status = 200, body = TeamStart)))]
pub async fn start(call: Call, Segment(id): Segment, body: JsonBody<StartTeamRequest>) -> Result<Response, HttpError> {
    let team = TeamId::parse(&id)?;
    let asked = body.value;
    let agent = |agent: TeamAgentRequest| NewMember {
        agent: team.member(&agent.name),
        backend: agent.backend,
        model: agent.model,
    };
    let command = StartTeam {
        workflow: asked.workflow,
        file: asked.file,
        mode: mode(asked.mode),
        agents: asked.agents.into_iter().map(agent).collect(),
        runner: runner(asked.runner),
        takeover: if asked.takeover { Takeover::FromTheDead } else { Takeover::Refused },
        team,
    };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    let (team, committed) = committed.into_parts();
    let interrupted = call.app().engine().query().turns_by_id(&team.interrupted).await?;
    let started = TeamStart {
        team: team.id().to_string(),
        generation: team.of.generation,
        resumed: team.resumed_at.is_some(),
        kicked_off: team.kickoff.is_some(),
        interrupted: interrupted.into_iter().map(|turn| turns::shown(turn, vec![])).collect(),
    };
    Ok(answer::written(StatusCode::OK, &committed, started))
}

/// Tell a team that it began, and what to do. Once in each generation, however often it is asked for. For people.
#[utoipa::path(post, path = "/teams/{id}/kickoff", operation_id = "kick_off_team", tag = "teams",
    params(("id" = String, Path)), request_body = KickoffRequest, responses((status = 200, body = TeamView)))]
pub async fn kick_off(call: Call, Segment(id): Segment, body: JsonBody<KickoffRequest>) -> Result<Response, HttpError> {
    let engine = call.app().engine();
    let command = KickOff {
        team: TeamId::parse(&id)?,
        generation: body.value.generation,
        text: body.value.text,
        mentions: body.value.mentions,
        messages: [engine.inbox().mint_message(), engine.inbox().mint_message()],
    };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    Ok(respond(&call, committed))
}

/// Say something in the channel of a team as the system. For people.
#[utoipa::path(post, path = "/teams/{id}/announcements", operation_id = "announce_to_team", tag = "teams",
    params(("id" = String, Path)), request_body = SayRequest, responses((status = 200, body = Said)))]
pub async fn say(call: Call, Segment(id): Segment, body: JsonBody<SayRequest>) -> Result<Response, HttpError> {
    let message = call.app().engine().inbox().mint_message();
    let command = AnnounceToTeam { team: TeamId::parse(&id)?, message, text: body.value.text };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    let said = Said { ok: true, message: committed.reply.id().to_string() };
    Ok(answer::written(StatusCode::OK, &committed, said))
}

/// Ask a team, or one agent of it, to stop. Its runner sees to it. For people.
#[utoipa::path(post, path = "/teams/{id}/stop", operation_id = "stop_team", tag = "teams",
    params(("id" = String, Path)), request_body = StopRequest, responses((status = 200, body = TeamView)))]
pub async fn stop(call: Call, Segment(id): Segment, body: MaybeBody<StopRequest>) -> Result<Response, HttpError> {
    let team = TeamId::parse(&id)?;
    let member = body.value.agent.map(|name| team.member(&name));
    let command = RequestTeamStop { team, member, reason: body.value.reason };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    Ok(respond(&call, committed))
}

/// A runner tells that its team has ended. What was under way is interrupted. For people.
#[utoipa::path(post, path = "/teams/{id}/end", operation_id = "end_team", tag = "teams",
    params(("id" = String, Path)), request_body = EndTeamRequest, responses((status = 200, body = TeamView)))]
pub async fn end(call: Call, Segment(id): Segment, body: JsonBody<EndTeamRequest>) -> Result<Response, HttpError> {
    let how = match body.value.outcome {
        TeamOutcome::Completed => Conclusion::Completed,
        TeamOutcome::Failed => Conclusion::Failed,
        TeamOutcome::Stopped => Conclusion::Stopped,
        TeamOutcome::Interrupted => Conclusion::Interrupted,
    };
    let command =
        EndTeam { team: TeamId::parse(&id)?, generation: body.value.generation, how, reason: body.value.reason };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    Ok(respond(&call, committed))
}

fn respond(call: &Call, committed: Committed<Team>) -> Response {
    let (team, committed) = committed.into_parts();
    answer::written(StatusCode::OK, &committed, shown(call, team))
}

fn mode(mode: TeamMode) -> Mode {
    match mode {
        TeamMode::Run => Mode::Run,
        TeamMode::Start => Mode::Start,
        TeamMode::Standalone => Mode::Standalone,
    }
}

fn runner(runner: TeamRunner) -> Runner {
    let TeamRunner { host, boot_id, pid, started_at, site } = runner;
    let started_at = match started_at {
        StartTime::Ticks(ticks) => team::StartTime::Ticks(ticks),
        StartTime::Text(text) => team::StartTime::Text(text),
    };
    Runner { host, boot_id, pid, started_at, site: site.map(SiteId::new) }
}

fn shown_runner(runner: &Runner) -> TeamRunner {
    let started_at = match &runner.started_at {
        team::StartTime::Ticks(ticks) => StartTime::Ticks(*ticks),
        team::StartTime::Text(text) => StartTime::Text(text.clone()),
    };
    let (host, boot_id) = (runner.host.clone(), runner.boot_id.clone());
    TeamRunner { host, boot_id, pid: runner.pid, started_at, site: runner.site.as_ref().map(ToString::to_string) }
}

fn shown(call: &Call, team: Team) -> TeamView {
    let usage = team.usage();
    let lost = call.app().engine().teams().starter().is_ok_and(|team_starter| team_starter.is_lost(&team));
    let outcome = team.ended.as_ref().map(|ended| match ended.how {
        Conclusion::Completed => TeamOutcome::Completed,
        Conclusion::Failed => TeamOutcome::Failed,
        Conclusion::Stopped => TeamOutcome::Stopped,
        Conclusion::Interrupted => TeamOutcome::Interrupted,
    });
    TeamView {
        id: team.id().to_string(),
        instance: team.instance().to_string(),
        mode: match team.mode {
            Mode::Run => TeamMode::Run,
            Mode::Start => TeamMode::Start,
            Mode::Standalone => TeamMode::Standalone,
        },
        generation: team.of.generation,
        live: team.is_live(),
        lost,
        kicked_off: team.kickoff.is_some(),
        kickoff_messages: team.kickoff.iter().flat_map(|kickoff| &kickoff.messages).map(ToString::to_string).collect(),
        stop_requested: team.stop.is_some(),
        stop_reason: team.stop.as_ref().and_then(|stop| stop.reason.clone()),
        runner: shown_runner(&team.runner),
        agents: team.members.iter().map(|member| shown_member(&team, member)).collect(),
        turns: team.turns(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cost_usd: turns::dollars(usage.cost_micros),
        outcome,
        reason: team.ended.as_ref().and_then(|ended| ended.reason.clone()),
        started_seq: team.started.0,
        started_at: team.started_at.0,
        resumed_at: team.resumed_at.map(|at| at.0),
        ended_at: team.ended.as_ref().map(|ended| ended.at.0),
        workflow: team.workflow,
        file: team.file,
    }
}

fn shown_member(team: &Team, member: &Member) -> TeamAgent {
    TeamAgent {
        name: bare(&member.agent).to_owned(),
        id: member.agent.to_string(),
        backend: member.backend.clone(),
        model: member.model.clone(),
        state: team.state_of(member).as_str(),
        turns: member.turns,
        failed_turns: member.failed,
        input_tokens: member.usage.input_tokens,
        output_tokens: member.usage.output_tokens,
        cost_usd: turns::dollars(member.usage.cost_micros),
        open_turn: member.turn.as_ref().map(ToString::to_string),
        stop_requested: member.stop.is_some(),
        stop_reason: member.stop.as_ref().and_then(|stop| stop.reason.clone()),
    }
}
