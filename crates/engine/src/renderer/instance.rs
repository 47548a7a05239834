//! The files of one instance: the state that is kept between rounds, and the round itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rookery_core::Instance;
use rookery_core::model::context_settings::TeamContext;
use sha2::{Digest, Sha256};

use super::channel::ChannelProgress;
use super::documents::UnsettledFile;
use super::fault_points::FaultPoints;
use super::file_stamp::{FileId, FileStamp};
use super::instance_dir::{FileContent, InstanceDir, PathState};
use super::recovered::ReplacedFile;
use super::state::{InstanceState, StateStore};
use super::{GeneratedFile, RenderError};
use crate::engine::Engine;

/// The most bytes that are read of a file made from settings.
const LARGEST: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct InstanceFiles {
    pub(super) instance: Instance,
    pub(super) context: TeamContext,
    pub(super) state: InstanceState,
    saved: InstanceState,
    states: StateStore,
    fault_points: FaultPoints,
    /// Files that are made from settings alone.
    generated: Vec<GeneratedFile>,
    /// Files that are unchanged since they were rendered or read.
    pub(super) stamps: BTreeMap<String, FileStamp>,
    /// Changed files, until they have settled.
    pub(super) seen: BTreeMap<String, UnsettledFile>,
    /// Documents whose file is missing, and since when.
    pub(super) missing: BTreeMap<String, u64>,
    /// Files that were replaced and are in `.swap`.
    pub(super) swaps: BTreeMap<String, ReplacedFile>,
    pub(super) progress: ChannelProgress,
    /// Texts may have been redacted: all files are compared with the log.
    pub(super) reread: bool,
    /// Something is unsettled and must be checked again soon.
    pub(super) recheck: bool,
    /// Something failed and is retried.
    failed: bool,
    warnings: BTreeSet<String>,
    logged: BTreeSet<String>,
    /// The folder as of the last round.
    pub(super) folder: Option<FileId>,
    pub(super) now: u64,
    pub(super) wall: i64,
    /// The time as part of a file's name.
    pub(super) time_suffix: String,
}

/// The outcome of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RoundOutcome {
    /// Something is unsettled and must be checked again soon.
    pub(super) recheck: bool,
    /// The files reflect the log.
    pub(super) complete: bool,
    /// Warnings for people.
    pub(super) warnings: Vec<String>,
}

impl InstanceFiles {
    pub(super) fn new(
        instance: Instance,
        context: TeamContext,
        generated: Vec<GeneratedFile>,
        log: &str,
        states: &StateStore,
    ) -> InstanceFiles {
        let state = states.load(&instance, log, context.folder.as_str());
        InstanceFiles {
            saved: state.clone(),
            state,
            instance,
            context,
            states: states.clone(),
            fault_points: states.fault_points().clone(),
            generated,
            stamps: BTreeMap::new(),
            seen: BTreeMap::new(),
            missing: BTreeMap::new(),
            swaps: BTreeMap::new(),
            progress: ChannelProgress::default(),
            reread: false,
            recheck: false,
            failed: false,
            warnings: BTreeSet::new(),
            logged: BTreeSet::new(),
            folder: None,
            now: 0,
            wall: 0,
            time_suffix: String::new(),
        }
    }

    /// The folder that the instance has files in, from this run or an earlier one.
    pub(super) fn has_folder(&self, root: &Path) -> Option<FileId> {
        let was_here = self.state.channel.is_some() || !self.state.documents.is_empty();
        self.folder.or_else(|| FileId::at(&root.join(self.context.folder.as_str())).filter(|_| was_here))
    }

    /// Reconciles the files with the log once.
    pub(super) async fn round(&mut self, engine: &Engine) -> Result<RoundOutcome, RenderError> {
        let clock = engine.clock();
        (self.now, self.wall) = (clock.monotonic(), clock.now().0);
        self.time_suffix = format_time(self.wall);
        (self.recheck, self.failed, self.warnings) = (false, false, BTreeSet::new());
        let done = self.work(engine).await;
        // Also after half a round, because some files were written.
        if self.state != self.saved {
            let saved = self.states.save(&self.instance, &self.state);
            saved.map_err(|source| RenderError::SaveState { instance: self.instance.to_string(), source })?;
            self.saved = self.state.clone();
        }
        done?;
        self.reread &= self.failed;
        self.log_new_warnings();
        Ok(RoundOutcome {
            recheck: self.recheck,
            complete: !self.failed,
            warnings: self.warnings.iter().cloned().collect(),
        })
    }

    /// Handles each kind of file by itself, so that a failure of one does not block the others.
    async fn work(&mut self, engine: &Engine) -> Result<(), RenderError> {
        let dir = InstanceDir::enter(&engine.config().root, &self.context.folder, self.fault_points.clone())?;
        let done = self.settle_swaps(engine, &dir).await;
        self.report_failure("replaced files are not checked", done)?;
        let done = self.render_channel(engine, &dir).await;
        self.report_failure("the channel is not written", done)?;
        let done = self.render_documents(engine, &dir).await;
        self.report_failure("documents are not brought up to date", done)?;
        for generated in self.generated.clone() {
            let done = self.generate(engine, &dir, &generated);
            self.report_failure(&format!("{} is not written", generated.name), done)?;
        }
        self.folder = Some(dir.id()?);
        Ok(())
    }

    /// Turns an error about a file into a warning that names its effect. Errors about the log are passed on.
    pub(super) fn report_failure(&mut self, what: &str, done: Result<(), RenderError>) -> Result<(), RenderError> {
        match done {
            Err(error) if error.concerns_one_file() => {
                self.failed = true;
                self.add_warning(format!("{what}: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Whether the files are unchanged since the last round, so that without news in the log there is nothing to do.
    pub(super) fn is_quiet(&self, root: &Path, now: u64) -> bool {
        let quiet = || -> Result<bool, RenderError> {
            let dir = InstanceDir::enter(root, &self.context.folder, self.fault_points.clone())?;
            let files = self.find_files(&dir, std::iter::empty())?.found;
            let rendered = self.state.documents.values().filter(|state| state.hash.is_some()).count();
            let generated = |made: &GeneratedFile| {
                Ok(dir.read(&made.name, LARGEST)?.is_some_and(|c| c.bytes == made.text.as_bytes()))
            };
            let all_made = self.generated.iter().map(generated).collect::<Result<Vec<bool>, RenderError>>()?;
            Ok(files == self.stamps
                && files.len() == rendered
                && self.channel_is_quiet(&dir)?
                && all_made.into_iter().all(|made| made)
                && self.swaps_are_quiet(&dir, now)?
                && Some(dir.id()?) == self.folder)
        };
        quiet().unwrap_or(false)
    }

    /// Writes a file that is made from settings alone, if it is missing or differs.
    fn generate(&mut self, engine: &Engine, dir: &InstanceDir, generated: &GeneratedFile) -> Result<(), RenderError> {
        let GeneratedFile { name, text } = generated;
        let content = match dir.look(name)? {
            PathState::Other => return Err(RenderError::InTheWay { path: self.display_path(name) }),
            PathState::Nothing => None,
            PathState::File(_) => dir.read(name, LARGEST)?,
        };
        let hash = hex_of(text.as_bytes());
        if content.as_ref().is_some_and(|content| content.complete && content.bytes == text.as_bytes()) {
            self.state.generated.insert(name.clone(), hash);
            return Ok(());
        }
        if let Some(content) = content
            && !self.is_generated(name, &content)
        {
            self.ensure_may_replace(name, self.state.generated.contains_key(name))?;
            if dir.is_crowded(name)? {
                return Err(RenderError::Crowded { path: self.display_path(name) });
            }
            if let Some(aside) = dir.move_aside(name, &self.time_suffix)? {
                self.log_warning(format!(
                    "{} was edited: the edited file is kept as {aside}, and a new one was written",
                    self.display_path(name)
                ));
            }
        }
        let mut draft = dir.draft(&engine.mint(""))?;
        dir.write(&mut draft, text.as_bytes())?;
        let swap = dir.keep(draft, name)?;
        let before = self.state.generated.insert(name.clone(), hash);
        if dir.exchange(&swap)? {
            self.track_replaced(&swap, before);
            self.recheck = true;
        } else if !dir.place(&swap)? {
            self.recheck = true;
        }
        Ok(())
    }

    /// Refuses to replace a file that existed before, except below `.workflow`, which holds only contexts. Elsewhere such a
    /// file belongs to the project.
    pub(super) fn ensure_may_replace(&self, path: &str, was_written: bool) -> Result<(), RenderError> {
        match was_written || self.context.folder.is_below_shared() {
            true => Ok(()),
            false => Err(RenderError::NotOurs { path: self.display_path(path) }),
        }
    }

    /// Whether a file is as it was made from settings, now or last time.
    pub(super) fn is_generated(&self, name: &str, content: &FileContent) -> bool {
        let is_new = |made: &&GeneratedFile| made.name == name && made.text.as_bytes() == content.bytes;
        let was_made = || self.state.generated.get(name).is_some_and(|hash| *hash == hex_of(&content.bytes));
        content.complete && (self.generated.iter().any(|made| is_new(&made)) || was_made())
    }

    pub(super) fn recheck_soon(&mut self) -> Result<(), RenderError> {
        self.recheck = true;
        Ok(())
    }

    /// The path of a file in the project, for messages to people.
    pub(super) fn display_path(&self, path: &str) -> String {
        format!("{}/{path}", self.context.folder.as_str())
    }

    /// Adds a warning that holds until its cause is removed.
    pub(super) fn add_warning(&mut self, message: String) {
        self.warnings.insert(message);
    }

    /// Logs something that happened once.
    pub(super) fn log_warning(&self, message: String) {
        tracing::warn!(instance = %self.instance, "{message}");
    }

    /// Logs the warnings that are new in this round.
    fn log_new_warnings(&mut self) {
        for warning in self.warnings.difference(&self.logged) {
            tracing::warn!(instance = %self.instance, "{warning}");
        }
        self.logged.clone_from(&self.warnings);
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn hex_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn format_time(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map(|at| at.strftime("%Y%m%dT%H%M%SZ").to_string())
        .unwrap_or_else(|_| millis.to_string())
}
