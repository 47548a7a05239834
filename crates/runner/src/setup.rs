//! Setup commands: what a workflow file wants run before the kickoff, one after the other, each in a shell of its own in the
//! project's folder. What one prints becomes a variable. The first that fails ends it all: nothing has begun yet.
//!
//! A team that is resumed does not run them again: what they printed is kept beside its other state.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_core::kernel::limit;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::file::{Setup, Variables};
use crate::process::{self, ExecShim, Finished, NotStarted, OutputStream, ProcessEnd, Program, RunLimits};

/// How long a command may take. Whoever waits longer has something else to do first.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How much a command may print: what a document can hold, because that is where it goes if it is too long for a message.
const OUTPUT_BYTES: u64 = limit::DOCUMENT_BYTES as u64;
/// How long a value may be to be passed on in the environment; systems refuse more than 128 KiB.
const ENVIRONMENT_BYTES: usize = 120 << 10;
/// How many of its last lines are told of a command that failed.
const LAST_LINES: usize = 10;
const KEPT: &str = "setup.json";

/// Where and as what setup commands run.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The folder of the project.
    pub project: &'a Path,
    /// The folder of the team's state.
    pub state: &'a Path,
    /// Which start of the team it is.
    pub generation: u64,
    pub exec_shim: &'a ExecShim,
}

/// What is told while they run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// The first is 1.
    Began { number: usize, of: usize, shell: &'a str },
    /// A line that a command wrote to its error output, which is for people.
    Said(&'a str),
}

/// Why a team does not begin.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the setup command `{shell}` {why}")]
    Failed {
        shell: String,
        why: String,
        /// The last that it wrote.
        lines: Vec<String>,
    },
    #[error("the setup command `{shell}` cannot be started")]
    NotStarted {
        shell: String,
        #[source]
        source: NotStarted,
    },
    #[error("the setup command `{shell}` uses `${variable}`, which is {bytes} bytes long: too long for an environment")]
    TooLong { shell: String, variable: String, bytes: usize },
    #[error("setup was interrupted")]
    Interrupted,
    #[error("what setup commands printed cannot be kept in {}", path.display())]
    NotKept {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl SetupError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SetupError::Failed { .. } => Some("nothing was started; run the command by itself in the project's folder"),
            SetupError::NotStarted { .. } => Some("nothing was started; a shell `sh` is needed"),
            SetupError::TooLong { .. } => Some("let the earlier command write a file, and read that"),
            SetupError::Interrupted => None,
            SetupError::NotKept { .. } => Some("nothing was started; see whether the disk is full"),
        }
    }
}

/// Runs the commands and puts what they printed into the variables.
pub async fn run(
    commands: &[Setup],
    variables: &mut Variables,
    stage: &Stage<'_>,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress<'_>) + Send + Sync),
) -> Result<(), SetupError> {
    for (nth, command) in commands.iter().enumerate() {
        let shell = command.shell.value.as_str();
        tell(Progress::Began { number: nth + 1, of: commands.len(), shell });
        let printed = printed(shell, variables, stage, cancel, tell).await?;
        if let Some(variable) = &command.variable {
            variables.setup.insert(variable.value.clone(), Some(printed));
        }
    }
    let (printed, params) = (variables.setup.clone(), variables.params.clone());
    Kept { generation: stage.generation, printed, params }.save(stage.state)
}

/// Puts in what was printed when this start of the team began. If that is lost, texts name what is missing instead.
pub fn recall(variables: &mut Variables, stage: &Stage<'_>) {
    for (name, value) in Kept::load(stage.state, stage.generation).into_iter().flat_map(|kept| kept.printed) {
        if let Some(known) = variables.setup.get_mut(&name) {
            *known = value;
        }
    }
}

/// Which parameters had other values when this start of the team began: the kickoff that is out was made of those.
pub fn begun_otherwise(variables: &Variables, state: &Path, generation: u64) -> Vec<String> {
    let params = Kept::load(state, generation).into_iter().flat_map(|kept| kept.params);
    params.filter(|(name, value)| variables.params.get(name) != Some(value)).map(|(name, _)| name).collect()
}

#[derive(Serialize, Deserialize)]
struct Kept {
    generation: u64,
    printed: BTreeMap<String, Option<String>>,
    /// What was said on the command line, or stands in the file instead.
    #[serde(default)]
    params: BTreeMap<String, Option<String>>,
}

impl Kept {
    /// What is kept of one start of a team.
    fn load(folder: &Path, generation: u64) -> Option<Kept> {
        let bytes = std::fs::read(folder.join(KEPT)).ok()?;
        serde_json::from_slice::<Kept>(&bytes).ok().filter(|kept| kept.generation == generation)
    }

    /// Whole or not at all.
    fn save(&self, folder: &Path) -> Result<(), SetupError> {
        let path = folder.join(KEPT);
        let not_kept = |source: io::Error| SetupError::NotKept { path: path.clone(), source };
        let text = serde_json::to_vec(self).map_err(io::Error::from).map_err(not_kept)?;
        let new = folder.join(format!("{KEPT}.new"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(not_kept)
    }
}

/// Runs one command, and gives back what it printed, without line breaks at the end.
async fn printed(
    shell: &str,
    variables: &Variables,
    stage: &Stage<'_>,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress<'_>) + Send + Sync),
) -> Result<String, SetupError> {
    // The person's own command, with all of the person's environment.
    let env = environment(shell, variables)?;
    let program = Program { env, ..Program::new(stage.exec_shim.clone(), stage.project, ["sh", "-c", shell]) };
    let limits = RunLimits { timeout: TIMEOUT, idle: None, output_bytes: OUTPUT_BYTES };
    let mut output = Output::default();
    let finished = process::run(&program, limits, &stage.state.join("setup.log"), cancel, &mut |stream, line| {
        if stream == OutputStream::Stderr {
            tell(Progress::Said(line));
        }
        output.take(stream, line);
    })
    .await
    .map_err(|source| SetupError::NotStarted { shell: shell.to_owned(), source })?;
    output.settle(shell, &finished)
}

/// What a command finds in its environment: the runner's own, and what is known by now.
fn environment(shell: &str, variables: &Variables) -> Result<BTreeMap<OsString, OsString>, SetupError> {
    let mut all: BTreeMap<OsString, OsString> =
        variables.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    for (name, value) in variables.for_commands() {
        if value.len() <= ENVIRONMENT_BYTES && !value.contains('\0') {
            all.insert(name.into(), value.into());
        } else if names(shell, &name) {
            return Err(SetupError::TooLong { shell: shell.to_owned(), variable: name, bytes: value.len() });
        }
    }
    Ok(all)
}

/// Whether a command uses a variable.
fn names(shell: &str, variable: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    ["$", "${"].iter().any(|sign| {
        let used = format!("{sign}{variable}");
        shell.match_indices(&used).any(|(at, _)| !goes_on(&shell[at + used.len()..]))
    })
}

/// What a command wrote.
#[derive(Default)]
struct Output {
    printed: String,
    last: Vec<String>,
}

impl Output {
    fn take(&mut self, stream: OutputStream, line: &str) {
        if stream == OutputStream::Stdout {
            self.printed.push_str(line);
            self.printed.push('\n');
        }
        if self.last.len() == LAST_LINES {
            self.last.remove(0);
        }
        self.last.push(line.to_owned());
    }

    fn settle(self, shell: &str, finished: &Finished) -> Result<String, SetupError> {
        let why = match finished.end {
            ProcessEnd::Exited(0) => return Ok(self.printed.trim_end_matches('\n').to_owned()),
            ProcessEnd::Exited(code) => format!("ended with code {code}"),
            ProcessEnd::Signalled(signal) => format!("was ended by signal {signal}"),
            ProcessEnd::TimedOut | ProcessEnd::Idle => format!("took longer than {} minutes", TIMEOUT.as_secs() / 60),
            ProcessEnd::Flooded => format!("printed more than {OUTPUT_BYTES} bytes"),
            ProcessEnd::OverLimit(excess) => excess.to_string(),
            ProcessEnd::Cancelled => return Err(SetupError::Interrupted),
        };
        Err(SetupError::Failed { shell: shell.to_owned(), why, lines: self.last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ready;

    fn variables(diff: &str) -> Variables {
        let mut ready = ready(
            "agents: {a: {backend: mock, script: [pass]}}\n\
             params: [{name: pr, default: '12'}]\n\
             setup: [{shell: git diff, as: diff}]\n\
             kickoff: '@a ${{ diff }}'\n",
        );
        ready.variables.setup.insert("diff".to_owned(), Some(diff.to_owned()));
        ready.variables
    }

    #[test]
    fn a_command_finds_what_is_known_in_its_environment() {
        let found = environment("true", &variables("x;rm -rf /")).unwrap();
        let value = |name: &str| found.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(
            (value("params_pr"), value("instance"), value("diff")),
            (Some("12"), Some("pr-1"), Some("x;rm -rf /"))
        );
    }

    #[test]
    fn what_no_environment_can_hold_is_told_to_whoever_needs_it() {
        for long in ["x".repeat(ENVIRONMENT_BYTES + 1), "a\0b".to_owned()] {
            let variables = variables(&long);
            assert!(!environment("echo $diffs", &variables).unwrap().contains_key(std::ffi::OsStr::new("diff")));
            for shell in ["echo \"$diff\"", "echo ${diff}", "wc -c <<<$diff"] {
                let error = environment(shell, &variables).unwrap_err();
                assert!(matches!(&error, SetupError::TooLong { variable, .. } if variable == "diff"), "{error}");
                assert!(error.hint().is_some());
            }
        }
    }

    #[test]
    fn what_was_printed_is_recalled_by_the_same_start_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let exec_shim = ExecShim { rookery: "rookery".into(), records: folder.path().into() };
        let stage =
            |generation| Stage { project: folder.path(), state: folder.path(), generation, exec_shim: &exec_shim };
        let begun = variables("printed");
        let kept = Kept { generation: 2, printed: begun.setup, params: begun.params };
        kept.save(folder.path()).unwrap();
        let recalled = |generation| {
            let mut variables = variables("");
            variables.setup.insert("diff".to_owned(), None);
            assert_eq!(begun_otherwise(&variables, folder.path(), generation), Vec::<String>::new());
            recall(&mut variables, &stage(generation));
            variables.setup["diff"].clone()
        };
        assert_eq!((recalled(2).as_deref(), recalled(3)), (Some("printed"), None));
        let mut others = variables("");
        others.params.insert("pr".to_owned(), Some("13".to_owned()));
        assert_eq!(begun_otherwise(&others, folder.path(), 2), ["pr"], "the kickoff was about another one");
    }

    #[test]
    fn a_command_that_failed_is_told_by_its_last_lines() {
        let mut output = Output::default();
        (0..30).for_each(|n| {
            output.take(if n % 2 == 0 { OutputStream::Stdout } else { OutputStream::Stderr }, &format!("line {n}"))
        });
        let finished = |end| Finished { end, stderr_tail: String::new() };
        let error = output.settle("make", &finished(ProcessEnd::Exited(3))).unwrap_err();
        assert_eq!(error.to_string(), "the setup command `make` ended with code 3");
        let SetupError::Failed { lines, .. } = error else { panic!("it failed") };
        assert_eq!((lines.len(), lines[9].as_str()), (LAST_LINES, "line 29"));
        let mut output = Output::default();
        ["", "a", "", "b", ""].iter().for_each(|line| output.take(OutputStream::Stdout, line));
        assert_eq!(output.settle("make", &finished(ProcessEnd::Exited(0))).unwrap(), "\na\n\nb");
    }
}
