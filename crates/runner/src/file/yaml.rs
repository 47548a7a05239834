//! Parses YAML into a tree of values with their places. Size, depth and the expansion of aliases are bounded. Independent of
//! workflows.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Spanned};

/// Limits far above the needs of a workflow file. Aliases count each time they are used.
const NODES: usize = 50_000;
const SCALAR_BYTES: usize = 4 << 20;
const ALIASES: usize = 1_000;
const DEPTH: usize = 32;

/// A value with its place. A value from an alias or a merge has the place of its anchor.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct YamlNode {
    pub line: u64,
    pub column: u64,
    /// The bytes of its source text; empty if unknown.
    pub span: Range<usize>,
    pub value: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(YamlNode, YamlNode)>),
}

/// A syntax error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SyntaxError {
    pub line: u64,
    pub column: u64,
    pub message: String,
    pub hint: Option<&'static str>,
}

/// Parses a text. With a duplicate key, returns both an error and a tree that has the first of the values, so that the rest can
/// be checked too.
pub(super) fn read(text: &str) -> (Option<YamlNode>, Option<SyntaxError>) {
    match tree(text, DuplicateKeyPolicy::Error) {
        Ok(node) => (Some(node), None),
        Err(error) => {
            let syntax_error = syntax_error(&error, text);
            let node = match error.without_snippet() {
                Error::DuplicateMappingKey { .. } => tree(text, DuplicateKeyPolicy::FirstWins).ok(),
                _ => None,
            };
            (node, Some(syntax_error))
        }
    }
}

fn tree(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<YamlNode, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEPTH,
            max_nodes: NODES,
            max_events: 4 * NODES,
            max_aliases: ALIASES,
            max_anchors: ALIASES,
            max_merge_keys: ALIASES,
            max_total_scalar_bytes: SCALAR_BYTES,
            max_recorded_anchor_bytes: SCALAR_BYTES,
            max_recorded_anchor_events: 4 * NODES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: NODES, max_replay_stack_depth: DEPTH },
        duplicate_keys: duplicate_keys,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn syntax_error(error: &Error, text: &str) -> SyntaxError {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line().max(1), at.column().max(1)));
    let message = message(error);
    let line_before = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    let hint = hint(&message, text.lines().nth(line_before).unwrap_or_default());
    SyntaxError { line, column, message, hint }
}

/// The usual cause of an error in a file written by hand.
fn hint(message: &str, line: &str) -> Option<&'static str> {
    let is = |part: &str| message.contains(part);
    if is("unexpected character") {
        return Some("quote a text that begins with such a character");
    }
    if is("mapping values are not allowed") {
        return Some("quote a text that contains `: `, or write it on the lines below `|`");
    }
    if is("while parsing a flow") && line.contains("${{") {
        return Some("between [ ] or { }, quote a text that contains `${{`");
    }
    is("tabs").then_some("indent with spaces")
}

fn message(error: &Error) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => message(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key `{key}`"),
        Error::DuplicateMappingKey { key: None, .. } => "duplicate key".to_owned(),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => format!("is more than {DEPTH} levels deep"),
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second document begins here; a file must have one".to_owned()
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => "exceeds the size limits of a workflow file".to_owned(),
        other => without_place(&other.to_string()),
    }
}

/// Removes the place from the library's message, since faults show it separately.
fn without_place(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let end = first.find(" at line ").unwrap_or(first.len());
    first[..end].to_owned()
}

impl Value {
    /// The type of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Flag(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlNode, D::Error> {
        let Spanned { value, defined, .. } = Spanned::<Value>::deserialize(deserializer)?;
        Ok(YamlNode { line: defined.line().max(1), column: defined.column().max(1), span: bytes(defined), value })
    }
}

fn bytes(at: Location) -> Range<usize> {
    let known = at.span().byte_offset().zip(at.span().byte_len());
    known.map_or(0..0, |(start, length)| start as usize..(start.saturating_add(length)) as usize)
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(Number::from_f64(number as f64).map_or(Value::Null, Value::Number))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(Number::from_f64(number as f64).map_or(Value::Null, Value::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or_else(|| Value::Text(number.to_string()), Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> YamlNode {
        match read(text) {
            (Some(node), None) => node,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn entries(node: &YamlNode) -> &[(YamlNode, YamlNode)] {
        match &node.value {
            Value::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_and_values_have_their_places() {
        let text = "a: 1.10\nlong:\n  - x\n  - 'y z'\ntext: |\n  one\n  two\n";
        let tree = node(text);
        let [(a, number), (_, list), (_, block)] = entries(&tree) else { panic!("{tree:?}") };
        assert_eq!((a.line, a.column, number.line, number.column), (1, 1, 1, 4));
        assert_eq!(&text[number.span.clone()], "1.10");
        let Value::List(items) = &list.value else { panic!("{list:?}") };
        assert_eq!((items[1].line, items[1].column), (4, 5));
        assert_eq!(block.value, Value::Text("one\ntwo\n".to_owned()));
        assert!(text[block.span.clone()].contains("two"), "{:?}", &text[block.span.clone()]);
    }

    #[test]
    fn yes_and_on_are_text_not_booleans() {
        let tree = node("- yes\n- on\n- true\n- ~\n- .nan\n- 1e999\n- 123456789012345678901234567890\n");
        let Value::List(items) = &tree.value else { panic!("{tree:?}") };
        assert_eq!(items[0].value, Value::Text("yes".to_owned()));
        assert_eq!(items[1].value, Value::Text("on".to_owned()));
        assert_eq!(items[2].value, Value::Flag(true));
        assert_eq!(items[3].value, Value::Null);
        assert!(matches!(items[4].value, Value::Text(_)));
    }

    #[test]
    fn anchors_and_merges_are_followed() {
        let tree = node("base: &b {x: 1}\none: *b\ntwo: {<<: *b, y: 2}\n");
        let [(_, base), (_, one), (_, two)] = entries(&tree) else { panic!("{tree:?}") };
        assert_eq!(base.value, one.value);
        assert_eq!(entries(two).len(), 2);
    }

    #[test]
    fn duplicate_key_is_an_error_and_the_rest_is_parsed() {
        let (tree, error) = read("a: 1\nb: 2\na: 3\n");
        assert_eq!(entries(&tree.unwrap()).len(), 2);
        let error = error.unwrap();
        assert_eq!((error.line, error.column, error.message.as_str()), (3, 1, "duplicate key `a`"));
    }

    #[test]
    fn unbounded_expansion_is_rejected() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let before = vec![format!("*a{}", n - 1); 9].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{before}]\n"));
        }
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 500].join(", "));
        let deep = format!("a: {}{}\n", "[".repeat(500), "]".repeat(500));
        // Each has the maximum depth and contains the previous one at its deepest place.
        let (open, close) = ("[".repeat(25), "]".repeat(25));
        let chained = |n: usize| {
            format!("c{n}: &c{n} {open}{}{close}\n", if n == 0 { "x".to_owned() } else { format!("*c{}", n - 1) })
        };
        let chain: String = (0..30).map(chained).collect();
        for text in
            [bomb, long, deep, chain, "a: 1\n---\nb: 2\n".to_owned(), "a: !own x\n".to_owned(), "a: *b\n".to_owned()]
        {
            let (tree, error) = read(&text);
            assert!(tree.is_none() && error.is_some(), "{}", &text[..20.min(text.len())]);
        }
    }
}
