//! Finds a program on the `PATH`, or tells how to install it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::backend::{Failure, Why};
use crate::file::AgentProgram;

/// Finds the program by any of its names, on the `PATH` that it will have itself.
pub(crate) fn find(program: AgentProgram, path: &OsStr) -> Result<PathBuf, Failure> {
    let named = |name: &&str| on(path, name);
    program.names().iter().find_map(named).ok_or_else(|| missing(program))
}

fn on(path: &OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|path| can_be_started(path))
}

fn can_be_started(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn missing(program: AgentProgram) -> Failure {
    let names: Vec<String> = program.names().iter().map(|name| format!("`{name}`")).collect();
    Failure {
        why: Why::Hopeless,
        reason: format!("the program {} is not on the PATH", names.join(" or ")),
        hint: Some(format!("install it with `{}`, then log in once by starting it", how_to_install(program))),
    }
}

fn how_to_install(program: AgentProgram) -> &'static str {
    match program {
        AgentProgram::Claude => "npm install -g @anthropic-ai/claude-code",
        AgentProgram::Codex => "npm install -g @openai/codex",
        // The packages called cursor-agent on npm and PyPI are by other authors.
        AgentProgram::Cursor => "curl https://cursor.com/install -fsS | bash",
        AgentProgram::Opencode => "npm install -g opencode-ai",
        AgentProgram::Gemini => "npm install -g @google/gemini-cli",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn program_is_found_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("agent");
        fs::write(&agent, "").unwrap();
        // A file without permission to execute does not count.
        assert!(find(AgentProgram::Cursor, folder.path().as_os_str()).is_err());
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(AgentProgram::Cursor, folder.path().as_os_str()).unwrap(), agent);
    }

    #[test]
    fn missing_program_has_an_install_hint() {
        for (program, hint) in [
            (AgentProgram::Claude, "npm install -g @anthropic-ai/claude-code"),
            (AgentProgram::Codex, "npm install -g @openai/codex"),
            (AgentProgram::Cursor, "https://cursor.com/install"),
            (AgentProgram::Opencode, "npm install -g opencode-ai"),
            (AgentProgram::Gemini, "npm install -g @google/gemini-cli"),
        ] {
            let failure = find(program, OsStr::new("")).unwrap_err();
            assert_eq!(failure.why, Why::Hopeless);
            assert!(failure.hint.unwrap().contains(hint), "{program:?}");
        }
    }
}
