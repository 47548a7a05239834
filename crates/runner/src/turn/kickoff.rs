//! The first message of a team. Only the workflow file and the command line can mention agents: output of setup commands is
//! data, and a diff that contains `@coder` wakes no agent.

use rookery_core::kernel::limit;

use super::clip::{Clipped, clip};
use crate::file::{Ready, TextTemplate, VariableValue, Variables};

/// Bytes of a message reserved for notes about omissions.
const NOTES_BYTES: usize = 4 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KickoffMessage {
    /// The text, short enough for one message.
    pub text: String,
    /// The agents that it wakes, by their names in the team.
    pub mentions: Vec<String>,
    /// Documents with output that did not fit, by file. They must be written before the message, which names them.
    pub documents: Vec<(String, String)>,
}

impl KickoffMessage {
    /// Creates the kickoff of a workflow, if it has one. Its setup commands must have run.
    pub fn of(ready: &Ready) -> Option<KickoffMessage> {
        let template = ready.workflow.kickoff.as_ref().filter(|kickoff| !kickoff.is_blank())?;
        let without_output = Variables {
            setup: ready.variables.setup.keys().map(|name| (name.clone(), None)).collect(),
            ..ready.variables.clone()
        };
        let mentions = ready.mentioned_agents(&without_output.fill(template)).into_iter().map(str::to_owned).collect();
        let (text, documents) = fit_message(template, &ready.variables);
        Some(KickoffMessage { text, mentions, documents })
    }
}

/// Fills a template so that it fits into a message. If it is too long, the longest outputs of setup commands are shortened,
/// and documents hold them in full. Text of the template itself is never shortened.
fn fit_message(template: &TextTemplate, variables: &Variables) -> (String, Vec<(String, String)>) {
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
        VariableValue::Value(value) => value.len(),
        VariableValue::Later | VariableValue::Unknown => 0,
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

    /// A kickoff that contains the output of a command.
    fn kickoff(printed: &str) -> KickoffMessage {
        let mut ready = ready(
            "agents: {coder: {backend: mock, script: [pass]}, reviewer: {backend: mock, script: [pass]}}\n\
             setup: [{shell: git diff, as: diff}]\n\
             kickoff: |\n  Changes:\n  ${{ diff }}\n  @reviewer please look.\n",
        );
        ready.variables.setup.insert("diff".to_owned(), Some(printed.to_owned()));
        KickoffMessage::of(&ready).unwrap()
    }

    #[test]
    fn mention_in_command_output_wakes_no_agent() {
        let kickoff = kickoff("+ @coder is mentioned here");
        assert_eq!(kickoff.text, "Changes:\n+ @coder is mentioned here\n@reviewer please look.\n");
        assert_eq!(kickoff.mentions, ["reviewer"]);
        assert!(kickoff.documents.is_empty());
    }

    #[test]
    fn long_command_output_is_moved_to_a_document() {
        let diff = "0123456789".repeat(limit::TEXT_BYTES / 8);
        let kickoff = kickoff(&diff);
        assert!(kickoff.text.len() <= limit::TEXT_BYTES, "{}", kickoff.text.len());
        assert!(kickoff.text.ends_with("\n@reviewer please look.\n"));
        assert!(kickoff.text.contains("the document setup/diff.md has all of it"));
        assert_eq!(kickoff.documents, [("setup/diff.md".to_owned(), diff)]);
    }

    #[test]
    fn workflow_without_kickoff_has_no_kickoff_message() {
        let ready = ready("agents: {a: {backend: mock, script: [pass]}}");
        assert_eq!(KickoffMessage::of(&ready), None);
    }
}
