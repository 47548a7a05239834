//! The service: follows the log and the disk, and schedules a round for each instance that needs one.

use rookery_core::model::{Table, VersionId};
use rookery_core::{AgentId, AnyEvent, EventRef, Key, LogId, Position, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_settings::{Configured, Provider, Scope, TeamContext};
use rookery_core::model::message::{Form, Header};
use rookery_store::query::ColumnTest;
use rookery_store::{LogQuery, RowQuery};
use tokio::sync::watch;

use super::change_hints::{ChangeHints, create_watcher};
use super::fault_points::FaultPoints;
use super::file_stamp::FileId;
use super::instance::InstanceFiles;
use super::state::StateStore;
use super::{RenderError, RenderedFolder, RendererConfig, RendererStatus};
use crate::durations::RETRY_DELAY;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::messages::message_of;
use crate::subscribe::{SubscribeError, Subscription};

/// The delay before unsettled files are checked again.
const RECHECK_DELAY_MILLIS: u64 = 100;
/// The interval at which the disk is checked without a hint that it changed.
const POLL_INTERVAL_MILLIS: u64 = 2_000;
/// The delay before unfinished work is retried after a change on the disk.
const RETRY_DELAY_MILLIS: u64 = 1_000;
/// The longest backoff between retries.
const MAX_RETRY_MILLIS: u64 = 30_000;

/// Runs until it is dropped, and publishes its status. Starts over when the log cannot be followed.
pub(crate) async fn run(engine: Engine, config: RendererConfig, status: watch::Sender<RendererStatus>) {
    loop {
        match RenderService::open(&engine, &config).await {
            Ok((mut service, subscription)) => {
                if let Err(error) = service.follow(subscription, &status).await {
                    tracing::debug!(%error, "the renderer was interrupted and starts over");
                }
            }
            Err(error) => tracing::debug!(%error, "the renderer cannot follow the log yet"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// The renderers of all instances that have files at this site.
#[derive(Debug)]
pub(super) struct RenderService {
    engine: Engine,
    config: RendererConfig,
    states: StateStore,
    log: LogId,
    contexts: BTreeMap<Scope, Configured>,
    renderers: BTreeMap<Instance, InstanceRenderer>,
    /// Instances that cannot have their folder, such as that of another instance, with a warning for people.
    without_folder: BTreeMap<Instance, String>,
    hints: Arc<ChangeHints>,
    watcher: Option<RecommendedWatcher>,
    /// The last position that was saved.
    saved: Option<Position>,
}

#[derive(Debug)]
struct InstanceRenderer {
    files: InstanceFiles,
    /// The instance was configured, has agents, or was active since the service started.
    in_use: bool,
    /// The log has news for the files.
    stale: bool,
    /// Some files could not be brought up to date.
    unfinished: bool,
    /// When the disk is checked next.
    due: u64,
    /// The delay after the next failure.
    backoff_millis: u64,
    failure: Option<String>,
    warnings: Vec<String>,
    /// The folder that the file watcher observes.
    watched: Option<FileId>,
}

impl RenderService {
    /// Opens a renderer for every instance that has files at this site.
    pub(super) async fn open(
        engine: &Engine,
        config: &RendererConfig,
    ) -> Result<(RenderService, Subscription), RenderError> {
        RenderService::open_with(engine, config, FaultPoints::default()).await
    }

    pub(super) async fn open_with(
        engine: &Engine,
        config: &RendererConfig,
        fault_points: FaultPoints,
    ) -> Result<(RenderService, Subscription), RenderError> {
        // Subscribing comes before the first query, so that no event is missed between the two.
        let subscription = engine.subscribe(None).await.map_err(EngineError::from)?;
        let log = subscription.position().log.unwrap_or_else(|| LogId::from(""));
        let hints = Arc::new(ChangeHints::default());
        let mut service = RenderService {
            engine: engine.clone(),
            config: config.clone(),
            states: StateStore::new(&config.state, fault_points),
            log,
            contexts: BTreeMap::new(),
            renderers: BTreeMap::new(),
            without_folder: BTreeMap::new(),
            watcher: create_watcher(&hints),
            hints,
            saved: None,
        };
        service.read_contexts().await?;
        service.add_all(service.find_instances().await?);
        service.mark_in_use().await?;
        if service.missed_redactions().await? {
            service.reread_all();
        }
        Ok((service, subscription))
    }

    async fn follow(
        &mut self,
        mut subscription: Subscription,
        status: &watch::Sender<RendererStatus>,
    ) -> Result<(), SubscribeError> {
        loop {
            self.run_round().await;
            self.publish_status(status);
            self.note_position(&subscription.position());
            let pause = Duration::from_millis(self.next_due().saturating_sub(self.now()).max(1));
            let hints = self.hints.clone();
            tokio::select! {
                chunk = subscription.next() => {
                    for row in chunk?.rows() {
                        self.handle_event(&row.event).await;
                    }
                }
                () = hints.arrived.notified() => self.handle_hints(&hints.take()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does a round for every instance that is due.
    pub(super) async fn run_round(&mut self) {
        let now = self.now();
        let root = self.engine.config().root.clone();
        let folder = |(instance, renderer): (&Instance, &InstanceRenderer)| {
            Some((renderer.files.has_folder(&root)?, instance.clone()))
        };
        let mut kept: Vec<(FileId, Instance)> = self.renderers.iter().filter_map(folder).collect();
        for (instance, renderer) in &mut self.renderers {
            if renderer.due > now && !(renderer.stale && renderer.failure.is_none()) {
                continue;
            }
            if let Some(rival) = renderer.rival(&root, &kept) {
                renderer.wait_for_folder(instance, rival, now);
                continue;
            }
            let idle = !renderer.stale && renderer.is_up_to_date() && !renderer.files.reread;
            if idle && renderer.files.is_quiet(&root, now) {
                renderer.due = now + POLL_INTERVAL_MILLIS;
                continue;
            }
            renderer.run_round(&self.engine, instance, now).await;
            kept.extend(renderer.files.folder.map(|folder| (folder, instance.clone())));
            watch_folder(self.watcher.as_mut(), &self.hints, &root, instance, renderer);
        }
    }

    fn next_due(&self) -> u64 {
        self.renderers.values().map(|renderer| renderer.due).min().unwrap_or(self.now() + POLL_INTERVAL_MILLIS)
    }

    fn now(&self) -> u64 {
        self.engine.clock().monotonic()
    }

    fn handle_hints(&mut self, instances: &BTreeSet<Instance>) {
        let soon = self.now();
        for instance in instances {
            if let Some(renderer) = self.renderers.get_mut(instance).filter(|renderer| renderer.failure.is_none()) {
                // Failed attempts touch the disk too, and must not cause the next one at once.
                let pause = if renderer.unfinished { RETRY_DELAY_MILLIS } else { 0 };
                renderer.due = renderer.due.min(soon + pause);
            }
        }
    }

    /// Marks the instances whose files an event changes.
    pub(super) async fn handle_event(&mut self, event: &AnyEvent) {
        match event.typed() {
            EventRef::MessageSent(sent) if sent.letter.header.form == Form::Entry => {
                self.mark_message(&sent.letter.header)
            }
            EventRef::MessageReleased(released) if released.header.form == Form::Entry => {
                self.mark_message(&released.header)
            }
            EventRef::DocumentWritten(written) => self.mark_stale(&Instance::of_run(&written.id.run)),
            EventRef::DocumentDeleted(deleted) => self.mark_stale(&Instance::of_run(&deleted.id.run)),
            EventRef::AgentRegistered(registered) => {
                if let Some(instance) = named_instance(&registered.id) {
                    self.add(&instance);
                    self.mark_used(&instance);
                }
            }
            EventRef::ContextConfigured(configured) => self.reconfigure(&configured.scope).await,
            EventRef::ChannelArchived(archived) => {
                for thread in [&archived.thread, &archived.archive] {
                    self.mark_archived(&Instance::of_thread(thread));
                }
            }
            EventRef::LogRedacted(redacted) if redacted.cleared.iter().any(|cleared| is_rendered(&cleared.key)) => {
                self.reread_all();
            }
            _ => {}
        }
    }

    /// Only threads of instances have files. A message from outside of an instance appears in the channel that it was sent to.
    fn mark_message(&mut self, header: &Header) {
        match header.instance() {
            Some(instance) => self.mark_stale(&instance),
            None => {
                if let Some(renderer) = self.renderers.get_mut(&Instance::of_thread(&header.thread)) {
                    renderer.stale = true;
                }
            }
        }
    }

    fn mark_stale(&mut self, instance: &Instance) {
        self.add(instance);
        self.mark_used(instance);
        if let Some(renderer) = self.renderers.get_mut(instance) {
            renderer.stale = true;
        }
    }

    /// The file of a channel that was archived, or shows an archive, is compared with the log from its beginning.
    fn mark_archived(&mut self, instance: &Instance) {
        self.mark_stale(instance);
        if let Some(renderer) = self.renderers.get_mut(instance) {
            renderer.files.reread = true;
        }
    }

    fn mark_used(&mut self, instance: &Instance) {
        if let Some(renderer) = self.renderers.get_mut(instance) {
            renderer.in_use = true;
        }
    }

    /// Instances that were configured or have agents are in use from the start.
    async fn mark_in_use(&mut self) -> Result<(), RenderError> {
        for scope in self.contexts.keys().cloned().collect::<Vec<_>>() {
            if let Some(run) = scope.run() {
                self.mark_used(&Instance::of_run(run));
            }
        }
        for agent in self.engine.query().agents().await?.value.iter().filter(|agent| !agent.has_left()) {
            self.mark_used(&Instance::of(&agent.id));
        }
        Ok(())
    }

    fn reread_all(&mut self) {
        for renderer in self.renderers.values_mut() {
            renderer.files.reread = true;
            renderer.stale = true;
        }
    }

    async fn reconfigure(&mut self, scope: &Scope) {
        while let Err(error) = self.read_contexts().await {
            tracing::debug!(%error, "cannot read the context settings; retrying");
            tokio::time::sleep(RETRY_DELAY).await;
        }
        self.apply_context(scope).await;
    }

    /// Moves the files of instances to the folders that are configured now.
    async fn apply_context(&mut self, scope: &Scope) {
        let known: Vec<Instance> = self.renderers.keys().cloned().collect();
        for instance in known {
            let context = self.context(&instance);
            if self.renderers.get(&instance).is_some_and(|renderer| renderer.files.context != context) {
                let before = self.renderers.remove(&instance);
                self.hints.remove_instance(&instance);
                self.add(&instance);
                if before.is_some_and(|before| before.in_use) {
                    self.mark_used(&instance);
                }
            }
        }
        // The instance that was in the way may have another folder now, or this one has.
        for instance in std::mem::take(&mut self.without_folder).into_keys() {
            self.add(&instance);
            self.mark_used(&instance);
        }
        match scope {
            Scope::Instance(run) => {
                self.add(&Instance::of_run(run));
                self.mark_used(&Instance::of_run(run));
            }
            // Instances without files may have some now.
            Scope::Project => match self.find_instances().await {
                Ok(instances) => self.add_all(instances),
                Err(error) => tracing::debug!(%error, "cannot read the instances"),
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

    /// The instances that have messages or documents, have agents, or were configured.
    async fn find_instances(&self) -> Result<BTreeSet<Instance>, RenderError> {
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
                found.extend(thread.archive_of().map(|_| Instance::of_thread(&thread.id)));
                let channel = ColumnTest::Is(thread.id.as_str().into());
                let first = RowQuery::all(Table::Messages).with("channel", channel).at_most(Some(1));
                let said = self.engine.store().list(first).await?.0.into_iter().next().and_then(message_of);
                found.extend(said.and_then(|message| message.letter.header.instance()));
            }
        }
        let agents = self.engine.query().agents().await?.value;
        found.extend(agents.iter().filter(|agent| !agent.has_left()).filter_map(|agent| named_instance(&agent.id)));
        Ok(found)
    }

    /// Starts rendering several instances. Those that had files in their folder before come first.
    fn add_all(&mut self, instances: BTreeSet<Instance>) {
        let log = self.log.to_string();
        let was_here =
            |instance: &Instance| self.states.has_state(instance, &log, self.context(instance).folder.as_str());
        let (before, new): (Vec<Instance>, Vec<Instance>) = instances.into_iter().partition(was_here);
        before.iter().chain(&new).for_each(|instance| self.add(instance));
    }

    /// Starts rendering an instance, if its files belong to this site and no other instance has its folder.
    fn add(&mut self, instance: &Instance) {
        if self.renderers.contains_key(instance) {
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
            |(_, renderer): &(&Instance, &InstanceRenderer)| renderer.files.context.folder.overlaps(&context.folder);
        let rival = self.renderers.iter().find(overlaps).map(|(rival, _)| folder_taken(instance, &context, rival));
        let forbidden = || context.folder.problem().map(|problem| folder_forbidden(instance, &context, problem));
        if let Some(message) = rival.or_else(forbidden) {
            if self.without_folder.get(instance) != Some(&message) {
                tracing::warn!(%instance, "{message}");
                self.without_folder.insert(instance.clone(), message);
            }
            return;
        }
        self.without_folder.remove(instance);
        let generated = (self.config.generated)(instance, &context);
        let log = self.log.to_string();
        let files = InstanceFiles::new(instance.clone(), context, generated, &log, &self.states);
        self.renderers.insert(instance.clone(), InstanceRenderer::new(files));
    }

    /// Whether texts were redacted that may still be in files.
    async fn missed_redactions(&mut self) -> Result<bool, RenderError> {
        let here = |position: &Position| position.log.as_ref() == Some(&self.log);
        let Some(position) = self.states.cursor().filter(here) else { return Ok(true) };
        let kinds = Some(vec!["log.redacted".to_owned()]);
        let query = LogQuery { kinds, ..LogQuery::after(position.seq, 1) };
        self.saved = Some(position);
        Ok(!self.engine.query().log(query).await?.value.is_empty())
    }

    /// Saves the position up to which the files reflect the log, if all of them do.
    pub(super) fn note_position(&mut self, position: &Position) {
        let all_done = self.renderers.values().all(|renderer| !renderer.stale && renderer.is_up_to_date());
        if !all_done || self.saved.as_ref() == Some(position) {
            return;
        }
        match self.states.save_cursor(position) {
            Ok(()) => self.saved = Some(position.clone()),
            Err(error) => tracing::debug!(%error, "cannot save the position of the renderer"),
        }
    }

    /// Warnings for people.
    pub(super) fn warnings(&self) -> Vec<String> {
        let of_renderers =
            self.renderers.values().flat_map(|renderer| renderer.failure.iter().chain(&renderer.warnings));
        of_renderers.chain(self.without_folder.values()).cloned().collect()
    }

    fn publish_status(&self, status: &watch::Sender<RendererStatus>) {
        let root = &self.engine.config().root;
        let here = self.renderers.iter().filter(|(_, renderer)| renderer.files.folder.is_some() && renderer.in_use);
        let folders = here.map(|(instance, renderer)| RenderedFolder {
            instance: instance.clone(),
            path: root.join(renderer.files.context.folder.as_str()),
        });
        let rendered = RendererStatus { folders: folders.collect(), warnings: self.warnings() };
        status.send_if_modified(|known| {
            let changed = *known != rendered;
            *known = rendered;
            changed
        });
    }

    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        let root = &self.engine.config().root;
        let now = self.now();
        self.renderers
            .values()
            .all(|renderer| !renderer.stale && renderer.is_up_to_date() && renderer.files.is_quiet(root, now))
    }

    /// Applies settings as if the log had them.
    #[cfg(test)]
    pub(super) async fn apply_settings(&mut self, configured: Configured) {
        let scope = configured.scope.clone();
        self.contexts.insert(scope.clone(), configured);
        self.apply_context(&scope).await;
    }

    /// Makes all instances due, whatever the time.
    #[cfg(test)]
    pub(super) fn make_all_due(&mut self) {
        self.renderers.values_mut().for_each(|renderer| renderer.due = 0);
    }
}

impl InstanceRenderer {
    fn new(files: InstanceFiles) -> InstanceRenderer {
        let backoff_millis = RECHECK_DELAY_MILLIS;
        InstanceRenderer {
            files,
            in_use: false,
            stale: true,
            unfinished: false,
            due: 0,
            backoff_millis,
            failure: None,
            warnings: vec![],
            watched: None,
        }
    }

    fn is_up_to_date(&self) -> bool {
        self.failure.is_none() && !self.unfinished
    }

    /// The instance that already has files in the folder that this one would get. Two names can mean the same folder on a
    /// disk that ignores case.
    fn rival<'a>(&self, root: &Path, kept: &'a [(FileId, Instance)]) -> Option<&'a Instance> {
        if kept.is_empty() || self.files.has_folder(root).is_some() {
            return None;
        }
        let folder = FileId::at(&root.join(self.files.context.folder.as_str()))?;
        kept.iter().find(|(taken, _)| *taken == folder).map(|(_, rival)| rival)
    }

    fn wait_for_folder(&mut self, instance: &Instance, rival: &Instance, now: u64) {
        let message = folder_taken(instance, &self.files.context, rival);
        if !self.warnings.contains(&message) {
            tracing::warn!(%instance, "{message}");
        }
        (self.stale, self.failure, self.warnings) = (false, None, vec![message]);
        self.due = now + POLL_INTERVAL_MILLIS;
    }

    async fn run_round(&mut self, engine: &Engine, instance: &Instance, now: u64) {
        match self.files.round(engine).await {
            Ok(round) => {
                if self.failure.take().is_some() {
                    tracing::info!(%instance, "the files are up to date again");
                }
                (self.stale, self.backoff_millis, self.warnings) = (false, RECHECK_DELAY_MILLIS, round.warnings);
                self.unfinished = !round.complete;
                self.due = now + if round.recheck { RECHECK_DELAY_MILLIS } else { POLL_INTERVAL_MILLIS };
            }
            Err(error) => {
                let message = error.to_string();
                if self.failure.as_ref() != Some(&message) {
                    tracing::warn!(%instance, "{message}; retrying, no message is lost");
                }
                self.failure = Some(message);
                self.backoff_millis = (self.backoff_millis * 2).min(MAX_RETRY_MILLIS);
                self.due = now + self.backoff_millis;
            }
        }
    }
}

fn folder_taken(instance: &Instance, context: &TeamContext, rival: &Instance) -> String {
    let folder = context.folder.as_str();
    format!(
        "instance '{instance}' has no files, because its folder {folder} is that of instance '{rival}' or overlaps it: give \
         it another with 'rookery context configure --instance {instance} --folder …'"
    )
}

fn folder_forbidden(instance: &Instance, context: &TeamContext, problem: &str) -> String {
    let folder = context.folder.as_str();
    format!(
        "instance '{instance}' has no files, because its folder {folder} {problem}: give it another with \
         'rookery context configure --instance {instance} --folder …', or change dir in [context] of rookery.toml"
    )
}

/// Watches a folder for hints, once it exists.
fn watch_folder(
    watcher: Option<&mut RecommendedWatcher>,
    hints: &ChangeHints,
    root: &Path,
    instance: &Instance,
    renderer: &mut InstanceRenderer,
) {
    let here = renderer.files.folder;
    let Some(watcher) = watcher.filter(|_| here.is_some() && renderer.watched != here) else { return };
    let folder = root.join(renderer.files.context.folder.as_str());
    // The previous folder may be gone, and its watch with it.
    drop(watcher.unwatch(&folder));
    hints.add_folder(&folder, instance);
    match watcher.watch(&folder, RecursiveMode::Recursive) {
        Ok(()) => renderer.watched = here,
        Err(error) => {
            tracing::debug!(%error, %instance, "cannot watch the folder; changes of files are noticed with a delay")
        }
    }
}

/// The instance that an agent names in its id. A bare name names none.
fn named_instance(agent: &AgentId) -> Option<Instance> {
    Some(Instance::of(agent)).filter(|instance| *instance != Instance::default())
}

fn is_rendered(key: &Key) -> bool {
    matches!(key, Key::Message(_) | Key::Version(VersionId { .. }) | Key::Document(_))
}
