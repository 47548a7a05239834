//! The text of a workflow file and its origin.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cursor::FileReader;
use super::fault::{FileFault, FileFaults, SourceLocation};
use super::workflow::Workflow;
use super::yaml;

/// Maximum size of a workflow file.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkflowSource {
    /// The name of the file in messages.
    pub file: Arc<str>,
    /// The folder to which paths in the file are relative.
    pub folder: PathBuf,
    pub text: String,
}

impl WorkflowSource {
    /// Reads a file. A read error is reported like a fault in the file.
    pub fn load(path: &Path) -> Result<WorkflowSource, FileFaults> {
        let file: Arc<str> = path.display().to_string().into();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.to_path_buf();
        match read(path) {
            Ok(text) => Ok(WorkflowSource { file, folder, text }),
            Err(why) => Err(FileFault::new(&beginning(&file), why).into()),
        }
    }

    /// The default name of the workflow.
    pub fn stem(&self) -> String {
        let stem = Path::new(&*self.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| "workflow".to_owned())
    }

    /// Parses the file and collects its faults. Returns a workflow even with faults if possible, so that the rest can be
    /// checked too.
    pub(super) fn parse(&self) -> (Option<Workflow>, FileFaults) {
        let mut reader = FileReader { file: self.file.clone(), text: &self.text, faults: FileFaults::default() };
        let (tree, unreadable) = yaml::read(&self.text);
        if let Some(error) = unreadable {
            let place = SourceLocation { line: error.line, column: error.column, ..beginning(&self.file) };
            let fault = FileFault::new(&place, error.message);
            reader.fault(match error.hint {
                Some(hint) => fault.hint(hint),
                None => fault,
            });
        }
        let workflow = tree.as_ref().and_then(|tree| Workflow::read(&reader.root(tree), &self.folder, &mut reader));
        (workflow, reader.faults)
    }

    pub(super) fn beginning(&self) -> SourceLocation {
        beginning(&self.file)
    }
}

fn beginning(file: &Arc<str>) -> SourceLocation {
    SourceLocation { file: file.clone(), line: 1, column: 1, path: String::new() }
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        _ => format!("cannot be read ({error})"),
    };
    if std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err("is a folder, not a workflow file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes, the limit of a workflow file"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}
