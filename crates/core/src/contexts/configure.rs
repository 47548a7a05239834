//! Configuring the context of an instance, or the defaults of all.

use serde::{Deserialize, Serialize};

use crate::contexts;
use crate::kernel::caller::{Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::SiteId;
use crate::kernel::instance::Instance;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::context_dir::Folder;
use crate::model::context_settings::{Configured, ContextSettings, FOLDER, Scope, TeamContext};
use crate::model::document_path::DocumentPath;
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, Row, RowWriter, Undecided, View, context_dir};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Puts these settings in the place of those before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigureContext {
    pub scope: Scope,
    pub settings: ContextSettings,
    /// Whose folder holds an instance's files; every site's if it is not said.
    pub site: Option<SiteId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContextConfigured {
    pub scope: Scope,
    #[serde(flatten)]
    pub settings: ContextSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

impl Event for ContextConfigured {
    const KIND: &'static str = "context.configured";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.scope.run(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Context(self.scope.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        let ContextConfigured { scope, settings, site } = self.clone();
        rows.put(self.scope.clone(), Configured { scope, settings, site });
    }
}

impl Command for ConfigureContext {
    const NAME: &'static str = "ConfigureContext";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        let scopes = [self.scope.clone(), Scope::Project];
        let keys = scopes.into_iter().map(Key::Context).chain([Key::lead()]).map(ReadItem::from);
        keys.chain([Lookup::configured_instances().into()]).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        cx.view.ensure_authority(cx.caller, "configure a context")?;
        self.settings.check()?;
        let key = Key::Context(self.scope.clone());
        let new = Configured { scope: self.scope.clone(), settings: self.settings.clone(), site: self.site.clone() };
        let known = match cx.view.get(&key)? {
            Some(Row::Context(known)) => Some(known),
            _ => None,
        };
        self.may_set_folder(known, cx.caller)?;
        let same = match known {
            Some(known) => *known == new,
            None => self.settings == ContextSettings::default() && self.scope == Scope::Project,
        };
        if same {
            return Ok(Decision::unchanged(ReplySource::done()));
        }
        let begins = match &self.scope {
            // An instance that goes by the defaults gets its documents when somebody joins it.
            Scope::Project => {
                self.check_defaults(cx.view)?;
                vec![]
            }
            Scope::Instance(run) => {
                let instance = Instance::of_run(run);
                self.check_place(cx.view, &instance)?;
                let context = TeamContext::of(&instance, Some(&new), project(cx.view)?);
                contexts::documents(cx.view, &instance, &context)?
            }
        };
        let Configured { scope, settings, site } = new;
        let mut facts = vec![AnyEvent::new(ContextConfigured { scope, settings, site })];
        facts.extend(begins);
        Ok(Decision::new(facts, ReplySource::done()))
    }
}

impl ConfigureContext {
    /// Only people decide where in their project files appear: the daemon writes there, outside of every sandbox.
    fn may_set_folder(&self, known: Option<&Configured>, caller: &Caller) -> Result<(), Rejection> {
        let before = known.and_then(|known| known.settings.dir.as_deref());
        if caller.power == Authority::Person || self.settings.dir.as_deref() == before {
            return Ok(());
        }
        let hint = match before {
            Some(dir) => format!("send dir as it is, '{dir}', or let a person change it"),
            None => "leave dir out, or let a person set it: rookery context configure --folder …".to_owned(),
        };
        Err(Rejection::new(Code::Forbidden, "only a person may set the folder of a context").hint(hint))
    }

    fn check_defaults(&self, view: &View) -> Result<(), Undecided> {
        let dir = self.settings.dir.as_deref().unwrap_or(FOLDER);
        context_dir::check(dir, &Instance::default())?;
        if !context_dir::tells_instances_apart(dir) {
            return Err(Rejection::new(Code::Invalid, "dir would be the same folder for every instance")
                .hint("put ${{ instance }} into it, for example team/${{ instance }}/")
                .into());
        }
        for (instance, folder) in named(view)? {
            if context_dir::is_given_to_another(&folder, dir, &instance) {
                let what = format!("dir would give the folder of instance '{instance}' to others: {}", folder.as_str());
                return Err(Rejection::new(Code::AlreadyExists, what)
                    .hint(format!(
                        "choose another dir, or first another folder for that instance: rookery context configure \
                         --instance {instance} --folder …"
                    ))
                    .into());
            }
        }
        Ok(())
    }

    /// No two instances have one folder, or one inside of the other's.
    fn check_place(&self, view: &View, instance: &Instance) -> Result<(), Undecided> {
        limit::name("instance", instance.name(), limit::NAME_BYTES)?;
        let Some(dir) = &self.settings.dir else { return Ok(()) };
        let folder = context_dir::check(dir, instance)?;
        let defaults = project(view)?.and_then(|project| project.settings.dir.as_deref()).unwrap_or(FOLDER);
        let others = others(view, instance)?;
        match others.into_iter().find(|(_, taken)| taken.meets(&folder)) {
            None if context_dir::is_given_to_another(&folder, defaults, instance) => {
                let what = "dir is a folder that another instance gets by the project's own dir, or meets one";
                Err(Rejection::new(Code::AlreadyExists, what).hint(format!("choose one outside of {defaults}")).into())
            }
            None => Ok(()),
            Some((other, _)) => Err(Rejection::new(
                Code::AlreadyExists,
                format!("dir is the folder of instance '{other}', or meets it"),
            )
            .hint("choose a folder that no other instance has")
            .into()),
        }
    }
}

/// What the project says.
fn project(view: &View) -> Result<Option<&Configured>, Undecided> {
    Ok(match view.get(&Key::Context(Scope::Project))? {
        Some(Row::Context(project)) => Some(project),
        _ => None,
    })
}

/// The instances that were configured.
fn configured(view: &View) -> Result<Vec<(Instance, &Configured)>, Undecided> {
    let of = |row| match row {
        &Row::Context(ref configured @ Configured { scope: Scope::Instance(ref run), .. }) => {
            Some((Instance::of_run(run), configured))
        }
        _ => None,
    };
    Ok(view.all(&Lookup::configured_instances())?.into_iter().filter_map(of).collect())
}

/// The folders of the other instances that were configured.
fn others(view: &View, instance: &Instance) -> Result<Vec<(Instance, Folder)>, Undecided> {
    let project = project(view)?;
    let others = configured(view)?.into_iter().filter(|(other, _)| other != instance);
    let folder = |(other, own)| (TeamContext::of(&other, Some(own), project).folder, other);
    Ok(others.map(folder).map(|(folder, other)| (other, folder)).collect())
}

/// The folders that instances were given by name.
fn named(view: &View) -> Result<Vec<(Instance, Folder)>, Undecided> {
    let folder = |(instance, own): (Instance, &Configured)| {
        let dir = own.settings.dir.as_deref()?;
        let folder = Folder::stored(&context_dir::settled(dir, &instance));
        Some((instance, folder))
    };
    Ok(configured(view)?.into_iter().filter_map(folder).collect())
}

impl ContextSettings {
    /// Whether the names of files are such that documents can have; where the folder is, is for [`ContextSettings::folder`].
    pub fn check(&self) -> Result<(), Rejection> {
        let path = |path: &String| DocumentPath::parse(path).map_err(Rejection::from);
        if let Some(channel) = &self.channel {
            DocumentPath::parse_any(channel)?;
            if channel.contains('/') {
                return Err(Rejection::new(Code::Invalid, "channel must be a file in the instance's folder itself"));
            }
        }
        self.document.as_ref().map(path).transpose()?;
        let documents = self.documents.as_deref().unwrap_or_default();
        limit::list("documents", documents)?;
        documents.iter().try_for_each(|document| path(document).map(drop))?;
        let channel = self.channel.as_deref().unwrap_or(crate::model::context_settings::CHANNEL);
        let mut all = documents.iter().chain(&self.document);
        if all.any(|document| document.eq_ignore_ascii_case(channel)) {
            return Err(Rejection::new(Code::Invalid, "channel and documents must be different files"));
        }
        Ok(())
    }

    /// The folder that these settings mean for an instance, if they may. Whether another instance has it is not known here.
    pub fn folder(&self, instance: &Instance) -> Result<Folder, Rejection> {
        context_dir::check(self.dir.as_deref().unwrap_or(FOLDER), instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{AppendDocument, Base, DeleteDocument, WriteDocument, Writer};
    use crate::model::agent::AgentRole;
    use crate::model::context_settings::Provider;
    use crate::model::document::DocumentId;
    use crate::testing::{World, anna, by, direct, document, entry};

    fn configure(scope: Scope, settings: ContextSettings) -> ConfigureContext {
        ConfigureContext { scope, settings, site: None }
    }

    fn of(instance: &str) -> Scope {
        Scope::of(&Instance::new(instance))
    }

    fn in_dir(dir: &str) -> ContextSettings {
        ContextSettings { dir: Some(dir.to_owned()), ..ContextSettings::default() }
    }

    fn provided(provider: Provider) -> ContextSettings {
        ContextSettings { provider: Some(provider), ..ContextSettings::default() }
    }

    fn write(path: &str) -> WriteDocument {
        let writer = Writer::Named("ada".into());
        WriteDocument { id: document(path), text: "x".to_owned(), writer, base: Base::Unsaid }
    }

    #[test]
    fn only_the_lead_and_people_configure() {
        let mut world = World::of(&["ada", "bob"]);
        let command = || configure(of("pr-1"), provided(Provider::Memory));
        assert_eq!(world.refuses(&by("bob"), command()), Code::Forbidden);
        assert_eq!(world.does(&by("ada"), command()), ["context.configured"]);
        assert_eq!(world.does(&anna(), command()), [""; 0], "nothing is new");
    }

    #[test]
    fn context_folder_set_by_lead_is_rejected() {
        let mut world = World::of(&["ada", "bob"]);
        for dir in ["notes", ".claude", ".workflow/pr-1/deep"] {
            assert_eq!(world.refuses(&by("ada"), configure(of("pr-1"), in_dir(dir))), Code::Forbidden, "{dir}");
        }
        let defaults = configure(Scope::Project, in_dir("notes/${{ instance }}"));
        assert_eq!(world.refuses(&by("ada"), defaults), Code::Forbidden);
        world.does(&anna(), configure(of("pr-1"), in_dir("notes")));
        let kept = ContextSettings { dir: Some("notes".to_owned()), ..provided(Provider::File) };
        assert_eq!(world.does(&by("ada"), configure(of("pr-1"), kept)), ["context.configured"]);
        let refused = world.refuses(&by("ada"), configure(of("pr-1"), provided(Provider::File)));
        assert_eq!(refused, Code::Forbidden, "nor does it lose the folder that a person chose");
    }

    #[test]
    fn context_folder_that_is_hidden_is_rejected_also_for_people() {
        let mut world = World::default();
        for dir in [".claude", ".vscode", "docs/.obsidian", ".github/${{ instance }}"] {
            assert_eq!(world.refuses(&anna(), configure(of("pr-1"), in_dir(dir))), Code::Invalid, "{dir}");
        }
        assert_eq!(world.refuses(&anna(), configure(Scope::Project, in_dir(".x/${{ instance }}"))), Code::Invalid);
    }

    #[test]
    fn folders_are_inside_of_the_project_and_nobody_elses() {
        let mut world = World::default();
        assert_eq!(world.refuses(&anna(), configure(of("a"), in_dir("../out"))), Code::Invalid);
        assert_eq!(world.refuses(&anna(), configure(Scope::Project, in_dir("team"))), Code::Invalid);
        world.does(&anna(), configure(Scope::Project, in_dir("team/${{ instance }}")));
        world.does(&anna(), configure(of("a"), provided(Provider::File)));
        assert_eq!(world.refuses(&anna(), configure(of("b"), in_dir("TEAM/a/sub"))), Code::AlreadyExists);
        world.does(&anna(), configure(of("b"), in_dir("elsewhere")));
        assert_eq!(world.refuses(&anna(), configure(of("c"), in_dir("elsewhere/deep"))), Code::AlreadyExists);
        world.does(&anna(), configure(of("b"), in_dir("elsewhere/deep")));
    }

    #[test]
    fn no_instance_takes_the_folder_that_another_would_get() {
        let mut world = World::default();
        world.does(&anna(), configure(Scope::Project, in_dir("team/${{ instance }}")));
        for taken in ["team/foo", "team", "team/foo/deep", "Team/Foo"] {
            assert_eq!(world.refuses(&anna(), configure(of("bar"), in_dir(taken))), Code::AlreadyExists, "{taken}");
        }
        world.does(&anna(), configure(of("bar"), in_dir("team/bar/deep")));
        world.does(&anna(), configure(of("bar"), in_dir("docs/foo")));
        for taking in ["docs/${{ instance }}", "docs/foo/${{ instance }}", "${{ instance }}/foo"] {
            let refused = world.refuses(&anna(), configure(Scope::Project, in_dir(taking)));
            assert_eq!(refused, Code::AlreadyExists, "{taking}");
        }
        world.does(&anna(), configure(Scope::Project, in_dir("docs/all/${{ instance }}")));
        world.does(&anna(), configure(Scope::Project, ContextSettings::default()));
    }

    #[test]
    fn names_of_files_are_checked() {
        let mut world = World::default();
        let none = ContextSettings::default;
        let some = |text: &str| Some(text.to_owned());
        for bad in [
            ContextSettings { channel: some("talk.log"), ..none() },
            ContextSettings { channel: some("sub/talk.md"), ..none() },
            ContextSettings { channel: some("../talk.md"), ..none() },
            ContextSettings { document: some("notes"), ..none() },
            ContextSettings { document: some("channel.md"), ..none() },
            ContextSettings { channel: some("talk.md"), document: some("Talk.md"), ..none() },
            ContextSettings { documents: Some(vec!["a.md".to_owned(), "/b.md".to_owned()]), ..none() },
        ] {
            assert_eq!(world.refuses(&anna(), configure(of("a"), bad.clone())), Code::Invalid, "{bad:?}");
        }
        let good = ContextSettings {
            channel: some("discussion.md"),
            document: some("workspace.md"),
            documents: Some(vec!["goals.md".to_owned()]),
            ..none()
        };
        world.does(&anna(), configure(of("a"), good));
    }

    #[test]
    fn an_instance_begins_with_the_documents_that_are_configured_for_it() {
        let mut world = World::of(&["ada"]);
        let listing = |names: &[&str]| ContextSettings {
            documents: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..ContextSettings::default()
        };
        world.does(&by("ada"), write("todos.md"));
        world.does(&by("ada"), write("old.md"));
        let gone = DeleteDocument { id: document("old.md"), writer: Writer::Named("ada".into()), base: Base::Unsaid };
        world.does(&by("ada"), gone);
        let names = ["goals.md", "todos.md", "old.md", "goals.md"];
        let facts = world.does(&anna(), configure(of("default"), listing(&names)));
        assert_eq!(facts, ["context.configured", "document.written"], "each once, and only what never was");
        let goals = world.document(&document("goals.md"));
        assert_eq!((goals.version, goals.bytes, goals.author.as_str()), (1, 0, "system"));
        assert_eq!(world.text(&document("todos.md"), 1), "x");
        assert!(!world.document(&document("old.md")).is_here());
        assert_eq!(world.rebuilt(), *world.rows());
    }

    #[test]
    fn where_the_projects_defaults_hold_an_instance_begins_with_its_first_member() {
        let mut world = World::default();
        let settings = ContextSettings { documents: Some(vec!["goals.md".to_owned()]), ..provided(Provider::Memory) };
        assert_eq!(world.does(&anna(), configure(Scope::Project, settings.clone())), ["context.configured"]);
        assert_eq!(
            world.joins("ada@pr-1", AgentRole::Worker),
            ["agent.registered", "document.written", "lead.chosen"],
            "nobody is there before"
        );
        let goals = DocumentId::new(Instance::new("pr-1").run(), DocumentPath::parse("goals.md").unwrap());
        assert!(world.document(&goals).is_here());
        assert_eq!(world.joins("bob@pr-1", AgentRole::Worker), ["agent.registered"]);
        world.does(&anna(), configure(of("pr-2"), provided(Provider::Off)));
        assert_eq!(world.joins("ada@pr-2", AgentRole::Worker), ["agent.registered"], "there is no context");
        let more = ContextSettings { documents: Some(vec!["more.md".to_owned()]), ..settings };
        world.does(&anna(), configure(Scope::Project, more));
        assert_eq!(world.joins("bob@pr-1", AgentRole::Worker), ["document.written"], "also with one that joins again");
    }

    #[test]
    fn where_the_context_is_off_nothing_is_said_or_written() {
        let mut world = World::of(&["ada"]);
        let append =
            AppendDocument { id: document("notes.md"), text: "x".to_owned(), writer: Writer::Named("ada".into()) };
        assert_eq!(world.does(&by("ada"), write("notes.md")), ["document.written"]);
        world.does(&anna(), configure(of("default"), provided(Provider::Off)));
        assert_eq!(world.refuses(&by("ada"), write("notes.md")), Code::ContextDisabled);
        assert_eq!(world.refuses(&by("ada"), append), Code::ContextDisabled);
        assert_eq!(world.refuses(&by("ada"), entry("m1", "ada", "hello")), Code::ContextDisabled);
        assert_eq!(world.refuses(&by("ada"), direct("m3", "ada", &["ada"])), Code::ContextDisabled);
        assert_eq!(world.does(&anna(), direct("m4", "person:anna", &["ada"])), ["message.sent"], "a person is heard");
        assert_eq!(world.does(&by("ada"), entry("m2", "ada@pr-1", "there it is on")), ["message.sent"]);
        world.does(&anna(), configure(of("default"), provided(Provider::Memory)));
        assert_eq!(world.does(&by("ada"), entry("m1", "ada", "hello")), ["message.sent"]);
        assert_eq!(world.does(&by("ada"), write("notes.md")), ["document.written"]);
    }

    #[test]
    fn the_projects_defaults_hold_where_an_instance_says_nothing() {
        let mut world = World::of(&["ada"]);
        world.does(&anna(), configure(Scope::Project, provided(Provider::Off)));
        assert_eq!(world.refuses(&by("ada"), write("notes.md")), Code::ContextDisabled);
        world.does(&anna(), configure(of("default"), provided(Provider::File)));
        assert_eq!(world.does(&by("ada"), write("notes.md")), ["document.written"]);
    }

    #[test]
    fn no_document_is_where_the_channel_is() {
        let mut world = World::of(&["ada"]);
        let settings = ContextSettings { channel: Some("talk.md".to_owned()), ..ContextSettings::default() };
        world.does(&anna(), configure(of("default"), settings));
        assert_eq!(world.refuses(&by("ada"), write("Talk.md")), Code::Invalid);
        assert_eq!(world.does(&by("ada"), write("other.md")), ["document.written"]);
    }
}
