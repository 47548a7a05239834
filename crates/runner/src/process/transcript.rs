//! A file with the output of a program: whole if short, otherwise its beginning and its end.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::run::OutputStream;

/// Size of the beginning that is kept, and of the end.
pub(super) const MAX_PART_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Transcript {
    file: BufWriter<File>,
    part: usize,
    /// Bytes left for the beginning.
    room: usize,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Transcript {
    /// Creates or empties the file. A symbolic link at its path is not followed, since an agent may have put it there.
    pub(super) fn begin(path: &Path) -> io::Result<Transcript> {
        Transcript::of_parts(path, MAX_PART_BYTES)
    }

    fn of_parts(path: &Path, part: usize) -> io::Result<Transcript> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let open =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link).open(path);
        Ok(Transcript { file: BufWriter::new(open?), part, room: part, tail: VecDeque::new(), left_out: 0 })
    }

    /// Appends a line of output. Lines of standard error are marked.
    pub(super) fn line(&mut self, stream: OutputStream, text: &str, cut: usize) -> io::Result<()> {
        if stream == OutputStream::Stderr {
            self.add(b"! ")?;
        }
        self.add(text.as_bytes())?;
        if cut > 0 {
            self.add(format!(" [{cut} more bytes of this line left out]").as_bytes())?;
        }
        self.add(b"\n")
    }

    /// Appends a remark of the runner.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.add(format!("[{text}]\n").as_bytes())
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (head, rest) = bytes.split_at(bytes.len().min(self.room));
        self.room -= head.len();
        self.file.write_all(head)?;
        // Once some bytes go to the end, all later ones do.
        if !rest.is_empty() {
            self.room = 0;
        }
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.part);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
        Ok(())
    }

    /// Writes the end and flushes the file.
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

    fn written(part: usize, lines: &[(OutputStream, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript");
        std::fs::write(&path, "output of another turn").unwrap();
        let mut transcript = Transcript::of_parts(&path, part).unwrap();
        for (stream, text) in lines {
            transcript.line(*stream, text, 0).unwrap();
        }
        transcript.finish().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn short_output_is_kept_whole() {
        let lines = [(OutputStream::Stdout, "hello"), (OutputStream::Stderr, "warning"), (OutputStream::Stdout, "bye")];
        assert_eq!(written(100, &lines), "hello\n! warning\nbye\n");
        assert_eq!(written(10, &lines[..2]), "hello\n! warning\n", "output that fits into both parts is whole too");
    }

    #[test]
    fn long_output_keeps_its_beginning_and_end() {
        let lines: Vec<String> = (0..1000).map(|n| format!("{n:03}")).collect();
        let lines: Vec<(OutputStream, &str)> = lines.iter().map(|line| (OutputStream::Stdout, line.as_str())).collect();
        assert_eq!(written(8, &lines), "000\n001\n\n[3984 bytes left out here]\n998\n999\n");
    }

    #[test]
    fn cut_line_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript");
        let mut transcript = Transcript::begin(&path).unwrap();
        transcript.line(OutputStream::Stdout, "abc", 7).unwrap();
        transcript.note("ended").unwrap();
        transcript.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "abc [7 more bytes of this line left out]\n[ended]\n");
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("transcript"), folder.path().join("elsewhere"));
        std::fs::write(&elsewhere, "untouched").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Transcript::begin(&path).is_err());
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "untouched");
    }
}
