//! The progress of a script: its used turns, the last taken one, and the results of calls. Kept in the agent's state folder for
//! one generation of its team.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Seat;
use crate::backend::{Turn, WakingMessage};
use crate::file::{self, Script, Then, Times, When};

const FILE: &str = "script.json";

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct ScriptProgress {
    generation: u64,
    /// Number of taken script turns in all.
    taken: u64,
    /// How often each turn was taken since the script started or was repeated.
    used: Vec<u64>,
    last: Option<TakenTurn>,
    /// Results of calls, by the name given in the script.
    pub(super) got: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TakenTurn {
    /// The id of the agent's turn.
    turn: String,
    nth: usize,
    number: u64,
}

/// The part of the script for a turn of the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScriptStep {
    Turn {
        nth: usize,
        /// The number of the taken turn; a repetition gets the same one.
        number: u64,
    },
    /// The script has nothing more to do.
    Nothing,
    Failure,
}

impl ScriptProgress {
    /// Loads the progress, or starts from the beginning in a new generation of the team.
    pub(super) fn load(seat: &Seat) -> ScriptProgress {
        let noted =
            std::fs::read(path(seat)).ok().and_then(|bytes| serde_json::from_slice::<ScriptProgress>(&bytes).ok());
        noted
            .filter(|noted| noted.generation == seat.generation)
            .unwrap_or_else(|| ScriptProgress { generation: seat.generation, ..ScriptProgress::default() })
    }

    /// Replaces the file atomically.
    pub(super) fn save(&self, seat: &Seat) -> io::Result<()> {
        let (path, new) = (path(seat), seat.state.join(format!("{FILE}.new")));
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, path)
    }

    /// Takes a script turn: the previous one if the agent's turn repeats it, otherwise the first unused one that matches.
    pub(super) fn take(&mut self, script: &Script, turn: &Turn) -> ScriptStep {
        self.used.resize(script.turns.len(), 0);
        let before = self.last.as_ref().filter(|last| turn.repeats.contains(&last.turn)).cloned();
        if let Some(TakenTurn { nth, number, .. }) = before {
            self.last = Some(TakenTurn { turn: turn.id.clone(), nth, number });
            return ScriptStep::Turn { nth, number };
        }
        let mut nth = self.first(script, &turn.inbox);
        if nth.is_none() && script.then == Then::Repeat {
            self.used.fill(0);
            nth = self.first(script, &turn.inbox);
        }
        let Some(nth) = nth else {
            return if script.then == Then::Fail { ScriptStep::Failure } else { ScriptStep::Nothing };
        };
        self.used[nth] += 1;
        self.taken += 1;
        self.last = Some(TakenTurn { turn: turn.id.clone(), nth, number: self.taken });
        ScriptStep::Turn { nth, number: self.taken }
    }

    fn first(&self, script: &Script, inbox: &[WakingMessage]) -> Option<usize> {
        let is_left = |(turn, used): &(&file::ScriptTurn, &u64)| match turn.times {
            Times::Count(times) => **used < times,
            Times::Always => true,
        };
        let fits = |turn: &file::ScriptTurn| {
            turn.when.as_ref().is_none_or(|when| inbox.iter().any(|message| matches(when, message)))
        };
        script.turns.iter().zip(&self.used).position(|pair| is_left(&pair) && fits(pair.0))
    }
}

/// Whether a message meets a condition.
fn matches(when: &When, message: &WakingMessage) -> bool {
    let from = when.from.as_ref().is_none_or(|from| from.value == message.from);
    let text = when.text.as_ref().is_none_or(|text| message.text.to_lowercase().contains(&text.to_lowercase()));
    from && text
}

fn path(seat: &Seat) -> PathBuf {
    seat.state.join(FILE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::testing::agent;

    fn script(text: &str) -> Script {
        match agent(&format!("backend: mock\nscript: {text}")).backend {
            file::Backend::Mock { script } => script,
            other => panic!("{other:?}"),
        }
    }

    fn turn(id: &str, repeats: Option<&str>, said: &str) -> Turn {
        Turn {
            id: id.to_owned(),
            attempt: 1,
            repeats: repeats.into_iter().map(str::to_owned).collect(),
            system: String::new(),
            prompt: String::new(),
            inbox: vec![WakingMessage { id: "m".into(), from: "system".into(), text: said.into() }],
            conversation: None,
            timeout: Duration::from_secs(1),
            cancel: CancellationToken::new(),
        }
    }

    fn taken(script: &Script, said: &[&str]) -> Vec<Option<usize>> {
        let mut progress = ScriptProgress::default();
        let nth = |chosen| match chosen {
            ScriptStep::Turn { nth, .. } => Some(nth),
            ScriptStep::Nothing => None,
            ScriptStep::Failure => Some(usize::MAX),
        };
        said.iter().map(|said| nth(progress.take(script, &turn("t", None, said)))).collect()
    }

    #[test]
    fn first_unused_turn_that_matches_is_taken() {
        let of = |text: &str, said: &[&str]| taken(&script(text), said);
        assert_eq!(of("[{say: a}, {say: b}]", &["", "", ""]), [Some(0), Some(1), None]);
        assert_eq!(of("[{say: a, times: 2}, {say: b}]", &["", "", ""]), [Some(0), Some(0), Some(1)]);
        assert_eq!(
            of("[{when: FIX, say: a}, {say: b, times: always}]", &["x", "please fix", "fix"]),
            [Some(1), Some(0), Some(1)]
        );
        assert_eq!(of("[{when: {from: system, text: x}, say: a}]", &["y", "x"]), [None, Some(0)]);
        assert_eq!(of("[{when: {from: person:ada}, say: a}]", &["x"]), [None]);
        assert_eq!(of("{turns: [{say: a}, {say: b}], then: repeat}", &["", "", ""]), [Some(0), Some(1), Some(0)]);
        assert_eq!(of("{turns: [{say: a}], then: fail}", &["", ""]), [Some(0), Some(usize::MAX)]);
        assert_eq!(of("{turns: [{when: x, say: a}], then: repeat}", &["y"]), [None]);
    }

    #[test]
    fn repeated_turn_after_a_crash_takes_the_same_script_turn() {
        let script = script("[{say: a}, {say: b}]");
        let mut progress = ScriptProgress::default();
        let first = progress.take(&script, &turn("turn_1", None, ""));
        assert_eq!(first, ScriptStep::Turn { nth: 0, number: 1 });
        let stored = serde_json::to_vec(&progress).unwrap();
        let mut later: ScriptProgress = serde_json::from_slice(&stored).unwrap();
        assert_eq!(later.take(&script, &turn("turn_2", Some("turn_1"), "")), first);
        assert_eq!(later.take(&script, &turn("turn_3", Some("turn_2"), "")), first, "and again");
        assert_eq!(later.take(&script, &turn("turn_4", Some("turn_1"), "")), ScriptStep::Turn { nth: 1, number: 2 });
    }
}
