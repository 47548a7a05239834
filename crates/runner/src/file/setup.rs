//! Commands that run before the kickoff, in sequence. Variables are not inserted into their text but passed in their
//! environment, with `_` for the dot (`$params_pr`), so that no value can become a part of a command.

use super::cursor::{Field, FileReader};
use super::fault::{FileFault, InFile};
use super::shape::{Record, Shape, optional_key, required_key};
use super::template;
use super::variables::{self, RESERVED};

pub(super) const NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

pub(super) const RECORD: Record = Record {
    name: "setup command",
    about: "A command to run before the kickoff. If it fails, nothing else runs.",
    keys: &[
        required_key(
            "shell",
            Shape::Text,
            "The command, for a shell. ${{ … }} is not replaced; variables are in its environment, params.x as $params_x",
        ),
        optional_key("as", Shape::Form(NAME), "The variable that gets the output of the command"),
    ],
};

/// Variables that affect programs, and must not be replaced by accident.
const SYSTEM_VARIABLES: [&str; 9] = ["PATH", "HOME", "SHELL", "USER", "IFS", "ENV", "BASH_ENV", "PWD", "TMPDIR"];

/// Prefixes of such variables, and of Rookery's own.
const RESERVED_PREFIXES: [&str; 5] = ["LD_", "ROOKERY_", "params_", "workflow_", "context_"];

#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    pub shell: InFile<String>,
    pub variable: Option<InFile<String>>,
}

impl Setup {
    pub(super) fn read_all(field: &Field<'_>, reader: &mut FileReader<'_>) -> Vec<Setup> {
        let mut all: Vec<Setup> = Vec::new();
        for item in field.list(reader) {
            let Some(setup) = read(&item, reader) else { continue };
            let earlier = |variable: &InFile<String>| {
                all.iter().filter_map(|setup| setup.variable.as_ref()).any(|other| other.value == variable.value)
            };
            if let Some(variable) = setup.variable.as_ref().filter(|variable| earlier(variable)) {
                reader.fault(
                    FileFault::new(
                        &variable.place,
                        format!("`{}` is already the variable of an earlier command", variable.value),
                    )
                    .hint("choose another name"),
                );
            }
            all.push(setup);
        }
        all
    }

    /// Reports known variables in the text of the command, where they are not replaced.
    pub(super) fn check(&self, known: &[String], faults: &mut super::FileFaults) {
        for name in template::names_in(&self.shell.value) {
            if known.iter().any(|variable| variable == name) {
                let message = format!("`${{{{ {name} }}}}` is not replaced in commands");
                let hint = format!("use the environment variable: \"${}\"", variables::environment_name(name));
                faults.add(FileFault::new(&self.shell.place, message).hint(hint));
            }
        }
    }
}

fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Setup> {
    let keys = field.record(reader, &RECORD)?;
    let variable = keys.get("as").and_then(|field| variable(field, reader));
    let shell = keys.get("shell")?.text(reader)?;
    if shell.value.trim().is_empty() {
        reader.fault(FileFault::new(&shell.place, "the command is empty"));
        return None;
    }
    Some(Setup { shell, variable })
}

fn variable(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<InFile<String>> {
    let name = field.text(reader)?;
    if !is_name(&name.value) {
        field.wrong(reader, "must consist of letters, digits and `_`, and not begin with a digit");
        return None;
    }
    let is_taken = [RESERVED.as_slice(), SYSTEM_VARIABLES.as_slice()].concat().contains(&name.value.as_str());
    if is_taken || RESERVED_PREFIXES.iter().any(|prefix| name.value.starts_with(prefix)) {
        let fault = FileFault::new(&name.place, format!("`{}` is reserved", name.value));
        reader.fault(fault.hint("choose another name"));
        return None;
    }
    Some(name)
}

pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= 128
}
