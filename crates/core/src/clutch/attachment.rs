//! What a message refers to beside its payload.

use super::form::{Fields, Read};
use crate::kernel::parse::{Flaw, quoted};
use crate::kernel::{limit, parse};

pub(super) const ARTIFACT: &str = "artifact:";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// `artifact_ref` for what the artifact store holds; others are carried through.
    pub kind: String,
    /// The `ref` of an artifact as it was written, `artifact:…` in front. Other kinds may say anything.
    pub reference: Option<String>,
}

impl Attachment {
    pub const ARTIFACT_REF: &str = "artifact_ref";

    /// The id of the artifact that it names, without `artifact:`.
    pub fn artifact(&self) -> Option<&str> {
        self.reference.as_deref()?.strip_prefix(ARTIFACT)
    }
}

pub(super) fn read(fields: &mut Fields<'_>) -> Read<Attachment> {
    let kind = fields.required("kind", "a string, like 'artifact_ref'", parse::name(limit::NAME_BYTES));
    let kind = kind?.to_owned();
    if kind != Attachment::ARTIFACT_REF {
        return Some(Attachment { kind, reference: None });
    }
    let reference = fields.required("ref", "a string, like 'artifact:report_456'", parse::text(limit::PATH_BYTES))?;
    let named = reference.strip_prefix(ARTIFACT);
    if named.is_none_or(|id| parse::check_name(id, limit::NAME_BYTES).is_err()) {
        let message = format!("{} must be 'artifact:' and an id, like 'artifact:report_456'", quoted(reference));
        fields.fault("ref", Flaw::invalid(message));
        return None;
    }
    Some(Attachment { kind, reference: Some(reference.to_owned()) })
}
