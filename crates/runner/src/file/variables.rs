//! Variables for `${{ … }}`, their scopes and their values.
//!
//! Settings are needed before the setup commands run, so they cannot use the outputs of those. Texts for agents can. The script
//! of a mock agent can also use its inbox and the results of its calls.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_dir::folder_name;

use super::fault::{FileFault, FileFaults};
use super::near::{join_names, nearest};
use super::template::{TextTemplate, Variable};

/// Names that variables of setup commands cannot have.
pub(super) const RESERVED: [&str; 8] = ["env", "workflow", "params", "context", "instance", "inbox", "got", "source"];

/// The position of a text, which determines its variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextScope<'a> {
    /// A setting of the context: everything but outputs of setup commands and the context itself.
    Context,
    /// Another setting: everything but outputs of setup commands.
    Setting,
    /// A text for an agent.
    Text,
    /// The script of a mock agent, with the names of results that its calls keep.
    Script(&'a [String]),
}

/// The values of all variables of an instance.
#[derive(Clone, PartialEq, Debug)]
pub struct Variables {
    pub env: BTreeMap<String, String>,
    pub workflow: String,
    pub instance: Instance,
    /// Values of parameters; `None` for a required one that is missing.
    pub params: BTreeMap<String, Option<String>>,
    /// Outputs of setup commands, by variable; `None` before they ran.
    pub setup: BTreeMap<String, Option<String>>,
    /// The files of the channel and of the entry document, if they exist.
    pub context: Option<(String, String)>,
}

/// Maximum length of a text with all variables filled in.
const MAX_FILLED_BYTES: usize = 4 << 20;

/// The value of a variable, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableValue<'a> {
    Value(&'a str),
    /// Its value is not known yet.
    Later,
    Unknown,
}

impl Variables {
    pub fn look_up(&self, name: &str) -> VariableValue<'_> {
        fn value(value: Option<&String>) -> VariableValue<'_> {
            value.map_or(VariableValue::Unknown, |value| VariableValue::Value(value))
        }
        fn later(value: Option<&Option<String>>) -> VariableValue<'_> {
            match value {
                Some(Some(value)) => VariableValue::Value(value),
                Some(None) => VariableValue::Later,
                None => VariableValue::Unknown,
            }
        }
        match name.split_once('.') {
            None if name == "instance" => VariableValue::Value(self.instance.name()),
            None => later(self.setup.get(name)),
            Some(("workflow", "name")) => VariableValue::Value(&self.workflow),
            Some(("workflow", "instance")) => VariableValue::Value(self.instance.name()),
            Some(("env", name)) => value(self.env.get(name)),
            Some(("params", name)) => later(self.params.get(name)),
            Some(("context", "channel")) => value(self.context.as_ref().map(|(channel, _)| channel)),
            Some(("context", "document")) => value(self.context.as_ref().map(|(_, document)| document)),
            Some(("inbox" | "got", _)) => VariableValue::Later,
            Some(_) => VariableValue::Unknown,
        }
    }

    /// Fills in all known values. Names of unknown variables are marked.
    pub fn fill(&self, template: &TextTemplate) -> String {
        template.fill(|name| match self.look_up(name) {
            VariableValue::Value(value) => Cow::Borrowed(value),
            VariableValue::Later | VariableValue::Unknown => Cow::Owned(placeholder(name)),
        })
    }

    /// As [`Variables::fill`], for the path of a folder: the instance is escaped for use as a folder name.
    pub fn fill_folder(&self, template: &TextTemplate) -> String {
        template.fill(|name| match (name, self.look_up(name)) {
            ("instance" | "workflow.instance", _) => Cow::Owned(folder_name(&self.instance)),
            (_, VariableValue::Value(value)) => Cow::Borrowed(value),
            (_, VariableValue::Later | VariableValue::Unknown) => Cow::Owned(placeholder(name)),
        })
    }

    /// Whether the values of a text together exceed [`MAX_FILLED_BYTES`].
    pub(super) fn is_too_long(&self, template: &TextTemplate) -> bool {
        let length = |variable: &Variable| match self.look_up(&variable.name) {
            VariableValue::Value(value) => value.len(),
            VariableValue::Later | VariableValue::Unknown => 0,
        };
        template.variables().map(length).fold(0_usize, usize::saturating_add) > MAX_FILLED_BYTES
    }

    /// Reports unknown variables in a text, and a text that becomes too long.
    pub(super) fn check(&self, template: &TextTemplate, scope: TextScope<'_>, faults: &mut FileFaults) {
        if self.is_too_long(template) {
            let message = format!("is longer than {MAX_FILLED_BYTES} bytes with all variables filled in");
            faults.add(FileFault::new(&template.place, message));
        }
        for variable in template.variables() {
            if !self.is_known(variable, scope) {
                faults.add_with(|| self.fault_of(variable, scope));
            }
        }
    }

    /// Whether a variable has a value in a scope.
    fn is_known(&self, variable: &Variable, scope: TextScope<'_>) -> bool {
        let name = variable.name.as_str();
        let (group, rest) = name.split_once('.').unwrap_or((name, ""));
        let is_printed = self.setup.contains_key(name);
        match (group, scope) {
            ("got", TextScope::Script(got)) => {
                let name = rest.split('.').next().unwrap_or_default();
                got.iter().any(|known| known == name)
            }
            ("inbox", TextScope::Script(_)) => matches!(rest, "from" | "text"),
            ("inbox" | "got", _) | ("context", TextScope::Context) => false,
            (_, TextScope::Context | TextScope::Setting) if is_printed => false,
            _ => self.look_up(name) != VariableValue::Unknown,
        }
    }

    /// The fault of a variable that has no value in a scope.
    fn fault_of(&self, variable: &Variable, scope: TextScope<'_>) -> FileFault {
        let name = variable.name.as_str();
        let (group, rest) = name.split_once('.').unwrap_or((name, ""));
        let fault = |message: String| FileFault::new(&variable.place, message);
        if self.setup.contains_key(name) {
            return fault(format!("`{name}` is not known before the setup commands have run"))
                .hint("it can be used in kickoff, system_prompt and wakeup_prompt");
        }
        match (group, rest) {
            ("context", "channel" | "document") if scope == TextScope::Context => {
                fault(format!("`{name}` is not known in the settings of the context"))
            }
            ("context", "channel" | "document") => fault(format!("`{name}` has no value: the context has no files")),
            ("env", _) => {
                let near = nearest(rest, self.env.keys().map(String::as_str)).map(|near| format!("env.{near}"));
                fault(format!("the environment has no `{rest}`")).meant(near.as_deref())
            }
            _ => {
                let known = self.names(scope);
                let fault = fault(format!("there is no variable `{name}` here"));
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(meant) => fault.meant(Some(meant)),
                    None => fault.hint(format!("known variables: {}", join_names(&known))),
                }
            }
        }
    }

    /// Lists the variables of a scope, with `env.NAME` for those of the environment.
    fn names(&self, scope: TextScope<'_>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        if matches!(scope, TextScope::Text | TextScope::Script(_)) {
            names.extend(self.setup.keys().cloned());
        }
        names.extend(self.params.keys().map(|name| format!("params.{name}")));
        names.extend(["workflow.name", "workflow.instance", "instance"].map(str::to_owned));
        if scope != TextScope::Context && self.context.is_some() {
            names.extend(["context.channel", "context.document"].map(str::to_owned));
        }
        if let TextScope::Script(got) = scope {
            names.extend(["inbox.from", "inbox.text"].map(str::to_owned));
            names.extend(got.iter().map(|name| format!("got.{name}")));
        }
        names.push("env.NAME".to_owned());
        names
    }

    /// Lists the variables that setup commands get in their environment.
    pub(super) fn command_variables(&self) -> Vec<String> {
        self.names(TextScope::Text).into_iter().filter(|name| !name.starts_with("env.")).collect()
    }

    /// The known variables for the environment of a setup command.
    pub fn for_commands(&self) -> BTreeMap<String, String> {
        let known = |name: String| match self.look_up(&name) {
            VariableValue::Value(value) => Some((environment_name(&name), value.to_owned())),
            VariableValue::Later | VariableValue::Unknown => None,
        };
        self.command_variables().into_iter().filter_map(known).collect()
    }
}

/// The name of a variable in the environment of a setup command.
pub(super) fn environment_name(name: &str) -> String {
    name.replace('.', "_")
}

/// The mark for a value that is not known yet. It has no `@`, which would mention an agent.
fn placeholder(name: &str) -> String {
    format!("‹{name}›")
}
