//! The differences between programs. Nothing here starts a process: arguments and files of a turn are data, and the
//! program's output is read event by event.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::bridge::Bridge;
use super::conversation::{ConversationUsage, ProgramConversation};
use super::report::ReportReader;
use crate::file::AgentProgram;

/// The longest text in one argument. Linux rejects arguments from 128 KiB.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 100 << 10;

pub(crate) trait Dialect: Send + Sync + fmt::Debug {
    fn program(&self) -> AgentProgram;

    /// The arguments, environment and files of a turn.
    fn start(&self, input: &TurnInput<'_>) -> ProgramStart;

    fn reader(&self, input: &TurnInput<'_>) -> Box<dyn ReportReader>;

    /// Phrases in the output of a program that does not know the conversation that it should resume.
    fn unknown_conversation_phrases(&self) -> &'static [&'static str];

    /// Variables that its own configuration names, such as that of a key.
    fn variables(&self) -> &[String] {
        &[]
    }

    /// Addresses of models in its own configuration.
    fn addresses(&self) -> &[String] {
        &[]
    }
}

/// The input of a turn for a dialect.
#[derive(Clone, Debug)]
pub(crate) struct TurnInput<'a> {
    pub system: &'a str,
    pub prompt: &'a str,
    pub model: Option<&'a str>,
    pub resumes: Option<ProgramConversation>,
    /// Our MCP server; `None` if the agent gets no tools.
    pub bridge: Option<&'a Bridge>,
    /// The only tools of ours that it may use.
    pub allowed: Option<&'a [String]>,
    pub own_sandbox: OwnSandbox,
    /// The working folder.
    pub folder: &'a Path,
    /// The folder for files of this agent.
    pub state: &'a Path,
}

/// Whether a program uses its built-in sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnSandbox {
    /// No: our sandbox confines it, or the file turns confinement off.
    Off,
    /// Yes, if it has one: our sandbox is not available here.
    On,
}

/// The arguments, environment and files that a program is started with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProgramStart {
    pub args: Vec<String>,
    /// Variables that the workflow file may override.
    pub default_env: BTreeMap<String, String>,
    /// Variables that the workflow file may not override.
    pub required_env: BTreeMap<String, String>,
    pub stdin: String,
    /// Files to write before the start, by their paths in the state folder.
    pub files: Vec<(&'static str, String)>,
    pub linked: Option<LinkedFolder>,
    /// A file of its folder to override while it runs, with the content.
    pub overridden: Option<(PathBuf, String)>,
}

/// A folder of the user whose entries are linked into the state folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinkedFolder {
    pub from: PathBuf,
    pub to: &'static str,
    /// Entries that are not linked.
    pub except: &'static [&'static str],
}

impl TurnInput<'_> {
    /// Usage of the conversation before this turn.
    pub(crate) fn earlier_usage(&self) -> ConversationUsage {
        self.resumes.as_ref().map(|conversation| conversation.used).unwrap_or_default()
    }

    /// The prompt, preceded by the system prompt if the conversation is new: for programs without another place for it.
    pub(crate) fn prompt_with_system(&self) -> String {
        match self.resumes {
            Some(_) => self.prompt.to_owned(),
            None => format!("{}\n\n{}", self.system.trim_end(), self.prompt),
        }
    }

    /// The system prompt, if it fits into an argument.
    pub(crate) fn short_system(&self) -> Option<&str> {
        Some(self.system).filter(|system| system.len() <= MAX_ARGUMENT_BYTES && !system.contains('\0'))
    }

    /// The prompt, preceded by a system prompt that does not fit into an argument.
    pub(crate) fn with_long_system(&self) -> String {
        if self.short_system().is_some() { self.prompt.to_owned() } else { self.prompt_with_system() }
    }
}

impl ProgramStart {
    pub(crate) fn args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut ProgramStart {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn default_env(&mut self, name: &str, value: &str) -> &mut ProgramStart {
        self.default_env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn required_env(&mut self, name: &str, value: impl Into<String>) -> &mut ProgramStart {
        self.required_env.insert(name.to_owned(), value.into());
        self
    }
}
