//! The table of settings: the one place where each is named, typed, given a default and explained.
//!
//! [`Settings`] holds the values, [`TABLE`] describes them. The settings file, the environment, the JSON Schema, the
//! reference and the defaults of every crate above this one follow from the same rows.

mod value;

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use rookery_core::clutch::SigningPolicy;
use rookery_core::kernel::limit;
use rookery_core::kernel::outbound::AllowedHost;
use rookery_core::model::context_settings::Provider;
use rookery_core::tasks::{MAX_ATTEMPTS, RETRY_BACKOFF_MILLIS};
use rookery_store::queue;

pub use value::{Bytes, SettingValue, StoreUrl, parse_duration};

/// One row of the table.
#[derive(Debug)]
pub struct Definition {
    /// The key in `rookery.toml`.
    pub name: &'static str,
    pub env: &'static str,
    /// The kind of value with its unit, such as `time` or `bytes`.
    pub unit: &'static str,
    pub help: &'static str,
    /// Describes a valid value, as in "must be …".
    pub expected: &'static str,
    /// The JSON Schema of the key's value.
    pub schema: fn() -> serde_json::Value,
    /// The value as a person would write it.
    pub text: fn(&Settings) -> String,
    pub json: fn(&Settings) -> serde_json::Value,
    /// Sets the value from the text of a flag or variable; `None` if the text is invalid.
    pub set_text: fn(&mut Settings, &str) -> Option<()>,
    /// Sets the value from the settings file; `None` if it is invalid.
    pub set_json: fn(&mut Settings, &serde_json::Value) -> Option<()>,
}

impl Definition {
    /// The default as a person would write it; empty where it depends on the project or is absent.
    pub fn default_text(&self) -> String {
        (self.text)(&Settings::default())
    }
}

/// A setting that had another name before.
#[derive(Debug)]
pub struct RenamedSetting {
    pub old: &'static str,
    pub old_env: &'static str,
    pub new: &'static str,
}

/// Old names of settings; using one is an error that says the new name.
pub const RENAMED: [RenamedSetting; 5] = [
    RenamedSetting { old: "silent_after", old_env: "ROOKERY_SILENT_AFTER", new: "call_only_offline_after" },
    RenamedSetting { old: "process_after", old_env: "ROOKERY_PROCESS_AFTER", new: "process_offline_after" },
    RenamedSetting { old: "connection_after", old_env: "ROOKERY_CONNECTION_AFTER", new: "connection_offline_after" },
    RenamedSetting { old: "delivery_pause", old_env: "ROOKERY_DELIVERY_PAUSE", new: "delivery_backoff" },
    RenamedSetting {
        old: "delivery_circuit_pause",
        old_env: "ROOKERY_DELIVERY_CIRCUIT_PAUSE",
        new: "delivery_circuit_backoff",
    },
];

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Makes [`Settings`] and the [`TABLE`] that describes it from the same rows, so that they cannot differ.
macro_rules! settings {
    ($( $(#[doc = $help:literal])+ $name:ident: $kind:ty = $default:expr, $env:literal; )+) => {
        /// The value of every setting.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $( $(#[doc = $help])+ pub $name: $kind, )+
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $( $name: $default, )+ }
            }
        }

        /// Every setting, in the order in which it is shown.
        pub static TABLE: &[Definition] = &[
            $( Definition {
                name: stringify!($name),
                env: $env,
                unit: <$kind as SettingValue>::UNIT,
                help: concat!($($help),+),
                expected: <$kind as SettingValue>::EXPECTED,
                schema: <$kind as SettingValue>::schema,
                text: |settings| settings.$name.text(),
                json: |settings| settings.$name.json(),
                set_text: |settings, text| <$kind as SettingValue>::parse(text).map(|value| settings.$name = value),
                set_json: |settings, json| <$kind as SettingValue>::from_json(json).map(|value| settings.$name = value),
            }, )+
        ];
    };
}

settings! {
    /// Name of the project, as agents and people see it. Default: the name of its folder.
    project: String = String::new(), "ROOKERY_PROJECT";
    /// Address to listen on. Anything but loopback needs `require_token`.
    host: String = "127.0.0.1".to_owned(), "ROOKERY_HOST";
    /// Port to listen on; 0 takes a free one. If the default is taken a free one is used; a port asked for and taken is an error.
    port: u16 = 4700, "ROOKERY_PORT";
    /// Where the log is kept. Default: SQLite in `.rookery/rookery.db`.
    store: StoreUrl = StoreUrl::default(), "ROOKERY_STORE";
    /// Refuse callers without a token.
    require_token: bool = false, "ROOKERY_REQUIRE_TOKEN";
    /// Host names besides loopback that requests may be addressed to.
    allowed_hosts: Vec<String> = Vec::new(), "ROOKERY_ALLOWED_HOSTS";
    /// PEM file with the certificate for TLS.
    tls_cert: Option<PathBuf> = None, "ROOKERY_TLS_CERT";
    /// PEM file with the key of the certificate.
    tls_key: Option<PathBuf> = None, "ROOKERY_TLS_KEY";
    /// Silence after which an agent that sends heartbeats is offline.
    offline_after: Duration = Duration::from_secs(60), "ROOKERY_OFFLINE_AFTER";
    /// Silence after which an agent that is seen only by its calls is offline.
    call_only_offline_after: Duration = Duration::from_secs(30 * MINUTE), "ROOKERY_CALL_ONLY_OFFLINE_AFTER";
    /// How often agents are asked to send a heartbeat.
    heartbeat_interval: Duration = Duration::from_secs(30), "ROOKERY_HEARTBEAT_INTERVAL";
    /// Time after the end of a watched process until its agent is offline.
    process_offline_after: Duration = Duration::from_secs(90), "ROOKERY_PROCESS_OFFLINE_AFTER";
    /// Time after the close of an agent's connection until it is offline.
    connection_offline_after: Duration = Duration::from_secs(60), "ROOKERY_CONNECTION_OFFLINE_AFTER";
    /// Watch the project's files for conflicting changes.
    watch: bool = true, "ROOKERY_WATCH";
    /// Time after which a conflict that nobody resolves is put before a person.
    escalate_conflicts_after: Duration = Duration::from_secs(10 * MINUTE), "ROOKERY_ESCALATE_CONFLICTS_AFTER";
    /// What the context of instances is kept in, unless an instance says otherwise: `file`, `memory` or `off`.
    context_provider: Provider = Provider::File, "ROOKERY_CONTEXT_PROVIDER";
    /// Folder of an instance's files, relative to the project; `${{ instance }}` stands for its name.
    context_dir: String = ".workflow/${{ instance }}".to_owned(), "ROOKERY_CONTEXT_DIR";
    /// File of the channel in an instance's folder.
    context_channel: String = "channel.md".to_owned(), "ROOKERY_CONTEXT_CHANNEL";
    /// Document that is meant where none is named.
    context_document: String = "notes.md".to_owned(), "ROOKERY_CONTEXT_DOCUMENT";
    /// Further documents that every instance is to have.
    context_documents: Vec<String> = Vec::new(), "ROOKERY_CONTEXT_DOCUMENTS";
    /// Messages that one sender may send in a minute, or at once; what is above is held for a person.
    messages_per_minute: u32 = limit::MESSAGES_PER_MINUTE, "ROOKERY_MESSAGES_PER_MINUTE";
    /// Envelopes that one sender may send in a minute, or at once, beside chat and what accepts, ends or answers work; what is above is refused, with the time to wait.
    envelopes_per_minute: u32 = 6_000, "ROOKERY_ENVELOPES_PER_MINUTE";
    /// Messages that may follow from each other without a person; what is above and would wake somebody is held.
    message_hops: u32 = limit::MESSAGE_HOPS, "ROOKERY_MESSAGE_HOPS";
    /// Time that an agent has to accept a task that the router gave it; then it is given to another.
    accept_timeout: Duration = Duration::from_secs(30), "ROOKERY_ACCEPT_TIMEOUT";
    /// How often a task is tried whose request does not say so.
    max_attempts: u32 = MAX_ATTEMPTS, "ROOKERY_MAX_ATTEMPTS";
    /// Pause before the second attempt at a task; before each further one it is twice as long.
    retry_backoff: Duration = Duration::from_millis(RETRY_BACKOFF_MILLIS), "ROOKERY_RETRY_BACKOFF";
    /// Which envelopes agents must sign: `off`, `sensitive` (what changes who an agent is or reaches into production, if it has keys) or `all`.
    signatures: SigningPolicy = SigningPolicy::Sensitive, "ROOKERY_SIGNATURES";
    /// Attempts to post a message to an agent's endpoint before its delivery is given up on.
    delivery_attempts: u32 = 12, "ROOKERY_DELIVERY_ATTEMPTS";
    /// Time for an endpoint to answer.
    delivery_timeout: Duration = Duration::from_secs(10), "ROOKERY_DELIVERY_TIMEOUT";
    /// Pause after the first attempt; doubled with each, up to five minutes.
    delivery_backoff: Duration = Duration::from_secs(1), "ROOKERY_DELIVERY_BACKOFF";
    /// Failures in a row after which an endpoint is left alone for a while.
    delivery_circuit_failures: u32 = 5, "ROOKERY_DELIVERY_CIRCUIT_FAILURES";
    /// How long it is left alone at first; doubled each time, up to five minutes.
    delivery_circuit_backoff: Duration = Duration::from_secs(10), "ROOKERY_DELIVERY_CIRCUIT_BACKOFF";
    /// Hosts on this machine or in private networks that messages may be posted to where tokens are required: `host` for all of its
    /// ports, or `host:port`. In the file it is `allow` in the table `[outbound]`.
    outbound_allow: Vec<AllowedHost> = Vec::new(), "ROOKERY_OUTBOUND_ALLOW";
    /// Largest request body.
    max_body_bytes: Bytes = Bytes(MIB), "ROOKERY_MAX_BODY_BYTES";
    /// Largest artifact that can be uploaded.
    max_artifact_bytes: Bytes = Bytes(1024 * MIB), "ROOKERY_MAX_ARTIFACT_BYTES";
    /// Time for which an artifact is kept that nothing names, since it was last uploaded.
    keep_artifacts: Duration = Duration::from_secs(24 * HOUR), "ROOKERY_KEEP_ARTIFACTS";
    /// Requests that may be in flight at once. Callers without a name share a quarter of them, and an eighth is kept for people.
    max_requests: u32 = 4_096, "ROOKERY_MAX_REQUESTS";
    /// Requests of one caller with a name that may be in flight at once.
    max_in_flight_per_agent: u32 = 100, "ROOKERY_MAX_IN_FLIGHT_PER_AGENT";
    /// Connections that may be open at once. A process or another machine has at most a quarter of them, and an eighth is kept for the Unix socket.
    max_connections: u32 = 2_048, "ROOKERY_MAX_CONNECTIONS";
    /// Event streams that may be open at once, with calls that wait; an eighth is kept for people.
    max_subscriptions: u32 = 1_024, "ROOKERY_MAX_SUBSCRIPTIONS";
    /// Event streams of one caller that may be open at once. Callers without a name share a quarter of all.
    max_streams_per_caller: u32 = 256, "ROOKERY_MAX_STREAMS_PER_CALLER";
    /// Artifacts that may be downloaded at once; an eighth is kept for people.
    max_downloads: u32 = 64, "ROOKERY_MAX_DOWNLOADS";
    /// Artifacts that one caller may download at once. Callers without a name share a quarter of all.
    max_downloads_per_caller: u32 = 16, "ROOKERY_MAX_DOWNLOADS_PER_CALLER";
    /// MCP sessions that may be open at once. One that was silent for a minute makes room for a new one.
    max_sessions: u32 = 1_024, "ROOKERY_MAX_SESSIONS";
    /// Silence after which an MCP session without an open stream is closed.
    session_idle: Duration = Duration::from_secs(12 * HOUR), "ROOKERY_SESSION_IDLE";
    /// Connections to a PostgreSQL store for reads, beside four: one for writes, one that listens, two for the node itself.
    store_connections: u32 = 8, "ROOKERY_STORE_CONNECTIONS";
    /// Commands that may wait for the log.
    queue_commands: u32 = queue::COMMANDS, "ROOKERY_QUEUE_COMMANDS";
    /// Bytes of commands that may wait for the log.
    queue_bytes: Bytes = Bytes(queue::BYTES), "ROOKERY_QUEUE_BYTES";
    /// Time after which a request is answered with an error.
    request_timeout: Duration = Duration::from_secs(30), "ROOKERY_REQUEST_TIMEOUT";
    /// Time after which a client that does not send its request's head is disconnected.
    header_timeout: Duration = Duration::from_secs(10), "ROOKERY_HEADER_TIMEOUT";
    /// Time after which a client that does not read what it is sent is disconnected.
    write_timeout: Duration = Duration::from_secs(30), "ROOKERY_WRITE_TIMEOUT";
    /// How often an event stream on which nothing happens says that it is alive.
    stream_keep_alive: Duration = Duration::from_secs(15), "ROOKERY_STREAM_KEEP_ALIVE";
    /// Address of an OpenTelemetry collector that gets a span for every task that ends, as in `http://127.0.0.1:4318`. Default: none.
    otlp_endpoint: Option<Url> = None, "ROOKERY_OTLP_ENDPOINT";
    /// How much the daemon writes to its log: error, warn, info, debug, trace, or a filter such as `info,rookery=debug`.
    log_level: String = "info".to_owned(), "ROOKERY_LOG";
}
