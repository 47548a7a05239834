//! Removes the secrets of a program's environment from its output. A program may print them by accident, or because an agent
//! asked it to; they must not reach a transcript, a message or the screen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Endings of names of variables with secret values.
const ENDINGS: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "_PASS", "_PAT", "CREDENTIALS", "ROOKERY_SESSION"];
/// The length below which a value may be an ordinary term, and is too weak to be a secret.
const SHORTEST: usize = 16;
const INSTEAD: &str = "[secret]";

#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn from_environment(env: &BTreeMap<OsString, OsString>) -> Secrets {
        let named = |name: &OsString| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            ENDINGS.iter().any(|ending| name.ends_with(ending))
        };
        let values = env.iter().filter(|(name, _)| named(name)).filter_map(|(_, value)| value.to_str());
        // Output is searched line by line, and programs write much of it as JSON.
        let written =
            |value: &str| [value.to_owned(), serde_json::json!(value).to_string().trim_matches('"').to_owned()];
        let lines = values.flat_map(|value| std::iter::once(value).chain(value.lines()));
        let mut values: Vec<String> =
            lines.map(str::trim).filter(|value| value.len() >= SHORTEST).flat_map(written).collect();
        // The longest first, since a secret may be part of another.
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Secrets(values)
    }

    /// Replaces the secrets in a line.
    pub(super) fn redact<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut line = Cow::Borrowed(line);
        for secret in self.0.iter().filter(|secret| !secret.is_empty()) {
            if line.contains(secret.as_str()) {
                line = Cow::Owned(line.replace(secret.as_str(), INSTEAD));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name_and_redacted() {
        let env = [
            ("ANTHROPIC_API_KEY", "sk-ant-123456789"),
            ("github_token", "sk-ant-123456789-and-more"),
            ("ROOKERY_SESSION", "v1.session.abcdef"),
            ("MODEL_KEY", "k"),
            ("EMPTY_SECRET", ""),
            ("PATH", "/usr/bin:/bin"),
        ];
        let secrets = Secrets::from_environment(&env.map(|(name, value)| (name.into(), value.into())).into());
        let output = r#"{"env":"sk-ant-123456789-and-more sk-ant-123456789 v1.session.abcdef /usr/bin:/bin k"}"#;
        assert_eq!(secrets.redact(output), r#"{"env":"[secret] [secret] [secret] /usr/bin:/bin k"}"#);
        assert!(matches!(secrets.redact("nothing of it"), Cow::Borrowed(_)));
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n";
        let env = [("DEPLOY_KEY", pem), ("DB_PASSWORD", "quote\"and\\backslash")];
        let secrets = Secrets::from_environment(&env.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(secrets.redact("MIIEvQIBADANBgkqhkiG"), "[secret]");
        let output = serde_json::json!({ "out": format!("{pem}quote\"and\\backslash") }).to_string();
        let output = secrets.redact(&output);
        assert!(!output.contains("MIIE") && !output.contains("backslash"), "{output}");
    }
}
