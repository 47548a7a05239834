//! What holds for any bytes at all. `cargo xtask fuzz` calls it without end, and a test over the corpus and what becomes of it.

use rookery_core::clutch::canon::canonical;
use rookery_core::clutch::{Envelope, Faults, Shape, read_batch};
use rookery_core::kernel::limit;
use rookery_core::kernel::parse::FaultCode;
use serde_json::Value;

/// Panics if the reader contradicts itself or `serde_json`.
pub fn fuzz_one(data: &[u8]) {
    match Envelope::read(data) {
        Ok(envelope) => check_envelope(&envelope),
        Err(faults) => check_faults(data, &faults),
    }
    for shape in [Shape::Json, Shape::Lines, Shape::Either] {
        match read_batch(data, shape) {
            Ok(messages) => {
                assert!((1..=limit::BATCH_ENVELOPES).contains(&messages.len()));
                for message in messages {
                    assert_eq!(Envelope::read(message.body).as_ref(), Ok(&message.envelope));
                }
            }
            Err(faults) => assert!(faults.first().is_some(), "refused without a reason"),
        }
    }
}

/// Written in another way, it is the same message.
fn check_envelope(envelope: &Envelope) {
    let document = Value::Object(envelope.document().clone());
    let form = canonical(&document);
    if let Some(again) = read_if_it_fits(&form) {
        assert_eq!(again.sameness(), envelope.sameness());
        assert_eq!(again.command_hash(), envelope.command_hash());
        assert_eq!(again.signing_form(), envelope.signing_form());
        assert_eq!(canonical(&Value::Object(again.document().clone())), form);
        assert_eq!((&again.id, &again.to, &again.message_type), (&envelope.id, &envelope.to, &envelope.message_type));
    }
    if let Some(shown) = read_if_it_fits(envelope.shown().to_string().as_bytes()) {
        assert_eq!((shown.legacy, &shown.message_type), (None, &envelope.message_type));
        assert_eq!((&shown.domain, &shown.payload_type), (&envelope.domain, &envelope.payload_type));
    }
    serde_json::from_slice::<Value>(&envelope.signing_form()).expect("the signing form is JSON");
}

/// Large numbers, and what a translation adds, may take more room than they were sent in.
fn read_if_it_fits(bytes: &[u8]) -> Option<Envelope> {
    (bytes.len() <= limit::ENVELOPE_BYTES).then(|| Envelope::read(bytes).expect("a good message stays one"))
}

/// What is called malformed is no JSON to others either, and every other fault is somewhere in the message.
fn check_faults(data: &[u8], faults: &Faults) {
    let has = |code: FaultCode| faults.iter().any(|fault| fault.code == code);
    assert!(faults.first().is_some(), "refused without a reason");
    if has(FaultCode::TooDeep) || data.len() > limit::ENVELOPE_BYTES {
        return;
    }
    let read = serde_json::from_slice::<Value>(data);
    assert_eq!(has(FaultCode::MalformedJson), read.is_err(), "{faults}");
    if let Ok(value) = read
        && !has(FaultCode::DuplicateKey)
    {
        for fault in faults {
            let parent = fault.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            assert!(value.pointer(&fault.pointer).or(value.pointer(parent)).is_some(), "{fault}");
        }
    }
}
