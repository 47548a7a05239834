//! `rookery.toml`: reading it with the line of every key, and finding what a misspelt key was meant to be.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use toml::de::DeTable;

use super::hooks::{self, Hooks};
use super::{ConfigError, Origin, TABLE, renamed};

/// A table of the file with settings, which may also be `false`.
const CONTEXT: &str = "context";
/// The other table with settings.
const OUTBOUND: &str = "outbound";
/// What others connect by.
const ADAPTERS: &str = "adapters";
/// How many letters may differ for a known key to be suggested.
const NEAR: usize = 3;

/// A value as the file has it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) value: toml::Value,
    pub(super) origin: Origin,
}

/// The settings that the file has, all of them known.
#[derive(Debug)]
pub(super) struct FileLayer {
    found: BTreeMap<String, Found>,
    pub(super) hooks: Hooks,
}

impl FileLayer {
    /// Reads the file; `None` if there is none.
    pub(super) fn load(path: PathBuf) -> Result<Option<Self>, ConfigError> {
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Found> {
        self.found.get(name)
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let line_at = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let syntax = |error: &toml::de::Error| ConfigError::Syntax {
            path: path.clone(),
            line: line_at(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        };
        let mut values: toml::Table = toml::from_str(text).map_err(|error| syntax(&error))?;
        // The second reading is for the places of the keys, which the plain one forgets.
        let places = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let lines: BTreeMap<&str, usize> =
            places.get_ref().keys().map(|key| (key.get_ref().as_ref(), line_at(key.span().start))).collect();
        let inner: BTreeMap<String, usize> = places
            .get_ref()
            .iter()
            .filter_map(|(table, value)| Some((table.get_ref(), value.get_ref().as_table()?)))
            .flat_map(|(table, keys)| {
                keys.keys().map(move |key| (format!("{table}_{}", key.get_ref()), key.span().start))
            })
            .map(|(key, start)| (key, line_at(start)))
            .collect();
        let hooks = match values.remove(ADAPTERS) {
            Some(adapters) => hooks::read(adapters).map_err(|message| {
                let line = lines.get(ADAPTERS).copied().unwrap_or(1);
                ConfigError::Adapter { path: path.clone(), line, message }
            })?,
            None => Hooks::default(),
        };
        let mut found = BTreeMap::new();
        let mut unknown: Vec<(usize, String)> = Vec::new();
        for (key, line, value) in flattened(values, &lines, &inner) {
            if is_known(&key) {
                found.insert(key, Found { value, origin: Origin::File { path: path.clone(), line } });
            } else {
                unknown.push((line, key));
            }
        }
        match unknown.into_iter().min() {
            Some((line, key)) => Err(match renamed(&key) {
                Some(renamed) => {
                    let origin = Origin::File { path, line };
                    ConfigError::Renamed { origin, old: renamed.old, new: renamed.new }
                }
                None => ConfigError::UnknownKey { path, line, nearest: nearest(&key), key },
            }),
            None => Ok(Self { found, hooks }),
        }
    }
}

/// Every key with its line and value; those of a table bear its name before theirs, as `[context] dir` is `context_dir`.
fn flattened(
    values: toml::Table,
    lines: &BTreeMap<&str, usize>,
    inner: &BTreeMap<String, usize>,
) -> Vec<(String, usize, toml::Value)> {
    let mut flat = Vec::new();
    for (key, value) in values {
        let line = lines.get(key.as_str()).copied().unwrap_or(1);
        match value {
            toml::Value::Table(table) if key == CONTEXT || key == OUTBOUND => {
                flat.extend(table.into_iter().map(|(name, value)| {
                    let name = format!("{key}_{name}");
                    let line = inner.get(&name).copied().unwrap_or(line);
                    (name, line, value)
                }))
            }
            // As a workflow file says it.
            toml::Value::Boolean(false) if key == CONTEXT => {
                flat.push(("context_provider".to_owned(), line, toml::Value::String("off".to_owned())));
            }
            value => flat.push((key, line, value)),
        }
    }
    flat
}

pub(super) fn is_known(key: &str) -> bool {
    TABLE.iter().any(|definition| definition.name == key)
}

/// The known key that `key` was most likely meant to be.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase().replace('-', "_");
    let candidates = TABLE.iter().map(|definition| (edits(&key, definition.name), definition.name));
    let (distance, name) = candidates.min()?;
    let related = || TABLE.iter().map(|d| d.name).find(|name| key.len() > 3 && name.starts_with(key.as_str()));
    if distance <= NEAR && distance < name.len() { Some(name) } else { related() }
}

/// How many letters must be added, removed or changed to make `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, letter) in from.chars().enumerate() {
        let mut corner = above;
        row[0] = above + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [("port", "port", 0), ("prot", "port", 2), ("", "abc", 3), ("watch", "wach", 1)] {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_key_is_found_or_none() {
        assert_eq!(nearest("prt"), Some("port"));
        assert_eq!(nearest("Require-Token"), Some("require_token"));
        assert_eq!(nearest("offline"), Some("offline_after"));
        assert_eq!(nearest("something_else_entirely"), None);
    }
}
