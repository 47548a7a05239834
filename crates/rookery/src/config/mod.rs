//! Reading the settings of a project: flags, environment and `rookery.toml`, and the errors of bad values.
//!
//! A flag wins over the environment, which wins over `rookery.toml`, which wins over the default. The table of settings
//! is in the engine ([`rookery_engine::settings`]).

mod file;
mod hooks;
mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;

use crate::project::Project;

use file::FileLayer;
pub use hooks::{HookSettings, Hooks, OutgoingSettings};
pub use rookery_engine::settings::{Bytes, StoreUrl, TABLE, parse_duration};
use rookery_engine::settings::{Definition, RENAMED, RenamedSetting, Settings};
pub use schema::json_schema;

/// The settings of a project: their values, where each came from, and the webhooks. Reads like the values.
#[derive(Debug, Clone)]
pub struct ProjectSettings {
    pub values: Settings,
    /// By the name of the setting; those that are not in it have their default.
    origins: BTreeMap<&'static str, Origin>,
    /// Webhooks, which only the file has.
    pub hooks: Hooks,
}

impl Deref for ProjectSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.values
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment(&'static str),
    File { path: PathBuf, line: usize },
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting as `rookery config` shows it.
#[derive(Debug)]
pub struct Entry {
    pub name: &'static str,
    pub text: String,
    pub json: serde_json::Value,
    pub origin: Origin,
}

/// What is wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{}:{line}: there is no setting `{key}`", path.display())]
    UnknownKey { path: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    #[error("there is no setting `{key}`")]
    UnknownFlag { key: String, nearest: Option<&'static str> },
    #[error("{origin}: `{old}` is now called `{new}`")]
    Renamed { origin: Origin, old: &'static str, new: &'static str },
    #[error("{origin}: `{name}` must be {expected}, not {found}")]
    BadValue { name: &'static str, origin: Origin, expected: &'static str, found: String },
    #[error("{}:{line}: {message}", path.display())]
    Adapter { path: PathBuf, line: usize, message: String },
    #[error("{problem}")]
    Contradiction { problem: String, remedy: &'static str },
}

impl ConfigError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("check who may read {}", path.display()),
            Self::Syntax { path, .. } => format!("correct {} as TOML, for example: port = 4700", path.display()),
            Self::UnknownKey { nearest: Some(nearest), .. } | Self::UnknownFlag { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? `rookery config` lists all settings")
            }
            Self::UnknownKey { .. } | Self::UnknownFlag { .. } => "`rookery config` lists all settings".into(),
            Self::Renamed { origin: Origin::Environment(variable), new, .. } => {
                format!("unset {variable} and set {} instead", variable_of(new))
            }
            Self::Renamed { old, new, .. } => format!("write `{new}` instead of `{old}`"),
            Self::BadValue { name, origin, .. } => match origin {
                Origin::Environment(variable) => format!("set {variable} to another value, or unset it"),
                Origin::Flag => format!("give another value for `{name}`"),
                Origin::File { .. } | Origin::Default => format!("change `{name}`, or remove the line for the default"),
            },
            Self::Adapter { .. } => "`rookery schema config` describes what a hook can say".into(),
            Self::Contradiction { remedy, .. } => (*remedy).into(),
        }
    }
}

/// Values given by flags: the setting's name and its text.
#[derive(Debug, Clone, Default)]
pub struct Flags(Vec<(String, String)>);

impl Flags {
    pub fn set(&mut self, name: &str, text: impl Into<String>) {
        self.0.push((name.into(), text.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same values as environment variables, for a process that takes them over. Unlike arguments, they are not
    /// for every user of the machine to see; a store's address may hold a password.
    pub fn environment(&self) -> Vec<(&'static str, &str)> {
        let variable = |name: &str| TABLE.iter().find(|definition| definition.name == name).map(|known| known.env);
        self.0.iter().filter_map(|(name, text)| Some((variable(name)?, text.as_str()))).collect()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(given, _)| given == name).map(|(_, text)| text.as_str())
    }
}

/// The sources of values, in the order in which they win.
#[derive(Debug)]
struct Sources {
    flags: Flags,
    environment: BTreeMap<String, String>,
    file: Option<FileLayer>,
}

impl Sources {
    /// Sets the value of one setting, and returns where it came from.
    fn apply(&self, setting: &'static Definition, values: &mut Settings) -> Result<Origin, ConfigError> {
        let bad = |origin: Origin, found: String| ConfigError::BadValue {
            name: setting.name,
            origin,
            expected: setting.expected,
            found,
        };
        let from_text = |values: &mut Settings, text: &str, origin: Origin| match (setting.set_text)(values, text) {
            Some(()) => Ok(origin),
            None => Err(bad(origin, format!("`{text}`"))),
        };
        if let Some(text) = self.flags.get(setting.name) {
            return from_text(values, text, Origin::Flag);
        }
        if let Some(text) = self.environment.get(setting.env) {
            return from_text(values, text, Origin::Environment(setting.env));
        }
        let Some(found) = self.file.as_ref().and_then(|file| file.get(setting.name)) else {
            return Ok(Origin::Default);
        };
        // A value that JSON cannot say, such as a date, is no setting's value either.
        let json = serde_json::to_value(&found.value).unwrap_or_default();
        match (setting.set_json)(values, &json) {
            Some(()) => Ok(found.origin.clone()),
            None => Err(bad(found.origin.clone(), found.value.to_string())),
        }
    }
}

/// The environment variable of a setting.
fn variable_of(name: &str) -> &'static str {
    TABLE.iter().find(|setting| setting.name == name).map_or("", |setting| setting.env)
}

/// The new name of a setting, if `key` is its old one.
fn renamed(key: &str) -> Option<&'static RenamedSetting> {
    RENAMED.iter().find(|renamed| renamed.old == key)
}

impl ProjectSettings {
    /// Reads flags, this process's environment and the project's `rookery.toml`.
    pub fn load(project: &Project, flags: &Flags) -> Result<Self, ConfigError> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self::load_from(project, flags, environment)
    }

    /// The same with a given environment, of which empty values have been taken out.
    pub fn load_from(
        project: &Project,
        flags: &Flags,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        if let Some((key, _)) = flags.0.iter().find(|(key, _)| !file::is_known(key)) {
            return Err(match renamed(key) {
                Some(renamed) => ConfigError::Renamed { origin: Origin::Flag, old: renamed.old, new: renamed.new },
                None => ConfigError::UnknownFlag { key: key.clone(), nearest: file::nearest(key) },
            });
        }
        if let Some(renamed) = RENAMED.iter().find(|renamed| environment.contains_key(renamed.old_env)) {
            let origin = Origin::Environment(renamed.old_env);
            return Err(ConfigError::Renamed { origin, old: renamed.old, new: renamed.new });
        }
        let sources = Sources { flags: flags.clone(), environment, file: FileLayer::load(project.config_file())? };
        let mut values = Settings {
            project: project.folder_name(),
            store: StoreUrl::new(format!("sqlite:{}", project.database().display())),
            ..Settings::default()
        };
        let mut origins = BTreeMap::new();
        for setting in TABLE {
            origins.insert(setting.name, sources.apply(setting, &mut values)?);
        }
        let hooks = sources.file.map(|file| file.hooks).unwrap_or_default();
        let settings = Self { values, origins, hooks };
        settings.check()?;
        Ok(settings)
    }

    /// Where the value of a setting came from.
    pub fn origin(&self, name: &str) -> &Origin {
        self.origins.get(name).unwrap_or(&Origin::Default)
    }

    /// Every setting as `rookery config` shows it.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |setting: &Definition| Entry {
            name: setting.name,
            text: (setting.text)(&self.values),
            json: (setting.json)(&self.values),
            origin: self.origin(setting.name).clone(),
        };
        TABLE.iter().map(entry).collect()
    }

    /// Refuses values that are each right and together wrong.
    fn check(&self) -> Result<(), ConfigError> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ConfigError::Contradiction {
                problem: "TLS needs a certificate and its key".into(),
                remedy: "give both tls_cert and tls_key, or neither",
            });
        }
        if !self.is_loopback() && !self.require_token {
            return Err(ConfigError::Contradiction {
                problem: format!(
                    "{} can be reached from other machines, where anybody could act as any agent",
                    self.host
                ),
                remedy: "add --require-token, or listen on 127.0.0.1",
            });
        }
        Ok(())
    }

    /// True if only this machine can reach the daemon.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests;
