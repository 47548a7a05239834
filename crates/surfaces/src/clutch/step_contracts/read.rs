//! Reading the rules of a workflow: YAML without anchors, or JSON. What is not known is an error that says where it stands.

use rookery_core::contracts::DefineStepContracts;
use rookery_core::kernel::limit;
use rookery_core::model::contract::{ExpectedPayload, StepContract};
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;
use serde::Deserialize;
use serde_saphyr::options::MergeKeyPolicy;

use super::super::ClutchError;

/// What a workflow needs at most, many times over.
const YAML_NODES: usize = 1_000_000;
const YAML_DEPTH: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Yaml,
    Json,
}

impl Format {
    pub fn of(content_type: &str) -> Option<Format> {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Some(Format::Yaml),
            "application/json" => Some(Format::Json),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workflow: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    id: String,
    expects: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(rename = "type")]
    message_type: MessageType,
    payload_type: PayloadType,
    #[serde(default)]
    required: Vec<String>,
}

pub fn rules(bytes: &[u8], format: Format) -> Result<DefineStepContracts, ClutchError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ClutchError::invalid("", "the body is not UTF-8"))?;
    let File { workflow, steps } = match format {
        Format::Yaml => of_yaml(text)?,
        Format::Json => of_json(text)?,
    };
    let rule = |Step { id, expects: Expected { message_type, payload_type, required } }| StepContract {
        id,
        expects: ExpectedPayload { message_type, payload_type, required },
    };
    Ok(DefineStepContracts { workflow, rules: steps.into_iter().map(rule).collect() })
}

fn of_yaml(text: &str) -> Result<File, ClutchError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: YAML_DEPTH,
            max_nodes: YAML_NODES,
            max_total_scalar_bytes: limit::WORKFLOW_BYTES,
        },
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let mut track = serde_path_to_error::Track::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| {
        File::deserialize(serde_path_to_error::Deserializer::new(reader, &mut track))
    });
    read.map_err(|error| unreadable(&track.path(), &error.to_string()))
}

fn of_json(text: &str) -> Result<File, ClutchError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let file: File = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unreadable(error.path(), &error.inner().to_string()))?;
    reader.end().map_err(|error| ClutchError::invalid("", error.to_string()))?;
    Ok(file)
}

fn unreadable(path: &serde_path_to_error::Path, message: &str) -> ClutchError {
    let pointer: String = path.iter().map(|step| format!("/{step}").replace(['[', ']'], "")).collect();
    match path.iter().next() {
        Some(_) => ClutchError::invalid(&pointer, format!("{path}: {message}")),
        None => ClutchError::invalid("", message),
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    const GOOD: &str = "\
workflow: product-research
steps:
  - id: research
    expects:
      type: task.result
      payload_type: research.summary.v1
      required:
        - findings
        - citations
";

    #[track_caller]
    fn refused(text: &str, format: Format) -> String {
        let error = rules(text.as_bytes(), format).unwrap_err();
        assert_eq!(error.clone().into_response().status(), 400);
        serde_json::to_string(error.body()).unwrap()
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let json = r#"{"workflow": "product-research", "steps": [{"id": "research", "expects": {
            "type": "task.result", "payload_type": "research.summary.v1", "required": ["findings", "citations"]}}]}"#;
        let read = rules(GOOD.as_bytes(), Format::Yaml).unwrap();
        assert_eq!((read.workflow.as_str(), read.rules[0].expects.required.len()), ("product-research", 2));
        assert_eq!(rules(json.as_bytes(), Format::Json).unwrap(), read);
        assert_eq!(rules(json.as_bytes(), Format::Yaml).unwrap(), read);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field_and_line() {
        for (from, to, field, line) in [
            ("id: research", "id: research\n    colour: red", "colour", "line 4"),
            ("expects:", "expect:", "expect", "line 4"),
            ("type: task.result", "type: task.dance", "task.dance", "line 5"),
            ("research.summary.v1", "research.summary", "payload_type", "line 6"),
            ("workflow: product-research", "name: x", "name", "line 1"),
            ("- findings", "- [a]", "required", "line 8"),
        ] {
            let told = refused(&GOOD.replacen(from, to, 1), Format::Yaml);
            assert!(told.contains(field) && told.contains(line), "{to}: {told}");
        }
        let told = refused(r#"{"workflow": "x", "steps": [{"id": "a", "expects": {"typ": 1}}]}"#, Format::Json);
        assert!(told.contains("steps[0].expects.typ") && told.contains("/steps/0/expects/typ"), "{told}");
        for text in ["", "[", "{} {}", "null"] {
            refused(text, Format::Json);
            refused(text, Format::Yaml);
        }
    }

    #[test]
    fn anchors_and_further_documents_are_refused() {
        for text in [
            GOOD.replace("id: research", "id: &a research"),
            GOOD.replace("- citations", "- *a"),
            format!("{GOOD}---\n{GOOD}"),
            GOOD.replace("id: research", "id: !own research"),
            GOOD.replace("    expects:", "    <<: {id: x}\n    expects:"),
            GOOD.replace("- findings", &format!("- {}{}", "[".repeat(50), "]".repeat(50))),
            GOOD.replace("workflow: product-research", "workflow: a\nworkflow: b"),
        ] {
            refused(&text, Format::Yaml);
        }
    }

    #[test]
    fn the_header_tells_the_format() {
        for (told, format) in [
            ("application/yaml", Some(Format::Yaml)),
            ("text/yaml; charset=utf-8", Some(Format::Yaml)),
            ("Application/JSON", Some(Format::Json)),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(Format::of(told), format, "{told}");
        }
    }
}
