//! The schemas that are there from the beginning.

use crate::model::payload_type::PayloadType;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuiltIn {
    pub payload_type: &'static str,
    pub text: &'static str,
}

macro_rules! built_in {
    ($($payload_type:literal),+ $(,)?) => {
        pub const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            payload_type: $payload_type,
            text: include_str!(concat!("builtin/", $payload_type, ".json")),
        }),+];
    };
}

built_in!(
    "code.output.v1",
    "code.review.v1",
    "research.query.v1",
    "research.sources.v1",
    "research.summary.v1",
    "review.feedback.v1",
);

/// The text of a schema that is there from the beginning.
pub fn built_in(payload_type: &PayloadType) -> Option<&'static str> {
    BUILT_IN.iter().find(|built_in| built_in.payload_type == payload_type.as_str()).map(|built_in| built_in.text)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_has_a_name_that_payloads_can_have_and_requires_what_the_protocol_says() {
        let required = |payload_type: &str| -> Vec<String> {
            let schema: Value =
                serde_json::from_str(built_in(&PayloadType::parse(payload_type).unwrap()).unwrap()).unwrap();
            serde_json::from_value(schema["required"].clone()).unwrap()
        };
        for (payload_type, fields) in [
            ("research.query.v1", vec!["query"]),
            ("research.summary.v1", vec!["findings", "citations"]),
            ("research.sources.v1", vec!["sources", "relevance_scores"]),
            ("code.output.v1", vec!["files", "language", "tests_passed"]),
            ("code.review.v1", vec!["findings", "severity"]),
            ("review.feedback.v1", vec!["decision", "comments", "blocking_issues"]),
        ] {
            assert_eq!(required(payload_type), fields, "{payload_type}");
        }
        assert_eq!(BUILT_IN.len(), 6);
        assert!(BUILT_IN.is_sorted_by_key(|built_in| built_in.payload_type), "they are listed in this order");
    }
}
