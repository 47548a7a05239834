//! Rendering large JSON answers into chunks, one row at a time, while the store reads the rows.

use std::io::{self, Write};

use axum::body::Bytes;
use rookery_core::{Code, Row};
use rookery_engine::RowVisitor;
use serde::Serialize;

use super::error::HttpError;

/// The size of a chunk, which is also the most that is buffered for one reader.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Renders JSON into chunks.
#[derive(Debug, Default)]
pub struct AnswerWriter {
    chunks: Vec<Bytes>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl AnswerWriter {
    pub fn text(&mut self, text: &str) -> &mut AnswerWriter {
        self.push(text.as_bytes());
        self
    }

    /// A value as JSON.
    pub fn value<T: Serialize>(&mut self, value: &T) -> Result<&mut AnswerWriter, HttpError> {
        serde_json::to_writer(&mut *self, value).map_err(|error| unrenderable(&error))?;
        Ok(self)
    }

    /// Appends an array without copying it.
    pub fn array(&mut self, array: JsonArray) -> Result<&mut AnswerWriter, HttpError> {
        let mut array = array.close()?;
        array.end_chunk();
        self.end_chunk();
        self.chunks.append(&mut array.chunks);
        self.bytes += array.bytes;
        Ok(self)
    }

    /// The chunks, and how many bytes they have together.
    pub fn finish(mut self) -> (Vec<Bytes>, u64) {
        self.end_chunk();
        (self.chunks, self.bytes)
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.buffer.capacity() == 0 {
                self.buffer.reserve_exact(CHUNK_BYTES);
            }
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = rest;
            if self.buffer.len() == CHUNK_BYTES {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        if !self.buffer.is_empty() {
            let mut chunk = std::mem::take(&mut self.buffer);
            chunk.shrink_to_fit();
            self.chunks.push(Bytes::from(chunk));
        }
    }
}

impl Write for AnswerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unrenderable(error: &serde_json::Error) -> HttpError {
    HttpError::new(Code::Internal, format!("the answer cannot be rendered: {error}"))
}

/// A JSON array that is rendered value by value.
#[derive(Debug, Default)]
pub struct JsonArray {
    writer: AnswerWriter,
    failed: Option<serde_json::Error>,
}

impl JsonArray {
    pub fn push<T: Serialize>(&mut self, value: &T) {
        self.writer.text(if self.writer.bytes == 0 { "[" } else { "," });
        if let Err(error) = serde_json::to_writer(&mut self.writer, value) {
            self.failed = Some(error);
        }
    }

    fn close(mut self) -> Result<AnswerWriter, HttpError> {
        match self.failed {
            Some(error) => Err(unrenderable(&error)),
            None => {
                self.writer.text(if self.writer.bytes == 0 { "[]" } else { "]" });
                Ok(self.writer)
            }
        }
    }
}

/// Renders the rows of one kind as a JSON array.
#[derive(Debug)]
pub struct ListRendering<T> {
    pub array: JsonArray,
    /// The entry for a row; `None` leaves it out.
    entry: fn(Row) -> Option<T>,
}

impl<T> ListRendering<T> {
    pub fn new(entry: fn(Row) -> Option<T>) -> ListRendering<T> {
        ListRendering { array: JsonArray::default(), entry }
    }
}

impl<T: Serialize> RowVisitor for ListRendering<T> {
    fn begin(&mut self) {
        self.array = JsonArray::default();
    }

    fn visit(&mut self, row: Row) {
        if let Some(entry) = (self.entry)(row) {
            self.array.push(&entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(writer: AnswerWriter) -> String {
        let (chunks, bytes) = writer.finish();
        let text = String::from_utf8(chunks.concat()).unwrap();
        assert_eq!(text.len() as u64, bytes);
        text
    }

    #[test]
    fn array_of_values_is_rendered_between_texts() {
        for (count, expected) in [(0, "{\"a\":[]}"), (1, "{\"a\":[0]}"), (3, "{\"a\":[0,1,2]}")] {
            let mut array = JsonArray::default();
            (0..count).for_each(|number| array.push(&number));
            let mut writer = AnswerWriter::default();
            writer.text("{\"a\":").array(array).unwrap().text("}");
            assert_eq!(text_of(writer), expected);
        }
    }

    #[test]
    fn rows_rendered_before_a_read_began_again_do_not_count() {
        let mut list = ListRendering::new(|row| if let Row::Lead(lead) = row { Some(lead.holder) } else { None });
        for _ in 0..2 {
            list.begin();
            list.visit(Row::Lead(Default::default()));
        }
        let mut writer = AnswerWriter::default();
        writer.array(list.array).unwrap();
        assert_eq!(text_of(writer), "[null]");
    }
}
