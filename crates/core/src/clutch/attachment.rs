//! What a message refers to beside its payload.

use super::form::{Fields, Read};
use crate::kernel::parse::{Flaw, quoted};
use crate::kernel::{limit, parse};

pub(super) const ARTIFACT: &str = "artifact:";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// `artifact_ref` for what the artifact store holds; others are carried through.
    pub kind: String,
    /// As it was written, `artifact:…` in front.
    pub reference: String,
}

impl Attachment {
    pub const ARTIFACT_REF: &str = "artifact_ref";

    /// The id of the artifact that it names, without `artifact:`.
    pub fn artifact(&self) -> Option<&str> {
        self.reference.strip_prefix(ARTIFACT).filter(|_| self.kind == Attachment::ARTIFACT_REF)
    }
}

pub(super) fn read(fields: &mut Fields<'_>) -> Read<Attachment> {
    let kind = fields.required("kind", "a string, like 'artifact_ref'", parse::name(limit::NAME_BYTES));
    let reference = fields.required("ref", "a string, like 'artifact:report_456'", parse::text(limit::PATH_BYTES));
    let (kind, reference) = (kind?, reference?);
    let named = reference.strip_prefix(ARTIFACT);
    if kind == Attachment::ARTIFACT_REF && named.is_none_or(|id| parse::check_name(id, limit::NAME_BYTES).is_err()) {
        let message = format!("{} must be 'artifact:' and an id, like 'artifact:report_456'", quoted(reference));
        fields.fault("ref", Flaw::invalid(message));
        return None;
    }
    if reference.is_empty() {
        fields.fault("ref", Flaw::invalid("must not be empty"));
        return None;
    }
    Some(Attachment { kind: kind.to_owned(), reference: reference.to_owned() })
}
