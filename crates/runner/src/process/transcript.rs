//! What a program wrote, kept in a file: all of it if it is short, else its beginning and its end.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::run::Stream;

/// How much is kept of the beginning, and as much of the end.
pub(super) const PART_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Transcript {
    file: BufWriter<File>,
    part: usize,
    /// How much more of the beginning fits.
    room: usize,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Transcript {
    /// Begins the file anew. A link that somebody put there is not followed: it could lead anywhere.
    pub(super) fn begin(path: &Path) -> io::Result<Transcript> {
        Transcript::of_parts(path, PART_BYTES)
    }

    fn of_parts(path: &Path, part: usize) -> io::Result<Transcript> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let open =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link).open(path);
        Ok(Transcript { file: BufWriter::new(open?), part, room: part, tail: VecDeque::new(), left_out: 0 })
    }

    /// Adds a line. What was said for people to read, and not as an answer, is marked.
    pub(super) fn line(&mut self, stream: Stream, text: &str, cut: usize) -> io::Result<()> {
        if stream == Stream::Stderr {
            self.add(b"! ")?;
        }
        self.add(text.as_bytes())?;
        if cut > 0 {
            self.add(format!(" [{cut} more bytes of this line left out]").as_bytes())?;
        }
        self.add(b"\n")
    }

    /// Adds a line of our own.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.add(format!("[{text}]\n").as_bytes())
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (head, rest) = bytes.split_at(bytes.len().min(self.room));
        self.room -= head.len();
        self.file.write_all(head)?;
        // Once something is not part of the beginning, nothing after it is.
        if !rest.is_empty() {
            self.room = 0;
        }
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.part);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
        Ok(())
    }

    /// Writes down the end.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.left_out > 0 {
            writeln!(self.file, "\n[{} bytes left out here]", self.left_out)?;
        }
        let (one, two) = self.tail.as_slices();
        self.file.write_all(one)?;
        self.file.write_all(two)?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(part: usize, lines: &[(Stream, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript");
        std::fs::write(&path, "what another turn said").unwrap();
        let mut transcript = Transcript::of_parts(&path, part).unwrap();
        for (stream, text) in lines {
            transcript.line(*stream, text, 0).unwrap();
        }
        transcript.finish().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn what_is_short_is_kept_whole() {
        let lines = [(Stream::Stdout, "hello"), (Stream::Stderr, "warning"), (Stream::Stdout, "bye")];
        assert_eq!(written(100, &lines), "hello\n! warning\nbye\n");
        assert_eq!(written(10, &lines[..2]), "hello\n! warning\n", "what fits into both parts is whole too");
    }

    #[test]
    fn of_what_is_long_beginning_and_end_are_kept() {
        let lines: Vec<String> = (0..1000).map(|n| format!("{n:03}")).collect();
        let lines: Vec<(Stream, &str)> = lines.iter().map(|line| (Stream::Stdout, line.as_str())).collect();
        assert_eq!(written(8, &lines), "000\n001\n\n[3984 bytes left out here]\n998\n999\n");
    }

    #[test]
    fn a_cut_line_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript");
        let mut transcript = Transcript::begin(&path).unwrap();
        transcript.line(Stream::Stdout, "abc", 7).unwrap();
        transcript.note("ended").unwrap();
        transcript.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "abc [7 more bytes of this line left out]\n[ended]\n");
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("transcript"), folder.path().join("elsewhere"));
        std::fs::write(&elsewhere, "untouched").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Transcript::begin(&path).is_err());
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "untouched");
    }
}
