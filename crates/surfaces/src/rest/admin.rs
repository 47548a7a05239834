//! For people: what this daemon is, tokens, and taking secrets out of the log.

pub mod held;

use rookery_core::{Actor, Authority, Code, EventRef, IntentId, Rejection, Seq};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use regex::bytes::Regex;
use rookery_core::kernel::session_key::hash;
use rookery_core::redaction::{Erase, Redact, Target};
use rookery_core::traits::{BodyBytes, LogRow};
use rookery_engine::access::NewToken;
use rookery_engine::artifacts::{Collected, Trial};
use rookery_engine::credentials::Trust;
use rookery_engine::{ArtifactError, At, Bodies, EngineError, Health, LogQuery, Token, Waited, ports};

use super::wire::{self, TokenRole};
use crate::http::extract::{self, Call, JsonBody, MaybeBody, Segment};
use crate::http::{App, HttpError, answer};

/// How many events one call redacts at most.
const MAX_REDACTED: usize = 1_000;
/// How much text one call takes out at most; the event that reaches it is the last one.
const REDACT_BYTES: usize = 8 * 1024 * 1024;
const REDACT_WAITS: Duration = Duration::from_secs(5);

/// What this daemon is and how it is.
#[utoipa::path(get, path = "/admin/info", tag = "admin", responses((status = 200, body = wire::Info)))]
pub async fn info(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let (engine, about) = (app.engine(), app.about());
    let At { value: tallies, head } = engine.query().tallies().await?;
    let mut warnings = Vec::new();
    if let Some(held) = tallies.get("messages.held").filter(|held| **held > 0) {
        warnings.push(format!("messages held for a person: {held}; 'rookery context held' shows them"));
    }
    let writable = match engine.health() {
        Health::Writable => true,
        Health::ReadOnly { reason, .. } => {
            warnings.push(format!("the store cannot write: {reason}"));
            false
        }
    };
    let sight = about.sight.borrow().clone();
    warnings.extend(sight.warnings());
    warnings.extend(engine.cluster().warnings());
    warnings.extend(engine.dispatcher().warnings().await?);
    warnings.extend(about.rendered.borrow().warnings.iter().cloned());
    let info = wire::Info {
        version: about.version.to_owned(),
        project: engine.config().project.clone(),
        project_id: about.project_id.clone(),
        store: about.store.clone(),
        log: head.log.to_string(),
        floor: head.floor.0,
        head: head.head.0,
        writable,
        watching: sight.is_watching(),
        tokens_required: engine.access().trust() == Trust::TokensOnly,
        subscriptions: app.streams().taken(),
        uptime_ms: engine.clock().now().0 - about.started_at,
        warnings,
    };
    Ok(answer::at(At { value: info, head }))
}

/// The tokens that exist, without their secrets.
#[utoipa::path(get, path = "/admin/tokens", tag = "admin", responses((status = 200, body = Vec<wire::TokenInfo>)))]
pub async fn list_tokens(State(app): State<App>, call: Call) -> Result<Json<Vec<wire::TokenInfo>>, HttpError> {
    call.person()?;
    let tokens = app.engine().access().tokens().await?;
    let shown = tokens.into_iter().map(|token| wire::TokenInfo {
        id: token.id,
        agent: token.subject,
        role: match token.power {
            Authority::Observer => TokenRole::Observer,
            Authority::Agent => TokenRole::Agent,
            Authority::Lead => TokenRole::Lead,
            Authority::Person => TokenRole::Person,
        },
        created_at: token.created_at.0,
        expires_at: token.expires_at.map(|at| at.0),
        label: token.label,
    });
    Ok(Json(shown.collect()))
}

/// Create a token. Its secret is shown once and only its hash is kept.
#[utoipa::path(post, path = "/admin/tokens", tag = "admin", request_body = wire::NewToken,
    responses((status = 201, body = wire::CreatedToken)))]
pub async fn create_token(call: Call, body: JsonBody<wire::NewToken>) -> Result<Response, HttpError> {
    call.person()?;
    let [subject] = extract::need("agent is required", [&body.value.agent])?;
    rookery_core::kernel::instance::check_name("agent", &subject)?;
    let label = body.value.label.as_deref().unwrap_or("");
    rookery_core::kernel::limit::text("label", label, rookery_core::kernel::limit::NAME_BYTES)?;
    let role = body.value.role.unwrap_or(TokenRole::Agent);
    if role != TokenRole::Person && Actor::is_reserved(&subject) {
        return Err(HttpError::invalid(format!("'{subject}' cannot be an agent")));
    }
    let engine = call.app().engine();
    let of = if role == TokenRole::Person { NewToken::OfPerson } else { NewToken::OfAgent };
    engine.access().check_token_name(of, subject.trim_start_matches("person:")).await?;
    let secret = format!("rkt_{}", ports::secret());
    let now = engine.clock().now();
    let token = Token {
        id: engine.mint("tok_"),
        hash: hash(&secret),
        subject: subject.trim_start_matches("person:").to_owned(),
        power: match role {
            TokenRole::Observer => Authority::Observer,
            TokenRole::Agent => Authority::Agent,
            TokenRole::Lead => Authority::Lead,
            TokenRole::Person => Authority::Person,
        },
        created_at: now,
        expires_at: body.value.expires_in_seconds.map(|seconds| now.plus_millis(seconds.saturating_mul(1000))),
        label: body.value.label,
        browser: None,
    };
    let id = token.id.clone();
    engine.access().create_token(token).await?;
    Ok((StatusCode::CREATED, Json(wire::CreatedToken { id, token: secret })).into_response())
}

/// Revoke a token at once.
#[utoipa::path(delete, path = "/admin/tokens/{id}", tag = "admin", params(("id" = String, Path)),
    responses((status = 200, body = answer::Done)))]
pub async fn revoke_token(
    State(app): State<App>,
    call: Call,
    Segment(id): Segment,
) -> Result<Json<answer::Done>, HttpError> {
    call.person()?;
    if !app.engine().access().revoke_token(&id).await? {
        return Err(Rejection::new(Code::TokenNotFound, "Token not found").into());
    }
    Ok(Json(answer::Done { ok: true }))
}

/// Remove artifacts that nothing names. A bounded number of them in one call.
#[utoipa::path(post, path = "/admin/artifacts/collect", tag = "admin", request_body = wire::CollectRequest,
    responses((status = 200, body = wire::CollectResult)))]
pub async fn collect_artifacts(
    call: Call,
    body: MaybeBody<wire::CollectRequest>,
) -> Result<Json<wire::CollectResult>, HttpError> {
    call.person()?;
    let engine = call.app().engine();
    let age = body.value.older_than_seconds.map_or(engine.settings().keep_artifacts, Duration::from_secs);
    let dry_run = body.value.dry_run.unwrap_or(false);
    let trial = if dry_run { Trial::Dry } else { Trial::Real };
    let Collected { artifacts: removed, bytes, young, more } = engine.artifacts().collect(age, trial).await?;
    Ok(Json(wire::CollectResult { removed, bytes, young, more, dry_run }))
}

/// Take texts and bodies out of the log. The rows and their hashes stay, and a fact says what was done.
#[utoipa::path(post, path = "/admin/redact", tag = "admin", request_body = wire::RedactRequest,
    responses((status = 200, body = wire::RedactResult)))]
pub async fn redact(call: Call, body: JsonBody<wire::RedactRequest>) -> Result<Json<wire::RedactResult>, HttpError> {
    let caller = call.person()?;
    let app = call.app();
    let (rows, remaining) = match (&body.value.seqs, &body.value.pattern) {
        (Some(seqs), None) => (by_seq(app, seqs).await?, vec![]),
        (None, Some(pattern)) => by_match(app, pattern).await?,
        _ => return Err(HttpError::invalid("either seqs or match is required")),
    };
    let redacted: Vec<u64> = rows.iter().map(|row| row.seq.0).collect();
    if rows.is_empty() {
        return Ok(Json(wire::RedactResult { redacted, remaining, pending: vec![] }));
    }
    let rows: Vec<Target> = rows.into_iter().map(|row| target(app, row)).collect();
    let intents: Vec<IntentId> =
        rows.iter().filter_map(|row| row.artifact.as_ref()).map(|erase| erase.intent.clone()).collect();
    // The request itself would name what is to be forgotten: its body is not kept.
    let request = rookery_engine::Request::new(caller, Redact { rows });
    let waited = app.engine().submit_and_wait(request, intents, REDACT_WAITS).await?;
    let pending = match waited {
        Waited::Done(_) => vec![],
        Waited::Pending(_, open) => open.iter().map(ToString::to_string).collect(),
    };
    Ok(Json(wire::RedactResult { redacted, remaining, pending }))
}

fn target(app: &App, row: LogRow) -> Target {
    let artifact = row.body.filter(|body| body.bytes == BodyBytes::Artifact);
    Target {
        seq: row.seq,
        fact: row.event,
        artifact: artifact.map(|body| Erase { intent: app.engine().mint_intent(), sha256: body.sha256 }),
    }
}

async fn by_seq(app: &App, seqs: &[u64]) -> Result<Vec<LogRow>, HttpError> {
    if seqs.len() > MAX_REDACTED {
        return Err(HttpError::invalid(format!("at most {MAX_REDACTED} events in one call")));
    }
    let mut rows = Vec::new();
    for seq in seqs {
        let unknown = || HttpError::from(Rejection::new(Code::EventNotFound, format!("there is no event {seq}")));
        if i64::try_from(*seq).is_err() || *seq == 0 {
            return Err(unknown());
        }
        let query = LogQuery { bodies: Bodies::Read, ..LogQuery::one(Seq(*seq)) };
        rows.push(app.engine().query().log(query).await?.value.pop().ok_or_else(unknown)?);
    }
    Ok(rows)
}

/// The events to clear because a text or the body matches, and those that will show it all the same.
async fn by_match(app: &App, pattern: &str) -> Result<(Vec<LogRow>, Vec<u64>), HttpError> {
    let regex = Regex::new(pattern).map_err(|error| HttpError::invalid(format!("match: {error}")))?;
    let (mut rows, mut remaining, mut after) = (Vec::new(), Vec::new(), Seq::ZERO);
    let mut bytes = 0;
    loop {
        let query = LogQuery { bodies: Bodies::Read, ..LogQuery::after(after, 500) };
        let page = app.engine().query().log(query).await?.value;
        let Some(last) = page.last() else { return Ok((rows, remaining)) };
        after = last.seq;
        for row in page {
            if rows.len() >= MAX_REDACTED
                || bytes >= REDACT_BYTES
                || matches!(row.event.typed(), EventRef::LogRedacted(_))
            {
                continue;
            }
            if regex.is_match(&row.event.blanked()) {
                remaining.push(row.seq.0);
            }
            let in_text = row.event.texts().iter().any(|text| regex.is_match(text.as_bytes()));
            if in_text || body_holds(app, &row, &regex).await? {
                bytes += row.event.encode().len();
                rows.push(row);
            }
        }
    }
}

async fn body_holds(app: &App, row: &LogRow, regex: &Regex) -> Result<bool, HttpError> {
    Ok(match row.body.as_ref().map(|body| (&body.bytes, &body.sha256)) {
        Some((BodyBytes::Here(bytes), _)) => regex.is_match(bytes),
        Some((BodyBytes::Artifact, sha256)) => match app.engine().artifacts().read_all(sha256).await {
            Ok(bytes) => regex.is_match(&bytes),
            // One that nobody can look into right now must not pass for one that holds nothing.
            Err(error @ ArtifactError::Unavailable { .. }) => return Err(EngineError::from(error).into()),
            Err(ArtifactError::Absent { .. } | ArtifactError::Damaged { .. }) => false,
        },
        Some((BodyBytes::Gone, _)) | None => false,
    })
}
