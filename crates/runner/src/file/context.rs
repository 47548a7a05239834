//! The location of the team's channel and documents: files by default.

use rookery_core::model::context_settings::{CHANNEL, ContextSettings, ENTRY_POINT, Provider};

use super::cursor::{Field, FileReader};
use super::fault::{FileFault, SourceLocation};
use super::shape::{Record, Shape, optional_key, required_key};
use super::template::TextTemplate;

pub(super) const SHAPE: Shape = Shape::Any(&[Shape::Only(false), Shape::Record(&RECORD)]);

pub(super) const RECORD: Record = Record {
    name: "context",
    about: "The location of the channel and the documents. Absent or empty: in files. false: there is no context.",
    keys: &[
        required_key("provider", Shape::Choice(&["file", "memory"]), "file: also as files; memory: only in the daemon"),
        optional_key("config", Shape::Record(&CONFIG), "Settings of the provider file"),
    ],
};

const CONFIG: Record = Record {
    name: "context files",
    about: "The folder of the context and the names of its files.",
    keys: &[
        optional_key("dir", Shape::Text, "The folder, relative to the project; .workflow/${{ instance }}/ if absent"),
        optional_key("channel", Shape::Text, "The file of the channel; channel.md if absent"),
        optional_key("document", Shape::Text, "The entry document; notes.md if absent"),
        optional_key("documents", Shape::List(&Shape::Text), "Further documents"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct ContextConfig {
    pub provider: Provider,
    pub dir: Option<TextTemplate>,
    pub channel: Option<TextTemplate>,
    pub document: Option<TextTemplate>,
    pub documents: Option<Vec<TextTemplate>>,
}

impl Default for ContextConfig {
    fn default() -> ContextConfig {
        ContextConfig::of(Provider::File)
    }
}

impl ContextConfig {
    fn of(provider: Provider) -> ContextConfig {
        ContextConfig { provider, dir: None, channel: None, document: None, documents: None }
    }

    pub(super) fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> ContextConfig {
        match field.flag_value() {
            Some(false) => return ContextConfig::of(Provider::Off),
            Some(true) => {
                let fault = FileFault::new(&field.place, "must be false or a mapping with `provider`").found("`true`");
                reader.fault(fault.hint("leave it out to have a context"));
                return ContextConfig::default();
            }
            None => {}
        }
        let Some(keys) = field.record(reader, &RECORD) else { return ContextConfig::default() };
        let words = [("file", Provider::File), ("memory", Provider::Memory)];
        let provider = keys.get("provider").and_then(|field| field.choice(reader, &words)).unwrap_or(Provider::File);
        let Some(config) = keys.get("config") else { return ContextConfig::of(provider) };
        if let Some(key) = keys.key("config").filter(|_| provider == Provider::Memory) {
            reader.fault(FileFault::new(key, "only the provider `file` has a config").hint("take it away"));
        }
        let Some(keys) = config.record(reader, &CONFIG) else { return ContextConfig::of(provider) };
        let mut template = |name: &str| keys.get(name).and_then(|field| field.template(reader));
        let (dir, channel, document) = (template("dir"), template("channel"), template("document"));
        let documents = keys
            .get("documents")
            .map(|field| field.list(reader).iter().filter_map(|item| item.template(reader)).collect());
        ContextConfig { provider, dir, channel, document, documents }
    }

    pub fn templates(&self) -> impl Iterator<Item = &TextTemplate> {
        let documents = self.documents.iter().flatten();
        self.dir.iter().chain(&self.channel).chain(&self.document).chain(documents)
    }

    /// Converts to the settings for the daemon, with variables filled in.
    pub fn settings(&self, mut fill: impl FnMut(&TextTemplate) -> String) -> ContextSettings {
        ContextSettings {
            provider: Some(self.provider),
            dir: self.dir.as_ref().map(&mut fill),
            channel: self.channel.as_ref().map(&mut fill),
            document: self.document.as_ref().map(&mut fill),
            documents: self.documents.as_ref().map(|all| all.iter().map(&mut fill).collect()),
        }
    }

    /// Splits the settings into single ones with their places, so that each fault is reported at its place.
    pub(super) fn one_by_one(&self, settings: &ContextSettings) -> Vec<(SourceLocation, ContextSettings)> {
        let none = ContextSettings::default();
        let mut alone = Vec::new();
        let own = ContextSettings { channel: settings.channel.clone(), ..none.clone() };
        // A fault of the channel is reported once, not again for every document that is compared with it.
        let channel = settings.channel.clone().filter(|_| own.check().is_ok());
        if let Some(template) = &self.channel {
            alone.push((template.place.clone(), own));
        }
        if let Some(document) = &self.document {
            let one = ContextSettings { document: settings.document.clone(), channel: channel.clone(), ..none.clone() };
            alone.push((document.place.clone(), one));
        }
        let documents = self.documents.iter().flatten().zip(settings.documents.iter().flatten());
        for (template, document) in documents {
            let one =
                ContextSettings { documents: Some(vec![document.clone()]), channel: channel.clone(), ..none.clone() };
            alone.push((template.place.clone(), one));
        }
        alone
    }
}

/// The file of the channel.
pub(super) fn channel(settings: &ContextSettings) -> &str {
    settings.channel.as_deref().unwrap_or(CHANNEL)
}

/// The file of the entry document.
pub(super) fn document(settings: &ContextSettings) -> &str {
    settings.document.as_deref().unwrap_or(ENTRY_POINT)
}
