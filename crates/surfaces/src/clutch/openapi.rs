//! The description of this surface in OpenAPI: from its handlers, with the schemas that the core writes itself and the codes
//! that each call may be rejected with.

use rookery_core::clutch::schema;
use rookery_core::kernel::limit;
use rookery_core::kernel::parse::FaultCode;
use rookery_core::model::capabilities::Card;
use serde_json::{Value, json};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Object, RefOr};
use utoipa::{OpenApi, PartialSchema, ToSchema};

use super::{
    ClutchErrorBody, agents, artifacts, deliveries, endpoints, envelopes, groups, hooks, inbox, messages, replay,
    retry, router, runs, schemas, step_contracts, stream,
};

#[derive(OpenApi)]
#[openapi(
    paths(
        agents::register,
        agents::list,
        agents::get,
        agents::leave,
        agents::heartbeat,
        inbox::pull,
        inbox::ack,
        endpoints::list,
        endpoints::retry,
        endpoints::let_go,
        deliveries::list,
        deliveries::retry,
        groups::list,
        groups::get,
        groups::set,
        groups::remove,
        schemas::list,
        schemas::get,
        schemas::register,
        step_contracts::list,
        step_contracts::get,
        step_contracts::define,
        artifacts::upload,
        artifacts::list,
        artifacts::download,
        artifacts::head,
        envelopes::ingest,
        envelopes::get,
        hooks::receive,
        messages::list,
        router::explain,
        runs::list,
        runs::tree,
        replay::replay,
        retry::retry,
        stream::stream,
    ),
    components(schemas(ClutchErrorBody, ClutchMessage))
)]
struct ClutchApi;

/// The calls, and the types of what they take and answer.
pub fn document() -> utoipa::openapi::OpenApi {
    ClutchApi::openapi()
}

/// Names a schema that stands in [`schemas`].
macro_rules! described_by_the_core {
    ($($(#[$about:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object(Object::new()))
            }
        }

        impl ToSchema for $name {}
    )+};
}

described_by_the_core! {
    /// A message as it is sent.
    ClutchMessage,
    /// One of them, or several.
    ClutchMessages,
    /// A message as it is shown.
    ShownMessage,
    /// A request as far as it is written.
    TaskDraft,
    /// Bytes of any kind.
    Content,
    /// What an agent says with a sign of life.
    LifeSign,
}

/// The schemas that take the place of those that handlers can only name.
pub fn schemas() -> Vec<(&'static str, Value)> {
    let message = json!({ "$ref": "#/components/schemas/ClutchMessage" });
    let messages = json!({
        "description": "An envelope, or several that are stored whole or not at all.",
        "oneOf": [message, { "type": "array", "minItems": 1, "maxItems": limit::BATCH_ENVELOPES, "items": message }],
    });
    let mut all = vec![
        ("AgentCard", Card::schema()),
        ("ClutchMessage", schema::envelope()),
        ("ClutchMessages", messages),
        ("ShownMessage", schema::shown()),
        ("TaskDraft", schema::draft()),
        (
            "LifeSign",
            json!({ "description": "What the agent does; all of it may be left out.", "type": "object", "properties": {
                "status": { "description": "`idle`, `working`, `blocked` or `waiting_review`" },
                "current_task_id": { "description": "The task that it is at" } } }),
        ),
        ("Content", json!({ "description": "Bytes of any kind.", "type": "string", "format": "binary" })),
    ];
    for (_, schema) in &mut all {
        // The whole description says which dialect it is.
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$schema");
        }
    }
    all
}

/// The codes of a call by the status that they come with, beside those of any call.
pub fn refusals(operation: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let faults = || ("400", FaultCode::ALL.map(FaultCode::as_str).to_vec());
    let of_agent = ("404", vec!["AGENT_NOT_FOUND"]);
    let of_place = ("410", vec!["POSITION_GONE"]);
    let of_stream = ("503", vec!["TOO_MANY_SUBSCRIBERS"]);
    match operation {
        "clutch_endpoint_retry" | "clutch_endpoint_discard" => vec![("404", vec!["ADAPTER_NOT_FOUND"])],
        "clutch_register" => vec![faults(), ("403", vec!["SIGNATURE_REQUIRED"])],
        "clutch_agent" | "clutch_leave" | "clutch_heartbeat" => vec![of_agent],
        "clutch_inbox" => vec![of_agent, of_place, of_stream],
        "clutch_inbox_ack" => vec![("404", vec!["AGENT_NOT_FOUND", "MESSAGE_NOT_FOUND"])],
        "clutch_deliveries" | "clutch_messages" => vec![of_place],
        "clutch_delivery_retry" => vec![("404", vec!["MESSAGE_NOT_FOUND"]), ("409", vec!["INVALID_STATE"])],
        "clutch_set_group" => vec![("400", vec!["INVALID_FIELD", "TOO_LARGE"])],
        "clutch_group" | "clutch_remove_group" => vec![("404", vec!["GROUP_NOT_FOUND"])],
        "clutch_schema" => vec![("404", vec!["SCHEMA_NOT_FOUND"])],
        "clutch_register_schema" => vec![("400", vec!["INVALID_SCHEMA", "TOO_LARGE"]), ("409", vec!["ALREADY_EXISTS"])],
        "clutch_step_contracts" => vec![("404", vec!["WORKFLOW_NOT_FOUND"])],
        "clutch_define_step_contracts" => {
            vec![(
                "400",
                vec![
                    "INVALID_FIELD",
                    "MALFORMED_JSON",
                    "MISSING_FIELD",
                    "TOO_LARGE",
                    "UNKNOWN_REFERENCE",
                    "WRONG_TYPE",
                ],
            )]
        }
        "clutch_download" | "clutch_artifact_head" => vec![
            ("404", vec!["ARTIFACT_NOT_FOUND"]),
            ("416", vec!["RANGE_NOT_SATISFIABLE"]),
            ("500", vec!["ARTIFACT_DAMAGED"]),
        ],
        "clutch_send" => vec![faults(), ("400", vec!["UNKNOWN_RECIPIENT"])].into_iter().chain(of_envelopes()).collect(),
        "clutch_hook" => {
            let own = vec![
                ("400", vec!["MALFORMED_JSON", "MISSING_FIELD", "UNKNOWN_RECIPIENT"]),
                ("403", vec!["STALE_SIGNATURE"]),
                ("404", vec!["HOOK_NOT_FOUND"]),
                ("409", vec!["REPLAYED"]),
            ];
            own.into_iter().chain(of_envelopes()).collect()
        }
        "clutch_message" => vec![("404", vec!["MESSAGE_NOT_FOUND"])],
        "clutch_explain" => vec![faults(), ("400", vec!["UNKNOWN_RECIPIENT"])],
        "clutch_run" => vec![("404", vec!["WORKFLOW_NOT_FOUND"])],
        "clutch_replay" => vec![("404", vec!["WORKFLOW_NOT_FOUND"]), of_place, of_stream],
        "clutch_retry" => vec![
            ("400", vec!["INVALID_FIELD", "TOO_LARGE"]),
            ("403", vec!["NOT_HOLDER"]),
            ("404", vec!["TASK_NOT_FOUND", "WORKFLOW_NOT_FOUND"]),
            ("409", vec!["INVALID_TRANSITION"]),
        ],
        "clutch_stream" => vec![of_agent, of_place, ("426", vec!["UPGRADE_REQUIRED"]), of_stream],
        _ => vec![],
    }
}

/// What an envelope can be refused with, once it is known to be one.
fn of_envelopes() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("403", vec!["NOT_HOLDER", "BAD_SIGNATURE", "UNKNOWN_KEY", "SIGNATURE_REQUIRED"]),
        ("404", vec!["AGENT_NOT_FOUND", "TASK_NOT_FOUND"]),
        (
            "409",
            vec![
                "ALREADY_EXISTS",
                "INVALID_TRANSITION",
                "INVALID_STATE",
                "DEPENDENCIES_UNFINISHED",
                "ALREADY_CLAIMED",
                "RESERVED_FOR_OTHER",
                "NOT_ELIGIBLE",
                "AGENT_OFFLINE",
            ],
        ),
        ("422", vec!["SCHEMA_VIOLATION"]),
        ("429", vec!["RATE_LIMITED"]),
    ]
}
