//! REST v0.1: agents, resources, tasks, handoffs, events and the event stream, as plain JSON over HTTP.
//!
//! Paths, fields and statuses are the contract's. Beyond it: fields that other faces know (`state`, `metadata`, …),
//! listing filters, locks, conflict resolution, a person's actions on tasks, and `/admin` for people.
//! A handler parses, submits and renders; events are named in `event_names`, everything else is translated in `translate`.

mod admin;
mod agents;
mod channels;
mod contexts;
mod documents;
pub mod event_names;
mod events;
mod handoffs;
pub mod openapi;
mod resources;
pub mod sign_in;
mod status;
mod stream;
mod tasks;
mod team_files;
mod teams;
pub mod translate;
mod turns;
pub mod wire;

use axum::Router;
use axum::routing::{delete, get, patch, post};

use crate::http::App;

pub fn routes() -> Router<App> {
    Router::new()
        .route("/status", get(status::status))
        .route("/state", get(status::state))
        .route("/agents", get(agents::list))
        .route("/agents/announce", post(agents::announce).get(agents::named_announce).delete(agents::leave_announce))
        .route("/agents/{id}", get(agents::get).delete(agents::leave))
        .route("/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/agents/{id}/status", patch(agents::set_status))
        .route("/agents/{id}/pause", post(agents::pause))
        .route("/agents/{id}/resume", post(agents::resume))
        .route("/resources", get(resources::list))
        // Files may be called like our verbs: reading them by name still works.
        .route("/resources/claim", post(resources::claim).get(resources::named_claim))
        .route("/resources/release", post(resources::release).get(resources::named_release))
        .route("/resources/resolve", post(resources::resolve).get(resources::named_resolve))
        .route("/resources/lock", post(resources::lock).get(resources::named_lock))
        .route("/resources/unlock", post(resources::unlock).get(resources::named_unlock))
        .route("/resources/{*path}", get(resources::get))
        .route("/tasks", get(tasks::list).post(tasks::create))
        .route("/tasks/{id}", get(tasks::get).patch(tasks::update))
        .route("/tasks/{id}/assign", post(tasks::assign))
        .route("/tasks/{id}/retry", post(tasks::retry))
        .route("/tasks/{id}/cancel", post(tasks::cancel))
        .route("/handoffs", get(handoffs::list).post(handoffs::create))
        .route("/handoffs/{id}", get(handoffs::get))
        .route("/handoffs/{id}/accept", patch(handoffs::accept))
        .route("/handoffs/{id}/reject", patch(handoffs::reject))
        .route("/events", get(events::list).post(events::report))
        .route("/events/stream", get(stream::stream))
        .route("/events/{id}", get(events::get))
        .route("/contexts", get(contexts::list))
        .route("/contexts/{instance}", get(contexts::get).put(contexts::configure))
        .route("/contexts/{instance}/documents", get(documents::list))
        .route("/contexts/{instance}/documents/{*path}", get(documents::get).put(documents::write))
        .route("/contexts/{instance}/history/{*path}", get(documents::history))
        .route("/channels", get(channels::list))
        .route("/channels/{name}/archive", post(channels::archive))
        .route("/channels/{name}/messages", get(channels::entries).post(channels::say))
        .route("/session", get(sign_in::get).post(sign_in::sign_in).delete(sign_in::sign_out))
        .route("/session/sign-in-links", post(sign_in::create_link))
        .route("/sessions", get(sign_in::list))
        .route("/sessions/{id}", delete(sign_in::revoke))
        .route("/teams", get(teams::list))
        .route("/teams/{id}", get(teams::get))
        .route("/team-files", get(team_files::files))
        .route("/teams/{id}/dry-run", post(team_files::check))
        .route("/teams/{id}/start-request", post(team_files::request_start))
        .route("/teams/{id}/force-end", post(team_files::force_end))
        .route("/teams/{id}/start", post(teams::start))
        .route("/teams/{id}/kickoff", post(teams::kick_off))
        .route("/teams/{id}/announcements", post(teams::say))
        .route("/teams/{id}/stop", post(teams::stop))
        .route("/teams/{id}/end", post(teams::end))
        .route("/turns", get(turns::list).post(turns::start))
        .route("/turns/{id}", get(turns::get))
        .route("/turns/{id}/end", post(turns::end))
        .route("/admin/info", get(admin::info))
        .route("/admin/tokens", get(admin::list_tokens).post(admin::create_token))
        .route("/admin/tokens/{id}", delete(admin::revoke_token))
        .route("/admin/redact", post(admin::redact))
        .route("/admin/artifacts/collect", post(admin::collect_artifacts))
        .route("/admin/messages/held", get(admin::held::list))
        .route("/admin/messages/{id}/decision", post(admin::held::decide))
}
