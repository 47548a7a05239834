//! Fills the `${{ … }}` placeholders of a script while it is played.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{Failure, fault};
use crate::backend::WakingMessage;
use crate::file::{Argument, TextTemplate, VariableValue, Variables};

/// Values for placeholders.
pub(super) struct Values<'a> {
    pub(super) variables: &'a Variables,
    pub(super) inbox: &'a [WakingMessage],
    pub(super) got: &'a BTreeMap<String, Value>,
}

impl Values<'_> {
    /// Fills all placeholders of a text.
    pub(super) fn text(&self, template: &TextTemplate) -> Result<String, Failure> {
        let mut missing = None;
        let text = template.fill(|name| match self.look_up(name) {
            Some(value) => value,
            None => {
                missing.get_or_insert_with(|| name.to_owned());
                Cow::Borrowed("")
            }
        });
        missing.map_or(Ok(text), |name| Err(unknown(&name)))
    }

    /// Fills an argument of a tool. A text that consists of one kept result becomes that result, of any type.
    pub(super) fn argument(&self, argument: &Argument) -> Result<Value, Failure> {
        Ok(match argument {
            Argument::Plain(value) => value.clone(),
            Argument::Text(template) => match template.only_variable().and_then(|name| name.strip_prefix("got.")) {
                Some(path) => self.result_at(path).cloned().ok_or_else(|| unknown(&format!("got.{path}")))?,
                None => self.text(template)?.into(),
            },
            Argument::List(items) => {
                items.iter().map(|item| self.argument(item)).collect::<Result<Vec<_>, _>>()?.into()
            }
            Argument::Map(entries) => {
                let entries = entries.iter().map(|(name, value)| Ok((name.clone(), self.argument(value)?)));
                Value::Object(entries.collect::<Result<_, Failure>>()?)
            }
        })
    }

    fn look_up(&self, name: &str) -> Option<Cow<'static, str>> {
        let first = self.inbox.first();
        let value = match name.split_once('.') {
            // A turn that was started by a timer has no message.
            Some(("inbox", "from")) => first.map(|message| message.from.clone()).unwrap_or_default(),
            Some(("inbox", "text")) => first.map(|message| message.text.clone()).unwrap_or_default(),
            Some(("got", path)) => match self.result_at(path)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            _ => match self.variables.look_up(name) {
                VariableValue::Value(value) => value.to_owned(),
                VariableValue::Later | VariableValue::Unknown => return None,
            },
        };
        Some(Cow::Owned(value))
    }

    /// The value at `name.field.0.other` in the results of calls.
    fn result_at(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let first = self.got.get(parts.next()?)?;
        parts.try_fold(first, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    }
}

fn unknown(name: &str) -> Failure {
    Failure {
        hint: Some("a call keeps its result with `as`; refer to it only after the call".to_owned()),
        ..fault(format!("the script refers to `${{{{ {name} }}}}`, which has no value yet"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::file::{Action, Backend};
    use crate::testing::{agent, ready};

    /// Fills the arguments of a call.
    fn filled(with: &str) -> Result<Value, Failure> {
        let ready = ready("agents: {a: {backend: mock, script: [pass]}}\nkickoff: '@a'");
        let got =
            BTreeMap::from([("task".to_owned(), json!({"id": "tk_1", "list": [{"n": 1}, {"n": 2}], "none": null}))]);
        let inbox = [WakingMessage { id: "m".into(), from: "ada".into(), text: "hi".into() }];
        let values = Values { variables: &ready.variables, inbox: &inbox, got: &got };
        let script = format!("backend: mock\nscript: [{{call: task_get, with: {with}, as: task}}]");
        let Backend::Mock { script } = agent(&script).backend else { panic!("it is a mock") };
        match &script.turns[0].actions[0].value {
            Action::Call { with: Some(with), .. } => values.argument(with),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn result_alone_in_an_argument_keeps_its_type() {
        let with =
            r#"{a: "${{ got.task.list.1.n }}", b: "n is ${{ got.task.list.1.n }}", c: ["${{ got.task.list }}"], d: 5}"#;
        let expected = json!({"a": 2, "b": "n is 2", "c": [[{"n": 1}, {"n": 2}]], "d": 5});
        assert_eq!(filled(with).unwrap(), expected);
        assert_eq!(filled(r#"{a: "${{ inbox.from }}: ${{ inbox.text }}"}"#).unwrap(), json!({"a": "ada: hi"}));
    }

    #[test]
    fn missing_value_fails_the_turn() {
        for with in [r#"{a: "${{ got.task.nothing }}"}"#, r#"{a: "x ${{ got.task.list.9.n }}"}"#] {
            assert!(filled(with).unwrap_err().reason.contains("has no value yet"), "{with}");
        }
    }
}
