//! Follows the log and the disk, and decides whose turn it is.

use rookery_core::model::{Table, VersionId};
use rookery_core::{AgentId, AnyEvent, EventRef, Key, LogId, Position, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_settings::{Configured, Provider, Scope, TeamContext};
use rookery_core::model::message::{Form, Header};
use rookery_store::query::ColumnTest;
use rookery_store::{LogQuery, RowQuery};
use tokio::sync::{Notify, watch};

use super::fault_points::Steps;
use super::instance::Keeper;
use super::instance_dir::FileId;
use super::state::Shelf;
use super::{Folder, RenderError, RendererStatus, Rendering};
use crate::durations::RETRY_DELAY;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::messages::message_of;
use crate::subscribe::{SubscribeError, Subscription};

/// How soon something unsettled is looked at again.
const SOON_MILLIS: u64 = 100;
/// How often the disk is looked at although nobody said that it changed.
const LOOK_EVERY_MILLIS: u64 = 2_000;
/// How soon what could not be done is tried again because the disk has changed.
const RETRY_MILLIS: u64 = 1_000;
/// How far the pauses between tries grow.
const RETRY_AT_LEAST_EVERY_MILLIS: u64 = 30_000;

/// Runs until the log can be followed no more, and says what is rendered.
pub(crate) async fn run(engine: Engine, rendering: Rendering, say: watch::Sender<RendererStatus>) {
    loop {
        match RenderService::open(&engine, &rendering).await {
            Ok((mut service, subscription)) => {
                if let Err(error) = service.follow(subscription, &say).await {
                    tracing::debug!(%error, "renderings are interrupted");
                }
            }
            Err(error) => tracing::debug!(%error, "renderings cannot follow the log"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Everybody who keeps files at this site.
#[derive(Debug)]
pub(super) struct RenderService {
    engine: Engine,
    rendering: Rendering,
    shelf: Shelf,
    log: LogId,
    contexts: BTreeMap<Scope, Configured>,
    places: BTreeMap<Instance, InstanceRenderer>,
    /// Those who would have the folder of another, and what a person should know about it.
    shut_out: BTreeMap<Instance, String>,
    hints: Arc<Hints>,
    watcher: Option<RecommendedWatcher>,
    /// The last position that is known to be saved.
    saved: Option<Position>,
}

#[derive(Debug)]
struct InstanceRenderer {
    keeper: Keeper,
    /// It was configured, has agents, or something happened in it since we are here.
    in_use: bool,
    /// The log says something new.
    stale: bool,
    /// Some of its files could not be brought up to date.
    unfinished: bool,
    /// When to look at the disk again.
    due: u64,
    /// How long to wait after the next failure.
    backoff_millis: u64,
    failure: Option<String>,
    troubles: Vec<String>,
    /// The folder that hints come from.
    watched: Option<FileId>,
}

/// Folders in which something has changed, as the system tells. Only hints: whoever gets one looks for itself.
#[derive(Debug, Default)]
struct Hints {
    folders: Mutex<BTreeMap<PathBuf, Instance>>,
    touched: Mutex<BTreeSet<Instance>>,
    arrived: Notify,
}

impl Hints {
    fn receive(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return };
        let reading = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            EventKind::Modify(ModifyKind::Metadata(_)) => true,
            _ => false,
        };
        if reading {
            return;
        }
        let folders = lock(&self.folders);
        let of = |path: &PathBuf| path.ancestors().find_map(|folder| folders.get(folder)).cloned();
        lock(&self.touched).extend(event.paths.iter().filter_map(of));
        self.arrived.notify_one();
    }

    fn take(&self) -> BTreeSet<Instance> {
        std::mem::take(&mut *lock(&self.touched))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RenderService {
    /// Takes stock of everything that has files here.
    pub(super) async fn open(
        engine: &Engine,
        rendering: &Rendering,
    ) -> Result<(RenderService, Subscription), RenderError> {
        RenderService::open_with(engine, rendering, Steps::default()).await
    }

    pub(super) async fn open_with(
        engine: &Engine,
        rendering: &Rendering,
        steps: Steps,
    ) -> Result<(RenderService, Subscription), RenderError> {
        // Listening begins before the first look, so that nothing falls between the two.
        let subscription = engine.subscribe(None).await.map_err(EngineError::from)?;
        let log = subscription.position().log.unwrap_or_else(|| LogId::from(""));
        let hints = Arc::new(Hints::default());
        let mut service = RenderService {
            engine: engine.clone(),
            rendering: rendering.clone(),
            shelf: Shelf::new(&rendering.state, steps),
            log,
            contexts: BTreeMap::new(),
            places: BTreeMap::new(),
            shut_out: BTreeMap::new(),
            watcher: watcher(&hints),
            hints,
            saved: None,
        };
        service.read_contexts().await?;
        service.add_all(service.known().await?);
        service.mark_in_use().await?;
        if service.missed_redactions().await? {
            service.reread_all();
        }
        Ok((service, subscription))
    }

    async fn follow(
        &mut self,
        mut subscription: Subscription,
        say: &watch::Sender<RendererStatus>,
    ) -> Result<(), SubscribeError> {
        loop {
            self.attend().await;
            self.tell(say);
            self.note_position(&subscription.position());
            let pause = Duration::from_millis(self.next_due().saturating_sub(self.now()).max(1));
            let hints = self.hints.clone();
            tokio::select! {
                chunk = subscription.next() => {
                    for row in chunk?.rows() {
                        self.heed(&row.event).await;
                    }
                }
                () = hints.arrived.notified() => self.touched(&hints.take()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// A round for everybody whose turn it is.
    pub(super) async fn attend(&mut self) {
        let now = self.now();
        let root = self.engine.config().root.clone();
        let folder = |(instance, place): (&Instance, &InstanceRenderer)| {
            Some((place.keeper.has_folder(&root)?, instance.clone()))
        };
        let mut kept: Vec<(FileId, Instance)> = self.places.iter().filter_map(folder).collect();
        for (instance, place) in &mut self.places {
            if place.due > now && !(place.stale && place.failure.is_none()) {
                continue;
            }
            if let Some(rival) = place.rival(&root, &kept) {
                place.wait_for(instance, rival, now);
                continue;
            }
            let idle = !place.stale && place.is_well() && !place.keeper.reread;
            if idle && place.keeper.is_quiet(&root, now) {
                place.due = now + LOOK_EVERY_MILLIS;
                continue;
            }
            place.round(&self.engine, instance, now).await;
            kept.extend(place.keeper.folder.map(|folder| (folder, instance.clone())));
            watch_over(self.watcher.as_mut(), &self.hints, &root, instance, place);
        }
    }

    fn next_due(&self) -> u64 {
        self.places.values().map(|place| place.due).min().unwrap_or(self.now() + LOOK_EVERY_MILLIS)
    }

    fn now(&self) -> u64 {
        self.engine.clock().monotonic()
    }

    fn touched(&mut self, instances: &BTreeSet<Instance>) {
        let soon = self.now();
        for instance in instances {
            if let Some(place) = self.places.get_mut(instance).filter(|place| place.failure.is_none()) {
                // What is tried again in vain touches the disk too.
                let pause = if place.unfinished { RETRY_MILLIS } else { 0 };
                place.due = place.due.min(soon + pause);
            }
        }
    }

    /// Takes note of what a fact means for the files.
    pub(super) async fn heed(&mut self, fact: &AnyEvent) {
        match fact.typed() {
            EventRef::MessageSent(fact) if fact.letter.header.form == Form::Entry => self.said(&fact.letter.header),
            EventRef::MessageReleased(fact) if fact.header.form == Form::Entry => self.said(&fact.header),
            EventRef::DocumentWritten(fact) => self.changed(&Instance::of_run(&fact.id.run)),
            EventRef::DocumentDeleted(fact) => self.changed(&Instance::of_run(&fact.id.run)),
            EventRef::AgentRegistered(fact) => {
                if let Some(instance) = named(&fact.id) {
                    self.add(&instance);
                    self.used(&instance);
                }
            }
            EventRef::ContextConfigured(fact) => self.reconfigure(&fact.scope).await,
            EventRef::LogRedacted(fact) if fact.cleared.iter().any(|cleared| is_rendered(&cleared.key)) => {
                self.reread_all();
            }
            _ => {}
        }
    }

    /// Threads that are not an instance's have no files; what is said in an instance's by somebody elsewhere is in its file.
    fn said(&mut self, header: &Header) {
        match header.instance() {
            Some(instance) => self.changed(&instance),
            None => {
                if let Some(place) = self.places.get_mut(&Instance::of_thread(&header.thread)) {
                    place.stale = true;
                }
            }
        }
    }

    fn changed(&mut self, instance: &Instance) {
        self.add(instance);
        self.used(instance);
        if let Some(place) = self.places.get_mut(instance) {
            place.stale = true;
        }
    }

    fn used(&mut self, instance: &Instance) {
        if let Some(place) = self.places.get_mut(instance) {
            place.in_use = true;
        }
    }

    /// Those that were configured or have agents are in use from the beginning.
    async fn mark_in_use(&mut self) -> Result<(), RenderError> {
        for scope in self.contexts.keys().cloned().collect::<Vec<_>>() {
            if let Some(run) = scope.run() {
                self.used(&Instance::of_run(run));
            }
        }
        for agent in self.engine.query().agents().await?.value.iter().filter(|agent| !agent.has_left()) {
            self.used(&Instance::of(&agent.id));
        }
        Ok(())
    }

    fn reread_all(&mut self) {
        for place in self.places.values_mut() {
            place.keeper.reread = true;
            place.stale = true;
        }
    }

    async fn reconfigure(&mut self, scope: &Scope) {
        while let Err(error) = self.read_contexts().await {
            tracing::debug!(%error, "what was configured is read later");
            tokio::time::sleep(RETRY_DELAY).await;
        }
        self.rearrange(scope).await;
    }

    /// Lets everybody's files be where they are configured to be.
    async fn rearrange(&mut self, scope: &Scope) {
        let known: Vec<Instance> = self.places.keys().cloned().collect();
        for instance in known {
            let context = self.context(&instance);
            if self.places.get(&instance).is_some_and(|place| place.keeper.context != context) {
                let before = self.places.remove(&instance);
                lock(&self.hints.folders).retain(|_, known| *known != instance);
                self.add(&instance);
                if before.is_some_and(|before| before.in_use) {
                    self.used(&instance);
                }
            }
        }
        // Whoever was in the way may have gone elsewhere, or this one has.
        for instance in std::mem::take(&mut self.shut_out).into_keys() {
            self.add(&instance);
            self.used(&instance);
        }
        match scope {
            Scope::Instance(run) => {
                self.add(&Instance::of_run(run));
                self.used(&Instance::of_run(run));
            }
            // Instances that had no files until now may have some.
            Scope::Project => match self.known().await {
                Ok(instances) => self.add_all(instances),
                Err(error) => tracing::debug!(%error, "instances could not be looked up"),
            },
        }
    }

    async fn read_contexts(&mut self) -> Result<(), RenderError> {
        let (rows, _) = self.engine.store().list(RowQuery::all(Table::Contexts)).await?;
        let of = |row| if let Row::Context(context) = row { Some((context.scope.clone(), context)) } else { None };
        self.contexts = rows.into_iter().filter_map(of).collect();
        Ok(())
    }

    fn context(&self, instance: &Instance) -> TeamContext {
        let own = self.contexts.get(&Scope::of(instance));
        TeamContext::of(instance, own, self.contexts.get(&Scope::Project))
    }

    /// Everybody who has something to say, has agents, or was configured.
    async fn known(&self) -> Result<BTreeSet<Instance>, RenderError> {
        let configured = self.contexts.keys().filter_map(Scope::run).map(Instance::of_run);
        let mut found: BTreeSet<Instance> = configured.collect();
        let documents = RowQuery::all(Table::Documents).with("live_in", ColumnTest::Present);
        for row in self.engine.store().list(documents).await?.0 {
            if let Row::Document(document) = row {
                found.insert(Instance::of_run(&document.id.run));
            }
        }
        for row in self.engine.store().list(RowQuery::all(Table::Threads)).await?.0 {
            if let Row::Thread(thread) = row {
                let channel = ColumnTest::Is(thread.id.as_str().into());
                let first = RowQuery::all(Table::Messages).with("channel", channel).at_most(Some(1));
                let said = self.engine.store().list(first).await?.0.into_iter().next().and_then(message_of);
                found.extend(said.and_then(|message| message.letter.header.instance()));
            }
        }
        let agents = self.engine.query().agents().await?.value;
        found.extend(agents.iter().filter(|agent| !agent.has_left()).filter_map(|agent| named(&agent.id)));
        Ok(found)
    }

    /// Begins to keep the files of many. Whoever had files in its folder before comes first.
    fn add_all(&mut self, instances: BTreeSet<Instance>) {
        let log = self.log.to_string();
        let was_here = |instance: &Instance| self.shelf.knows(instance, &log, self.context(instance).folder.as_str());
        let (before, new): (Vec<Instance>, Vec<Instance>) = instances.into_iter().partition(was_here);
        before.iter().chain(&new).for_each(|instance| self.add(instance));
    }

    /// Begins to keep the files of an instance, if it has some here and nobody else has the folder.
    fn add(&mut self, instance: &Instance) {
        if self.places.contains_key(instance) {
            return;
        }
        let context = self.context(instance);
        let elsewhere = context.site.is_some()
            && self.engine.cluster().site().is_some()
            && context.site != self.engine.cluster().site();
        if context.provider != Provider::File || elsewhere {
            return;
        }
        let overlaps =
            |(_, place): &(&Instance, &InstanceRenderer)| place.keeper.context.folder.overlaps(&context.folder);
        let rival = self.places.iter().find(overlaps).map(|(rival, _)| no_files(instance, &context, rival));
        let forbidden = || context.folder.problem().map(|problem| forbidden_folder(instance, &context, problem));
        if let Some(message) = rival.or_else(forbidden) {
            if self.shut_out.get(instance) != Some(&message) {
                tracing::warn!(%instance, "{message}");
                self.shut_out.insert(instance.clone(), message);
            }
            return;
        }
        self.shut_out.remove(instance);
        let generated = (self.rendering.generated)(instance, &context);
        let log = self.log.to_string();
        let keeper = Keeper::new(instance.clone(), context, generated, &log, &self.shelf);
        self.places.insert(instance.clone(), InstanceRenderer::new(keeper));
    }

    /// Whether words were redacted that may still stand in files.
    async fn missed_redactions(&mut self) -> Result<bool, RenderError> {
        let here = |position: &Position| position.log.as_ref() == Some(&self.log);
        let Some(position) = self.shelf.cursor().filter(here) else { return Ok(true) };
        let kinds = Some(vec!["log.redacted".to_owned()]);
        let query = LogQuery { kinds, ..LogQuery::after(position.seq, 1) };
        self.saved = Some(position);
        Ok(!self.engine.query().log(query).await?.value.is_empty())
    }

    /// Notes that everything up to here is in the files, if it is.
    pub(super) fn note_position(&mut self, position: &Position) {
        let all_done = self.places.values().all(|place| !place.stale && place.is_well());
        if !all_done || self.saved.as_ref() == Some(position) {
            return;
        }
        match self.shelf.save_cursor(position) {
            Ok(()) => self.saved = Some(position.clone()),
            Err(error) => tracing::debug!(%error, "the position of renderings was not noted"),
        }
    }

    /// What a person should know.
    pub(super) fn warnings(&self) -> Vec<String> {
        let of_places = self.places.values().flat_map(|place| place.failure.iter().chain(&place.troubles));
        of_places.chain(self.shut_out.values()).cloned().collect()
    }

    fn tell(&self, say: &watch::Sender<RendererStatus>) {
        let root = &self.engine.config().root;
        let here = self.places.iter().filter(|(_, place)| place.keeper.folder.is_some() && place.in_use);
        let folders = here.map(|(instance, place)| Folder {
            instance: instance.clone(),
            path: root.join(place.keeper.context.folder.as_str()),
        });
        let rendered = RendererStatus { folders: folders.collect(), warnings: self.warnings() };
        say.send_if_modified(|known| {
            let changed = *known != rendered;
            *known = rendered;
            changed
        });
    }

    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        let root = &self.engine.config().root;
        let now = self.now();
        self.places.values().all(|place| !place.stale && place.is_well() && place.keeper.is_quiet(root, now))
    }

    /// As if the log said so.
    #[cfg(test)]
    pub(super) async fn pretend(&mut self, configured: Configured) {
        let scope = configured.scope.clone();
        self.contexts.insert(scope.clone(), configured);
        self.rearrange(&scope).await;
    }

    /// Makes everybody's turn come, whatever the time.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        self.places.values_mut().for_each(|place| place.due = 0);
    }
}

impl InstanceRenderer {
    fn new(keeper: Keeper) -> InstanceRenderer {
        let backoff_millis = SOON_MILLIS;
        InstanceRenderer {
            keeper,
            in_use: false,
            stale: true,
            unfinished: false,
            due: 0,
            backoff_millis,
            failure: None,
            troubles: vec![],
            watched: None,
        }
    }

    fn is_well(&self) -> bool {
        self.failure.is_none() && !self.unfinished
    }

    /// Whoever has files already in the folder that this one would get: other names may mean the same one on a disk that
    /// does not tell cases apart.
    fn rival<'a>(&self, root: &Path, kept: &'a [(FileId, Instance)]) -> Option<&'a Instance> {
        if kept.is_empty() || self.keeper.has_folder(root).is_some() {
            return None;
        }
        let folder = FileId::at(&root.join(self.keeper.context.folder.as_str()))?;
        kept.iter().find(|(taken, _)| *taken == folder).map(|(_, rival)| rival)
    }

    fn wait_for(&mut self, instance: &Instance, rival: &Instance, now: u64) {
        let message = no_files(instance, &self.keeper.context, rival);
        if !self.troubles.contains(&message) {
            tracing::warn!(%instance, "{message}");
        }
        (self.stale, self.failure, self.troubles) = (false, None, vec![message]);
        self.due = now + LOOK_EVERY_MILLIS;
    }

    async fn round(&mut self, engine: &Engine, instance: &Instance, now: u64) {
        match self.keeper.round(engine).await {
            Ok(round) => {
                if self.failure.take().is_some() {
                    tracing::info!(%instance, "files are written again");
                }
                (self.stale, self.backoff_millis, self.troubles) = (false, SOON_MILLIS, round.troubles);
                self.unfinished = !round.whole;
                self.due = now + if round.again { SOON_MILLIS } else { LOOK_EVERY_MILLIS };
            }
            Err(error) => {
                let message = error.to_string();
                if self.failure.as_ref() != Some(&message) {
                    tracing::warn!(%instance, "{message}: it is tried again, and nothing that was said is lost");
                }
                self.failure = Some(message);
                self.backoff_millis = (self.backoff_millis * 2).min(RETRY_AT_LEAST_EVERY_MILLIS);
                self.due = now + self.backoff_millis;
            }
        }
    }
}

fn no_files(instance: &Instance, context: &TeamContext, rival: &Instance) -> String {
    let folder = context.folder.as_str();
    format!(
        "instance '{instance}' has no files, because its folder {folder} is that of instance '{rival}' or meets it: give \
         it another with 'rookery context configure --instance {instance} --folder …'"
    )
}

fn forbidden_folder(instance: &Instance, context: &TeamContext, problem: &str) -> String {
    let folder = context.folder.as_str();
    format!(
        "instance '{instance}' has no files, because its folder {folder} {problem}: give it another with \
         'rookery context configure --instance {instance} --folder …', or change dir in [context] of rookery.toml"
    )
}

/// Asks the system for hints about a folder, once it is there.
fn watch_over(
    watcher: Option<&mut RecommendedWatcher>,
    hints: &Hints,
    root: &Path,
    instance: &Instance,
    place: &mut InstanceRenderer,
) {
    let here = place.keeper.folder;
    let Some(watcher) = watcher.filter(|_| here.is_some() && place.watched != here) else { return };
    let folder = root.join(place.keeper.context.folder.as_str());
    // The one before may be gone; then there is nothing to forget.
    drop(watcher.unwatch(&folder));
    lock(&hints.folders).insert(folder.clone(), instance.clone());
    match watcher.watch(&folder, RecursiveMode::Recursive) {
        Ok(()) => place.watched = here,
        Err(error) => tracing::debug!(%error, %instance, "changes of files are noticed a little later"),
    }
}

/// Without it, the disk is looked at every now and then all the same.
fn watcher(hints: &Arc<Hints>) -> Option<RecommendedWatcher> {
    let hints = hints.clone();
    let config = notify::Config::default().with_follow_symlinks(false);
    match RecommendedWatcher::new(move |event| hints.receive(event), config) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "changes of context files are noticed a little later");
            None
        }
    }
}

/// The instance that an agent names in its id. A bare name says nothing.
fn named(agent: &AgentId) -> Option<Instance> {
    Some(Instance::of(agent)).filter(|instance| *instance != Instance::default())
}

fn is_rendered(key: &Key) -> bool {
    matches!(key, Key::Message(_) | Key::Version(VersionId { .. }) | Key::Document(_))
}
