//! The description of this surface in OpenAPI, made from its handlers.

use utoipa::OpenApi;

use super::wire;
use super::{
    admin, agents, channels, contexts, documents, events, handoffs, resources, sign_in, status, stream, tasks,
    team_files, teams, turns,
};

#[derive(OpenApi)]
#[openapi(
    paths(
        status::status,
        status::state,
        agents::announce,
        agents::heartbeat,
        agents::set_status,
        agents::pause,
        agents::resume,
        agents::leave,
        agents::list,
        agents::get,
        resources::claim,
        resources::release,
        resources::resolve,
        resources::lock,
        resources::unlock,
        resources::list,
        resources::get,
        tasks::create,
        tasks::update,
        tasks::assign,
        tasks::retry,
        tasks::cancel,
        tasks::list,
        tasks::get,
        handoffs::create,
        handoffs::accept,
        handoffs::reject,
        handoffs::list,
        handoffs::get,
        events::list,
        events::get,
        events::report,
        stream::stream,
        contexts::list,
        contexts::get,
        contexts::configure,
        documents::list,
        documents::get,
        documents::history,
        documents::write,
        channels::list,
        channels::entries,
        channels::say,
        channels::archive,
        sign_in::get,
        sign_in::sign_in,
        sign_in::sign_out,
        sign_in::create_link,
        sign_in::list,
        sign_in::revoke,
        teams::list,
        teams::get,
        team_files::files,
        team_files::check,
        team_files::request_start,
        team_files::force_end,
        teams::start,
        teams::kick_off,
        teams::say,
        teams::stop,
        teams::end,
        turns::list,
        turns::get,
        turns::start,
        turns::end,
        admin::info,
        admin::list_tokens,
        admin::create_token,
        admin::revoke_token,
        admin::redact,
        admin::collect_artifacts,
        admin::held::list,
        admin::held::decide,
    ),
    components(schemas(
        wire::Included,
        wire::ResourceFilter,
        wire::RequestedStatus,
        wire::TaskStatus,
        wire::HandoffStatus
    ))
)]
struct RestApi;

/// The calls, and the types of what they take and answer.
pub fn document() -> utoipa::openapi::OpenApi {
    RestApi::openapi()
}
