//! Parses a stream of bytes into server-sent events, independent of its chunks.

/// An event with data. `id` is the position to resume after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub data: String,
}

/// The longest line that the daemon sends.
const MAX_LINE_BYTES: usize = 8 << 20;

/// The stream sent a line that is too long.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the event stream sent a line of more than {MAX_LINE_BYTES} bytes")]
pub struct LineTooLong;

/// Collects bytes and returns the events that they complete.
#[derive(Debug, Default)]
pub struct Parser {
    pending: Vec<u8>,
    id: Option<String>,
    data: Vec<String>,
}

impl Parser {
    /// Takes the next bytes and returns the events that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, LineTooLong> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(piece);
            if self.pending.len() > MAX_LINE_BYTES {
                return Err(LineTooLong);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.pending);
                let line = String::from_utf8_lossy(&line);
                events.extend(self.line(line.trim_end_matches(['\n', '\r'])));
            }
        }
        Ok(events)
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| SseEvent { id: self.id.clone(), data: data.join("\n") });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.data.push(value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments keep the connection alive; other fields are unused.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\n\nid: log:1\ndata: {\"a\":1}\n\ndata: x\r\ndata:  y\r\n\r\nevent: z\nid: log:3\n\n:\n\ndata\n\n";

    fn expected() -> Vec<SseEvent> {
        let event = |id: &str, data: &str| SseEvent { id: Some(id.into()), data: data.into() };
        vec![event("log:1", "{\"a\":1}"), event("log:1", "x\n y"), event("log:3", "")]
    }

    #[test]
    fn events_do_not_depend_on_chunks() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let events: Vec<SseEvent> =
                STREAM.as_bytes().chunks(size).flat_map(|chunk| parser.feed(chunk).unwrap()).collect();
            assert_eq!(events, expected(), "chunks of {size}");
        }
    }

    #[test]
    fn text_is_not_broken_between_chunks() {
        let mut parser = Parser::default();
        let bytes = "data: ü\n\n".as_bytes();
        assert!(parser.feed(&bytes[..7]).unwrap().is_empty());
        assert_eq!(parser.feed(&bytes[7..]).unwrap()[0].data, "ü");
    }

    #[test]
    fn event_without_its_empty_line_is_not_returned() {
        let mut parser = Parser::default();
        assert!(parser.feed(b"id: 1\ndata: half\n").unwrap().is_empty());
    }

    #[test]
    fn line_without_end_is_rejected() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(&vec![b'x'; MAX_LINE_BYTES + 1]), Err(LineTooLong));
    }
}
