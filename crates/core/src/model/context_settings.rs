//! What an instance's context is kept in: the provider, the folder and the names of its files.
//!
//! An instance says some of it, the project's defaults say some, and the rest is built in. Everything is in the log, so
//! that every node and every rule knows the same.

use serde::{Deserialize, Serialize};

use super::context_dir::Folder;
use super::document::DocumentId;
use super::document_path::{DocumentPath, DocumentPathProblem};
use super::{Column, ColumnValue, Entity, Key, Row, Undecided, View, context_dir};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, SiteId};
use crate::kernel::instance::Instance;
use crate::kernel::rejection::Rejection;

pub const CHANNEL: &str = "channel.md";

pub const ENTRY_POINT: &str = "notes.md";

pub const FOLDER: &str = ".workflow/${{ instance }}";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Channel and documents are also files in a folder of a site.
    File,
    /// There are no files.
    Memory,
    /// There is no context: nothing is said or written.
    Off,
}

impl Provider {
    pub const EVERY: [Provider; 3] = [Provider::File, Provider::Memory, Provider::Off];

    pub fn as_str(self) -> &'static str {
        match self {
            Provider::File => "file",
            Provider::Memory => "memory",
            Provider::Off => "off",
        }
    }

    pub fn parse(text: &str) -> Option<Provider> {
        Provider::EVERY.into_iter().find(|provider| provider.as_str() == text)
    }
}

/// Whom settings are for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every instance that does not say otherwise.
    Project,
    Instance(RunId),
}

impl Scope {
    pub fn of(instance: &Instance) -> Scope {
        Scope::Instance(instance.run())
    }

    /// As a key: runs have no spaces in their names.
    pub fn text(&self) -> String {
        match self {
            Scope::Project => "project".to_owned(),
            Scope::Instance(run) => format!("instance {run}"),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Scope> {
        match text.split_once(' ') {
            Some(("instance", run)) => Some(Scope::Instance(run.into())),
            _ if text == "project" => Some(Scope::Project),
            _ => None,
        }
    }

    pub fn run(&self) -> Option<&RunId> {
        match self {
            Scope::Project => None,
            Scope::Instance(run) => Some(run),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::Instance(_) => Configured::INSTANCE,
        }
    }
}

/// What may be said about a context; what is not said is as in the next wider scope.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContextSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Relative to the project; `${{ instance }}` stands for the instance's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<String>>,
}

/// Settings as they were made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Configured {
    pub scope: Scope,
    #[serde(flatten)]
    pub settings: ContextSettings,
    /// Whose folder holds the files; every site's if it is not said.
    pub site: Option<SiteId>,
}

impl Entity for Configured {
    type Id = Scope;

    const TABLE: &'static str = "contexts";
    const COLUMNS: &'static [Column] = &[Column::text("scope")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.scope.kind().into()]
    }
}

impl Configured {
    /// What the rows of instances have in their column.
    pub(crate) const INSTANCE: &str = "instance";
}

/// The context of an instance, with everything settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TeamContext {
    pub provider: Provider,
    pub folder: Folder,
    pub channel: String,
    pub document: DocumentPath,
    pub documents: Vec<DocumentPath>,
    pub site: Option<SiteId>,
}

impl TeamContext {
    /// From what the instance says and what the project says.
    pub fn of(instance: &Instance, own: Option<&Configured>, project: Option<&Configured>) -> TeamContext {
        fn said<'a, T>(
            own: Option<&'a Configured>,
            project: Option<&'a Configured>,
            field: impl Fn(&'a ContextSettings) -> Option<T>,
        ) -> Option<T> {
            let own = own.and_then(|own| field(&own.settings));
            own.or_else(|| project.and_then(|project| field(&project.settings)))
        }
        let dir = said(own, project, |settings| settings.dir.as_deref()).unwrap_or(FOLDER);
        let document = said(own, project, |settings| settings.document.as_deref()).unwrap_or(ENTRY_POINT);
        let documents = said(own, project, |settings| settings.documents.as_ref());
        TeamContext {
            provider: said(own, project, |settings| settings.provider).unwrap_or(Provider::File),
            folder: Folder::stored(&context_dir::settled(dir, instance)),
            channel: said(own, project, |settings| settings.channel.clone()).unwrap_or_else(|| CHANNEL.to_owned()),
            document: DocumentPath::stored(document),
            documents: documents.into_iter().flatten().map(|path| DocumentPath::stored(path)).collect(),
            site: own.and_then(|own| own.site.clone()),
        }
    }

    /// Refuses what an instance without a context must not do.
    pub fn check(&self, instance: &Instance) -> Result<(), Rejection> {
        if self.provider != Provider::Off {
            return Ok(());
        }
        Err(Rejection::new(Code::ContextDisabled, format!("the context of instance '{instance}' is turned off")).hint(
            "work without channel, inbox and documents; a person can turn it on with 'rookery context configure'",
        ))
    }

    pub fn is_channel(&self, path: &DocumentPath) -> bool {
        path.as_str().eq_ignore_ascii_case(&self.channel)
    }
}

impl View {
    fn configured(&self, scope: &Scope) -> Result<Option<&Configured>, Undecided> {
        Ok(match self.get(&Key::Context(scope.clone()))? {
            Some(Row::Context(configured)) => Some(configured),
            _ => None,
        })
    }

    /// The context of an instance as the rules see it.
    pub(crate) fn team_context(&self, instance: &Instance) -> Result<TeamContext, Undecided> {
        let (own, project) = (Scope::of(instance), Scope::Project);
        self.ensure_loaded(keys(instance).into_iter().map(Into::into).collect())?;
        Ok(TeamContext::of(instance, self.configured(&own)?, self.configured(&project)?))
    }

    /// Halts where there is no context to speak or write in.
    pub(crate) fn needs_context(&self, instance: &Instance) -> Result<(), Undecided> {
        Ok(self.team_context(instance)?.check(instance)?)
    }

    /// As [`View::needs_context`], for a document that must not be where the channel is kept.
    pub(crate) fn needs_room_for(&self, id: &DocumentId) -> Result<(), Undecided> {
        let instance = Instance::of_run(&id.run);
        let context = self.team_context(&instance)?;
        context.check(&instance)?;
        if context.is_channel(&id.path) {
            return Err(Rejection::from(DocumentPathProblem::Channel).into());
        }
        Ok(())
    }
}

/// The rows that tell the context of an instance.
pub fn keys(instance: &Instance) -> [Key; 2] {
    [Key::Context(Scope::of(instance)), Key::Context(Scope::Project)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(scope: Scope, settings: ContextSettings) -> Configured {
        Configured { scope, settings, site: Some("site_1".into()) }
    }

    #[test]
    fn what_nobody_says_is_built_in() {
        let context = TeamContext::of(&Instance::new("pr-123"), None, None);
        assert_eq!(context.provider, Provider::File);
        assert_eq!(context.folder.as_str(), ".workflow/pr-123");
        assert_eq!((context.channel.as_str(), context.document.as_str()), ("channel.md", "notes.md"));
        assert_eq!((context.documents, context.site), (vec![], None));
    }

    #[test]
    fn an_instance_says_more_than_the_project() {
        let instance = Instance::new("pr-1");
        let own = configured(
            Scope::of(&instance),
            ContextSettings { document: Some("workspace.md".to_owned()), ..ContextSettings::default() },
        );
        let project = configured(
            Scope::Project,
            ContextSettings {
                provider: Some(Provider::Memory),
                dir: Some("team/${{instance}}/".to_owned()),
                document: Some("other.md".to_owned()),
                ..ContextSettings::default()
            },
        );
        let context = TeamContext::of(&instance, Some(&own), Some(&project));
        assert_eq!((context.provider, context.folder.as_str()), (Provider::Memory, "team/pr-1"));
        assert_eq!((context.document.as_str(), context.site), ("workspace.md", Some("site_1".into())));
        assert_eq!(TeamContext::of(&instance, None, Some(&project)).site, None, "a project has many sites");
    }

    #[test]
    fn scopes_read_back_as_written() {
        for scope in [Scope::Project, Scope::Instance("run_a/b".into())] {
            assert_eq!(Scope::parse(&scope.text()), Some(scope));
        }
        assert_eq!(Scope::parse("something"), None);
    }
}
