//! Requests to models and their answers, in a form that is independent of the API.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Usage;

/// A request. It contains the whole conversation, since the APIs keep no state.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ModelRequest<'a> {
    pub system: &'a str,
    pub messages: &'a [ModelMessage],
    pub tools: &'a [ModelTool],
    pub max_tokens: Option<u64>,
}

/// One message of a conversation, also in the form that is kept between turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub(in super::super) enum ModelMessage {
    User {
        text: String,
    },
    Model {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ModelCall>,
    },
    /// Results of the calls in the message before it, in the same order.
    Tools {
        results: Vec<ModelCallResult>,
    },
}

/// A call of a tool, as the model wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct ModelCall {
    /// Empty for APIs without ids, which match results by their order.
    pub id: String,
    pub name: String,
    /// Should be a JSON object, but is not always one.
    pub arguments: String,
    /// Data that the API requires to be sent back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ModelCall {
    /// The arguments as an object, or a description of their defect. Empty arguments count as an empty object.
    pub(in super::super) fn input(&self) -> Result<Value, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(Default::default()));
        }
        match serde_json::from_str(&self.arguments) {
            Ok(input @ Value::Object(_)) => Ok(input),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }

    /// The arguments for an API that accepts only objects.
    pub(super) fn object(&self) -> Value {
        self.input().unwrap_or_else(|_| serde_json::json!({"unreadable": self.arguments}))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in super::super) struct ModelCallResult {
    pub id: String,
    pub name: String,
    pub text: String,
    pub failed: bool,
}

/// A tool that the model may call.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct ModelTool {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct ModelAnswer {
    pub text: String,
    pub calls: Vec<ModelCall>,
    pub usage: Usage,
    pub stop: StopReason,
}

/// The reason why an answer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum StopReason {
    /// Complete, or waiting for the results of its calls.
    End,
    /// The maximum length was reached.
    Length,
    /// The provider withheld the answer.
    Withheld(String),
}

/// A rough number of tokens: each provider counts differently.
pub(in super::super) fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_an_object_or_have_an_error() {
        let input = |arguments: &str| ModelCall { arguments: arguments.to_owned(), ..ModelCall::default() }.input();
        assert_eq!(input(r#"{"a":1}"#), Ok(json!({"a": 1})));
        assert_eq!(input("  "), Ok(json!({})));
        assert!(input(r#"{"a":"#).unwrap_err().contains("not JSON"));
        assert!(input("[1]").unwrap_err().contains("not a JSON object"));
        let broken = ModelCall { arguments: "{\"a\":".to_owned(), ..ModelCall::default() };
        assert_eq!(broken.object(), json!({"unreadable": "{\"a\":"}));
    }
}
