//! What can stand in `${{ … }}`, where, and what it is.
//!
//! Settings are needed before anything runs, so they know everything but what setup commands print. Texts for agents know that
//! too. The script of a mock agent knows besides what it was told and what its own calls returned.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_dir::folder_name;

use super::fault::{Fault, Faults};
use super::near::{nearest, some_of};
use super::template::{Template, Variable};

/// Words that variables of setup commands cannot be called by.
pub(super) const RESERVED: [&str; 8] = ["env", "workflow", "params", "context", "instance", "inbox", "got", "source"];

/// Where a text stands, and so what it can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope<'a> {
    /// Where the context is kept: everything but what setup prints and the context itself.
    Context,
    /// Everything but what setup prints.
    Setting,
    /// A text for an agent.
    Text,
    /// The script of a mock agent, in which calls kept these results so far.
    Script(&'a [String]),
}

/// Everything that can be put in, once it is known who runs what.
#[derive(Clone, PartialEq, Debug)]
pub struct Variables {
    pub env: BTreeMap<String, String>,
    pub workflow: String,
    pub instance: Instance,
    /// By name; none if it must be said and was not.
    pub params: BTreeMap<String, Option<String>>,
    /// What setup commands printed, by variable; none before they ran.
    pub setup: BTreeMap<String, Option<String>>,
    /// The files of channel and entry document; none if there are none.
    pub context: Option<(String, String)>,
}

/// How long a text may be with everything put in: files of a few lines must not become texts without end.
const FILLED_BYTES: usize = 4 << 20;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known<'a> {
    Value(&'a str),
    /// It has a value later.
    Later,
    Unknown,
}

impl Variables {
    pub fn look_up(&self, name: &str) -> Known<'_> {
        fn value(value: Option<&String>) -> Known<'_> {
            value.map_or(Known::Unknown, |value| Known::Value(value))
        }
        fn later(value: Option<&Option<String>>) -> Known<'_> {
            match value {
                Some(Some(value)) => Known::Value(value),
                Some(None) => Known::Later,
                None => Known::Unknown,
            }
        }
        match name.split_once('.') {
            None if name == "instance" => Known::Value(self.instance.name()),
            None => later(self.setup.get(name)),
            Some(("workflow", "name")) => Known::Value(&self.workflow),
            Some(("workflow", "instance")) => Known::Value(self.instance.name()),
            Some(("env", name)) => value(self.env.get(name)),
            Some(("params", name)) => later(self.params.get(name)),
            Some(("context", "channel")) => value(self.context.as_ref().map(|(channel, _)| channel)),
            Some(("context", "document")) => value(self.context.as_ref().map(|(_, document)| document)),
            Some(("inbox" | "got", _)) => Known::Later,
            Some(_) => Known::Unknown,
        }
    }

    /// A text with all that is known put in, and the names of what is not known yet in its place.
    pub fn fill(&self, template: &Template) -> String {
        template.fill(|name| match self.look_up(name) {
            Known::Value(value) => Cow::Borrowed(value),
            Known::Later | Known::Unknown => Cow::Owned(placeholder(name)),
        })
    }

    /// As [`Variables::fill`], for a folder: an instance is written so that it is the name of one.
    pub fn fill_folder(&self, template: &Template) -> String {
        template.fill(|name| match (name, self.look_up(name)) {
            ("instance" | "workflow.instance", _) => Cow::Owned(folder_name(&self.instance)),
            (_, Known::Value(value)) => Cow::Borrowed(value),
            (_, Known::Later | Known::Unknown) => Cow::Owned(placeholder(name)),
        })
    }

    /// Whether a text becomes longer than anybody needs by what is put in.
    pub(super) fn is_too_long(&self, template: &Template) -> bool {
        let length = |variable: &Variable| match self.look_up(&variable.name) {
            Known::Value(value) => value.len(),
            Known::Later | Known::Unknown => 0,
        };
        template.variables().map(length).fold(0_usize, usize::saturating_add) > FILLED_BYTES
    }

    /// Tells every name in a text that stands for nothing there, and a text that becomes too long.
    pub(super) fn check(&self, template: &Template, scope: Scope<'_>, faults: &mut Faults) {
        if self.is_too_long(template) {
            let message = format!("is longer than {FILLED_BYTES} bytes with everything put in");
            faults.add(Fault::new(&template.place, message));
        }
        for variable in template.variables() {
            if !self.is_known(variable, scope) {
                faults.add_with(|| self.fault_of(variable, scope));
            }
        }
    }

    /// Whether a name stands for something where it is used.
    fn is_known(&self, variable: &Variable, scope: Scope<'_>) -> bool {
        let name = variable.name.as_str();
        let (group, rest) = name.split_once('.').unwrap_or((name, ""));
        let is_printed = self.setup.contains_key(name);
        match (group, scope) {
            ("got", Scope::Script(got)) => {
                let word = rest.split('.').next().unwrap_or_default();
                got.iter().any(|known| known == word)
            }
            ("inbox", Scope::Script(_)) => matches!(rest, "from" | "text"),
            ("inbox" | "got", _) | ("context", Scope::Context) => false,
            (_, Scope::Context | Scope::Setting) if is_printed => false,
            _ => self.look_up(name) != Known::Unknown,
        }
    }

    /// Why a name stands for nothing where it is used.
    fn fault_of(&self, variable: &Variable, scope: Scope<'_>) -> Fault {
        let name = variable.name.as_str();
        let (group, rest) = name.split_once('.').unwrap_or((name, ""));
        let fault = |message: String| Fault::new(&variable.place, message);
        if self.setup.contains_key(name) {
            return fault(format!("`{name}` is not known before the setup commands have run"))
                .hint("it can be used in kickoff, system_prompt and wakeup_prompt");
        }
        match (group, rest) {
            ("context", "channel" | "document") if scope == Scope::Context => {
                fault(format!("`{name}` is not known before it is said where the context is"))
            }
            ("context", "channel" | "document") => {
                fault(format!("`{name}` stands for nothing: the context has no files"))
            }
            ("env", _) => {
                let near = nearest(rest, self.env.keys().map(String::as_str)).map(|near| format!("env.{near}"));
                fault(format!("the environment has no `{rest}`")).meant(near.as_deref())
            }
            _ => {
                let known = self.names(scope);
                let fault = fault(format!("there is no variable `{name}` here"));
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(meant) => fault.meant(Some(meant)),
                    None => fault.hint(format!("there are {}", some_of(&known))),
                }
            }
        }
    }

    /// Every name that can be used in a scope; those of the environment are too many to tell.
    fn names(&self, scope: Scope<'_>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        if matches!(scope, Scope::Text | Scope::Script(_)) {
            names.extend(self.setup.keys().cloned());
        }
        names.extend(self.params.keys().map(|name| format!("params.{name}")));
        names.extend(["workflow.name", "workflow.instance", "instance"].map(str::to_owned));
        if scope != Scope::Context && self.context.is_some() {
            names.extend(["context.channel", "context.document"].map(str::to_owned));
        }
        if let Scope::Script(got) = scope {
            names.extend(["inbox.from", "inbox.text"].map(str::to_owned));
            names.extend(got.iter().map(|name| format!("got.{name}")));
        }
        names.push("env.NAME".to_owned());
        names
    }

    /// What setup commands find in their environment, as it is written in texts.
    pub(super) fn of_commands(&self) -> Vec<String> {
        self.names(Scope::Text).into_iter().filter(|name| !name.starts_with("env.")).collect()
    }

    /// What is known by now, for the environment of a setup command.
    pub fn for_commands(&self) -> BTreeMap<String, String> {
        let known = |name: String| match self.look_up(&name) {
            Known::Value(value) => Some((in_environment(&name), value.to_owned())),
            Known::Later | Known::Unknown => None,
        };
        self.of_commands().into_iter().filter_map(known).collect()
    }
}

/// What a variable is called in the environment of a setup command.
pub(super) fn in_environment(name: &str) -> String {
    name.replace('.', "_")
}

/// What stands where something will be put in. No `@`, which would mention somebody.
fn placeholder(name: &str) -> String {
    format!("‹{name}›")
}
