//! The folder of an instance: a path inside of the project, whatever the instance is called.

use sha2::{Digest, Sha256};

use crate::kernel::code::Code;
use crate::kernel::instance::{Instance, is_invisible};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;

/// The longest folder name that an instance's name becomes. File systems take 255 bytes.
const NAME_BYTES: usize = 120;

/// Names of folders that tools load settings, commands or code from, although they are not hidden.
const TOOL_FOLDERS: [&str; 6] = ["agents", "commands", "hooks", "node_modules", "plugins", "skills"];

/// The folder that instances have theirs in, unless configured otherwise.
pub const SHARED: &str = ".workflow";

/// What that one is called until it is whole.
pub const NEW_SHARED: &str = ".workflow.new";

/// A folder relative to the project: parts that each name one folder, joined by `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Folder(String);

impl Folder {
    /// As it was stored, which was checked when it was configured.
    pub(crate) fn stored(raw: &str) -> Folder {
        Folder(raw.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The reason why no context may be written there, if any. Checked again before writing, because an imported log may
    /// name any folder.
    pub fn problem(&self) -> Option<&'static str> {
        let hidden = |(at, part): (usize, &str)| part.starts_with('.') && !(at == 0 && part == SHARED);
        if self.parts().enumerate().any(hidden) {
            return Some("must not be hidden or lie in a hidden folder, except below .workflow");
        }
        if self.0.chars().any(is_invisible) {
            return Some("contains an invisible character");
        }
        if self.parts().any(|part| TOOL_FOLDERS.contains(&part.to_lowercase().as_str())) {
            return Some("is, or lies in, a folder that tools load settings or code from");
        }
        None
    }

    /// Whether it is below the folder that nothing but contexts is in.
    pub fn is_below_shared(&self) -> bool {
        self.parts().next() == Some(SHARED)
    }

    /// Whether one of them is the other or lies in it, also on a file system that does not tell cases apart.
    pub fn meets(&self, other: &Folder) -> bool {
        Folder(self.0.to_lowercase()).overlaps(&Folder(other.0.to_lowercase()))
    }

    /// Whether one of them is the other or lies in it.
    pub fn overlaps(&self, other: &Folder) -> bool {
        self.parts().zip(other.parts()).all(|(one, other)| one == other)
    }
}

/// Stands for any instance's name; no setting contains it.
const ANY: char = '\0';

/// The folder that a setting means for an instance.
pub(crate) fn settled(dir: &str, instance: &Instance) -> String {
    settled_for(dir, &folder_name(instance))
}

fn settled_for(dir: &str, name: &str) -> String {
    let mut settled = String::new();
    let mut rest = dir;
    while let Some((before, after)) = rest.split_once("${{") {
        let Some((word, after)) = after.split_once("}}") else { break };
        settled.push_str(before);
        match word.trim() {
            "instance" | "workflow.instance" => settled.push_str(name),
            other => settled.push_str(other),
        }
        rest = after;
    }
    settled.push_str(rest);
    let parts = settled.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// Whether a folder is one that a setting gives to another instance than this, or meets one: also to an instance that
/// nobody has heard of yet.
pub(crate) fn is_given_to_another(folder: &Folder, dir: &str, instance: &Instance) -> bool {
    let (shape, own) = (settled_for(dir, &ANY.to_string()), settled(dir, instance));
    for ((part, shape), own) in folder.parts().zip(shape.split('/')).zip(own.split('/')) {
        let is_one_instances = shape.contains(ANY);
        if is_one_instances && part == own {
            return false;
        }
        let fits = if is_one_instances { can_be_given(part, shape) } else { same(part, shape) };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether some instance's name makes this part of a setting this part of a folder.
fn can_be_given(part: &str, shape: &str) -> bool {
    let (Some((before, _)), Some((_, after))) = (shape.split_once(ANY), shape.rsplit_once(ANY)) else { return false };
    let (part, before, after) = (part.to_lowercase(), before.to_lowercase(), after.to_lowercase());
    let name = part.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after)).unwrap_or_default();
    let can_stand_in_one = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '%');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(can_stand_in_one)
}

/// Whether two names mean one file on a file system that does not tell cases apart.
fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// What an instance's folder is called: its name, with everything that could mean something to a file system written as
/// `%` and the byte. No two instances have one name; where the file system does not tell cases apart, two whose names
/// differ only in that have one folder all the same, and only the first of them gets files.
pub fn folder_name(instance: &Instance) -> String {
    let mut name = String::new();
    for (at, character) in instance.name().char_indices() {
        let plain = character.is_alphanumeric() || matches!(character, '-' | '_') || (character == '.' && at > 0);
        if plain {
            name.push(character);
        } else {
            let mut bytes = [0; 4];
            character.encode_utf8(&mut bytes).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        }
    }
    if name.len() <= NAME_BYTES {
        return name;
    }
    let digest: String = Sha256::digest(instance.name()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let short: String = name.chars().take(NAME_BYTES / 4).collect();
    format!("{short}%{digest}")
}

/// The folder that a setting means, if it is one that may be written in.
pub(crate) fn check(dir: &str, instance: &Instance) -> Result<Folder, Rejection> {
    let refuse = |what: &str| {
        Err(Rejection::new(Code::Invalid, format!("dir {what}"))
            .hint("name a folder inside of the project, for example .workflow/${{ instance }}/"))
    };
    limit::text("dir", dir, limit::DOCUMENT_PATH_BYTES)?;
    if dir.starts_with('/') || dir.starts_with('~') {
        return refuse("must be relative to the project");
    }
    if dir.chars().any(|c| c == '\\' || c.is_control()) {
        return refuse("contains a backslash or a control character");
    }
    let folder = settled(dir, instance);
    if folder.is_empty() {
        return refuse("must not be the project's own folder");
    }
    if folder.split('/').any(|part| part == "..") {
        return refuse("must not lead out of the project");
    }
    if folder.split('/').any(|part| part.len() > limit::FILE_NAME_BYTES) {
        return refuse("has a part that is too long for a file system");
    }
    let (own, folder) = (Folder(format!("{SHARED}/{}", folder_name(instance))), Folder(folder));
    if let Some(problem) = folder.problem() {
        return refuse(problem);
    }
    if folder.is_below_shared() && (folder.as_str() == SHARED || !folder.meets(&own)) {
        return refuse("is kept for another instance");
    }
    Ok(folder)
}

/// Whether a setting leads to a folder of its own for every instance.
pub(crate) fn tells_instances_apart(dir: &str) -> bool {
    settled(dir, &Instance::new("a")) != settled(dir, &Instance::new("b"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_an_instance_is_called_its_folder_is_one_name() {
        for (name, folder) in [
            ("pr-123", "pr-123"),
            ("v1.2_x", "v1.2_x"),
            ("..", "%2E."),
            ("../../etc", "%2E.%2F..%2Fetc"),
            (".hidden", "%2Ehidden"),
            ("a/b", "a%2Fb"),
            ("100%", "100%25"),
            ("größe", "größe"),
            ("a:b", "a%3Ab"),
        ] {
            assert_eq!(folder_name(&Instance::new(name)), folder, "{name}");
        }
        let long = |end: &str| folder_name(&Instance::new(format!("{}{end}", "ä/".repeat(60))));
        assert!(long("1").len() <= NAME_BYTES && long("1") != long("2"));
    }

    #[test]
    fn a_setting_leads_to_a_folder_inside_of_the_project() {
        let instance = Instance::new("pr-1");
        for (dir, folder) in [
            (".workflow/${{ instance }}/", ".workflow/pr-1"),
            ("./my-context/", "my-context"),
            ("team//${{workflow.instance}}/ctx", "team/pr-1/ctx"),
            (".workflow/pr-1/deep", ".workflow/pr-1/deep"),
        ] {
            assert_eq!(check(dir, &instance).map(|folder| folder.as_str().to_owned()), Ok(folder.to_owned()));
        }
        for bad in [
            "",
            ".",
            "/tmp/x",
            "~/x",
            "a/../../b",
            "..",
            ".git/x",
            ".Rookery",
            "a\\b",
            "a\0b",
            ".workflow",
            ".workflow/pr-2",
            ".Workflow/other",
            ".Workflow/pr-1",
            ".claude",
            ".vscode",
            ".cursor/rules",
            "src/.config/x",
            ".workflow/pr-1/.claude",
            "x/.${{ instance }}",
            "\u{200c}.claude",
            "a/\u{feff}.vscode",
            "agents",
            "plugin/Commands/${{ instance }}",
            "node_modules/x",
        ] {
            assert_eq!(check(bad, &instance).map_err(|refusal| refusal.code), Err(Code::Invalid), "{bad:?}");
        }
    }

    #[test]
    fn folders_meet_if_one_holds_the_other() {
        let folder = |raw: &str| Folder(raw.to_owned());
        assert!(
            folder("a/b").meets(&folder("A")) && folder("a").meets(&folder("a/b")) && folder("a").meets(&folder("a"))
        );
        assert!(!folder("a/b").meets(&folder("a/bc")));
        assert!(tells_instances_apart("x/${{ instance }}") && !tells_instances_apart("x"));
    }

    #[test]
    fn a_setting_gives_folders_to_instances_that_nobody_has_heard_of() {
        let given =
            |folder: &str, dir: &str| is_given_to_another(&Folder(folder.to_owned()), dir, &Instance::new("bar"));
        for (folder, dir) in [
            ("team/foo", "team/${{ instance }}"),
            ("Team/foo/deep", "team/${{ instance }}"),
            ("team", "team/${{ instance }}"),
            ("team/Bar", "team/${{ instance }}"),
            ("team/a%2Fb", "team/${{ instance }}"),
            ("team/ctx-foo-x", "team/ctx-${{ instance }}-x/files"),
            ("docs/any", "${{ instance }}"),
            ("x/foo/y", "x/${{ instance }}/y/${{ instance }}"),
        ] {
            assert!(given(folder, dir), "{folder} {dir}");
        }
        for (folder, dir) in [
            ("team/bar", "team/${{ instance }}"),
            ("team/bar/deep", "team/${{ instance }}"),
            ("elsewhere", "team/${{ instance }}"),
            ("team/with space", "team/${{ instance }}"),
            ("team/other-foo", "team/ctx-${{ instance }}"),
            ("team/ctx-", "team/ctx-${{ instance }}"),
            ("team/foo/other", "team/${{ instance }}/files"),
        ] {
            assert!(!given(folder, dir), "{folder} {dir}");
        }
    }
}
