//! The system prompt of an agent: a text, or a file that contains it. A value of one line that ends in `.md` or `.txt` is a
//! file, relative to the workflow file; any other value is the text itself. Both may have variables.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rookery_core::kernel::limit;

use super::cursor::{Field, FileReader, places};
use super::fault::{FileFault, SourceLocation};
use super::near::nearest;
use super::template::{self, TextTemplate};

const ENDINGS: [&str; 2] = [".md", ".txt"];

#[derive(Clone, PartialEq, Debug)]
pub struct Prompt {
    /// The file that it was read from, as written in the workflow file.
    pub file: Option<String>,
    pub text: TextTemplate,
}

impl Prompt {
    pub(super) fn read(field: &Field<'_>, folder: &Path, reader: &mut FileReader<'_>) -> Option<Prompt> {
        let Some(path) = field.as_text().filter(|text| is_path(text)) else {
            return Some(Prompt { file: None, text: field.template(reader)? });
        };
        let path = path.trim();
        match load(&folder.join(path)) {
            Ok(text) => {
                Some(Prompt { file: Some(path.to_owned()), text: parse_file(&folder.join(path), &text, reader) })
            }
            Err(why) => {
                reader.fault(
                    FileFault::new(&field.place, format!("the file `{path}` {why}")).hint(suggest(folder, path)),
                );
                None
            }
        }
    }
}

fn is_path(text: &str) -> bool {
    let text = text.trim();
    !text.contains('\n') && ENDINGS.iter().any(|ending| text.to_ascii_lowercase().ends_with(ending))
}

/// Reads a file. The error completes a sentence that begins with "the file".
fn load(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read ({error})"),
    };
    // A pipe or a device could block, or never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let most = limit::TEXT_BYTES;
    File::open(path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() > most {
        return Err(format!("is longer than {most} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// Suggests a file with a similar name, or explains where files are searched.
fn suggest(folder: &Path, path: &str) -> String {
    let looked: PathBuf = folder.join(path);
    let name = looked.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let others: Vec<String> =
        looked.parent().and_then(|parent| std::fs::read_dir(parent).ok()).map_or_else(Vec::new, |all| {
            all.take(1_000)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|other| other != name)
                .collect()
        });
    match nearest(name, others.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "paths are relative to the workflow file".to_owned(),
    }
}

/// Parses the text of a file. Variables have their places in that file.
fn parse_file(path: &Path, text: &str, reader: &mut FileReader<'_>) -> TextTemplate {
    let file: Arc<str> = path.display().to_string().into();
    let beginning = SourceLocation { file: file.clone(), line: 1, column: 1, path: String::new() };
    let openings = places(text, template::openings(text), &file, "");
    TextTemplate::read(text, beginning, &openings, &mut reader.faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_line_with_text_extension_is_a_path() {
        for path in ["prompts/reviewer.md", "a.txt", "/x/y.MD", " b.md\n"] {
            assert!(is_path(path), "{path}");
        }
        for text in ["You review.", "Read a.md and\nb.md", "", "reviewer"] {
            assert!(!is_path(text), "{text}");
        }
    }

    #[test]
    fn unreadable_prompt_file_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("good.md"), "text").unwrap();
        std::fs::write(path("bytes.md"), [0xff, 0xfe]).unwrap();
        std::fs::write(path("long.md"), "x".repeat(limit::TEXT_BYTES + 1)).unwrap();
        std::fs::create_dir(path("folder.md")).unwrap();
        assert_eq!(load(&path("good.md")), Ok("text".to_owned()));
        for (name, why) in [
            ("bytes.md", "is not UTF-8"),
            ("long.md", "is longer than 262144 bytes"),
            ("folder.md", "is not a regular file"),
            ("none.md", "does not exist"),
        ] {
            assert_eq!(load(&path(name)), Err(why.to_owned()), "{name}");
        }
        assert_eq!(suggest(folder.path(), "god.md"), "did you mean `good.md`?");
    }
}
