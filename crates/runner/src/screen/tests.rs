//! The screen at the end of a run, on a terminal and elsewhere.

use super::*;
use crate::backend::{BackendEvent, Usage};
use crate::team::report::{
    AgentState, Began, Level, MemberInfo, MemberStatus, ReportedCause, Reports, RunOutcome, TurnResult, UsageTotals,
};

fn status(name: &str, state: AgentState, turns: u64) -> MemberStatus {
    let usage = Usage { input_tokens: 1_200 * turns, output_tokens: 80 * turns, cost_usd: (turns > 0).then_some(0.01) };
    MemberStatus { name: name.to_owned(), state, tally: UsageTotals { turns, usage } }
}

/// The reports of a run with all kinds of events.
fn story() -> Vec<Report> {
    let member = |name: &str, backend| MemberInfo { name: name.to_owned(), backend, model: None };
    let agents = vec![member("reviewer", "claude"), member("coder", "codex")];
    let of = |name: &str| name.to_owned();
    let usage = Usage { input_tokens: 1_200, output_tokens: 80, cost_usd: Some(0.01) };
    let again = TurnResult::Retry {
        reason: "the model\u{1b}[2J is overloaded".into(),
        hint: Some("wait".into()),
        after: Duration::from_secs(1),
    };
    let waiting = AgentState::Waiting { why: "the model is overloaded".into(), time: Duration::from_secs(1) };
    vec![
        Report::Began(Began {
            team: of("@pr-1"),
            workflow: of("review"),
            instance: of("pr-1"),
            resumed: false,
            agents,
        }),
        Report::SetUp { nth: 1, of: 1, shell: of("git diff") },
        Report::KickedOff { woken: vec![of("reviewer")] },
        Report::TurnBegan {
            agent: status("reviewer", AgentState::Working, 0),
            attempt: 1,
            cause: ReportedCause::Messages,
            messages: 1,
        },
        Report::During {
            agent: of("reviewer"),
            event: BackendEvent::Tool { name: of("Bash"), input: of("{\"command\":\"ls\"}") },
        },
        Report::TurnEnded {
            agent: status("reviewer", AgentState::Idle, 1),
            attempt: 1,
            outcome: TurnResult::Done,
            usage,
            took: Duration::from_secs(12),
        },
        Report::TurnEnded {
            agent: status("coder", waiting, 0),
            attempt: 1,
            outcome: again,
            usage: Usage::default(),
            took: Duration::from_millis(20),
        },
        Report::Note { agent: None, level: Level::Warning, text: of("there is no sandbox here") },
    ]
}

fn end() -> Report {
    let (outcome, reason) = (RunOutcome::Failed, Some("coder failed".to_owned()));
    let total =
        UsageTotals { turns: 4, usage: Usage { input_tokens: 2_400, output_tokens: 160, cost_usd: Some(0.02) } };
    Report::Ended { outcome, reason, took: Duration::from_secs(65), total }
}

async fn shown(manner: Manner, verbose: bool, reports: Vec<Report>) -> String {
    let (sender, receiver) = Reports::channel();
    reports.into_iter().for_each(|report| sender.send(report));
    drop(sender);
    let mut out = Vec::new();
    show(receiver, Look { manner, verbose, colour: false }, &mut out).await;
    String::from_utf8(out).unwrap()
}

/// Emulates a terminal and returns its final content.
fn remaining(written: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    let mut rest = written;
    while let Some(next) = rest.chars().next() {
        if let Some(steer) = rest.strip_prefix("\u{1b}[") {
            let (number, after) = steer.split_once('A').unwrap();
            let up: usize = number.parse().unwrap();
            rest = after.strip_prefix("\r\u{1b}[J").unwrap();
            lines.truncate(lines.len() - 1 - up);
            lines.push(String::new());
            continue;
        }
        match next {
            '\n' => lines.push(String::new()),
            c => lines.last_mut().unwrap().push(c),
        }
        rest = &rest[next.len_utf8()..];
    }
    lines.join("\n")
}

fn small() -> Option<(u16, u16)> {
    Some((60, 24))
}

#[tokio::test]
async fn plain_output_has_a_line_for_every_report() {
    let story = || story().into_iter().chain([end()]).collect();
    insta::assert_snapshot!("plain", shown(Manner::Plain, false, story()).await);
    insta::assert_snapshot!("verbose", shown(Manner::Plain, true, story()).await);
    assert_eq!(shown(Manner::Quiet, true, story()).await, "");
}

#[tokio::test]
async fn terminal_shows_one_line_per_agent() {
    let mut out: Vec<u8> = Vec::new();
    let look = Look { manner: Manner::Live { size: small }, verbose: false, colour: false };
    let now = interval(TICK).tick().await;
    let mut screen =
        Screen { look, out: &mut out, board: AgentTable::default(), drawn: 0, drawn_lines: Vec::new(), is_gone: false };
    for report in story() {
        screen.take(&report, now);
        screen.draw(now);
    }
    screen.draw(now + Duration::from_millis(300));
    insta::assert_snapshot!("live", remaining(&String::from_utf8(out).unwrap()));
}

#[tokio::test]
async fn agent_table_is_erased_at_the_end() {
    let written = shown(Manner::Live { size: small }, false, story().into_iter().chain([end()]).collect()).await;
    insta::assert_snapshot!("live_end", remaining(&written));
}

#[tokio::test]
async fn small_terminal_shows_working_agents_first() {
    let member = |n: usize| MemberInfo { name: format!("agent-{n}"), backend: "mock", model: None };
    let began = Began {
        team: "@t".into(),
        workflow: "w".into(),
        instance: "t".into(),
        resumed: true,
        agents: (0..9).map(member).collect(),
    };
    let mut board = AgentTable::default();
    let now = interval(TICK).tick().await;
    board.take(&Report::Began(began), now);
    board.take(&Report::Changed(status("agent-7", AgentState::Working, 3)), now);
    let lines = board.lines(now, (30, 3));
    let text =
        |line: &Vec<(String, format::LineStyle)>| line.iter().map(|(piece, _)| piece.as_str()).collect::<String>();
    let lines: Vec<String> = lines.iter().map(text).collect();
    assert!(lines[0].starts_with("agent-7  working"), "{lines:?}");
    assert_eq!((lines.len(), lines[2].as_str()), (3, "and 7 more"));
    assert!(lines.iter().all(|line| line.chars().count() <= 30), "{lines:?}");
}

#[tokio::test]
async fn closed_terminal_does_not_block_reports() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (sender, receiver) = Reports::channel();
    story().into_iter().for_each(|report| sender.send(report));
    drop(sender);
    show(receiver, Look { manner: Manner::Plain, verbose: true, colour: true }, &mut Gone).await;
}
