//! Parses as much of PostgreSQL's protocol as it takes to recognize a COMMIT and its answer.

use std::collections::{HashMap, VecDeque};

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const SYNC_MESSAGE: &[u8] = &[b'S', 0, 0, 0, 4];

/// The kind of a client's message, as far as the proxy cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// Asks for encryption. The answer is one byte, not a message.
    EncryptionRequest,
    /// The first real message. Its answer, like that of the next two kinds, ends with ReadyForQuery.
    Startup,
    Query(Statement),
    Sync,
    /// Runs a portal. It is answered together with the next Sync.
    Execute(Statement),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Begin,
    BeginReadOnly,
    /// Ends a transaction that may have written.
    Commit,
    Other,
}

impl Statement {
    /// Classifies a text by its last statement.
    fn of(sql: &[u8]) -> Statement {
        let sql = String::from_utf8_lossy(sql);
        let last = sql.rsplit(';').map(str::trim).find(|statement| !statement.is_empty());
        let last = last.unwrap_or_default().to_ascii_uppercase();
        let begins = last.starts_with("BEGIN") || last.starts_with("START TRANSACTION");
        match last.as_str() {
            "COMMIT" => Statement::Commit,
            _ if begins && last.contains("READ ONLY") => Statement::BeginReadOnly,
            _ if begins => Statement::Begin,
            _ => Statement::Other,
        }
    }
}

impl MessageKind {
    pub(super) fn is_commit(self) -> bool {
        matches!(self, MessageKind::Query(Statement::Commit) | MessageKind::Execute(Statement::Commit))
    }

    /// The bytes after which the server answers this message, even if the client sends nothing more.
    pub(super) fn completion(self) -> &'static [u8] {
        if matches!(self, MessageKind::Execute(_)) { SYNC_MESSAGE } else { &[] }
    }
}

/// Splits the client's bytes into messages, and remembers prepared statements.
#[derive(Debug, Default)]
pub(super) struct Client {
    buffer: Vec<u8>,
    started: bool,
    application: String,
    /// Whether the transaction is read-only.
    is_read_only: bool,
    statements: HashMap<Vec<u8>, Statement>,
    portals: HashMap<Vec<u8>, Statement>,
}

impl Client {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The client's `application_name`.
    pub(super) fn application(&self) -> &str {
        &self.application
    }

    /// Returns the next complete message with its bytes.
    pub(super) fn next(&mut self) -> Option<(MessageKind, Vec<u8>)> {
        if !self.started {
            return self.next_before_start();
        }
        let message = take_message(&mut self.buffer)?;
        Some((self.classify(message[0], &message[5..]), message))
    }

    /// Returns a message of the start, which has no type byte.
    fn next_before_start(&mut self) -> Option<(MessageKind, Vec<u8>)> {
        let length = number_at(&self.buffer, 0)?;
        let code = number_at(&self.buffer, 4)?;
        let message = take(&mut self.buffer, usize::try_from(length).ok()?)?;
        if matches!(code, SSL_REQUEST | GSS_REQUEST) {
            return Some((MessageKind::EncryptionRequest, message));
        }
        self.started = true;
        self.application = application_in(&message[8..]);
        Some((MessageKind::Startup, message))
    }

    fn classify(&mut self, kind: u8, body: &[u8]) -> MessageKind {
        let mut strings = body.split(|byte| *byte == 0);
        let first = strings.next().unwrap_or_default();
        match kind {
            b'Q' => MessageKind::Query(self.track_transaction(Statement::of(first))),
            // A function call is answered like a query.
            b'F' => MessageKind::Query(Statement::Other),
            b'S' => MessageKind::Sync,
            b'E' => MessageKind::Execute(self.track_transaction(statement_named(&self.portals, first))),
            b'P' => {
                let statement = Statement::of(strings.next().unwrap_or_default());
                self.statements.insert(first.to_vec(), statement);
                MessageKind::Other
            }
            b'B' => {
                let statement = statement_named(&self.statements, strings.next().unwrap_or_default());
                self.portals.insert(first.to_vec(), statement);
                MessageKind::Other
            }
            _ => MessageKind::Other,
        }
    }

    /// Tracks the transaction. The end of a read-only transaction does not count as a COMMIT.
    fn track_transaction(&mut self, statement: Statement) -> Statement {
        match statement {
            Statement::Begin => self.is_read_only = false,
            Statement::BeginReadOnly => self.is_read_only = true,
            Statement::Commit if std::mem::take(&mut self.is_read_only) => return Statement::Other,
            Statement::Commit | Statement::Other => {}
        }
        statement
    }
}

/// Finds the application name among the names and values of a startup message.
fn application_in(parameters: &[u8]) -> String {
    let fields: Vec<_> = parameters.split(|byte| *byte == 0).collect();
    let pair = fields.chunks(2).find(|pair| pair[0] == b"application_name");
    pair.and_then(|pair| pair.get(1)).map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
}

fn statement_named(names: &HashMap<Vec<u8>, Statement>, name: &[u8]) -> Statement {
    names.get(name).copied().unwrap_or(Statement::Other)
}

/// Splits the server's bytes into messages.
#[derive(Debug, Default)]
pub(super) struct Server {
    buffer: Vec<u8>,
}

impl Server {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self, exchange: &Exchange) -> Option<Vec<u8>> {
        if exchange.byte_answers > 0 { take(&mut self.buffer, 1) } else { take_message(&mut self.buffer) }
    }
}

/// How to treat a message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Withhold,
    /// The last message of a withheld answer.
    WithholdAndCut,
    /// The connection is encrypted from here on, and cannot be parsed.
    Encrypted,
}

/// Tracks unanswered requests, and the answer from which on the client receives nothing.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    byte_answers: usize,
    /// Requests without an answer.
    unanswered: VecDeque<MessageKind>,
    answered: u64,
    first_withheld: Option<u64>,
}

impl Exchange {
    /// Notes a message to the server.
    pub(super) fn ask(&mut self, kind: MessageKind) {
        match kind {
            MessageKind::EncryptionRequest => self.byte_answers += 1,
            MessageKind::Startup | MessageKind::Query(_) | MessageKind::Sync => self.unanswered.push_back(kind),
            MessageKind::Execute(_) | MessageKind::Other => {}
        }
    }

    /// Withholds the answer to the next request, and everything after it.
    pub(super) fn withhold_next(&mut self) {
        self.first_withheld = Some(self.answered + self.unanswered.len() as u64);
    }

    /// Decides about a message from the server.
    pub(super) fn judge(&mut self, message: &[u8]) -> Fate {
        if self.byte_answers > 0 {
            self.byte_answers -= 1;
            return if message == b"N" { Fate::Pass } else { Fate::Encrypted };
        }
        let withheld = self.first_withheld.is_some_and(|first| self.answered >= first);
        match message.first() {
            Some(b'Z') => {
                self.finish_answer();
                if withheld { Fate::WithholdAndCut } else { Fate::Pass }
            }
            Some(b'G') => {
                self.begin_copy();
                if withheld { Fate::Withhold } else { Fate::Pass }
            }
            _ if withheld => Fate::Withhold,
            _ => Fate::Pass,
        }
    }

    fn finish_answer(&mut self) {
        self.unanswered.pop_front();
        self.answered += 1;
    }

    /// During a copy the server ignores a Sync, and answers the one after the data.
    fn begin_copy(&mut self) {
        if self.unanswered.front() == Some(&MessageKind::Sync) {
            self.finish_answer();
        }
    }
}

/// Takes a message with a type byte and a length, which counts itself but not the type.
fn take_message(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = usize::try_from(number_at(buffer, 1)?).ok()?;
    take(buffer, length.max(4) + 1)
}

fn take(buffer: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    (buffer.len() >= length).then(|| buffer.drain(..length).collect())
}

fn number_at(buffer: &[u8], start: usize) -> Option<i32> {
    let bytes = buffer.get(start..start + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn first(code: i32, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 8).unwrap().to_be_bytes();
        [&length[..], &code.to_be_bytes(), body].concat()
    }

    fn started_client() -> Client {
        let mut client = Client::default();
        client.push(&first(196_608, b"user\0rookery\0\0"));
        assert_eq!(client.next().unwrap().0, MessageKind::Startup);
        client
    }

    fn all_kinds(client: &mut Client) -> Vec<MessageKind> {
        std::iter::from_fn(|| client.next()).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn commit_is_recognized_by_its_text() {
        use Statement::{Begin, BeginReadOnly, Commit, Other};
        let table = [
            ("COMMIT", Commit),
            (" commit ;", Commit),
            ("INSERT INTO t VALUES (1); Commit", Commit),
            ("BEGIN", Begin),
            ("start transaction isolation level serializable, read only;", BeginReadOnly),
            ("COMMIT; SELECT 1", Other),
            ("SELECT 'COMMIT'", Other),
            ("", Other),
        ];
        for (sql, expected) in table {
            let mut client = started_client();
            client.push(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
            assert_eq!(client.next().unwrap().0, MessageKind::Query(expected), "{sql}");
        }
    }

    #[test]
    fn prepared_commit_counts_when_executed() {
        let mut client = started_client();
        client.push(&message(b'P', b"s1\0COMMIT\0\0\0"));
        client.push(&message(b'P', b"s2\0SELECT 1\0\0\0"));
        client.push(&message(b'S', b""));
        client.push(&message(b'B', b"\0s1\0\0\0\0\0\0\0"));
        client.push(&message(b'E', b"\0\0\0\0\0"));
        client.push(&message(b'B', b"\0s2\0\0\0\0\0\0\0"));
        client.push(&message(b'E', b"\0\0\0\0\0"));
        let expected = [
            MessageKind::Other,
            MessageKind::Other,
            MessageKind::Sync,
            MessageKind::Other,
            MessageKind::Execute(Statement::Commit),
            MessageKind::Other,
            MessageKind::Execute(Statement::Other),
        ];
        assert_eq!(all_kinds(&mut client), expected);
    }

    #[test]
    fn commit_of_read_only_transaction_does_not_count() {
        use Statement::{Begin, BeginReadOnly, Commit, Other};
        let mut client = started_client();
        for sql in ["BEGIN READ ONLY", "COMMIT", "COMMIT", "BEGIN READ ONLY", "ROLLBACK", "BEGIN", "COMMIT"] {
            client.push(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
        }
        let expected = [BeginReadOnly, Other, Commit, BeginReadOnly, Other, Begin, Commit];
        assert_eq!(all_kinds(&mut client), expected.map(MessageKind::Query));
    }

    #[test]
    fn application_name_is_read_from_startup() {
        let mut client = Client::default();
        client.push(&first(196_608, b"user\0application_name\0application_name\0the writer\0\0"));
        client.next().unwrap();
        assert_eq!((client.application(), started_client().application()), ("the writer", ""));
    }

    #[test]
    fn messages_are_parsed_byte_by_byte() {
        let mut client = Client::default();
        let stream = [first(SSL_REQUEST, b""), first(196_608, b"\0"), message(b'Q', b"COMMIT\0")].concat();
        let mut kinds = vec![];
        for byte in &stream {
            client.push(&[*byte]);
            kinds.extend(all_kinds(&mut client));
        }
        assert_eq!(
            kinds,
            [MessageKind::EncryptionRequest, MessageKind::Startup, MessageKind::Query(Statement::Commit)]
        );
    }

    #[test]
    fn answers_before_the_commit_pass() {
        let mut exchange = Exchange::default();
        exchange.ask(MessageKind::Startup);
        exchange.ask(MessageKind::Query(Statement::Other));
        exchange.withhold_next();
        exchange.ask(MessageKind::Query(Statement::Commit));
        let (ready, complete) = (message(b'Z', b"I"), message(b'C', b"COMMIT\0"));
        let fates = [&ready, &complete, &ready, &complete, &ready].map(|message| exchange.judge(message));
        assert_eq!(fates, [Fate::Pass, Fate::Pass, Fate::Pass, Fate::Withhold, Fate::WithholdAndCut]);
    }

    #[test]
    fn copy_answers_two_syncs_once() {
        let mut exchange = Exchange::default();
        exchange.ask(MessageKind::Sync);
        assert_eq!(exchange.judge(&message(b'G', b"")), Fate::Pass);
        exchange.ask(MessageKind::Sync);
        exchange.withhold_next();
        exchange.ask(MessageKind::Query(Statement::Commit));
        assert_eq!(exchange.judge(&message(b'Z', b"T")), Fate::Pass);
        assert_eq!(exchange.judge(&message(b'Z', b"I")), Fate::WithholdAndCut);
    }
}
