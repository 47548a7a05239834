//! Groups of agents, to be named as recipients.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::groups::{RemoveGroup, SetGroup};
use rookery_core::model::addressee::Address;
use rookery_core::model::group::Group;
use rookery_core::{AgentId, Rejection, Seq};
use rookery_engine::At;
use rookery_engine::query::Members;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::call::{Call, JsonBody, Query, Segment};
use super::{ClutchError, ClutchErrorBody};
use crate::http::answer::Done;
use crate::http::paging::PageQuery;
use crate::http::{App, answer};

/// Who shall be in a group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRequest {
    /// Agents, with or without `agent:`. They need not be here yet.
    members: Vec<String>,
    /// As in the address, if it is given.
    name: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct GroupMembers {
    name: String,
    members: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct GroupList {
    groups: Vec<GroupMembers>,
    /// What to ask for next with `after`, if there may be more.
    next: Option<u64>,
}

/// Set who is in a group. The new list takes the place of the one before.
#[utoipa::path(put, path = "/clutch/v0/groups/{name}", tag = "clutch", operation_id = "clutch_set_group",
    params(("name" = String, Path)), request_body = GroupRequest,
    responses((status = 200, body = GroupMembers), (status = 400, body = ClutchErrorBody)))]
pub async fn set(call: Call, Segment(group): Segment, body: JsonBody<GroupRequest>) -> Result<Response, ClutchError> {
    if let Some(name) = body.value.name.as_ref().filter(|name| **name != group) {
        return Err(ClutchError::invalid("/name", format!("names '{name}', and the address '{group}'")));
    }
    let members = body.value.members.iter().enumerate().map(member).collect::<Result<Vec<AgentId>, ClutchError>>()?;
    let committed = call.submit(call.anybody()?, SetGroup { group, members }, &body.bytes).await?;
    let (group, committed) = committed.into_parts();
    Ok(answer::written(StatusCode::OK, &committed, shown(group)))
}

fn member((index, text): (usize, &String)) -> Result<AgentId, ClutchError> {
    match Address::parse(text) {
        Some(Address::Agent(id)) => Ok(id),
        _ => {
            let message = format!("'{text}' is no agent; a group has agents in it, like 'agent:ken'");
            Err(ClutchError::invalid(&format!("/members/{index}"), message))
        }
    }
}

/// Who is in a group: those on its list, or everybody here with the role that it names.
#[utoipa::path(get, path = "/clutch/v0/groups/{name}", tag = "clutch", operation_id = "clutch_group",
    params(("name" = String, Path)),
    responses((status = 200, body = GroupMembers), (status = 404, body = ClutchErrorBody)))]
pub async fn get(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<axum::Json<GroupMembers>, ClutchError> {
    call.reader().await?;
    match app.engine().query().group(&name).await? {
        Some(Members::Listed(group)) => Ok(axum::Json(shown(group))),
        Some(Members::OfRole(members)) => Ok(axum::Json(GroupMembers { name, members: addresses(members) })),
        None => Err(Rejection::no_group(&name).into()),
    }
}

/// The groups with a list, in the order in which they were set last.
#[utoipa::path(get, path = "/clutch/v0/groups", tag = "clutch", operation_id = "clutch_groups", params(PageQuery),
    responses((status = 200, body = GroupList)))]
pub async fn list(State(app): State<App>, call: Call, Query(page): Query<PageQuery>) -> Result<Response, ClutchError> {
    call.reader().await?;
    let At { value: found, head } = app.engine().query().groups(page.after(), page.limit()).await?;
    let set: Vec<Seq> = found.iter().map(|group| group.set).collect();
    let groups = found.into_iter().map(shown).collect();
    Ok(answer::at(At { value: GroupList { groups, next: page.next(&set) }, head }))
}

/// Remove a group. What was sent to it stays with whom it reached.
#[utoipa::path(delete, path = "/clutch/v0/groups/{name}", tag = "clutch", operation_id = "clutch_remove_group",
    params(("name" = String, Path)),
    responses((status = 200, body = Done), (status = 404, body = ClutchErrorBody)))]
pub async fn remove(call: Call, Segment(group): Segment) -> Result<Response, ClutchError> {
    let committed = call.submit(call.anybody()?, RemoveGroup { group }, &Bytes::new()).await?;
    Ok(answer::written(StatusCode::OK, &committed, Done { ok: true }))
}

fn shown(group: Group) -> GroupMembers {
    GroupMembers { name: group.name, members: addresses(group.members) }
}

fn addresses(members: Vec<AgentId>) -> Vec<String> {
    members.into_iter().map(|id| Address::Agent(id).to_string()).collect()
}
