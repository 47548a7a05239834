//! How far a script is: which of its turns are used up, what was taken last, and what calls returned. Kept in the agent's
//! state folder, for one start of its team.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Seat;
use crate::backend::{Letter, Turn};
use crate::file::{self, Script, Then, Times, When};

const FILE: &str = "script.json";

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    generation: u64,
    /// How many turns of the script were taken in all.
    taken: u64,
    /// How often each was taken, since the script began or began again.
    used: Vec<u64>,
    last: Option<Taken>,
    /// What calls returned, by the name that it was kept as.
    pub(super) got: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Taken {
    /// The agent's turn.
    turn: String,
    nth: usize,
    number: u64,
}

/// What a script has for a turn of the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chosen {
    Turn {
        nth: usize,
        /// Which taking of a turn it is; the same again if it is repeated.
        number: u64,
    },
    /// It takes note, and does nothing.
    Nothing,
    Failure,
}

impl Progress {
    /// As it was noted, unless that was for another start of the team.
    pub(super) fn load(seat: &Seat) -> Progress {
        let noted = std::fs::read(path(seat)).ok().and_then(|bytes| serde_json::from_slice::<Progress>(&bytes).ok());
        noted
            .filter(|noted| noted.generation == seat.generation)
            .unwrap_or_else(|| Progress { generation: seat.generation, ..Progress::default() })
    }

    /// Whole or not at all.
    pub(super) fn save(&self, seat: &Seat) -> io::Result<()> {
        let (path, new) = (path(seat), seat.state.join(format!("{FILE}.new")));
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, path)
    }

    /// Takes a turn of the script: the one of before if that is repeated, else the first that is not used up and fits.
    pub(super) fn take(&mut self, script: &Script, turn: &Turn) -> Chosen {
        self.used.resize(script.turns.len(), 0);
        let before = self.last.as_ref().filter(|last| turn.repeats.contains(&last.turn)).cloned();
        if let Some(Taken { nth, number, .. }) = before {
            self.last = Some(Taken { turn: turn.id.clone(), nth, number });
            return Chosen::Turn { nth, number };
        }
        let mut nth = self.first(script, &turn.inbox);
        if nth.is_none() && script.then == Then::Repeat {
            self.used.fill(0);
            nth = self.first(script, &turn.inbox);
        }
        let Some(nth) = nth else {
            return if script.then == Then::Fail { Chosen::Failure } else { Chosen::Nothing };
        };
        self.used[nth] += 1;
        self.taken += 1;
        self.last = Some(Taken { turn: turn.id.clone(), nth, number: self.taken });
        Chosen::Turn { nth, number: self.taken }
    }

    fn first(&self, script: &Script, inbox: &[Letter]) -> Option<usize> {
        let is_left = |(turn, used): &(&file::Turn, &u64)| match turn.times {
            Times::Count(times) => **used < times,
            Times::Always => true,
        };
        let fits =
            |turn: &file::Turn| turn.when.as_ref().is_none_or(|when| inbox.iter().any(|letter| is(when, letter)));
        script.turns.iter().zip(&self.used).position(|pair| is_left(&pair) && fits(pair.0))
    }
}

/// Whether a message is as a condition wants it.
fn is(when: &When, letter: &Letter) -> bool {
    let from = when.from.as_ref().is_none_or(|from| from.value == letter.from);
    let text = when.text.as_ref().is_none_or(|text| letter.text.to_lowercase().contains(&text.to_lowercase()));
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
            inbox: vec![Letter { id: "m".into(), from: "system".into(), text: said.into() }],
            conversation: None,
            timeout: Duration::from_secs(1),
            cancel: CancellationToken::new(),
        }
    }

    fn taken(script: &Script, said: &[&str]) -> Vec<Option<usize>> {
        let mut progress = Progress::default();
        let nth = |chosen| match chosen {
            Chosen::Turn { nth, .. } => Some(nth),
            Chosen::Nothing => None,
            Chosen::Failure => Some(usize::MAX),
        };
        said.iter().map(|said| nth(progress.take(script, &turn("t", None, said)))).collect()
    }

    #[test]
    fn the_first_that_is_left_and_fits_is_taken() {
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
    fn what_is_repeated_is_the_same_turn_again() {
        let script = script("[{say: a}, {say: b}]");
        let mut progress = Progress::default();
        let first = progress.take(&script, &turn("turn_1", None, ""));
        assert_eq!(first, Chosen::Turn { nth: 0, number: 1 });
        let told = serde_json::to_vec(&progress).unwrap();
        let mut later: Progress = serde_json::from_slice(&told).unwrap();
        assert_eq!(later.take(&script, &turn("turn_2", Some("turn_1"), "")), first);
        assert_eq!(later.take(&script, &turn("turn_3", Some("turn_2"), "")), first, "and again");
        assert_eq!(later.take(&script, &turn("turn_4", Some("turn_1"), "")), Chosen::Turn { nth: 1, number: 2 });
    }
}
