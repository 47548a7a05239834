//! The setup commands of a workflow file. They run in sequence before the kickoff, each in its own shell in the project's
//! folder. The output of a command can become a variable. The first failure ends the start of the team.
//!
//! A resumed team does not run them again: their outputs are saved with the team's state.

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

/// Time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Output limit of a command: the size of a document, which holds the output if it is too long for a message.
const OUTPUT_BYTES: u64 = limit::DOCUMENT_BYTES as u64;
/// Maximum length of a value in the environment; systems reject more than 128 KiB.
const ENVIRONMENT_BYTES: usize = 120 << 10;
/// Number of last lines shown of a failed command.
const LAST_LINES: usize = 10;
const FILE: &str = "setup.json";

/// The surroundings of setup commands.
#[derive(Debug)]
pub struct SetupContext<'a> {
    /// The folder of the project.
    pub project: &'a Path,
    /// The folder of the team's state.
    pub state: &'a Path,
    /// The generation of the team, counted by its starts.
    pub generation: u64,
    pub exec_shim: &'a ExecShim,
}

/// The progress of setup commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupProgress<'a> {
    /// The first command has number 1.
    Began { number: usize, of: usize, shell: &'a str },
    /// A line on standard error, for people.
    Stderr(&'a str),
}

/// The reason why setup failed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the setup command `{shell}` {why}")]
    Failed {
        shell: String,
        why: String,
        /// The last lines of its output.
        lines: Vec<String>,
    },
    #[error("the setup command `{shell}` could not be started")]
    NotStarted {
        shell: String,
        #[source]
        source: NotStarted,
    },
    #[error("the setup command `{shell}` uses `${variable}`, which is {bytes} bytes long: too long for an environment")]
    TooLong { shell: String, variable: String, bytes: usize },
    #[error("setup was interrupted")]
    Interrupted,
    #[error("cannot save the output of setup commands in {}", path.display())]
    NotSaved {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl SetupError {
    /// A suggestion for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SetupError::Failed { .. } => Some("no agent was started; run the command by hand in the project's folder"),
            SetupError::NotStarted { .. } => Some("no agent was started; install a shell `sh`"),
            SetupError::TooLong { .. } => Some("let the earlier command write to a file, and read the file instead"),
            SetupError::Interrupted => None,
            SetupError::NotSaved { .. } => Some("no agent was started; check whether the disk is full"),
        }
    }
}

/// Runs the commands, stores their outputs in the variables, and saves them.
pub async fn run(
    commands: &[Setup],
    variables: &mut Variables,
    context: &SetupContext<'_>,
    cancel: &CancellationToken,
    on_progress: &(dyn Fn(SetupProgress<'_>) + Send + Sync),
) -> Result<(), SetupError> {
    for (nth, command) in commands.iter().enumerate() {
        let shell = command.shell.value.as_str();
        on_progress(SetupProgress::Began { number: nth + 1, of: commands.len(), shell });
        let printed = run_command(shell, variables, context, cancel, on_progress).await?;
        if let Some(variable) = &command.variable {
            variables.setup.insert(variable.value.clone(), Some(printed));
        }
    }
    let (printed, params) = (variables.setup.clone(), variables.params.clone());
    SetupRecord { generation: context.generation, printed, params }.save(context.state)
}

/// Loads the outputs of this generation's setup commands into the variables. Variables whose output is lost stay unset.
pub fn load_outputs(variables: &mut Variables, context: &SetupContext<'_>) {
    let record = SetupRecord::load(context.state, context.generation);
    for (name, value) in record.into_iter().flat_map(|record| record.printed) {
        if let Some(known) = variables.setup.get_mut(&name) {
            *known = value;
        }
    }
}

/// Lists the parameters whose values differ from those at the start of this generation, which its kickoff contains.
pub fn changed_params(variables: &Variables, state: &Path, generation: u64) -> Vec<String> {
    let params = SetupRecord::load(state, generation).into_iter().flat_map(|record| record.params);
    params.filter(|(name, value)| variables.params.get(name) != Some(value)).map(|(name, _)| name).collect()
}

/// The saved variables of one generation of a team.
#[derive(Serialize, Deserialize)]
struct SetupRecord {
    generation: u64,
    printed: BTreeMap<String, Option<String>>,
    /// Values of parameters, from the command line or from the workflow file.
    #[serde(default)]
    params: BTreeMap<String, Option<String>>,
}

impl SetupRecord {
    fn load(folder: &Path, generation: u64) -> Option<SetupRecord> {
        let bytes = std::fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice::<SetupRecord>(&bytes).ok().filter(|record| record.generation == generation)
    }

    /// Writes the file atomically.
    fn save(&self, folder: &Path) -> Result<(), SetupError> {
        let path = folder.join(FILE);
        let not_saved = |source: io::Error| SetupError::NotSaved { path: path.clone(), source };
        let text = serde_json::to_vec(self).map_err(io::Error::from).map_err(not_saved)?;
        let new = folder.join(format!("{FILE}.new"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(not_saved)
    }
}

/// Runs one command and returns its output, without trailing line breaks.
async fn run_command(
    shell: &str,
    variables: &Variables,
    context: &SetupContext<'_>,
    cancel: &CancellationToken,
    on_progress: &(dyn Fn(SetupProgress<'_>) + Send + Sync),
) -> Result<String, SetupError> {
    // The person's own command gets the person's whole environment.
    let env = environment(shell, variables)?;
    let program = Program { env, ..Program::new(context.exec_shim.clone(), context.project, ["sh", "-c", shell]) };
    let limits = RunLimits { timeout: TIMEOUT, idle: None, output_bytes: OUTPUT_BYTES };
    let mut output = SetupOutput::default();
    let finished = process::run(&program, limits, &context.state.join("setup.log"), cancel, &mut |stream, line| {
        if stream == OutputStream::Stderr {
            on_progress(SetupProgress::Stderr(line));
        }
        output.push(stream, line);
    })
    .await
    .map_err(|source| SetupError::NotStarted { shell: shell.to_owned(), source })?;
    output.into_result(shell, &finished)
}

/// Builds the environment of a command: that of the runner, with the variables known so far.
fn environment(shell: &str, variables: &Variables) -> Result<BTreeMap<OsString, OsString>, SetupError> {
    let mut all: BTreeMap<OsString, OsString> =
        variables.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    for (name, value) in variables.for_commands() {
        if value.len() <= ENVIRONMENT_BYTES && !value.contains('\0') {
            all.insert(name.into(), value.into());
        } else if uses_variable(shell, &name) {
            return Err(SetupError::TooLong { shell: shell.to_owned(), variable: name, bytes: value.len() });
        }
    }
    Ok(all)
}

fn uses_variable(shell: &str, variable: &str) -> bool {
    let continues_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    ["$", "${"].iter().any(|sign| {
        let used = format!("{sign}{variable}");
        shell.match_indices(&used).any(|(at, _)| !continues_name(&shell[at + used.len()..]))
    })
}

/// The output of a command.
#[derive(Default)]
struct SetupOutput {
    /// Standard output.
    printed: String,
    /// The last lines of both streams.
    last: Vec<String>,
}

impl SetupOutput {
    fn push(&mut self, stream: OutputStream, line: &str) {
        if stream == OutputStream::Stdout {
            self.printed.push_str(line);
            self.printed.push('\n');
        }
        if self.last.len() == LAST_LINES {
            self.last.remove(0);
        }
        self.last.push(line.to_owned());
    }

    fn into_result(self, shell: &str, finished: &Finished) -> Result<String, SetupError> {
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
    fn environment_of_command_contains_known_variables() {
        let found = environment("true", &variables("x;rm -rf /")).unwrap();
        let value = |name: &str| found.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(
            (value("params_pr"), value("instance"), value("diff")),
            (Some("12"), Some("pr-1"), Some("x;rm -rf /"))
        );
    }

    #[test]
    fn command_that_uses_a_too_long_variable_is_rejected() {
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
    fn outputs_are_loaded_only_by_the_same_generation() {
        let folder = tempfile::tempdir().unwrap();
        let exec_shim = ExecShim { rookery: "rookery".into(), records: folder.path().into() };
        let context = |generation| SetupContext {
            project: folder.path(),
            state: folder.path(),
            generation,
            exec_shim: &exec_shim,
        };
        let first = variables("printed");
        let record = SetupRecord { generation: 2, printed: first.setup, params: first.params };
        record.save(folder.path()).unwrap();
        let loaded = |generation| {
            let mut variables = variables("");
            variables.setup.insert("diff".to_owned(), None);
            assert_eq!(changed_params(&variables, folder.path(), generation), Vec::<String>::new());
            load_outputs(&mut variables, &context(generation));
            variables.setup["diff"].clone()
        };
        assert_eq!((loaded(2).as_deref(), loaded(3)), (Some("printed"), None));
        let mut others = variables("");
        others.params.insert("pr".to_owned(), Some("13".to_owned()));
        assert_eq!(changed_params(&others, folder.path(), 2), ["pr"], "the kickoff had another value");
    }

    #[test]
    fn failed_command_is_reported_with_its_last_lines() {
        let mut output = SetupOutput::default();
        (0..30).for_each(|n| {
            output.push(if n % 2 == 0 { OutputStream::Stdout } else { OutputStream::Stderr }, &format!("line {n}"))
        });
        let finished = |end| Finished { end, stderr_tail: String::new() };
        let error = output.into_result("make", &finished(ProcessEnd::Exited(3))).unwrap_err();
        assert_eq!(error.to_string(), "the setup command `make` ended with code 3");
        let SetupError::Failed { lines, .. } = error else { panic!("it failed") };
        assert_eq!((lines.len(), lines[9].as_str()), (LAST_LINES, "line 29"));
        let mut output = SetupOutput::default();
        ["", "a", "", "b", ""].iter().for_each(|line| output.push(OutputStream::Stdout, line));
        assert_eq!(output.into_result("make", &finished(ProcessEnd::Exited(0))).unwrap(), "\na\n\nb");
    }
}
