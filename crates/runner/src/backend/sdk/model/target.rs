//! Which model is asked, where, and with which key.

use std::collections::BTreeMap;

use reqwest::Url;

use super::api::Wire;
use super::{anthropic, chat, gemini, ollama};
use crate::backend::{Failure, Secret, Why};

/// A provider that is known by its name.
struct Known {
    name: &'static str,
    wire: Wire,
    base: &'static str,
    /// What people add to the address that the interface's own paths begin with.
    version: &'static str,
    /// The variables that usually hold the key; none if it needs none.
    keys: &'static [&'static str],
    /// The variable that usually says that it is elsewhere.
    elsewhere: &'static str,
}

const KNOWN: [Known; 4] = [
    Known {
        name: "anthropic",
        wire: anthropic::WIRE,
        base: "https://api.anthropic.com",
        version: "/v1",
        keys: &["ANTHROPIC_API_KEY"],
        elsewhere: "ANTHROPIC_BASE_URL",
    },
    Known {
        name: "openai",
        wire: chat::WIRE,
        base: "https://api.openai.com/v1",
        version: "",
        keys: &["OPENAI_API_KEY"],
        elsewhere: "OPENAI_BASE_URL",
    },
    Known {
        name: "google",
        wire: gemini::WIRE,
        base: "https://generativelanguage.googleapis.com",
        version: "/v1beta",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        elsewhere: "GOOGLE_GEMINI_BASE_URL",
    },
    Known {
        name: "ollama",
        wire: ollama::WIRE,
        base: "http://127.0.0.1:11434",
        version: "/api",
        keys: &[],
        elsewhere: "OLLAMA_HOST",
    },
];

#[derive(Clone, Debug)]
pub(in super::super) struct Target {
    pub provider: String,
    pub model: String,
    pub(super) wire: Wire,
    /// Without a slash at its end.
    base: String,
    key: Option<Secret>,
    /// The variable that holds the key, or would.
    variable: Option<String>,
}

/// What the file says of where the model is.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Said<'a> {
    /// `provider/model`.
    pub model: &'a str,
    pub base_url: Option<&'a str>,
    /// The variable that holds the key, and what it holds.
    pub key: Option<(&'a str, Option<&'a Secret>)>,
}

impl Target {
    /// What the file leaves open is as the environment has it by custom, or else where the provider is by itself.
    pub(in super::super) fn find(said: &Said<'_>, env: &BTreeMap<String, String>) -> Result<Target, Failure> {
        let (provider, model) = said
            .model
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
            .ok_or_else(|| hopeless(format!("`{}` is no model", said.model), "say it as provider/model"))?;
        let known = KNOWN.iter().find(|known| known.name == provider);
        let value = |name: &str| env.get(name).filter(|value| !value.trim().is_empty());
        let elsewhere = said.base_url.or_else(|| known.and_then(|known| value(known.elsewhere)).map(String::as_str));
        let base = elsewhere.or(known.map(|known| known.base)).ok_or_else(|| {
            hopeless(format!("it is not known where `{provider}` is"), "say `provider.base_url` in the file")
        })?;
        let usual = known.map_or(&[][..], |known| known.keys);
        let (variable, key) = match said.key {
            Some((name, key)) => (Some(name.to_owned()), key.cloned()),
            None => {
                let found = usual.iter().find_map(|name| Some((*name, value(name)?)));
                let name = found.map(|(name, _)| name).or(usual.first().copied());
                (name.map(str::to_owned), found.map(|(_, key)| Secret(key.clone())))
            }
        };
        let is_needed = said.key.is_some() || (elsewhere.is_none() && !usual.is_empty());
        if let Some(variable) = variable.as_ref().filter(|_| is_needed && key.is_none()) {
            let reason = format!("there is no key for {provider}: the environment has no {variable}");
            return Err(hopeless(reason, &format!("set {variable} where the runner is started")));
        }
        let target = Target {
            provider: provider.to_owned(),
            model: model.to_owned(),
            wire: known.map_or(chat::WIRE, |known| known.wire),
            base: address(base, known.map_or("", |known| known.version)),
            key,
            variable,
        };
        target.url().ok_or_else(|| hopeless(format!("`{base}` is no address"), "see `provider.base_url`"))?;
        Ok(target)
    }

    /// Where a question goes.
    pub(super) fn url(&self) -> Option<Url> {
        let url = Url::parse(&format!("{}/{}", self.base, (self.wire.path)(self))).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    }

    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        (self.wire.headers)(self.key.as_ref().map_or("", |key| key.0.as_str()))
    }

    /// A text of the provider, which may repeat the key.
    pub(super) fn without_key(&self, text: &str) -> String {
        match self.key.as_ref().filter(|key| !key.0.is_empty()) {
            Some(key) => text.replace(&key.0, "…"),
            None => text.to_owned(),
        }
    }

    /// Who is asked, and as whom.
    pub(in super::super) fn account(&self) -> String {
        match &self.variable {
            Some(variable) => format!("{} ({variable})", self.provider),
            None => self.provider.clone(),
        }
    }

    pub(super) fn about_the_key(&self) -> String {
        match &self.variable {
            Some(variable) => format!("look at the key in {variable}: {} does not take it", self.provider),
            None => "name the key with `provider.api_key: $NAME` in the file".to_owned(),
        }
    }

    pub(super) fn about_the_model(&self) -> String {
        match self.provider.as_str() {
            "ollama" => format!("`ollama pull {}` if that is the model; {} is the address", self.model, self.base),
            _ => format!("look at the name of the model, `{}`, and at the address, {}", self.model, self.base),
        }
    }

    pub(super) fn about_the_address(&self) -> String {
        match self.provider.as_str() {
            "ollama" => format!("`ollama serve` starts it; it is expected at {}", self.base),
            _ => format!("{} has to be reachable from here", self.base),
        }
    }
}

fn hopeless(reason: String, hint: &str) -> Failure {
    Failure { why: Why::Hopeless, reason, hint: Some(hint.to_owned()) }
}

fn address(said: &str, version: &str) -> String {
    let said = said.trim().trim_end_matches('/');
    let said = said.strip_suffix(version).unwrap_or(said).trim_end_matches('/');
    // As Ollama's own variable has it: a host and a port, maybe all of the machine's addresses.
    match said.contains("://") {
        true => said.to_owned(),
        false => format!("http://{}", said.replace("0.0.0.0", "127.0.0.1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(said: &Said<'_>, env: &[(&str, &str)]) -> Result<Target, Failure> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Target::find(said, &env)
    }

    fn model(model: &str) -> Said<'_> {
        Said { model, ..Said::default() }
    }

    #[test]
    fn every_known_provider_is_where_it_is_unless_somebody_says_otherwise() {
        let url = |said: &Said<'_>, env: &[(&str, &str)]| found(said, env).unwrap().url().unwrap().to_string();
        let key = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("GOOGLE_API_KEY", "k")];
        assert_eq!(url(&model("anthropic/c"), &key), "https://api.anthropic.com/v1/messages");
        assert_eq!(url(&model("openai/g"), &key), "https://api.openai.com/v1/chat/completions");
        let google = "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse";
        assert_eq!(url(&model("google/g"), &key), google);
        assert_eq!(url(&model("ollama/l:7b"), &[]), "http://127.0.0.1:11434/api/chat");
        assert_eq!(url(&model("ollama/l"), &[("OLLAMA_HOST", "0.0.0.0:99")]), "http://127.0.0.1:99/api/chat");
        let elsewhere = [("ANTHROPIC_BASE_URL", "http://one/v1/")];
        assert_eq!(url(&model("anthropic/c"), &elsewhere), "http://one/v1/messages");
        let file = Said { base_url: Some("http://two:1/x/"), ..model("anthropic/c") };
        assert_eq!(url(&file, &elsewhere), "http://two:1/x/v1/messages");
        let other = Said { base_url: Some("https://models.example.com/v1"), ..model("mine/org/model") };
        assert_eq!(url(&other, &[]), "https://models.example.com/v1/chat/completions");
        assert_eq!(found(&other, &[]).unwrap().model, "org/model");
    }

    #[test]
    fn a_key_that_is_not_there_is_named() {
        let hint = |said: &Said<'_>| found(said, &[]).unwrap_err().hint.unwrap();
        assert!(hint(&model("anthropic/c")).contains("ANTHROPIC_API_KEY"));
        assert!(hint(&model("google/c")).contains("GEMINI_API_KEY"));
        let own = Said { key: Some(("MY_KEY", None)), base_url: Some("http://one"), ..model("mine/m") };
        assert!(hint(&own).contains("MY_KEY"));
    }

    #[test]
    fn the_key_is_shown_to_nobody() {
        let target = found(&model("openai/g"), &[("OPENAI_API_KEY", "sk-secret")]).unwrap();
        assert!(!format!("{target:?}").contains("secret"));
        assert_eq!(target.without_key("Incorrect API key: sk-secret."), "Incorrect API key: ….");
        assert!(target.about_the_key().contains("OPENAI_API_KEY"));
    }

    #[test]
    fn what_is_no_model_or_address_is_refused() {
        let bad = [model("gpt"), model("/m"), model("mine/m"), Said { base_url: Some("ftp://x"), ..model("a/b") }];
        for said in bad {
            assert_eq!(found(&said, &[]).unwrap_err().why, Why::Hopeless, "{said:?}");
        }
    }
}
