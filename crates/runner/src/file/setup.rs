//! Commands that run before the kickoff, one after the other. Nothing is put into their text: what is known by then is in
//! their environment, with `_` for the dot (`$params_pr`), so that no value can become a part of a command.

use super::cursor::{Field, Reader};
use super::fault::{At, Fault};
use super::shape::{Record, Shape, optional, required};
use super::template;
use super::variables::{self, RESERVED};

pub(super) const NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

pub(super) const RECORD: Record = Record {
    name: "setup command",
    about: "A command to run before the kickoff. If it fails, nothing else runs.",
    keys: &[
        required(
            "shell",
            Shape::Text,
            "The command, for a shell. ${{ … }} is not put in; variables are in its environment, params.x as $params_x",
        ),
        optional("as", Shape::Form(NAME), "The variable that gets what the command prints"),
    ],
};

/// Variables that steer programs; whoever set one of them by accident would search for long.
const STEERING: [&str; 9] = ["PATH", "HOME", "SHELL", "USER", "IFS", "ENV", "BASH_ENV", "PWD", "TMPDIR"];

/// Beginnings of the names of such variables, and of those that stand for what is known already.
const PREFIXES: [&str; 5] = ["LD_", "ROOKERY_", "params_", "workflow_", "context_"];

#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    pub shell: At<String>,
    pub variable: Option<At<String>>,
}

impl Setup {
    pub(super) fn read_all(field: &Field<'_>, reader: &mut Reader<'_>) -> Vec<Setup> {
        let mut all: Vec<Setup> = Vec::new();
        for item in field.list(reader) {
            let Some(setup) = read(&item, reader) else { continue };
            let earlier = |variable: &At<String>| {
                all.iter().filter_map(|setup| setup.variable.as_ref()).any(|other| other.value == variable.value)
            };
            if let Some(variable) = setup.variable.as_ref().filter(|variable| earlier(variable)) {
                reader.fault(
                    Fault::new(
                        &variable.place,
                        format!("`{}` is the variable of a command before this one", variable.value),
                    )
                    .hint("give each its own"),
                );
            }
            all.push(setup);
        }
        all
    }

    /// Whether the command seems to wait for something to be put in.
    pub(super) fn check(&self, known: &[String], reader_faults: &mut super::Faults) {
        for name in template::names_in(&self.shell.value) {
            if known.iter().any(|variable| variable == name) {
                let message = format!("nothing is put into commands, and this one says `${{{{ {name} }}}}`");
                let hint = format!("it is in the environment: \"${}\"", variables::in_environment(name));
                reader_faults.add(Fault::new(&self.shell.place, message).hint(hint));
            }
        }
    }
}

fn read(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Setup> {
    let keys = field.record(reader, &RECORD)?;
    let variable = keys.get("as").and_then(|field| variable(field, reader));
    let shell = keys.get("shell")?.text(reader)?;
    if shell.value.trim().is_empty() {
        reader.fault(Fault::new(&shell.place, "there is no command"));
        return None;
    }
    Some(Setup { shell, variable })
}

fn variable(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<At<String>> {
    let name = field.text(reader)?;
    if !is_name(&name.value) {
        field.wrong(reader, "must be a name of letters, digits and `_` that begins with no digit");
        return None;
    }
    let is_taken = [RESERVED.as_slice(), STEERING.as_slice()].concat().contains(&name.value.as_str());
    if is_taken || PREFIXES.iter().any(|prefix| name.value.starts_with(prefix)) {
        let fault = Fault::new(&name.place, format!("`{}` means something else already", name.value));
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
