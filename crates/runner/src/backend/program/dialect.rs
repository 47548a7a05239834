//! How one program is spoken to. Nothing here starts anything: what a turn is started with is data, and what the program
//! writes is read line by line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::bridge::Bridge;
use super::conversation::{Conversation, Used};
use super::report::Reader;
use crate::file::AgentProgram;

/// The longest text that is put into one argument. Systems refuse longer ones (Linux at 128 KiB).
pub(crate) const ARGUMENT: usize = 100 << 10;

pub(crate) trait Dialect: Send + Sync + fmt::Debug {
    fn program(&self) -> AgentProgram;

    /// What a turn is started with.
    fn start(&self, asked: &Asked<'_>) -> Start;

    fn reader(&self, asked: &Asked<'_>) -> Box<dyn Reader>;

    /// What the program says if it does not know the conversation that it should go on with.
    fn forgot(&self) -> &'static [&'static str];

    /// Variables that its own configuration names, such as that of a key.
    fn variables(&self) -> &[String] {
        &[]
    }

    /// Addresses of models that its own configuration names.
    fn addresses(&self) -> &[String] {
        &[]
    }
}

/// What a turn needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub system: &'a str,
    pub prompt: &'a str,
    pub model: Option<&'a str>,
    pub resumes: Option<Conversation>,
    /// How it gets our tools. None if it shall have none.
    pub bridge: Option<&'a Bridge>,
    /// The only tools of ours that it may use.
    pub allowed: Option<&'a [String]>,
    pub walls: Walls,
    /// Where it works.
    pub folder: &'a Path,
    /// Where files for it alone may be.
    pub state: &'a Path,
}

/// What keeps a program inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walls {
    /// Our sandbox does, or the file says that nothing shall.
    NotItsOwn,
    /// There is no sandbox here; if it has one of its own, that is better than nothing.
    ItsOwn,
}

/// What a program is started with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Start {
    pub args: Vec<String>,
    /// What the workflow file may say otherwise.
    pub usual: BTreeMap<String, String>,
    /// What it may not.
    pub fixed: BTreeMap<String, String>,
    pub stdin: String,
    /// Files to be there before, by their paths in its state folder.
    pub files: Vec<(&'static str, String)>,
    pub linked: Option<Linked>,
    /// A file of its folder that has to be another one while it runs, and what has to be in it.
    pub lent: Option<(PathBuf, String)>,
}

/// A folder of the user's, whose content is to be found in the state folder too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Linked {
    pub from: PathBuf,
    pub to: &'static str,
    /// What is not linked.
    pub except: &'static [&'static str],
}

impl Asked<'_> {
    /// What it used before this turn.
    pub(crate) fn used(&self) -> Used {
        self.resumes.as_ref().map(|conversation| conversation.used).unwrap_or_default()
    }

    /// The prompt, after what the agent is told about itself if this conversation has not heard it yet: for programs that
    /// have no other place for it.
    pub(crate) fn told(&self) -> String {
        match self.resumes {
            Some(_) => self.prompt.to_owned(),
            None => format!("{}\n\n{}", self.system.trim_end(), self.prompt),
        }
    }

    /// What the agent is told about itself, if it fits into an argument.
    pub(crate) fn short_system(&self) -> Option<&str> {
        Some(self.system).filter(|system| system.len() <= ARGUMENT && !system.contains('\0'))
    }

    /// The prompt, with what did not fit into an argument.
    pub(crate) fn with_long_system(&self) -> String {
        if self.short_system().is_some() { self.prompt.to_owned() } else { self.told() }
    }
}

impl Start {
    pub(crate) fn args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Start {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn usual(&mut self, name: &str, value: &str) -> &mut Start {
        self.usual.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn fixed(&mut self, name: &str, value: impl Into<String>) -> &mut Start {
        self.fixed.insert(name.to_owned(), value.into());
        self
    }
}
