//! The daemon of one project: takes the project, binds its address, serves until it is told to stop.
//!
//! [`run`] does what concerns the project's folder and the address; [`serve`] is where the store, the engine and the
//! surfaces are put together.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rookery_core::{NodeId, SiteId};
use rookery_engine::adapters::Outlet;
use rookery_engine::credentials::Trust;
use rookery_engine::endpoints::{Area, EgressPolicy, EndpointClient, Http};
use rookery_engine::renderer::RendererStatus;
use rookery_engine::watcher::{WatchCoverage, WatchMode};
use rookery_engine::{Access, Config, Engine, Parts, RandomIds, Services, SystemClock};
use rookery_runner::sandbox::SandboxSupport;
use rookery_store::{Clock, Node, PresenceBoard, Site};
use rookery_surfaces::http::instance_sockets::Sockets;
use rookery_surfaces::http::server::listen_unix;
use rookery_surfaces::http::state::About;
use rookery_surfaces::{App, Listening};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::config::{HookSettings, Origin, OutgoingSettings, ProjectSettings};
use crate::project::{DaemonFile, Project, ProjectLock, Published, Reserve, host_name, run_time_folder};
use crate::stores::{self, Means, Opened};
use crate::team_files;
use crate::team_starter::CommandTeamStarter;
use crate::telemetry::Telemetry;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the end may take: a store elsewhere may not answer any more.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(8);

/// An address that is bound and not served yet.
#[derive(Debug)]
pub struct Bound {
    pub listener: TcpListener,
    /// Base address for clients on this machine.
    pub url: String,
    /// The port that was wanted, if another one had to be taken.
    pub instead_of: Option<u16>,
}

/// A daemon that answers requests.
#[derive(Debug)]
pub struct Ready<'a> {
    pub file: &'a DaemonFile,
    pub bound: &'a Bound,
    pub links: SignInLinks<'a>,
}

/// Makes sign-in links for the web UI.
#[derive(Debug)]
pub struct SignInLinks<'a> {
    app: &'a App,
    url: &'a str,
}

impl SignInLinks<'_> {
    /// A new link that signs the project's owner in; `None` if this program was built without the web UI.
    pub fn issue(&self) -> Option<String> {
        rookery_surfaces::web::sign_in_path(self.app).map(|path| format!("{}{path}", self.url))
    }
}

/// Serves `project` until SIGTERM or SIGINT. `ready` is called once, when requests are answered.
pub async fn run(
    settings: &ProjectSettings,
    project: &Project,
    ready: impl FnOnce(Ready<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Before anybody can know of us: a signal that comes at the first moment must end us as properly as a later one.
    let stop = StopSignals::listen().context("cannot listen to signals")?;
    project.prepare()?;
    let lock = ProjectLock::acquire(project)?;
    project.fill_empty_key(&lock)?;
    start_tracing(settings)?;
    allow_many_files();
    let bound = bind(settings).await?;
    let reserve = Reserve::open(project, &lock);
    let served = serve(settings, project, bound, stop, |served| {
        reserve.refill();
        ready(served)
    })
    .await;
    // What only a running daemon needs is gone, and makes room for the next start.
    reserve.refill();
    served
}

/// Opens the store, starts the engine and its subscribers, and serves every surface on `bound.listener`.
///
/// Once requests are answered it publishes a [`DaemonFile`], calls `ready`, and goes on until it is told to stop.
pub async fn serve(
    settings: &ProjectSettings,
    project: &Project,
    bound: Bound,
    stop: StopSignals,
    ready: impl FnOnce(Ready<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let means = Means { clock: clock.clone(), ids: Arc::new(RandomIds), board: Arc::new(PresenceBoard::default()) };
    let node = node(project, &means, &bound)?;
    let opened = stores::open_store(settings, project, means.clone(), &node.id).await?;
    let engine = engine(settings, project, means, node, &opened)?;
    let watching = if settings.watch { WatchMode::On } else { WatchMode::Off };
    team_files::settle_defaults(&engine, settings).await?;
    let mut services = Services::start(&engine, watching).await.context("cannot read the store")?;
    let started_at = clock.now().0;
    let started = Started { bound, opened: &opened, engine: &engine, services: &mut services, started_at };
    let served = serve_surfaces(settings, project, started, stop, ready).await;
    let ending = async {
        services.stop(&engine).await;
        engine.close().await;
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, ending).await.is_err() {
        tracing::warn!("the store did not answer to the end; what it had not acknowledged is of unknown outcome");
    }
    // The address is withdrawn last.
    served.map(drop)
}

/// An engine with its services, which no surface reaches yet.
struct Started<'a> {
    bound: Bound,
    opened: &'a Opened,
    engine: &'a Engine,
    services: &'a mut Services,
    started_at: i64,
}

/// Serves every surface until the daemon is told to stop, and returns the address to withdraw. The caller stops the services, also after an error.
async fn serve_surfaces(
    settings: &ProjectSettings,
    project: &Project,
    started: Started<'_>,
    mut stop: StopSignals,
    ready: impl FnOnce(Ready<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Published> {
    let Started { bound, opened, engine, services, started_at } = started;
    let endpoint = settings.otlp_endpoint.as_ref();
    let telemetry = endpoint.map(|endpoint| Telemetry::start(engine, endpoint, &opened.project_name)).transpose()?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let rendered = services.render(engine, team_files::renderer_config(project, &program));
    services.deliver(engine, carrier(settings)?);
    let app = app(settings, opened, engine, &bound, Sights { files: services.watch_coverage(), rendered })?;
    let socket = project.prepare_socket()?;
    let unix = listen_unix(&socket).with_context(|| format!("cannot open the socket {}", socket.display()))?;
    let tls = tls_config(settings, project)?;
    let file = DaemonFile {
        pid: std::process::id(),
        url: bound.url.clone(),
        socket: Some(socket.clone()),
        version: VERSION.to_owned(),
        project: app.about().project_id.clone(),
        store: Some(settings.store.to_string()),
        started_at,
    };
    let published = file.publish(project)?;
    let links = SignInLinks { app: &app, url: &bound.url };
    ready(Ready { file: published.file(), bound: &bound, links })?;
    let listening = Listening { tcp: bound.listener, tls, unix: Some(unix) };
    let serving = tokio::spawn(rookery_surfaces::serve(app.clone(), listening));
    stop.received().await;
    tracing::info!("stopping");
    app.stopping().cancel();
    serving.await.context("serving ended badly")?;
    drop(telemetry);
    drop(std::fs::remove_file(&socket));
    Ok(published)
}

/// What this process is among those that share the store.
fn node(project: &Project, means: &Means, bound: &Bound) -> anyhow::Result<Node> {
    let site = project.site(|| SiteId::new(means.ids.mint("site_")))?;
    Ok(Node {
        id: NodeId::new(means.ids.mint("node_")),
        host: host_name(),
        pid: std::process::id(),
        url: Some(bound.url.clone()),
        version: VERSION.to_owned(),
        site: Site { id: site, root: project.root().to_string_lossy().into_owned() },
        started_at: means.clock.now(),
    })
}

/// What stands on the store.
fn engine(
    settings: &ProjectSettings,
    project: &Project,
    means: Means,
    node: Node,
    opened: &Opened,
) -> anyhow::Result<Engine> {
    let trust = if settings.require_token { Trust::TokensOnly } else { Trust::Local };
    let person_key = project.person_key()?;
    let with_secret = |hook: &HookSettings| hook.with_secret(project.root(), |name| std::env::var(name).ok());
    let hooks: Result<Vec<_>, String> = settings.hooks.incoming.iter().map(with_secret).collect();
    let hooks = hooks.map_err(anyhow::Error::msg)?;
    let outlets = outlets(settings, project).map_err(anyhow::Error::msg)?;
    let site = node.site.id.clone();
    Ok(Engine::new(Parts {
        store: opened.store.clone(),
        clock: means.clock,
        ids: means.ids,
        board: means.board,
        access: Access::new(trust, person_key.as_deref()),
        node,
        config: Config {
            bwrap: SandboxSupport::of_this_machine().bwrap().map(Path::to_owned),
            hooks,
            outlets,
            team_starter: Some(Arc::new(CommandTeamStarter::of(project.root(), site))),
            schema_checker: Some(crate::process::own_program()?),
            shared: opened.shared,
            ..Config::new(opened.project_name.as_str(), project.root(), settings.values.clone())
        },
    }))
}

/// The webhooks that go out. Their addresses are the owner's word, wherever they are.
fn outlets(settings: &ProjectSettings, project: &Project) -> Result<Vec<Outlet>, String> {
    let http = Arc::new(Http::new(EgressPolicy::anywhere(), settings.delivery_timeout)?);
    let outlet = |hook: &OutgoingSettings| {
        hook.outlet(project.root(), |name| std::env::var(name).ok(), &http, settings.delivery_attempts)
    };
    settings.hooks.outgoing.iter().map(outlet).collect()
}

/// How messages get to the endpoints of agents. Where everybody who calls is trusted, those nearby are served too.
fn carrier(settings: &ProjectSettings) -> anyhow::Result<Arc<dyn EndpointClient>> {
    let area = if settings.require_token { Area::Public } else { Area::Nearby };
    let reach = EgressPolicy { area, allow: settings.outbound_allow.to_vec() };
    let http = Http::new(reach, settings.delivery_timeout);
    Ok(Arc::new(http.map_err(|error| anyhow::anyhow!("cannot prepare to deliver messages: {error}"))?))
}

/// What is seen of files, as it changes.
struct Sights {
    files: watch::Receiver<WatchCoverage>,
    rendered: watch::Receiver<RendererStatus>,
}

fn app(
    settings: &ProjectSettings,
    opened: &Opened,
    engine: &Engine,
    bound: &Bound,
    sights: Sights,
) -> anyhow::Result<App> {
    let about = About {
        project_id: opened.project_id.clone(),
        version: VERSION,
        port: bound.listener.local_addr().context("cannot tell the bound port")?.port(),
        store: settings.store.to_string(),
        allowed_hosts: settings.allowed_hosts.to_vec(),
        sight: sights.files,
        rendered: sights.rendered,
        sockets: Sockets { run_time: run_time_folder() },
        started_at: engine.clock().now().0,
    };
    // Counting begins with the first request, not with the first look at the counts.
    rookery_surfaces::http::ops::recorder();
    Ok(App::new(engine.clone(), about))
}

/// The certificate and key of the settings, if there are any.
fn tls_config(settings: &ProjectSettings, project: &Project) -> anyhow::Result<Option<Arc<rustls::ServerConfig>>> {
    let (cert, key) = match (settings.tls_cert.as_ref(), settings.tls_key.as_ref()) {
        (Some(cert), Some(key)) => (project.root().join(cert), project.root().join(key)),
        (None, None) => return Ok(None),
        _ => anyhow::bail!("tls_cert and tls_key must be given together"),
    };
    let certificates = CertificateDer::pem_file_iter(&cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read the certificate {}", cert.display()))?;
    let key = PrivateKeyDer::from_pem_file(&key).with_context(|| format!("cannot read the key {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .context("the certificate and the key do not fit")?;
    Ok(Some(Arc::new(config)))
}

/// Binds the address of the settings. A free port stands in for the default one if that is taken; a port that was
/// asked for is that port or an error.
pub async fn bind(settings: &ProjectSettings) -> anyhow::Result<Bound> {
    let (host, port) = (settings.host.trim_matches(['[', ']']), settings.port);
    let first = TcpListener::bind((host, port)).await;
    let (listener, instead_of) = match first {
        Ok(listener) => (listener, None),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && *settings.origin("port") == Origin::Default => {
            (TcpListener::bind((host, 0)).await.with_context(|| format!("no port of {host} is free"))?, Some(port))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let failure = crate::cli::Failure::new(format!("port {port} of {host} is taken"));
            return Err(failure.hint("name another one with --port, or --port 0 for any free one").into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot listen on {host}, port {port}")),
    };
    let url = local_url(settings, listener.local_addr().context("cannot tell the bound port")?.port());
    Ok(Bound { listener, url, instead_of })
}

/// What tells the daemon to stop: SIGTERM, or SIGINT from a terminal.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on these signals no longer end the process by themselves.
    pub fn listen() -> io::Result<StopSignals> {
        // A file that reaches the system's limit is a write that fails, as on a full disk, and not the end of the daemon.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(StopSignals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Takes as many open files as the system lets us have: every connection is one, and the usual limit is below our own.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}

/// The address at which clients on this machine reach the daemon, whatever it listens on.
fn local_url(settings: &ProjectSettings, port: u16) -> String {
    let scheme = if settings.tls_cert.is_some() { "https" } else { "http" };
    match settings.host.trim_matches(['[', ']']) {
        "0.0.0.0" => format!("{scheme}://127.0.0.1:{port}"),
        "::" => format!("{scheme}://[::1]:{port}"),
        host if host.contains(':') => format!("{scheme}://[{host}]:{port}"),
        host => format!("{scheme}://{host}:{port}"),
    }
}

/// Sends what the daemon reports to stderr, which is `.rookery/log/daemon.log` in the background.
fn start_tracing(settings: &ProjectSettings) -> anyhow::Result<()> {
    // The MCP library reports what clients send, their session ids, and every one that hangs up: nothing for a log unless
    // asked for.
    let filter = tracing_subscriber::EnvFilter::try_new(format!("rmcp=off,{}", settings.log_level.as_str()))
        .with_context(|| format!("log_level `{}` is no filter", settings.log_level))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        // The subscriber would print them to the stream that just failed, and panic: a full disk would end the writer.
        .log_internal_errors(false);
    subscriber.try_init().map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Flags;

    fn settings(flags: &[(&str, &str)]) -> ProjectSettings {
        let temp = tempfile::tempdir().unwrap();
        let mut given = Flags::default();
        flags.iter().for_each(|(name, text)| given.set(name, *text));
        ProjectSettings::load_from(&Project::at(temp.path()).unwrap(), &given, BTreeMap::new()).unwrap()
    }

    #[tokio::test]
    async fn a_port_that_was_asked_for_and_is_taken_is_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let error = bind(&settings(&[("port", &port)])).await.unwrap_err();
        assert_eq!(error.to_string(), format!("port {port} of 127.0.0.1 is taken"));
    }

    #[tokio::test]
    async fn a_free_port_stands_in_for_the_default_one() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(&[]);
        settings.values.port = taken.local_addr().unwrap().port();
        let bound = bind(&settings).await.unwrap();
        assert_eq!(bound.instead_of, Some(settings.port));
        assert!(bound.url.ends_with(&bound.listener.local_addr().unwrap().port().to_string()));
    }

    #[test]
    fn clients_get_an_address_they_can_use() {
        let shared = [("host", "0.0.0.0"), ("require_token", "true")];
        assert_eq!(local_url(&settings(&shared), 7), "http://127.0.0.1:7");
        assert_eq!(local_url(&settings(&[("host", "::1")]), 7), "http://[::1]:7");
        let tls = [("host", "localhost"), ("tls_cert", "c.pem"), ("tls_key", "k.pem")];
        assert_eq!(local_url(&settings(&tls), 7), "https://localhost:7");
    }
}
