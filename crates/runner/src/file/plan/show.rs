//! The preview of a run as text for people.

use std::fmt::{self, Display, Formatter};

use super::super::ready::Blocker;
use super::{PlannedAgent, PlannedContext, PlannedLimits, RunPreview};

/// Maximum number of lines shown of a kickoff.
const KICKOFF_LINES: usize = 40;

impl Display for RunPreview {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: workflow {}, instance {}", self.file, self.workflow, self.instance)?;
        self.agents(f)?;
        section(
            f,
            "parameters",
            self.params.iter().map(|param| match &param.value {
                Some(value) => format!("{} = {value:?}", param.name),
                None => format!("{} is required", param.name),
            }),
        )?;
        section(
            f,
            "setup",
            self.setup.iter().map(|setup| match &setup.variable {
                Some(variable) => format!("{variable} = {}", one_line(&setup.shell)),
                None => one_line(&setup.shell),
            }),
        )?;
        self.first_message(f)?;
        section(f, "context", [context(&self.context)])?;
        section(f, "limits", limits(&self.limits))?;
        section(
            f,
            "steps",
            self.steps.iter().map(|step| {
                let who = step.agent.as_ref().map(|agent| format!(" by {agent}")).unwrap_or_default();
                format!("{}{who}: {} with {}", step.id, step.message_type, step.payload_type)
            }),
        )?;
        let (start, run): (Vec<&Blocker>, Vec<&Blocker>) = self.blockers.iter().partition(|one| one.blocks_start());
        section(f, "cannot be run", start.into_iter().map(ToString::to_string))?;
        section(f, "can be started, but not run", run.into_iter().map(ToString::to_string))?;
        section(f, "notes", self.notes.iter().cloned())
    }
}

impl RunPreview {
    fn agents(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let width = |of: fn(&PlannedAgent) -> usize| self.agents.iter().map(of).max().unwrap_or(0);
        let (names, backends) = (width(|agent| agent.name.len()), width(|agent| agent.backend.len()));
        section(
            f,
            "agents",
            self.agents.iter().map(|agent| {
                format!("{:names$}  {:backends$}  {}", agent.name, agent.backend, details(agent)).trim_end().to_owned()
            }),
        )
    }

    fn first_message(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(kickoff) = &self.kickoff else { return Ok(()) };
        let lines: Vec<&str> = kickoff.trim_end().lines().collect();
        let more = lines.len().saturating_sub(KICKOFF_LINES);
        let shown = lines.into_iter().take(KICKOFF_LINES).map(str::to_owned);
        section(f, "kickoff", shown.chain((more > 0).then(|| format!("… {more} more lines"))))?;
        section(f, "woken first", (!self.woken_first.is_empty()).then(|| self.woken_first.join(", ")))
    }
}

/// Writes a heading with indented lines, or nothing without lines.
fn section(f: &mut Formatter<'_>, heading: &str, lines: impl IntoIterator<Item = String>) -> fmt::Result {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_some() {
        writeln!(f, "\n{heading}")?;
    }
    lines.try_for_each(|line| if line.is_empty() { writeln!(f) } else { writeln!(f, "  {line}") })
}

fn details(agent: &PlannedAgent) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(agent.model.clone());
    parts.extend(agent.program.as_ref().map(|program| match &program.found {
        Some(path) if program.argv.len() == 1 => path.clone(),
        _ => program.argv.join(" "),
    }));
    parts.extend(agent.script.as_ref().map(|script| match script.turns {
        1 => format!("1 turn, then {}", script.then),
        turns => format!("{turns} turns, then {}", script.then),
    }));
    parts.extend(agent.system_prompt.as_ref().and_then(|prompt| Some(format!("prompt {}", prompt.file.as_ref()?))));
    parts.extend(agent.tools.as_ref().map(|tools| match tools.as_slice() {
        [] => "no tools".to_owned(),
        tools => format!("only {}", tools.join(", ")),
    }));
    parts.extend((agent.workspace == "worktree").then(|| "own worktree".to_owned()));
    parts.extend((!agent.sandbox.on).then(|| "no sandbox".to_owned()));
    parts.extend(agent.max_turns.map(|turns| format!("at most {turns} turns")));
    parts.extend(agent.timeout.as_ref().map(|timeout| format!("{timeout} a turn")));
    parts.extend(agent.wakeup.as_ref().map(|wakeup| match wakeup.next.as_slice() {
        [] => format!("woken after {} without activity", wakeup.when),
        next => format!("woken at {} (next {})", wakeup.when, next.join(", ")),
    }));
    parts.join("; ")
}

fn context(context: &PlannedContext) -> String {
    let PlannedContext { provider, folder, channel, document, documents } = context;
    let files = || [channel, document].into_iter().chain(documents).cloned().collect::<Vec<_>>().join(", ");
    match (*provider, folder) {
        ("off", _) => "none".to_owned(),
        (_, Some(folder)) => format!("{folder}/ with {}", files()),
        (provider, None) => format!("in {provider}, no files"),
    }
}

fn limits(limits: &PlannedLimits) -> impl Iterator<Item = String> {
    let PlannedLimits { max_turns, max_messages, max_runtime, max_cost_usd } = limits;
    let all = [
        max_turns.map(|turns| format!("{turns} turns")),
        max_messages.map(|messages| format!("{messages} messages")),
        max_runtime.as_ref().map(|length| format!("{length} of time")),
        max_cost_usd.map(|cost| format!("{cost} US dollars")),
    ];
    all.into_iter().flatten()
}

fn one_line(command: &str) -> String {
    let mut lines = command.trim().lines();
    let first = lines.next().unwrap_or_default().to_owned();
    if lines.next().is_some() { format!("{first} …") } else { first }
}
