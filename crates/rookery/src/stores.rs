//! From an address to a store: which engine, which file, and what to say when it cannot be opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rookery_core::{LogId, NodeId};
use rookery_engine::Ids;
use rookery_engine::settings::SettingValue;
use rookery_store::artifact::ArtifactDir;
use rookery_store::offline::{OfflineError, Origin, Sink, Source};
use rookery_store::postgres::{Birth, PostgresStore, is_postgres};
use rookery_store::queue::Limits;
use rookery_store::sqlite::{OpenError, SqliteStore, offline as sqlite};
use rookery_store::{Clock, PresenceBoard, Store};

use crate::cli::Failure;
use crate::config::{Origin as SetBy, ProjectSettings, StoreUrl};
use crate::project::{FOLDER, Project};

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct Means {
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub board: Arc<PresenceBoard>,
}

/// A store, and whose it is.
#[expect(missing_debug_implementations, reason = "a store shows nothing of itself")]
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub project_id: String,
    pub project_name: String,
    /// Whether other daemons can have the same one.
    pub shared: bool,
}

/// Opens the store of the settings.
pub async fn open_store(
    settings: &ProjectSettings,
    project: &Project,
    means: Means,
    node: &NodeId,
) -> anyhow::Result<Opened> {
    match Location::of(settings, project)? {
        Location::Sqlite(files) => open_sqlite(settings, project, &files, means),
        Location::Postgres(url) => open_postgres(settings, project, &url, means, node).await,
    }
}

fn open_sqlite(settings: &ProjectSettings, project: &Project, files: &Files, means: Means) -> anyhow::Result<Opened> {
    let log = LogId::new(means.ids.mint("log_"));
    let mut options = rookery_store::sqlite::Options::new(&files.path, log, means.clock, means.board);
    options.project = settings.project.to_string();
    options.artifacts = files.artifacts();
    options.limits = limits(settings);
    let store = SqliteStore::open(options).map_err(explain)?;
    Ok(Opened {
        project_id: store.project_id().map_or_else(|| project.id(), str::to_owned),
        store: Arc::new(store),
        project_name: settings.project.to_string(),
        shared: false,
    })
}

/// The schema's project is the one that is served, whatever this folder is called.
async fn open_postgres(
    settings: &ProjectSettings,
    project: &Project,
    url: &StoreUrl,
    means: Means,
    node: &NodeId,
) -> anyhow::Result<Opened> {
    let options = rookery_store::postgres::Options {
        address: postgres::address(url)?,
        birth: Birth {
            log_id: LogId::new(means.ids.mint("log_")),
            project_id: project.id(),
            project: settings.project.to_string(),
        },
        clock: means.clock,
        board: means.board,
        limits: limits(settings),
        node: node.clone(),
        connections: settings.store_connections as usize,
    };
    let store = PostgresStore::open(options).await.map_err(|error| postgres::explain(&error))?;
    let adopted = store.adopted().clone();
    Ok(Opened { store: Arc::new(store), project_id: adopted.project_id, project_name: adopted.project, shared: true })
}

fn limits(settings: &ProjectSettings) -> Limits {
    Limits { commands: settings.queue_commands as usize, bytes: settings.queue_bytes.to_usize(), ..Limits::default() }
}

/// Where a store is. What opens it blocks, and is called where that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    Sqlite(Files),
    Postgres(StoreUrl),
}

/// A store in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub path: PathBuf,
    artifacts: PathBuf,
    /// Which project's they are, if that is there: files do not say it themselves.
    project_id: Option<String>,
}

impl Files {
    /// A database that this project opens, wherever it lies.
    fn of(path: PathBuf, project: &Project) -> Self {
        Self { path, artifacts: project.artifacts(), project_id: Some(project.id()) }
    }

    /// A database that lies in some project's own folder.
    fn beside(path: &Path) -> Option<Self> {
        let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == FOLDER))?;
        let project_id = Project::at(folder.parent()?).ok().map(|project| project.id());
        Some(Self { path: path.to_owned(), artifacts: folder.join("artifacts"), project_id })
    }

    pub fn artifacts(&self) -> ArtifactDir {
        ArtifactDir::new(&self.artifacts)
    }
}

impl Location {
    /// The store of the settings.
    pub fn of(settings: &ProjectSettings, project: &Project) -> anyhow::Result<Self> {
        if *settings.origin("store") == SetBy::Default {
            return Ok(Self::Sqlite(Files::of(project.database(), project)));
        }
        Self::read(&settings.store, project, |path| Files::of(path, project))
    }

    /// A store that is named in so many words: the project's own, or another one.
    pub fn parse(text: &str, settings: &ProjectSettings, project: &Project) -> anyhow::Result<Self> {
        let url =
            <StoreUrl as SettingValue>::parse(text).ok_or_else(|| Failure::usage("the address of a store is empty"))?;
        if let Ok(own @ Self::Sqlite(_)) = Self::of(settings, project)
            && Self::read(&url, project, |path| Files::of(path, project)).is_ok_and(|named| named == own)
        {
            return Ok(own);
        }
        Self::read(&url, project, |path| Files::beside(&path).unwrap_or_else(|| Files::of(path, project)))
    }

    fn read(url: &StoreUrl, project: &Project, files: impl Fn(PathBuf) -> Files) -> anyhow::Result<Self> {
        let text = url.secret();
        if let Some(path) = text.strip_prefix("sqlite:") {
            // Without a path, the project's own database is meant.
            return Ok(Self::Sqlite(files(match path.trim_start_matches("//") {
                "" => project.database(),
                path => project.root().join(path),
            })));
        }
        if is_postgres(text) {
            return Ok(Self::Postgres(url.clone()));
        }
        Err(cannot_open(url))
    }

    /// The store as it is at one moment, beside whoever writes it.
    pub fn source(&self) -> anyhow::Result<Box<dyn Source>> {
        match self {
            Self::Sqlite(files) => {
                let source = sqlite::source(&files.path, files.artifacts()).map_err(explain_offline)?;
                Ok(Box::new(source.of_project(files.project_id.as_deref())))
            }
            Self::Postgres(url) => postgres::source(url),
        }
    }

    /// The store on its way elsewhere, which nobody else writes.
    pub fn origin(&self) -> anyhow::Result<Box<dyn Origin>> {
        match self {
            Self::Sqlite(files) => {
                let origin = sqlite::origin(&files.path, files.artifacts()).map_err(explain_offline)?;
                Ok(Box::new(origin.of_project(files.project_id.as_deref())))
            }
            Self::Postgres(url) => postgres::origin(url),
        }
    }

    /// A store to be made, where there is none or an empty one.
    pub fn sink(&self) -> anyhow::Result<Box<dyn Sink>> {
        match self {
            Self::Sqlite(files) => Ok(Box::new(sqlite::sink(&files.path, files.artifacts()))),
            Self::Postgres(url) => postgres::sink(url),
        }
    }

    /// What the database finds wrong with itself; each problem is a sentence.
    pub fn problems(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Sqlite(files) => sqlite::integrity(&files.path).map_err(explain_check),
            Self::Postgres(url) => postgres::problems(url),
        }
    }

    /// What to do about a problem that it has.
    pub fn mending(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => DAMAGED,
            Self::Postgres(_) => "whoever runs the database sets it right; docs/scaling.md says what it must allow",
        }
    }

    /// The files, where only those will do: `instead` says what is done with another store.
    pub fn files(self, instead: &str) -> anyhow::Result<Files> {
        match self {
            Self::Sqlite(files) => Ok(files),
            Self::Postgres(url) => {
                Err(Failure::new(format!("store {url} is not a file of its own")).hint(instead).into())
            }
        }
    }

    /// True if both lead to the same store, as far as the addresses tell.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite(one), Self::Sqlite(two)) => real(&one.path) == real(&two.path),
            _ => self.shown() == other.shown(),
        }
    }

    /// The address without secrets, to show and to keep.
    pub fn shown(&self) -> String {
        match self {
            Self::Sqlite(files) => format!("sqlite:{}", real(&files.path).display()),
            Self::Postgres(url) => url.to_string(),
        }
    }
}

/// The path without links, also of a file that is not there yet.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let real = path.canonicalize().ok().or_else(|| Some(folder?.join(path.file_name()?)));
    real.unwrap_or_else(|| path.to_owned())
}

fn cannot_open(url: &StoreUrl) -> anyhow::Error {
    Failure::new(format!("store {url} is not one that this version can open"))
        .hint("use sqlite:PATH or postgres://HOST/DATABASE?schema=NAME, or leave it out for the project's own database")
        .into()
}

/// Work on a whole store in PostgreSQL.
mod postgres {
    use rookery_store::postgres::{Address, OpenError, offline};

    use super::{Failure, Origin, Sink, Source, StoreUrl, explain_offline, where_it_went};

    /// Where it is; an address that cannot be used is said without its secrets.
    pub(super) fn address(url: &StoreUrl) -> anyhow::Result<Address> {
        url.secret().parse().map_err(|error| {
            Failure::new(format!("store {url} cannot be used: {:#}", anyhow::Error::new(error)))
                .hint("write it as postgres://USER@HOST/DATABASE?schema=NAME")
                .into()
        })
    }

    /// Why a store cannot be opened, with what to do about it.
    pub(super) fn explain(error: &OpenError) -> anyhow::Error {
        let hint = match error {
            OpenError::Unreachable { .. } => {
                "check that the server runs and that user, password and database are right"
            }
            OpenError::Foreign { .. } => "name another schema with ?schema=",
            OpenError::Development { .. } => {
                "start with an empty store: name another schema with ?schema=, or drop this one"
            }
            OpenError::Certificates { .. } => "name the file of the authority with sslrootcert=",
            OpenError::Moved { to, .. } => &where_it_went(to),
            _ => "`rookery doctor` says more; docs/scaling.md says what the database must allow",
        };
        Failure::new(error.to_string()).hint(hint).into()
    }

    pub(super) fn source(url: &StoreUrl) -> anyhow::Result<Box<dyn Source>> {
        Ok(Box::new(offline::source(address(url)?).map_err(explain_offline)?))
    }

    pub(super) fn origin(url: &StoreUrl) -> anyhow::Result<Box<dyn Origin>> {
        Ok(Box::new(offline::origin(address(url)?).map_err(explain_offline)?))
    }

    pub(super) fn sink(url: &StoreUrl) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(offline::sink(address(url)?).map_err(explain_offline)?))
    }

    pub(super) fn problems(url: &StoreUrl) -> anyhow::Result<Vec<String>> {
        offline::problems(address(url)?).map_err(explain_offline)
    }
}

/// The ways to recover from a damaged database.
const DAMAGED: &str = "stop the daemon and keep a copy of .rookery; `rookery restore FILE --force` brings back an older backup, or \
    `rookery export FILE` writes what can still be read, for `rookery import` into an empty project";

/// The ways to recover from an empty database file.
fn bring_back(path: &Path) -> String {
    format!(
        "`rookery restore FILE --force` brings back a backup; remove {} to begin a new log, or to `rookery import FILE`",
        path.display()
    )
}

/// Why a store cannot be opened, with what to do about it.
pub fn explain(error: OpenError) -> anyhow::Error {
    let hint = match &error {
        OpenError::Locked { .. } => "use the daemon that has it, or stop that one first with `rookery down`".to_owned(),
        OpenError::Moved { to, .. } => where_it_went(to),
        OpenError::Development { path } => start_empty(path),
        OpenError::Empty { path } => bring_back(path),
        _ => "`rookery doctor` says more; `rookery restore FILE` brings back a backup".to_owned(),
    };
    // With the causes: they say what the system had against it.
    Failure::new(format!("{:#}", anyhow::Error::new(error))).hint(hint).into()
}

/// Why work on a whole store failed, with what to do about it.
pub fn explain_offline(error: OfflineError) -> anyhow::Error {
    if let OfflineError::Database(cause) = &error
        && let Some(cause) = cause.downcast_ref::<rookery_store::postgres::OpenError>()
    {
        return postgres::explain(cause);
    }
    let hint = match &error {
        OfflineError::Exists { .. } => {
            "`rookery restore --force` keeps what is there aside; an import needs an empty project"
        }
        OfflineError::NotABackup { .. } => "a file that `rookery export` wrote is read by `rookery import`",
        OfflineError::Line { .. } => "a file that `rookery backup` wrote is read by `rookery restore`",
        OfflineError::Open(OpenError::Locked { .. }) | OfflineError::InUse { .. } => {
            "stop the daemon first with `rookery down`"
        }
        OfflineError::Moved { to } | OfflineError::Open(OpenError::Moved { to, .. }) => &where_it_went(to),
        OfflineError::Open(OpenError::Development { path }) => &start_empty(path),
        OfflineError::Open(OpenError::Empty { path }) => &bring_back(path),
        error if error.is_damage() => DAMAGED,
        _ => "`rookery doctor` checks the set-up and says how to mend it",
    };
    with_hint(error, hint)
}

/// The hint for a store that cannot be checked.
pub const CHECK_ADDRESS: &str = "check that the address in `store` is right";

/// The same where a store was to be checked.
fn explain_check(error: OfflineError) -> anyhow::Error {
    match &error {
        error if error.is_damage() => {}
        OfflineError::Open(OpenError::Empty { .. } | OpenError::Development { .. }) => {}
        _ => return with_hint(error, CHECK_ADDRESS),
    }
    explain_offline(error)
}

/// The same where a store was to be moved or copied.
pub fn explain_migration(error: OfflineError) -> anyhow::Error {
    match &error {
        OfflineError::Exists { .. } => with_hint(error, "name a place where there is no store yet, or an empty one"),
        OfflineError::Artifact(_) => {
            with_hint(error, "`rookery export` and `rookery import` carry a log without what is lost of it")
        }
        OfflineError::Gap { .. } | OfflineError::Row { .. } | OfflineError::Unlike { .. } => {
            with_hint(error, "nothing was changed; `rookery replay --verify` says what is wrong with the store")
        }
        _ => explain_offline(error),
    }
}

fn with_hint(error: OfflineError, hint: &str) -> anyhow::Error {
    Failure::new(format!("{:#}", anyhow::Error::new(error))).hint(hint).into()
}

/// The hint for a store of a development version.
fn start_empty(path: &Path) -> String {
    format!("start with an empty store: move {} away, or name another place with --store", path.display())
}

/// What to do with a store that has moved.
pub fn where_it_went(to: &str) -> String {
    let to = in_a_shell(to);
    format!(
        "start with `rookery up --store {to}`, or name it as `store` in rookery.toml; if it never arrived there, repeat \
         `rookery migrate`"
    )
}

/// An address as it can be typed: a shell reads a question mark in its own way.
pub fn in_a_shell(address: &str) -> String {
    if address.chars().all(|letter| letter.is_alphanumeric() || "/:.-_@=,%".contains(letter)) {
        return address.to_owned();
    }
    format!("'{}'", address.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    fn project() -> (tempfile::TempDir, Project, ProjectSettings) {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        let settings = ProjectSettings::load(&project, &Flags::default()).unwrap();
        (temp, project, settings)
    }

    #[test]
    fn artifacts_belong_to_the_project_that_opens_the_store() {
        let (_temp, project, settings) = project();
        let folder = |text: &str| match Location::parse(text, &settings, &project).unwrap() {
            Location::Sqlite(files) => files.artifacts,
            Location::Postgres(url) => panic!("{url}"),
        };
        assert_eq!(folder("sqlite:.rookery/rookery.db"), project.artifacts());
        assert_eq!(folder("sqlite:a.db"), project.artifacts());
        assert_eq!(folder("sqlite:/b/.rookery/rookery.db"), Path::new("/b/.rookery/artifacts"));
    }

    #[test]
    fn an_address_can_be_typed_as_it_is_told() {
        assert_eq!(in_a_shell("sqlite:/a/b.db"), "sqlite:/a/b.db");
        assert_eq!(in_a_shell("postgres://me@db/x?schema=a"), "'postgres://me@db/x?schema=a'");
        assert_eq!(in_a_shell("sqlite:it's"), r"'sqlite:it'\''s'");
    }

    #[test]
    fn one_store_by_two_names_is_the_same() {
        let (_temp, project, settings) = project();
        let at = |text: &str| Location::parse(text, &settings, &project).unwrap();
        let own = Location::of(&settings, &project).unwrap();
        std::fs::create_dir(project.folder()).unwrap();
        assert!(own.is_same(&at("sqlite:.rookery/../.rookery/rookery.db")));
        assert!(!own.is_same(&at("sqlite:.rookery/other.db")));
        assert!(at("postgres://me@db/x").is_same(&at("postgres://me@db/x")));
        assert!(!at("postgres://me@db/x").is_same(&own));
        assert_eq!(at("postgres://me:secret@db/x").shown(), "postgres://me@db:5432/x?schema=rookery");
        assert!(Location::parse("mysql://db/x", &settings, &project).is_err());
    }
}
