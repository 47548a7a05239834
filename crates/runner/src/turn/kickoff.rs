//! The first message of a team. Only what the file itself says, and what was said on the command line, mentions anybody: what
//! setup commands printed is data, and a diff with `@coder` in it wakes nobody.

use rookery_core::kernel::limit;

use super::clip::{Clipped, clip};
use crate::file::{Known, Ready, Template, Variables};

/// What remains of the room for a message when notes about what was left out are in it.
const NOTES_BYTES: usize = 4 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kickoff {
    /// The message, which fits into one.
    pub text: String,
    /// Whom it wakes, by the names that they have in the team.
    pub mentions: Vec<String>,
    /// Documents that hold what did not fit, by file: to be written before the message, which names them.
    pub documents: Vec<(String, String)>,
}

impl Kickoff {
    /// The kickoff of a workflow whose setup commands have run, if it has one.
    pub fn of(ready: &Ready) -> Option<Kickoff> {
        let template = ready.workflow.kickoff.as_ref().filter(|kickoff| !kickoff.is_blank())?;
        let unprinted = Variables {
            setup: ready.variables.setup.keys().map(|name| (name.clone(), None)).collect(),
            ..ready.variables.clone()
        };
        let mentions = ready.mentioned(&unprinted.fill(template)).into_iter().map(str::to_owned).collect();
        let (text, documents) = fitting(template, &ready.variables);
        Some(Kickoff { text, mentions, documents })
    }
}

/// A text that fits into a message. If it does not by itself, the longest of what commands printed is told in part, and the
/// whole of it is in a document: what the file itself says is told in any case, wherever it stands.
fn fitting(template: &Template, variables: &Variables) -> (String, Vec<(String, String)>) {
    let whole = variables.fill(template);
    if whole.len() <= limit::TEXT_BYTES {
        return (whole, Vec::new());
    }
    let printed: Vec<&str> = template
        .variables()
        .map(|variable| variable.name.as_str())
        .filter(|name| variables.setup.contains_key(*name))
        .collect();
    let length = |name: &str| match variables.look_up(name) {
        Known::Value(value) => value.len(),
        Known::Later | Known::Unknown => 0,
    };
    let own = whole.len() - printed.iter().map(|name| length(name)).sum::<usize>();
    let share = limit::TEXT_BYTES.saturating_sub(own + NOTES_BYTES) / printed.len().max(1);
    let (mut shortened, mut documents) = (variables.clone(), Vec::new());
    for name in printed {
        let Some(Some(value)) = variables.setup.get(name).filter(|_| length(name) > share) else { continue };
        let file = format!("setup/{name}.md");
        shortened.setup.insert(name.to_owned(), Some(part(value, share, &file)));
        if !documents.iter().any(|(other, _)| *other == file) {
            documents.push((file, value.clone()));
        }
    }
    (shortened.fill(template), documents)
}

fn part(value: &str, share: usize, file: &str) -> String {
    let Clipped { beginning, missing, end } = clip(value, share);
    format!("{beginning}\n[{missing} bytes are left out here; the document {file} has all of it]\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ready;

    /// A kickoff around what a command printed.
    fn kickoff(printed: &str) -> Kickoff {
        let mut ready = ready(
            "agents: {coder: {backend: mock, script: [pass]}, reviewer: {backend: mock, script: [pass]}}\n\
             setup: [{shell: git diff, as: diff}]\n\
             kickoff: |\n  Changes:\n  ${{ diff }}\n  @reviewer please look.\n",
        );
        ready.variables.setup.insert("diff".to_owned(), Some(printed.to_owned()));
        Kickoff::of(&ready).unwrap()
    }

    #[test]
    fn what_a_command_printed_wakes_nobody() {
        let kickoff = kickoff("+ @coder is mentioned here");
        assert_eq!(kickoff.text, "Changes:\n+ @coder is mentioned here\n@reviewer please look.\n");
        assert_eq!(kickoff.mentions, ["reviewer"]);
        assert!(kickoff.documents.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_in_a_document_and_what_the_file_says_stays() {
        let diff = "0123456789".repeat(limit::TEXT_BYTES / 8);
        let kickoff = kickoff(&diff);
        assert!(kickoff.text.len() <= limit::TEXT_BYTES, "{}", kickoff.text.len());
        assert!(kickoff.text.ends_with("\n@reviewer please look.\n"));
        assert!(kickoff.text.contains("the document setup/diff.md has all of it"));
        assert_eq!(kickoff.documents, [("setup/diff.md".to_owned(), diff)]);
    }

    #[test]
    fn without_a_kickoff_there_is_none() {
        let ready = ready("agents: {a: {backend: mock, script: [pass]}}");
        assert_eq!(Kickoff::of(&ready), None);
    }
}
