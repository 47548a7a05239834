//! The team's context as files: what the settings say about it, and what else is in an instance's folder.

use std::path::Path;
use std::sync::Arc;

use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_settings::{ContextSettings, TeamContext};
use rookery_engine::renderer::{GeneratedFile, RendererConfig};
use rookery_engine::{Engine, EngineError, SubmitError};
use serde_json::json;

use crate::cli::Failure;
use crate::config::{Origin, ProjectSettings};
use crate::project::Project;

/// The file that tells programs how to reach the context's tools.
const CONFIGURATION: &str = "mcp.json";

/// How files are rendered for this project.
pub fn renderer_config(project: &Project, program: &Path) -> RendererConfig {
    let (root, program) = (project.root().to_owned(), program.to_owned());
    let generated = move |instance: &Instance, _: &TeamContext| {
        vec![GeneratedFile { name: CONFIGURATION.to_owned(), text: configuration(&root, &program, instance) }]
    };
    RendererConfig { state: project.rendered(), generated: Arc::new(generated) }
}

/// What a program needs to start our server by itself, for members of an instance. Always the same bytes for the same.
fn configuration(root: &Path, program: &Path, instance: &Instance) -> String {
    let args = json!(["mcp", "--tools", "context", "--dir", root, "--instance", instance.name()]);
    let server = json!({ "type": "stdio", "command": program, "args": args });
    let whole = json!({ "mcpServers": { "workflow-context": server } });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

/// Puts the project's defaults into the log, where every rule and every node finds them.
pub async fn settle_defaults(engine: &Engine, settings: &ProjectSettings) -> anyhow::Result<()> {
    match engine.contexts().configure_project(defaults(settings)).await {
        Ok(()) => Ok(()),
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
fn defaults(settings: &ProjectSettings) -> ContextSettings {
    let is_set = |name: &str| *settings.origin(name) != Origin::Default;
    ContextSettings {
        provider: is_set("context_provider").then_some(settings.context_provider),
        dir: is_set("context_dir").then(|| settings.context_dir.clone()),
        channel: is_set("context_channel").then(|| settings.context_channel.clone()),
        document: is_set("context_document").then(|| settings.context_document.clone()),
        documents: is_set("context_documents").then(|| settings.context_documents.clone()),
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
