//! Reads a stream line by line, within bounds: a line that never ends takes no more memory than a long one.

use tokio::io::{AsyncRead, AsyncReadExt};

/// More of a line than this is not passed on. Programs write whole tool results as one line of JSON.
pub(super) const LINE_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 16 << 10;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub text: String,
    /// How many of its bytes were left out.
    pub cut: usize,
}

/// What came of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Line(Line),
    /// So many bytes of which no line is whole yet: a sign of life.
    Part(usize),
    End,
}

#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    longest: usize,
    /// What was read.
    waiting: Vec<u8>,
    /// How much of it was passed on. It is thrown away only when more is read: most lines are short, and there are many.
    passed: usize,
    /// How far it is known to have no end of a line.
    searched: usize,
    /// How much of the line that is being read was left out.
    cut: usize,
    ended: bool,
    chunk: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn of(from: R) -> Lines<R> {
        Lines::within(from, LINE_BYTES)
    }

    fn within(from: R, longest: usize) -> Lines<R> {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Lines { from, longest, waiting: Vec::new(), passed: 0, searched: 0, cut: 0, ended: false, chunk }
    }

    /// Nothing is lost if it is not waited for to the end.
    pub(super) async fn next(&mut self) -> Read {
        if let Some(line) = self.take() {
            return Read::Line(line);
        }
        if self.ended {
            return Read::End;
        }
        self.waiting.drain(..self.passed);
        self.searched -= self.passed;
        self.passed = 0;
        match self.from.read(&mut self.chunk).await {
            // A stream that fails has no more to say than one that ended.
            Ok(0) | Err(_) => {
                self.ended = true;
                self.take().map_or(Read::End, Read::Line)
            }
            Ok(length) => {
                self.waiting.extend_from_slice(&self.chunk[..length]);
                Read::Part(length)
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        let end = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
        if let Some(end) = end {
            return Some(self.line(end, end + 1));
        }
        let most = self.passed + self.longest;
        if self.waiting.len() > most {
            self.cut += self.waiting.len() - most;
            self.waiting.truncate(most);
        }
        self.searched = self.waiting.len();
        (self.ended && self.passed < self.waiting.len()).then(|| self.line(self.waiting.len(), self.waiting.len()))
    }

    fn line(&mut self, end: usize, next: usize) -> Line {
        let kept = end.min(self.passed + self.longest);
        let cut = std::mem::take(&mut self.cut) + (end - kept);
        let text = &self.waiting[self.passed..kept];
        let text = String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text)).into_owned();
        (self.passed, self.searched) = (next, next);
        Line { text, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], longest: usize) -> (Vec<(String, usize)>, usize) {
        let mut lines = Lines::within(text, longest);
        let (mut all, mut bytes) = (Vec::new(), 0);
        loop {
            match lines.next().await {
                Read::Line(line) => all.push((line.text, line.cut)),
                Read::Part(length) => bytes += length,
                Read::End => return (all, bytes),
            }
        }
    }

    fn line(text: &str, cut: usize) -> (String, usize) {
        (text.to_owned(), cut)
    }

    #[tokio::test]
    async fn lines_come_as_they_were_written() {
        assert_eq!(read(b"", 10).await, (vec![], 0));
        assert_eq!(read(b"\n", 10).await, (vec![line("", 0)], 1));
        let four = vec![line("a", 0), line("b", 0), line("", 0), line("last", 0)];
        assert_eq!(read(b"a\r\nb\n\nlast", 10).await, (four, 10));
        assert_eq!(read(b"\xff\xfe\n", 10).await, (vec![line("\u{fffd}\u{fffd}", 0)], 3));
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_is_whole() {
        assert_eq!(read(b"abcdef\nxy\n", 4).await.0, [line("abcd", 2), line("xy", 0)]);
        let mut endless = vec![b'x'; 100_000];
        endless.extend_from_slice(b"\nend");
        assert_eq!(read(&endless, 4).await, (vec![line("xxxx", 99_996), line("end", 0)], 100_004));
        assert_eq!(read(&[b'x'; 100_000], 4).await, (vec![line("xxxx", 99_996)], 100_000));
    }

    #[tokio::test]
    async fn who_stops_waiting_loses_nothing() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::of(reader);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"half").await.unwrap();
        assert_eq!(lines.next().await, Read::Part(4));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await.is_err());
        tokio::io::AsyncWriteExt::write_all(&mut writer, b" and half\n").await.unwrap();
        assert_eq!(lines.next().await, Read::Part(10));
        assert_eq!(lines.next().await, Read::Line(Line { text: "half and half".to_owned(), cut: 0 }));
    }
}
