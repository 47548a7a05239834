//! Settings: what can be set, where each value came from, and what is wrong with a bad one.
//!
//! A flag wins over the environment, which wins over `rookery.toml`, which wins over the default. [`table`] defines
//! every setting once; `rookery config`, the environment, the file's JSON Schema and the documentation follow from it.

mod file;
mod hooks;
mod schema;
mod table;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;

use crate::project::Project;

use file::FileLayer;
pub use hooks::{HookSettings, Hooks, OutgoingSettings};
pub use schema::json_schema;
pub use table::{Settings, TABLE};
pub use value::{Bytes, ContextProvider, Signatures, StoreUrl, Value, parse_duration};

/// One setting as the table defines it.
#[derive(Debug)]
pub struct Definition {
    /// The key in `rookery.toml`.
    pub name: &'static str,
    pub env: &'static str,
    /// The default as it would be written in the environment; see [`Sources`] for what stands in braces.
    pub default: &'static str,
    pub help: &'static str,
    /// The JSON Schema of the key's value.
    pub schema: fn() -> serde_json::Value,
}

/// A value and where it came from; reads like the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Deref for Setting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
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
    #[error("{origin}: `{name}` must be {expected}, not {found}")]
    BadValue { name: &'static str, origin: Origin, expected: &'static str, found: String },
    #[error("{}:{line}: {message}", path.display())]
    Adapter { path: PathBuf, line: usize, message: String },
    #[error("{problem}")]
    Contradiction { problem: String, mend: &'static str },
}

impl ConfigError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("check who may read {}", path.display()),
            Self::Syntax { path, .. } => format!("mend {} as TOML, for example: port = 4700", path.display()),
            Self::UnknownKey { nearest: Some(nearest), .. } | Self::UnknownFlag { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? `rookery config` lists all settings")
            }
            Self::UnknownKey { .. } | Self::UnknownFlag { .. } => "`rookery config` lists all settings".into(),
            Self::BadValue { name, origin, .. } => match origin {
                Origin::Environment(variable) => format!("set {variable} to another value, or unset it"),
                Origin::Flag => format!("give another value for `{name}`"),
                Origin::File { .. } | Origin::Default => format!("change `{name}`, or remove the line for the default"),
            },
            Self::Adapter { .. } => "`rookery schema config` describes what a hook can say".into(),
            Self::Contradiction { mend, .. } => (*mend).into(),
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

/// Everything that settings are read from.
#[derive(Debug)]
pub struct Sources {
    flags: Flags,
    environment: BTreeMap<String, String>,
    file: Option<FileLayer>,
    /// What `{folder}` and `{database}` in a default mean for this project.
    folder: String,
    database: String,
}

impl Sources {
    fn resolve<T: Value>(
        &self,
        name: &'static str,
        env: &'static str,
        default: &'static str,
    ) -> Result<Setting<T>, ConfigError> {
        if let Some(text) = self.flags.get(name) {
            return parse(name, text, Origin::Flag);
        }
        if let Some(text) = self.environment.get(env) {
            return parse(name, text, Origin::Environment(env));
        }
        if let Some(found) = self.file.as_ref().and_then(|file| file.get(name)) {
            let origin = found.origin.clone();
            return match T::from_toml(&found.value) {
                Some(value) => Ok(Setting { value, origin }),
                None => {
                    Err(ConfigError::BadValue { name, origin, expected: T::EXPECTED, found: found.value.to_string() })
                }
            };
        }
        let text = default.replace("{folder}", &self.folder).replace("{database}", &self.database);
        parse(name, &text, Origin::Default)
    }
}

impl Sources {
    fn hooks(&self) -> Hooks {
        self.file.as_ref().map(|file| file.hooks.clone()).unwrap_or_default()
    }
}

fn parse<T: Value>(name: &'static str, text: &str, origin: Origin) -> Result<Setting<T>, ConfigError> {
    match T::parse(text) {
        Some(value) => Ok(Setting { value, origin }),
        None => Err(ConfigError::BadValue { name, origin, expected: T::EXPECTED, found: format!("`{text}`") }),
    }
}

impl Settings {
    /// Reads flags, this process's environment and the project's `rookery.toml`.
    pub fn load(project: &Project, flags: &Flags) -> Result<Self, ConfigError> {
        let known = |name: &str| TABLE.iter().any(|definition| definition.env == name);
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .filter(|(name, value)| known(name) && !value.is_empty())
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
            return Err(ConfigError::UnknownFlag { key: key.clone(), nearest: file::nearest(key) });
        }
        let settings = Self::gather(&Sources {
            flags: flags.clone(),
            environment,
            file: FileLayer::load(project.config_file())?,
            folder: project.folder_name(),
            database: format!("sqlite:{}", project.database().display()),
        })?;
        settings.check()?;
        Ok(settings)
    }

    /// Refuses values that are each right and together wrong.
    fn check(&self) -> Result<(), ConfigError> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ConfigError::Contradiction {
                problem: "TLS needs a certificate and its key".into(),
                mend: "give both tls_cert and tls_key, or neither",
            });
        }
        if !self.is_loopback() && !*self.require_token {
            return Err(ConfigError::Contradiction {
                problem: format!(
                    "{} can be reached from other machines, where anybody could act as any agent",
                    *self.host
                ),
                mend: "add --require-token, or listen on 127.0.0.1",
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
