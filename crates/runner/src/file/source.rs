//! The text of a workflow file and where it is from.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cursor::Reader;
use super::fault::{Fault, Faults, SourceLocation};
use super::workflow::Workflow;
use super::yaml;

/// A workflow file is written by people.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// As it is called in messages.
    pub file: Arc<str>,
    /// What files named in it are relative to.
    pub folder: PathBuf,
    pub text: String,
}

impl Source {
    /// Reads a file. One that cannot be read is told like one that is wrong.
    pub fn load(path: &Path) -> Result<Source, Faults> {
        let file: Arc<str> = path.display().to_string().into();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.to_path_buf();
        match read(path) {
            Ok(text) => Ok(Source { file, folder, text }),
            Err(why) => Err(Fault::new(&beginning(&file), why).into()),
        }
    }

    /// What the workflow is called if it does not say so.
    pub fn stem(&self) -> String {
        let stem = Path::new(&*self.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| "workflow".to_owned())
    }

    /// What the file says, and everything that is wrong with how it says it. There is a workflow even if something is wrong,
    /// unless nothing could be made of it, so that more can be found out about the rest.
    pub(super) fn parse(&self) -> (Option<Workflow>, Faults) {
        let mut reader = Reader { file: self.file.clone(), text: &self.text, faults: Faults::default() };
        let (tree, unreadable) = yaml::read(&self.text);
        if let Some(told) = unreadable {
            let place = SourceLocation { line: told.line, column: told.column, ..beginning(&self.file) };
            let fault = Fault::new(&place, told.message);
            reader.fault(match told.hint {
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
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => format!("cannot be read ({error})"),
    };
    if std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err("is a folder, not a workflow file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes, which no workflow file needs"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}
