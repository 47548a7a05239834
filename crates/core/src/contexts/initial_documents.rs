//! The documents that an instance begins with.

use crate::documents;
use crate::kernel::instance::Instance;
use crate::model::context_settings::{Provider, TeamContext, keys as context_keys};
use crate::model::document::DocumentId;
use crate::model::{Key, ReadItem, ReadSet, Undecided, View};
use crate::traits::AnyEvent;

/// What an instance's documents depend on.
pub(crate) fn read_set(instance: &Instance) -> ReadSet {
    context_keys(instance).into_iter().map(ReadItem::from).collect()
}

/// The facts that make the documents that are configured for an instance: empty, and only those that never were. What
/// somebody wrote stays as it is, and what somebody deleted stays deleted.
pub(crate) fn documents(view: &View, instance: &Instance, context: &TeamContext) -> Result<Vec<AnyEvent>, Undecided> {
    if context.provider == Provider::Off {
        return Ok(vec![]);
    }
    let mut ids: Vec<DocumentId> = Vec::new();
    for path in context.documents.iter().filter(|path| !context.is_channel(path)) {
        let id = DocumentId::new(instance.run(), path.clone());
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    view.ensure_loaded(ids.iter().map(|id| Key::Document(id.clone()).into()).collect())?;
    let mut facts = Vec::new();
    for id in ids {
        if view.document(&id)?.is_none() {
            facts.push(documents::begun(id));
        }
    }
    Ok(facts)
}
