//! Reads and lowers `xtask/tidy.toml`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Finding;

/// Where the ceilings and exceptions are, relative to the root.
pub(crate) const FILE: &str = "xtask/tidy.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Counts by the names of checks.
    #[serde(default)]
    pub(crate) ceilings: BTreeMap<String, usize>,
    /// Names that stand for a recipe: the files that name them are the files of the recipe.
    #[serde(default)]
    pub(crate) witnesses: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) exceptions: Vec<Exception>,
}

/// A place that a check does not count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    check: String,
    file: String,
    /// Limits the exception to one name; otherwise it covers the whole file.
    item: Option<String>,
    reason: String,
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.check, self.file)?;
        self.item.as_ref().map_or(Ok(()), |item| write!(f, " for `{item}`"))
    }
}

impl Config {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).with_context(|| format!("cannot read {FILE}"))?;
        if let Some(exception) = config.exceptions.iter().find(|exception| exception.reason.trim().is_empty()) {
            bail!("{FILE}: the exception {exception} needs a reason");
        }
        Ok(config)
    }

    /// The index of the exception that covers a place.
    pub(crate) fn exception_for(&self, check: &str, place: &Finding) -> Option<usize> {
        self.exceptions.iter().position(|exception| {
            exception.check == check
                && exception.file == place.file
                && exception.item.as_ref().is_none_or(|item| *item == place.item)
        })
    }

    /// Writes the counts that are lower than their ceilings, or have none, and returns the changes. A higher count is
    /// an error.
    pub(crate) fn lower(self, root: &Path, now: &BTreeMap<&str, usize>) -> Result<Vec<String>> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        let (text, changes) = self.lowered(&text, now)?;
        fs::write(&path, text).with_context(|| format!("cannot write {FILE}"))?;
        Ok(changes)
    }

    fn lowered(&self, text: &str, now: &BTreeMap<&str, usize>) -> Result<(String, Vec<String>)> {
        let above = now.iter().filter(|(name, now)| self.ceilings.get(**name).is_some_and(|ceiling| *now > ceiling));
        let above: Vec<String> = above.map(|(name, now)| format!("{name} ({now})")).collect();
        if !above.is_empty() {
            bail!("ceilings only go down, and these are above theirs: {}", above.join(", "));
        }
        let mut changes = Vec::new();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (name, now) in now {
            match self.ceilings.get(*name) {
                Some(ceiling) if ceiling == now => {}
                Some(ceiling) => {
                    let is_own = |line: &&mut String| line.split('=').next().is_some_and(|key| key.trim() == *name);
                    if let Some(line) = lines.iter_mut().find(is_own) {
                        *line = format!("{name} = {now}");
                    }
                    changes.push(format!("{name}: {ceiling} -> {now}"));
                }
                None => {
                    let heading = lines.iter().position(|line| line.trim() == "[ceilings]");
                    let at = heading.map_or(0, |heading| heading + 1);
                    if heading.is_none() {
                        lines.insert(0, "[ceilings]".to_owned());
                    }
                    let end =
                        lines[at.max(1)..].iter().position(|line| line.trim().is_empty() || line.starts_with('['));
                    let end = end.map_or(lines.len(), |end| at.max(1) + end);
                    lines.insert(end, format!("{name} = {now}"));
                    changes.push(format!("{name}: {now}"));
                }
            }
        }
        Ok((lines.join("\n") + "\n", changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_counts_are_written_and_higher_ones_rejected() {
        let text = "# note\n[ceilings]\na = 5\nb = 2\n\n[witnesses]\nx = [\"y\"]\n";
        let config = Config::parse(text).unwrap();
        let (written, changes) = config.lowered(text, &BTreeMap::from([("a", 4), ("b", 2), ("c", 1)])).unwrap();
        assert_eq!(written, "# note\n[ceilings]\na = 4\nb = 2\nc = 1\n\n[witnesses]\nx = [\"y\"]\n");
        assert_eq!(changes, ["a: 5 -> 4", "c: 1"]);
        let error = config.lowered(text, &BTreeMap::from([("a", 6)])).unwrap_err();
        assert!(error.to_string().contains("ceilings only go down"), "{error}");
    }

    #[test]
    fn exception_without_reason_is_rejected() {
        let text = "[[exceptions]]\ncheck = \"a\"\nfile = \"b\"\nreason = \" \"\n";
        assert!(Config::parse(text).unwrap_err().to_string().contains("needs a reason"));
    }
}
