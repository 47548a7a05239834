//! The settings of the daemon's git: a short list of plain values, never a file that an agent can write.
//!
//! A repository's configuration can name programs (filters, hooks, monitors, merge drivers, helpers of all kinds) and
//! other files to include. Git has no switch to ignore it, so git gets a separate git folder (`view.rs`) with a generated
//! configuration. Only the values listed here are copied, from a single read of the file, and each is checked first.

use std::fmt::Write as _;

use rookery_core::{Code, Rejection};

use super::process::{ask_git, complaint};
use crate::held::HeldFolder;

/// The largest configuration and the largest list of ignored files that is read.
const MAX_READ_BYTES: u64 = 1 << 20;
/// Settings that are copied if the value is a boolean or a keyword of git. None of them can name a program or a file.
const COPIED: [&str; 9] = [
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.trustctime",
    "extensions.objectformat",
];
/// The values that may be copied.
const KEYWORDS: [&str; 17] = [
    "true", "false", "yes", "no", "on", "off", "1", "0", "", "input", "lf", "crlf", "native", "default", "minimal",
    "sha1", "sha256",
];
/// Settings of every configuration. No program would run without them either, because nothing else is configured; they
/// switch off defaults of git.
const ALWAYS: &str = "[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tsplitIndex = false
\tfsync = all
\tlogAllRefUpdates = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
[diff]
\tignoreSubmodules = all
[protocol]
\tallow = never
[rerere]
\tenabled = false
[commit]
\tgpgSign = false
[advice]
\taddEmbeddedRepo = false
";

/// The name and address that commits are made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub name: String,
    pub email: String,
}

impl Identity {
    /// The identity for commits without an author.
    pub fn rookery() -> Identity {
        Identity { name: "rookery".to_owned(), email: "rookery@localhost".to_owned() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct RepositorySettings {
    /// The text of the configuration, without `core.bare`.
    pub config: String,
    /// Patterns of ignored files: the person's own, then the repository's.
    pub excludes: Vec<u8>,
    pub identity: Identity,
    pub is_bare: bool,
    pub is_sparse: bool,
}

impl RepositorySettings {
    /// Reads the copied settings of the repository, and the person's own settings.
    pub async fn read(common: &HeldFolder) -> Result<RepositorySettings, Rejection> {
        let unreadable = |error: std::io::Error| {
            Rejection::new(Code::GitFailed, format!("cannot read the settings of {}: {error}", common.path().display()))
        };
        let text = common.read("config", MAX_READ_BYTES).map_err(unreadable)?.unwrap_or_default();
        // From standard input, so that git reads no file, repository or `include`.
        let own = ask_git(&["config", "--file", "-", "--no-includes", "--list", "-z"], text).await?;
        if !own.status.success() {
            return Err(complaint(&own));
        }
        // Outside of any repository: the settings of the machine and of the person that the daemon runs for.
        let person = ask_git(&["config", "--list", "-z"], vec![]).await?.stdout;
        let settings = Pairs(parse(&person).into_iter().chain(parse(&own.stdout)).collect());
        settings.check_supported()?;
        let identity = match (settings.last("user.name"), settings.last("user.email")) {
            (Some(name), Some(email)) if !name.is_empty() && !email.is_empty() => {
                Identity { name: name.to_owned(), email: email.to_owned() }
            }
            _ => Identity::rookery(),
        };
        let mut excludes = person_excludes(&Pairs(parse(&person)));
        excludes.push(b'\n');
        excludes.extend(common.read("info/exclude", MAX_READ_BYTES).map_err(unreadable)?.unwrap_or_default());
        let config = settings.to_config();
        let is_true = |name: &str| matches!(settings.last(name), Some("true" | "yes" | "on" | "1" | ""));
        let (is_bare, is_sparse) = (is_true("core.bare"), is_true("core.sparsecheckout"));
        Ok(RepositorySettings { config, excludes, identity, is_bare, is_sparse })
    }
}

/// Settings in order; the last one of a name is effective.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn to_config(&self) -> String {
        let sha256 = self.last("extensions.objectformat").is_some();
        let mut text = format!("[core]\n\trepositoryformatversion = {}\n", u8::from(sha256));
        for name in COPIED {
            let Some(value) = self.last(name).map(str::to_ascii_lowercase) else { continue };
            let (section, key) = name.split_once('.').unwrap_or(("core", name));
            if KEYWORDS.contains(&value.as_str()) {
                let value = if value.is_empty() { "true" } else { &value };
                // Writing to a string cannot fail.
                writeln!(text, "[{section}]\n\t{key} = {value}").ok();
            }
        }
        text.push_str(ALWAYS);
        text
    }

    fn check_supported(&self) -> Result<(), Rejection> {
        match self.last("extensions.refstorage") {
            None | Some("files") => Ok(()),
            Some(_) => Err(Rejection::new(Code::GitFailed, "the repository does not keep its branches in files")
                .hint("run 'git refs migrate --ref-format=files'")),
        }
    }
}

/// Parses the output of `git config --list -z`: names in lower case, except for the part in the middle.
fn parse(listed: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(listed);
    let pairs = text.split('\0').filter(|pair| !pair.is_empty());
    // A name without a value is true.
    pairs.map(|pair| pair.split_once('\n').unwrap_or((pair, ""))).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The person's own list of ignored files, which no agent in a sandbox can write.
fn person_excludes(person: &Pairs) -> Vec<u8> {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let config = std::env::var_os("XDG_CONFIG_HOME").map(std::path::PathBuf::from);
    let file = match (person.last("core.excludesfile"), &home) {
        (Some(path), Some(home)) => path.strip_prefix("~/").map(|rest| home.join(rest)).or_else(|| Some(path.into())),
        (Some(path), None) => Some(path.into()),
        (None, _) => config.or_else(|| Some(home?.join(".config"))).map(|config| config.join("git/ignore")),
    };
    let small =
        |file: &std::path::PathBuf| file.metadata().is_ok_and(|file| file.is_file() && file.len() < MAX_READ_BYTES);
    file.filter(small).and_then(|file| std::fs::read(file).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_not_copied() {
        let listed = b"core.filemode\nfalse\0core.fsmonitor\n/tmp/evil\0filter.e.clean\nevil\0include.path\nx\0\
            core.autocrlf\ninput\0core.eol\nlf\n[filter \"e\"]\n\tclean = evil\0core.symlinks\0core.sshcommand\nevil\0";
        let text = Pairs(parse(listed)).to_config();
        assert!(text.contains("filemode = false") && text.contains("autocrlf = input"), "{text}");
        assert!(text.contains("symlinks = true"), "{text}");
        assert!(!text.contains("evil") && !text.contains("include"), "{text}");
        assert!(text.contains("fsmonitor = false") && text.contains("hooksPath = /dev/null"));
        assert!(text.contains("repositoryformatversion = 0"));
    }

    #[test]
    fn later_settings_win() {
        let pairs = Pairs(parse(b"core.eol\ncrlf\0core.eol\nlf\0extensions.objectformat\nsha256\0"));
        let text = pairs.to_config();
        assert!(text.contains("eol = lf") && !text.contains("eol = crlf"), "{text}");
        assert!(text.contains("repositoryformatversion = 1") && text.contains("objectformat = sha256"), "{text}");
        assert!(Pairs(parse(b"extensions.refstorage\nreftable\0")).check_supported().is_err());
    }
}
