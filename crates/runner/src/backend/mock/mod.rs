//! Agents that do what a script says. What the script has them do with the team they do from here, as the agent and by the same
//! tools that any other agent has; what a program can do wrong is done by a real one ([`misbehave`]), so that it has to be
//! dealt with as in earnest.
//!
//! The same script does the same every time. Which turns of it are used up outlasts the runner ([`progress`]), and a turn that
//! is repeated because the runner died during it makes the same calls under the same keys, so that each is done once.

pub mod misbehave;
mod progress;
mod turn;
mod values;

use futures_util::future::BoxFuture;

use self::progress::{Chosen, Progress};
use self::turn::Act;
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
        let mut act = Act::begin(&self.seat, turn, events);
        let verdict = match self.perform(&mut act).await {
            Ok(()) => TurnVerdict::Done { said: act.said.take(), worked: act.worked },
            Err(failure) => TurnVerdict::Failed(failure),
        };
        BackendOutcome { verdict, conversation: None, usage: act.usage, transcript: act.transcript.take() }
    }

    /// Takes a turn of the script and does what it says.
    async fn perform(&self, act: &mut Act<'_>) -> Result<(), Failure> {
        let mut progress = Progress::load(&self.seat);
        let chosen = progress.take(&self.script, act.turn);
        // Before anything is done: whoever comes after a crash must know which turn it was.
        progress.save(&self.seat).map_err(|error| {
            fault(format!("cannot note how far the script is: {error}")).hint("see whether the disk is full")
        })?;
        let (nth, number) = match chosen {
            Chosen::Turn { nth, number } => (nth, number),
            Chosen::Nothing => {
                act.worked = true;
                return Ok(());
            }
            Chosen::Failure => return Err(fault("the script has no further turn")),
        };
        act.number = number;
        let actions = self.script.turns.get(nth).map(|turn| turn.actions.as_slice()).unwrap_or_default();
        for (at, action) in actions.iter().enumerate() {
            act.perform(at, &action.value, &mut progress).await?;
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
