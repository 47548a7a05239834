//! Upcasting: rewriting the JSON of an event from the version that wrote it to the newest version.
//!
//! Every entry of [`UPCASTERS`] takes one kind from one version to the next, so that a chain of them reads a log of any
//! age. Rows of the log stay as they were written.

use std::ops::Range;

use serde_json::Value;

/// Rewrites events of one kind from version `from` to version `from + 1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upcaster {
    pub(crate) kind: &'static str,
    pub(crate) from: u32,
    pub(crate) rewrite: fn(Value) -> Value,
}

/// The upcasters of all kinds that have more than one version.
pub(crate) const UPCASTERS: &[Upcaster] = &[];

/// Rewrites an event step by step through a range of versions. Returns `None` if a step has no upcaster.
pub(crate) fn upcast(upcasters: &[Upcaster], kind: &str, mut versions: Range<u32>, event: Value) -> Option<Value> {
    versions.try_fold(event, |event, version| {
        let step = upcasters.iter().find(|upcaster| upcaster.kind == kind && upcaster.from == version)?;
        Some((step.rewrite)(event))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Version 2 renamed `who` to `agent`, version 3 added `attempt`.
    const THREE_VERSIONS: [Upcaster; 2] = [
        Upcaster { kind: "test.happened", from: 1, rewrite: |event| json!({ "agent": event["who"] }) },
        Upcaster { kind: "test.happened", from: 2, rewrite: |event| json!({ "agent": event["agent"], "attempt": 1 }) },
    ];

    #[test]
    fn upcast_runs_all_steps_in_order() {
        let newest = json!({ "agent": "a", "attempt": 1 });
        let upcast = |versions, event| upcast(&THREE_VERSIONS, "test.happened", versions, event);
        assert_eq!(upcast(1..3, json!({ "who": "a" })), Some(newest.clone()));
        assert_eq!(upcast(2..3, json!({ "agent": "a" })), Some(newest.clone()));
        assert_eq!(upcast(3..3, newest.clone()), Some(newest));
    }

    #[test]
    fn upcast_without_an_upcaster_for_a_step_is_none() {
        assert_eq!(upcast(&THREE_VERSIONS, "test.happened", 0..3, json!({})), None);
        assert_eq!(upcast(&THREE_VERSIONS, "test.happened", 2..4, json!({})), None);
        assert_eq!(upcast(&THREE_VERSIONS, "test.other", 1..2, json!({})), None);
    }
}
