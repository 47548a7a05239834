//! As much of PostgreSQL's protocol as it takes to see a COMMIT pass by, and to tell which answer is its answer.

use std::collections::{HashMap, VecDeque};

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const SYNC: &[u8] = &[b'S', 0, 0, 0, 4];

/// What a message of a client is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// May we encrypt? Answered by one byte that is no message.
    EncryptionRequest,
    /// The first message proper; like the next two, it is answered up to a ReadyForQuery.
    Startup,
    Query(Statement),
    Sync,
    /// Runs a portal; answered when the next Sync is.
    Execute(Statement),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Begin,
    BeginReadOnly,
    /// Of a transaction that may have written.
    Commit,
    Other,
}

impl Statement {
    /// One text may hold several statements: the last one decides.
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

impl Said {
    pub(super) fn is_commit(self) -> bool {
        matches!(self, Said::Query(Statement::Commit) | Said::Execute(Statement::Commit))
    }

    /// What has to follow this message so that the server answers it even if the client says nothing more.
    pub(super) fn completion(self) -> &'static [u8] {
        if matches!(self, Said::Execute(_)) { SYNC } else { &[] }
    }
}

/// The client's messages, and what the prepared ones mean.
#[derive(Debug, Default)]
pub(super) struct Client {
    buffer: Vec<u8>,
    started: bool,
    application: String,
    /// In a transaction that only reads.
    reading: bool,
    statements: HashMap<Vec<u8>, Statement>,
    portals: HashMap<Vec<u8>, Statement>,
}

impl Client {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The `application_name` that it gave.
    pub(super) fn application(&self) -> &str {
        &self.application
    }

    /// The next whole message, with its bytes as they came.
    pub(super) fn next(&mut self) -> Option<(Said, Vec<u8>)> {
        if !self.started {
            return self.next_before_start();
        }
        let message = take_message(&mut self.buffer)?;
        Some((self.understand(message[0], &message[5..]), message))
    }

    /// The first messages have no type.
    fn next_before_start(&mut self) -> Option<(Said, Vec<u8>)> {
        let length = number_at(&self.buffer, 0)?;
        let code = number_at(&self.buffer, 4)?;
        let message = take(&mut self.buffer, usize::try_from(length).ok()?)?;
        if matches!(code, SSL_REQUEST | GSS_REQUEST) {
            return Some((Said::EncryptionRequest, message));
        }
        self.started = true;
        self.application = application_in(&message[8..]);
        Some((Said::Startup, message))
    }

    fn understand(&mut self, kind: u8, body: &[u8]) -> Said {
        let mut strings = body.split(|byte| *byte == 0);
        let first = strings.next().unwrap_or_default();
        match kind {
            b'Q' => Said::Query(self.run(Statement::of(first))),
            // A function call is answered as a query is.
            b'F' => Said::Query(Statement::Other),
            b'S' => Said::Sync,
            b'E' => Said::Execute(self.run(known(&self.portals, first))),
            b'P' => {
                let statement = Statement::of(strings.next().unwrap_or_default());
                self.statements.insert(first.to_vec(), statement);
                Said::Other
            }
            b'B' => {
                let statement = known(&self.statements, strings.next().unwrap_or_default());
                self.portals.insert(first.to_vec(), statement);
                Said::Other
            }
            _ => Said::Other,
        }
    }

    /// The end of a transaction that only reads is no COMMIT to us: nobody minds losing it.
    fn run(&mut self, statement: Statement) -> Statement {
        match statement {
            Statement::Begin => self.reading = false,
            Statement::BeginReadOnly => self.reading = true,
            Statement::Commit if std::mem::take(&mut self.reading) => return Statement::Other,
            Statement::Commit | Statement::Other => {}
        }
        statement
    }
}

/// From the names and values of a startup message.
fn application_in(parameters: &[u8]) -> String {
    let words: Vec<_> = parameters.split(|byte| *byte == 0).collect();
    let pair = words.chunks(2).find(|pair| pair[0] == b"application_name");
    pair.and_then(|pair| pair.get(1)).map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
}

fn known(names: &HashMap<Vec<u8>, Statement>, name: &[u8]) -> Statement {
    names.get(name).copied().unwrap_or(Statement::Other)
}

/// The server's messages.
#[derive(Debug, Default)]
pub(super) struct Server {
    buffer: Vec<u8>,
}

impl Server {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self, exchange: &Exchange) -> Option<Vec<u8>> {
        if exchange.bare_answers > 0 { take(&mut self.buffer, 1) } else { take_message(&mut self.buffer) }
    }
}

/// What becomes of a message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Withhold,
    /// The last of the answer that was to be withheld.
    WithholdAndCut,
    /// From here on nobody could read along.
    Encrypted,
}

/// Which questions are still to be answered, and from which answer on the client hears nothing more.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    bare_answers: usize,
    /// Questions sent and not yet answered.
    due: VecDeque<Said>,
    answered: u64,
    withheld: Option<u64>,
}

impl Exchange {
    /// This goes to the server.
    pub(super) fn ask(&mut self, said: Said) {
        match said {
            Said::EncryptionRequest => self.bare_answers += 1,
            Said::Startup | Said::Query(_) | Said::Sync => self.due.push_back(said),
            Said::Execute(_) | Said::Other => {}
        }
    }

    /// The answer to the question that is asked next is the first that the client does not get.
    pub(super) fn withhold_next(&mut self) {
        self.withheld = Some(self.answered + self.due.len() as u64);
    }

    /// This came from the server.
    pub(super) fn hear(&mut self, message: &[u8]) -> Fate {
        if self.bare_answers > 0 {
            self.bare_answers -= 1;
            return if message == b"N" { Fate::Pass } else { Fate::Encrypted };
        }
        let withheld = self.withheld.is_some_and(|first| self.answered >= first);
        match message.first() {
            Some(b'Z') => {
                self.settle();
                if withheld { Fate::WithholdAndCut } else { Fate::Pass }
            }
            Some(b'G') => {
                self.copy_begins();
                if withheld { Fate::Withhold } else { Fate::Pass }
            }
            _ if withheld => Fate::Withhold,
            _ => Fate::Pass,
        }
    }

    fn settle(&mut self) {
        self.due.pop_front();
        self.answered += 1;
    }

    /// While it receives a copy the server ignores a Sync; the one after the data is answered.
    fn copy_begins(&mut self) {
        if self.due.front() == Some(&Said::Sync) {
            self.settle();
        }
    }
}

/// A message with a type and a length that counts itself but not the type.
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

    fn started() -> Client {
        let mut client = Client::default();
        client.push(&first(196_608, b"user\0rookery\0\0"));
        assert_eq!(client.next().unwrap().0, Said::Startup);
        client
    }

    fn all(client: &mut Client) -> Vec<Said> {
        std::iter::from_fn(|| client.next()).map(|(said, _)| said).collect()
    }

    #[test]
    fn a_commit_is_known_by_its_text() {
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
            let mut client = started();
            client.push(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
            assert_eq!(client.next().unwrap().0, Said::Query(expected), "{sql}");
        }
    }

    #[test]
    fn a_prepared_commit_is_known_when_it_is_run_and_not_before() {
        let mut client = started();
        client.push(&message(b'P', b"s1\0COMMIT\0\0\0"));
        client.push(&message(b'P', b"s2\0SELECT 1\0\0\0"));
        client.push(&message(b'S', b""));
        client.push(&message(b'B', b"\0s1\0\0\0\0\0\0\0"));
        client.push(&message(b'E', b"\0\0\0\0\0"));
        client.push(&message(b'B', b"\0s2\0\0\0\0\0\0\0"));
        client.push(&message(b'E', b"\0\0\0\0\0"));
        let expected = [
            Said::Other,
            Said::Other,
            Said::Sync,
            Said::Other,
            Said::Execute(Statement::Commit),
            Said::Other,
            Said::Execute(Statement::Other),
        ];
        assert_eq!(all(&mut client), expected);
    }

    #[test]
    fn the_end_of_reading_is_no_commit() {
        use Statement::{Begin, BeginReadOnly, Commit, Other};
        let mut client = started();
        for sql in ["BEGIN READ ONLY", "COMMIT", "COMMIT", "BEGIN READ ONLY", "ROLLBACK", "BEGIN", "COMMIT"] {
            client.push(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
        }
        let expected = [BeginReadOnly, Other, Commit, BeginReadOnly, Other, Begin, Commit];
        assert_eq!(all(&mut client), expected.map(Said::Query));
    }

    #[test]
    fn a_client_tells_its_name() {
        let mut client = Client::default();
        client.push(&first(196_608, b"user\0application_name\0application_name\0the writer\0\0"));
        client.next().unwrap();
        assert_eq!((client.application(), started().application()), ("the writer", ""));
    }

    #[test]
    fn messages_may_come_byte_by_byte() {
        let mut client = Client::default();
        let stream = [first(SSL_REQUEST, b""), first(196_608, b"\0"), message(b'Q', b"COMMIT\0")].concat();
        let mut said = vec![];
        for byte in &stream {
            client.push(&[*byte]);
            said.extend(all(&mut client));
        }
        assert_eq!(said, [Said::EncryptionRequest, Said::Startup, Said::Query(Statement::Commit)]);
    }

    #[test]
    fn only_the_answer_of_the_commit_is_withheld() {
        let mut exchange = Exchange::default();
        exchange.ask(Said::Startup);
        exchange.ask(Said::Query(Statement::Other));
        exchange.withhold_next();
        exchange.ask(Said::Query(Statement::Commit));
        let (ready, complete) = (message(b'Z', b"I"), message(b'C', b"COMMIT\0"));
        let fates = [&ready, &complete, &ready, &complete, &ready].map(|heard| exchange.hear(heard));
        assert_eq!(fates, [Fate::Pass, Fate::Pass, Fate::Pass, Fate::Withhold, Fate::WithholdAndCut]);
    }

    #[test]
    fn a_copy_has_one_answer_for_its_two_syncs() {
        let mut exchange = Exchange::default();
        exchange.ask(Said::Sync);
        assert_eq!(exchange.hear(&message(b'G', b"")), Fate::Pass);
        exchange.ask(Said::Sync);
        exchange.withhold_next();
        exchange.ask(Said::Query(Statement::Commit));
        assert_eq!(exchange.hear(&message(b'Z', b"T")), Fate::Pass);
        assert_eq!(exchange.hear(&message(b'Z', b"I")), Fate::WithholdAndCut);
    }
}
