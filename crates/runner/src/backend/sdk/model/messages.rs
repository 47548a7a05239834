//! What is asked of a model and what it answers, whatever the interface.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Usage;

/// A question: everything that was said, for no interface remembers anything.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Ask<'a> {
    pub system: &'a str,
    pub messages: &'a [Message],
    pub tools: &'a [Tool],
    pub max_tokens: Option<u64>,
}

/// One message of a conversation, as it is also kept between turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub(in super::super) enum Message {
    User {
        text: String,
    },
    Model {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
    },
    /// What the calls of the message before it brought, in their order.
    Tools {
        results: Vec<CallResult>,
    },
}

/// A call of a tool, as the model wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct Call {
    /// Empty where calls have none and results are told apart by their order.
    pub id: String,
    pub name: String,
    /// Meant to be a JSON object, and not always one.
    pub arguments: String,
    /// What the interface wants to see again together with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl Call {
    /// The arguments if they are what they should be, else what is wrong with them. No arguments at all are an empty object.
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

    /// The arguments for an interface that takes nothing but an object.
    pub(super) fn object(&self) -> Value {
        self.input().unwrap_or_else(|_| serde_json::json!({"unreadable": self.arguments}))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in super::super) struct CallResult {
    pub id: String,
    pub name: String,
    pub text: String,
    pub failed: bool,
}

/// A tool that the model may call.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct Tool {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct Answer {
    pub text: String,
    pub calls: Vec<Call>,
    pub usage: Usage,
    pub stop: Stop,
}

/// Why an answer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Stop {
    /// It is whole, or waits for what its calls bring.
    End,
    /// It was as long as it may be.
    Length,
    /// The provider did not let it be said.
    Withheld(String),
}

/// How many tokens a text takes, roughly: providers count in ways of their own.
pub(in super::super) fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_an_object_or_it_is_said_why_not() {
        let input = |arguments: &str| Call { arguments: arguments.to_owned(), ..Call::default() }.input();
        assert_eq!(input(r#"{"a":1}"#), Ok(json!({"a": 1})));
        assert_eq!(input("  "), Ok(json!({})));
        assert!(input(r#"{"a":"#).unwrap_err().contains("not JSON"));
        assert!(input("[1]").unwrap_err().contains("not a JSON object"));
        let broken = Call { arguments: "{\"a\":".to_owned(), ..Call::default() };
        assert_eq!(broken.object(), json!({"unreadable": "{\"a\":"}));
    }
}
