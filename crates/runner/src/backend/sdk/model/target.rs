//! Resolves a model's provider, address and key.

use std::collections::BTreeMap;

use reqwest::Url;

use super::api::ModelApi;
use super::{anthropic, chat, gemini, ollama};
use crate::backend::{Failure, Secret, Why};

/// A provider with built-in defaults.
struct KnownProvider {
    name: &'static str,
    api: ModelApi,
    base: &'static str,
    /// A version suffix that people add to the address, and that the API's own paths start with.
    version: &'static str,
    /// Variables that usually hold the key; none for a provider without keys.
    keys: &'static [&'static str],
    /// The variable that usually holds another address.
    base_variable: &'static str,
}

const KNOWN_PROVIDERS: [KnownProvider; 4] = [
    KnownProvider {
        name: "anthropic",
        api: anthropic::API,
        base: "https://api.anthropic.com",
        version: "/v1",
        keys: &["ANTHROPIC_API_KEY"],
        base_variable: "ANTHROPIC_BASE_URL",
    },
    KnownProvider {
        name: "openai",
        api: chat::API,
        base: "https://api.openai.com/v1",
        version: "",
        keys: &["OPENAI_API_KEY"],
        base_variable: "OPENAI_BASE_URL",
    },
    KnownProvider {
        name: "google",
        api: gemini::API,
        base: "https://generativelanguage.googleapis.com",
        version: "/v1beta",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_variable: "GOOGLE_GEMINI_BASE_URL",
    },
    KnownProvider {
        name: "ollama",
        api: ollama::API,
        base: "http://127.0.0.1:11434",
        version: "/api",
        keys: &[],
        base_variable: "OLLAMA_HOST",
    },
];

#[derive(Clone, Debug)]
pub(in super::super) struct ModelTarget {
    pub provider: String,
    pub model: String,
    pub(super) api: ModelApi,
    /// Without a trailing slash.
    base: String,
    key: Option<Secret>,
    /// The variable that holds, or should hold, the key.
    variable: Option<String>,
}

/// The model settings of the file.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct ModelSettings<'a> {
    /// `provider/model`.
    pub model: &'a str,
    pub base_url: Option<&'a str>,
    /// The variable that holds the key, and its value.
    pub key: Option<(&'a str, Option<&'a Secret>)>,
}

impl ModelTarget {
    /// Resolves a model. Settings that the file leaves open come from the usual variables, then from the provider's defaults.
    pub(in super::super) fn find(
        settings: &ModelSettings<'_>,
        env: &BTreeMap<String, String>,
    ) -> Result<ModelTarget, Failure> {
        let (provider, model) = settings
            .model
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
            .ok_or_else(|| hopeless(format!("`{}` is not a model", settings.model), "write it as provider/model"))?;
        let known = KNOWN_PROVIDERS.iter().find(|known| known.name == provider);
        let value = |name: &str| env.get(name).filter(|value| !value.trim().is_empty());
        let elsewhere =
            settings.base_url.or_else(|| known.and_then(|known| value(known.base_variable)).map(String::as_str));
        let base = elsewhere.or(known.map(|known| known.base)).ok_or_else(|| {
            hopeless(format!("the address of `{provider}` is unknown"), "set `provider.base_url` in the file")
        })?;
        let usual = known.map_or(&[][..], |known| known.keys);
        let (variable, key) = match settings.key {
            Some((name, key)) => (Some(name.to_owned()), key.cloned()),
            None => {
                let found = usual.iter().find_map(|name| Some((*name, value(name)?)));
                let name = found.map(|(name, _)| name).or(usual.first().copied());
                (name.map(str::to_owned), found.map(|(_, key)| Secret(key.clone())))
            }
        };
        let is_needed = settings.key.is_some() || (elsewhere.is_none() && !usual.is_empty());
        if let Some(variable) = variable.as_ref().filter(|_| is_needed && key.is_none()) {
            let reason = format!("there is no key for {provider}: the environment has no {variable}");
            return Err(hopeless(reason, &format!("set {variable} where the runner is started")));
        }
        let target = ModelTarget {
            provider: provider.to_owned(),
            model: model.to_owned(),
            api: known.map_or(chat::API, |known| known.api),
            base: address(base, known.map_or("", |known| known.version)),
            key,
            variable,
        };
        target.url().ok_or_else(|| hopeless(format!("`{base}` is not an address"), "see `provider.base_url`"))?;
        Ok(target)
    }

    /// The URL for requests.
    pub(super) fn url(&self) -> Option<Url> {
        let url = Url::parse(&format!("{}/{}", self.base, (self.api.path)(self))).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    }

    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        (self.api.headers)(self.key.as_ref().map_or("", |key| key.0.as_str()))
    }

    /// Removes the key from a text of the provider.
    pub(super) fn without_key(&self, text: &str) -> String {
        match self.key.as_ref().filter(|key| !key.0.is_empty()) {
            Some(key) => text.replace(&key.0, "…"),
            None => text.to_owned(),
        }
    }

    /// The provider and the variable of its key.
    pub(in super::super) fn account(&self) -> String {
        match &self.variable {
            Some(variable) => format!("{} ({variable})", self.provider),
            None => self.provider.clone(),
        }
    }

    pub(super) fn key_hint(&self) -> String {
        match &self.variable {
            Some(variable) => format!("check the key in {variable}: {} rejects it", self.provider),
            None => "name the key with `provider.api_key: $NAME` in the file".to_owned(),
        }
    }

    pub(super) fn model_hint(&self) -> String {
        match self.provider.as_str() {
            "ollama" => {
                format!("run `ollama pull {}` if the name is correct; the address is {}", self.model, self.base)
            }
            _ => format!("check the name of the model, `{}`, and the address, {}", self.model, self.base),
        }
    }

    pub(super) fn address_hint(&self) -> String {
        match self.provider.as_str() {
            "ollama" => format!("start it with `ollama serve`; it is expected at {}", self.base),
            _ => format!("check that {} can be reached from here", self.base),
        }
    }
}

fn hopeless(reason: String, hint: &str) -> Failure {
    Failure { why: Why::Hopeless, reason, hint: Some(hint.to_owned()) }
}

fn address(url: &str, version: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix(version).unwrap_or(url).trim_end_matches('/');
    // Ollama's own variable holds a host and a port, possibly the wildcard address.
    match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{}", url.replace("0.0.0.0", "127.0.0.1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(settings: &ModelSettings<'_>, env: &[(&str, &str)]) -> Result<ModelTarget, Failure> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ModelTarget::find(settings, &env)
    }

    fn model(model: &str) -> ModelSettings<'_> {
        ModelSettings { model, ..ModelSettings::default() }
    }

    #[test]
    fn known_provider_has_a_default_address_that_settings_override() {
        let url = |settings: &ModelSettings<'_>, env: &[(&str, &str)]| {
            found(settings, env).unwrap().url().unwrap().to_string()
        };
        let key = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("GOOGLE_API_KEY", "k")];
        assert_eq!(url(&model("anthropic/c"), &key), "https://api.anthropic.com/v1/messages");
        assert_eq!(url(&model("openai/g"), &key), "https://api.openai.com/v1/chat/completions");
        let google = "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse";
        assert_eq!(url(&model("google/g"), &key), google);
        assert_eq!(url(&model("ollama/l:7b"), &[]), "http://127.0.0.1:11434/api/chat");
        assert_eq!(url(&model("ollama/l"), &[("OLLAMA_HOST", "0.0.0.0:99")]), "http://127.0.0.1:99/api/chat");
        let elsewhere = [("ANTHROPIC_BASE_URL", "http://one/v1/")];
        assert_eq!(url(&model("anthropic/c"), &elsewhere), "http://one/v1/messages");
        let file = ModelSettings { base_url: Some("http://two:1/x/"), ..model("anthropic/c") };
        assert_eq!(url(&file, &elsewhere), "http://two:1/x/v1/messages");
        let other = ModelSettings { base_url: Some("https://models.example.com/v1"), ..model("mine/org/model") };
        assert_eq!(url(&other, &[]), "https://models.example.com/v1/chat/completions");
        assert_eq!(found(&other, &[]).unwrap().model, "org/model");
    }

    #[test]
    fn missing_key_is_named() {
        let hint = |settings: &ModelSettings<'_>| found(settings, &[]).unwrap_err().hint.unwrap();
        assert!(hint(&model("anthropic/c")).contains("ANTHROPIC_API_KEY"));
        assert!(hint(&model("google/c")).contains("GEMINI_API_KEY"));
        let own = ModelSettings { key: Some(("MY_KEY", None)), base_url: Some("http://one"), ..model("mine/m") };
        assert!(hint(&own).contains("MY_KEY"));
    }

    #[test]
    fn key_is_never_displayed() {
        let target = found(&model("openai/g"), &[("OPENAI_API_KEY", "sk-secret")]).unwrap();
        assert!(!format!("{target:?}").contains("secret"));
        assert_eq!(target.without_key("Incorrect API key: sk-secret."), "Incorrect API key: ….");
        assert!(target.key_hint().contains("OPENAI_API_KEY"));
    }

    #[test]
    fn invalid_model_or_address_is_rejected() {
        let bad =
            [model("gpt"), model("/m"), model("mine/m"), ModelSettings { base_url: Some("ftp://x"), ..model("a/b") }];
        for settings in bad {
            assert_eq!(found(&settings, &[]).unwrap_err().why, Why::Hopeless, "{settings:?}");
        }
    }
}
