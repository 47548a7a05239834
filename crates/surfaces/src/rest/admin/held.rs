//! Messages that were held because they looked like a storm: a person looks at them and decides.

use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::MessageId;
use rookery_core::messages::{ReleaseHeld, Verdict};
use rookery_core::model::message::{Fate, Hold, Message};
use rookery_engine::At;

use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, MaybeBody, Query, Segment};
use crate::rest::wire;

/// The messages that wait for a person, oldest first.
#[utoipa::path(get, path = "/admin/messages/held", tag = "admin", params(wire::HeldQuery),
    responses((status = 200, body = Vec<wire::HeldMessage>)))]
pub async fn list(call: Call, Query(query): Query<wire::HeldQuery>) -> Result<Response, HttpError> {
    call.person()?;
    let At { value, head } = call.app().engine().query().held_messages(extract::at_least_one(query.limit)?).await?;
    Ok(answer::at(At { value: value.into_iter().map(shown).collect::<Vec<_>>(), head }))
}

/// Deliver a held message as if it were sent now, or discard it for good.
#[utoipa::path(post, path = "/admin/messages/{id}/decision", tag = "admin", params(("id" = String, Path)),
    request_body = wire::HeldDecision, responses((status = 200, body = answer::Done)))]
pub async fn decide(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<wire::HeldDecision>,
) -> Result<Response, HttpError> {
    let verdict = match body.value.verdict {
        wire::HeldVerdict::Deliver => Verdict::Deliver,
        wire::HeldVerdict::Discard => Verdict::Discard { reason: body.value.reason },
    };
    let command = ReleaseHeld { message: MessageId::new(id.as_str()), verdict };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    Ok(answer::written(StatusCode::OK, &committed, answer::Done { ok: true }))
}

fn shown(message: Message) -> wire::HeldMessage {
    let reason = match message.fate {
        Fate::Held(Hold::Hops { most }) => {
            format!("agents have answered each other more than {most} times in a row without a person")
        }
        Fate::Held(Hold::Rate { per_minute }) => format!("its author sends more than {per_minute} messages a minute"),
        Fate::Sent | Fate::Discarded { .. } => String::new(),
    };
    wire::HeldMessage {
        id: message.id().to_string(),
        from: message.letter.header.from.to_string(),
        at: message.at.0,
        subject: message.letter.subject,
        text: message.letter.text,
        reason,
    }
}
