//! The checking process: checks payloads against schemas for the daemon, within limits that it sets for itself.
//!
//! It prints [`READY`] first. A request is two lines: the schema's text as a JSON string, and the payload, or an empty line to
//! check the schema alone. The answer is a [`CheckVerdict`] and, if the payload does not match, a second line with the
//! violations. The process ends with its input, and when a request takes too long, also if the daemon that would have killed
//! it is gone.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use rookery_core::model::violation::Violation;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits::{ADDRESS_SPACE_BYTES, ANSWER_BYTES, COMPILED, LISTING_TIMEOUT, STACK_BYTES, VERDICT_TIMEOUT};
use super::{Compiled, SchemaFault};

/// The first line of a checking process, printed after it has set its limits.
pub(super) const READY: &str = "ready";

/// The first line of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckVerdict {
    /// The schema cannot be used.
    Unusable(SchemaFault),
    /// The schema is fine, and the payload, if there is one, matches it.
    Valid,
    /// The payload does not match. The violations follow.
    Invalid,
}

/// Answers requests on standard input until it ends. Run by the hidden command that the daemon starts; changes the limits of
/// the whole process.
pub fn serve_checks() -> io::Result<()> {
    restrict_process()?;
    write_line(&mut io::stdout().lock(), &READY)?;
    let (progress, steps) = channel();
    let worker = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
    let worker = worker.spawn(move || answer_requests(io::stdin().lock(), io::stdout().lock(), &progress))?;
    // The first message starts a request, the second one ends it.
    while steps.recv().is_ok() {
        if steps.recv_timeout(VERDICT_TIMEOUT + LISTING_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the check took too long"));
        }
    }
    worker.join().unwrap_or_else(|_| Err(io::Error::other("the check panicked")))
}

/// Leaves this process no more memory than a check may have, and no way to write files.
fn restrict_process() -> io::Result<()> {
    let limits =
        [(Resource::As, ADDRESS_SPACE_BYTES), (Resource::Core, 0), (Resource::Fsize, 0)].map(|(resource, most)| {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(io::Error::from)
        });
    limits.into_iter().collect()
}

fn answer_requests(requests: impl BufRead, mut answers: impl Write, progress: &Sender<()>) -> io::Result<()> {
    let mut compiled = CompiledSchemas::default();
    let mut lines = requests.lines();
    while let (Some(schema), Some(payload)) = (lines.next().transpose()?, lines.next().transpose()?) {
        progress.send(()).ok();
        let schema: String = serde_json::from_str(&schema)?;
        let payload: Option<Value> = if payload.is_empty() { None } else { Some(serde_json::from_str(&payload)?) };
        answer(&mut compiled, schema, payload.as_ref(), &mut answers)?;
        progress.send(()).ok();
    }
    Ok(())
}

fn answer(
    compiled: &mut CompiledSchemas,
    schema: String,
    payload: Option<&Value>,
    answers: &mut impl Write,
) -> io::Result<()> {
    let compiled = match compiled.get(schema) {
        Ok(compiled) => compiled,
        Err(fault) => return write_line(answers, &CheckVerdict::Unusable(fault)),
    };
    match payload.filter(|payload| !compiled.is_valid(payload)) {
        None => write_line(answers, &CheckVerdict::Valid),
        Some(payload) => {
            write_line(answers, &CheckVerdict::Invalid)?;
            write_line(answers, &shorten(compiled.violations(payload)))
        }
    }
}

fn write_line(to: &mut impl Write, answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// The first violations that fit into an answer, even if every character is escaped.
fn shorten(violations: Vec<Violation>) -> Vec<Violation> {
    let mut bytes = 0;
    let fits = |violation: &Violation| {
        bytes += 6 * (violation.pointer.len() + violation.message.len()) + 32;
        bytes < ANSWER_BYTES
    };
    violations.into_iter().take_while(fits).collect()
}

/// The schemas that were compiled last, by their text.
#[derive(Default)]
struct CompiledSchemas {
    by_text: BTreeMap<String, Compiled>,
}

impl CompiledSchemas {
    fn get(&mut self, text: String) -> Result<&Compiled, SchemaFault> {
        if !self.by_text.contains_key(&text) {
            let compiled = Compiled::of(&text)?;
            if self.by_text.len() >= COMPILED {
                self.by_text.clear();
            }
            self.by_text.insert(text.clone(), compiled);
        }
        self.by_text.get(&text).ok_or_else(|| SchemaFault::new("", "cannot be kept"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answers(requests: &str) -> Vec<Value> {
        let (progress, steps) = channel();
        let mut output = Vec::new();
        answer_requests(requests.as_bytes(), &mut output, &progress).unwrap();
        drop(steps);
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn checking_process_answers_each_request_in_order() {
        let schema = serde_json::to_string(r#"{"required": ["a"]}"#).unwrap();
        let faulty = serde_json::to_string("{").unwrap();
        let said = answers(&format!("{schema}\n\n{schema}\n{{\"a\":1}}\n{schema}\n{{}}\n{faulty}\n\n"));
        assert_eq!(said[..3], [json!("valid"), json!("valid"), json!("invalid")]);
        assert_eq!(said[3][0]["pointer"], "/payload/a");
        assert!(said[4]["unusable"]["message"].is_string(), "{said:?}");
        assert_eq!(said.len(), 5);
    }

    #[test]
    fn violations_that_exceed_an_answer_are_omitted() {
        let long = Violation { pointer: "x".repeat(100_000), message: "y".to_owned() };
        let left = shorten(vec![long; 100]);
        assert!(!left.is_empty() && serde_json::to_vec(&left).unwrap().len() < ANSWER_BYTES, "{}", left.len());
    }
}
