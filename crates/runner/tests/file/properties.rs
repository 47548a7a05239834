//! Properties of the parser: any file is accepted or rejected with faults at places in it, and the schema accepts every accepted
//! file.

use proptest::prelude::*;
use rookery_runner::file::{Refused, schema};
use serde_json::Value;

use crate::corpus::{files, ready, source};

/// Checks one text, and returns whether it was accepted.
fn check(text: &str) -> bool {
    match ready(&source("good", "any.yaml", text), &[]) {
        Ok(_) => true,
        Err(Refused::File(faults)) => {
            assert!(!faults.is_empty());
            for fault in faults.iter().filter(|fault| &*fault.place.file == "any.yaml") {
                let lines = text.split('\n').count() as u64;
                assert!((1..=lines + 1).contains(&fault.place.line), "{fault}\n{text}");
                assert!(fault.place.column >= 1 && !fault.message.is_empty(), "{fault}");
            }
            false
        }
        Err(other) => panic!("{other}"),
    }
}

/// A file of the corpus with random cuts and insertions.
fn mangled() -> impl Strategy<Value = String> {
    let texts: Vec<String> = files("good").into_values().chain(files("bad").into_values()).collect();
    let piece = prop_oneof![
        Just(String::new()),
        "[ -~]{0,6}",
        Just("${{".to_owned()),
        Just("}}".to_owned()),
        Just("\n  ".to_owned()),
        Just("- ".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("é\u{1f426}".to_owned()),
        any::<String>(),
    ];
    let cut = (any::<prop::sample::Index>(), 0_usize..40, piece);
    (prop::sample::select(texts), prop::collection::vec(cut, 1..5)).prop_map(|(text, cuts)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, length, piece) in cuts {
            let at = at.index(chars.len() + 1);
            let end = (at + length).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        chars.into_iter().collect()
    })
}

/// An arbitrary value for any key.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "x",
            "5m",
            "0 3 * * *",
            "mock",
            "claude",
            "file",
            "${{ x }}",
            "@a",
            "a.md",
            "$X",
            "pass"
        ])
        .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "name", "agents", "context", "setup", "kickoff", "steps", "limits", "params", "model", "backend", "tools",
        "script", "command", "env", "wakeup", "say", "do", "when", "call", "with", "shell", "as", "provider", "config",
        "dir", "x",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Hostile files are parsed in linear time, so that the test does not time out.
#[test]
fn large_file_is_parsed_in_linear_time() {
    let agents = "agents: {a: {backend: mock, script: [pass]}}";
    let many = |piece: &str| piece.repeat(900_000 / piece.len());
    for text in [
        format!("{agents}\nkickoff: '{}'\n", many("${{ ")),
        format!("{agents}\nkickoff: '{}'\n", many("${{ x }}")),
        format!("{agents}\nkickoff: '{}'\n", many("${{ env.X }}")),
        format!("{agents}\nsetup: [{{shell: '{}'}}]\n", many("${{ ")),
        format!("{agents}\nsetup: [{{shell: '{}'}}]\n", many("${{ x }}")),
        format!("{}\n{agents}\n", (0..40_000).map(|n| format!("key{n}: 1\n")).collect::<String>()),
        format!(
            "agents:\n{}",
            (0..9_000).map(|n| format!("  a{n}: {{backend: claude, modle: x}}\n")).collect::<String>()
        ),
        format!("{agents}\nparams: [{}]\n", many("{name: x}, ")),
        format!("{agents}\nkickoff: {}\n", many("@a ")),
        format!(
            "{agents}\nparams: [{{name: x, default: '{0}{0}{0}'}}]\nkickoff: '{1}'\n",
            "y".repeat(100_000),
            "${{ params.x }}".repeat(30_000)
        ),
    ] {
        check(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn mangled_file_does_not_panic(text in mangled()) {
        check(&text);
    }

    #[test]
    fn accepted_file_is_accepted_by_the_schema(value in any_value(), at in prop::sample::select(vec![
        "/name", "/context", "/params", "/limits", "/setup", "/kickoff", "/steps", "/agents/a", "/agents/a/script",
        "/agents/a/script/0", "/agents/a/tools", "/agents/a/env", "/agents/a/sandbox", "/agents/a/wakeup",
    ])) {
        let mut file = serde_json::json!({
            "name": "n", "context": null, "params": [], "limits": {}, "setup": [], "kickoff": "@a", "steps": [],
            "agents": {"a": {"backend": "mock", "script": [{"say": "x"}], "tools": [], "env": {}, "sandbox": true, "wakeup": "5m"}},
        });
        *file.pointer_mut(at).unwrap() = value;
        if check(&file.to_string()) {
            prop_assert!(jsonschema::draft202012::is_valid(&schema(), &file), "{}", file);
        }
    }
}
