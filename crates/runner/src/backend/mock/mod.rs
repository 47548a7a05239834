//! Agents that follow a script. Their calls of the team's tools are made here, with the agent's identity; misbehaviour of a
//! program is carried out by a real one ([`misbehave`]), so that it is handled for real.
//!
//! The same script always has the same effects. The turns that are used up are kept over restarts ([`progress`]), and a turn
//! that is repeated because the runner died makes the same calls with the same idempotency keys, so that each has its effect
//! once.

pub mod misbehave;
mod progress;
mod turn;
mod values;

use futures_util::future::BoxFuture;

use self::progress::{ScriptProgress, ScriptStep};
use self::turn::MockTurn;
use super::{Backend, BackendOutcome, Events, Failure, Seat, Turn, TurnVerdict, Why};
use crate::file::Script;

/// A scripted agent.
#[derive(Debug)]
pub struct Mock {
    seat: Seat,
    script: Script,
}

impl Mock {
    pub fn new(script: &Script, seat: &Seat) -> Mock {
        Mock { seat: seat.clone(), script: script.clone() }
    }

    async fn play(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        let mut mock_turn = MockTurn::begin(&self.seat, turn, events);
        let verdict = match self.perform(&mut mock_turn).await {
            Ok(()) => TurnVerdict::Done { said: mock_turn.said.take(), worked: mock_turn.worked },
            Err(failure) => TurnVerdict::Failed(failure),
        };
        BackendOutcome { verdict, conversation: None, usage: mock_turn.usage, transcript: mock_turn.transcript.take() }
    }

    /// Takes a turn of the script and carries it out.
    async fn perform(&self, mock_turn: &mut MockTurn<'_>) -> Result<(), Failure> {
        let mut progress = ScriptProgress::load(&self.seat);
        let chosen = progress.take(&self.script, mock_turn.turn);
        // Saved before any effect: a repetition after a crash must know which turn it was.
        progress.save(&self.seat).map_err(|error| {
            fault(format!("cannot save the progress of the script: {error}")).hint("check whether the disk is full")
        })?;
        let (nth, number) = match chosen {
            ScriptStep::Turn { nth, number } => (nth, number),
            ScriptStep::Nothing => {
                mock_turn.worked = true;
                return Ok(());
            }
            ScriptStep::Failure => return Err(fault("the script has no further turn")),
        };
        mock_turn.number = number;
        let actions = self.script.turns.get(nth).map(|turn| turn.actions.as_slice()).unwrap_or_default();
        for (at, action) in actions.iter().enumerate() {
            mock_turn.perform(at, &action.value, &mut progress).await?;
        }
        Ok(())
    }
}

impl Backend for Mock {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.play(turn, events))
    }

    fn account(&self) -> String {
        "scripts".to_owned()
    }

    fn reads_prompts(&self) -> bool {
        false
    }
}

fn fault(reason: impl Into<String>) -> Failure {
    Failure { why: Why::Fault, reason: reason.into(), hint: None }
}
