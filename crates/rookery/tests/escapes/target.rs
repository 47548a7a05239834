//! A person's machine in miniature: a home with secrets, a project in it, the daemon, and hostile agents of a team.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rookery_runner::sandbox::SandboxSupport;
use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::wait::within;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub const ROOKERY: &str = env!("CARGO_BIN_EXE_rookery");

/// A text that only a private file of the person contains.
const SECRET: &str = "the-persons-private-key-7f3a91";

/// A home, a project and a daemon that an agent attacks.
pub struct Target {
    daemon: Daemon,
    base: TempDir,
    /// The control group in which `rookery` starts.
    control_group: Option<PathBuf>,
}

/// The workspace of the hostile agent, and further keys of its workflow file.
#[derive(Clone, Debug)]
pub struct Seat {
    /// `shared` or `worktree`.
    workspace: &'static str,
    /// Further keys of the agent, as lines of YAML.
    more: Vec<String>,
    /// The backend of the agent. `None` runs the attack as a shell script.
    backend: Option<&'static str>,
}

impl Seat {
    /// An agent that works in the project itself.
    pub fn shared() -> Seat {
        Seat { workspace: "shared", more: vec![], backend: None }
    }

    /// An agent in its own worktree, for which the project is read-only.
    pub fn worktree() -> Seat {
        Seat { workspace: "worktree", ..Seat::shared() }
    }

    /// Runs the agent with a program that [`Target::install`] made, instead of the attack's script.
    #[must_use]
    pub fn with_backend(self, backend: &'static str) -> Seat {
        Seat { backend: Some(backend), ..self }
    }

    /// Adds a key of the agent, as one line of YAML.
    #[must_use]
    pub fn with(mut self, yaml: impl Into<String>) -> Seat {
        self.more.push(yaml.into());
        self
    }
}

/// The results of an attack.
#[derive(Debug)]
pub struct Attack {
    pub code: Option<i32>,
    /// The output of `rookery run`.
    pub output: String,
    /// The output of the agent's program.
    pub transcript: String,
}

impl Target {
    pub fn new() -> Target {
        Target::with(|setup| setup)
    }

    /// A target whose daemon has another setup.
    pub fn with(configure: impl FnOnce(Setup) -> Setup) -> Target {
        let available = SandboxSupport::of_this_machine();
        assert!(available.fix_hint().is_none(), "the escape tests need a sandbox: {available}");
        let base = tempfile::tempdir().unwrap();
        let (home, root) = (base.path().join("home"), base.path().join("home/project"));
        for folder in [home.join(".ssh"), home.join(".config"), root.join("src")] {
            fs::create_dir_all(folder).unwrap();
        }
        for (path, text) in [
            (home.join(".ssh/id_ed25519"), SECRET),
            (home.join(".bashrc"), "# the person's own\n"),
            (home.join(".gitconfig"), "[user]\n\tname = Anna\n\temail = anna@example.invalid\n"),
            (root.join("src/lib.rs"), "pub fn answer() -> u32 { 42 }\n"),
            (root.join(".gitignore"), "/.attack/\n/daemon.stderr\n"),
        ] {
            fs::write(path, text).unwrap();
        }
        let git = "git init -q -b main && git add -A && git commit -qm first";
        assert!(shell(&home, &root, git).status.success());
        let setup = configure(Setup::new(ROOKERY).env("HOME", home.to_str().unwrap()));
        Target { daemon: setup.start_at(&root).unwrap(), base, control_group: None }
    }

    /// Starts `rookery` in this control group from now on.
    #[must_use]
    pub fn in_control_group(self, folder: &Path) -> Target {
        Target { control_group: Some(folder.to_path_buf()), ..self }
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// The project's folder.
    pub fn root(&self) -> PathBuf {
        self.home().join("project")
    }

    /// The person's home.
    pub fn home(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap().join("home")
    }

    /// The file that the agent's code creates if it ever runs outside of its sandbox. Inside, only the agent's folder can be
    /// written, so that the file proves an escape.
    pub fn trophy(&self) -> PathBuf {
        self.home().join("escaped")
    }

    fn programs(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap().join("programs")
    }

    /// Puts a shell script on the person's `PATH`.
    pub fn install(&self, name: &str, script: &str) {
        fs::create_dir_all(self.programs()).unwrap();
        let path = self.programs().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a shell script as an agent of a team in the project itself.
    pub async fn attack(&self, script: &str) -> Attack {
        self.attack_from(&Seat::shared(), script).await
    }

    /// Runs a Python script as an agent of a team; `rk` is imported (see `rk.py`).
    pub async fn attack_in_python(&self, seat: &Seat, script: &str) -> Attack {
        let python = format!("import os, sys, json\nsys.path.insert(0, sys.argv[1])\nimport rk\n{script}\n");
        fs::create_dir_all(self.root().join(".attack")).unwrap();
        fs::write(self.root().join(".attack/attack.py"), python).unwrap();
        let folder = self.root().join(".attack");
        let line = format!("python3 {folder}/attack.py {folder} 2>&1", folder = folder.display());
        self.attack_from(seat, &line).await
    }

    /// Runs a shell script as an agent of a team. Fails if anything outside its folder changed, or if a secret can be found
    /// in what the agent printed, wrote or sent.
    ///
    /// The script has the paths `$PERSON_HOME`, `$PROJECT` and `$TROPHY`, and `$RK`, the `rookery` program.
    pub async fn attack_from(&self, seat: &Seat, script: &str) -> Attack {
        let folder = self.root().join(".attack");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("attack.sh"), format!("cat >/dev/null\n{script}\n")).unwrap();
        fs::write(folder.join("rk.py"), include_str!("rk.py")).unwrap();
        fs::write(folder.join("team.yaml"), self.workflow_file(seat)).unwrap();
        let before = self.fingerprint_outside(seat);
        let output = self.run(&["run", ".attack/team.yaml", "--instance", "raid", "--verbose"]).await;
        let attack = Attack { code: output.status.code(), output: text(&output), transcript: self.transcript() };
        self.assert_nothing_escaped(seat, &before, &attack);
        attack
    }

    fn workflow_file(&self, seat: &Seat) -> String {
        let (home, root, trophy) = (self.home(), self.root(), self.trophy());
        let script = format!("backend: command\n    command: [sh, '{}/.attack/attack.sh']", root.display());
        let mut keys = vec![seat.backend.map_or(script, |backend| format!("backend: {backend}"))];
        keys.extend([format!("workspace: {}", seat.workspace), "max_turns: 1".to_owned()]);
        keys.push(format!(
            "env: {{PERSON_HOME: '{}', PROJECT: '{}', TROPHY: '{}', RK: '{ROOKERY}'}}",
            home.display(),
            root.display(),
            trophy.display(),
        ));
        keys.extend(seat.more.iter().cloned());
        format!("agents:\n  raider:\n    {}\nkickoff: '@raider begin'\n", keys.join("\n    "))
    }

    fn transcript(&self) -> String {
        fs::read_to_string(self.root().join(".rookery/run/@raid/raider/transcript.txt")).unwrap_or_default()
    }

    /// Runs `rookery` as the person, in the project.
    #[expect(clippy::disallowed_methods, reason = "the program under test is started here")]
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = match &self.control_group {
            Some(group) => {
                let mut command = tokio::process::Command::new("sh");
                command.args(["-c", r#"echo 0 >"$0" && exec "$@""#]).arg(group.join("cgroup.procs")).arg(ROOKERY);
                command
            }
            None => tokio::process::Command::new(ROOKERY),
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs().display()));
        command.args(arguments).current_dir(self.root()).env("HOME", self.home());
        command.stdin(Stdio::null()).kill_on_drop(true);
        within("the end of the command", command.output()).await.unwrap().unwrap()
    }

    /// Runs a shell line as the person, in the project, after the agent has worked.
    pub fn as_person(&self, line: &str) -> String {
        text(&shell(&self.home(), &self.root(), line))
    }

    /// Uses git in the project as a person does, which runs any code that an agent planted for git.
    pub fn person_uses_git(&self) {
        for line in
            ["git status", "git diff", "git log -1 -p", "git stash list", "git branch", "git add -A -n", "git fetch"]
        {
            self.as_person(line);
        }
        assert!(!self.trophy().exists(), "the person's own git ran code of the agent");
    }

    /// Fingerprints of all files that an agent of this seat must not change.
    pub fn fingerprint_outside(&self, seat: &Seat) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let (root, shared) = (self.root(), seat.workspace == "shared");
        walk(self.base.path(), &mut |path, fingerprint| {
            let Ok(inside) = path.strip_prefix(&root) else {
                found.insert(path.to_owned(), fingerprint);
                return;
            };
            let is_git = inside.starts_with(".git");
            let is_guarded =
                GUARDED.iter().any(|name| inside == Path::new(name) || inside.starts_with(format!("{name}/")));
            let is_key = inside == Path::new(".rookery/person.key");
            let is_own = [".rookery", ".worktrees", ".workflow"].iter().any(|name| inside.starts_with(name));
            let is_project = !shared && !is_git && !is_own && inside != Path::new("daemon.stderr");
            if is_guarded || is_key || is_project {
                found.insert(path.to_owned(), fingerprint);
            }
        });
        // Worktrees are beside the project, and belong to their agents.
        found.retain(|path, _| !path.starts_with(self.home().join("project-worktrees")));
        found
    }

    fn assert_nothing_escaped(&self, seat: &Seat, before: &BTreeMap<PathBuf, String>, attack: &Attack) {
        assert!(!self.trophy().exists(), "code of the agent ran outside of its sandbox: {attack:?}");
        let after = self.fingerprint_outside(seat);
        let changed: Vec<_> =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(changed.is_empty(), "changed outside of the sandbox: {changed:?}\n{attack:?}");
        for secret in [SECRET, &self.daemon.person_key().unwrap()] {
            assert!(!attack.transcript.contains(secret), "the agent printed a secret: {attack:?}");
            let mut copies = Vec::new();
            let private = [self.home().join(".ssh/id_ed25519"), self.root().join(".rookery/person.key")];
            walk_contents(self.base.path(), &mut |path, bytes| {
                if !private.iter().any(|own| own == path) && contains(bytes, secret) {
                    copies.push(path.to_owned());
                }
            });
            assert!(copies.is_empty(), "a secret was copied to {copies:?}: {attack:?}");
        }
    }
}

/// Files of the repository that a person's git reads settings from or runs.
const GUARDED: [&str; 6] =
    [".git/config", ".git/hooks", ".git/config.worktree", ".git/commondir", ".git/info/attributes", ".git/modules"];

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[expect(clippy::disallowed_methods, reason = "runs a shell line as a person would")]
fn shell(home: &Path, folder: &Path, line: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env("HOME", home).env("GIT_TERMINAL_PROMPT", "0");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Calls `found` with the path and fingerprint of every file, folder and link below a folder.
fn walk(folder: &Path, found: &mut impl FnMut(&Path, String)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mode = metadata.mode();
        if metadata.is_dir() {
            found(&path, format!("folder {mode:o}"));
            walk(&path, found);
        } else if metadata.is_symlink() {
            found(&path, format!("link to {:?}", fs::read_link(&path).ok()));
        } else if metadata.is_file() {
            let hash = fs::read(&path).map(|bytes| format!("{:x?}", Sha256::digest(bytes).as_slice()));
            found(&path, format!("file {mode:o} {hash:?}"));
        } else {
            found(&path, format!("other {mode:o}"));
        }
    }
}

fn walk_contents(folder: &Path, found: &mut impl FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => walk_contents(&path, found),
            Ok(metadata) if metadata.is_file() => found(&path, &fs::read(&path).unwrap_or_default()),
            _ => {}
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
