//! `rookery envelope check`

use std::path::Path;

use rookery_core::clutch::signature::signed_by;
use rookery_core::clutch::{Faults, Received, Shape, read_batch, take_in};
use rookery_core::messages::StormGuard;
use rookery_core::model::capabilities::Card;
use rookery_core::{Code, Rejection};
use serde_json::json;

use super::read;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::TextStyle;

pub(super) fn run(context: &Context, file: &Path, card: Option<&Path>) -> anyhow::Result<()> {
    let bytes = read(file)?;
    let found = read_batch(&bytes, Shape::Either)
        .and_then(|received| take_in(&received, StormGuard::default()).map(|_| received));
    let received = match found {
        Ok(received) => received,
        Err(faults) => return tell(context, &faults),
    };
    if let Some(card) = card {
        let card = Card::parse(&std::fs::read(card)?).map_err(|faults| wrong(&faults))?;
        for one in &received {
            signed(one, &card)?;
        }
    }
    let vouched = if card.is_some() { ", signed by a key of the card" } else { "" };
    let text = format!(
        "{} right{vouched}",
        if received.len() == 1 { "it is".into() } else { format!("all {} are", received.len()) }
    );
    context.out.done(&json!({ "envelopes": received.len(), "faults": [] }), &text)
}

/// Every fault on a line of its own, and that there are some.
fn tell(context: &Context, faults: &Faults) -> anyhow::Result<()> {
    if context.out.format() == crate::cli::output::Format::Json {
        let told: Vec<_> = faults.iter().collect();
        context.out.json(&json!({ "faults": told, "omitted": faults.left_out() }))?;
    } else {
        for fault in faults {
            let place = if fault.pointer.is_empty() { "(all of it)" } else { fault.pointer.as_str() };
            context.out.line(&format!("{}  {place}  {}", fault.code, fault.message), TextStyle::Bad)?;
        }
    }
    let count = faults.iter().count() + faults.left_out();
    Err(Failure::new(format!("{count} {} wrong", if count == 1 { "thing is" } else { "things are" }))
        .hint("`rookery schema envelope` describes what an envelope can say")
        .into())
}

pub(super) fn wrong(faults: &Faults) -> anyhow::Error {
    Failure::new(faults.to_string()).hint("`rookery envelope check` tells all that is wrong").into()
}

fn signed(one: &Received<'_>, card: &Card) -> anyhow::Result<()> {
    let sender = one.envelope.from.actor.agent();
    let own = if sender == Some(&card.agent_id) { card.security.keys.as_slice() } else { &[] };
    signed_by(&one.envelope, own).map(|_| ()).map_err(|refusal| {
        let Rejection { code, message, hint, pointer, .. } = refusal;
        let place = one.index.map(|index| format!("/{index}")).unwrap_or_default();
        let at = format!("{place}{}", pointer.unwrap_or_default());
        Failure::new(format!("{} at {at}: {message}", Code::as_str(code))).hint(hint.unwrap_or_default()).into()
    })
}
