//! The text of the expectations: acts in the order of the table, surfaces that agree in one entry.
//!
//! ```text
//! == held_by_other
//! given Task, Claimed(Ada)
//! Ben: Task(Claim)
//! REST, MCP -> rejected ALREADY_CLAIMED, holder ada [REST 409, MCP success:false]
//! Clutch lacks: ...
//! ```

use std::fmt::Write as _;

use crate::drivers::Surface;
use crate::outcome::{Outcome, Verdict};
use crate::record::Recorded;

pub fn render(recorded: &[Recorded]) -> String {
    recorded.iter().map(render_act).collect::<Vec<String>>().join("\n")
}

fn render_act(recorded: &Recorded) -> String {
    let act = &recorded.act;
    let given: Vec<String> = act.given.iter().map(|step| format!("{step:?}")).collect();
    let given = if given.is_empty() { "nothing".to_owned() } else { given.join(", ") };
    let mut text = format!("== {}\ngiven {given}\n{:?}: {:?}\n", act.name, act.by, act.call);
    for group in groups(recorded) {
        render_group(&mut text, &group);
    }
    for (surface, outcome) in &recorded.outcomes {
        if let Ok(Outcome { carrier: Some(carrier), .. }) = outcome {
            writeln!(text, "{} records: {carrier}", surface.name()).unwrap();
        }
    }
    if let Some(reason) = act.differs {
        writeln!(text, "by design: {reason}").unwrap();
    }
    for (surface, outcome) in &recorded.outcomes {
        if let Err(lacks) = outcome {
            writeln!(text, "{} lacks: {}", surface.name(), lacks.0).unwrap();
        }
    }
    text
}

/// Surfaces with the same outcome, in the order of the surfaces.
fn groups(recorded: &Recorded) -> Vec<Vec<(Surface, &Outcome)>> {
    let mut groups: Vec<Vec<(Surface, &Outcome)>> = vec![];
    for (surface, outcome) in &recorded.outcomes {
        let Ok(outcome) = outcome else { continue };
        match groups.iter_mut().find(|group| group.iter().all(|(_, other)| outcome.agrees(other))) {
            Some(group) => group.push((*surface, outcome)),
            None => groups.push(vec![(*surface, outcome)]),
        }
    }
    groups
}

fn render_group(text: &mut String, group: &[(Surface, &Outcome)]) {
    let names: Vec<&str> = group.iter().map(|(surface, _)| surface.name()).collect();
    let forms: Vec<String> =
        group.iter().map(|(surface, outcome)| format!("{} {}", surface.name(), outcome.form)).collect();
    writeln!(text, "{} -> {} [{}]", names.join(", "), verdict(group), forms.join(", ")).unwrap();
    for event in group.iter().take(1).flat_map(|(_, outcome)| &outcome.events) {
        writeln!(text, "    {event}").unwrap();
    }
}

/// The verdict that says most: one with a code, if any surface of the group has a form for it.
fn verdict(group: &[(Surface, &Outcome)]) -> String {
    let verdicts = || group.iter().map(|(_, outcome)| &outcome.verdict);
    let with_code = verdicts().find(|verdict| matches!(verdict, Verdict::Rejected { code: Some(_), .. }));
    match with_code.or_else(|| verdicts().next()) {
        None | Some(Verdict::Done) => "done".to_owned(),
        Some(Verdict::Rejected { code, holder, named }) => {
            let mut text = format!("rejected {}", code.as_deref().unwrap_or("without a code"));
            if let Some(holder) = holder {
                write!(text, ", holder {holder}").unwrap();
            }
            if let Some(named) = named {
                write!(text, ", names {named} in its text").unwrap();
            }
            text
        }
    }
}
