//! Reads `xtask/renames.tsv`.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

/// Where the rows are, relative to the root of the workspace.
pub(crate) const TABLE: &str = "xtask/renames.tsv";

/// The kind of thing that a row renames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Type,
    Fn,
    Field,
    Variant,
    Const,
    /// A module: its file or folder moves, its declaration and the paths through it follow.
    Module,
    /// Any other file: it moves, and nothing else happens.
    File,
    /// A value in string literals, and in files that are not Rust.
    Text,
    /// A test function, with its mentions in Markdown files.
    Test,
}

impl FromStr for RowKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "type" => Self::Type,
            "fn" => Self::Fn,
            "field" => Self::Field,
            "variant" => Self::Variant,
            "const" => Self::Const,
            "module" => Self::Module,
            "file" => Self::File,
            "text" => Self::Text,
            "test" => Self::Test,
            _ => bail!("unknown kind `{text}`; use type, fn, field, variant, const, module, file, text or test"),
        })
    }
}

/// One rename.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) group: String,
    /// The folder below `crates/`, or `xtask` or `bench`; `-` for rows that name files by their whole path.
    pub(crate) package: String,
    pub(crate) kind: RowKind,
    /// The type, enum or trait of a member, written `Owner::member`; `*` for any.
    pub(crate) owner: Option<String>,
    pub(crate) old: String,
    pub(crate) new: String,
    /// Globs, relative to the folder of the package. For definitions: the files that define `old`. For `text`: the
    /// files to edit.
    pub(crate) scope: Vec<String>,
    /// The target name may exist already.
    pub(crate) may_merge: bool,
    /// Comments and strings that name `old` in backticks change too.
    pub(crate) also_text: bool,
    /// Globs, relative to the root, of files in which every `.old` is the member that the row means.
    pub(crate) sites: Vec<String>,
}

impl Row {
    fn parse(line: usize, text: &str) -> Result<Self> {
        let columns: Vec<&str> = text.split('\t').map(str::trim).collect();
        let [group, package, kind, old, new, rest @ ..] = columns.as_slice() else {
            bail!("a row has at least five columns: group, crate, kind, old, new; then scope and flags");
        };
        let kind: RowKind = kind.parse()?;
        let is_name = !matches!(kind, RowKind::Text | RowKind::File);
        let (owner, old) = match old.rsplit_once("::") {
            Some((owner, member)) if is_name && kind != RowKind::Module => (Some(owner.to_owned()), member),
            _ => (None, *old),
        };
        if old.is_empty() || new.is_empty() || old == *new {
            bail!("old and new must differ and not be empty");
        }
        let globs = |text: &str| text.split(',').filter(|glob| !glob.is_empty()).map(str::to_owned).collect();
        let mut row = Self {
            line,
            group: (*group).to_owned(),
            package: (*package).to_owned(),
            kind,
            owner,
            old: old.to_owned(),
            new: (*new).to_owned(),
            scope: rest.first().map(|scope| globs(scope)).unwrap_or_default(),
            may_merge: false,
            also_text: false,
            sites: Vec::new(),
        };
        for flag in rest.get(1).unwrap_or(&"").split_whitespace() {
            match flag.split_once('=') {
                None if flag == "merge" => row.may_merge = true,
                None if flag == "text" => row.also_text = true,
                Some(("sites", paths)) => row.sites = globs(paths),
                _ => bail!("unknown flag `{flag}`; use merge, text or sites=GLOB"),
            }
        }
        Ok(row)
    }

    /// The row in short, for reports.
    pub(crate) fn title(&self) -> String {
        let owner = self.owner.as_ref().map(|owner| format!("{owner}::")).unwrap_or_default();
        format!("{}: {owner}{} -> {}", self.package, self.old, self.new)
    }

    /// The path prefix that scopes of this row are relative to.
    pub(crate) fn base(&self) -> String {
        match self.package.as_str() {
            "-" => String::new(),
            "xtask" | "bench" | "fuzz" => format!("{}/", self.package),
            package => format!("crates/{package}/"),
        }
    }

    /// Whether a file may define what the row renames.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(&self.base()) else { return false };
        self.scope.is_empty() || self.scope.iter().any(|glob| glob_matches(glob, rest))
    }
}

/// Every row of the table, in order.
pub(crate) fn read(root: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| Row::parse(index + 1, line).map_err(|error| anyhow!("{TABLE}:{}: {error}", index + 1)))
        .collect()
}

#[cfg(test)]
pub(crate) fn parse_row(text: &str) -> Row {
    Row::parse(1, text).unwrap()
}

/// Whether a path matches a glob: `*` stands for anything but `/`, `**` for anything.
pub(crate) fn glob_matches(glob: &str, path: &str) -> bool {
    if let Some(rest) = glob.strip_prefix("**") {
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        return (0..=path.len()).filter(|start| path.is_char_boundary(*start)).any(|start| {
            (start == 0 || path.as_bytes()[start - 1] == b'/' || rest.is_empty()) && glob_matches(rest, &path[start..])
        });
    }
    match (glob.chars().next(), path.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let end = path.find('/').unwrap_or(path.len());
            (0..=end).any(|start| path.is_char_boundary(start) && glob_matches(&glob[1..], &path[start..]))
        }
        (Some(a), Some(b)) if a == b => glob_matches(&glob[a.len_utf8()..], &path[b.len_utf8()..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_within_and_across_folders() {
        assert!(glob_matches("src/task/*.rs", "src/task/claim.rs"));
        assert!(!glob_matches("src/*.rs", "src/task/claim.rs"));
        assert!(glob_matches("src/**", "src/task/claim.rs"));
        assert!(glob_matches("**/claim.rs", "src/task/claim.rs"));
        assert!(!glob_matches("**/aim.rs", "src/task/claim.rs"));
    }

    #[test]
    fn rows_carry_owner_scope_and_flags() {
        let rows = parse(
            "# comment\n\nagents\tcore\tfield\tAgent::lost\tclaims_when_offline\tsrc/agent/mod.rs\tmerge sites=a,b\n",
        )
        .unwrap();
        let row = &rows[0];
        assert_eq!((row.line, row.owner.as_deref(), row.old.as_str()), (3, Some("Agent"), "lost"));
        assert!(row.may_merge && row.covers("crates/core/src/agent/mod.rs") && !row.covers("crates/core/src/id.rs"));
        assert_eq!(row.sites, ["a", "b"]);
    }

    #[test]
    fn malformed_row_is_rejected_with_its_line() {
        let error = parse("a\tcore\ttype\tX\n").unwrap_err().to_string();
        assert!(error.starts_with("xtask/renames.tsv:1: a row has at least five columns"), "{error}");
        assert!(parse("a\tcore\tkind\tX\tY\n").unwrap_err().to_string().contains("unknown kind `kind`"));
        assert!(parse("a\tcore\ttype\tX\tX\n").is_err());
    }
}
