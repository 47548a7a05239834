//! Reads a stream line by line within bounds: an endless line takes no more memory than a long one.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest part of a line that is passed on. Programs write whole tool results as one line of JSON.
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 16 << 10;

/// A line without its line ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputLine {
    pub text: String,
    /// Number of bytes left out at the end of the line.
    pub cut: usize,
}

/// The result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Line(OutputLine),
    /// The size of a chunk that did not complete a line; it shows that the program is alive.
    Part(usize),
    End,
}

#[derive(Debug)]
pub(super) struct LineReader<R> {
    from: R,
    longest: usize,
    /// Bytes read from the stream.
    waiting: Vec<u8>,
    /// Length of the prefix that was passed on already. It is removed only before the next read: lines are short and many.
    passed: usize,
    /// Length of the prefix that was searched for a line ending.
    searched: usize,
    /// Bytes of the current line that were left out.
    cut: usize,
    ended: bool,
    chunk: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(from: R) -> LineReader<R> {
        LineReader::within(from, MAX_LINE_BYTES)
    }

    fn within(from: R, longest: usize) -> LineReader<R> {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        LineReader { from, longest, waiting: Vec::new(), passed: 0, searched: 0, cut: 0, ended: false, chunk }
    }

    /// Cancel safe: dropping the future loses no data.
    pub(super) async fn next(&mut self) -> ReadOutcome {
        if let Some(line) = self.take() {
            return ReadOutcome::Line(line);
        }
        if self.ended {
            return ReadOutcome::End;
        }
        self.waiting.drain(..self.passed);
        self.searched -= self.passed;
        self.passed = 0;
        match self.from.read(&mut self.chunk).await {
            // A stream that fails is treated as ended.
            Ok(0) | Err(_) => {
                self.ended = true;
                self.take().map_or(ReadOutcome::End, ReadOutcome::Line)
            }
            Ok(length) => {
                self.waiting.extend_from_slice(&self.chunk[..length]);
                ReadOutcome::Part(length)
            }
        }
    }

    fn take(&mut self) -> Option<OutputLine> {
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

    fn line(&mut self, end: usize, next: usize) -> OutputLine {
        let kept = end.min(self.passed + self.longest);
        let cut = std::mem::take(&mut self.cut) + (end - kept);
        let text = &self.waiting[self.passed..kept];
        let text = String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text)).into_owned();
        (self.passed, self.searched) = (next, next);
        OutputLine { text, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], longest: usize) -> (Vec<(String, usize)>, usize) {
        let mut lines = LineReader::within(text, longest);
        let (mut all, mut bytes) = (Vec::new(), 0);
        loop {
            match lines.next().await {
                ReadOutcome::Line(line) => all.push((line.text, line.cut)),
                ReadOutcome::Part(length) => bytes += length,
                ReadOutcome::End => return (all, bytes),
            }
        }
    }

    fn line(text: &str, cut: usize) -> (String, usize) {
        (text.to_owned(), cut)
    }

    #[tokio::test]
    async fn lines_are_read_as_written() {
        assert_eq!(read(b"", 10).await, (vec![], 0));
        assert_eq!(read(b"\n", 10).await, (vec![line("", 0)], 1));
        let four = vec![line("a", 0), line("b", 0), line("", 0), line("last", 0)];
        assert_eq!(read(b"a\r\nb\n\nlast", 10).await, (four, 10));
        assert_eq!(read(b"\xff\xfe\n", 10).await, (vec![line("\u{fffd}\u{fffd}", 0)], 3));
    }

    #[tokio::test]
    async fn long_line_is_cut_and_the_next_is_whole() {
        assert_eq!(read(b"abcdef\nxy\n", 4).await.0, [line("abcd", 2), line("xy", 0)]);
        let mut endless = vec![b'x'; 100_000];
        endless.extend_from_slice(b"\nend");
        assert_eq!(read(&endless, 4).await, (vec![line("xxxx", 99_996), line("end", 0)], 100_004));
        assert_eq!(read(&[b'x'; 100_000], 4).await, (vec![line("xxxx", 99_996)], 100_000));
    }

    #[tokio::test]
    async fn cancelled_read_loses_no_data() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = LineReader::new(reader);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"half").await.unwrap();
        assert_eq!(lines.next().await, ReadOutcome::Part(4));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await.is_err());
        tokio::io::AsyncWriteExt::write_all(&mut writer, b" and half\n").await.unwrap();
        assert_eq!(lines.next().await, ReadOutcome::Part(10));
        assert_eq!(lines.next().await, ReadOutcome::Line(OutputLine { text: "half and half".to_owned(), cut: 0 }));
    }
}
