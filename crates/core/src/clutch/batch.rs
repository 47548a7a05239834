//! Several messages at once: an array of them, or one on each line. All are good or none is taken.

use serde_json::value::RawValue;

use super::place::Place;
use super::{Envelope, Faults, json};
use crate::kernel::limit;
use crate::kernel::parse::FaultCode;

/// How messages lie in what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One object, or an array of them.
    Json,
    /// An object on each line; empty lines are nothing.
    Lines,
    /// Whichever it looks like.
    Either,
}

impl Shape {
    /// By the content type, whatever parameters it has; nothing if messages are not written so.
    pub fn of_content_type(content_type: &str) -> Option<Shape> {
        let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media.as_str() {
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/json-lines" => Some(Shape::Lines),
            "application/json" => Some(Shape::Json),
            media if media.starts_with("application/") && media.ends_with("+json") => Some(Shape::Json),
            _ => None,
        }
    }
}

/// A message, with its bytes as they were sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Received<'a> {
    pub envelope: Envelope,
    pub body: &'a [u8],
    /// Its place among those that were sent; none if it was sent as it is.
    pub index: Option<usize>,
}

/// All messages of what was sent, at least one. A fault's pointer begins with the index of its message unless a single
/// object was sent.
pub fn read_batch(bytes: &[u8], shape: Shape) -> Result<Vec<Received<'_>>, Faults> {
    let text = json::utf8(bytes, &Place::Root)?;
    match (shape, text.trim_start_matches(SPACE).chars().next()) {
        (_, None) => Err(Faults::of(
            FaultCode::Empty,
            &Place::Root,
            "nothing was sent: expected an envelope, an array of them, or one on each line",
        )),
        (Shape::Lines, _) => lines(text),
        (Shape::Json | Shape::Either, Some('[')) => array(text),
        (Shape::Either, _) if has_more_lines(text) => lines(text),
        (Shape::Json | Shape::Either, _) => one(text),
    }
}

/// What JSON calls white space.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

fn one(text: &str) -> Result<Vec<Received<'_>>, Faults> {
    let body = text.trim_matches(SPACE).as_bytes();
    Envelope::read(body).map(|envelope| vec![Received { envelope, body, index: None }])
}

fn array(text: &str) -> Result<Vec<Received<'_>>, Faults> {
    let entries: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| json::malformed(&error, &Place::Root))?;
    all(entries.into_iter().map(RawValue::get))
}

fn lines(text: &str) -> Result<Vec<Received<'_>>, Faults> {
    all(text.split('\n').map(|line| line.trim_matches(SPACE)).filter(|line| !line.is_empty()))
}

/// Whether the first line is a whole value and another follows it.
fn has_more_lines(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first_is_line = values.next().is_some_and(|first| first.is_ok_and(|first| !first.get().contains('\n')));
    first_is_line && text[values.byte_offset()..].trim_matches(SPACE).starts_with('{')
}

fn all<'a>(bodies: impl Iterator<Item = &'a str>) -> Result<Vec<Received<'a>>, Faults> {
    let (mut messages, mut faults) = (Vec::new(), Faults::default());
    for (index, body) in bodies.enumerate() {
        if index == limit::BATCH_ENVELOPES {
            let message = format!("more than {} messages at once; send the others after these", limit::BATCH_ENVELOPES);
            faults.add(FaultCode::TooLarge, &Place::Root, message);
            break;
        }
        match Envelope::read_at(body.as_bytes(), &Place::Entry(&Place::Root, index)) {
            Ok(envelope) => messages.push(Received { envelope, body: body.as_bytes(), index: Some(index) }),
            Err(found) => faults.append(found),
        }
    }
    if faults.is_empty() && messages.is_empty() {
        faults.add(FaultCode::Empty, &Place::Root, "the array is empty: expected at least one envelope");
    }
    if faults.is_empty() { Ok(messages) } else { Err(faults) }
}
