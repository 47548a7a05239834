//! The team's context as files: what the settings say about it, and what else is in an instance's folder.

use std::path::Path;
use std::sync::Arc;

use rookery_core::Caller;
use rookery_core::instance::{ConfigureContext, ContextSettings, Instance, Scope, TeamContext};
use rookery_engine::rendering::{Generated, Rendering};
use rookery_engine::{Engine, EngineError};
use rookery_store::{Submission, SubmitError};
use serde_json::json;

use crate::cli::Failure;
use crate::config::{Origin, Setting, Settings};
use crate::project::Project;

/// The file that tells programs how to reach the context's tools.
const CONFIGURATION: &str = "mcp.json";

/// How files are rendered for this project.
pub fn rendering(project: &Project, program: &Path) -> Rendering {
    let (root, program) = (project.root().to_owned(), program.to_owned());
    let generated = move |instance: &Instance, _: &TeamContext| {
        vec![Generated { name: CONFIGURATION.to_owned(), text: configuration(&root, &program, instance) }]
    };
    Rendering { state: project.rendered(), generated: Arc::new(generated) }
}

/// What a program needs to start our server by itself, for members of an instance. Always the same bytes for the same.
fn configuration(root: &Path, program: &Path, instance: &Instance) -> String {
    let args = json!(["mcp", "--tools", "context", "--dir", root, "--instance", instance.name()]);
    let server = json!({ "type": "stdio", "command": program, "args": args });
    let whole = json!({ "mcpServers": { "workflow-context": server } });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

/// Puts the project's defaults into the log, where every rule and every node finds them.
pub async fn settle_defaults(engine: &Engine, settings: &Settings) -> anyhow::Result<()> {
    let command = ConfigureContext { scope: Scope::Project, settings: defaults(settings), site: None };
    match engine.store().submit(Submission::internal(Caller::system(), command)).await {
        Ok(_) => Ok(()),
        Err(SubmitError::Refused(refusal)) => {
            let failure = Failure::new(format!("the context cannot be configured so: {}", refusal.message));
            let hint = refusal.hint.unwrap_or_else(|| "mend [context] in rookery.toml".to_owned());
            Err(failure.hint(hint).into())
        }
        // Whatever keeps the store from being written is told where it is asked; what was configured before holds.
        Err(error) => {
            tracing::warn!(error = %EngineError::from(error), "the context's settings were not noted");
            Ok(())
        }
    }
}

/// What somebody set. A default is nobody's word, so that it may change.
fn defaults(settings: &Settings) -> ContextSettings {
    fn said<T: Clone>(setting: &Setting<T>) -> Option<T> {
        (setting.origin != Origin::Default).then(|| setting.value.clone())
    }
    ContextSettings {
        provider: said(&settings.context_provider).map(|provider| provider.0),
        dir: said(&settings.context_dir),
        channel: said(&settings.context_channel),
        document: said(&settings.context_document),
        documents: said(&settings.context_documents),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_what_programs_expect() {
        let text = configuration(Path::new("/p"), Path::new("/bin/rookery"), &Instance::new("pr-123"));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let server = json!({
            "type": "stdio",
            "command": "/bin/rookery",
            "args": ["mcp", "--tools", "context", "--dir", "/p", "--instance", "pr-123"],
        });
        assert_eq!(read, json!({ "mcpServers": { "workflow-context": server } }));
        assert_eq!(text, configuration(Path::new("/p"), Path::new("/bin/rookery"), &Instance::new("pr-123")));
    }
}
