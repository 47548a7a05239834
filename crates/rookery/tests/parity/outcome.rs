//! The outcome of an act on one surface: its answer and the events that it appended, in normal form.

use serde_json::Value;

use crate::act::{Act, Call, Who};
use crate::answer::Answer;
use crate::drivers::clutch;
use crate::normalise::Normaliser;
use crate::scene::Scene;

/// Authors of events that the daemon appends by itself.
const DAEMON: [&str; 3] = ["system", "router", "watcher"];

#[derive(Debug)]
pub struct Outcome {
    /// The surface's own form of the answer.
    pub form: String,
    pub verdict: Verdict,
    /// `kind by actor {payload}`, in log order.
    pub events: Vec<String>,
    /// The event that records the envelope of the act, in the same form; no surface but Clutch has one.
    pub carrier: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Done,
    Rejected {
        code: Option<String>,
        holder: Option<String>,
        /// An agent that only the text names.
        named: Option<String>,
    },
}

impl Verdict {
    /// A form without a code agrees with any code, if all else is equal.
    fn agrees(&self, other: &Verdict) -> bool {
        match (self, other) {
            (Verdict::Done, Verdict::Done) => true,
            (
                Verdict::Rejected { code, holder, named },
                Verdict::Rejected { code: other_code, holder: other_holder, named: other_named },
            ) => {
                let same_code = code.is_none() || other_code.is_none() || code == other_code;
                same_code && holder == other_holder && named == other_named
            }
            (Verdict::Done, Verdict::Rejected { .. }) | (Verdict::Rejected { .. }, Verdict::Done) => false,
        }
    }
}

impl Outcome {
    /// `rows` are the rows of the log between the positions before and after the act.
    pub fn new(act: &Act, scene: &Scene, answer: Answer, rows: &[Value]) -> Outcome {
        let mut normaliser = Normaliser::new(scene);
        let rows: Vec<&Value> = rows.iter().filter(|row| belongs(row, scene)).collect();
        let carried = usize::from(starts_with_carrier(act, scene, &rows));
        let carrier = rows[..carried].first().map(|row| describe(row, &mut normaliser));
        let events = rows[carried..].iter().map(|row| describe(row, &mut normaliser)).collect();
        Outcome { form: answer.form.clone(), verdict: verdict(act, scene, answer, &mut normaliser), events, carrier }
    }

    pub fn agrees(&self, other: &Outcome) -> bool {
        self.verdict.agrees(&other.verdict) && self.events == other.events
    }
}

/// Whether a row is of the act, and not something that the daemon did by itself meanwhile, perhaps for an earlier scene.
fn belongs(row: &Value, scene: &Scene) -> bool {
    let actor = row["actor"].as_str().unwrap();
    !DAEMON.contains(&actor) && !scene.is_foreign(&row.to_string())
}

/// Whether the first row records the envelope of the act and the others are its effects. An envelope that is a message
/// itself may have no other row.
fn starts_with_carrier(act: &Act, scene: &Scene, rows: &[&Value]) -> bool {
    let id = clutch::message_id(scene);
    let mut are_of_envelope = rows.iter().map(|row| payload(row)["message"] == id.as_str());
    let is_first = are_of_envelope.next().unwrap_or(false);
    is_first && (!matches!(act.call, Call::Message(_)) || are_of_envelope.any(|is_of_envelope| is_of_envelope))
}

fn payload(row: &Value) -> &Value {
    row.get("event").or_else(|| row.get("fact")).unwrap()
}

fn describe(row: &Value, normaliser: &mut Normaliser<'_>) -> String {
    let mut payload = payload(row).clone();
    normaliser.value(&mut payload);
    let actor = normaliser.text(row["actor"].as_str().unwrap());
    format!("{} by {actor} {payload}", row["kind"].as_str().unwrap())
}

fn verdict(act: &Act, scene: &Scene, answer: Answer, normaliser: &mut Normaliser<'_>) -> Verdict {
    let Some(rejection) = answer.rejection else { return Verdict::Done };
    let others = [Who::Ada, Who::Ben].into_iter().filter(|who| *who != act.by).map(|who| scene.name(who));
    let holder = rejection.holder.map(|holder| normaliser.text(&holder));
    let named = others.filter(|_| holder.is_none()).find(|name| rejection.text.contains(name.as_str()));
    Verdict::Rejected { code: rejection.code, holder, named: named.map(|name| normaliser.text(&name)) }
}
